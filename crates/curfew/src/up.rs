//! `curfew up`: every role in one process, on the embedded stores.

mod gauges;
mod pauses;
mod probes;
pub mod roles;
mod signals;

use std::sync::Arc;
use std::time::Duration;

use curfew_api::{Api, Probes, may_listen, serve, serve_probes};
use curfew_store::Sqlite;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::wire::{self, Parts, WireError};

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
}

/// Runs until a signal says stop, then drains. A second signal ends the process at once.
///
/// # Errors
/// `WireError`, where it can't start.
pub async fn up(config: Config, options: UpOptions) -> Result<(), WireError> {
    let operators = roles::operators(&config);
    may_listen(config.http.listen, &operators).map_err(|e| WireError::Other(e.to_string()))?;
    let exposition = curfew_telemetry::metrics::install().map_err(|e| WireError::Other(e.to_string()))?;
    let parts = Arc::new(wire::embedded(&config).await?);
    let listener =
        TcpListener::bind(config.http.listen).await.map_err(|e| WireError::Other(format!("[http] listen = {}: {e}", config.http.listen)))?;
    let address = listener.local_addr().map_err(|e| WireError::Other(e.to_string()))?;

    let nudge = Arc::new(Notify::new());
    let stop = CancellationToken::new();
    let http_stop = CancellationToken::new();
    let scheduler = roles::scheduler(&parts, &config, Arc::clone(&nudge));
    let worker = roles::worker(&parts, &config, DRAIN, pauses::pauses(options.pause_at)).await?;
    let deadletter = roles::deadletter(&parts, &config);
    let api: Arc<Api> = Arc::new(roles::api(&parts, &config, operators, &nudge, exposition.clone(), stop.clone()));

    let probing = probes::listen(config.metrics.listen).await.map(|listener| {
        let told = Probes { readiness: Arc::clone(&api.readiness), exposition: Arc::clone(&api.exposition) };
        tokio::spawn(serve_probes(listener, told, http_stop.clone().cancelled_owned()))
    });
    let scheduling = tokio::spawn(scheduler.run(stop.clone()));
    let working = tokio::spawn(worker.run(stop.clone()));
    let burying = tokio::spawn(deadletter.run(stop.clone()));
    let gauging = tokio::spawn(gauges::keep(Arc::clone(&parts), roles::required(&config), exposition, stop.clone()));
    let serving = tokio::spawn(serve(listener, api, http_stop.clone().cancelled_owned()));
    let standing = tokio::spawn(end_with_the_store(parts.store.clone(), stop.clone()));
    greet(&parts, address);

    signals::first(&stop).await;
    tracing::info!("draining: what is in hand is finished, the rest given back");
    stop.cancel();
    tokio::select! {
        _all = async { tokio::join!(working, scheduling, burying, gauging) } => {}
        () = signals::second() => {
            tracing::warn!("stopped at once; what was in hand is found again at the next start");
            std::process::exit(0);
        }
    }
    http_stop.cancel();
    let _served = tokio::time::timeout(HTTP_DRAIN, serving).await;
    if let Some(probing) = probing {
        probing.abort();
    }
    standing.abort();
    parts.store.close().await.map_err(WireError::from)
}

/// A store that stopped for good (its disk failed) ends the process, with its reason as the exit: living on, it would send nothing for ever,
/// and only a start finds out what is on the disk.
async fn end_with_the_store(store: Sqlite, stop: CancellationToken) {
    let why = store.stopped().await;
    tracing::error!(error_class = "store", "the store has stopped, the process ends: {why}");
    stop.cancel();
}

fn greet(parts: &Parts, address: std::net::SocketAddr) {
    eprintln!("curfew is up at http://{address}, data in {}, zone data {}", parts.data.display(), parts.zones.version());
    eprintln!("next: curfew submit FILE; curfew jobs list; curfew review list; curfew day");
}
