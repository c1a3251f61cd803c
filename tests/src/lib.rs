//! The built binary on real servers: what its tests share.
//!
//! Promises
//! - H1  A test meets the binary as an operator does: a child process, its files, its signals, its command line and its HTTP.
//! - H2  Every wait is for a level and has a deadline that names what never came; ports and folders are a test's own.
//! - H3  A child that a test started ends with the test, by its process id.
//! - H4  What a kill left behind is judged from the files alone, before anything is restarted.
//!
//! Not promised: speed. That is `loadtest/`.
//!
//! Read `settings.rs` first, then `process.rs`; each file of `tests/` is one family of promises.

pub mod autopsy;
pub mod canaries;
pub mod collector;
pub mod fleet;
pub mod flow;
pub mod http;
pub mod jobs;
pub mod judge;
pub mod leaks;
pub mod letters;
pub mod postfix;
pub mod process;
pub mod settings;
pub mod wait;

pub use fleet::Fleet;
pub use http::{Answer, Http};
pub use process::{Curfew, Ran};
pub use settings::Settings;
pub use wait::until;
