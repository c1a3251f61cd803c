//! The suppressions lists. An address comes in, in the body; what is kept and shown is its reference and masked form.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use curfew_book::SuppressionRow;
use curfew_domain::address;
use curfew_domain::key::check_part;
use curfew_domain::sealed::RecipientRef;
use curfew_ledger::Suppression;
use serde::Serialize;
use utoipa::ToSchema;

use super::Who;
use crate::api::Api;
use crate::extract::{Asked, Sent};
use crate::fields::Fields;
use crate::problem::Problem;

/// A recipient on a list, as shown.
#[derive(Serialize, ToSchema)]
pub(crate) struct SuppressionBody {
    /// Of one tenant; null: of all.
    tenant: Option<String>,
    recipient_ref: String,
    recipient_masked: String,
    reason: String,
    actor: String,
    since: String,
}

/// All lists.
#[derive(Serialize, ToSchema)]
pub(crate) struct SuppressionList {
    items: Vec<SuppressionBody>,
    next_cursor: Option<String>,
}

/// A recipient to be put on a list, or taken off; to take off, `recipient_ref` serves too.
#[derive(Serialize, ToSchema)]
pub(crate) struct SuppressionChange {
    address: Option<String>,
    recipient_ref: Option<String>,
    tenant: Option<String>,
    reason: Option<String>,
}

/// All suppressions, newest first.
#[utoipa::path(get, path = "/v1/suppressions", tag = "suppressions", params(("tenant" = Option<String>, Query)), responses((status = 200, body = SuppressionList)))]
pub(crate) async fn list_suppressions(State(api): State<Arc<Api>>, mut asked: Asked) -> Result<Json<SuppressionList>, Problem> {
    let tenant = asked.0.text("tenant");
    let _whole = (asked.limit(), asked.0.text("cursor"));
    asked.0.done()?;
    let mut rows = api.book.suppressions().await?;
    rows.retain(|r| tenant.is_none() || r.tenant == tenant);
    rows.sort_by_key(|r| std::cmp::Reverse(r.since));
    Ok(Json(SuppressionList { items: rows.into_iter().map(shown).collect(), next_cursor: None }))
}

fn shown(row: SuppressionRow) -> SuppressionBody {
    SuppressionBody {
        tenant: row.tenant,
        recipient_ref: row.recipient_ref.0,
        recipient_masked: row.recipient_masked,
        reason: row.reason,
        actor: row.actor,
        since: row.since.rfc3339(),
    }
}

/// Puts a recipient on a list: of one tenant, or of all. Jobs to it that aren't handed over yet end as suppressed.
#[utoipa::path(post, path = "/v1/suppressions", tag = "suppressions", request_body = SuppressionChange,
    responses((status = 201, body = SuppressionBody), (status = 200, body = SuppressionBody, description = "it stood there"), (status = 422, body = Problem)))]
pub(crate) async fn add_suppression(
    State(api): State<Arc<Api>>,
    who: Who,
    Sent(mut f): Sent,
) -> Result<(StatusCode, Json<SuppressionBody>), Problem> {
    let given = f.required("address");
    let (tenant, reason) = (tenant(&mut f), f.words_if_given("reason").unwrap_or_default());
    let checked = address::check(&given);
    if let (Err(e), false) = (&checked, given.is_empty()) {
        f.fault("address", e.to_string());
    }
    f.done()?;
    let checked = checked.map_err(|e| Problem::field("address", e.to_string()))?;
    let since = api.ledger.now().await?;
    let recipient_ref = api.door.keyring.recipient_ref(&checked.folded());
    let row = SuppressionRow { tenant, recipient_ref, recipient_masked: checked.masked(), reason, actor: who.0.0.clone(), since };
    let new = api.book.suppress_recipient(row.clone()).await?;
    copy_to_ledger(&api).await?;
    Ok((if new { StatusCode::CREATED } else { StatusCode::OK }, Json(shown(row))))
}

/// Takes a recipient off a list.
#[utoipa::path(delete, path = "/v1/suppressions", tag = "suppressions", request_body = SuppressionChange,
    responses((status = 200, body = SuppressionList, description = "what is left"), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn remove_suppression(State(api): State<Arc<Api>>, who: Who, Sent(mut f): Sent) -> Result<Json<SuppressionList>, Problem> {
    let (given, reference) = (f.text("address"), f.text("recipient_ref"));
    let (tenant, reason) = (tenant(&mut f), f.words_if_given("reason").unwrap_or_default());
    let recipient = match (given, reference) {
        (Some(given), None) => address::check(&given).map(|a| api.door.keyring.recipient_ref(&a.folded())).map_err(|e| e.to_string()),
        (None, Some(reference)) => Ok(RecipientRef(reference)),
        (None, None) | (Some(_), Some(_)) => Err("give the address, or the recipient_ref".to_owned()),
    };
    if let Err(e) = &recipient {
        f.fault("address", e.clone());
    }
    f.done()?;
    let recipient = recipient.map_err(|e| Problem::field("address", e))?;
    let at = api.ledger.now().await?;
    let there = api.book.unsuppress_recipient(tenant.as_deref(), &recipient, &who.0.0, &reason, at).await?;
    copy_to_ledger(&api).await?;
    if !there {
        return Err(Problem::not_found("the recipient stands on no such list"));
    }
    let rows = api.book.suppressions().await?;
    Ok(Json(SuppressionList { items: rows.into_iter().map(shown).collect(), next_cursor: None }))
}

fn tenant(f: &mut Fields) -> Option<String> {
    let tenant = f.text("tenant").filter(|t| !t.is_empty());
    if let Some(Err(e)) = tenant.as_deref().map(check_part) {
        f.fault("tenant", e.to_string());
    }
    tenant
}

/// The claim's guard reads the ledger's copy; a scheduler mends it where this fails.
async fn copy_to_ledger(api: &Api) -> Result<(), Problem> {
    let all = api.book.suppressions().await?;
    let copies = all.into_iter().map(|r| Suppression { tenant: r.tenant, recipient_ref: r.recipient_ref }).collect();
    Ok(api.ledger.set_suppressions(copies).await?)
}
