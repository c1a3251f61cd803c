//! A provider's own events about messages: evidence for handoffs in doubt. Without a valid signature nothing changes.
//!
//! An event speaks of a job, not of a token: it is taken for the one handoff that is open, and left alone where there are several and it
//! refuses. `accepted`, `delivered` and `bounced` prove that the provider took the mail; `refused` and `suppressed` that it didn't.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use curfew_book::{BookState, Evidence, EvidenceSource, EvidenceTaken, Fate, Row};
use curfew_courier::{By, Report, Reported, report};
use curfew_domain::outcome::{Outcome, OutcomeClass, Receipt, Stage};
use curfew_domain::transition::Verdict;
use curfew_domain::{JobId, Moment, Record, State as JobState, Token};
use curfew_review::ReviewFilter;
use curfew_telemetry::metrics;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::Api;
use crate::extract::Raw;
use crate::fields::Fields;
use crate::limits::{DOUBTS_SCANNED_MAX, EVENTS_MAX, LIST_LIMIT_MAX};
use crate::problem::{FieldError, Problem};
use crate::{free_text, json, signature};

/// Events of a provider.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventsBody {
    events: Vec<EventBody>,
}

/// One event; it names its job, or the message.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventBody {
    /// `accepted`, `delivered`, `refused`, `bounced` or `suppressed`.
    r#type: String,
    job_id: Option<String>,
    message_id: Option<String>,
    at: Option<String>,
    detail: Option<String>,
}

/// What was made of the events.
#[derive(Serialize, ToSchema, Default)]
pub(crate) struct EventsTaken {
    /// Written, or known already.
    applied: u64,
    /// Of no job of this transport.
    unknown: u64,
    /// Against what is on record.
    conflicting: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Accepted,
    Delivered,
    Refused,
    Bounced,
    Suppressed,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Accepted, Kind::Delivered, Kind::Refused, Kind::Bounced, Kind::Suppressed];

    const fn word(self) -> &'static str {
        match self {
            Kind::Accepted => "accepted",
            Kind::Delivered => "delivered",
            Kind::Refused => "refused",
            Kind::Bounced => "bounced",
            Kind::Suppressed => "suppressed",
        }
    }

    const fn proves_acceptance(self) -> bool {
        match self {
            Kind::Accepted | Kind::Delivered | Kind::Bounced => true,
            Kind::Refused | Kind::Suppressed => false,
        }
    }
}

struct ProviderEvent {
    kind: Kind,
    job_id: Option<JobId>,
    message_id: Option<String>,
    at: Option<Moment>,
    detail: String,
}

enum Taken {
    Applied,
    Unknown,
    Conflicting,
    /// A later handoff is under way, or a replay isn't staged yet.
    Later,
}

/// Takes a provider's events, signed as `Curfew-Signature: t=<unix s>,v1=<hex HMAC-SHA256(secret, t + "." + body)>`.
#[utoipa::path(post, path = "/v1/provider-events/{transport}", tag = "provider events",
    params(("transport" = String, Path), ("Curfew-Signature" = String, Header)), request_body = EventsBody,
    responses((status = 200, body = EventsTaken), (status = 401, body = Problem, description = "no valid signature; nothing changed"), (status = 422, body = Problem), (status = 503, body = Problem, description = "send again")))]
pub(crate) async fn take_events(
    State(api): State<Arc<Api>>,
    Path(transport): Path<String>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Json<EventsTaken>, Problem> {
    let refused = || Problem::unauthorized("no valid signature");
    let now = api.ledger.now().await?;
    let given = headers.get(signature::HEADER).and_then(|v| v.to_str().ok()).ok_or_else(refused)?;
    let secret = api.event_secrets.get(&transport).ok_or_else(refused)?;
    if !signature::is_valid(secret, given, &body, now) {
        return Err(refused());
    }
    let events = read(&body)?;
    let mut taken = EventsTaken::default();
    let mut again = false;
    for event in events {
        match take(&api, &transport, event, now).await? {
            Taken::Applied => taken.applied += 1,
            Taken::Unknown => taken.unknown += 1,
            Taken::Conflicting => taken.conflicting += 1,
            Taken::Later => again = true,
        }
    }
    (api.on_accepted)();
    if again { Err(Problem::unavailable("an event can't be taken yet; send all of them again")) } else { Ok(Json(taken)) }
}

/// All events, before any is taken. Fields that providers add are ignored.
fn read(body: &[u8]) -> Result<Vec<ProviderEvent>, Problem> {
    let value = json::read(body).map_err(|e| Problem::field("body", e))?;
    let mut f = Fields::of("", value).map_err(|e| Problem::field("body", e.error))?;
    let items = f.list("events").ok_or_else(|| Problem::field("events", "is required: a list"))?;
    if items.len() > EVENTS_MAX {
        return Err(Problem::field("events", format!("are more than {EVENTS_MAX}")));
    }
    let mut faults = Vec::new();
    let mut all = Vec::with_capacity(items.len());
    for (n, item) in items.into_iter().enumerate() {
        match event(n, item) {
            Ok(event) => all.push(event),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(all) } else { Err(Problem::invalid(faults)) }
}

fn event(n: usize, item: Value) -> Result<ProviderEvent, FieldError> {
    let mut f = Fields::of(&format!("events.{n}"), item)?;
    let word = f.required("type");
    let kind = Kind::ALL.into_iter().find(|k| k.word() == word);
    let kind = kind.ok_or_else(|| FieldError::new(f.name("type"), "is none of accepted delivered refused bounced suppressed"))?;
    let (job_id, message_id) = (f.text("job_id"), f.text("message_id"));
    if job_id.is_none() && message_id.is_none() {
        return Err(FieldError::new(f.name("job_id"), "is required, or message_id"));
    }
    let at = f.text("at").and_then(|t| Moment::parse(&t));
    let mut detail = free_text::hide_addresses(&f.text("detail").unwrap_or_default());
    detail.retain(|c| !c.is_control());
    curfew_domain::history::cut(&mut detail, 160);
    // An id that is none belongs to no job: the event is counted as unknown.
    let job_id = job_id.map(|id| JobId::parse(&id).unwrap_or(JobId(uuid::Uuid::nil())));
    Ok(ProviderEvent { kind, job_id, message_id, at, detail })
}

async fn take(api: &Api, transport: &str, event: ProviderEvent, now: Moment) -> Result<Taken, Problem> {
    let row = match event.job_id {
        Some(id) => api.book.by_id(id).await?,
        None => by_message(api, transport, event.message_id.as_deref().unwrap_or_default()).await?,
    };
    let Some(row) = row.filter(|r| r.job.transport == transport) else { return Ok(Taken::Unknown) };
    let record = api.ledger.records(std::slice::from_ref(&row.job.key)).await?.pop().flatten().filter(|r| r.id == row.job.id);
    if let Some(known) = after_sent(&row, record.as_ref(), event.kind) {
        return Ok(known);
    }
    let taken = match record.as_ref().map(open_handoffs) {
        // A refusal names no handoff: it may speak of an earlier one, while the one under way is being accepted. Its own worker will say.
        Some(_) if record.as_ref().is_some_and(|r| r.state == JobState::Handoff) && !event.kind.proves_acceptance() => return Ok(Taken::Later),
        Some(open) if open.len() > 1 && !event.kind.proves_acceptance() => return Ok(Taken::Conflicting),
        Some(open) if !open.is_empty() => to_ledger(api, &row, record.as_ref(), &open, &event, now).await?,
        Some(_) | None => to_book(api, &row, &event, now).await?,
    };
    Ok(taken)
}

/// A job that was sent stays sent: what agrees is known, what contradicts is counted, and a bounce is another story.
fn after_sent(row: &Row, record: Option<&Record>, kind: Kind) -> Option<Taken> {
    let sent = row.state == BookState::Sent || record.is_some_and(|r| r.state == JobState::Sent && r.generation >= row.generation);
    sent.then_some(match kind {
        Kind::Accepted | Kind::Delivered | Kind::Bounced | Kind::Suppressed => Taken::Applied,
        Kind::Refused => Taken::Conflicting,
    })
}

/// Every handoff that may have been accepted and isn't known to be, the one under way last.
fn open_handoffs(record: &Record) -> Vec<Token> {
    let mut open = record.open_tokens();
    if record.state == JobState::Handoff {
        open.extend(record.token);
    }
    open
}

async fn to_ledger(api: &Api, row: &Row, record: Option<&Record>, open: &[Token], event: &ProviderEvent, now: Moment) -> Result<Taken, Problem> {
    let (Some(record), Some(token)) = (record, open.last().copied()) else { return Ok(Taken::Unknown) };
    let (receipt, outcome) = (receipt(event, now), outcome(event));
    let verdict = if event.kind.proves_acceptance() { Verdict::Accepted(&receipt) } else { Verdict::NotAccepted(&outcome) };
    let told = Report { key: &row.job.key, generation: record.generation, token, verdict, by: By::Provider, own: None };
    Ok(match report(api.ledger.as_ref(), api.book.as_ref(), &api.rulebook, told, rand::random::<f64>()).await? {
        Reported::Written(_) if record.state == JobState::Handoff => Taken::Applied,
        Reported::Written(_) => resolved(event.kind),
        Reported::Known => Taken::Applied,
        Reported::Later => Taken::Later,
        Reported::Evidence(taken) => evidence_taken(taken, event.kind),
    })
}

async fn to_book(api: &Api, row: &Row, event: &ProviderEvent, now: Moment) -> Result<Taken, Problem> {
    let fate = if event.kind.proves_acceptance() { Fate::Accepted(receipt(event, now)) } else { Fate::NotAccepted(Box::new(outcome(event))) };
    let evidence =
        Evidence { key: row.job.key.clone(), generation: row.generation, token: None, fate, source: EvidenceSource::ProviderEvent, at: now };
    Ok(evidence_taken(api.book.evidence(evidence).await?, event.kind))
}

fn evidence_taken(taken: EvidenceTaken, kind: Kind) -> Taken {
    match taken {
        EvidenceTaken::Sent | EvidenceTaken::DoubtEnded => resolved(kind),
        EvidenceTaken::Known => Taken::Applied,
        EvidenceTaken::Unknown => Taken::Unknown,
        EvidenceTaken::Conflicting => Taken::Conflicting,
        EvidenceTaken::AskLedger => Taken::Later,
    }
}

fn resolved(kind: Kind) -> Taken {
    metrics::in_doubt_resolved(metrics::ResolvedBy::ProviderEvent);
    if kind.proves_acceptance() {
        // Without the event somebody would have sent it again.
        metrics::duplicate_suppressed(metrics::Where::Evidence);
    }
    Taken::Applied
}

fn receipt(event: &ProviderEvent, now: Moment) -> Receipt {
    let text = format!("provider event: {} {}", event.kind.word(), event.detail).trim_end().to_owned();
    Receipt { at: event.at.unwrap_or(now).min(now), code: 0, text, queue_id: None }
}

fn outcome(event: &ProviderEvent) -> Outcome {
    let class = if event.kind == Kind::Suppressed { OutcomeClass::Suppressed } else { OutcomeClass::Permanent };
    Outcome::new(class, Stage::Dot, "provider-event", format!("provider event: {} {}", event.kind.word(), event.detail).trim_end())
}

/// The job of a message: its id is a hash of key and revision, so it is compared with those of the items in doubt, which alone await an event.
async fn by_message(api: &Api, transport: &str, message_id: &str) -> Result<Option<Row>, Problem> {
    let wanted = message_id.trim().trim_start_matches('<').trim_end_matches('>');
    let mut filter = ReviewFilter { limit: LIST_LIMIT_MAX, ..ReviewFilter::default() };
    let mut scanned = 0;
    loop {
        let page = api.review.list(&filter).await?;
        scanned += page.items.len();
        let keys: Vec<_> = page.items.into_iter().filter(|i| i.in_doubt).filter_map(|i| i.key).collect();
        if !keys.is_empty() {
            for view in api.book.rows(&keys).await?.into_iter().flatten() {
                let job = &view.row.job;
                let fits = (1..=job.content_revision).any(|revision| (api.message_id_of)(&job.key, revision, transport) == wanted);
                if fits {
                    return Ok(api.book.by_id(job.id).await?);
                }
            }
        }
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() || scanned >= DOUBTS_SCANNED_MAX {
            return Ok(None);
        }
    }
}
