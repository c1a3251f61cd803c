//! The form of a schedule: every key by name and type, nothing unknown, all faults at once.

use std::collections::BTreeSet;
use std::time::Duration;

use curfew_book::Definition;
use curfew_domain::key::check_part;
use curfew_domain::recurrence::limits::RECIPIENTS_MAX;
use curfew_domain::recurrence::{Timetable, Written};
use serde_json::Value;

use super::{Enclosed, Private, Recipient, Words, catch_up};
use crate::door::parse::{self, Content};
use crate::fields::Fields;
use crate::problem::FieldError;

/// Reads a schedule. Where it names its tenant or itself, it names those of its path.
pub(super) fn read(tenant: &str, name: &str, value: Value) -> Result<(Definition, Private), Vec<FieldError>> {
    let mut f = Fields::of("", value).map_err(|e| vec![e])?;
    for (field, of_path) in [("tenant", tenant), ("name", name)] {
        if f.text(field).is_some_and(|given| given != of_path) {
            f.fault(field, "is another than the path's");
        }
    }
    let purpose = f.required("purpose");
    if !purpose.is_empty()
        && let Err(e) = check_part(&purpose)
    {
        f.fault("purpose", e.to_string());
    }
    let timetable = timetable(&mut f);
    let catch_up = f.text("catch_up").map(|word| catch_up(&word)).transpose().unwrap_or_else(|allowed| {
        f.fault("catch_up", allowed);
        None
    });
    let (policy, transport) = (named(&mut f, "policy"), named(&mut f, "transport"));
    let content = match parse::content(&mut f) {
        Content::Template { name, params } => Words::Template { name, params },
        Content::Inline { subject, text, html } => Words::Inline { subject, text, html },
    };
    let attachments = parse::attachments(&mut f).into_iter().map(|a| Enclosed { uri: a.uri, name: a.name, sha256: a.sha256 }).collect();
    let recipients = recipients(&mut f);
    not_yet(&mut f);
    let faults = f.finish();
    if !faults.is_empty() {
        return Err(faults);
    }
    let count = u32::try_from(recipients.len()).expect("at most RECIPIENTS_MAX");
    let definition = Definition { purpose, timetable, catch_up: catch_up.unwrap_or_default(), policy, transport, recipients: count };
    Ok((definition, Private { recipients, content, attachments }))
}

fn named(f: &mut Fields, field: &'static str) -> Option<String> {
    f.text(field).filter(|text| !text.is_empty())
}

/// Keys that are read elsewhere, or by no build yet: refused with a word on what to do, never passed over.
fn not_yet(f: &mut Fields) {
    for (key, why) in [
        ("recipients_file", "is read by `curfew schedules apply`; over HTTP give recipients"),
        ("recipients_url", "is not read by this build; give recipients, or recipients_file"),
        ("slot_policy", "is not read by this build; gap and overlap choose what becomes of times that a clock skips or repeats"),
    ] {
        if f.take(key).is_some() {
            f.fault(key, why);
        }
    }
}

fn timetable(f: &mut Fields) -> Timetable {
    let (start, end) = (named(f, "start"), named(f, "end"));
    let rule = rule(f, start.as_deref());
    let is_rrule = matches!(rule, Written::Rrule { .. });
    let (zone, deadline) = (f.required("zone"), f.required("deadline"));
    let (business_week, holidays) = match f.object("calendar") {
        None => (Vec::new(), Vec::new()),
        Some(mut calendar) => {
            let lists = (texts(&mut calendar, "week"), texts(&mut calendar, "holidays"));
            f.faults(calendar.finish());
            lists
        }
    };
    Timetable {
        rule,
        zone,
        deadline,
        deadline_days: whole(f, "deadline_days").unwrap_or(0),
        business_week,
        holidays,
        roll: named(f, "roll"),
        // An RRULE's first time is its start.
        start: start.filter(|_| !is_rrule),
        end,
        gap: named(f, "gap"),
        overlap: named(f, "overlap"),
        spread_ms: spread_ms(f),
        allow_invalid_windows: f.flag("allow_invalid_windows"),
    }
}

fn rule(f: &mut Fields, start: Option<&str>) -> Written {
    let (cron, rrule, every_hours) = (f.text("cron"), f.text("rrule"), whole(f, "every_hours"));
    let (excluded, anchor) = (texts(f, "exdates"), f.text("anchor"));
    if rrule.is_none() && !excluded.is_empty() {
        f.fault("exdates", "stands beside no rrule");
    }
    match (cron, rrule, every_hours) {
        (Some(cron), None, None) => Written::Cron(cron),
        (None, Some(rrule), None) => {
            if start.is_none() {
                f.fault("start", "is required with rrule: its first local time, YYYY-MM-DDTHH:MM");
            }
            Written::Rrule { rrule, dtstart: start.unwrap_or_default().to_owned(), excluded }
        }
        (None, None, Some(hours)) => {
            if anchor.is_none() {
                f.fault("anchor", "is required with every_hours: its first run, RFC 3339");
            }
            Written::EveryHours { hours: u32::try_from(hours).unwrap_or(0), anchor: anchor.unwrap_or_default() }
        }
        (None, None, None) => {
            f.fault("cron", "is required, or rrule, or every_hours");
            Written::Cron(String::new())
        }
        (cron, _, _) => {
            f.fault("cron", "is one of three; give one of cron, rrule and every_hours");
            Written::Cron(cron.unwrap_or_default())
        }
    }
}

/// `500ms`, `90s`, `10m`, `2h`.
fn spread_ms(f: &mut Fields) -> u64 {
    let Some(text) = named(f, "spread") else { return 0 };
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (figure, unit) = text.split_at(at);
    let unit_ms = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let ms = figure.parse::<u64>().ok().zip(unit_ms).and_then(|(figure, unit_ms)| figure.checked_mul(unit_ms));
    ms.unwrap_or_else(|| {
        f.fault("spread", "can't be read; allowed: a figure with ms, s, m or h");
        0
    })
}

/// The spread as it is shown.
pub(crate) fn spread_text(spread: Duration) -> String {
    let ms = spread.as_millis();
    if ms.is_multiple_of(1_000) { format!("{}s", ms / 1_000) } else { format!("{ms}ms") }
}

fn whole(f: &mut Fields, field: &'static str) -> Option<i32> {
    let value = f.take(field)?;
    let figure = value.as_i64().and_then(|n| i32::try_from(n).ok());
    if figure.is_none() {
        f.fault(field, "must be a whole number");
    }
    figure
}

fn texts(f: &mut Fields, field: &'static str) -> Vec<String> {
    let items = f.list(field).unwrap_or_default();
    let (mut texts, before) = (Vec::with_capacity(items.len()), items.len());
    texts.extend(items.into_iter().filter_map(|item| item.as_str().map(str::to_owned)));
    if texts.len() < before {
        f.fault(field, "must be a list of texts");
    }
    texts
}

fn recipients(f: &mut Fields) -> Vec<Recipient> {
    let items = f.list("recipients").unwrap_or_default();
    if items.is_empty() {
        f.fault("recipients", "is required: at least one");
    }
    if items.len() > RECIPIENTS_MAX {
        f.fault("recipients", format!("are more than {RECIPIENTS_MAX}"));
        return Vec::new();
    }
    let (mut all, mut known) = (Vec::with_capacity(items.len()), BTreeSet::new());
    for (n, item) in items.into_iter().enumerate() {
        let mut one = match Fields::of(&format!("recipients.{n}"), item) {
            Ok(one) => one,
            Err(e) => {
                f.faults(vec![e]);
                continue;
            }
        };
        let (subject_ref, address) = (one.required("subject_ref"), one.required("address"));
        if !subject_ref.is_empty() && !known.insert(subject_ref.clone()) {
            one.fault("subject_ref", "stands there twice; it names the recipient's job of a date");
        }
        all.push(Recipient { subject_ref, address, name: named(&mut one, "name"), params: one.map("params").unwrap_or_default() });
        f.faults(one.finish());
    }
    all
}
