//! Handoffs in hand, from before the intent is sent until the verdict is kept; and the report of all of it to a shard that recovers (DESIGN 8).
//!
//! An intent and a report of the same shard exclude each other: what was entered before the report is in it, and what comes after it under an
//! earlier incarnation is refused here already, even if a server that is cut off would take it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use curfew_courier::CourierError;
use curfew_courier::recover::{Assertable, Known as Asserted, assert_again};
use curfew_domain::{Moment, Record, Shard, Token};
use curfew_ledger::{LedgerError, Meta, Recoverable};
use tokio::time::Instant;

use crate::lease::GoodUntil;
use crate::run::Worker;

/// Before the last heartbeat that survived: what was known that long before counts, too.
const BEFORE_THE_BEAT: Duration = Duration::from_secs(60);
/// A heartbeat so far ahead of its own node's clock tells nothing of how much is lost: the clock was set.
const AHEAD_MAX: Duration = Duration::from_secs(4);

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
    handoffs: BTreeMap<Token, Handoff>,
    /// The incarnation that this worker began to report to, by shard: an intent of an earlier one is refused.
    reporting: BTreeMap<Shard, u32>,
    /// The one whose report is complete.
    reported: BTreeMap<Shard, u32>,
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

    /// From here on intents of earlier incarnations are refused.
    fn report(&self, shard: Shard, incarnation: u32) {
        let mut inside = self.lock();
        let highest = inside.reporting.entry(shard).or_insert(incarnation);
        *highest = incarnation.max(*highest);
    }

    /// What is in hand of a shard, with the time that its lease has left.
    fn of_shard(&self, shard: Shard) -> Vec<InHand> {
        let inside = self.lock();
        let of_the_shard = inside.handoffs.iter().filter(|(_, handoff)| handoff.record.shard == shard);
        of_the_shard.map(|(token, handoff)| handoff.in_hand(*token)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().expect("no holder panics")
    }
}

/// One of them, as it was when it was asked for.
struct InHand {
    record: Record,
    token: Token,
    left: Duration,
}

impl Handoff {
    fn in_hand(&self, token: Token) -> InHand {
        let left = self.good_until.get().max(self.asked_until).saturating_duration_since(Instant::now());
        InHand { record: self.record.clone(), token, left }
    }
}

impl InHand {
    /// `now` is of after it was asked for, so that the lease isn't asserted with an earlier end than it has.
    fn asserted(self, now: Moment) -> Assertable {
        let (key, generation) = (self.record.key.clone(), self.record.generation);
        let known = match self.left.is_zero() {
            true => Asserted::Unknown,
            false => Asserted::UnderWay(Box::new(Record { lease_until: Some(now.plus(self.left)), ..self.record })),
        };
        Assertable { key, generation, token: self.token, known }
    }
}

/// Looks at every shard, and reports to each that recovers. Any worker could have claimed anything, so it looks at all shards of the fleet,
/// and one with nothing in hand reports that. Whether all of them work, and none is owed a report.
pub(crate) async fn look(worker: &Worker) -> Result<bool, CourierError> {
    let Some(recoverable) = worker.ports.ledger.recoverable() else { return Ok(true) };
    let mut all_work = Ok(true);
    for shard in recoverable.all_shards() {
        let works = match recoverable.meta(shard).await {
            Ok(Some(meta)) if meta.of_this_server && worker.held.reported(shard) != Some(meta.incarnation) => {
                let reported = report(worker, recoverable, shard, &meta).await;
                if let Err(error) = &reported {
                    tracing::warn!(role = "worker", shard = %shard, error_class = "store", "a report to a shard that recovers is made again: {error}");
                }
                reported.map(|()| false)
            }
            Ok(Some(meta)) => Ok(meta.of_this_server && !meta.recovering),
            Ok(None) => Ok(false),
            Err(error) => Err(error.into()),
        };
        match works {
            Ok(works) => all_work = all_work.map(|all| all && works),
            Err(error) => all_work = Err(error),
        }
    }
    all_work
}

async fn report(worker: &Worker, recoverable: &dyn Recoverable, shard: Shard, meta: &Meta) -> Result<(), CourierError> {
    let ports = &worker.ports;
    let first_look = worker.held.reported(shard).is_none();
    worker.held.report(shard, meta.incarnation);
    if !meta.recovering {
        // It was recovered without this worker, or before it began: verdicts cross over as late ones.
        if !first_look {
            worker.verdicts.assert_again(ports).await?;
        }
        worker.held.complete(shard, meta.incarnation);
        return Ok(());
    }
    // Where nothing survived, the heartbeat that the book kept says when the ledger was there last, as it does for whoever recovers.
    let beat = match recoverable.last_beat_of(shard).await? {
        Some(beat) => Some(beat.at),
        None => ports.book.last_beat().await?.map(|(_, at)| at),
    };
    // In hand first, then what is known: a token whose verdict comes in between is in both.
    let in_hand = worker.held.of_shard(shard);
    let now = recoverable.time_of(shard).await?;
    let since = beat.filter(|at| *at <= now.plus(AHEAD_MAX)).map(|at| now.since(at) + BEFORE_THE_BEAT);
    let mut all: Vec<Assertable> = in_hand.into_iter().map(|one| one.asserted(now)).collect();
    let known = worker.verdicts.of_shard(shard, since, |key| recoverable.shard_of(key));
    all.extend(known.asserted);
    let held = all.len();
    match assert_again(recoverable, &*ports.book, &ports.rulebook, meta.incarnation, &all).await {
        Ok(()) => {}
        // Its recovery ended, or began anew, meanwhile: the next look tells.
        Err(CourierError::Ledger(LedgerError::OtherServer)) => return Ok(()),
        Err(error) => return Err(error),
    }
    if !known.whole {
        tracing::warn!(role = "worker", shard = %shard, error_class = "ledger", "reported {held} handoffs to the shard, which may have lost older ones than this worker remembers: it counts as missing");
        worker.held.complete(shard, meta.incarnation);
        return Ok(());
    }
    ports.book.reported(worker.id, shard, meta.incarnation).await?;
    worker.held.complete(shard, meta.incarnation);
    tracing::info!(role = "worker", shard = %shard, "reported {held} handoffs to the shard, which recovers in incarnation {}", meta.incarnation);
    Ok(())
}
