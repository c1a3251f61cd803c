//! A retry policy: how long after a failed attempt the next may run, how often, and what happens at the deadline.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A named, versioned policy. The record says which one decided.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Policy {
    /// Its name in the configuration.
    pub name: String,
    /// Rises whenever the policy's values change; 1 at first.
    pub version: u32,
    /// The waits between attempts.
    pub backoff: Backoff,
    /// The most attempts, the first one counted; `None`: as many as the backoff gives.
    pub max_attempts: Option<u32>,
    /// What is added to each wait.
    pub jitter: Jitter,
    /// What a deadline makes of a job that isn't sent.
    pub at_deadline: AtDeadline,
}

/// The waits between attempts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Backoff {
    /// One wait per retry; the list's length is the number of retries.
    Delays(Vec<Duration>),
    /// `min(cap, base · factor^attempt)`, without overflow.
    Exponential {
        /// The first wait.
        base: Duration,
        /// At least 1.
        factor: f64,
        /// The longest wait.
        cap: Duration,
    },
}

/// A range added to a wait, in milliseconds; a policy file only adds (`lo` = 0), `decide` takes any.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Jitter {
    /// The least, may be negative.
    pub lo_ms: i64,
    /// The most.
    pub hi_ms: i64,
    /// Where set, `hi_ms` is this many percent of the wait instead.
    pub percent: Option<u32>,
}

/// What a deadline makes of a job that isn't sent. A late send is not among the choices.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum AtDeadline {
    /// A dead letter, for its reason's owner.
    #[default]
    Review,
    /// Suppressed, with the reason `business_deadline_reached`.
    Suppress,
    /// A dead letter for this owner.
    Escalate(String),
}
