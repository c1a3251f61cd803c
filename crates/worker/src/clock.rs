//! The ledger's clock as seen from here: sampled, then carried on by our own monotonic clock.
//!
//! A last look asks this clock, so that it needs no round trip. A frozen process wakes with the right time: monotonic time goes on meanwhile.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use curfew_domain::Moment;
use curfew_ledger::{Ledger, LedgerError};

/// A sample: the ledger's moment, and when it was taken here.
#[derive(Debug)]
pub struct LedgerClock {
    sample: Mutex<Sample>,
}

/// The ledger's moment, and when it was asked for by both of our clocks.
#[derive(Clone, Copy, Debug)]
struct Sample {
    moment: Moment,
    at: Instant,
    system: SystemTime,
}

impl LedgerClock {
    /// From a first sample.
    ///
    /// # Errors
    /// `LedgerError`: no worker starts without the ledger's time.
    pub async fn start(ledger: &dyn Ledger) -> Result<Self, LedgerError> {
        Ok(Self { sample: Mutex::new(sample(ledger).await?) })
    }

    /// Samples again.
    ///
    /// # Errors
    /// `LedgerError`: the old sample goes on.
    pub async fn refresh(&self, ledger: &dyn Ledger) -> Result<(), LedgerError> {
        let fresh = sample(ledger).await?;
        *self.sample.lock().expect("no holder panics") = fresh;
        Ok(())
    }

    /// The ledger's now, by the last sample. Monotonic time stands still while a machine sleeps, and the system's clock may step: the one that
    /// says more has passed rules, so that no deadline is missed between two samples.
    pub fn now(&self) -> Moment {
        let sample = *self.sample.lock().expect("no holder panics");
        sample.moment.plus(sample.at.elapsed().max(sample.system.elapsed().unwrap_or_default()))
    }

    /// When the ledger's clock will read `moment`, on our monotonic clock.
    pub fn instant_of(&self, moment: Moment) -> Instant {
        Instant::now() + moment.since(self.now()).min(Duration::from_secs(86_400 * 365))
    }
}

/// The moment was read after the question left: counted from there our clock is never behind the ledger's, so no last look says yes too
/// late. It may be ahead by a round trip; what is too early, the ledger's own guards refuse.
async fn sample(ledger: &dyn Ledger) -> Result<Sample, LedgerError> {
    let (at, system) = (Instant::now(), SystemTime::now());
    let moment = ledger.now().await?;
    Ok(Sample { moment, at, system })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_only_the_systems_clock_saw_pass_counts() {
        let hour = Duration::from_secs(3600);
        let asleep = Sample { moment: Moment::from_millis(0), at: Instant::now(), system: SystemTime::now() - hour };
        let clock = LedgerClock { sample: Mutex::new(asleep) };
        assert!(clock.now() >= Moment::from_millis(0).plus(hour));
        let stepped_back = Sample { moment: Moment::from_millis(0), at: Instant::now() - hour, system: SystemTime::now() + hour };
        let clock = LedgerClock { sample: Mutex::new(stepped_back) };
        assert!(clock.now() >= Moment::from_millis(0).plus(hour));
    }
}
