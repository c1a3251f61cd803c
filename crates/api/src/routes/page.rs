//! The console's first page: what is held, how many jobs in which state, and what waits for a person. Rendered here, without scripts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use curfew_review::{ItemStatus, ReviewFilter};

use crate::api::Api;
use crate::console::{self, Page};
use crate::problem::Problem;
use crate::view::ItemBody;

const SHOWN: u32 = 20;

pub(crate) async fn show(State(api): State<Arc<Api>>) -> Result<Response, Problem> {
    let now = api.ledger.now().await?;
    let holds = super::fleet::held(&api, now).await?;
    let states = api.ledger.live_by_state().await?.into_iter().map(|(state, n)| (state.word().to_owned(), n)).collect();
    let filter = ReviewFilter { status: Some(ItemStatus::Open), limit: SHOWN, ..ReviewFilter::default() };
    let items = api.review.list(&filter).await?.items.iter().map(ItemBody::of).collect();
    let jobs = super::jobs::newest(&api, now, SHOWN).await?;
    let html = console::page(&Page { now: now.rfc3339(), holds, states, items, jobs });
    let policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    Ok(([(header::CONTENT_SECURITY_POLICY, policy), (header::REFERRER_POLICY, "no-referrer")], Html(html)).into_response())
}

pub(crate) async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], console::STYLE).into_response()
}
