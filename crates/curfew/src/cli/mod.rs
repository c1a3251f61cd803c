//! The verbs. stdout is data, stderr is talk.
//!
//! Promises
//! - V1  A verb that changes something says so in one object, and its exit code is true.
//! - V2  What a verb over HTTP does, a plain HTTP client can do: it adds reading of files and times, and nothing else.
//! - V3  Nothing is sent twice because an answer was lost; where repeating is safe, the text says so.
//!
//! Verbs over HTTP and `try` run without a runtime; those that open stores are given from outside (`Parts`), by the wiring.
//!
//! Read `args.rs` first, then `client.rs`.

#[expect(rustdoc::broken_intra_doc_links, reason = "help texts show defaults in brackets, as a terminal reads them")]
pub mod args;
mod audit;
mod capacity;
pub mod client;
mod config_show;
pub mod csv_rows;
mod day;
mod fleet;
mod jobs;
mod keys;
mod letter;
pub(crate) mod moments;
mod operators;
mod output;
mod review;
mod schedule_files;
mod schedules;
mod submit;
pub mod submit_lines;
mod submit_send;
mod suppressions;
mod try_address;
mod try_decision;
mod try_lines;
mod try_reply;
mod try_rule;
mod try_schedule;

use clap::Parser;
use clap::error::ErrorKind;

use crate::config::{Config, Deployment, Faults, Sources};
use crate::exit::{Ended, Exit, Failure};
use args::{BookVerb, Cli, ConfigVerb, KeysVerb, OperatorsVerb, TryVerb, Verb};
use client::Client;
use output::Output;

/// The verbs that open stores; the wiring carries them out.
pub trait Parts {
    /// `curfew up`.
    ///
    /// # Errors
    /// `Failure`, as every verb.
    fn up(&self, args: &args::Up) -> Ended;

    /// `curfew run`.
    ///
    /// # Errors
    /// `Failure`, as every verb.
    fn run(&self, args: &args::Run) -> Ended;

    /// `curfew check`.
    ///
    /// # Errors
    /// `Failure`, as every verb.
    fn check(&self, args: &args::Check, json: bool) -> Ended;

    /// `curfew rehearse`.
    ///
    /// # Errors
    /// `Failure`, as every verb.
    fn rehearse(&self, args: &args::Rehearse, json: bool) -> Ended;

    /// `curfew backup`.
    ///
    /// # Errors
    /// `Failure`, as every verb.
    fn backup(&self, args: &args::Backup, json: bool) -> Ended;

    /// `curfew book migrate`.
    ///
    /// # Errors
    /// `Failure`, as every verb.
    fn migrate(&self, args: &args::Migrate, json: bool) -> Ended;
}

/// Reads this process's arguments, carries the verb out, and says on stderr what went wrong.
pub fn run(parts: &dyn Parts) -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let help = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _unwritable = e.print();
            return if help { Exit::Done } else { Exit::Usage };
        }
    };
    match verb(&cli, parts) {
        Ok(exit) => exit,
        Err(failure) => {
            output::tell(&failure);
            failure.exit
        }
    }
}

fn verb(cli: &Cli, parts: &dyn Parts) -> Ended {
    let out = Output { json: cli.json };
    let client = || Client::new(cli.api.as_deref());
    match &cli.verb {
        Verb::Up(args) => parts.up(args),
        Verb::Run(args) => parts.run(args),
        Verb::Check(args) => parts.check(args, cli.json),
        Verb::Rehearse(args) => parts.rehearse(args, cli.json),
        Verb::Backup(args) => parts.backup(args, cli.json),
        Verb::Book(BookVerb::Migrate(args)) => parts.migrate(args, cli.json),
        Verb::Config(ConfigVerb::Show(args)) => config_show::show(args, out),
        Verb::Keys(KeysVerb::New) => keys::new(out),
        Verb::Operators(OperatorsVerb::New(args)) => operators::new(args, out),
        Verb::Try(TryVerb::Reply(args)) => try_lines::run(args, try_reply::answer),
        Verb::Try(TryVerb::Address(args)) => try_lines::run(args, try_address::answer),
        Verb::Try(TryVerb::Decision(args)) => try_lines::run(args, try_decision::answer),
        Verb::Try(TryVerb::Schedule(args)) => try_lines::run(args, try_schedule::answer),
        Verb::Submit(args) => submit::submit(&client()?, args),
        Verb::Jobs(verb) => jobs::run(&client()?, verb, out),
        Verb::Schedules(verb) => schedules::run(&client()?, verb, out),
        Verb::Review(verb) => review::run(&client()?, verb, out),
        Verb::Suppressions(verb) => suppressions::run(&client()?, verb, out),
        Verb::Day(args) => day::day(&client()?, args, out),
        Verb::Capacity(args) => capacity::capacity(&client()?, args, out),
        Verb::Fleet(verb) => fleet::run(&client()?, verb, out),
        Verb::Audit(verb) => audit::run(&client()?, verb, out),
    }
}

/// The configuration that a local verb reads.
///
/// # Errors
/// Every fault, with exit 2.
pub fn configuration(sources: &Sources, deployment: Deployment) -> Result<Config, Failure> {
    Config::load(sources, deployment).map_err(|faults: Faults| Failure::usage(faults.to_string()))
}
