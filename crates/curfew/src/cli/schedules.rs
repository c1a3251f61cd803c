//! `schedules apply|list|show|delete|preview|pause|resume|runs`.

use serde_json::{Value, json};

use super::args::{ScheduleApply, ScheduleName, ScheduleRuns, ScheduleWithReason, SchedulesVerb};
use super::client::{Client, Path};
use super::jobs::{List, listed};
use super::output::{self, Output, Table};
use super::schedule_files::{self, ScheduleFile};
use crate::exit::{Ended, Exit, Failure};

/// Carries out a verb on schedules.
///
/// # Errors
/// `Failure`, as every verb.
pub fn run(client: &Client, verb: &SchedulesVerb, out: Output) -> Ended {
    match verb {
        SchedulesVerb::Apply(args) => apply(client, args, out),
        SchedulesVerb::List(args) => {
            let path = || Path::of("/v1/schedules").query("tenant", args.tenant.as_deref());
            let columns = &["name", "tenant", "state", "cron", "rrule", "zone", "deadline", "recipients", "trouble"];
            listed(client, path, args.limit, &List { columns, empty: "no schedules" }, out)
        }
        SchedulesVerb::Show(args) => told(&client.get(path(&args.schedule))?, out),
        SchedulesVerb::Delete(args) => told(&client.delete(path(&args.schedule), &json!({"reason": args.reason}))?, out),
        SchedulesVerb::Preview(args) => preview(client, &args.schedule, args.count, out),
        SchedulesVerb::Pause(args) => turn(client, args, "pause", out),
        SchedulesVerb::Resume(args) => turn(client, args, "resume", out),
        SchedulesVerb::Runs(args) => runs(client, args, out),
    }
}

fn path(schedule: &ScheduleName) -> Path {
    Path::of("/v1/schedules").part(&schedule.tenant).part(&schedule.name)
}

fn told(answer: &Value, out: Output) -> Ended {
    out.object(answer)?;
    Ok(Exit::Done)
}

fn turn(client: &Client, args: &ScheduleWithReason, verb: &str, out: Output) -> Ended {
    told(&client.post(path(&args.schedule).part(verb), &json!({"reason": args.reason}))?, out)
}

fn preview(client: &Client, schedule: &ScheduleName, count: u32, out: Output) -> Ended {
    let answer = client.get(path(schedule).part("preview").query("count", Some(&count.to_string())))?;
    let items = answer.get("items").and_then(Value::as_array).into_iter().flatten();
    if out.json {
        for item in items {
            output::line(&item.to_string())?;
        }
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["business_date", "release_local", "deadline_local", "release_at", "deadline_at", "verdict", "mark"]);
    items.for_each(|item| table.add(item));
    output::text(&table.lines())?;
    let word = |field: &str| answer.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    eprintln!("local times of {}, zone data {}", word("zone"), word("zone_data"));
    Ok(Exit::Done)
}

fn runs(client: &Client, args: &ScheduleRuns, out: Output) -> Ended {
    let mut board = client.get(path(&args.schedule).part("runs").query("date", args.date.as_deref()))?;
    if out.json {
        return told(&board, out);
    }
    let slots = board.as_object_mut().and_then(|fields| fields.remove("runs"));
    out.object(&board)?;
    let columns = &["slot", "state", "why", "release_at", "deadline_at", "expected", "planned", "staged", "sent", "dead_letter", "late", "in_review"];
    let mut table = Table::new(columns);
    slots.iter().filter_map(Value::as_array).flatten().for_each(|slot| table.add(slot));
    if table.len() > 0 {
        output::text(&format!("\n{}", table.lines()))?;
    }
    Ok(Exit::Done)
}

/// All files are read before anything is sent; then each schedule stands by itself, and one that is refused stops no other.
fn apply(client: &Client, args: &ScheduleApply, out: Output) -> Ended {
    let all = schedule_files::read(&args.files)?;
    let (mut answers, mut refused) = (Vec::with_capacity(all.len()), 0);
    for one in &all {
        match put(client, one, args) {
            Ok(answer) => answers.push(answer),
            Err(failure) if failure.exit == Exit::Refused => {
                refused += 1;
                answers.push(json!({"tenant": one.tenant, "name": one.name, "action": "refused", "error": failure.says}));
            }
            Err(other) => return Err(other),
        }
    }
    let count = |action: &str| answers.iter().filter(|answer| answer["action"] == action).count();
    let summary = json!({"dry_run": args.dry_run, "made": count("make"), "changed": count("change"), "same": count("same"),
        "refused": refused, "schedules": answers});
    if out.json {
        out.object(&summary)?;
    } else {
        output::text(&answers.iter().map(line).collect::<String>())?;
    }
    Ok(if refused > 0 { Exit::Refused } else { Exit::Done })
}

/// The revision that stands is named, so that somebody who is faster isn't overwritten.
fn put(client: &Client, one: &ScheduleFile, args: &ScheduleApply) -> Result<Value, Failure> {
    let path = || Path::of("/v1/schedules").part(&one.tenant).part(&one.name);
    let stands = client.find(path())?;
    let revision = stands.as_ref().and_then(|schedule| schedule.get("revision")).and_then(Value::as_u64);
    let to = path().query("dry_run", args.dry_run.then_some("1")).query("reason", args.reason.as_deref());
    let answer = client.put(to, &one.body, revision)?;
    let field = |name: &str| answer.get(name).cloned().unwrap_or_default();
    Ok(json!({"tenant": one.tenant, "name": one.name, "action": field("action"), "changed": field("changed"),
        "without_window": field("without_window"), "withdrawn": field("withdrawn"), "left": field("left")}))
}

/// One schedule's answer for people, its differences below it.
fn line(answer: &Value) -> String {
    let word = |field: &str| answer.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut text = format!("{}/{}: {}", word("tenant"), word("name"), word("action"));
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        text.push_str(&format!(": {}", output::plain(error)));
    }
    let figure = |field: &str| answer.get(field).and_then(Value::as_u64).unwrap_or(0);
    if figure("withdrawn") + figure("left") > 0 {
        text.push_str(&format!(" ({} jobs taken back, {} run all the same)", figure("withdrawn"), figure("left")));
    }
    text.push('\n');
    for change in answer.get("changed").and_then(Value::as_array).into_iter().flatten() {
        let shown = |side: &str| change.get(side).filter(|v| !v.is_null()).map_or_else(|| "-".to_owned(), Value::to_string);
        let field = change.get("field").and_then(Value::as_str).unwrap_or_default();
        text.push_str(&format!("  {field}: {} -> {}\n", output::plain(&shown("before")), output::plain(&shown("after"))));
    }
    let without = answer.get("without_window").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    if !without.is_empty() {
        text.push_str(&format!("  without a window: {}\n", without.join(", ")));
    }
    text
}
