//! Review: the items, what one's letter says, and its replay.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use curfew_domain::Reason;
use curfew_review::{Item, ItemStatus, Replay, ReviewFilter};
use curfew_telemetry::metrics;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Who;
use super::jobs::{Given, moment};
use crate::api::Api;
use crate::extract::{Asked, Sent};
use crate::problem::Problem;
use crate::view::{ItemBody, ItemList, JobBody, body};

/// Every status, for its word.
const STATUSES: [ItemStatus; 5] = [ItemStatus::Open, ItemStatus::WaitingApproval, ItemStatus::Replaying, ItemStatus::Resolved, ItemStatus::Withdrawn];

/// Review items, newest first.
#[utoipa::path(get, path = "/v1/review", tag = "review",
    params(("reason" = Option<String>, Query), ("tenant" = Option<String>, Query), ("status" = Option<String>, Query), ("cursor" = Option<String>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, body = ItemList), (status = 422, body = Problem)))]
pub(crate) async fn list_items(State(api): State<Arc<Api>>, mut asked: Asked) -> Result<Json<ItemList>, Problem> {
    let limit = asked.limit();
    let f = &mut asked.0;
    let (tenant, cursor) = (f.text("tenant"), f.text("cursor"));
    let reason = f.text("reason").map(|word| Reason::from_word(&word));
    if reason == Some(None) {
        f.fault("reason", "is no reason that a job ends with");
    }
    let status = f.text("status").map(|word| STATUSES.into_iter().find(|s| s.word() == word));
    if status == Some(None) {
        f.fault("status", "is none of open waiting_approval replaying resolved withdrawn");
    }
    asked.0.done()?;
    let filter = ReviewFilter { reason: reason.flatten(), tenant, status: status.flatten(), cursor, limit };
    let page = api.review.list(&filter).await?;
    Ok(Json(ItemList { items: page.items.iter().map(ItemBody::of).collect(), next_cursor: page.next_cursor }))
}

/// One item with notes and history.
#[utoipa::path(get, path = "/v1/review/{item}", tag = "review", params(("item" = String, Path)), responses((status = 200, body = ItemBody), (status = 404, body = Problem)))]
pub(crate) async fn show_item(State(api): State<Arc<Api>>, Path(id): Path<String>) -> Result<Json<ItemBody>, Problem> {
    Ok(Json(ItemBody::of(&item(&api, &id).await?)))
}

/// The item that a path names.
pub(super) async fn item(api: &Api, id: &str) -> Result<Item, Problem> {
    let found = match item_id(id) {
        Ok(id) => api.review.show(id).await?,
        Err(_) => None,
    };
    found.ok_or_else(|| Problem::not_found("there is no such review item"))
}

/// An item's id in a path.
pub(super) fn item_id(id: &str) -> Result<Uuid, Problem> {
    Uuid::parse_str(id).map_err(|_not_one| Problem::not_found("there is no such review item"))
}

/// A letter, opened for an operator.
#[derive(Serialize, ToSchema)]
pub(crate) struct Preview {
    item: String,
    job_id: String,
    content_revision: u32,
    to: super::Recipient,
    subject: String,
    text: Option<String>,
    html: Option<String>,
    list_unsubscribe: Option<String>,
    attachments: Vec<super::AttachmentSubmission>,
    template: Option<String>,
}

/// Opens an item's letter: the one answer that holds an address and a body. Audited before it is opened.
#[utoipa::path(post, path = "/v1/review/{item}/preview", tag = "review", params(("item" = String, Path)),
    responses((status = 200, body = Preview), (status = 404, body = Problem), (status = 409, body = Problem, description = "the letter is gone")))]
pub(crate) async fn preview_item(State(api): State<Arc<Api>>, who: Who, Path(id): Path<String>, Sent(mut f): Sent) -> Result<Json<Preview>, Problem> {
    let reason = f.words_if_given("reason").unwrap_or_default();
    f.done()?;
    let item = item(&api, &id).await?;
    let row = job_of(&api, &item).await?;
    let now = api.ledger.now().await?;
    api.book.audit(now, &who.0.0, "preview", &item.id.to_string(), &reason, "{}").await?;
    let letter = api.door.open(&row.job).ok_or_else(|| Problem::conflict("the letter is gone, or sealed under a key that is not configured"))?;
    Ok(Json(Preview {
        item: item.id.to_string(),
        job_id: row.job.id.to_string(),
        content_revision: row.job.content_revision,
        to: super::Recipient { address: letter.to_address, name: letter.to_name },
        subject: letter.subject,
        text: letter.text,
        html: letter.html,
        list_unsubscribe: letter.list_unsubscribe,
        attachments: letter
            .attachments
            .into_iter()
            .map(|a| super::AttachmentSubmission { uri: a.uri, name: Some(a.name), sha256: a.sha256 })
            .collect(),
        template: letter.template.map(|t| t.template),
    }))
}

/// The job of an item, with its letter.
pub(super) async fn job_of(api: &Api, item: &Item) -> Result<curfew_book::Row, Problem> {
    let id = item.job_id.ok_or_else(|| Problem::conflict("the item is a message that names no job"))?;
    api.book.by_id(id).await?.ok_or_else(|| Problem::not_found("the item's job is gone"))
}

/// A replay.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReplayBody {
    deadline_at: String,
    reason: String,
    accept_duplicate_risk: Option<bool>,
    dry_run: Option<bool>,
}

/// What a replay did, or would do.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReplayAnswer {
    item: String,
    dry_run: bool,
    generation: u32,
    job: JobBody,
}

/// Runs an item's job again, as a new generation under a new deadline. An item in doubt needs `accept_duplicate_risk`, and 15 minutes of rest.
#[utoipa::path(post, path = "/v1/review/{item}/replay", tag = "review", params(("item" = String, Path)), request_body = ReplayBody,
    responses((status = 200, body = ReplayAnswer), (status = 404, body = Problem), (status = 409, body = Problem, description = "not open; or of the type not-yet"), (status = 422, body = Problem)))]
pub(crate) async fn replay_item(
    State(api): State<Arc<Api>>,
    who: Who,
    Path(id): Path<String>,
    Sent(mut f): Sent,
) -> Result<Json<ReplayAnswer>, Problem> {
    let deadline = moment(&mut f, "deadline_at");
    let reason = f.words("reason");
    let (accept_duplicate_risk, dry_run) = (f.flag("accept_duplicate_risk"), f.flag("dry_run"));
    let now = api.ledger.now().await?;
    match deadline {
        Given::Absent => f.fault("deadline_at", "is required"),
        Given::At(at) if at <= now => f.fault("deadline_at", "is not ahead of now"),
        Given::At(_) => {}
    }
    f.done()?;
    let id = item_id(&id)?;
    let replay = Replay { item: id, deadline_at: deadline.or(now), actor: who.0.0.clone(), reason, accept_duplicate_risk, dry_run, at: now };
    let replayed = api.review.replay(replay).await.inspect_err(|_refused| {
        if !dry_run {
            metrics::replay(metrics::ReplayResult::Refused);
        }
    })?;
    if !dry_run {
        (api.on_accepted)();
    }
    let job = body(&api, &replayed.row, now).await?;
    Ok(Json(ReplayAnswer { item: id.to_string(), dry_run, generation: replayed.generation, job }))
}
