//! Schedules as they read: their rule and settings, never their recipients.

use curfew_book::{Definition, Run, ScheduleRow};
use curfew_domain::Moment;
use curfew_domain::recurrence::wall_clock::reads;
use curfew_domain::recurrence::{Occurrence, Timetable, WallClock, Written};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::api::Api;
use crate::door::{AdmittedSchedule, Private, spread_text};

/// A schedule as it is put. One of `cron`, `rrule` and `every_hours`.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleSubmission {
    purpose: String,
    cron: Option<String>,
    rrule: Option<String>,
    exdates: Option<Vec<String>>,
    every_hours: Option<u32>,
    anchor: Option<String>,
    zone: String,
    deadline: String,
    deadline_days: Option<i32>,
    calendar: Option<CalendarBody>,
    roll: Option<String>,
    start: Option<String>,
    end: Option<String>,
    gap: Option<String>,
    overlap: Option<String>,
    spread: Option<String>,
    allow_invalid_windows: Option<bool>,
    catch_up: Option<String>,
    policy: Option<String>,
    transport: Option<String>,
    content: Value,
    attachments: Option<Vec<Value>>,
    recipients: Vec<ScheduleRecipient>,
}

/// One who gets a job of each slot.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleRecipient {
    subject_ref: String,
    address: String,
    name: Option<String>,
    params: Option<Value>,
}

/// Business days.
#[derive(Serialize, ToSchema)]
pub(crate) struct CalendarBody {
    week: Option<Vec<String>>,
    holidays: Option<Vec<String>>,
}

/// Why.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleReason {
    reason: String,
}

/// A schedule as it stands.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleBody {
    tenant: String,
    name: String,
    /// Its ETag.
    revision: u64,
    /// `active` or `paused`; `deleted` in the answer of a deletion.
    state: &'static str,
    /// Its rule and settings, as they were put.
    #[serde(flatten)]
    definition: Map<String, Value>,
    /// How many recipients it has.
    recipients: u32,
    /// Its template; null for words of its own.
    template: Option<String>,
    /// Every slot up to this moment is planned.
    planned_until: String,
    next_scan_at: Option<String>,
    /// What kept it from being planned at the last scan.
    trouble: Option<String>,
    changed_at: String,
    changed_by: String,
}

/// Schedules.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleList {
    pub(crate) items: Vec<ScheduleBody>,
    pub(crate) next_cursor: Option<String>,
}

/// What a change came to.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleChanged {
    /// `make`, `change`, `same`, `pause`, `resume`, `delete`.
    pub(crate) action: &'static str,
    /// Nothing was written.
    pub(crate) dry_run: bool,
    /// The fields that differ; of those that name or speak to a person the names alone.
    pub(crate) changed: Vec<FieldChange>,
    /// The first dates without a window, where they are allowed.
    pub(crate) without_window: Vec<String>,
    /// Jobs taken back.
    pub(crate) withdrawn: u64,
    /// Jobs made before that run all the same.
    pub(crate) left: u64,
    pub(crate) schedule: Option<ScheduleBody>,
}

/// A field that differs.
#[derive(Serialize, ToSchema)]
pub(crate) struct FieldChange {
    field: String,
    before: Value,
    after: Value,
}

/// The next occurrences.
#[derive(Serialize, ToSchema)]
pub(crate) struct PreviewBody {
    pub(crate) zone: String,
    /// The version of the zone data, for instance `2026f`.
    pub(crate) zone_data: String,
    pub(crate) items: Vec<OccurrenceBody>,
}

/// One occurrence.
#[derive(Serialize, ToSchema)]
pub(crate) struct OccurrenceBody {
    business_date: String,
    slot: String,
    release_local: Option<String>,
    deadline_local: Option<String>,
    release_at: Option<String>,
    deadline_at: Option<String>,
    /// `ok`, `invalid_window`, `no_job`, `no_deadline`.
    verdict: &'static str,
    /// `gap`, `overlap`, `missing_date`, `not_a_business_day`, `rolled`, `collapsed`.
    mark: Option<&'static str>,
}

/// A business date's board.
#[derive(Serialize, ToSchema)]
pub(crate) struct BoardBody {
    tenant: String,
    name: String,
    date: String,
    expected: u32,
    sent: u32,
    late: u32,
    in_review: u32,
    skipped: u32,
    runs: Vec<RunBody>,
}

/// A slot on the board.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunBody {
    slot: String,
    /// `open`, `made`, `skipped`, `cancelled`.
    state: &'static str,
    why: Option<String>,
    release_at: Option<String>,
    deadline_at: Option<String>,
    expected: u32,
    planned: u32,
    staged: u32,
    sent: u32,
    dead_letter: u32,
    cancelled: u32,
    suppressed: u32,
    late: u32,
    in_review: u32,
}

impl ScheduleBody {
    pub(crate) fn of(api: &Api, row: &ScheduleRow) -> Self {
        Self {
            tenant: row.tenant.clone(),
            name: row.name.clone(),
            revision: row.revision,
            state: row.progress.phase.word(),
            definition: shown(&row.definition),
            recipients: row.definition.recipients,
            template: api.door.private(row).and_then(|private| private.template().map(str::to_owned)),
            planned_until: row.progress.cursor.rfc3339(),
            next_scan_at: row.next_scan.map(|at| at.rfc3339()),
            trouble: row.trouble.clone(),
            changed_at: row.changed_at.rfc3339(),
            changed_by: row.changed_by.clone(),
        }
    }
}

/// A definition in the words in which it is put; what wasn't said isn't shown.
fn shown(definition: &Definition) -> Map<String, Value> {
    let Timetable { rule, zone, deadline, deadline_days, business_week, holidays, roll, start, end, gap, overlap, spread_ms, allow_invalid_windows } =
        &definition.timetable;
    let mut all = Map::new();
    let mut say = |field: &str, value: Value| drop(all.insert(field.to_owned(), value));
    say("purpose", json!(definition.purpose));
    match rule {
        Written::Cron(cron) => say("cron", json!(cron)),
        Written::Rrule { rrule, dtstart, excluded } => {
            say("rrule", json!(rrule));
            say("start", json!(dtstart));
            say("exdates", json!(excluded));
        }
        Written::EveryHours { hours, anchor } => {
            say("every_hours", json!(hours));
            say("anchor", json!(anchor));
        }
    }
    say("zone", json!(zone));
    say("deadline", json!(deadline));
    say("deadline_days", json!(deadline_days));
    if !business_week.is_empty() || !holidays.is_empty() {
        say("calendar", json!({"week": business_week, "holidays": holidays}));
    }
    for (field, text) in [("roll", roll), ("start", start), ("end", end), ("gap", gap), ("overlap", overlap)] {
        if let Some(text) = text {
            say(field, json!(text));
        }
    }
    if *spread_ms > 0 {
        say("spread", json!(spread_text(definition.timetable.spread())));
    }
    if *allow_invalid_windows {
        say("allow_invalid_windows", json!(true));
    }
    say("catch_up", json!(definition.catch_up.word()));
    for (field, text) in [("policy", &definition.policy), ("transport", &definition.transport)] {
        if let Some(text) = text {
            say(field, json!(text));
        }
    }
    all
}

/// In which fields what is put differs from what stands; of content, recipients and attachments no value is told.
pub(crate) fn differences(api: &Api, stands: Option<&ScheduleRow>, put: &AdmittedSchedule) -> Vec<FieldChange> {
    let Some(stands) = stands else { return Vec::new() };
    let (mut before, mut after) = (shown(&stands.definition), shown(&put.put.definition));
    for (all, private) in [(&mut before, api.door.private(stands)), (&mut after, Some(put.private.clone()))] {
        let Some(Private { recipients, content, attachments }) = private else { continue };
        let prints = [
            ("recipients", serde_json::to_vec(&recipients)),
            ("content", serde_json::to_vec(&content)),
            ("attachments", serde_json::to_vec(&attachments)),
        ];
        for (field, print) in prints {
            let hash = api.door.keyring.keyed_hash(b"schedule field", &print.expect("texts and maps serialise"));
            all.insert(field.to_owned(), json!(hex::encode(&hash[..6])));
        }
    }
    let fields: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = fields.into_iter().filter(|field| before.get(*field) != after.get(*field));
    differing
        .map(|field| match field.as_str() {
            "recipients" => {
                FieldChange { field: field.clone(), before: stands.definition.recipients.into(), after: put.put.definition.recipients.into() }
            }
            "content" | "attachments" => FieldChange { field: field.clone(), before: Value::Null, after: Value::Null },
            _ => FieldChange {
                field: field.clone(),
                before: before.get(field).cloned().unwrap_or_default(),
                after: after.get(field).cloned().unwrap_or_default(),
            },
        })
        .collect()
}

impl OccurrenceBody {
    pub(crate) fn of(clock: &dyn WallClock, occurrence: &Occurrence, several_a_day: bool) -> Self {
        let local = |at: Option<Moment>| {
            at.map(|at| {
                let local = reads(clock, at);
                let time = local.time();
                format!("{}T{:02}:{:02}", local.date(), time.hour(), time.minute())
            })
        };
        Self {
            business_date: occurrence.business_date().to_string(),
            slot: occurrence.key_part(several_a_day),
            release_local: local(occurrence.release_at),
            deadline_local: local(occurrence.deadline_at),
            release_at: occurrence.release_at.map(|at| at.rfc3339()),
            deadline_at: occurrence.deadline_at.map(|at| at.rfc3339()),
            verdict: occurrence.verdict.word(),
            mark: occurrence.why.map(|why| why.word()),
        }
    }
}

impl BoardBody {
    pub(crate) fn of(row: &ScheduleRow, date: String, runs: &[Run]) -> Self {
        let sum = |figure: fn(&Run) -> u32| runs.iter().map(figure).sum();
        Self {
            tenant: row.tenant.clone(),
            name: row.name.clone(),
            date,
            expected: sum(|r| r.expected),
            sent: sum(|r| r.sent),
            late: sum(|r| r.late),
            in_review: sum(|r| r.in_review),
            skipped: sum(|r| u32::from(r.state == curfew_book::SlotState::Skipped)),
            runs: runs.iter().map(run).collect(),
        }
    }
}

fn run(run: &Run) -> RunBody {
    RunBody {
        slot: run.slot.clone(),
        state: run.state.word(),
        why: run.why.clone(),
        release_at: run.window.map(|(release, _)| release.rfc3339()),
        deadline_at: run.window.map(|(_, deadline)| deadline.rfc3339()),
        expected: run.expected,
        planned: run.planned,
        staged: run.staged,
        sent: run.sent,
        dead_letter: run.dead_letter,
        cancelled: run.cancelled,
        suppressed: run.suppressed,
        late: run.late,
        in_review: run.in_review,
    }
}
