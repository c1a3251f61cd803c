//! The rules of Curfew, without I/O: what a job is, who may move it, and what becomes of it.
//!
//! Promises
//! - D1  `transition` is total: every pair of state and event has one answer, a change or a refusal.
//! - D2  A record that owes something has exactly one timer, and the change that says so carries it.
//! - D3  `decide` is a pure function of its question; jitter comes in as a number.
//! - D4  What is sealed has no `Display`, and its `Debug` is redacted.
//! - D5  What a newer process wrote into a stored form is kept and written back.
//!
//! Not promised: anything about a clock. `now` is passed in, and is the ledger's.
//!
//! Read `record.rs` first, then `transition.rs`, then `decide.rs`.

pub mod address;
pub mod decide;
pub mod explain;
pub mod form;
pub mod history;
pub mod ids;
pub mod job;
pub mod key;
pub mod limits;
pub mod moment;
pub mod outcome;
pub mod policy;
pub mod record;
pub mod recurrence;
pub mod rung;
pub mod sealed;
pub mod simulation;
pub mod trace;
pub mod transition;
pub mod verb;
pub mod wake_up;

pub use ids::{JobId, Shard, Token, WorkerId};
pub use key::Key;
pub use moment::Moment;
pub use outcome::{Outcome, OutcomeClass, Reason};
pub use record::{Record, State};
pub use transition::{Change, Event, Refusal, transition};
