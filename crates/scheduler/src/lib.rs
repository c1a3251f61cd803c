//! The scheduler stages, releases, heals and settles. It is the one publisher, and enforces deadlines even when no worker lives.
//!
//! Promises (proved by `worker/tests/roles` and the suites of the built binary)
//! - S1  What is planned is staged before its release, and a deadline that passes ends its job whoever is alive.
//! - S2  Publish, then swap: a crash in between costs a repeated wake-up, never a lost job.
//! - S3  A wake-up is published again only into silence, or where the queue has passed it: a backlog never multiplies itself.
//! - S4  After a ledger outage nobody's lease is acted on until the ledger has answered for half a lease.
//! - S5  A verb whose row stays open for 5 s is finished.
//! - S6  A schedule's jobs are made a day ahead, each once whoever makes them; one that can't be made stops no other, and delays no release.
//!
//! Not promised: order between jobs of one tenant beyond their times.
//!
//! Read `tick.rs` (pure) first, then `run.rs`.

mod audit;
mod credit;
mod heal;
mod housekeeping;
mod leads;
mod materialise;
mod ports;
mod recover;
mod release;
mod run;
mod served;
mod settle;
mod stage;
pub mod tick;

pub use audit::{AuditFinding, Audited, audit, audit_until};
pub use materialise::{Letters, Materialiser, Scribe};
pub use ports::{Ports, Settings};
pub use run::{Scheduler, Tally};
