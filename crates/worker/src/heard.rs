//! Where the ledger heard this worker last: a shard that recovers waits for whoever the book or the surviving ledger heard of lately (DESIGN 8).
//!
//! The book may be away for long while staged work goes on, so that the ledger hears each worker too: from before its first claim in a shard, and
//! lately enough before each claim and each intent. Beside the deliveries it beats every 10 s, so that they ask no more than this memory.
//!
//! After a longer gap one beat before the claim is enough: the store writes it before the claim and before the intent, so that whatever keeps an
//! intent that was confirmed on disk keeps the beat. After a gap that was a recovery, the recovery itself has let the shard hear of this worker.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use curfew_domain::{Moment, Shard};
use curfew_ledger::LedgerError;
use tokio::time::Instant;

use crate::run::Worker;

/// How often each shard hears of it.
pub(crate) const HEARD_EVERY: Duration = Duration::from_secs(10);
/// Who was heard longer ago is heard again before it claims or intends: recovery looks back a minute from the last heartbeat that survived.
const GOOD_FOR: Duration = Duration::from_secs(30);

/// When, and in which incarnation, each shard heard this worker last.
#[derive(Default)]
pub(crate) struct Heard(Mutex<BTreeMap<Shard, Last>>);

#[derive(Clone, Copy)]
struct Last {
    incarnation: u32,
    /// By our own clock, and as we know the ledger's, for ours may stand still while the machine sleeps.
    asked: Instant,
    asked_at: Moment,
}

impl Heard {
    fn lately(&self, shard: Shard, incarnation: u32, now: Moment) -> bool {
        let last = self.lock().get(&shard).copied();
        last.is_some_and(|last| last.incarnation >= incarnation && last.asked.elapsed() < GOOD_FOR && now.since(last.asked_at) < GOOD_FOR)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Shard, Last>> {
        self.0.lock().expect("no holder panics")
    }
}

/// Before a claim or an intent of an errand of that incarnation: costs a round trip where the worker wasn't heard lately, else none.
///
/// # Errors
/// `LedgerError`: it may not be known here, and must not claim or intend.
pub(crate) async fn ensure(worker: &Worker, shard: Shard, incarnation: u32) -> Result<(), LedgerError> {
    if worker.ports.ledger.recoverable().is_none() || worker.heard.lately(shard, incarnation, worker.clock.now()) {
        return Ok(());
    }
    beat(worker, &[shard]).await
}

/// One beat into some shards, at once; the last error where one wasn't heard.
///
/// # Errors
/// `LedgerError` of a shard; the others heard it.
pub(crate) async fn beat(worker: &Worker, shards: &[Shard]) -> Result<(), LedgerError> {
    let Some(recoverable) = worker.ports.ledger.recoverable() else { return Ok(()) };
    let (asked, asked_at) = (Instant::now(), worker.clock.now());
    let mut all = Ok(());
    for (shard, answer) in shards.iter().zip(recoverable.hear(worker.id, shards).await) {
        match answer {
            Ok(incarnation) => {
                worker.heard.lock().insert(*shard, Last { incarnation, asked, asked_at });
            }
            Err(error) => all = Err(error),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_heard_half_a_minute_ago_or_in_an_earlier_incarnation_is_heard_again() {
        let (heard, shard, at) = (Heard::default(), Shard(3), Moment::from_millis);
        assert!(!heard.lately(shard, 0, at(0)), "never");
        let said = |ago: Duration| {
            let asked = Instant::now().checked_sub(ago).expect("this machine has been up for that long");
            heard.lock().insert(shard, Last { incarnation: 4, asked, asked_at: at(0) });
        };
        said(Duration::ZERO);
        assert!(heard.lately(shard, 4, at(0)) && heard.lately(shard, 3, at(0)));
        assert!(!heard.lately(shard, 5, at(0)), "another incarnation may have lost it");
        assert!(!heard.lately(Shard(4), 4, at(0)), "another shard");
        assert!(!heard.lately(shard, 4, at(30_000)), "the machine slept");
        said(GOOD_FOR);
        assert!(!heard.lately(shard, 4, at(0)));
    }
}
