//! The Redis ledger on real servers: the suite on each shape, and what breaks a server or the way to it.
//!
//! Every test has servers of its own; the suites of the Sentinel trio and of the Cluster share one, each promise under its own prefix.

mod barrier;
mod bench;
mod clocks;
mod cluster;
mod faults;
mod jobs;
mod leads;
mod remove;
mod sentinel;
mod servers;
mod suite;
mod twins;
mod unreadable;
