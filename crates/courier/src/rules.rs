//! What decides about a job: its policy and its transport's properties, by the names that its record carries.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::Record;
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::transition::Rules;

/// What the rules must know of a transport.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TransportRules {
    /// How long the provider recognises a key, where that is confirmed.
    pub idempotency_window: Option<Duration>,
    /// The longest whole attempt.
    pub attempt_max: Duration,
}

/// Policies and transports by name; the same in every process of a fleet.
#[derive(Clone, Debug)]
pub struct Rulebook {
    policies: BTreeMap<String, Policy>,
    transports: BTreeMap<String, TransportRules>,
    fallback: Policy,
    owners: BTreeMap<String, String>,
}

impl Rulebook {
    /// From the configuration.
    pub fn new(policies: BTreeMap<String, Policy>, transports: BTreeMap<String, TransportRules>) -> Self {
        let fallback = policies.get("default").cloned().unwrap_or_else(default_policy);
        Self { policies, transports, fallback, owners: BTreeMap::new() }
    }

    /// The same, with the owners of dead letters by reason's word.
    pub fn owned_by(self, owners: BTreeMap<String, String>) -> Self {
        Self { owners, ..self }
    }

    /// Owners of dead letters by reason's word.
    pub fn owners(&self) -> &BTreeMap<String, String> {
        &self.owners
    }

    /// The policy of that name. A job whose policy was taken out of the configuration falls under the default one.
    pub fn policy(&self, name: &str) -> &Policy {
        self.policies.get(name).unwrap_or(&self.fallback)
    }

    /// What the deadline makes of a job under that policy.
    pub fn at_deadline(&self, policy: &str) -> AtDeadline {
        self.policy(policy).at_deadline.clone()
    }

    /// The rules for a record; `jitter` from 0.0 to 1.0.
    pub fn rules(&self, record: &Record, jitter: f64) -> Rules<'_> {
        let transport = self.transports.get(&record.transport);
        Rules {
            policy: self.policy(&record.policy),
            jitter,
            idempotency_window: transport.and_then(|t| t.idempotency_window),
            attempt_max: transport.map_or(ATTEMPT_MAX, |t| t.attempt_max),
        }
    }
}

/// For a transport that is no longer configured: the sum of RFC 5321's own timeouts, rounded up.
const ATTEMPT_MAX: Duration = Duration::from_secs(30 * 60);

fn default_policy() -> Policy {
    Policy {
        name: "default".to_owned(),
        version: 1,
        backoff: Backoff::Delays(vec![Duration::from_secs(300), Duration::from_secs(600)]),
        max_attempts: None,
        jitter: Jitter { lo_ms: 0, hi_ms: 30_000, percent: None },
        at_deadline: AtDeadline::Review,
    }
}
