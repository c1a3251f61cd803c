//! The simulated book and review store: the fleet's PostgreSQL in memory, judged by the same judges as the real one.
//!
//! Promises
//! - The conformance suites of book and review hold, whole.
//! - A call is one transaction at one moment, or none; a lost answer is `Unavailable`, and whoever asked can't tell which.
//! - A fail-over takes back the last commits, all of each; what is left is what stood at some moment.
//! - A sequence's numbers behave as PostgreSQL's: a crash leaves a gap, a lost tail may give a number twice.
//!
//! Not promised: locks and what comes of waiting for them, partitions, migrations, rows that can't be read.
//!
//! Read `server.rs` first, then `tables.rs`; `client.rs` is what a process holds.

mod actions;
mod checker;
mod client;
mod door;
mod items;
mod reading;
mod registry;
mod review;
mod rules;
mod server;
mod small;
mod stories;
mod table;
mod tables;
mod verbs;

pub use checker::VerbCounts;
pub use client::SimStore;
pub use server::{SimStoreServer, StoreBugs};
