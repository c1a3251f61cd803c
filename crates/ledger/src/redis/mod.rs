//! The fleet's ledger: Redis 7 or later or Valkey, a single server, Sentinel or Cluster.
//!
//! Each port call is a script or a few, each on one shard, which is one slot. A script looks at who asks, checks everything, then writes.
//! No connection is mended and no call is repeated behind the caller's back: what isn't known is told.
//!
//! Not promised: durability beyond what the server is configured for; [`RedisLedger::durability`] says what that is (DESIGN 8).
//!
//! Read `lua/swap.lua` first, then `connect.rs`, `call.rs`, `write.rs`.

mod address;
mod around;
mod barrier;
mod call;
mod clock;
mod connect;
mod durability;
mod estimate;
mod failure;
mod keys;
mod memory;
mod nodes;
mod read;
mod remove;
mod scripts;
mod slot;
mod stored;
mod upkeep;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::history::HistoryEntry;
use curfew_domain::limits::SHARDS_MAX;
use curfew_domain::record::WaitingFor;
use curfew_domain::transition::{Counter, Index};
use curfew_domain::{Key, Moment, Record, Shard, State, WorkerId};

use crate::clock::{NodeClock, Reading};
use crate::lead::{Lead, Wish};
use crate::{
    Agenda, Beat, Create, Created, Entry, Hold, Holds, Ledger, LedgerError, LineEntry, Recoverable, Suppression, Swap, Swapped, TimerEntry, Walk,
    Walked,
};
use address::Address;
use clock::Clocks;
use connect::Patience;
use keys::Keys;
use nodes::Nodes;

pub use crate::recovery::{Adopted, Meta};
pub use durability::{Durability, Level};

/// In front of a fleet's keys. Nothing removes them.
const FLEET_PREFIX: &str = "curfew";

/// A clock that stands in for the nodes' own.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// How a clock that stands in for the nodes' own is known to this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockKnown {
    /// Without a question: a test moves it, and sees what follows.
    AtOnce,
    /// As the nodes' own are: by samples.
    BySamples,
}

/// How a ledger is opened.
#[derive(Clone)]
pub struct Options {
    /// In front of every key; the rehearsal and tests have their own.
    pub prefix: String,
    /// Shards of the fleet, 1 to 64.
    pub shards: u8,
    /// The longest rung in use, a power of two from 1 s to 64 s (DESIGN 5).
    pub horizon: Duration,
    /// Connections to each node, from 1 on; a shard keeps to one of them.
    pub connections: usize,
    /// How long a connect may take.
    pub connect_timeout: Duration,
    /// How long an answer may take; after it nothing is known of the call, and the connection is dropped.
    pub response_timeout: Duration,
    /// In which shard a tenant stands: [`Shard::of_tenant`], but for tests.
    pub shard_of: fn(&str, u8) -> Shard,
    /// `None`: each node's own clock judges. Tests set one by hand.
    pub clock: Option<Clock>,
    /// How a clock set by hand is known here; of no meaning without one.
    pub clock_known: ClockKnown,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: FLEET_PREFIX.to_owned(),
            shards: 16,
            horizon: Duration::from_secs(32),
            connections: 4,
            connect_timeout: Duration::from_secs(1),
            // A fork, a slow disk or a failover takes longer than the client library's half second.
            response_timeout: Duration::from_secs(3),
            shard_of: Shard::of_tenant,
            clock: None,
            clock_known: ClockKnown::AtOnce,
        }
    }
}

/// In whose name a ledger is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hands {
    /// The roles': refused while a shard recovers.
    Roles,
    /// Recovery's own.
    Recovery,
}

/// The Redis ledger. Cloning shares its connections.
#[derive(Clone)]
pub struct RedisLedger {
    nodes: Arc<Nodes>,
    options: Arc<Options>,
    keys: Arc<Keys>,
    clocks: Arc<Clocks>,
    /// Shards in which something newer was met, a bit each.
    newer: Arc<AtomicU64>,
    hands: Hands,
}

impl RedisLedger {
    /// A ledger at a URL; it connects when it is used. On a first start [`RedisLedger::initialise`] comes before anything else.
    ///
    /// # Errors
    /// `Store` for a URL or options that can't be used; the URL isn't repeated.
    pub fn open(url: &str, options: Options) -> Result<Self, LedgerError> {
        let misfit = |what: &str| Err(LedgerError::Store(format!("the ledger's options: {what}")));
        if options.shards == 0 || options.shards > SHARDS_MAX {
            return misfit("shards are 1 to 64");
        }
        if options.prefix.is_empty() || options.prefix.contains(['{', '}']) {
            return misfit("a prefix has a letter at least, and no braces");
        }
        let patience = Patience { connect: options.connect_timeout, response: options.response_timeout };
        let nodes = Arc::new(Nodes::new(Address::parse(url)?, patience));
        Ok(Self {
            nodes,
            keys: Arc::new(Keys::new(&options.prefix)),
            options: Arc::new(options),
            clocks: Arc::default(),
            newer: Arc::default(),
            hands: Hands::Roles,
        })
    }

    fn shard(&self, key: &Key) -> Shard {
        (self.options.shard_of)(key.tenant(), self.options.shards)
    }

    fn shards(&self) -> impl Iterator<Item = Shard> {
        (0..self.options.shards).map(Shard)
    }

    /// The clock that is known without a question.
    fn clock_by_hand(&self) -> Option<&Clock> {
        self.options.clock.as_ref().filter(|_| self.options.clock_known == ClockKnown::AtOnce)
    }

    /// What scripts take for the time: nothing where the node's own clock judges.
    fn clock_override(&self) -> String {
        self.options.clock.as_ref().map_or(String::new(), |clock| clock().as_millis().to_string())
    }
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn now(&self) -> Result<Moment, LedgerError> {
        self.node_time().await
    }

    async fn reading(&self) -> Result<Reading, LedgerError> {
        self.clock_reading().await
    }

    async fn node_clocks(&self) -> Result<Vec<NodeClock>, LedgerError> {
        self.read_node_clocks().await
    }

    fn halt(&self, distrusted: BTreeSet<Shard>, seen: &[NodeClock]) {
        self.clocks.halt(distrusted, seen);
    }

    fn is_halted(&self, shard: Shard) -> bool {
        self.clocks.is_halted(shard)
    }

    fn met_newer(&self) -> BTreeSet<Shard> {
        let met = self.newer.swap(0, Ordering::AcqRel);
        self.shards().filter(|shard| met & clock::bit(*shard) != 0).collect()
    }

    async fn live_bytes(&self) -> Result<u64, LedgerError> {
        self.used_bytes().await
    }

    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Created>, LedgerError> {
        self.create_records(creates).await
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, LedgerError> {
        let answers = self.swap_records(vec![swap]).await?;
        Ok(answers.into_iter().next().expect("a swap has one answer"))
    }

    async fn swap_all(&self, swaps: Vec<Swap>) -> Result<Vec<Swapped>, LedgerError> {
        self.swap_records(swaps).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        self.read_entry(key).await
    }

    async fn records(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, LedgerError> {
        self.read_records(keys).await
    }

    async fn overdue(&self, shard: Shard, index: Index, now: Moment, limit: usize) -> Result<Vec<TimerEntry>, LedgerError> {
        self.read_overdue(shard, index, now, limit).await
    }

    async fn agenda(&self, shards: &[Shard], now: Moment) -> Result<Vec<Agenda>, LedgerError> {
        self.read_agenda(shards, now).await
    }

    async fn histories(&self, keys: &[Key]) -> Result<Vec<Vec<HistoryEntry>>, LedgerError> {
        self.read_histories(keys).await
    }

    async fn postpone(&self, timers: Vec<(Key, u64, Moment)>) -> Result<(), LedgerError> {
        self.move_on(timers, "timer").await
    }

    async fn move_in_line(&self, places: Vec<(Key, u64, Moment)>) -> Result<(), LedgerError> {
        self.move_on(places, "line").await
    }

    async fn lines(&self, shard: Shard, now: Moment, per_tenant: usize, limit: usize, skip: &[String]) -> Result<Vec<LineEntry>, LedgerError> {
        self.read_lines(shard, now, per_tenant, limit, skip).await
    }

    async fn counts(&self, shard: Shard, counters: &[Counter]) -> Result<Vec<u64>, LedgerError> {
        self.read_counts(shard, counters).await
    }

    async fn oldest_due(&self, shard: Shard, now: Moment) -> Result<Option<Moment>, LedgerError> {
        self.read_oldest_due(shard, now).await
    }

    async fn deadlines(&self, shard: Shard, before: &[Moment]) -> Result<Vec<u64>, LedgerError> {
        self.count_deadlines(shard, before).await
    }

    async fn walk(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Walked>, LedgerError> {
        self.read_walk(shard, after, limit).await
    }

    async fn walk_past(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Walk, LedgerError> {
        self.read_walk_past(shard, after, limit).await
    }

    async fn recount(&self, shard: Shard) -> Result<u64, LedgerError> {
        self.mend_counters(shard).await
    }

    async fn restore_timer(&self, key: &Key) -> Result<bool, LedgerError> {
        self.mend_timer(key).await
    }

    async fn expire(&self, now: Moment, limit: usize) -> Result<u64, LedgerError> {
        self.delete_expired(now, limit).await
    }

    async fn set_suppressions(&self, all: Vec<Suppression>) -> Result<(), LedgerError> {
        self.replace_suppressions(all).await
    }

    async fn set_hold(&self, hold: Hold, by: Option<(WaitingFor, Option<Moment>)>) -> Result<(), LedgerError> {
        self.write_hold(hold, by).await
    }

    async fn holds(&self) -> Result<Holds, LedgerError> {
        self.read_holds().await
    }

    async fn permits(&self, name: &str, per_second: f64, n: u32) -> Result<(u32, Moment), LedgerError> {
        self.take_permits(name, per_second, n).await
    }

    async fn beat(&self, count: u64) -> Result<(), LedgerError> {
        self.write_beat(count).await
    }

    async fn last_beat(&self) -> Result<Option<Beat>, LedgerError> {
        self.read_last_beat().await
    }

    async fn lead(&self, shard: Shard, who: WorkerId, lease: Duration, wish: Wish) -> Result<Lead, LedgerError> {
        self.wish_to_lead(shard, who, lease, wish).await
    }

    async fn unled(&self, shards: &[Shard]) -> Result<Vec<Shard>, LedgerError> {
        self.read_unled(shards).await
    }

    async fn live_by_state(&self) -> Result<BTreeMap<State, u64>, LedgerError> {
        self.count_live().await
    }

    async fn incarnation(&self, shard: Shard) -> Result<u32, LedgerError> {
        self.known_incarnation(shard).await
    }

    fn recoverable(&self) -> Option<&dyn Recoverable> {
        Some(self)
    }

    fn leases_die_with_process(&self) -> bool {
        false
    }
}
