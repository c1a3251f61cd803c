//! The servers: two nodes (or more), half of the shards on each, and what befalls them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use curfew_domain::limits::TOMBSTONE;
use curfew_domain::record::WaitingFor;
use curfew_domain::{Key, Moment, Record, Shard};
use curfew_ledger::{Entry, Hold};

use super::super::{Service, World};
use super::shard::{Meta, ShardData, node_of};

/// What stood before a write is kept for so long: no tail that is lost is longer.
const TAIL_MAX: Duration = Duration::from_secs(30);

/// How the servers are set up.
#[derive(Clone)]
pub struct SimLedgerOptions {
    /// Shards of the fleet.
    pub shards: u8,
    /// Nodes; shard n is on node n modulo their number.
    pub nodes: usize,
    /// The longest rung in use.
    pub horizon: Duration,
    /// A tombstone stands for so long at the most: its whole life would outlast a run.
    pub tombstone_max: Duration,
    /// After so long without an answer a client gives up.
    pub answer_max: Duration,
    /// In which shard a tenant stands.
    pub shard_of: fn(&str, u8) -> Shard,
}

impl Default for SimLedgerOptions {
    fn default() -> Self {
        let horizon = Duration::from_secs(32);
        Self { shards: 4, nodes: 2, horizon, tombstone_max: TOMBSTONE, answer_max: Duration::from_secs(3), shard_of: Shard::of_tenant }
    }
}

/// The servers of the ledger, which every process's [`super::SimLedger`] asks.
pub struct SimLedgerServer {
    pub(super) world: World,
    pub(super) options: SimLedgerOptions,
    services: Vec<Arc<Service>>,
    nodes: Mutex<Vec<Node>>,
}

/// One node.
pub(super) struct Node {
    pub run_id: String,
    pub replication_id: String,
    /// How often it started: a connection of an earlier start is broken.
    pub starts: u64,
    ahead_ms: i64,
    shards: BTreeMap<Shard, Arc<ShardData>>,
    around: Arc<Around>,
    /// What stood there before each write of late, the oldest first.
    undo: VecDeque<(Duration, Before)>,
}

enum Before {
    Shard(Shard, Arc<ShardData>),
    Around(Arc<Around>),
}

/// What is no shard's.
#[derive(Clone, Default)]
pub(super) struct Around {
    pub holds: BTreeMap<Hold, (WaitingFor, Option<Moment>)>,
    pub buckets: BTreeMap<String, Bucket>,
}

/// A rate's permits.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    pub permits: f64,
    pub at: Moment,
}

impl SimLedgerServer {
    /// Empty servers that run. On a first start a client's `initialise` comes before anything else.
    pub fn start(world: &World, options: SimLedgerOptions) -> Arc<Self> {
        let services = (0..options.nodes).map(|n| Service::new(format!("ledger-{n}"), options.answer_max)).collect();
        let nodes = (0..options.nodes).map(|_| Node::start(world)).collect();
        Arc::new(Self { world: world.clone(), options, services, nodes: Mutex::new(nodes) })
    }

    /// The ways to a node: its weather takes it down, cuts somebody off, loses calls.
    pub fn service(&self, node: usize) -> &Arc<Service> {
        &self.services[node]
    }

    /// How many nodes there are.
    pub fn nodes_len(&self) -> usize {
        self.options.nodes
    }

    /// The node that a shard is on.
    pub fn node_of(&self, shard: Shard) -> usize {
        node_of(shard, self.options.nodes)
    }

    /// The shard that a job stands in.
    pub fn shard_of(&self, key: &Key) -> Shard {
        (self.options.shard_of)(key.tenant(), self.options.shards)
    }

    /// Every shard of the fleet.
    pub fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        (0..self.options.shards).map(Shard)
    }

    /// A node dies and starts again, with ids of its own: every connection breaks, and of what it wrote the last `lost_tail` is gone, intents
    /// and all, as under `everysec` or after a failover. Zero loses nothing, as under `always`.
    ///
    /// # Panics
    /// For a tail of more than 30 s.
    pub fn restart(&self, node: usize, lost_tail: Duration) {
        assert!(lost_tail <= TAIL_MAX, "a tail is kept for {TAIL_MAX:?}");
        let elapsed = self.world.elapsed();
        let mut nodes = self.nodes();
        let lost = nodes[node].lose(elapsed.saturating_sub(lost_tail), lost_tail.is_zero());
        nodes[node].begin_anew(&self.world);
        drop(nodes);
        self.world.count(if lost > 0 { "ledger restarted, its tail lost" } else { "ledger restarted" });
        self.world.note(&format!("{} restarts and loses {lost} writes", self.services[node].name()));
    }

    /// A node comes back without anything.
    pub fn wipe(&self, node: usize) {
        let mut nodes = self.nodes();
        let one = &mut nodes[node];
        (one.shards, one.around, one.undo) = (BTreeMap::new(), Arc::default(), VecDeque::new());
        one.begin_anew(&self.world);
        drop(nodes);
        self.world.count("ledger wiped");
        self.world.note(&format!("{} is wiped", self.services[node].name()));
    }

    /// Sets a node's clock, by milliseconds ahead of the true time.
    pub fn set_clock_offset(&self, node: usize, ahead_ms: i64) {
        self.nodes()[node].ahead_ms = ahead_ms;
        self.world.count("ledger clock set");
        self.world.note(&format!("{} goes {ahead_ms} ms ahead", self.services[node].name()));
    }

    /// What a node's clock says.
    pub fn clock_of(&self, node: usize) -> Moment {
        self.nodes()[node].clock(self.world.now())
    }

    /// What stands under a key, whoever asks: for a checker, and never for a process.
    pub fn entry(&self, key: &Key) -> Option<Entry> {
        let shard = self.shard_of(key);
        let mut nodes = self.nodes();
        let job = nodes[self.node_of(shard)].read(shard).jobs.get(key).cloned();
        job.map(|job| Entry { record: job.record.clone(), letter: job.letter.clone(), history: job.history.clone() })
    }

    /// Every record of every shard, for a checker.
    pub fn records(&self) -> Vec<Record> {
        let mut nodes = self.nodes();
        let all = self.shards().flat_map(|shard| {
            let data = Arc::clone(nodes[self.node_of(shard)].read(shard));
            data.jobs.values().map(|job| job.record.clone()).collect::<Vec<_>>()
        });
        all.collect()
    }

    /// Takes a record's timer, its place in line, or both away behind the ledger's back.
    pub fn lose_timer(&self, key: &Key, timer: bool, line: bool) {
        let shard = self.shard_of(key);
        let mut nodes = self.nodes();
        let data = nodes[self.node_of(shard)].write(shard, self.world.elapsed());
        if let Some(job) = data.jobs.get_mut(key).map(Arc::make_mut) {
            job.timer = job.timer.filter(|_| !timer);
            job.line = job.line.filter(|_| !line);
        }
    }

    /// What a recovery comes to where every process lives and nothing was lost: each shard takes its node's ids, in the incarnation that it has.
    pub fn take_ids(&self) {
        let elapsed = self.world.elapsed();
        let mut nodes = self.nodes();
        for shard in self.shards() {
            let node = &mut nodes[self.node_of(shard)];
            let (run_id, replication_id) = (node.run_id.clone(), node.replication_id.clone());
            let meta = &mut node.write(shard, elapsed).meta;
            *meta = meta.take().map(|meta| Meta { run_id, replication_id, recovering: false, ..meta });
        }
    }

    pub(super) fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().expect("nobody panics while holding it")
    }
}

impl Node {
    fn start(world: &World) -> Self {
        let mut node = Self {
            run_id: String::new(),
            replication_id: String::new(),
            starts: 0,
            ahead_ms: 0,
            shards: BTreeMap::new(),
            around: Arc::default(),
            undo: VecDeque::new(),
        };
        node.begin_anew(world);
        node
    }

    fn begin_anew(&mut self, world: &World) {
        self.run_id = world.uuid().simple().to_string();
        self.replication_id = world.uuid().simple().to_string();
        self.starts += 1;
        self.undo.clear();
    }

    /// Takes back what was written after a moment; how many writes. Nothing where `none`.
    fn lose(&mut self, after: Duration, none: bool) -> usize {
        let before = self.undo.len();
        while let Some((_, write)) = self.undo.pop_back_if(|(at, _)| !none && *at >= after) {
            match write {
                Before::Shard(shard, data) => {
                    self.shards.insert(shard, data);
                }
                Before::Around(around) => self.around = around,
            }
        }
        before - self.undo.len()
    }

    /// What its clock says at a true time.
    pub fn clock(&self, now: Moment) -> Moment {
        Moment::from_millis(now.as_millis().saturating_add(self.ahead_ms))
    }

    pub fn read(&mut self, shard: Shard) -> &Arc<ShardData> {
        self.shards.entry(shard).or_default()
    }

    /// A shard, to be written.
    pub fn write(&mut self, shard: Shard, elapsed: Duration) -> &mut ShardData {
        let before = Arc::clone(self.read(shard));
        self.keep(elapsed, Before::Shard(shard, before));
        Arc::make_mut(self.shards.entry(shard).or_default())
    }

    pub fn around(&self) -> &Around {
        &self.around
    }

    /// What is no shard's, to be written.
    pub fn write_around(&mut self, elapsed: Duration) -> &mut Around {
        let before = Arc::clone(&self.around);
        self.keep(elapsed, Before::Around(before));
        Arc::make_mut(&mut self.around)
    }

    fn keep(&mut self, elapsed: Duration, before: Before) {
        while self.undo.pop_front_if(|(at, _)| *at + TAIL_MAX < elapsed).is_some() {}
        self.undo.push_back((elapsed, before));
    }
}
