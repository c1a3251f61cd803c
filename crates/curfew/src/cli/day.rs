//! `day`: everything accepted for a business date is accounted for, or the exit code says that it isn't.

use curfew_domain::Moment;
use serde_json::Value;

use super::args::Day;
use super::client::{Client, Path};
use super::moments;
use super::output::{self, Output};
use crate::exit::{Ended, Exit, Failure};

const FIGURES: [&str; 8] = ["accepted", "sent", "dead_letter", "cancelled", "suppressed", "planned", "live", "difference"];

/// Reconciles a day.
///
/// # Errors
/// `Failure`, as every verb.
pub fn day(client: &Client, args: &Day, out: Output) -> Ended {
    let date = args.date.clone().unwrap_or_else(|| moments::now().date());
    if date != "today" && (date.len() != 10 || Moment::parse(&format!("{date}T00:00:00Z")).is_none()) {
        return Err(Failure::usage(format!("{date:?} is no date; allowed: YYYY-MM-DD")));
    }
    let day = client.get(Path::of("/v1/days").part(&date).query("tenant", args.tenant.as_deref()))?;
    let Some(difference) = day.get("difference").and_then(Value::as_i64) else {
        return Err(Failure::no_answer("the answer is not Curfew's: a day without a difference"));
    };
    if out.json {
        output::line(&day.to_string())?;
    } else {
        output::text(&figures(&day))?;
    }
    Ok(if difference == 0 { Exit::Done } else { Exit::Refused })
}

fn figures(day: &Value) -> String {
    let text = |name: &str| day.get(name).map(|v| v.as_str().map_or_else(|| v.to_string(), output::plain)).unwrap_or_default();
    let mut out = format!("{} {}\n", text("date"), text("zone"));
    for name in FIGURES {
        out.push_str(&format!("{:<12}{:>10}\n", name.replace('_', " "), text(name)));
    }
    for one in day.get("differences").and_then(Value::as_array).into_iter().flatten() {
        let field = |name: &str| one.get(name).map(|v| v.as_str().map_or_else(|| v.to_string(), output::plain)).unwrap_or_default();
        out.push_str(&format!("  {}: expected {}, found {}\n", field("id"), field("expected"), field("found")));
    }
    out
}
