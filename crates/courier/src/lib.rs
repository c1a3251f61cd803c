//! Couriers carry a job between its owners: book → ledger (stage), ledger → book (settle, record), a verb or a verdict to whoever owns it.
//!
//! Promises (proved by `worker/tests/roles`, on real adapters)
//! - C1  Every carry may be repeated by anybody, from the start, at any time; a crash between two steps costs a repetition.
//! - C2  Each side ignores stories of a lower (generation, version).
//! - C3  A verb takes effect once, or its caller is told that it doesn't; a planned job is staged first, so that the ledger decides races.
//! - C4  A verdict goes to the ledger as long as a record stands there, else to the book.
//!
//! Not promised: that a carry succeeds. Its errand stays overdue until one does.
//!
//! Uses the ports `ledger`, `book` and `review`; the roles and the API use it. Read `stage.rs`, then `verdict.rs`.

mod begin;
mod close;
mod error;
mod holds;
mod limits;
mod machine;
pub mod pause;
mod portion;
pub mod recover;
mod rules;
mod stage;
mod verb;
mod verdict;
pub mod witness;

pub use begin::{Begun, begin};
pub use close::{Closed, record_dead_letters, settle};
pub use error::CourierError;
pub use holds::{copy_holds, held, in_force, strongest};
pub use limits::{TenantLimits, Tenants};
pub use machine::{Machine, ThisMachine};
pub use portion::Portion;
pub use rules::{Rulebook, TransportRules};
pub use stage::{Staged, first_version, stage};
pub use verb::{VerbOutcome, carry_out, finish};
pub use verdict::{By, Report, Reported, report};
