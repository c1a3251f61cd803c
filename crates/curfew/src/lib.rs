//! Curfew, the binary: its configuration, its verbs, and the wiring of the parts.
//!
//! `main.rs` is a few lines over this library, so that tests and the load test see the configuration's types.
//!
//! Read `cli/args.rs` for what it can do, then `config/mod.rs`.

mod check;
pub mod cli;
pub mod config;
pub mod exit;
mod rehearse;
mod up;
pub mod verbs;
mod wire;
