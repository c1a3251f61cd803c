//! The rehearsal: ten jobs against a built-in mail server, with real processes and real kills, and then one kill on each side of an intent.
//!
//! It brings its own policy, lease, tenant, keys and folder, and on a fleet's servers a part of its own (`wire::Namespace`), all removed at the
//! end; nothing else is touched. The server's own count of accepted messages is the judge.

mod cast;
mod child;
mod fleet;
mod report;
mod scenes;
mod server;
mod settings;
mod signature;

use std::path::Path;
use std::time::Duration;

use curfew_testkit::mail_server::MailServer;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::args;
use crate::config::{Config, Deployment, RehearsalId};
use crate::exit::{Ended, Exit, Failure};
use crate::wire::{Namespace, WireError};
use child::End;
use report::Report;

/// Everything in it ends by then.
const WITHIN: Duration = Duration::from_secs(55);

/// Which provider is rehearsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provider {
    /// It recognises no key: what is in doubt goes to a person.
    Forgets,
    /// It answers a repeated key as a duplicate.
    KnowsKeys,
}

/// Runs it on the stores that are configured, prints its table or its object; exit 1 if anything differs.
///
/// # Errors
/// `Failure`, where the rehearsal itself can't run.
pub fn run(args: &args::Rehearse, config: &Config, json: bool) -> Ended {
    let provider = if args.idempotent { Provider::KnowsKeys } else { Provider::Forgets };
    let folder = tempfile::Builder::new().prefix("curfew-rehearsal-").tempdir().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(|e| Failure::usage(format!("no runtime: {e}")))?;
    let mut server = runtime.block_on(server::start(provider));
    let end = End::within(WITHIN);
    runtime.spawn(end_at_a_signal(end.clone()));
    let played = match config.deployment {
        Deployment::Fleet => on_servers(&runtime, folder.path(), config, &server, provider, &end),
        Deployment::Embedded | Deployment::AsGiven => scenes::play(folder.path(), &server, provider, &end),
    };
    runtime.block_on(server.shutdown());
    let report = played?;
    report.print(json);
    Ok(if report.ok { Exit::Done } else { Exit::Refused })
}

/// In a part of the servers that is made before and removed after, whatever came between.
fn on_servers(runtime: &Runtime, folder: &Path, config: &Config, server: &MailServer, provider: Provider, end: &End) -> Result<Report, Failure> {
    let id = RehearsalId::random();
    let told = |error: WireError| Failure::refused(error.to_string());
    let namespace = runtime.block_on(Namespace::claim(config, &id)).map_err(told)?;
    eprintln!("rehearsing in {}", id.place());
    // Its processes are gone when it returns.
    let played = fleet::Stage { folder, config, id: &id, server, provider, end }.play();
    let removed = runtime.block_on(namespace.remove()).map_err(told);
    let report = played?;
    removed.map(|()| report)
}

/// Whoever interrupts it waits for its children's end and for what it made to be removed.
async fn end_at_a_signal(end: End) {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else { return };
    loop {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        end.come();
    }
}
