//! Jobs: submit, import, list, show, and an operator's verbs on one job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use curfew_book::{BookState, Filter, Row, VerbRequest};
use curfew_courier::{VerbOutcome, carry_out};
use curfew_domain::limits::BOOK_ALONE_MARGIN;
use curfew_domain::sealed::RecipientRef;
use curfew_domain::trace::TraceContext;
use curfew_domain::verb::Verb;
use curfew_domain::{Moment, Reason, address};
use curfew_telemetry::{metrics, traces};
use serde::Serialize;
use utoipa::ToSchema;

use super::Who;
use crate::api::Api;
use crate::door::{Answer, Import, Summary, accept_one, dry_run_one, import};
use crate::extract::{Asked, Raw, Sent};
use crate::fields::Fields;
use crate::problem::{FieldError, Problem};
use crate::view::{JobBody, JobList, ListedState, bodies, body, job_by_name, list};

/// A job, as submitted. Times are RFC 3339 with an offset, or local with `zone`.
#[derive(Serialize, ToSchema)]
pub(crate) struct JobSubmission {
    tenant: String,
    purpose: String,
    subject_ref: String,
    business_date: String,
    key: Option<String>,
    to: Recipient,
    content: ContentSubmission,
    attachments: Option<Vec<AttachmentSubmission>>,
    release_at: Option<String>,
    deadline_at: String,
    zone: Option<String>,
    policy: Option<String>,
    transport: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

/// Whom it goes to.
#[derive(Serialize, ToSchema)]
pub(crate) struct Recipient {
    pub(super) address: String,
    pub(super) name: Option<String>,
}

/// A template with its version and parameters, or subject with text or html; at most 256 KiB.
#[derive(Serialize, ToSchema)]
pub(crate) struct ContentSubmission {
    template: Option<String>,
    params: Option<BTreeMap<String, serde_json::Value>>,
    subject: Option<String>,
    text: Option<String>,
    html: Option<String>,
}

/// An attachment by reference.
#[derive(Serialize, ToSchema)]
pub(crate) struct AttachmentSubmission {
    pub(super) uri: String,
    pub(super) name: Option<String>,
    pub(super) sha256: Option<String>,
}

/// Submits one job. With `dry_run=1` nothing is written, and the answer is the job as it would read.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", params(("dry_run" = Option<bool>, Query), ("zone" = Option<String>, Query)), request_body = JobSubmission,
    responses((status = 201, body = JobBody, description = "accepted"), (status = 200, body = JobBody, description = "a duplicate, as it stands; or a dry run"),
        (status = 409, body = Problem, description = "the key stands with other content; names the fields"), (status = 422, body = Problem, description = "refused; names the fields")))]
pub(crate) async fn submit_job(
    State(api): State<Arc<Api>>,
    who: Who,
    mut asked: Asked,
    headers: HeaderMap,
    line: Result<Raw, Problem>,
) -> Result<Response, Problem> {
    let began = Instant::now();
    let (dry_run, zone) = (asked.0.flag("dry_run"), asked.0.text("zone"));
    asked.0.done()?;
    check_zone(&api, zone.as_deref())?;
    // As in an import: only its content makes a job that long.
    let Raw(line) = line.map_err(|e| if e.status == StatusCode::PAYLOAD_TOO_LARGE { Problem::field("content", e.detail) } else { e })?;
    let now = api.ledger.now().await?;
    let door = Arc::clone(&api);
    let judged = tokio::task::spawn_blocking(move || door.door.admit(&line, zone.as_deref(), now)).await;
    let mut job = judged.map_err(|_panicked| Problem::internal())?.map_err(Problem::invalid)?;
    // What can't be read is ignored, as the specification wants it.
    job.trace = headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(TraceContext::parse);
    if dry_run {
        let row = dry_run_one(api.book.as_ref(), &job).await?.map_or_else(|| would_be(job), |row| *row);
        return Ok(Json(body(&api, &row, now).await?).into_response());
    }
    match accept_one(api.book.as_ref(), job, &who.0.0, now).await? {
        Answer::New(row) => {
            (api.on_accepted)();
            traces::accepted(&row.job, began.elapsed());
            let location = HeaderValue::from_str(&format!("/v1/jobs/{}", row.job.id)).expect("an id is plain ASCII");
            Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(body(&api, &row, now).await?)).into_response())
        }
        Answer::Duplicate(row) => Ok(Json(body(&api, &row, now).await?).into_response()),
    }
}

fn would_be(job: curfew_domain::job::Job) -> Row {
    Row {
        job,
        state: BookState::Planned,
        generation: 1,
        seen: (0, 0, 0),
        ever_staged: false,
        replays: 0,
        attempts: 0,
        last: None,
        reason: None,
        receipt: None,
        doubt: None,
        doubts: Vec::new(),
        window_doubts: Vec::new(),
        pins: Vec::new(),
        open_verb: None,
        history: Vec::new(),
    }
}

fn check_zone(api: &Api, zone: Option<&str>) -> Result<(), Problem> {
    zone.map_or(Ok(()), |zone| api.door.zones.check(zone)).map_err(|e| Problem::field("zone", e.to_string()))
}

/// Submits many jobs as NDJSON, read as a stream. `first_line` numbers a file's later part; `zone` stands in where a line names none.
#[utoipa::path(post, path = "/v1/jobs/import", tag = "jobs",
    params(("first_line" = Option<u64>, Query), ("zone" = Option<String>, Query), ("dry_run" = Option<bool>, Query)),
    request_body(content = String, content_type = "application/x-ndjson"), responses((status = 200, body = Summary), (status = 503, body = Problem)))]
pub(crate) async fn import_jobs(State(api): State<Arc<Api>>, who: Who, mut asked: Asked, lines: Body) -> Result<Json<Summary>, Problem> {
    let first_line = asked.0.text("first_line").map_or(Ok(1), |n| n.parse::<u64>().ok().filter(|n| (1..=1 << 53).contains(n)).ok_or(()));
    if first_line.is_err() {
        asked.0.fault("first_line", "must be a number from 1");
    }
    let (dry_run, zone) = (asked.0.flag("dry_run"), asked.0.text("zone"));
    asked.0.done()?;
    check_zone(&api, zone.as_deref())?;
    let how = Import { zone, first_line: first_line.unwrap_or(1), dry_run, actor: who.0.0.clone() };
    import(&api, lines, how).await.map(Json)
}

/// Jobs, newest first.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs",
    params(("tenant" = Option<String>, Query), ("state" = Option<String>, Query, description = "a state, or `active`"), ("schedule" = Option<String>, Query),
        ("recipient" = Option<String>, Query, description = "an address, or its reference"), ("cursor" = Option<String>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, body = JobList), (status = 422, body = Problem)))]
pub(crate) async fn list_jobs(State(api): State<Arc<Api>>, mut asked: Asked) -> Result<Json<JobList>, Problem> {
    let limit = asked.limit();
    let f = &mut asked.0;
    let (tenant, cursor, schedule) = (f.text("tenant"), f.text("cursor"), f.text("schedule"));
    let state = f.text("state").map_or(Some(ListedState::All), |word| ListedState::from_word(&word));
    if state.is_none() {
        f.fault("state", "is none of planned scheduled queued claimed handoff sent dead_letter cancelled suppressed active");
    }
    let recipient_ref = recipient(&api, f);
    asked.0.done()?;
    let now = api.ledger.now().await?;
    let filter = Filter { tenant, states: Vec::new(), recipient_ref, schedule, cursor, limit };
    list(&api, filter, state.unwrap_or(ListedState::All), now).await.map(Json)
}

fn recipient(api: &Api, f: &mut Fields) -> Option<RecipientRef> {
    let text = f.text("recipient")?;
    if text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Some(RecipientRef(text.to_ascii_lowercase()));
    }
    match address::check(&text) {
        Ok(address) => Some(api.door.keyring.recipient_ref(&address.folded())),
        Err(e) => {
            f.fault("recipient", e.to_string());
            None
        }
    }
}

/// One job, by its id or its percent-encoded key.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path, description = "an id, or a percent-encoded key")),
    responses((status = 200, body = JobBody), (status = 404, body = Problem)))]
pub(crate) async fn show_job(State(api): State<Arc<Api>>, Path(name): Path<String>) -> Result<Json<JobBody>, Problem> {
    let row = job_by_name(&api, &name).await?;
    let now = api.ledger.now().await?;
    body(&api, &row, now).await.map(Json)
}

/// Why.
#[derive(Serialize, ToSchema)]
pub(crate) struct WithReason {
    reason: String,
}

/// The new times.
#[derive(Serialize, ToSchema)]
pub(crate) struct MoveBody {
    release_at: String,
    deadline_at: Option<String>,
    reason: String,
}

/// Ends a job as cancelled.
#[utoipa::path(post, path = "/v1/jobs/{job}/cancel", tag = "jobs", params(("job" = String, Path)), request_body = WithReason,
    responses((status = 200, body = JobBody), (status = 404, body = Problem), (status = 409, body = Problem, description = "in handoff, or ended")))]
pub(crate) async fn cancel_job(State(api): State<Arc<Api>>, who: Who, Path(name): Path<String>, Sent(mut f): Sent) -> Result<Json<JobBody>, Problem> {
    let reason = f.words("reason");
    f.done()?;
    verb(&api, &name, |_row, _now| Ok(Verb::Cancel), who.0.0.clone(), reason).await
}

/// Ends a job as suppressed.
#[utoipa::path(post, path = "/v1/jobs/{job}/suppress", tag = "jobs", params(("job" = String, Path)), request_body = WithReason,
    responses((status = 200, body = JobBody), (status = 404, body = Problem), (status = 409, body = Problem, description = "in handoff, or ended")))]
pub(crate) async fn suppress_job(
    State(api): State<Arc<Api>>,
    who: Who,
    Path(name): Path<String>,
    Sent(mut f): Sent,
) -> Result<Json<JobBody>, Problem> {
    let reason = f.words("reason");
    f.done()?;
    verb(&api, &name, |_row, _now| Ok(Verb::Suppress), who.0.0.clone(), reason).await
}

/// Gives a job other times; without `deadline_at` it keeps its deadline.
#[utoipa::path(post, path = "/v1/jobs/{job}/move", tag = "jobs", params(("job" = String, Path)), request_body = MoveBody,
    responses((status = 200, body = JobBody), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn move_job(State(api): State<Arc<Api>>, who: Who, Path(name): Path<String>, Sent(mut f): Sent) -> Result<Json<JobBody>, Problem> {
    let release_at = moment(&mut f, "release_at");
    let deadline_at = moment(&mut f, "deadline_at");
    if release_at == Given::Absent {
        f.fault("release_at", "is required");
    }
    let reason = f.words("reason");
    f.done()?;
    let times = move |row: &Row, now: Moment| {
        let release_at = release_at.or(row.job.release_at);
        let deadline_at = deadline_at.or(row.job.deadline_at);
        let fault = if deadline_at <= now {
            Some("is already past")
        } else if deadline_at <= release_at {
            Some("is not after the release")
        } else {
            None
        };
        fault.map_or(Ok(Verb::Move { release_at, deadline_at }), |why| Err(FieldError::new("deadline_at", why)))
    };
    verb(&api, &name, times, who.0.0.clone(), reason).await
}

/// A time in a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    Absent,
    At(Moment),
}

impl Given {
    pub(super) fn or(self, otherwise: Moment) -> Moment {
        match self {
            Given::Absent => otherwise,
            Given::At(at) => at,
        }
    }
}

/// A time of a body: RFC 3339 with an offset; what is wrong with it is noted.
pub(super) fn moment(f: &mut Fields, field: &'static str) -> Given {
    match f.text(field) {
        None => Given::Absent,
        Some(text) => Moment::parse(&text).map_or_else(
            || {
                f.fault(field, "is no time: RFC 3339 with an offset");
                // The fault answers; this value is never used.
                Given::At(Moment::default())
            },
            Given::At,
        ),
    }
}

async fn verb(
    api: &Api,
    name: &str,
    make: impl FnOnce(&Row, Moment) -> Result<Verb, FieldError>,
    actor: String,
    reason: String,
) -> Result<Json<JobBody>, Problem> {
    let row = job_by_name(api, name).await?;
    let at = api.ledger.now().await?;
    let verb = make(&row, at).map_err(|e| Problem::invalid(vec![e]))?;
    let book_alone_from = at.plus(api.staging_window).plus(BOOK_ALONE_MARGIN);
    let request = VerbRequest { key: row.job.key.clone(), verb, actor, reason, at, book_alone_from };
    let done = carry_out(api.ledger.as_ref(), api.book.as_ref(), api.review.as_ref(), &api.rulebook, request).await?;
    (api.on_accepted)();
    match done {
        VerbOutcome::Applied(row) => {
            // What the book ended alone reaches no scheduler that would count it.
            if !row.ever_staged && matches!(row.state, BookState::Cancelled | BookState::Suppressed) {
                metrics::job_settled(row.state.word(), row.reason.unwrap_or(Reason::Operator));
            }
            body(api, &row, at).await.map(Json)
        }
        VerbOutcome::Refused(state) => Err(Problem::conflict(format!("refused in the state {state}"))),
        VerbOutcome::NotFound => Err(Problem::not_found("there is no such job")),
    }
}

/// The newest jobs, for the console.
pub(super) async fn newest(api: &Api, now: Moment, limit: u32) -> Result<Vec<JobBody>, Problem> {
    let filter = Filter { limit, ..Filter::default() };
    let page = api.book.list(&filter).await?;
    bodies(api, &page.items, now).await
}
