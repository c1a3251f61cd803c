//! The simulated ledger: what the fleet's Redis holds, does and loses, in this process's memory.
//!
//! Promises
//! - It passes the ledger's conformance suite, and the differential test finds no answer of its that Redis wouldn't give.
//! - A shard is on one node; each node has a clock, a run id and a replication id of its own, and may be down alone.
//! - A client identifies the server when it connects. Whatever it asks over an older identity, or in an older incarnation, is refused.
//!
//! Not promised: lanes (a client's calls to one node may overtake each other), Sentinel and Cluster redirections, the server's own expiry of
//! tombstones (`expire` alone deletes them), figures of memory beyond a rough one.
//!
//! Read `server.rs` first, then `client.rs`; `shard.rs` and `write.rs` are the scripts.

mod around;
mod barrier;
mod client;
mod clock;
mod estimate;
mod port;
mod read;
mod recoverable;
mod server;
mod shard;
mod write;

pub use client::{LedgerBugs, SimLedger};
pub use server::{SimLedgerOptions, SimLedgerServer};
