//! The embedded ledger: SQLite, through the store's one writer.
//!
//! All swaps and creates that wait go into one call per group commit: their rows are read with one statement, judged in order in
//! memory (so that two swaps of one key see each other), and written with a few. The writer is alone, so a row read in its
//! transaction is the truth. Counters live in memory; see `counters.rs` for how they keep to what was committed.
//!
//! Read `round.rs` next, then `read.rs`.

mod counters;
mod flush;
mod hold;
mod leads;
mod prepared;
mod read;
mod round;
mod start;
mod suppressions;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use curfew_domain::history::HistoryEntry;
use curfew_domain::record::WaitingFor;
use curfew_domain::transition::{Counter, Index};
use curfew_domain::{Key, Moment, Record, Shard, State, WorkerId, form};
use curfew_store::{Atomicity, Durability, Merger, Migration, Queue, Sqlite, StoreError};

use crate::lead::{Lead, Wish};
use crate::{
    Agenda, Beat, Create, Created, Durable, Entry, Hold, Holds, Ledger, LedgerError, LineEntry, Suppression, Swap, Swapped, TimerEntry, Walk, Walked,
};
use counters::Counters;
use hold::Buckets;
use leads::Leads;
use prepared::Operation;
use round::Answer;
use suppressions::Suppressions;

/// The ledger's tables.
pub const MIGRATIONS: &[Migration] = &[Migration { name: "ledger/0001_ledger", sql: include_str!("migrations/0001_ledger.sql") }];

/// Operations of one caller that go into one round; more would hold up the others.
const OPERATIONS_MAX: usize = 500;
/// Bytes of one caller that go into one round: letters can be long, and a round holds them twice.
const OPERATIONS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A clock that is asked for the ledger's now.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// How a ledger is opened.
#[derive(Clone)]
pub struct Options {
    /// The longest rung in use, a power of two from 1 s to 64 s (DESIGN 5).
    pub horizon: Duration,
    /// The ledger's clock: the system's, but for tests.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self { horizon: Duration::from_secs(32), clock: Arc::new(system_now) }
    }
}

fn system_now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The SQLite ledger. One per database: its counters count what goes through it.
pub struct SqlLedger {
    store: Sqlite,
    merger: Merger<Vec<Operation>, (u64, Vec<Answer>)>,
    memory: Arc<Memory>,
    buckets: Mutex<Buckets>,
    leads: Leads,
}

/// What the ledger and its code on the writer share.
struct Memory {
    options: Options,
    counters: Mutex<Counters>,
    suppressions: Mutex<Suppressions>,
    /// Asked before every release and every claim.
    holds: Mutex<Holds>,
}

impl Memory {
    fn now(&self) -> Moment {
        (self.options.clock)()
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().expect("no code panics while it holds the counters")
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().expect("no code panics while it holds the holds")
    }

    fn suppressions(&self) -> MutexGuard<'_, Suppressions> {
        self.suppressions.lock().expect("no code panics while it holds the suppressions")
    }
}

impl SqlLedger {
    /// Migrates the database and counts what stands in it.
    ///
    /// # Errors
    /// `LedgerError`.
    pub async fn open(store: Sqlite, options: Options) -> Result<Self, LedgerError> {
        store.migrate(MIGRATIONS).await.map_err(failed("migrate"))?;
        let memory = start::memory(&store, options).await?;
        let shared = Arc::clone(&memory);
        let merger = store.merger(Queue::Ledger, Atomicity::Savepoint, move |conn, items| {
            let memory = Arc::clone(&shared);
            Box::pin(async move { round::run(&memory, conn, items).await })
        });
        Ok(Self { store, merger, memory, buckets: Mutex::default(), leads: Leads::default() })
    }

    /// Takes over from a process that is gone: every lease ends now, every `queued` job is overdue now (DESIGN 7). To be called once, with
    /// the folder's lock held, before anybody works. The number of leases ended. Repeating is safe.
    ///
    /// # Errors
    /// `LedgerError`: some leases may have ended.
    pub async fn take_over(&self, now: Moment) -> Result<u64, LedgerError> {
        start::take_over(&self.store, now).await
    }

    /// Submits operations in bounded parts; answers in order.
    async fn operate(&self, operations: Vec<Operation>, durability: Durability, name: &'static str) -> Result<Vec<Answer>, LedgerError> {
        let mut answers = Vec::with_capacity(operations.len());
        let mut rest = operations.into_iter().peekable();
        while rest.peek().is_some() {
            let mut bytes = 0;
            let fits = |operation: &Operation, bytes: &mut usize| {
                *bytes += operation.bytes();
                *bytes <= OPERATIONS_BYTES_MAX
            };
            // The first one goes whatever its size: the door has its bounds.
            let mut part: Vec<_> = rest.next().into_iter().inspect(|first| bytes += first.bytes()).collect();
            while part.len() < OPERATIONS_MAX
                && let Some(next) = rest.next_if(|next| fits(next, &mut bytes))
            {
                part.push(next);
            }
            let (round, mut told) = self.merger.submit(part, durability).await.map_err(failed(name))?;
            self.memory.counters().committed(round);
            answers.append(&mut told);
        }
        Ok(answers)
    }
}

/// What the caller of a ledger can do after an error of the store.
fn failed(operation: &'static str) -> impl Fn(StoreError) -> LedgerError + Copy {
    move |error| match error.remedy() {
        curfew_store::Remedy::Retry | curfew_store::Remedy::InDoubt => LedgerError::Unavailable { operation },
        curfew_store::Remedy::Stop => LedgerError::Store(error.to_string()),
    }
}

fn durability(swaps: &[Swap]) -> Durability {
    match swaps.iter().any(|swap| swap.durable == Durable::Disk) {
        true => Durability::Disk,
        false => Durability::Process,
    }
}

fn created(answer: Answer) -> Result<Created, LedgerError> {
    Ok(match answer {
        Answer::Written => Created::Created,
        Answer::Stands(bytes) => Created::Exists(Box::new(form::decode(&bytes)?)),
        Answer::HigherGeneration => Created::HigherGeneration,
        Answer::EarlierUnclosed(bytes) => Created::EarlierUnclosed(Box::new(form::decode(&bytes)?)),
        Answer::StaleRead => Created::StaleRead,
        Answer::Missing | Answer::Refused(_) | Answer::Full => unreachable!("no answer to a create"),
    })
}

fn swapped(answer: Answer) -> Result<Swapped, LedgerError> {
    Ok(match answer {
        Answer::Written => Swapped::Swapped,
        Answer::Stands(bytes) => Swapped::Conflict(Box::new(form::decode(&bytes)?)),
        Answer::Missing => Swapped::Missing,
        Answer::Refused(guard) => Swapped::Refused(guard),
        Answer::Full => Swapped::Full,
        Answer::HigherGeneration | Answer::EarlierUnclosed(_) | Answer::StaleRead => unreachable!("no answer to a swap"),
    })
}

#[async_trait]
impl Ledger for SqlLedger {
    async fn now(&self) -> Result<Moment, LedgerError> {
        Ok(self.memory.now())
    }

    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Created>, LedgerError> {
        // The process's death loses nothing, and a power failure at worst takes the mark in the book along: it is later in the same log.
        let operations = creates.into_iter().map(Operation::create).collect();
        self.operate(operations, Durability::Process, "create").await?.into_iter().map(created).collect()
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, LedgerError> {
        let answers = self.swap_all(vec![swap]).await?;
        Ok(answers.into_iter().next().expect("a swap has one answer"))
    }

    async fn swap_all(&self, swaps: Vec<Swap>) -> Result<Vec<Swapped>, LedgerError> {
        let durability = durability(&swaps);
        let operations = swaps.into_iter().map(Operation::swap).collect();
        self.operate(operations, durability, "swap").await?.into_iter().map(swapped).collect()
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        read::get(&self.store, key).await
    }

    async fn records(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, LedgerError> {
        read::records(&self.store, keys).await
    }

    async fn overdue(&self, shard: Shard, index: Index, now: Moment, limit: usize) -> Result<Vec<TimerEntry>, LedgerError> {
        read::overdue(&self.store, shard, index, now, limit).await
    }

    async fn agenda(&self, shards: &[Shard], now: Moment) -> Result<Vec<Agenda>, LedgerError> {
        read::agenda(&self.store, shards, now).await
    }

    async fn histories(&self, keys: &[Key]) -> Result<Vec<Vec<HistoryEntry>>, LedgerError> {
        read::histories(&self.store, keys).await
    }

    async fn postpone(&self, timers: Vec<(Key, u64, Moment)>) -> Result<(), LedgerError> {
        flush::move_on(&self.store, include_str!("queries/postpone.sql"), &timers, "postpone").await
    }

    async fn move_in_line(&self, places: Vec<(Key, u64, Moment)>) -> Result<(), LedgerError> {
        flush::move_on(&self.store, include_str!("queries/move_in_line.sql"), &places, "move in line").await
    }

    async fn lines(&self, shard: Shard, now: Moment, per_tenant: usize, limit: usize, skip: &[String]) -> Result<Vec<LineEntry>, LedgerError> {
        read::lines(&self.store, shard, now, per_tenant, limit, skip).await
    }

    async fn counts(&self, shard: Shard, counters: &[Counter]) -> Result<Vec<u64>, LedgerError> {
        let all = self.memory.counters();
        Ok(counters.iter().map(|counter| all.value(shard, counter)).collect())
    }

    async fn oldest_due(&self, shard: Shard, now: Moment) -> Result<Option<Moment>, LedgerError> {
        Ok(self.memory.counters().oldest_due(shard, now))
    }

    async fn deadlines(&self, shard: Shard, before: &[Moment]) -> Result<Vec<u64>, LedgerError> {
        read::deadlines(&self.store, shard, before).await
    }

    async fn walk(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Walked>, LedgerError> {
        read::walk(&self.store, shard, after, limit).await
    }

    async fn walk_past(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Walk, LedgerError> {
        read::walk_past(&self.store, shard, after, limit).await
    }

    async fn recount(&self, shard: Shard) -> Result<u64, LedgerError> {
        let memory = Arc::clone(&self.memory);
        let recounted =
            self.store.write(Queue::Ledger, Durability::Process, move |conn| Box::pin(async move { counters::recount(&memory, conn, shard).await }));
        recounted.await.map_err(failed("recount"))
    }

    async fn restore_timer(&self, key: &Key) -> Result<bool, LedgerError> {
        start::restore_timer(&self.store, &self.memory, key).await
    }

    async fn expire(&self, now: Moment, limit: usize) -> Result<u64, LedgerError> {
        flush::expire(&self.store, now, limit).await
    }

    async fn set_suppressions(&self, all: Vec<Suppression>) -> Result<(), LedgerError> {
        suppressions::set(&self.store, &self.memory, all).await
    }

    async fn set_hold(&self, hold: Hold, by: Option<(WaitingFor, Option<Moment>)>) -> Result<(), LedgerError> {
        hold::set(&self.store, &self.memory, hold, by).await
    }

    async fn holds(&self) -> Result<Holds, LedgerError> {
        Ok(hold::in_force(&self.memory.holds(), self.memory.now()))
    }

    async fn permits(&self, name: &str, per_second: f64, n: u32) -> Result<(u32, Moment), LedgerError> {
        let now = self.memory.now();
        Ok(self.buckets.lock().expect("no code panics while it holds the buckets").take(name, per_second, n, now))
    }

    async fn beat(&self, count: u64) -> Result<(), LedgerError> {
        hold::beat(&self.store, count, self.memory.now()).await
    }

    async fn last_beat(&self) -> Result<Option<Beat>, LedgerError> {
        hold::last_beat(&self.store).await
    }

    async fn lead(&self, shard: Shard, who: WorkerId, lease: Duration, wish: Wish) -> Result<Lead, LedgerError> {
        Ok(self.leads.wish(shard, who, lease, wish))
    }

    async fn unled(&self, shards: &[Shard]) -> Result<Vec<Shard>, LedgerError> {
        Ok(self.leads.unled(shards))
    }

    async fn live_by_state(&self) -> Result<BTreeMap<State, u64>, LedgerError> {
        Ok(self.memory.counters().live_by_state())
    }

    fn leases_die_with_process(&self) -> bool {
        true
    }
}
