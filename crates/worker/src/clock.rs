//! The ledger's clock as seen from here: sampled, then carried on by our own monotonic clock.
//!
//! A last look asks this clock, so that it needs no round trip. A frozen process wakes with the right time: monotonic time goes on meanwhile.
//! It has two ends: who must not be late asks for `now`, the latest that the ledger's clock can say; who must not be early for `surely`.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use curfew_courier::Machine;
use curfew_domain::Moment;
use curfew_ledger::clock::Reading;
use curfew_ledger::{Ledger, LedgerError};
use tokio::time::Instant;

/// Parts of a million by which our clock and the ledger's may drift apart between two samples. A sample can be as old as a lease: without the
/// ledger none is renewed, and no last look passes. That makes less than a second in the longest.
const DRIFT_PPM: u32 = 1_000;

/// The ledger's clock, carried on.
pub struct LedgerClock {
    machine: Arc<dyn Machine>,
    sample: Mutex<Sample>,
}

/// What the ledger's clock said, and when it was asked for by both of our clocks.
#[derive(Clone, Copy, Debug)]
struct Sample {
    reading: Reading,
    asked: Instant,
    asked_by_the_system: SystemTime,
    answered: Instant,
}

impl LedgerClock {
    /// From a first sample.
    ///
    /// # Errors
    /// `LedgerError`: no worker starts without the ledger's time.
    pub async fn start(ledger: &dyn Ledger, machine: Arc<dyn Machine>) -> Result<Self, LedgerError> {
        let first = Mutex::new(sample(ledger, &*machine).await?);
        Ok(Self { machine, sample: first })
    }

    /// Samples again.
    ///
    /// # Errors
    /// `LedgerError`: the old sample goes on.
    pub async fn refresh(&self, ledger: &dyn Ledger) -> Result<(), LedgerError> {
        let fresh = sample(ledger, &*self.machine).await?;
        *self.sample.lock().expect("no holder panics") = fresh;
        Ok(())
    }

    /// The latest that the ledger's clock says now: no last look says yes too late. What is too early by it, the ledger's own guards refuse.
    ///
    /// Monotonic time stands still while a machine sleeps, and the system's clock may step: the one that says more has passed rules, so that no
    /// deadline is missed between two samples.
    pub fn now(&self) -> Moment {
        let sample = *self.sample.lock().expect("no holder panics");
        let by_the_system = self.machine.system_time().duration_since(sample.asked_by_the_system).unwrap_or_default();
        let passed = sample.asked.elapsed().max(by_the_system);
        sample.reading.latest.plus(passed + drift(passed))
    }

    /// The earliest that the ledger's clock says now: what is due by it is due.
    pub fn surely(&self) -> Moment {
        let sample = *self.sample.lock().expect("no holder panics");
        let passed = sample.answered.elapsed();
        sample.reading.earliest.plus(passed.saturating_sub(drift(passed)))
    }

    /// When the ledger's clock will read `moment`, on our monotonic clock; rather earlier than later.
    pub fn instant_of(&self, moment: Moment) -> Instant {
        Instant::now() + moment.since(self.now()).min(Duration::from_secs(86_400 * 365))
    }
}

fn drift(passed: Duration) -> Duration {
    passed / 1_000_000 * DRIFT_PPM
}

/// The clock was read between the question and its answer, or is known from samples between them.
async fn sample(ledger: &dyn Ledger, machine: &dyn Machine) -> Result<Sample, LedgerError> {
    let (asked, asked_by_the_system) = (Instant::now(), machine.system_time());
    let reading = ledger.reading().await?;
    Ok(Sample { reading, asked, asked_by_the_system, answered: Instant::now() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn clock(monotonic: Duration, system: Duration) -> LedgerClock {
        let at = Instant::now().checked_sub(monotonic).expect("this machine has been up for that long");
        let reading = Reading::exact(Moment::from_millis(0));
        let sample = Sample { reading, asked: at, asked_by_the_system: SystemTime::now() - system, answered: at };
        LedgerClock { machine: Arc::new(curfew_courier::ThisMachine), sample: Mutex::new(sample) }
    }

    #[test]
    fn time_that_only_the_systems_clock_saw_pass_counts_where_nothing_may_be_late() {
        let asleep = clock(Duration::ZERO, HOUR);
        assert!(asleep.now() >= Moment::from_millis(0).plus(HOUR));
        assert!(asleep.surely() < Moment::from_millis(0).plus(Duration::from_secs(60)), "nothing is due by it");
    }

    #[test]
    fn what_clocks_may_have_drifted_apart_lies_between_its_ends() {
        let tenth = clock(Duration::from_secs(100), Duration::ZERO);
        let away = |moment: Moment| moment.as_millis() - 100_000;
        assert!((99..1_000).contains(&away(tenth.now())), "{}", tenth.now());
        assert!((-100..900).contains(&away(tenth.surely())), "{}", tenth.surely());
    }
}
