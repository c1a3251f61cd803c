//! What a worker is made of: stores, broker, transports, keys, and its settings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use curfew_book::Book;
use curfew_broker::Broker;
use curfew_content::Artifacts;
use curfew_courier::{Machine, Rulebook, Tenants};
use curfew_domain::Shard;
use curfew_domain::sealed::Keyring;
use curfew_ledger::Ledger;

use crate::lane::Lane;
use crate::pause::Pauses;

/// The stores, the broker and the ways to the providers.
#[derive(Clone)]
pub struct Ports {
    /// Who may send now.
    pub ledger: Arc<dyn Ledger>,
    /// Takes late verdicts where no record stands, and holds.
    pub book: Arc<dyn Book>,
    /// Wake-ups.
    pub broker: Arc<dyn Broker>,
    /// Policies and transports' properties.
    pub rulebook: Arc<Rulebook>,
    /// Opens letters.
    pub keyring: Arc<Keyring>,
    /// Reads attachments.
    pub artifacts: Arc<Artifacts>,
    /// Transports by name.
    pub lanes: Arc<BTreeMap<String, Arc<Lane>>>,
    /// Chance, and the system's clock.
    pub machine: Arc<dyn Machine>,
    /// Moments that a rehearsal or a test wants to hit; nothing in production.
    pub pauses: Arc<dyn Pauses>,
}

/// A worker's settings, checked by the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The shards it consumes.
    pub shards: Vec<Shard>,
    /// Jobs claimed at once.
    pub concurrency: u32,
    /// 10 s to 15 min; renewed every third of it.
    pub lease: Duration,
    /// How long a drain waits for what is in hand.
    pub drain: Duration,
    /// How long a wake-up may be overdue before it is published again.
    pub claim_grace: Duration,
    /// Limits by tenant; `default` for the unnamed.
    pub tenants: Tenants,
}

impl Settings {
    /// Unanswered deliveries per shard queue: min(concurrency, 32).
    pub fn prefetch(&self) -> u16 {
        self.concurrency.min(32) as u16
    }
}
