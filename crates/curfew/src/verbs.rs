//! The verbs that open stores, carried out by the wiring.

use std::path::PathBuf;

use curfew_store::Sqlite;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::cli::{Parts, args};
use crate::config::{Book, Config, Deployment, Sources};
use crate::exit::{Ended, Exit, Failure};
use crate::up::{PauseAt, Roles, UpOptions};
use crate::wire::{self, WireError};
use crate::{check, rehearse, up};

/// The wiring as the command line sees it.
pub struct Wired;

impl Parts for Wired {
    fn up(&self, args: &args::Up) -> Ended {
        let mut sources = Sources::of_process(args.config.clone());
        sources.data.clone_from(&args.data);
        sources.flags.extend(args.http.clone().map(|http| ("--http", "http.listen", http)));
        let config = load(&sources, Deployment::Embedded)?;
        let options = UpOptions { pause_at: pauses(&args.pause_at)?, shards: None, tethered: args.tethered };
        logs();
        runtime()?.block_on(up::up(config, options)).map_err(failure)?;
        Ok(Exit::Done)
    }

    fn run(&self, args: &args::Run) -> Ended {
        let mut sources = Sources::of_process(Some(args.config.clone()));
        sources.flags.extend(args.metrics.clone().map(|metrics| ("--metrics", "metrics.listen", metrics)));
        let config = Config { rehearsal: args.rehearsal.clone(), ..load(&sources, Deployment::Fleet)? };
        if let Some(shard) = args.shards.iter().flatten().find(|shard| **shard >= config.ledger.shards) {
            return Err(Failure::usage(format!(
                "--shards {shard}: the fleet has {} shards, 0 to {}",
                config.ledger.shards,
                config.ledger.shards - 1
            )));
        }
        let has = |role| args.roles.contains(&role);
        let roles = Roles {
            scheduler: has(args::RoleName::Scheduler),
            worker: has(args::RoleName::Worker),
            deadletter: has(args::RoleName::Deadletter),
            api: has(args::RoleName::Api),
        };
        let options = UpOptions { pause_at: pauses(&args.pause_at)?, shards: args.shards.clone(), tethered: args.tethered };
        logs();
        runtime()?.block_on(up::run(config, roles, options)).map_err(failure)?;
        Ok(Exit::Done)
    }

    fn check(&self, args: &args::Check, json: bool) -> Ended {
        let config = load(&sources(&args.config, &args.data), Deployment::AsGiven)?;
        runtime()?.block_on(check::check(&config, args.audit, json))
    }

    fn rehearse(&self, args: &args::Rehearse, json: bool) -> Ended {
        // A configuration that can't be used is told before anything is played.
        let config = load(&sources(&args.config, &None), Deployment::AsGiven)?;
        rehearse::run(args, &config, json)
    }

    fn backup(&self, args: &args::Backup, json: bool) -> Ended {
        let config = load(&sources(&args.config, &args.data), Deployment::AsGiven)?;
        let Book::Sqlite { file, .. } = &config.book else {
            return Err(Failure::usage("backup copies an SQLite book; back a server up with its own tools"));
        };
        runtime()?.block_on(Sqlite::backup_file(file, &args.file)).map_err(|e| failure(WireError::from(e)))?;
        let bytes = std::fs::metadata(&args.file).map(|m| m.len()).unwrap_or(0);
        say(json, &json!({"file": args.file, "bytes": bytes}), &format!("{}: {bytes} bytes", args.file.display()));
        Ok(Exit::Done)
    }

    fn migrate(&self, args: &args::Migrate, json: bool) -> Ended {
        let config = load(&sources(&args.config, &args.data), Deployment::AsGiven)?;
        let pending = runtime()?.block_on(wire::migrate(&config, args.check)).map_err(failure)?;
        let word = if args.check { "pending" } else { "applied" };
        let text = if pending.is_empty() { format!("nothing {word}") } else { format!("{word}: {}", pending.join(", ")) };
        say(json, &json!({word: pending}), &text);
        Ok(if args.check && !pending.is_empty() { Exit::Refused } else { Exit::Done })
    }
}

fn pauses(given: &[String]) -> Result<Vec<PauseAt>, Failure> {
    given.iter().map(|text| text.parse::<PauseAt>()).collect::<Result<_, _>>().map_err(|e| Failure::usage(format!("--pause-at: {e}")))
}

fn logs() {
    // PostgreSQL notices what a migration finds in place, at each start; of a lost connection to the broker the broker's own supervisor tells.
    let filter = std::env::var("CURFEW_LOG").unwrap_or_else(|_unset| "info,sqlx::postgres::notice=warn,lapin=off".to_owned());
    curfew_telemetry::logs::init(curfew_telemetry::logs::Format::of_stderr(), &filter);
}

fn say(json: bool, object: &serde_json::Value, text: &str) {
    if json { println!("{object}") } else { println!("{text}") }
}

fn sources(config: &Option<PathBuf>, data: &Option<PathBuf>) -> Sources {
    let mut sources = Sources::of_process(config.clone());
    sources.data.clone_from(data);
    sources
}

fn load(sources: &Sources, deployment: Deployment) -> Result<Config, Failure> {
    Config::load(sources, deployment).map_err(|faults| Failure::usage(faults.to_string()))
}

fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| Failure::usage(format!("no runtime: {e}")))
}

/// A lock passes, everything else must be mended.
fn failure(error: WireError) -> Failure {
    match error {
        WireError::Locked(_) => Failure::not_yet(error.to_string()),
        WireError::Other(says) => Failure::usage(says),
    }
}
