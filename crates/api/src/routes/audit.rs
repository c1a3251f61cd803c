//! The audit trail, and whether it is whole.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use curfew_book::AuditEntry;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::extract::Asked;
use crate::problem::Problem;

/// One line of the audit trail.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditBody {
    number: u64,
    at: String,
    actor: String,
    action: String,
    object: String,
    reason: String,
    /// Arguments as JSON, without addresses.
    detail: String,
}

/// A page of the audit trail.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditList {
    items: Vec<AuditBody>,
    next_cursor: Option<String>,
}

/// The audit trail, newest first.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(("cursor" = Option<String>, Query), ("limit" = Option<u32>, Query)), responses((status = 200, body = AuditList)))]
pub(crate) async fn list_audit(State(api): State<Arc<Api>>, mut asked: Asked) -> Result<Json<AuditList>, Problem> {
    let (limit, cursor) = (asked.limit(), asked.0.text("cursor"));
    asked.0.done()?;
    let page = api.book.audit_list(cursor.as_deref(), limit).await?;
    Ok(Json(AuditList { items: page.items.into_iter().map(shown).collect(), next_cursor: page.next_cursor }))
}

fn shown(e: AuditEntry) -> AuditBody {
    AuditBody { number: e.number, at: e.at.rfc3339(), actor: e.actor, action: e.action, object: e.object, reason: e.reason, detail: e.detail }
}

/// Whether each entry fits the one before.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditVerdict {
    ok: bool,
    /// Entries that fit, where all do.
    entries: Option<u64>,
    /// The first that doesn't.
    first_bad: Option<u64>,
}

/// Recomputes the trail's chain of hashes.
#[utoipa::path(get, path = "/v1/audit/verify", tag = "audit", responses((status = 200, body = AuditVerdict)))]
pub(crate) async fn verify_audit(State(api): State<Arc<Api>>) -> Result<Json<AuditVerdict>, Problem> {
    Ok(Json(match api.book.audit_verify().await? {
        Ok(entries) => AuditVerdict { ok: true, entries: Some(entries), first_bad: None },
        Err(first_bad) => AuditVerdict { ok: false, entries: None, first_bad: Some(first_bad) },
    }))
}
