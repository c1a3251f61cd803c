//! The verbs that open stores, carried out by the wiring.

use std::path::PathBuf;

use curfew_store::Sqlite;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::cli::{Parts, args};
use crate::config::{Book, Config, Deployment, Sources};
use crate::exit::{Ended, Exit, Failure};
use crate::up::{PauseAt, UpOptions};
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
        let pause_at = args
            .pause_at
            .iter()
            .map(|text| text.parse::<PauseAt>())
            .collect::<Result<_, _>>()
            .map_err(|e| Failure::usage(format!("--pause-at: {e}")))?;
        curfew_telemetry::logs::init(
            curfew_telemetry::logs::Format::of_stderr(),
            &std::env::var("CURFEW_LOG").unwrap_or_else(|_unset| "info".to_owned()),
        );
        runtime()?.block_on(up::up(config, UpOptions { pause_at })).map_err(failure)?;
        Ok(Exit::Done)
    }

    fn check(&self, args: &args::Check, json: bool) -> Ended {
        let config = load(&sources(&args.config, &args.data), Deployment::AsGiven)?;
        runtime()?.block_on(check::check(&config, args.audit, json))
    }

    fn rehearse(&self, args: &args::Rehearse, json: bool) -> Ended {
        // A configuration that can't be used is told before anything is played.
        load(&sources(&args.config, &None), Deployment::Embedded)?;
        rehearse::run(args, json)
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
