//! `jobs list|show|explain|cancel|suppress|move`.

use curfew_domain::JobId;
use serde_json::{Map, Value, json};

use super::args::{JobMove, JobsList, JobsVerb};
use super::client::{Client, Path, Rest};
use super::moments;
use super::output::{self, Output, Table};
use crate::exit::{Ended, Exit, Failure};

/// Carries out a verb on jobs.
///
/// # Errors
/// `Failure`, as every verb.
pub fn run(client: &Client, verb: &JobsVerb, out: Output) -> Ended {
    match verb {
        JobsVerb::List(args) => list(client, args, out),
        JobsVerb::Show(args) => {
            out.object(&get(client, &args.job)?)?;
            Ok(Exit::Done)
        }
        JobsVerb::Explain(args) => explain(client, &args.job, out),
        JobsVerb::Cancel(args) => change(client, &args.job, "cancel", &json!({"reason": args.reason}), out),
        JobsVerb::Suppress(args) => change(client, &args.job, "suppress", &json!({"reason": args.reason}), out),
        JobsVerb::Move(args) => move_to(client, args, out),
    }
}

fn list(client: &Client, args: &JobsList, out: Output) -> Ended {
    let path = || {
        Path::of("/v1/jobs")
            .query("tenant", args.tenant.as_deref())
            .query("state", args.state.as_deref())
            .query("schedule", args.schedule.as_deref())
            .query("recipient", args.recipient.as_deref())
    };
    let columns = &["key", "state", "release_at", "deadline_at", "attempts", "recipient_masked", "reason"];
    listed(client, path, args.limit, &List { columns, empty: "no jobs" }, out)
}

/// How people read a list.
pub struct List {
    /// The fields.
    pub columns: &'static [&'static str],
    /// What is said where there are no rows.
    pub empty: &'static str,
}

/// Prints a list: a line an object for programs as pages come; a table for people, who are told on stderr where it was cut, or is empty.
///
/// # Errors
/// As the client's.
pub fn listed(client: &Client, path: impl Fn() -> Path, limit: usize, list: &List, out: Output) -> Ended {
    if out.json {
        client.each(path, limit, |item| output::line(&item.to_string()))?;
    } else {
        let mut table = Table::new(list.columns);
        let rest = client.each(path, limit, |item| {
            table.add(&item);
            Ok(())
        })?;
        output::text(&table.lines())?;
        match rest {
            Rest::More => eprintln!("{} shown; --limit 0 for all", table.len()),
            Rest::Nothing if table.len() == 0 => eprintln!("{}", list.empty),
            Rest::Nothing => {}
        }
    }
    Ok(Exit::Done)
}

fn get(client: &Client, name: &str) -> Result<Value, Failure> {
    client.get(Path::of("/v1/jobs").part(name))
}

fn explain(client: &Client, name: &str, out: Output) -> Ended {
    let job = get(client, name)?;
    let kept = ["key", "id", "state", "explanation", "reason", "waiting_for", "next_attempt_at", "deadline_at", "attempts", "in_doubt"];
    let answer: Map<String, Value> = kept.iter().map(|f| ((*f).to_owned(), job.get(f).cloned().unwrap_or_default())).collect();
    let sentence = job.get("explanation").and_then(Value::as_str).unwrap_or("The server gave no explanation.");
    out.object_or(&Value::Object(answer), sentence)?;
    Ok(Exit::Done)
}

/// Changes take an id; a key is asked for its id first, and an id asks nobody.
fn change(client: &Client, name: &str, verb: &str, body: &Value, out: Output) -> Ended {
    let id = match JobId::parse(name) {
        Some(id) => id.to_string(),
        None => match get(client, name)?.get("id").and_then(Value::as_str) {
            Some(id) => id.to_owned(),
            None => return Err(Failure::no_answer("the answer is not Curfew's: a job without an id")),
        },
    };
    out.object(&client.post(Path::of("/v1/jobs").part(&id).part(verb), body)?)?;
    Ok(Exit::Done)
}

fn move_to(client: &Client, args: &JobMove, out: Output) -> Ended {
    let now = moments::now();
    let zone = args.zone.as_deref();
    let mut body = json!({"release_at": moments::read("--release", &args.release, zone, now)?, "reason": args.reason});
    if let Some(deadline) = &args.deadline {
        body["deadline_at"] = moments::read("--deadline", deadline, zone, now)?.into();
    }
    change(client, &args.job, "move", &body, out)
}
