//! The dead-letter consumer feeds the review store: from the dead-letter queue, and straight from the ledger's overdue `review` index.
//!
//! Promises (proved by `worker/tests/roles` and the suites of the built binary)
//! - X1  A dead letter is recorded in one guarded transaction, then closed; neither a lost wake-up nor an absent broker hides one.
//! - X2  What the broker dropped is kept: an undecodable body sealed and bounded, a live job counted, a missing record judged.
//! - X3  None vanishes, none is sent.
//!
//! Read `steps.rs`, then `run.rs`.

mod run;
mod steps;

pub use run::{DeadLetter, Ports, Settings};
