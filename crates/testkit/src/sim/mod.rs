//! A fleet in one thread: simulated stores, broker and network, under the real loops; one seed is one run, bit for bit.
//!
//! Promises
//! - S1  Time is virtual: it passes where everybody waits, and nowhere else.
//! - S2  Chance comes from the seed alone; the trace's hash tells whether two runs are the same.
//! - S3  A process that is killed does nothing more from its next call on; one that is frozen, nothing until it thaws.
//! - S4  A call may be lost before it is served, or its answer after; whoever called can't tell which.
//! - S5  Each adapter passes the conformance suite of its port, as the others do.
//!
//! Not promised: threads, the SQL and the scripts of the real adapters (their suites, and the differential test), a drift of monotonic clocks.
//!
//! Read `world.rs` first, then `link.rs`; then an adapter.

mod broker;
mod broker_client;
mod broker_queues;
#[cfg(test)]
mod broker_tests;
mod ledger;
mod link;
mod net;
mod net_pipe;
#[cfg(test)]
mod net_tests;
mod process;
mod store;
mod world;

pub use broker::{BrokerFaults, QueueKind, SimBrokerServer, Survives};
pub use broker_client::SimBroker;
pub use ledger::{LedgerBugs, SimLedger, SimLedgerOptions, SimLedgerServer};
pub use link::{Link, Lost, Service, Weather};
pub use net::{Handoff, SimNet, SimRelay};
pub use process::{Process, Standing};
pub use store::{SimStore, SimStoreServer, StoreBugs, VerbCounts};
pub use world::{EPOCH, World};
