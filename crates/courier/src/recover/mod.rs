//! Recovery of a shard whose ledger lost its latest part, or may have (DESIGN 8): each step may be repeated by anybody, and is.
//!
//! Promises (proved by `tests/recovery` on a real Redis, and by `tests/tests/recovery.rs` with the built binary)
//! - A1  From the adoption on, no errand of an earlier incarnation changes ledger or book; what it handed over is reported.
//! - A2  What may have been handed over and isn't proven is never sent again by automation: it goes to review.
//! - A3  With every worker alive nothing is lost that a worker or the book knows, and what survived goes on.
//! - A4  Whoever recovers may die at any moment, or be several: every write is a swap of the version that was judged.
//!
//! Not promised: that an operator of the stores didn't change them by hand. Read `ruling.rs` first, then `shard.rs`, then `report.rs`.

mod patience;
mod report;
mod ruling;
mod shard;
mod unreadable;

pub use patience::Patience;
pub use report::{Assertable, Known, assert_again};
pub use ruling::{Facts, Ruling, lacking, rule};
pub use shard::{Found, Recovery, Stage, look};
