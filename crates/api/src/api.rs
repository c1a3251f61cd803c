//! What every request shares: the ports, the door, and what the process that runs it told about itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use curfew_book::{Book, Schedules};
use curfew_courier::{Rulebook, Tenants};
use curfew_domain::Key;
use curfew_ledger::Ledger;
use curfew_review::Review;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::Operator;
use crate::door::Door;

/// Everything the API works with. Built once by the process that serves it.
pub struct Api {
    /// Who may send now; its clock is the time.
    pub ledger: Arc<dyn Ledger>,
    /// What was accepted.
    pub book: Arc<dyn Book>,
    /// What is repeated: the same book.
    pub schedules: Arc<dyn Schedules>,
    /// Dead letters.
    pub review: Arc<dyn Review>,
    /// What decides about an outcome.
    pub rulebook: Rulebook,
    /// Judges and seals.
    pub door: Door,
    /// Who may ask; empty: only this machine, as `local`.
    pub operators: Vec<Operator>,
    /// Who gets an escalated item where nobody is named.
    pub escalation_owner: String,
    /// The secret of each transport whose provider sends events.
    pub event_secrets: BTreeMap<String, Vec<u8>>,
    /// What each tenant may have: says why a due job still stands in its line.
    pub tenants: Tenants,
    /// A planned job further away, and never staged, is changed in the book alone.
    pub staging_window: Duration,
    /// The `Message-ID` of a content revision, without brackets. Lets an event name a message.
    pub message_id_of: MessageIdOf,
    /// Called after each acceptance, verb and replay, so that an embedded scheduler stages at once.
    pub on_accepted: Arc<dyn Fn() + Send + Sync>,
    /// Called by `fleet drain`.
    pub on_drain: Arc<dyn Fn() + Send + Sync>,
    /// Whether this process can serve.
    pub readiness: Arc<dyn Fn() -> Ready + Send + Sync>,
    /// The metrics as text.
    pub exposition: Arc<dyn Fn() -> String + Send + Sync>,
    /// What this process knows of the fleet.
    pub fleet_info: Arc<dyn Fn() -> FleetInfo + Send + Sync>,
}

/// Computes a `Message-ID`: key, content revision, transport.
pub type MessageIdOf = Arc<dyn Fn(&Key, u32, &str) -> String + Send + Sync>;

/// Whether a process can serve, and what it waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct Ready {
    /// All is there.
    pub ready: bool,
    /// What isn't, in words.
    pub waiting_for: Vec<String>,
}

/// What a process tells of itself and its fleet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetInfo {
    /// Roles that run in this process.
    pub roles: Vec<String>,
    /// The build's version.
    pub version: String,
    /// Transports of the configuration.
    pub transports: Vec<String>,
    /// Shards of the fleet, 1 to 64.
    pub shards: u8,
    /// The durability level reached, by store.
    pub durability: BTreeMap<String, String>,
}
