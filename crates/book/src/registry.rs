//! The port of the fleet's registry: which processes work here, and in which incarnation each shard of the ledger is (DESIGN 8).

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use curfew_domain::{Moment, Shard, WorkerId};

use crate::BookError;

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
    /// Enrols a process; again is free. On the disk before the answer: who isn't enrolled must not claim.
    ///
    /// # Errors
    /// `BookError`.
    async fn enrol(&self, process: &Enrolment) -> Result<(), BookError>;

    /// A heartbeat, every 30 s at most; never moves back.
    ///
    /// # Errors
    /// `BookError`.
    async fn alive(&self, id: WorkerId, at: Moment) -> Result<Orders, BookError>;

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

    /// Asks every process that runs to drain and end; how many. Audited by the caller.
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
    /// of an older incarnation changes the book.
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
