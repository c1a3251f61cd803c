//! `try schedule`: when a schedule's jobs run, and by when, without a server.
//!
//! A line is a case of `recurrence_cases.json` without its answers: `cron`, a `rule` object, or `business_dates` with a release. A rule that is no
//! rule, an unknown zone and a schedule that never fires are `refused` with a reason; a line that can't be read is an error.

use std::sync::LazyLock;

use curfew_content::Zones;
use curfew_domain::Moment;
use curfew_domain::recurrence::{
    Calendar, Cron, Date, Deadline, Dst, Gap, Occurrence, Overlap, Pattern, Range, Recurrence, Refused, Roll, TimeOfDay, WallClock, Weekday, window,
};
use serde_json::{Value, json};

use super::try_lines::{Fields, whole};
use super::try_rule;

/// Occurrences that a line may ask for.
const COUNT_MAX: u32 = 10_000;
/// Occurrences where a line doesn't say.
const COUNT: u32 = 10;

static ZONES: LazyLock<Zones> = LazyLock::new(Zones::load);

/// Answers one line.
///
/// # Errors
/// The field that can't be read, and what is allowed.
pub fn answer(fields: &Fields) -> Result<Value, String> {
    match asked(fields) {
        Ok(Answer::Occurrences(occurrences)) => Ok(json!({"occurrences": occurrences.iter().map(shown).collect::<Vec<_>>(), "refused": null})),
        Ok(Answer::Refused(reason)) => Ok(json!({"occurrences": [], "refused": reason})),
        Err(error) => Err(error),
    }
}

enum Answer {
    Occurrences(Vec<Occurrence>),
    Refused(String),
}

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused.to_string())
    }
}

fn shown(occurrence: &Occurrence) -> Value {
    json!({
        "release_at": occurrence.release_at.map(|at| at.rfc3339()),
        "deadline_at": occurrence.deadline_at.map(|at| at.rfc3339()),
        "business_date": occurrence.business_date().to_string(),
        "send_date": occurrence.send_date.map(|date| date.to_string()),
        "verdict": occurrence.verdict.word(),
    })
}

fn asked(fields: &Fields) -> Result<Answer, String> {
    if !fields.has("timezone") {
        return Err("timezone: is missing".into());
    }
    let clock = match ZONES.clock(&fields.text("timezone")?.unwrap_or_default()) {
        Ok(clock) => clock,
        Err(e) => return Ok(Answer::Refused(format!("timezone: {e}"))),
    };
    let (deadline, dst) = (deadline(fields)?, dst(fields)?);
    if let Some(dates) = fields.list("business_dates")? {
        return windows(fields, &clock, &dates, deadline, dst);
    }
    let rule = fields.object("rule")?;
    let pattern = match (&rule, fields.text("cron")?) {
        (Some(rule), _) => try_rule::pattern(rule)?,
        (None, Some(cron)) => Cron::parse(&cron).map(|cron| Pattern::Cron { cron, time: None }),
        (None, None) if fields.has("cron") => {
            Err(Refused::new("cron", "is empty; allowed: five fields (minute hour day-of-month month day-of-week)"))
        }
        (None, None) => return Err("cron, rule or business_dates: is missing".into()),
    };
    let pattern = match pattern {
        Ok(pattern) => pattern,
        Err(refused) => return Ok(refused.into()),
    };
    let days = rule.as_ref().unwrap_or(fields);
    let calendar = match calendar(days)? {
        Ok(calendar) => calendar,
        Err(refused) => return Ok(refused.into()),
    };
    let roll = days.read("roll", "skip, next, previous, modified_next, modified_previous, none", |t| match t {
        "none" => Some(None),
        word => Roll::from_word(word).map(Some),
    })?;
    let date = |name| fields.read(name, "YYYY-MM-DD", Date::parse);
    let (start, end) = (date("start_date")?, date("end_date")?);
    let recurrence = Recurrence { pattern, calendar, roll: roll.flatten(), deadline, dst, start, end };
    if let Err(refused) = recurrence.check() {
        return Ok(refused.into());
    }
    occurrences(fields, &clock, &recurrence)
}

/// The first occurrences of the line's range.
fn occurrences(fields: &Fields, clock: &dyn WallClock, recurrence: &Recurrence) -> Result<Answer, String> {
    let moment = |name| fields.read(name, "RFC 3339", Moment::parse);
    let count = fields.read("count", "a whole number to 10000", |t| whole::<u32>(t).filter(|n| *n <= COUNT_MAX))?.unwrap_or(COUNT);
    let start = moment("start_utc")?;
    let starts_by_itself = matches!(recurrence.pattern, Pattern::Rrule(_) | Pattern::EveryHours { .. } | Pattern::Around { .. });
    if start.is_none() && recurrence.start.is_none() && !starts_by_itself {
        return Err("start_utc or start_date: is missing".into());
    }
    let range = match start {
        Some(start) if fields.truth("start_inclusive")? => Range::ALL.from(start),
        Some(start) => Range::ALL.after(start),
        None => Range::ALL,
    };
    let range = moment("not_before_utc")?.map_or(range, |at| range.from(at));
    let range = moment("not_after_utc")?.map_or(range, |at| range.to(at));
    if let Err(refused) = recurrence.check_fires(clock, range) {
        return Ok(refused.into());
    }
    let count = count as usize;
    // A list has an answer for each of its dates, those without a job too.
    let listed = matches!(recurrence.pattern, Pattern::Around { .. });
    Ok(Answer::Occurrences(if listed {
        recurrence.slots(clock, range).take(count).collect()
    } else {
        recurrence.sends(clock, range).take(count).collect()
    }))
}

/// One window for each business date.
fn windows(fields: &Fields, clock: &dyn WallClock, dates: &[String], deadline: Option<Deadline>, dst: Dst) -> Result<Answer, String> {
    let release = fields.read("release_local", "HH:MM", TimeOfDay::parse)?.ok_or("release_local: is missing")?;
    let date = |text: &String| Date::parse(text).ok_or("business_dates: allowed: YYYY-MM-DD");
    let dates: Vec<Date> = dates.iter().map(date).collect::<Result<_, _>>()?;
    Ok(Answer::Occurrences(dates.into_iter().map(|date| window(clock, date.at(release), deadline, dst)).collect()))
}

fn deadline(fields: &Fields) -> Result<Option<Deadline>, String> {
    let days = fields.read("deadline_day_offset", "a whole number of days", |t| {
        let days: i32 = t.strip_suffix(".0").unwrap_or(t).parse().ok()?;
        (days.abs() <= 366).then_some(days)
    })?;
    let time = fields.read("deadline_local", "HH:MM; midnight at a day's end is 00:00 with deadline_day_offset 1", TimeOfDay::parse)?;
    Ok(time.map(|time| Deadline { time, days: days.unwrap_or(0) }))
}

/// The line's choice where clocks change; "not applicable" is what the cases say of interval jobs.
fn dst(fields: &Fields) -> Result<Dst, String> {
    let of_no_use = |text: &str| text.starts_with("not applicable") || text == "both passes";
    let gap = fields.read("gap_policy", "first_valid, shift, skip", |t| if of_no_use(t) { Some(Gap::default()) } else { Gap::from_word(t) })?;
    let overlap = fields.read("overlap_policy", "first, last", |t| if of_no_use(t) { Some(Overlap::default()) } else { Overlap::from_word(t) })?;
    Ok(Dst { gap: gap.unwrap_or_default(), overlap: overlap.unwrap_or_default() })
}

fn calendar(fields: &Fields) -> Result<Result<Calendar, Refused>, String> {
    let weekday = |t: &String| Weekday::from_name(t).ok_or("business_week: allowed: SUN, MON, TUE, WED, THU, FRI, SAT");
    let week = match fields.list("business_week")? {
        Some(names) => names.iter().map(weekday).collect::<Result<_, _>>()?,
        None => Weekday::ALL.to_vec(),
    };
    let date = |t: &String| Date::parse(t).ok_or("holidays: allowed: YYYY-MM-DD");
    let holidays: Vec<Date> = fields.list("holidays")?.unwrap_or_default().iter().map(date).collect::<Result<_, _>>()?;
    Ok(Calendar::new(week, holidays))
}

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::try_lines::tests::said;
    use crate::exit::Exit;

    fn one(line: &str) -> Value {
        said(&format!("{line}\n"), answer).0.remove(0)
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_a_reason_and_is_no_error() {
        for (line, names) in [
            (r#"{"cron":"0 24 * * *","timezone":"UTC"}"#, "hour: \"24\""),
            (r#"{"cron":"","timezone":"UTC"}"#, "cron"),
            (r#"{"cron":"0 9 31 2 *","timezone":"UTC"}"#, "never fires"),
            (r#"{"cron":"0 9 * * *","timezone":"America/New_Yrok"}"#, "America/New_York"),
            (r#"{"cron":"0 9 * * *","timezone":""}"#, "unknown zone"),
            (r#"{"cron":"0 9 * * SAT","business_week":["MON"],"roll":"skip","timezone":"UTC","start_utc":"2027-01-01T00:00:00Z"}"#, "never fires"),
            (r#"{"cron":"*/5 * * * *","business_week":["MON"],"roll":"next","timezone":"UTC","start_utc":"2027-01-01T00:00:00Z"}"#, "interval"),
            (r#"{"rule":{"type":"yearly","time_local":"09:00"},"timezone":"UTC"}"#, "allowed: cron_dates"),
            (r#"{"rule":{"type":"nth_business_day","n":0,"time_local":"09:00"},"timezone":"UTC"}"#, "n: is 0"),
            (r#"{"rule":{"type":"monthly_clamped","day":32,"time_local":"09:00"},"timezone":"UTC"}"#, "1 to 31"),
            (r#"{"rule":{"type":"business_days_before","n":1,"of":[],"time_local":"09:00"},"timezone":"UTC"}"#, "of: has 0 dates"),
            (r#"{"rule":{"type":"rrule","rrule":"FREQ=HOURLY","dtstart_local":"2027-01-01T09:00"},"timezone":"UTC"}"#, "FREQ"),
            (r#"{"rule":{"type":"every_hours","hours":0,"anchor_utc":"2027-01-01T09:00:00Z"},"timezone":"UTC"}"#, "hours"),
        ] {
            let said = one(line);
            assert!(said["refused"].as_str().is_some_and(|reason| reason.contains(names)), "{line}: {said}");
            assert_eq!(said["occurrences"], json!([]), "{line}");
        }
    }

    #[test]
    fn a_line_that_can_not_be_read_is_an_error_that_names_its_field() {
        for (line, names) in [
            ("{}", "timezone"),
            (r#"{"timezone":"UTC"}"#, "cron, rule or business_dates"),
            (r#"{"cron":"0 9 * * *","timezone":"UTC"}"#, "start_utc"),
            (r#"{"cron":"0 9 * * *","timezone":"UTC","start_utc":"tomorrow"}"#, "start_utc"),
            (r#"{"cron":"0 9 * * *","timezone":"UTC","start_utc":"2027-01-01T00:00:00Z","count":-1}"#, "count"),
            (r#"{"cron":["0 9 * * *"],"timezone":"UTC"}"#, "cron"),
            (r#"{"cron":"0 9 * * *","timezone":"UTC","start_utc":"2027-01-01T00:00:00Z","gap_policy":"guess"}"#, "gap_policy"),
            (r#"{"timezone":"UTC","business_dates":["2027-02-30"],"release_local":"08:30"}"#, "business_dates"),
            (r#"{"timezone":"UTC","business_dates":["2027-02-28"]}"#, "release_local"),
            (
                r#"{"timezone":"UTC","business_dates":["2027-02-28"],"release_local":"08:30","deadline_local":"24:00"}"#,
                "00:00 with deadline_day_offset 1",
            ),
            (r#"{"rule":{"type":"rrule","rrule":"FREQ=DAILY","dtstart_local":"2027-01-01"},"timezone":"UTC"}"#, "rule.dtstart_local"),
            (r#"{"rule":[],"timezone":"UTC"}"#, "rule"),
        ] {
            let (answers, exit) = said(&format!("{line}\n"), answer);
            assert!(answers[0]["error"].as_str().is_some_and(|e| e.contains(names)) && exit == Exit::Refused, "{line}: {answers:?}");
        }
    }

    #[test]
    fn numbers_lists_and_rules_may_be_texts_as_a_csv_reader_gives_them() {
        let rule = r#"{\"type\":\"cron_dates\",\"cron\":\"0 9 1 * *\",\"roll\":\"next\",\"time_local\":\"09:00\",\"business_week\":\"MON TUE WED THU FRI\"}"#;
        let said = one(&format!(r#"{{"rule":"{rule}","timezone":"UTC","start_date":"2027-01-01","end_date":"","count":"2.0","cron":""}}"#));
        assert_eq!(said["occurrences"][1]["business_date"], "2027-02-01", "{said}");
        let window = one(
            r#"{"timezone":"UTC","business_dates":"2027-01-05;2027-01-06","release_local":"08:30","deadline_local":"09:00","deadline_day_offset":"1"}"#,
        );
        assert_eq!(window["occurrences"][1]["deadline_at"], "2027-01-07T09:00:00.000Z", "{window}");
    }

    #[test]
    fn a_rolled_jobs_deadline_is_on_the_day_it_is_sent() {
        let said =
            one(r#"{"cron":"30 8 * * *","roll":"next","business_week":["MON","TUE","WED","THU","FRI"],"timezone":"America/New_York","count":1,
                "start_utc":"2027-01-09T00:00:00Z","deadline_local":"09:00"}"#
                .replace('\n', "")
                .as_str());
        let expected = json!({"release_at": "2027-01-11T13:30:00.000Z", "deadline_at": "2027-01-11T14:00:00.000Z", "business_date": "2027-01-09",
            "send_date": "2027-01-11", "verdict": "ok"});
        assert_eq!(said["occurrences"], json!([expected]));
    }

    #[test]
    fn a_date_whose_deadline_is_on_a_missing_date_has_none() {
        let said = one(
            r#"{"timezone":"Pacific/Apia","business_dates":["2011-12-29"],"release_local":"08:30","deadline_local":"09:00","deadline_day_offset":1}"#,
        );
        let found = &said["occurrences"][0];
        assert_eq!((&found["verdict"], &found["deadline_at"]), (&json!("no_deadline"), &Value::Null));
        assert_eq!(found["release_at"], "2011-12-29T18:30:00.000Z");
    }
}
