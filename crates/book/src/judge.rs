//! What the book makes of stories, verbs and evidence: pure, shared by every adapter.
//!
//! Each function changes a row as it was read under the row's lock and says what else the same transaction must do. Proven by the
//! abstract model's `story`, `X_LOOK`, `X_APPLY`, `X_REFUSE` and `W_EVID`; the conformance suite runs them through an adapter.
//!
//! Read `judge/story.rs` first.

pub mod door;
mod evidence;
mod history;
pub mod item;
pub mod recovery;
pub mod schedule;
mod story;
mod verb;

pub use evidence::{Weighed, source_word as evidence_source_word, weigh};
pub use story::{ItemFate, Telling, tell};
pub use verb::{Closing, Opening, ask, check, close, detail};
