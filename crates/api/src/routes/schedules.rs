//! Schedules: put, show, list, preview, pause, resume, delete, and the board of a day. A schedule's ETag is its revision.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use curfew_book::{ChangeRequest, Changed, ScheduleRow};
use curfew_domain::limits::BOOK_ALONE_MARGIN;
use curfew_domain::recurrence::wall_clock::reads;
use curfew_domain::recurrence::{Change, Date, Phase, Range};
use serde_json::Value;

use super::Who;
use crate::api::Api;
use crate::door::AdmittedSchedule;
use crate::extract::{Asked, Raw, Sent};
use crate::json;
use crate::limits::{PREVIEW_DEFAULT, PREVIEW_MAX};
use crate::problem::Problem;
use crate::view::schedule::{
    BoardBody, OccurrenceBody, PreviewBody, ScheduleBody, ScheduleChanged, ScheduleList, ScheduleReason, ScheduleSubmission, differences,
};

/// A path's tenant and name.
type Named = Path<(String, String)>;

/// All schedules but deleted ones, by tenant and name.
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules",
    params(("tenant" = Option<String>, Query), ("cursor" = Option<String>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, body = ScheduleList), (status = 422, body = Problem)))]
pub(crate) async fn list_schedules(State(api): State<Arc<Api>>, mut asked: Asked) -> Result<Json<ScheduleList>, Problem> {
    let limit = asked.limit();
    let (tenant, cursor) = (asked.0.text("tenant"), asked.0.text("cursor"));
    asked.0.done()?;
    let page = api.schedules.schedules(tenant.as_deref(), cursor.as_deref(), limit).await?;
    let items = page.items.iter().map(|row| ScheduleBody::of(&api, row)).collect();
    Ok(Json(ScheduleList { items, next_cursor: page.next_cursor }))
}

/// One schedule, without its recipients' addresses. Its ETag is its revision.
#[utoipa::path(get, path = "/v1/schedules/{tenant}/{name}", tag = "schedules", params(("tenant" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = ScheduleBody), (status = 404, body = Problem)))]
pub(crate) async fn show_schedule(State(api): State<Arc<Api>>, Path((tenant, name)): Named) -> Result<Response, Problem> {
    let row = living(&api, &tenant, &name).await?;
    Ok((StatusCode::OK, etag(row.revision), Json(ScheduleBody::of(&api, &row))).into_response())
}

/// Makes a schedule, or changes the revision that If-Match names. With `dry_run=1` nothing is written, and the answer says what would change.
#[utoipa::path(put, path = "/v1/schedules/{tenant}/{name}", tag = "schedules",
    params(("tenant" = String, Path), ("name" = String, Path), ("dry_run" = Option<bool>, Query), ("reason" = Option<String>, Query),
        ("if-match" = Option<String>, Header, description = "the ETag of the revision that is changed")),
    request_body = ScheduleSubmission,
    responses((status = 201, body = ScheduleChanged, description = "made"), (status = 200, body = ScheduleChanged, description = "changed, the same, or a dry run"),
        (status = 412, body = Problem, description = "another revision stands"), (status = 422, body = Problem, description = "refused; names the fields")))]
pub(crate) async fn put_schedule(
    State(api): State<Arc<Api>>,
    who: Who,
    Path((tenant, name)): Named,
    headers: HeaderMap,
    mut asked: Asked,
    Raw(bytes): Raw,
) -> Result<Response, Problem> {
    let (dry_run, reason) = (asked.0.flag("dry_run"), asked.0.words_if_given("reason"));
    asked.0.done()?;
    let expected = if_match(&headers)?;
    let at = api.ledger.now().await?;
    let value = json::read(&bytes).map_err(|e| Problem::field("body", e))?;
    let admitted = admitted(&api, &tenant, &name, value, at).await?;
    let stands = api.schedules.schedule(&tenant, &name).await?.filter(|row| row.progress.phase != Phase::Deleted);
    let changed = differences(&api, stands.as_ref(), &admitted);
    let without: Vec<String> = admitted.without_window.iter().map(|o| o.business_date().to_string()).collect();
    if dry_run {
        if let (Some(row), Some(expected)) = (&stands, expected)
            && row.revision != expected
        {
            return Err(lost(Some(row.revision)));
        }
        let action = match (&stands, changed.is_empty()) {
            (None, _) => "make",
            (Some(_), true) => "same",
            (Some(_), false) => "change",
        };
        let answer = ScheduleChanged { action, dry_run: true, changed, without_window: without, withdrawn: 0, left: 0, schedule: None };
        return Ok(Json(answer).into_response());
    }
    let reason = reason.unwrap_or_else(|| "put".to_owned());
    let request = ChangeRequest { expected, ..request(&api, who, tenant, name, reason).await? };
    let is_new = stands.is_none();
    let answer = match api.schedules.put_schedule(&request, admitted.put).await? {
        Changed::Done { row, withdrawn, left } => {
            let action = if is_new { "make" } else { "change" };
            (api.on_accepted)();
            (row, ScheduleChanged { action, dry_run: false, changed, without_window: without, withdrawn, left, schedule: None })
        }
        Changed::Same(row) => (
            row,
            ScheduleChanged { action: "same", dry_run: false, changed: Vec::new(), without_window: without, withdrawn: 0, left: 0, schedule: None },
        ),
        Changed::Lost(revision) => return Err(lost(revision)),
    };
    let (row, mut body) = answer;
    let status = if body.action == "make" { StatusCode::CREATED } else { StatusCode::OK };
    body.schedule = Some(ScheduleBody::of(&api, &row));
    Ok((status, etag(row.revision), Json(body)).into_response())
}

/// Ends a schedule: jobs that are the book's alone are taken back, and the answer says how many run all the same.
#[utoipa::path(delete, path = "/v1/schedules/{tenant}/{name}", tag = "schedules", params(("tenant" = String, Path), ("name" = String, Path)),
    request_body = ScheduleReason, responses((status = 200, body = ScheduleChanged), (status = 404, body = Problem), (status = 412, body = Problem)))]
pub(crate) async fn delete_schedule(
    State(api): State<Arc<Api>>,
    who: Who,
    named: Named,
    headers: HeaderMap,
    sent: Sent,
) -> Result<Response, Problem> {
    turn(&api, who, named, &headers, sent, (Change::Delete, "delete")).await
}

/// Makes no more jobs until it is resumed; slots that come meanwhile are skipped.
#[utoipa::path(post, path = "/v1/schedules/{tenant}/{name}/pause", tag = "schedules", params(("tenant" = String, Path), ("name" = String, Path)),
    request_body = ScheduleReason, responses((status = 200, body = ScheduleChanged), (status = 404, body = Problem), (status = 412, body = Problem)))]
pub(crate) async fn pause_schedule(State(api): State<Arc<Api>>, who: Who, named: Named, headers: HeaderMap, sent: Sent) -> Result<Response, Problem> {
    turn(&api, who, named, &headers, sent, (Change::Pause, "pause")).await
}

/// Makes jobs again, from now on; what the pause skipped stays skipped.
#[utoipa::path(post, path = "/v1/schedules/{tenant}/{name}/resume", tag = "schedules", params(("tenant" = String, Path), ("name" = String, Path)),
    request_body = ScheduleReason, responses((status = 200, body = ScheduleChanged), (status = 404, body = Problem), (status = 412, body = Problem)))]
pub(crate) async fn resume_schedule(
    State(api): State<Arc<Api>>,
    who: Who,
    named: Named,
    headers: HeaderMap,
    sent: Sent,
) -> Result<Response, Problem> {
    turn(&api, who, named, &headers, sent, (Change::Resume, "resume")).await
}

/// The next occurrences, those without a job too, each with what a clock's change or a calendar makes of it.
#[utoipa::path(get, path = "/v1/schedules/{tenant}/{name}/preview", tag = "schedules",
    params(("tenant" = String, Path), ("name" = String, Path), ("count" = Option<u32>, Query)),
    responses((status = 200, body = PreviewBody), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn preview_schedule(
    State(api): State<Arc<Api>>,
    Path((tenant, name)): Named,
    mut asked: Asked,
) -> Result<Json<PreviewBody>, Problem> {
    let count = asked.0.text("count").map_or(Ok(PREVIEW_DEFAULT), |t| t.parse().ok().filter(|n| (1..=PREVIEW_MAX).contains(n)).ok_or(()));
    if count.is_err() {
        asked.0.fault("count", format!("must be 1 to {PREVIEW_MAX}"));
    }
    asked.0.done()?;
    let row = living(&api, &tenant, &name).await?;
    let now = api.ledger.now().await?;
    let timetable = row.definition.timetable;
    let clock = api.door.zones.clock(&timetable.zone).map_err(|e| Problem::field("zone", e.to_string()))?;
    let rule = timetable.read().map_err(|e| Problem::field(e.field, e.reason))?;
    let several = rule.pattern.several_a_day();
    let count = count.unwrap_or(PREVIEW_DEFAULT) as usize;
    let found = tokio::task::spawn_blocking(move || {
        rule.slots(&clock, Range::ALL.after(now)).take(count).map(|o| OccurrenceBody::of(&clock, &o, several)).collect::<Vec<_>>()
    });
    let items = found.await.map_err(|_panicked| Problem::internal())?;
    Ok(Json(PreviewBody { zone: timetable.zone, zone_data: api.door.zones.version().to_owned(), items }))
}

/// The board of a business date: what was expected, and what became of it.
#[utoipa::path(get, path = "/v1/schedules/{tenant}/{name}/runs", tag = "schedules",
    params(("tenant" = String, Path), ("name" = String, Path), ("date" = Option<String>, Query, description = "a business date; today in the schedule's zone")),
    responses((status = 200, body = BoardBody), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn show_runs(State(api): State<Arc<Api>>, Path((tenant, name)): Named, mut asked: Asked) -> Result<Json<BoardBody>, Problem> {
    let date = asked.0.text("date");
    let read = date.as_deref().map(Date::parse);
    if read == Some(None) {
        asked.0.fault("date", "is no date; allowed: YYYY-MM-DD");
    }
    asked.0.done()?;
    let row = api.schedules.schedule(&tenant, &name).await?.ok_or_else(none)?;
    let now = api.ledger.now().await?;
    let today = || match api.door.zones.clock(&row.definition.timetable.zone) {
        Ok(clock) => reads(&clock, now).date(),
        Err(_unknown) => curfew_domain::recurrence::Local::from_millis(now.as_millis()).date(),
    };
    let date = read.flatten().unwrap_or_else(today).to_string();
    let runs = api.schedules.runs(&tenant, &name, &date, now).await?;
    Ok(Json(BoardBody::of(&row, date, &runs)))
}

fn none() -> Problem {
    Problem::not_found("there is no such schedule")
}

async fn living(api: &Api, tenant: &str, name: &str) -> Result<ScheduleRow, Problem> {
    api.schedules.schedule(tenant, name).await?.filter(|row| row.progress.phase != Phase::Deleted).ok_or_else(none)
}

async fn admitted(api: &Arc<Api>, tenant: &str, name: &str, value: Value, at: curfew_domain::Moment) -> Result<AdmittedSchedule, Problem> {
    let (door, tenant, name) = (Arc::clone(api), tenant.to_owned(), name.to_owned());
    let judged = tokio::task::spawn_blocking(move || door.door.admit_schedule(&tenant, &name, value, at)).await;
    judged.map_err(|_panicked| Problem::internal())?.map_err(Problem::invalid)
}

async fn request(api: &Api, who: Who, tenant: String, name: String, reason: String) -> Result<ChangeRequest, Problem> {
    let at = api.ledger.now().await?;
    let book_alone_from = at.plus(api.staging_window).plus(BOOK_ALONE_MARGIN);
    Ok(ChangeRequest { tenant, name, expected: None, actor: who.0.0, reason, at, book_alone_from })
}

async fn turn(
    api: &Api,
    who: Who,
    Path((tenant, name)): Named,
    headers: &HeaderMap,
    Sent(mut f): Sent,
    (change, action): (Change, &'static str),
) -> Result<Response, Problem> {
    let reason = f.words("reason");
    f.done()?;
    let request = ChangeRequest { expected: if_match(headers)?, ..request(api, who, tenant, name, reason).await? };
    let (row, action, withdrawn, left) = match api.schedules.turn_schedule(&request, change).await? {
        Changed::Done { row, withdrawn, left } => (row, action, withdrawn, left),
        Changed::Same(row) => (row, "same", 0, 0),
        Changed::Lost(None) => return Err(none()),
        Changed::Lost(revision) => return Err(lost(revision)),
    };
    (api.on_accepted)();
    let schedule = Some(ScheduleBody::of(api, &row));
    let body = ScheduleChanged { action, dry_run: false, changed: Vec::new(), without_window: Vec::new(), withdrawn, left, schedule };
    Ok((StatusCode::OK, etag(row.revision), Json(body)).into_response())
}

fn etag(revision: u64) -> [(header::HeaderName, HeaderValue); 1] {
    [(header::ETAG, HeaderValue::from_str(&format!("\"{revision}\"")).expect("a figure in quotes is plain ASCII"))]
}

/// The revision that a change names; `*` and none at all name none.
fn if_match(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(given) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = given.to_str().unwrap_or_default().trim();
    let bare = text.strip_prefix("W/").unwrap_or(text).trim_matches('"');
    bare.parse().map(Some).map_err(|_other| Problem::precondition("If-Match names no revision; it is a schedule's ETag, for instance \"3\""))
}

fn lost(revision: Option<u64>) -> Problem {
    match revision {
        Some(revision) => Problem::precondition(format!(
            "revision {revision} stands; somebody was first, or If-Match is missing. Look at it, and change it with If-Match: \"{revision}\""
        )),
        None => Problem::precondition("there is no such schedule any more; without If-Match it is made"),
    }
}
