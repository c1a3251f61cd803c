//! The ledger's clock as seen from here: sampled, then carried on by our own monotonic clock.
//!
//! A last look asks this clock, so that it needs no round trip. A frozen process wakes with the right time: monotonic time goes on meanwhile.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use curfew_domain::Moment;
use curfew_ledger::{Ledger, LedgerError};

/// A sample: the ledger's moment, and when it was taken here.
#[derive(Debug)]
pub struct LedgerClock {
    sample: Mutex<(Moment, Instant)>,
}

impl LedgerClock {
    /// From a first sample.
    ///
    /// # Errors
    /// `LedgerError`: no worker starts without the ledger's time.
    pub async fn start(ledger: &dyn Ledger) -> Result<Self, LedgerError> {
        let (moment, at) = sample(ledger).await?;
        Ok(Self { sample: Mutex::new((moment, at)) })
    }

    /// Samples again.
    ///
    /// # Errors
    /// `LedgerError`: the old sample goes on.
    pub async fn refresh(&self, ledger: &dyn Ledger) -> Result<(), LedgerError> {
        let (moment, at) = sample(ledger).await?;
        *self.sample.lock().expect("no holder panics") = (moment, at);
        Ok(())
    }

    /// The ledger's now, by the last sample.
    pub fn now(&self) -> Moment {
        let (moment, at) = *self.sample.lock().expect("no holder panics");
        moment.plus(at.elapsed())
    }

    /// When the ledger's clock will read `moment`, on our monotonic clock.
    pub fn instant_of(&self, moment: Moment) -> Instant {
        Instant::now() + moment.since(self.now()).min(Duration::from_secs(86_400 * 365))
    }
}

/// The moment was read after the question left: counted from there our clock is never behind the ledger's, so no last look says yes too
/// late. It may be ahead by a round trip; what is too early, the ledger's own guards refuse.
async fn sample(ledger: &dyn Ledger) -> Result<(Moment, Instant), LedgerError> {
    let asked = Instant::now();
    let moment = ledger.now().await?;
    Ok((moment, asked))
}
