//! The whole fleet in one thread: the real scheduler, worker and dead-letter loops on simulated stores, broker, network and mail server, under
//! faults drawn from a seed. The mail server's count is the judge.
//!
//! Promises
//! - A seed is one run, bit for bit: each is run twice, and their traces must be the same.
//! - Every run ends with all jobs at their end, each accepted at most once, none late, none early, each dead letter with its item.
//! - Every event, refusal, transition and fault occurs in a batch, or the batch fails and names it.
//! - Each planted bug is caught.
//!
//! `CURFEW_SIM_SEEDS=n` runs so many (1,000 by default; from 2,000 on each fault must have occurred), `CURFEW_SIM_SEED=n` that one alone, its trace printed.
//!
//! Not promised: the adapters' SQL and scripts (their suites, the differential test), threads, a book that loses its tail.
//!
//! Read `run.rs` first, then `fleet.rs`, `faults.rs`, `judge.rs`.

mod batch;
mod beside;
mod faults;
mod fleet;
mod jobs;
mod judge;
mod moments;
mod net;
mod people;
mod plant;
mod ports;
mod run;

/// Shards of a simulated fleet.
pub const SHARDS: u8 = 4;
