//! `curfew up`: every role in one process, on the embedded stores; `curfew run`: some roles, on servers.

mod clocks;
mod cover;
mod enrolment;
mod gauges;
mod pauses;
mod probes;
mod readiness;
mod risk;
pub mod roles;
mod scribe;
mod signals;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use curfew_api::{Api, Probes, may_listen, serve, serve_probes};
use curfew_telemetry::metrics::Exposition;
use curfew_telemetry::traces::{self, Collector};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::wire::{self, Parts, Stores, WireError};

pub use pauses::PauseAt;

/// How long a drain waits for what is in hand, before timers get it.
const DRAIN: Duration = Duration::from_secs(25);
/// How long open requests may take once the process stops.
const HTTP_DRAIN: Duration = Duration::from_secs(5);

/// What `up` is told besides the configuration.
#[derive(Clone, Debug, Default)]
pub struct UpOptions {
    /// Moments to announce and hold, for a rehearsal.
    pub pause_at: Vec<PauseAt>,
    /// The shards that this process works; `None`: all.
    pub shards: Option<Vec<u8>>,
    /// Ends at once when its standard input does.
    pub tethered: bool,
}

/// Which roles a process has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Roles {
    /// Stages, releases, heals, settles.
    pub scheduler: bool,
    /// Sends.
    pub worker: bool,
    /// Records dead letters.
    pub deadletter: bool,
    /// Takes jobs and answers questions.
    pub api: bool,
}

impl Roles {
    /// Every role.
    pub const ALL: Self = Self { scheduler: true, worker: true, deadletter: true, api: true };

    /// Their names, in the order of the contract.
    pub fn names(self) -> Vec<String> {
        let all = [("scheduler", self.scheduler), ("worker", self.worker), ("deadletter", self.deadletter), ("api", self.api)];
        all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned()).collect()
    }
}

/// Every role in one process, on the embedded stores. Runs until a signal says stop, then drains.
///
/// # Errors
/// `WireError`, where it can't start.
pub async fn up(config: Config, options: UpOptions) -> Result<(), WireError> {
    let operators = roles::operators(&config);
    may_listen(config.http.listen, &operators).map_err(|e| WireError::Other(e.to_string()))?;
    let exposition = curfew_telemetry::metrics::install().map_err(|e| WireError::Other(e.to_string()))?;
    let parts = Arc::new(wire::embedded(&config).await?);
    live(parts, config, Roles::ALL, options, exposition).await
}

/// Some roles, on the servers' stores; any number of such processes make the fleet.
///
/// # Errors
/// `WireError`, where it can't start.
pub async fn run(config: Config, roles: Roles, options: UpOptions) -> Result<(), WireError> {
    if roles.api {
        may_listen(config.http.listen, &roles::operators(&config)).map_err(|e| WireError::Other(e.to_string()))?;
    }
    let exposition = curfew_telemetry::metrics::install().map_err(|e| WireError::Other(e.to_string()))?;
    let mut parts = wire::fleet(&config).await?;
    if let Some(shards) = &options.shards {
        parts.shards.retain(|shard| shards.contains(&shard.0));
    }
    live(Arc::new(parts), config, roles, options, exposition).await
}

/// Sends this process's spans to the collector that the configuration names.
fn trace(config: &Config, has: Roles) -> Result<(), WireError> {
    let Some(traces) = &config.traces else { return Ok(()) };
    let collector = Collector {
        endpoint: traces.endpoint.clone(),
        authorization: traces.authorization.as_ref().map(|secret| secret.expose().to_owned()),
        sample_percent: traces.sample_percent,
        roles: has.names().join(" "),
    };
    traces::init(&collector).map_err(|says| WireError::Other(format!("[traces] endpoint: {says}")))
}

/// Runs the roles until a signal says stop, then drains. A second signal ends the process at once.
async fn live(parts: Arc<Parts>, config: Config, has: Roles, options: UpOptions, exposition: Exposition) -> Result<(), WireError> {
    if options.tethered {
        signals::end_with_stdin();
    }
    trace(&config, has)?;
    let listener = match has.api {
        true => {
            Some(TcpListener::bind(config.http.listen).await.map_err(|e| WireError::Other(format!("[http] listen = {}: {e}", config.http.listen)))?)
        }
        false => None,
    };
    let (nudge, stop, http_stop) = (Arc::new(Notify::new()), CancellationToken::new(), CancellationToken::new());
    let ready = readiness::Readiness::default();
    let api: Arc<Api> = Arc::new(roles::api(&parts, &config, has, &nudge, exposition.clone(), ready.clone(), stop.clone()));
    let pauses = pauses::pauses(options.pause_at);
    let worker = match has.worker {
        true => Some(roles::worker(&parts, &config, DRAIN, Arc::clone(&pauses)).await?),
        false => None,
    };
    let place = enrolment::enrol(&parts, has, worker.clone(), stop.clone()).await?;
    let mut working = JoinSet::new();
    let distrust = clocks::Distrust::default();
    let mut clocks = clocks::Clocks::new(Arc::clone(&parts), distrust.clone());
    clocks.first().await;
    working.spawn(clocks.watch(stop.clone()));
    working.spawn(cover::watch(Arc::clone(&parts), config.ledger.shards, stop.clone()));
    working.spawn(ready.watch(Arc::clone(&parts), has, distrust, stop.clone()));
    if has.scheduler {
        working.spawn(roles::materialiser(&parts, &config, Arc::clone(&nudge)).run(stop.clone()));
        working.spawn(roles::scheduler(&parts, &config, Arc::clone(&nudge), Arc::clone(&pauses)).run(stop.clone()));
    }
    if let Some(worker) = &worker {
        working.spawn(Arc::clone(worker).run(stop.clone()));
    }
    if has.deadletter {
        working.spawn(roles::deadletter(&parts, &config, pauses).run(stop.clone()));
    }
    working.spawn(gauges::keep(Arc::clone(&parts), roles::required(&config), exposition, has.scheduler, stop.clone()));
    let probes = probes::listen(config.metrics.listen).await;
    let probed_at = probes.as_ref().and_then(|listener| listener.local_addr().ok());
    let probing = probes.map(|listener| {
        let told = Probes { readiness: Arc::clone(&api.readiness), exposition: Arc::clone(&api.exposition) };
        tokio::spawn(serve_probes(listener, told, http_stop.clone().cancelled_owned()))
    });
    greet(&parts, has, listener.as_ref(), probed_at);
    let serving = listener.map(|listener| tokio::spawn(serve(listener, api, http_stop.clone().cancelled_owned())));
    let standing = tokio::spawn(end_with_the_store(Arc::clone(&parts), stop.clone()));

    signals::first(&stop).await;
    tracing::info!("draining: what is in hand is finished, the rest given back");
    stop.cancel();
    tokio::select! {
        () = async { while working.join_next().await.is_some() {} } => {}
        () = signals::second() => {
            tracing::warn!("stopped at once; what was in hand is found again at the next start");
            std::process::exit(0);
        }
    }
    http_stop.cancel();
    if let Some(serving) = serving {
        let _served = tokio::time::timeout(HTTP_DRAIN, serving).await;
    }
    if let Some(probing) = probing {
        probing.abort();
    }
    standing.abort();
    place.leave(worker.is_none_or(|worker| worker.drained())).await;
    let _spans_that_nobody_took = tokio::task::spawn_blocking(traces::flush).await;
    // The last acks go out before the connection does.
    parts.broker.close().await;
    parts.stores.close().await
}

/// A store that stopped for good (its disk failed) ends the process, with its reason as the exit: living on, it would send nothing for ever,
/// and only a start finds out what is on the disk.
async fn end_with_the_store(parts: Arc<Parts>, stop: CancellationToken) {
    let why = parts.stores.stopped().await;
    tracing::error!(error_class = "store", "the store has stopped, the process ends: {why}");
    stop.cancel();
}

fn greet(parts: &Parts, has: Roles, listener: Option<&TcpListener>, probed_at: Option<SocketAddr>) {
    let place = parts.stores.place();
    match listener.and_then(|l| l.local_addr().ok()) {
        Some(address) => eprintln!("curfew is up at http://{address}, {place}, zone data {}", parts.zones.version()),
        None => eprintln!("curfew runs {}, {place}, zone data {}", has.names().join(" "), parts.zones.version()),
    }
    if let Stores::Fleet { .. } = &parts.stores {
        let levels = parts.durability.map(|(store, level)| format!("{} {}", store.word(), level.word()));
        eprintln!("durability: {}", levels.join(", "));
        if let Some(probed_at) = probed_at {
            eprintln!("metrics and probes at {probed_at}");
        }
    }
    if has.api {
        eprintln!("next: curfew submit FILE; curfew jobs list; curfew review list; curfew day");
    }
}
