//! The ledger's clock as a process knows it between two readings: a span that holds the true moment, never a guess.
//!
//! Who must not be early asks for the earliest that it can be, who must not be late for the latest. What no error may touch (a guard) is judged
//! by the ledger itself.

use curfew_domain::{Moment, Shard};

/// What the ledger's clock says now: neither before `earliest` nor after `latest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The ledger's clock says this, or later.
    pub earliest: Moment,
    /// The ledger's clock says this, or earlier.
    pub latest: Moment,
}

impl Reading {
    /// Of a clock that is read without an error.
    pub const fn exact(now: Moment) -> Self {
        Self { earliest: now, latest: now }
    }
}

/// The clock of one of the ledger's nodes, as it was last sampled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeClock {
    /// For people: which node.
    pub name: String,
    /// The shards whose guards it judges.
    pub shards: Vec<Shard>,
    /// Milliseconds by which it is ahead of this process's clock; negative where it is behind.
    pub ahead_ms: i64,
    /// How often it jumped against monotonic time since this process knows it.
    pub jumps: u64,
    /// Whether this is a sample of now; else the node still serves its shards but doesn't answer, and this is what it said last.
    pub answered: bool,
}
