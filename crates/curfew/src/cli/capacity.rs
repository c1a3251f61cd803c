//! `capacity`: what a day needs, as the arithmetic that anybody can repeat.

use curfew_domain::Moment;
use serde_json::Value;

use super::args::Capacity;
use super::client::{Client, Path};
use super::output::{self, Output};
use crate::exit::{Ended, Exit, Failure};

/// Shows what a day needs.
///
/// # Errors
/// `Failure`, as every verb.
pub fn capacity(client: &Client, args: &Capacity, out: Output) -> Ended {
    if let Some(date) = args.date.as_deref()
        && date != "today"
        && (date.len() != 10 || Moment::parse(&format!("{date}T00:00:00Z")).is_none())
    {
        return Err(Failure::usage(format!("{date:?} is no date; allowed: YYYY-MM-DD")));
    }
    let headroom = args.headroom.as_deref().map(|text| text.strip_suffix('%').unwrap_or(text));
    if headroom.is_some_and(|text| text.parse::<u64>().ok().is_none_or(|percent| percent > 90)) {
        return Err(Failure::usage("--headroom: allowed: 0% to 90%".to_owned()));
    }
    let needed = client.get(Path::of("/v1/capacity").query("date", args.date.as_deref()).query("headroom", headroom))?;
    if needed.get("multiplier").and_then(Value::as_f64).is_none() {
        return Err(Failure::no_answer("the answer is not Curfew's: a capacity without a multiplier"));
    }
    if out.json {
        output::line(&needed.to_string())?;
    } else {
        output::text(&told(&needed))?;
    }
    Ok(Exit::Done)
}

fn told(needed: &Value) -> String {
    let text = |name: &str| needed.get(name).map(|v| v.as_str().map_or_else(|| v.to_string(), output::plain)).unwrap_or_default();
    let share = |name: &str| needed.get(name).and_then(Value::as_f64).unwrap_or_default();
    let mut out = match needed.get("busiest_minute").and_then(Value::as_str) {
        Some(minute) => format!("{}: {} jobs in the busiest minute, from {}\n", text("date"), text("jobs"), output::plain(minute)),
        None => format!("{}: no jobs\n", text("date")),
    };
    let further = if share("further") > 0.0 { format!(" + {:.4} further", share("further")) } else { String::new() };
    out.push_str(&format!(
        "attempts a job: 1 + {:.4} + {:.4}{further} = {:.4}, of {} jobs that ended\n",
        share("f1"),
        share("f2"),
        share("multiplier"),
        text("counted")
    ));
    out.push_str(&format!("attempts of the minute: {} x {:.4} = {}\n", text("jobs"), share("multiplier"), text("attempts")));
    match needed.get("drain_per_worker").and_then(Value::as_f64) {
        Some(drain) => out.push_str(&format!(
            "one worker ends {drain:.1} attempts a second at its best; with {}% kept free the minute needs {} workers, {} run\n",
            text("headroom_percent"),
            text("workers_needed"),
            text("workers"),
        )),
        None => {
            out.push_str(&format!("no worker has ended an attempt in the last hour, so there is no drain to divide by; {} run\n", text("workers")))
        }
    }
    out
}
