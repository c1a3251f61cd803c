//! The port of the fleet's registry: which processes work here, and in which incarnation each shard of the ledger is (DESIGN 8).
//!
//! Promises (proved by `conformance`, for every adapter)
//! - R1  Who enrolled is found until 48 h after its last heartbeat, and later by nobody; a repeated enrolment changes nothing.
//! - R2  A heartbeat never moves back; one of a process that isn't known says so.
//! - R3  Who is asked to drain is told at each heartbeat and each look, and who has stopped isn't asked.
//! - R4  Of all who raise a shard's incarnation from one number, one does; everybody gets the same one back.
//! - R5  A report counts for its worker, shard and incarnation alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::{Moment, Shard, WorkerId};

use crate::BookError;

/// How often a process beats; DESIGN 8 asks for 30 s at most.
pub const BEAT_EVERY: Duration = Duration::from_secs(10);
/// A process that didn't beat for so long is shown as silent: it missed three.
pub const SILENT_AFTER: Duration = Duration::from_secs(30);
/// How long a process is remembered after its last heartbeat. A recovery that must know who worked before that takes it that one is missing.
pub const REMEMBERED: Duration = Duration::from_secs(48 * 3600);

/// One run of one process, as it enrols itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enrolment {
    /// Drawn at the start; a worker's is the one that its leases name.
    pub id: WorkerId,
    /// Its roles, in the order of the contract.
    pub roles: Vec<String>,
    /// For people: the host's name and the process id.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The newest format that it reads; writers stay at the lowest of all.
    pub reads_format: u16,
    /// When it started, by the ledger's clock.
    pub at: Moment,
}

/// How fast a worker ends attempts, as it measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drain {
    /// In the best ten seconds of the last hour.
    pub best: u32,
    /// In the latest ten.
    pub latest: u32,
}

/// A process that the registry knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enrolled {
    /// As it enrolled itself; `at` is its start.
    pub enrolment: Enrolment,
    /// Its last heartbeat, by the ledger's clock.
    pub beat_at: Moment,
    /// Since when it has ended: a clean stop, with nothing in hand.
    pub stopped_at: Option<Moment>,
    /// Since when it is asked to drain.
    pub drain_asked_at: Option<Moment>,
    /// What it measured of itself, where it ends attempts.
    pub drain: Option<Drain>,
}

/// How a process stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It beats.
    Running,
    /// Nothing was heard of it since: killed, frozen, or cut off.
    Silent(Moment),
    /// It ended with nothing in hand.
    Stopped(Moment),
}

impl Enrolled {
    /// How it stands at `now`, by the ledger's clock.
    pub fn standing(&self, now: Moment) -> Standing {
        match self.stopped_at {
            Some(at) => Standing::Stopped(at),
            None if now.since(self.beat_at) > SILENT_AFTER => Standing::Silent(self.beat_at),
            None => Standing::Running,
        }
    }
}

/// What a heartbeat is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Orders {
    /// It shall drain and end.
    pub drain: bool,
    /// The registry doesn't know it (any more): it enrols itself anew.
    pub unknown: bool,
}

/// What processes and recovery ask of the registry. Every write may be repeated; a dropped future may have written.
#[async_trait]
pub trait Registry: Send + Sync {
    /// Enrols a process; again is free. On the disk before the answer: who isn't enrolled must not claim. Forgets those that were not heard
    /// of for [`REMEMBERED`].
    ///
    /// # Errors
    /// `BookError`.
    async fn enrol(&self, process: &Enrolment) -> Result<(), BookError>;

    /// A heartbeat, every 30 s at most; never moves back.
    ///
    /// # Errors
    /// `BookError`.
    async fn alive(&self, id: WorkerId, at: Moment) -> Result<Orders, BookError>;

    /// What a worker measured of itself; of one that isn't known nothing is kept.
    ///
    /// # Errors
    /// `BookError`.
    async fn measured(&self, id: WorkerId, drain: Drain) -> Result<(), BookError>;

    /// What a process is asked to do; a look that writes nothing.
    ///
    /// # Errors
    /// `BookError`.
    async fn orders(&self, id: WorkerId) -> Result<Orders, BookError>;

    /// A clean stop: nothing is in its hands any more.
    ///
    /// # Errors
    /// `BookError`.
    async fn leave(&self, id: WorkerId, at: Moment) -> Result<(), BookError>;

    /// Processes whose last heartbeat is at `since` or later, those that left too, by start.
    ///
    /// # Errors
    /// `BookError`.
    async fn enrolled(&self, since: Moment) -> Result<Vec<Enrolled>, BookError>;

    /// Asks every process that hasn't stopped to drain and end; how many of them run. A silent one is asked too: it may only be frozen.
    /// Audited by the caller.
    ///
    /// # Errors
    /// `BookError`.
    async fn ask_to_drain(&self, at: Moment) -> Result<u64, BookError>;

    /// The incarnation of each shard; one that isn't named is in incarnation 0.
    ///
    /// # Errors
    /// `BookError`.
    async fn incarnations(&self) -> Result<BTreeMap<Shard, u32>, BookError>;

    /// Recovery's step 1: raises a shard's incarnation by one, if it still is `from`; the one that stands then. From that commit on no errand
    /// of an older incarnation changes the book. Reports of older ones are forgotten.
    ///
    /// # Errors
    /// `BookError`.
    async fn raise(&self, shard: Shard, from: u32) -> Result<u32, BookError>;

    /// Recovery's step 3: a worker has reported every job of the shard that it held.
    ///
    /// # Errors
    /// `BookError`.
    async fn reported(&self, id: WorkerId, shard: Shard, incarnation: u32) -> Result<(), BookError>;

    /// Who has reported in that incarnation.
    ///
    /// # Errors
    /// `BookError`.
    async fn reports(&self, shard: Shard, incarnation: u32) -> Result<BTreeSet<WorkerId>, BookError>;
}
