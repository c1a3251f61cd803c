//! Review: dead letters, each one record that explains itself, and the human work on them.
//!
//! Promises (proved by `conformance`, for every adapter)
//! - R1  A dead letter is recorded once per (job, generation, dead-letter number), with history and outcome, in one guarded transaction.
//! - R2  A story that the book knows better changes nothing, and still closes its record.
//! - R3  A replay is one transaction in the book alone: lock, check open, raise the generation, new times, freeze the content revision,
//!   close the item, audit. Of two replays of one item one wins.
//! - R4  Every replay has an operator, a reason and a deadline ahead.
//! - R5  An item in doubt is replayed only with the risk of a duplicate accepted, and not before 15 min after its lease ended.
//! - R6  Evidence resolves an item in doubt by itself; the token stays on record.
//! - R7  No list shows an address or a body.
//!
//! Imports `domain` and `book` (and `store`, in `sql` for SQLite and `postgres`). Read `port.rs` next.

pub mod act;
pub mod conformance;
mod error;
pub mod judge;
mod port;
pub mod postgres;
pub mod sql;

pub use error::ReviewError;
pub use port::{Correction, Item, ItemStatus, Quarantined, Replay, Replayed, Review, ReviewFilter};
