//! The human work on an item: suppress, escalate, resolve, assign, note. Approval comes with a later issue.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use curfew_telemetry::metrics;
use serde::Serialize;
use utoipa::ToSchema;

use super::Who;
use super::jobs::{WithReason, moment};
use super::review::item_id;
use crate::api::Api;
use crate::extract::Sent;
use crate::limits::ESCALATION_DUE;
use crate::problem::Problem;
use crate::view::ItemBody;

type Answered = Result<Json<ItemBody>, Problem>;

/// Ends an open item and its job as suppressed.
#[utoipa::path(post, path = "/v1/review/{item}/suppress", tag = "review", params(("item" = String, Path)), request_body = WithReason,
    responses((status = 200, body = ItemBody), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn suppress_item(State(api): State<Arc<Api>>, who: Who, Path(id): Path<String>, Sent(mut f): Sent) -> Answered {
    let reason = f.words("reason");
    f.done()?;
    let now = api.ledger.now().await?;
    Ok(Json(ItemBody::of(&api.review.suppress(item_id(&id)?, &who.0.0, &reason, now).await?)))
}

/// An escalation: without an owner to the one of the configuration, without a due time in an hour.
#[derive(Serialize, ToSchema)]
pub(crate) struct EscalateBody {
    owner: Option<String>,
    due_at: Option<String>,
    reason: String,
}

/// Changes owner and due time.
#[utoipa::path(post, path = "/v1/review/{item}/escalate", tag = "review", params(("item" = String, Path)), request_body = EscalateBody,
    responses((status = 200, body = ItemBody), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn escalate_item(State(api): State<Arc<Api>>, who: Who, Path(id): Path<String>, Sent(mut f): Sent) -> Answered {
    let owner = f.words_if_given("owner").unwrap_or_else(|| api.escalation_owner.clone());
    let due_at = moment(&mut f, "due_at");
    let reason = f.words("reason");
    f.done()?;
    let now = api.ledger.now().await?;
    let due_at = due_at.or(now.plus(ESCALATION_DUE));
    Ok(Json(ItemBody::of(&api.review.escalate(item_id(&id)?, &owner, due_at, &who.0.0, &reason, now).await?)))
}

/// A resolution; a receipt makes an item in doubt `sent`.
#[derive(Serialize, ToSchema)]
pub(crate) struct ResolveBody {
    reason: String,
    receipt: Option<String>,
}

/// Closes an item. The job stays dead-lettered, unless a receipt proves that it was sent.
#[utoipa::path(post, path = "/v1/review/{item}/resolve", tag = "review", params(("item" = String, Path)), request_body = ResolveBody,
    responses((status = 200, body = ItemBody), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn resolve_item(State(api): State<Arc<Api>>, who: Who, Path(id): Path<String>, Sent(mut f): Sent) -> Answered {
    let (reason, receipt) = (f.words("reason"), f.words_if_given("receipt"));
    f.done()?;
    let now = api.ledger.now().await?;
    let item = api.review.resolve(item_id(&id)?, receipt.as_deref(), &who.0.0, &reason, now).await?;
    if receipt.is_some() {
        metrics::in_doubt_resolved(metrics::ResolvedBy::Operator);
    }
    Ok(Json(ItemBody::of(&item)))
}

/// Whose work it becomes.
#[derive(Serialize, ToSchema)]
pub(crate) struct AssignBody {
    owner: String,
}

/// Gives an item an owner.
#[utoipa::path(post, path = "/v1/review/{item}/assign", tag = "review", params(("item" = String, Path)), request_body = AssignBody,
    responses((status = 200, body = ItemBody), (status = 404, body = Problem)))]
pub(crate) async fn assign_item(State(api): State<Arc<Api>>, who: Who, Path(id): Path<String>, Sent(mut f): Sent) -> Answered {
    let owner = f.words("owner");
    f.done()?;
    let now = api.ledger.now().await?;
    Ok(Json(ItemBody::of(&api.review.assign(item_id(&id)?, &owner, &who.0.0, now).await?)))
}

/// A note.
#[derive(Serialize, ToSchema)]
pub(crate) struct NoteText {
    text: String,
}

/// Adds a note; what looks like an address in it is hidden.
#[utoipa::path(post, path = "/v1/review/{item}/note", tag = "review", params(("item" = String, Path)), request_body = NoteText,
    responses((status = 200, body = ItemBody), (status = 404, body = Problem)))]
pub(crate) async fn note_item(State(api): State<Arc<Api>>, who: Who, Path(id): Path<String>, Sent(mut f): Sent) -> Answered {
    let text = f.words("text");
    f.done()?;
    let now = api.ledger.now().await?;
    Ok(Json(ItemBody::of(&api.review.note(item_id(&id)?, &text, &who.0.0, now).await?)))
}

/// Approves what waits for another person. Nothing does yet: always refused.
#[utoipa::path(post, path = "/v1/review/{item}/approve", tag = "review", params(("item" = String, Path)), responses((status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn approve_item(State(api): State<Arc<Api>>, Path(id): Path<String>) -> Answered {
    let _there = super::review::item(&api, &id).await?;
    Err(Problem::conflict("the item waits for no approval"))
}
