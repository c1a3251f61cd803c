//! The `rule` object of a `try schedule` line: a pattern by its type.

use curfew_domain::Moment;
use curfew_domain::recurrence::rrule::{Excluded, Rrule};
use curfew_domain::recurrence::{Cron, Date, Direction, Local, Pattern, Refused, TimeOfDay};

use super::try_lines::{Fields, whole};

const TYPES: &str = "cron_dates, nth_business_day, business_days_before, business_days_after, calendar_days_before, monthly_clamped, yearly_clamped, \
                     rrule, every_hours";

/// The pattern that a rule describes, or why it is none.
///
/// # Errors
/// The field that can't be read, and what is allowed.
pub fn pattern(rule: &Fields) -> Result<Result<Pattern, Refused>, String> {
    let kind = rule.text("type")?.ok_or("rule.type: is missing")?;
    let number = |name: &'static str| needed(name, rule.read(name, "a whole number", whole::<u32>));
    let time = || needed("time_local", rule.read("time_local", "HH:MM", TimeOfDay::parse));
    let around = |direction| {
        let date = |t: &String| Date::parse(t).ok_or("rule.of: allowed: YYYY-MM-DD");
        let dates = rule.list("of")?.unwrap_or_default().iter().map(date).collect::<Result<_, _>>()?;
        Ok::<_, String>(Pattern::Around { dates, direction, n: number("n")?, time: time()? })
    };
    Ok(Ok(match kind.as_str() {
        "cron_dates" => {
            let time = rule.read("time_local", "HH:MM", TimeOfDay::parse)?;
            return Ok(Cron::parse(&rule.text("cron")?.unwrap_or_default()).map(|cron| Pattern::Cron { cron, time }));
        }
        "nth_business_day" => {
            let n = rule.read("n", "a whole number, not 0", |t| t.strip_suffix(".0").unwrap_or(t).parse::<i32>().ok());
            Pattern::NthBusinessDay { n: needed("n", n)?, time: time()? }
        }
        "business_days_before" => around(Direction::BusinessDaysBefore)?,
        "business_days_after" => around(Direction::BusinessDaysAfter)?,
        "calendar_days_before" => around(Direction::CalendarDaysBefore)?,
        "monthly_clamped" => Pattern::MonthlyClamped { day: number("day")?, time: time()? },
        "yearly_clamped" => Pattern::YearlyClamped { month: number("month")?, day: number("day")?, time: time()? },
        "rrule" => return rrule(rule),
        "every_hours" => {
            Pattern::EveryHours { hours: number("hours")?, anchor: needed("anchor_utc", rule.read("anchor_utc", "RFC 3339", Moment::parse))? }
        }
        _other => return Ok(Err(Refused::new("rule", format!("has an unknown type; allowed: {TYPES}")))),
    }))
}

fn rrule(rule: &Fields) -> Result<Result<Pattern, Refused>, String> {
    let dtstart = needed("dtstart_local", rule.read("dtstart_local", "YYYY-MM-DDTHH:MM", Local::parse))?;
    let excluded = |t: &String| Excluded::parse(t).ok_or("rule.exdates: allowed: YYYY-MM-DDTHH:MM or YYYY-MM-DD");
    let excluded = rule.list("exdates")?.unwrap_or_default().iter().map(excluded).collect::<Result<_, _>>()?;
    let text = rule.text("rrule")?.unwrap_or_default();
    Ok(Rrule::new(&text, dtstart, excluded).map(|rrule| Pattern::Rrule(Box::new(rrule))))
}

fn needed<T>(name: &str, read: Result<Option<T>, String>) -> Result<T, String> {
    read.map_err(|e| format!("rule.{e}"))?.ok_or_else(|| format!("rule.{name}: is missing"))
}
