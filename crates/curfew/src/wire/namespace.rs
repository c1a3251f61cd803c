//! A part of a fleet's servers that is one rehearsal's own: a schema, a prefix of keys, a prefix of exchanges and queues.
//!
//! Promises: it takes nothing that is there already, and removes nothing that it didn't make. What it made is named before it is used, so
//! that a person finds what a killed rehearsal left.

use std::time::Duration;

use curfew_broker::Broker;
use curfew_broker::rabbit::Rabbit;
use curfew_ledger::Ledger;
use curfew_ledger::redis::RedisLedger;
use curfew_store::Postgres;

use super::WireError;
use super::fleet::{Urls, broker_settings, ledger_options, store_options};
use crate::config::{Config, RehearsalId};

/// How long the broker may take to declare all of it.
const BROKER_WAIT: Duration = Duration::from_secs(20);

/// What one rehearsal made.
pub struct Namespace {
    id: RehearsalId,
    store: Postgres,
    ledger: RedisLedger,
    broker: Rabbit,
}

impl Namespace {
    /// Makes the schema and the queues, and asks whether the ledger answers.
    ///
    /// # Errors
    /// What a server doesn't permit, in one line; nothing is left behind then.
    pub async fn claim(config: &Config, id: &RehearsalId) -> Result<Self, WireError> {
        let config = &Config { rehearsal: Some(id.clone()), ..config.clone() };
        let urls = Urls::of(config)?;
        let refused =
            |place: &str, error: &dyn std::fmt::Display| WireError::Other(format!("{place} the rehearsal's own part can't be made: {error}"));
        let store = Postgres::connect(urls.book, store_options(config)).await.map_err(|e| refused("[book] url:", &e))?;
        let ledger = RedisLedger::open(urls.ledger, ledger_options(config)).map_err(|e| refused("[ledger] url:", &e))?;
        ledger.now().await.map_err(|e| refused("[ledger] url:", &e))?;
        store.create_schema().await.map_err(|e| refused("[book] url:", &e))?;
        let broker = match Rabbit::start(broker_settings(config, urls.broker)) {
            Ok(broker) => broker,
            Err(error) => {
                let _the_first_counts = store.drop_schema().await;
                return Err(refused("[broker] url:", &error));
            }
        };
        let made = Self { id: id.clone(), store, ledger, broker };
        match made.broker.ready(BROKER_WAIT).await {
            Ok(()) => Ok(made),
            Err(error) => {
                let refused = refused("[broker] url:", &error);
                let _the_first_counts = made.remove().await;
                Err(refused)
            }
        }
    }

    /// Removes all of it; the rehearsal's processes must be gone.
    ///
    /// # Errors
    /// What is left, by name, for a person to remove; the rest is gone.
    pub async fn remove(self) -> Result<(), WireError> {
        let broker = self.broker.remove().await.map_err(|e| e.to_string());
        self.broker.close().await;
        let ledger = self.ledger.remove().await.map(drop).map_err(|e| e.to_string());
        let store = self.store.drop_schema().await.map_err(|e| e.to_string());
        self.store.close().await;
        let all = [("[broker]", broker, self.id.queues()), ("[ledger]", ledger, self.id.keys()), ("[book]", store, self.id.schema())];
        let left: Vec<String> = all.into_iter().filter_map(|(of, done, what)| done.err().map(|why| format!("{of} {what} ({why})"))).collect();
        if left.is_empty() { Ok(()) } else { Err(WireError::Other(format!("the rehearsal left behind: {}", left.join("; ")))) }
    }
}
