//! The roles together, on the real SQLite stores, the in-process broker and a mail server that counts. The server's own log is the judge.
//!
//! Nothing here sleeps for a length of time: a test waits for a state, and moves the ledger's clock where time must pass.

mod artifacts;
mod attempts;
mod audit;
mod doubts;
mod faults;
mod house;
mod limits;
mod many;
mod times;
mod transports;
mod verbs;
mod wake_ups;
