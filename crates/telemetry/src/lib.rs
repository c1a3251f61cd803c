//! What operators see of a running Curfew: metrics, logs and traces, named once.
//!
//! Promises (proved by `tests/`)
//! - T1  Every metric, its labels and its unit stand in the catalogue; nobody else spells one. A golden file holds the names.
//! - T2  Label sets are closed or bounded: no ids, no addresses, and what submitters can name is capped.
//! - T3  One event is one line, whatever it holds: controls are escaped.
//! - T4  No address gets into a log, nor into a trace, not even inside somebody else's words.
//!
//! Not promised: that a metric survives a restart. Counters begin at zero with the process.
//!
//! Read `metrics.rs` first, then `logs.rs` and `traces.rs`.

pub mod logs;
pub mod metrics;
mod post;
pub mod traces;

pub use logs::Format;
pub use metrics::{Exposition, InstallError};
