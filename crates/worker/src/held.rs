//! Handoffs in hand, from before the intent is sent until the verdict is kept; and the report of all of it to a shard that recovers (DESIGN 8).
//!
//! An intent and a report of the same shard exclude each other: what was entered before the report is in it, and what comes after it under an
//! earlier incarnation is refused here already, even if a server that is cut off would take it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use curfew_courier::CourierError;
use curfew_courier::recover::{Assertable, Known as Asserted, assert_again};
use curfew_domain::{Moment, Record, Shard, Token};
use curfew_ledger::{LedgerError, Meta, Recoverable};

use crate::lease::GoodUntil;
use crate::run::Worker;

/// Before the last heartbeat that survived: what was known that long before counts, too.
const BEFORE_THE_BEAT: Duration = Duration::from_secs(60);

struct Handoff {
    record: Record,
    /// The lease that the intent asks for.
    asked_until: Instant,
    good_until: Arc<GoodUntil>,
}

/// What this worker may hand over.
#[derive(Default)]
pub(crate) struct Held(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    handoffs: HashMap<Token, Handoff>,
    /// The incarnation that this worker began to report to, by shard: an intent of an earlier one is refused.
    reporting: HashMap<Shard, u32>,
    /// The one whose report is complete.
    reported: HashMap<Shard, u32>,
}

impl Held {
    /// Enters a handoff before its intent is sent; false: its claim is of an earlier incarnation, drop it.
    pub(crate) fn begin(&self, intended: &Record, token: Token, asked_until: Instant, good_until: &Arc<GoodUntil>) -> bool {
        let mut inside = self.lock();
        if inside.reporting.get(&intended.shard).is_some_and(|reporting| intended.incarnation < *reporting) {
            return false;
        }
        inside.handoffs.insert(token, Handoff { record: intended.clone(), asked_until, good_until: Arc::clone(good_until) });
        true
    }

    /// Its verdict is kept, or nothing was handed over.
    pub(crate) fn end(&self, token: Token) {
        self.lock().handoffs.remove(&token);
    }

    /// Its report to this incarnation is complete.
    fn complete(&self, shard: Shard, incarnation: u32) {
        self.lock().reported.insert(shard, incarnation);
    }

    /// The last incarnation whose report is complete.
    fn reported(&self, shard: Shard) -> Option<u32> {
        self.lock().reported.get(&shard).copied()
    }

    /// What is in hand of a shard; from here on earlier incarnations are refused.
    fn report(&self, shard: Shard, incarnation: u32, now: Moment) -> Vec<Assertable> {
        let mut inside = self.lock();
        let highest = inside.reporting.entry(shard).or_insert(incarnation);
        *highest = incarnation.max(*highest);
        let of_the_shard = inside.handoffs.iter().filter(|(_, handoff)| handoff.record.shard == shard);
        of_the_shard.map(|(token, handoff)| handoff.asserted(*token, now)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().expect("no holder panics")
    }
}

impl Handoff {
    fn asserted(&self, token: Token, now: Moment) -> Assertable {
        let left = self.good_until.get().max(self.asked_until).saturating_duration_since(Instant::now());
        let known = match left.is_zero() {
            true => Asserted::Unknown,
            false => {
                let mut record = self.record.clone();
                record.lease_until = Some(now.plus(left));
                Asserted::UnderWay(Box::new(record))
            }
        };
        Assertable { key: self.record.key.clone(), generation: self.record.generation, token, known }
    }
}

/// Looks at every shard, and reports to each that recovers. Any worker could have claimed anything, so it looks at all shards of the fleet,
/// and one with nothing in hand reports that.
pub(crate) async fn look(worker: &Worker) -> Result<(), CourierError> {
    let Some(recoverable) = worker.ports.ledger.recoverable() else { return Ok(()) };
    let mut failed = Ok(());
    for shard in recoverable.all_shards() {
        match recoverable.meta(shard).await {
            Ok(Some(meta)) if meta.of_this_server && worker.held.reported(shard) != Some(meta.incarnation) => {
                if let Err(error) = report(worker, recoverable, shard, &meta).await {
                    tracing::warn!(role = "worker", shard = %shard, error_class = "store", "a report to a shard that recovers is made again: {error}");
                    failed = Err(error);
                }
            }
            Ok(Some(_) | None) => {}
            Err(error) => failed = Err(error.into()),
        }
    }
    failed
}

async fn report(worker: &Worker, recoverable: &dyn Recoverable, shard: Shard, meta: &Meta) -> Result<(), CourierError> {
    let ports = &worker.ports;
    let first_look = worker.held.reported(shard).is_none();
    let now = recoverable.time_of(shard).await?;
    // In hand first, then what is known: a token whose verdict comes in between is in both.
    let mut all = worker.held.report(shard, meta.incarnation, now);
    if !meta.recovering {
        // It was recovered without this worker, or before it began: verdicts cross over as late ones.
        if !first_look {
            worker.verdicts.assert_again(ports).await?;
        }
        worker.held.complete(shard, meta.incarnation);
        return Ok(());
    }
    let since = recoverable.last_beat_of(shard).await?.map(|beat| now.since(beat.at) + BEFORE_THE_BEAT);
    all.extend(worker.verdicts.of_shard(shard, since, |key| recoverable.shard_of(key)));
    let held = all.len();
    match assert_again(recoverable, &*ports.book, &ports.rulebook, meta.incarnation, &all).await {
        Ok(()) => {}
        // Its recovery ended, or began anew, meanwhile: the next look tells.
        Err(CourierError::Ledger(LedgerError::OtherServer)) => return Ok(()),
        Err(error) => return Err(error),
    }
    ports.book.reported(worker.id, shard, meta.incarnation).await?;
    worker.held.complete(shard, meta.incarnation);
    tracing::info!(role = "worker", shard = %shard, "reported {held} handoffs to the shard, which recovers in incarnation {}", meta.incarnation);
    Ok(())
}
