//! Which shards a scheduler works at the moment: those whose soft lease it holds. It saves work, correctness never rests on it.

use std::time::{Duration, Instant};

use curfew_domain::{Shard, WorkerId};
use curfew_ledger::{Ledger, LedgerError};
use tokio::sync::Mutex;

/// A soft lease's length (DESIGN 4).
const LEASE: Duration = Duration::from_secs(5);
/// How often it is renewed, or another's is asked for.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// The soft leases of one scheduler.
pub(crate) struct Leads {
    who: WorkerId,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    shards: Vec<Shard>,
    asked: Option<Instant>,
}

impl Leads {
    /// None yet. The name is drawn anew at each start, so that a restarted scheduler waits for its former self.
    pub(crate) fn new() -> Self {
        Self { who: WorkerId(uuid::Uuid::new_v4()), held: Mutex::default() }
    }

    /// The shards led now, of `all`. Asked once a second; an error leaves none, for who can't ask the ledger has nothing to do there.
    pub(crate) async fn shards(&self, ledger: &dyn Ledger, all: &[Shard]) -> Result<Vec<Shard>, LedgerError> {
        let mut held = self.held.lock().await;
        if held.asked.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
            return Ok(held.shards.clone());
        }
        *held = Held::default();
        let mut shards = Vec::with_capacity(all.len());
        for shard in all {
            if ledger.lead(*shard, self.who, LEASE).await? {
                shards.push(*shard);
            }
        }
        *held = Held { shards: shards.clone(), asked: Some(Instant::now()) };
        Ok(shards)
    }
}
