//! Counters in memory that keep to what was committed.
//!
//! A round judges before its COMMIT, and its callers are told after it; a caller may be gone by then. So a round's changes stand
//! apart until somebody knows their fate: a caller that was answered, or the next round, which reads the round's witness: one of the
//! records it wrote. If the witness shows what the round wrote, the round is there.

use std::collections::{BTreeMap, HashMap};

use curfew_domain::transition::{Counter, counters_of};
use curfew_domain::{Key, Moment, Shard, State};
use curfew_store::StoreError;
use sqlx::SqliteConnection;

use super::Memory;
use super::prepared::Standing;
use super::round::read_rows;

const TALLY: &str = include_str!("queries/tally.sql");

/// Counts, or changes of counts.
#[derive(Clone, Default, Debug, PartialEq)]
pub(super) struct Tally {
    counts: HashMap<(Shard, Counter), i64>,
    /// Scheduled and queued records by their next time, for the oldest of them.
    unclaimed: BTreeMap<(u8, i64), i64>,
}

impl Tally {
    pub(super) fn count(&mut self, shard: Shard, tenant: &str, standing: Standing, by: i64) {
        for counter in counters_of(tenant, standing.state, standing.closed, standing.due) {
            add(self.counts.entry((shard, counter)), by);
        }
        match standing.state {
            State::Scheduled | State::Queued => *self.unclaimed.entry((shard.0, standing.due.as_millis())).or_default() += by,
            State::Claimed | State::Handoff | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => {}
        }
    }

    pub(super) fn value(&self, shard: Shard, counter: &Counter) -> i64 {
        // A key of two parts can't be looked up by reference without a copy of the counter; counters are short.
        self.counts.get(&(shard, counter.clone())).copied().unwrap_or(0)
    }

    fn add_all(&mut self, other: Tally, by: i64) {
        for (key, value) in other.counts {
            let sum = self.counts.entry(key.clone()).or_default();
            *sum += value * by;
            if *sum == 0 {
                self.counts.remove(&key);
            }
        }
        for (key, value) in other.unclaimed {
            let sum = self.unclaimed.entry(key).or_default();
            *sum += value * by;
            if *sum == 0 {
                self.unclaimed.remove(&key);
            }
        }
    }

    /// The part of one shard, taken out.
    fn split_off(&mut self, shard: Shard) -> Tally {
        let counts = self.counts.extract_if(|(of, _), _| *of == shard).collect();
        let unclaimed = self.unclaimed.extract_if((shard.0, i64::MIN)..=(shard.0, i64::MAX), |_, _| true).collect();
        Tally { counts, unclaimed }
    }

    /// Counters in which two tallies differ.
    fn differences(&self, other: &Tally) -> u64 {
        let mut all: Vec<_> = self.counts.keys().chain(other.counts.keys()).collect();
        all.sort();
        all.dedup();
        all.into_iter().filter(|key| self.counts.get(key).unwrap_or(&0) != other.counts.get(key).unwrap_or(&0)).count() as u64
    }
}

fn add(entry: std::collections::hash_map::Entry<'_, (Shard, Counter), i64>, by: i64) {
    *entry.or_default() += by;
}

/// A record that a round wrote, and what it wrote.
#[derive(Clone, Debug)]
pub(super) struct Witness {
    pub key: Key,
    pub generation: u32,
    pub version: u64,
}

struct Pending {
    round: u64,
    changes: Tally,
    witness: Witness,
}

/// All counters.
#[derive(Default)]
pub(super) struct Counters {
    settled: Tally,
    pending: Option<Pending>,
    rounds: u64,
    next_id: i64,
}

impl Counters {
    pub(super) fn new(settled: Tally, next_id: i64) -> Self {
        Self { settled, pending: None, rounds: 0, next_id }
    }

    pub(super) fn value(&self, shard: Shard, counter: &Counter) -> u64 {
        u64::try_from(self.settled.value(shard, counter)).unwrap_or(0)
    }

    pub(super) fn oldest_due(&self, shard: Shard, now: Moment) -> Option<Moment> {
        let due = self.settled.unclaimed.range((shard.0, i64::MIN)..=(shard.0, now.as_millis())).next();
        due.map(|((_, due), _)| Moment::from_millis(*due))
    }

    pub(super) fn live_by_state(&self) -> BTreeMap<State, u64> {
        let mut all = BTreeMap::new();
        for ((_, counter), value) in &self.settled.counts {
            match counter {
                Counter::State(state) => *all.entry(*state).or_default() += u64::try_from(*value).unwrap_or(0),
                Counter::TenantInFlight(_) | Counter::TenantQueued(_) | Counter::QueuedSecond(_) => {}
            }
        }
        all
    }

    /// An id for a new record. One that isn't used, because its round is lost, is never used.
    pub(super) fn next_id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The witness that says whether the last round is there, if nobody knows it yet.
    pub(super) fn witness(&self) -> Option<&Witness> {
        self.pending.as_ref().map(|pending| &pending.witness)
    }

    /// A caller of this round was answered after its COMMIT.
    pub(super) fn committed(&mut self, round: u64) {
        if let Some(pending) = self.pending.take_if(|pending| pending.round == round) {
            self.settled.add_all(pending.changes, 1);
        }
    }

    /// What stands under the witness's key says whether the last round is there.
    pub(super) fn resolve(&mut self, stands: Option<(u32, u64)>) {
        if let Some(pending) = self.pending.take()
            && stands.is_some_and(|stands| stands >= (pending.witness.generation, pending.witness.version))
        {
            self.settled.add_all(pending.changes, 1);
        }
    }

    /// Keeps a round's changes apart until its fate is known; the round's number.
    pub(super) fn pend(&mut self, changes: Tally, witness: Option<Witness>) -> u64 {
        self.rounds += 1;
        self.pending = witness.map(|witness| Pending { round: self.rounds, changes, witness });
        self.rounds
    }
}

/// Counts what stands in the tables; all shards, or one.
pub(super) async fn tally(conn: &mut SqliteConnection, shard: Option<Shard>) -> Result<Tally, StoreError> {
    let rows: Vec<(i64, String, String, i64, i64)> =
        sqlx::query_as(TALLY).bind(shard.map(|shard| i64::from(shard.0))).fetch_all(conn).await.map_err(StoreError::during("count"))?;
    let mut all = Tally::default();
    for (shard, tenant, state, due, count) in rows {
        let standing = Standing { state: known_state(&state)?, closed: false, due: Moment::from_millis(due) };
        all.count(Shard(shard as u8), &tenant, standing, count);
    }
    Ok(all)
}

pub(super) fn known_state(word: &str) -> Result<State, StoreError> {
    State::from_word(word).ok_or_else(|| StoreError::Query {
        operation: "read a state",
        code: None,
        detail: "a state that this process doesn't know".to_owned(),
    })
}

/// Compares the counters of a shard with the tables, on the writer: what its transaction sees holds the last round's changes, if it is there.
pub(super) async fn recount(memory: &Memory, conn: &mut SqliteConnection, shard: Shard) -> Result<u64, StoreError> {
    let witness = memory.counters().witness().cloned();
    let stands = match &witness {
        Some(witness) => read_rows(conn, [&witness.key].into_iter()).await?.get(&witness.key).map(|row| (row.generation, row.version)),
        None => None,
    };
    let mut found = tally(conn, Some(shard)).await?;
    let mut counters = memory.counters();
    match &mut counters.pending {
        Some(pending) if stands.is_some_and(|stands| stands >= (pending.witness.generation, pending.witness.version)) => {
            // Not yet known to be committed: the tables show it, the settled counters don't.
            let mut changes = pending.changes.clone();
            found.add_all(changes.split_off(shard), -1);
        }
        Some(_) => counters.pending = None,
        None => {}
    }
    let held = counters.settled.split_off(shard);
    let mended = held.differences(&found);
    counters.settled.add_all(found, 1);
    Ok(mended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> (Tally, Witness) {
        let mut changes = Tally::default();
        changes.count(Shard(0), "acme", Standing { state: State::Queued, closed: false, due: Moment::from_millis(1500) }, 1);
        (changes, Witness { key: Key::parse("acme/a").expect("a key"), generation: 1, version: 2 })
    }

    fn queued(counters: &Counters) -> u64 {
        counters.value(Shard(0), &Counter::QueuedSecond(1))
    }

    #[test]
    fn a_round_counts_once_whoever_learns_its_fate() {
        let mut counters = Counters::default();
        let (tally, witness) = changes();
        let round = counters.pend(tally, Some(witness));
        assert_eq!(queued(&counters), 0, "before its COMMIT it counts nothing");
        counters.resolve(Some((1, 2)));
        counters.committed(round);
        assert_eq!(queued(&counters), 1);
        assert_eq!(counters.oldest_due(Shard(0), Moment::from_millis(1500)), Some(Moment::from_millis(1500)));
    }

    #[test]
    fn a_round_that_was_rolled_back_counts_nothing() {
        for stands in [None, Some((1, 1))] {
            let mut counters = Counters::default();
            let (tally, witness) = changes();
            counters.pend(tally, Some(witness));
            counters.resolve(stands);
            assert_eq!((queued(&counters), counters.witness().is_none()), (0, true));
        }
    }

    #[test]
    fn what_comes_and_goes_leaves_no_trace() {
        let mut counters = Counters::default();
        for by in [1, -1] {
            let (_, witness) = changes();
            let mut tally = Tally::default();
            tally.count(Shard(0), "acme", Standing { state: State::Queued, closed: false, due: Moment::from_millis(1500) }, by);
            let round = counters.pend(tally, Some(witness));
            counters.committed(round);
        }
        assert_eq!(counters.settled, Tally::default());
    }
}
