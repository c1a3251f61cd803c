//! A day's reconciliation: each figure counted on its own, the difference, and the ids behind it.
//!
//! The book's figures are one snapshot. Its staged rows are compared one by one with the ledger's records; a row whose record isn't there is
//! read again before it counts as missing, so that a job which settles meanwhile makes no difference. In a shard that recovers none does: what is
//! missing there may come back.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use curfew_book::BookState;
use curfew_domain::key::check_part;
use curfew_domain::{Key, Moment};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::extract::Asked;
use crate::limits::DIFFERENCES_MAX;
use crate::problem::Problem;
use crate::view::{Told, records};

/// Staged rows compared at once.
const PAGE: u32 = 500;

/// A business date's figures (CONTRACT, "A day").
#[derive(Serialize, ToSchema)]
pub(crate) struct DayBody {
    date: String,
    zone: String,
    tenant: Option<String>,
    /// From the door's log.
    accepted: u64,
    sent: u64,
    dead_letter: u64,
    cancelled: u64,
    suppressed: u64,
    planned: u64,
    /// Jobs that the ledger holds.
    live: u64,
    /// `accepted` minus the other six.
    difference: i64,
    differences: Vec<DifferenceBody>,
}

/// A job behind a difference.
#[derive(Serialize, ToSchema)]
pub(crate) struct DifferenceBody {
    id: String,
    expected: String,
    found: String,
}

/// A day's reconciliation; `today` is the ledger's, in UTC.
#[utoipa::path(get, path = "/v1/days/{date}", tag = "days", params(("date" = String, Path, description = "YYYY-MM-DD, or today"), ("tenant" = Option<String>, Query)),
    responses((status = 200, body = DayBody), (status = 422, body = Problem)))]
pub(crate) async fn show_day(State(api): State<Arc<Api>>, Path(date): Path<String>, mut asked: Asked) -> Result<Json<DayBody>, Problem> {
    let tenant = asked.0.text("tenant");
    if let Some(Err(e)) = tenant.as_deref().map(check_part) {
        asked.0.fault("tenant", e.to_string());
    }
    asked.0.done()?;
    let date = if date == "today" { api.ledger.now().await?.date() } else { date };
    if date.len() != 10 || Moment::parse(&format!("{date}T00:00:00Z")).is_none() {
        return Err(Problem::field("date", "is no date: YYYY-MM-DD"));
    }
    let day = api.book.day(&date, tenant.as_deref()).await?;
    let missing = missing(&api, &date, tenant.as_deref()).await?;
    let live = day.staged.saturating_sub(missing.len() as u64);
    let others = day.sent + day.dead_letter + day.cancelled + day.suppressed + day.planned + live;
    let difference = i64::try_from(day.accepted).unwrap_or(i64::MAX) - i64::try_from(others).unwrap_or(i64::MAX);
    let differences = if difference == 0 && missing.is_empty() { Vec::new() } else { behind(&api, &date, tenant.as_deref(), missing).await? };
    Ok(Json(DayBody {
        date,
        zone: "UTC".to_owned(),
        tenant,
        accepted: day.accepted,
        sent: day.sent,
        dead_letter: day.dead_letter,
        cancelled: day.cancelled,
        suppressed: day.suppressed,
        planned: day.planned,
        live,
        difference,
        differences,
    }))
}

/// Staged rows of the date that the ledger holds no record of.
async fn missing(api: &Api, date: &str, tenant: Option<&str>) -> Result<Vec<Key>, Problem> {
    let mut missing = Vec::new();
    let mut after: Option<Key> = None;
    loop {
        let keys = api.book.day_staged(date, tenant, after.as_ref(), PAGE).await?;
        let absent = without_record(api, &keys).await?;
        if !absent.is_empty() {
            let rows = api.book.rows(&absent).await?;
            let still: Vec<Key> = rows.into_iter().flatten().filter(|v| v.row.state == BookState::Staged).map(|v| v.row.job.key).collect();
            missing.extend(without_record(api, &still).await?);
        }
        match keys.last() {
            Some(last) if keys.len() == PAGE as usize => after = Some(last.clone()),
            Some(_) | None => return Ok(missing),
        }
    }
}

async fn without_record(api: &Api, keys: &[Key]) -> Result<Vec<Key>, Problem> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let records = records(&*api.ledger, keys).await?;
    Ok(keys.iter().zip(records).filter(|(_, told)| *told == Told::Nothing).map(|(key, _)| key.clone()).collect())
}

async fn behind(api: &Api, date: &str, tenant: Option<&str>, missing: Vec<Key>) -> Result<Vec<DifferenceBody>, Problem> {
    let mut all = Vec::new();
    for (id, _key, state) in api.book.day_differences(date, tenant, DIFFERENCES_MAX).await? {
        if state.is_none() {
            all.push(DifferenceBody { id: id.to_string(), expected: "a row in the book".to_owned(), found: "none".to_owned() });
        }
    }
    let missing: Vec<Key> = missing.into_iter().take(DIFFERENCES_MAX as usize).collect();
    if !missing.is_empty() {
        for view in api.book.rows(&missing).await?.into_iter().flatten() {
            all.push(DifferenceBody { id: view.row.job.id.to_string(), expected: "a record in the ledger".to_owned(), found: "none".to_owned() });
        }
    }
    Ok(all)
}
