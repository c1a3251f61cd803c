//! `review …`: the human work on what could not be sent.

use serde_json::{Map, Value, json};

use super::args::{Correct, Replay, ReviewList, ReviewVerb};
use super::client::{Client, Path};
use super::jobs::{List, listed};
use super::letter::letter;
use super::moments;
use super::output::{self, Output};
use crate::exit::{Ended, Exit, Failure};

/// More at once is a replay plan.
const REPLAYS_MAX: usize = 20;

/// Carries out a verb on review items.
///
/// # Errors
/// `Failure`, as every verb.
pub fn run(client: &Client, verb: &ReviewVerb, out: Output) -> Ended {
    let post = |id: &str, verb: &str, body: Value| -> Ended {
        out.object(&client.post(item(id).part(verb), &body)?)?;
        Ok(Exit::Done)
    };
    match verb {
        ReviewVerb::List(args) => list(client, args, out),
        ReviewVerb::Show(args) => show(client, &args.id, out),
        ReviewVerb::Preview(args) => preview(client, &args.id, out),
        ReviewVerb::Replay(args) => replay(client, args, out),
        ReviewVerb::Correct(args) => post(&args.id, "correct", correction(args)?),
        ReviewVerb::Suppress(args) => post(&args.id, "suppress", json!({"reason": args.reason})),
        ReviewVerb::Resolve(args) => post(&args.id, "resolve", present(json!({"reason": args.reason, "receipt": args.receipt}))),
        ReviewVerb::Escalate(args) => post(&args.id, "escalate", present(json!({"reason": args.reason, "owner": args.owner}))),
        ReviewVerb::Assign(args) => post(&args.id, "assign", json!({"owner": args.owner})),
        ReviewVerb::Note(args) => post(&args.id, "note", json!({"text": args.text})),
    }
}

fn item(id: &str) -> Path {
    Path::of("/v1/review").part(id)
}

/// For people with the job's explanation; where the job gives none, the item stands alone.
fn show(client: &Client, id: &str, out: Output) -> Ended {
    let mut shown = client.get(item(id))?;
    let job = shown.get("job_id").and_then(Value::as_str).filter(|_| !out.json);
    if let Some(Ok(mut job)) = job.map(|job| client.get(Path::of("/v1/jobs").part(job))) {
        shown["explanation"] = job["explanation"].take();
    }
    out.object(&shown)?;
    Ok(Exit::Done)
}

fn preview(client: &Client, id: &str, out: Output) -> Ended {
    let answer = client.post(item(id).part("preview"), &json!({}))?;
    if out.json {
        out.object(&answer)?
    } else {
        output::text(&letter(&answer))?
    }
    Ok(Exit::Done)
}

/// The object without its nulls.
pub fn present(object: Value) -> Value {
    match object {
        Value::Object(map) => Value::Object(map.into_iter().filter(|(_, v)| !v.is_null()).collect()),
        other => other,
    }
}

fn list(client: &Client, args: &ReviewList, out: Output) -> Ended {
    let path = || {
        Path::of("/v1/review").query("reason", args.reason.as_deref()).query("tenant", args.tenant.as_deref()).query("status", args.status.as_deref())
    };
    let columns = &["id", "key", "reason", "status", "owner", "due_at", "attempts", "diagnostic"];
    listed(client, path, args.limit, &List { columns, empty: "nothing to review" }, out)
}

/// One item answers as the API does; several answer with an object that counts them, and each ends for itself.
fn replay(client: &Client, args: &Replay, out: Output) -> Ended {
    if args.ids.len() > REPLAYS_MAX {
        return Err(Failure::usage(format!("{} items at once; up to {REPLAYS_MAX} are allowed", args.ids.len())));
    }
    let mut body = json!({
        "deadline_at": moments::read("--deadline", &args.deadline, args.zone.as_deref(), moments::now())?,
        "reason": args.reason,
    });
    if args.accept_duplicate_risk {
        body["accept_duplicate_risk"] = true.into();
    }
    if args.dry_run {
        body["dry_run"] = true.into();
    }
    let one = |id: &str| client.post(item(id).part("replay"), &body);
    if let [id] = args.ids.as_slice() {
        out.object(&one(id)?)?;
        return Ok(Exit::Done);
    }
    let mut results = Vec::new();
    let mut worst = Exit::Done;
    for id in &args.ids {
        match one(id) {
            Ok(answer) => results.push(json!({"id": id, "ok": true, "answer": answer})),
            Err(failure) => {
                results.push(json!({"id": id, "ok": false, "error": failure.says}));
                worst = if worst == Exit::Done || failure.exit == Exit::NoAnswer { failure.exit } else { worst };
                if failure.exit == Exit::NoAnswer {
                    break;
                }
            }
        }
    }
    let replayed = results.iter().filter(|r| r["ok"] == true).count();
    out.object(&json!({"replayed": replayed, "refused": results.len() - replayed, "results": results}))?;
    Ok(worst)
}

fn correction(args: &Correct) -> Result<Value, Failure> {
    if args.to.is_none() && args.artifact.is_empty() && args.param.is_empty() {
        return Err(Failure::usage("nothing to correct; give --to, --artifact NAME=URI or --param NAME=VALUE"));
    }
    let map = |pairs: &[(String, String)]| match pairs {
        [] => Value::Null,
        pairs => Value::Object(pairs.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect::<Map<_, _>>()),
    };
    Ok(present(json!({"to": args.to, "artifacts": map(&args.artifact), "params": map(&args.param), "reason": args.reason})))
}
