//! The worker takes a wake-up, asks the ledger, claims the job under a lease, prepares, writes its intent, looks again, hands over, reports.
//!
//! Promises (proved by `tests/roles` and the suites of the built binary)
//! - W1  No handoff without an intent on the disk, and none after a last look that says stop.
//! - W2  One task owns a record's version: a renewal can't refuse its own intent.
//! - W3  A delivery is answered only after the swap that ends or returns its job.
//! - W4  A verdict isn't forgotten while the process lives: it is reported until the ledger or the book has it.
//! - W5  A limit, a drain or an open circuit uses no attempt.
//! - W6  A panic before the intent gives the job back; after it the handoff is in doubt, unless its stage proves otherwise.
//!
//! Not promised: that a provider that never answers took nothing. That is `ambiguous`.
//!
//! Read `steps.rs` (one delivery's life) first, then `attempt.rs`.

mod attempt;
mod circuit;
mod clock;
mod gate;
mod heard;
mod held;
mod lane;
mod lease;
mod meter;
mod pace;
mod parcel;
mod ports;
mod run;
mod steps;
mod tell;
mod trouble;
mod turns;
mod verdicts;
mod watch;

pub use clock::LedgerClock;
pub use curfew_courier::pause;
pub use lane::{Lane, LaneSettings};
pub use ports::{Ports, Settings};
pub use run::{Tally, Worker};
