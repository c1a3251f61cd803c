//! An operator's verb on a job: numbered, bound to one generation, applied at most once (DESIGN 4).

use serde::{Deserialize, Serialize};

use crate::Moment;

/// What an operator asks of one job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Verb {
    /// End it as `cancelled`.
    Cancel,
    /// End it as `suppressed`, with the reason `operator`.
    Suppress,
    /// Give it other times.
    Move {
        /// The new release.
        release_at: Moment,
        /// The new deadline, after the release.
        deadline_at: Moment,
    },
}

impl Verb {
    /// The word in the audit trail and in history.
    pub const fn word(&self) -> &'static str {
        match self {
            Verb::Cancel => "cancel",
            Verb::Suppress => "suppress",
            Verb::Move { .. } => "move",
        }
    }
}

/// A verb as the book numbered it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NumberedVerb {
    /// The book's number for it: rising over all jobs, never reused.
    pub number: u64,
    /// The generation it was given for.
    pub generation: u32,
    /// What is asked.
    pub verb: Verb,
}
