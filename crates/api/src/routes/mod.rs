//! The routes of CONTRACT, and what stands around each: who asks, how long it may take, what a panic becomes.

mod audit;
mod capacity;
mod days;
mod events;
mod fleet;
mod health;
mod jobs;
mod page;
mod review;
mod review_correct;
mod review_verbs;
mod schedules;
mod suppressions;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures::FutureExt;

use crate::api::Api;
use crate::auth::{Actor, guard};
use crate::limits::{BODY_BYTES_MAX, REQUEST_TIME_MAX};
use crate::problem::Problem;

pub(crate) use {
    audit::*, capacity::*, days::*, events::*, fleet::*, health::*, jobs::*, review::*, review_correct::*, review_verbs::*, schedules::*,
    suppressions::*,
};

/// Who asked.
type Who = Extension<Actor>;

/// An import reads a stream of any length and has its own bound.
const IMPORT: &str = "/v1/jobs/import";

/// Every route. A request's answer may be dropped with its connection; what it wrote stays.
pub fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/v1/jobs", post(submit_job).get(list_jobs))
        .route(IMPORT, post(import_jobs))
        .route("/v1/jobs/{job}", get(show_job))
        .route("/v1/jobs/{job}/cancel", post(cancel_job))
        .route("/v1/jobs/{job}/suppress", post(suppress_job))
        .route("/v1/jobs/{job}/move", post(move_job))
        .route("/v1/schedules", get(list_schedules))
        .route("/v1/schedules/{tenant}/{name}", get(show_schedule).put(put_schedule).delete(delete_schedule))
        .route("/v1/schedules/{tenant}/{name}/preview", get(preview_schedule))
        .route("/v1/schedules/{tenant}/{name}/pause", post(pause_schedule))
        .route("/v1/schedules/{tenant}/{name}/resume", post(resume_schedule))
        .route("/v1/schedules/{tenant}/{name}/runs", get(show_runs))
        .route("/v1/review", get(list_items))
        .route("/v1/review/{item}", get(show_item))
        .route("/v1/review/{item}/preview", post(preview_item))
        .route("/v1/review/{item}/replay", post(replay_item))
        .route("/v1/review/{item}/correct", post(correct_item))
        .route("/v1/review/{item}/suppress", post(suppress_item))
        .route("/v1/review/{item}/escalate", post(escalate_item))
        .route("/v1/review/{item}/resolve", post(resolve_item))
        .route("/v1/review/{item}/assign", post(assign_item))
        .route("/v1/review/{item}/note", post(note_item))
        .route("/v1/review/{item}/approve", post(approve_item))
        .route("/v1/suppressions", get(list_suppressions).post(add_suppression).delete(remove_suppression))
        .route("/v1/audit", get(list_audit))
        .route("/v1/audit/verify", get(verify_audit))
        .route("/v1/days/{date}", get(show_day))
        .route("/v1/capacity", get(show_capacity))
        .route("/v1/fleet", get(show_fleet))
        .route("/v1/fleet/pause", post(pause_fleet))
        .route("/v1/fleet/resume", post(resume_fleet))
        .route("/v1/fleet/drain", post(drain_fleet))
        .route("/v1/provider-events/{transport}", post(take_events))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(show_metrics))
        .route("/openapi.json", get(show_openapi))
        .route("/", get(page::show))
        .route("/console.css", get(page::style))
        .fallback(|| async { Problem::not_found("there is no such path") })
        .with_state(Arc::clone(&api))
        .layer(from_fn_with_state(api, guard))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(around))
}

/// A bound on time, a problem for a panic, one form for every refusal, and headers that keep answers out of caches and guesses.
async fn around(request: Request, next: Next) -> Response {
    let bounded = request.uri().path() != IMPORT;
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    let caught = if bounded { tokio::time::timeout(REQUEST_TIME_MAX, answer).await } else { Ok(answer.await) };
    let mut response = match caught {
        Ok(Ok(response)) => response,
        Ok(Err(_panic)) => {
            tracing::error!("a request panicked");
            Problem::internal().into_response()
        }
        Err(_elapsed) => Problem::timeout().into_response(),
    };
    let status = response.status();
    if (status.is_client_error() || status.is_server_error()) && !Problem::is_one(&response) && response.extensions().get::<OwnForm>().is_none() {
        let allow = response.headers().get(header::ALLOW).cloned();
        response = Problem::http(status).into_response();
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Marks an answer that has an error's status and is no problem: readiness.
#[derive(Clone, Copy)]
struct OwnForm;
