//! Probes, metrics, and the API's own description.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::OwnForm;
use crate::api::{Api, Ready};
use crate::openapi::document;

/// The process lives.
#[utoipa::path(get, path = "/healthz", tag = "probes", responses((status = 200, body = String)))]
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// The process can serve: its stores answer and its roles run.
#[utoipa::path(get, path = "/readyz", tag = "probes", responses((status = 200, body = Ready), (status = 503, body = Ready)))]
pub(crate) async fn ready(State(api): State<Arc<Api>>) -> Response {
    readiness((api.readiness)())
}

/// 200 where it can serve, else 503; the same body either way.
pub(crate) fn readiness(ready: Ready) -> Response {
    let status = if ready.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = (status, Json(ready)).into_response();
    response.extensions_mut().insert(OwnForm);
    response
}

/// Prometheus text.
#[utoipa::path(get, path = "/metrics", tag = "probes", responses((status = 200, body = String)))]
pub(crate) async fn show_metrics(State(api): State<Arc<Api>>) -> Response {
    exposed((api.exposition)())
}

/// The metrics' text under its media type.
pub(crate) fn exposed(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "probes", responses((status = 200, body = Object)))]
pub(crate) async fn show_openapi() -> Response {
    Json(document()).into_response()
}
