//! What a scheduler is made of: its stores, its broker, and its settings.

use std::sync::Arc;
use std::time::Duration;

use curfew_book::Book;
use curfew_broker::Broker;
use curfew_courier::pause::Pauses;
use curfew_courier::{Machine, Rulebook, Tenants};
use curfew_domain::Shard;
use curfew_ledger::Ledger;
use curfew_review::Review;

/// The stores and the broker.
#[derive(Clone)]
pub struct Ports {
    /// Who may send now.
    pub ledger: Arc<dyn Ledger>,
    /// What was accepted, what became of it.
    pub book: Arc<dyn Book>,
    /// Dead letters.
    pub review: Arc<dyn Review>,
    /// Wake-ups.
    pub broker: Arc<dyn Broker>,
    /// Policies and transports.
    pub rulebook: Arc<Rulebook>,
    /// Chance.
    pub machine: Arc<dyn Machine>,
    /// Who wants to know about moments.
    pub pauses: Arc<dyn Pauses>,
}

/// A scheduler's settings, checked by the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The shards it works.
    pub shards: Vec<Shard>,
    /// How often it looks; 100 ms by default.
    pub tick: Duration,
    /// The farthest moment that is published ahead; a power of two of seconds, 1 s to 64 s.
    pub horizon: Duration,
    /// How long before its release a job is staged.
    pub staging_window: Duration,
    /// How long a wake-up may stay unclaimed after its moment.
    pub claim_grace: Duration,
    /// A worker's lease, for the rest after an outage.
    pub lease: Duration,
    /// The fleet's concurrency: a ready queue holds at least twice as many.
    pub concurrency: u32,
    /// Limits by tenant; `default` for the unnamed.
    pub tenants: Tenants,
    /// Above this many bytes of live records staging stops, nothing else does.
    pub max_live_bytes: u64,
}
