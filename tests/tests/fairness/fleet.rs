//! What a process of the fleet is, by the names under which its place in the registry knows it.

use std::sync::Arc;

use curfew_testkit::sim::{SimBroker, SimLedger, SimStore};

/// What a process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Scheduler,
    Worker,
    DeadLetter,
}

impl Role {
    pub const fn word(self) -> &'static str {
        match self {
            Role::Scheduler => "scheduler",
            Role::Worker => "worker",
            Role::DeadLetter => "deadletter",
        }
    }
}

/// What one process reaches the servers by.
#[derive(Clone)]
pub struct Ports {
    pub ledger: Arc<SimLedger>,
    pub store: Arc<SimStore>,
    pub broker: Arc<SimBroker>,
}
