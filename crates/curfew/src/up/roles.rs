//! The roles of one process, made from its parts and its configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use curfew_api::{Api, Door, FleetInfo, Known, Operator, TenantDefaults};
use curfew_courier::{TenantLimits, Tenants, ThisMachine};
use curfew_deadletter::DeadLetter;
use curfew_scheduler::{Materialiser, Scheduler};
use curfew_telemetry::metrics::{Durability, Exposition};
use curfew_worker::Worker;
use curfew_worker::pause::{NoPauses, Pauses};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Roles;
use super::readiness::Readiness;
use super::scribe::Scribe;
use crate::config::{Config, Require, Tenant};
use crate::wire::{Parts, Stores, WireError, rate_per_s};

/// The scheduler.
pub fn scheduler(parts: &Parts, config: &Config, nudge: Arc<Notify>, pauses: Arc<dyn Pauses>) -> Arc<Scheduler> {
    let (ports, settings) = scheduler_parts(parts, config);
    Arc::new(Scheduler::new(curfew_scheduler::Ports { pauses, ..ports }, settings, nudge))
}

/// What a scheduler is made of; an audit takes the same.
pub fn scheduler_parts(parts: &Parts, config: &Config) -> (curfew_scheduler::Ports, curfew_scheduler::Settings) {
    let ports = curfew_scheduler::Ports {
        ledger: Arc::clone(&parts.ledger),
        book: Arc::clone(&parts.book),
        review: Arc::clone(&parts.review),
        broker: Arc::clone(&parts.broker),
        rulebook: Arc::clone(&parts.rulebook),
        machine: Arc::new(ThisMachine),
        pauses: Arc::new(NoPauses),
    };
    let settings = curfew_scheduler::Settings {
        shards: parts.shards.clone(),
        tick: config.scheduler.tick,
        horizon: config.scheduler.horizon,
        staging_window: config.scheduler.staging_window,
        claim_grace: config.scheduler.claim_grace,
        lease: config.worker.lease,
        concurrency: config.worker.concurrency,
        tenants: tenant_limits(config),
        max_live_bytes: match parts.stores {
            Stores::Embedded { .. } => u64::MAX, // it lives on the disk
            Stores::Fleet { .. } => config.ledger.max_live_bytes,
        },
    };
    (ports, settings)
}

fn tenant_limits(config: &Config) -> Tenants {
    let limits = |t: &Tenant| TenantLimits {
        max_in_flight: t.max_in_flight.map(u64::from),
        rate_per_s: t.rate.map(|rate| rate_per_s(rate.count, rate.per)),
        credit: t.credit.map(u64::from),
    };
    by_tenant(config, limits).collect()
}

fn by_tenant<T>(config: &Config, of: impl Fn(&Tenant) -> T) -> impl Iterator<Item = (String, T)> {
    let default = ("default".to_owned(), of(&config.tenants.default));
    config.tenants.named.iter().map(move |(name, tenant)| (name.clone(), of(tenant))).chain([default])
}

/// What makes the jobs of schedules, beside the scheduler and at a pace of its own.
pub fn materialiser(parts: &Parts, config: &Config, nudge: Arc<Notify>) -> Arc<Materialiser> {
    let scribe = Arc::new(Scribe::new(door(parts, config)));
    Arc::new(Materialiser::new(Arc::clone(&parts.ledger), Arc::clone(&parts.schedules), scribe, nudge))
}

/// The worker.
pub async fn worker(parts: &Parts, config: &Config, drain: Duration, pauses: Arc<dyn Pauses>) -> Result<Arc<Worker>, WireError> {
    let ports = curfew_worker::Ports {
        ledger: Arc::clone(&parts.ledger),
        book: Arc::clone(&parts.book),
        broker: Arc::clone(&parts.broker),
        rulebook: Arc::clone(&parts.rulebook),
        keyring: Arc::clone(&parts.keyring),
        artifacts: Arc::clone(&parts.artifacts),
        lanes: Arc::clone(&parts.lanes),
        machine: Arc::new(ThisMachine),
        pauses,
    };
    let settings = curfew_worker::Settings {
        shards: parts.shards.clone(),
        concurrency: config.worker.concurrency,
        lease: config.worker.lease,
        drain,
        claim_grace: config.scheduler.claim_grace,
        tenants: tenant_limits(config),
    };
    Worker::new(ports, settings).await.map_err(|e| WireError::Other(e.to_string()))
}

/// The dead-letter consumer.
pub fn deadletter(parts: &Parts, config: &Config, pauses: Arc<dyn Pauses>) -> Arc<DeadLetter> {
    let ports = curfew_deadletter::Ports {
        ledger: Arc::clone(&parts.ledger),
        book: Arc::clone(&parts.book),
        review: Arc::clone(&parts.review),
        broker: Arc::clone(&parts.broker),
        keyring: Arc::clone(&parts.keyring),
        owners: Arc::new(config.review.owners.iter().map(|(reason, owner)| (reason.word().to_owned(), owner.clone())).collect()),
        pauses,
    };
    Arc::new(DeadLetter::new(ports, curfew_deadletter::Settings { shards: parts.shards.clone(), tick: config.scheduler.tick }))
}

/// Who may ask the API.
pub fn operators(config: &Config) -> Vec<Operator> {
    config
        .operators
        .values()
        .map(|o| Operator {
            name: o.name.clone(),
            token_hash: o.token_hash(),
            roles: o.roles.iter().map(|r| r.word().to_owned()).collect(),
            tenants: o.tenants.clone().unwrap_or_default(),
        })
        .collect()
}

/// What judges and seals.
fn door(parts: &Parts, config: &Config) -> Door {
    let known = Known {
        policies: config.policies.keys().cloned().collect::<BTreeSet<_>>(),
        transports: config.transports.keys().cloned().collect(),
        tenants: by_tenant(config, |t| TenantDefaults { policy: t.policy.clone(), transport: t.transport.clone() }).collect(),
    };
    Door::new(
        (*parts.keyring).clone(),
        Arc::clone(&parts.templates),
        Arc::clone(&parts.artifacts),
        Arc::clone(&parts.zones),
        known,
        config.ledger.shards,
    )
}

/// The API.
pub fn api(
    parts: &Arc<Parts>,
    config: &Config,
    has: Roles,
    nudge: &Arc<Notify>,
    exposition: Exposition,
    readiness: Readiness,
    stop: CancellationToken,
) -> Api {
    let drains = stop.clone();
    let info = FleetInfo {
        roles: has.names(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        transports: config.transports.keys().cloned().collect(),
        shards: config.ledger.shards,
        durability: parts.durability.iter().map(|(store, level)| (store.word().to_owned(), level.word().to_owned())).collect(),
    };
    let nudge = Arc::clone(nudge);
    let froms: BTreeMap<String, String> = config.transports.iter().map(|(name, t)| (name.clone(), t.from.address.clone())).collect();
    Api {
        ledger: Arc::clone(&parts.ledger),
        book: Arc::clone(&parts.book),
        schedules: Arc::clone(&parts.schedules),
        review: Arc::clone(&parts.review),
        rulebook: (*parts.rulebook).clone(),
        door: door(parts, config),
        operators: operators(config),
        escalation_owner: "on-call".to_owned(),
        event_secrets: config
            .transports
            .iter()
            .filter_map(|(name, t)| t.events_secret.as_ref().map(|s| (name.clone(), s.expose().as_bytes().to_vec())))
            .collect(),
        staging_window: config.scheduler.staging_window,
        tenants: tenant_limits(config),
        message_id_of: Arc::new(move |key, revision, transport| {
            crate::wire::message_id(key, revision, froms.get(transport).map_or("", String::as_str))
        }),
        on_accepted: Arc::new(move || nudge.notify_one()),
        readiness: Arc::new(move || readiness.told(&drains)),
        on_drain: Arc::new(move || stop.cancel()),
        exposition: Arc::new(move || exposition.render()),
        fleet_info: Arc::new(move || info.clone()),
    }
}

/// The durability that the configuration asks of the ledger.
pub fn required(config: &Config) -> Durability {
    match config.ledger.require {
        Require::None => Durability::None,
        Require::Process => Durability::Process,
        Require::Fsync => Durability::Fsync,
        Require::Replicated => Durability::Replicated,
    }
}
