//! What one shard holds. It is small in a simulation, so that indexes and counters are read off the records whenever somebody asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use curfew_domain::history::HistoryEntry;
use curfew_domain::sealed::Sealed;
use curfew_domain::transition::{Counter, Index, counters};
use curfew_domain::{Key, Moment, Record, Shard, State, WorkerId};
use curfew_ledger::Beat;

/// A shard's part of the store.
#[derive(Clone, Default)]
pub(super) struct ShardData {
    pub meta: Option<Meta>,
    pub jobs: BTreeMap<Key, Arc<Job>>,
    /// Tenant (empty: for all) and recipient.
    pub suppressed: BTreeSet<(String, String)>,
    pub beat: Option<Beat>,
    pub heard: BTreeMap<WorkerId, Moment>,
    /// Who leads it, and until when.
    pub lead: Option<(WorkerId, Moment)>,
    pub seekers: BTreeMap<WorkerId, Moment>,
}

/// Whose the shard is.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Meta {
    pub incarnation: u32,
    pub run_id: String,
    pub replication_id: String,
    pub recovering: bool,
    pub since: Moment,
}

/// A record with all that stands beside it.
#[derive(Clone)]
pub(super) struct Job {
    /// As it was written: its incarnation is the writer's.
    pub record: Record,
    pub letter: Option<Sealed>,
    pub history: Vec<HistoryEntry>,
    pub timer: Option<(Index, Moment)>,
    pub postponed: u32,
    pub line: Option<Moment>,
    pub expires_at: Option<Moment>,
}

/// In whose name a call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hands {
    /// The roles': refused while a shard recovers.
    Roles,
    /// The roles' of a process that distrusts the node's clock.
    Halted,
    /// Recovery's own.
    Recovery,
}

/// Who asks, as seen on its connection.
#[derive(Clone)]
pub(super) struct Asked {
    pub hands: Hands,
    /// In which the errand began; `None`: no meta stood there.
    pub incarnation: Option<u32>,
    pub run_id: String,
    pub replication_id: String,
}

/// Why a caller may not even look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Barred {
    /// The shard is on another server.
    OtherServer,
    /// The errand began in another incarnation.
    OtherIncarnation,
    /// Not now.
    Recovering,
}

/// Whether the shard recovers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Recovers {
    /// To this caller; to one that distrusts its clock, any does.
    pub seemingly: bool,
    /// Whoever asks, but recovery.
    pub truly: bool,
}

impl ShardData {
    /// The rollback barrier: whether this caller may look, and what it is told of a recovery.
    pub fn barrier(&self, asked: &Asked) -> Result<Recovers, Barred> {
        let meta = self.meta.as_ref().ok_or(Barred::OtherServer)?;
        if meta.run_id != asked.run_id || meta.replication_id != asked.replication_id {
            return Err(Barred::OtherServer);
        }
        // Whoever recovers what is recovered already looked too long ago.
        if Some(meta.incarnation) != asked.incarnation || (asked.hands == Hands::Recovery && !meta.recovering) {
            return Err(Barred::OtherIncarnation);
        }
        let truly = meta.recovering && asked.hands != Hands::Recovery;
        Ok(Recovers { seemingly: truly || asked.hands == Hands::Halted, truly })
    }

    /// The same for what isn't done at all while the shard recovers.
    pub fn works(&self, asked: &Asked) -> Result<(), Barred> {
        if self.barrier(asked)?.seemingly { Err(Barred::Recovering) } else { Ok(()) }
    }

    /// A counter's value: how many live records count in it.
    pub fn count(&self, counter: &Counter) -> u64 {
        self.jobs.values().filter(|job| counters(&job.record).contains(counter)).count() as u64
    }

    /// Every counter that isn't 0.
    pub fn tally(&self) -> BTreeMap<Counter, u64> {
        let mut all = BTreeMap::new();
        for counter in self.jobs.values().flat_map(|job| counters(&job.record)) {
            *all.entry(counter).or_default() += 1;
        }
        all
    }

    /// Whether a timer of one index is over.
    pub fn is_overdue(&self, index: Index, now: Moment) -> bool {
        self.jobs.values().any(|job| job.timer.is_some_and(|(of, at)| of == index && at <= now))
    }

    /// Whether a line's head has come.
    pub fn is_line_due(&self, now: Moment) -> bool {
        self.jobs.values().any(|job| job.line.is_some_and(|at| at <= now))
    }

    /// The next times of what waits to be claimed.
    pub fn waiting(&self) -> impl Iterator<Item = Moment> {
        let waits = |record: &&Record| record.is_live() && matches!(record.state, State::Scheduled | State::Queued);
        self.jobs.values().map(|job| &job.record).filter(waits).map(Record::due)
    }

    /// The moments at which live records stop.
    pub fn stops(&self) -> impl Iterator<Item = Moment> {
        self.jobs.values().map(|job| &job.record).filter(|record| record.is_live() && !record.state.is_terminal()).map(Record::stops_at)
    }

    /// Timers of one index that are over, the longest overdue first.
    pub fn overdue(&self, index: Index, now: Moment) -> Vec<(Moment, &Arc<Job>)> {
        let at = |job: &Job| job.timer.filter(|(of, at)| *of == index && *at <= now).map(|(_, at)| at);
        let mut found: Vec<_> = self.jobs.values().filter_map(|job| Some((at(job)?, job))).collect();
        found.sort_by_key(|(at, _)| *at); // stable: what is equally overdue stays in the keys' order
        found
    }

    /// Tenants whose line's head has come, by that head and then by name.
    pub fn tenants_due(&self, now: Moment) -> Vec<(Moment, &str)> {
        let mut heads: BTreeMap<&str, Moment> = BTreeMap::new();
        for (key, job) in &self.jobs {
            if let Some(at) = job.line {
                let head = heads.entry(key.tenant()).or_insert(at);
                *head = at.min(*head);
            }
        }
        let mut due: Vec<_> = heads.into_iter().map(|(tenant, at)| (at, tenant)).filter(|(at, _)| *at <= now).collect();
        due.sort();
        due
    }

    /// What stands in a tenant's line and has come.
    pub fn line(&self, tenant: &str, now: Moment) -> Vec<(Moment, &Arc<Job>)> {
        let ours = self.jobs.iter().filter(|(key, _)| key.tenant() == tenant).map(|(_, job)| job);
        let mut due: Vec<_> = ours.filter_map(|job| Some((job.line.filter(|at| *at <= now)?, job))).collect();
        due.sort_by_key(|(at, _)| *at);
        due
    }
}

/// A record as a reader has it: its incarnation is the one in which it was read, and the errand that begins with it names that (DESIGN 8).
pub(super) fn as_read(record: &Record, incarnation: Option<u32>) -> Record {
    let mut read = record.clone();
    read.incarnation = incarnation.unwrap_or(record.incarnation);
    read
}

/// The node that a shard is on, of so many.
pub(super) fn node_of(shard: Shard, nodes: usize) -> usize {
    usize::from(shard.0) % nodes
}
