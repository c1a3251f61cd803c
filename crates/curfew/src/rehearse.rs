//! The rehearsal: ten jobs against a built-in mail server, with real processes and real kills, and then one kill on each side of an intent.
//!
//! It brings its own policy, lease, tenant, keys and folder, all removed at the end; nothing else is touched. The server's own count of
//! accepted messages is the judge.

mod child;
mod report;
mod scenes;
mod server;
mod signature;

use std::time::Duration;

use crate::cli::args;
use crate::exit::{Ended, Exit, Failure};

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

/// Runs it, prints its table or its object; exit 1 if anything differs.
///
/// # Errors
/// `Failure`, where the rehearsal itself can't run.
pub fn run(args: &args::Rehearse, json: bool) -> Ended {
    let provider = if args.idempotent { Provider::KnowsKeys } else { Provider::Forgets };
    let folder = tempfile::Builder::new().prefix("curfew-rehearsal-").tempdir().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(|e| Failure::usage(format!("no runtime: {e}")))?;
    let mut server = runtime.block_on(server::start(provider));
    let report = scenes::play(folder.path(), &server, provider, std::time::Instant::now() + WITHIN)?;
    runtime.block_on(server.shutdown());
    report.print(json);
    Ok(if report.ok { Exit::Done } else { Exit::Refused })
}
