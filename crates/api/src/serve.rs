//! The servers: the router on a listener, and a role's probes and metrics on another, until told to stop.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use crate::api::{Api, Ready};
use crate::problem::Problem;
use crate::routes::{exposed, health, readiness, router};

/// Serves until `shutdown` ends, then finishes what is in hand. The caller bounds how long it waits for that.
///
/// # Errors
/// The listener's own.
pub async fn serve(listener: TcpListener, api: Arc<Api>, shutdown: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    // Without it a small answer waits for the client's delayed acknowledgement, 40 ms each.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, router(api)).with_graceful_shutdown(shutdown).await
}

/// What a role tells of itself beside the API.
#[derive(Clone)]
pub struct Probes {
    /// Whether this process can work.
    pub readiness: Arc<dyn Fn() -> Ready + Send + Sync>,
    /// The metrics as text.
    pub exposition: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Serves `/metrics`, `/healthz` and `/readyz`, and nothing else; they name no person, so nobody is asked for a token.
///
/// # Errors
/// The listener's own.
pub async fn serve_probes(listener: TcpListener, probes: Probes, shutdown: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    let Probes { readiness: ready, exposition } = probes;
    let routes: Router = Router::new()
        .route("/metrics", get(move || async move { exposed(exposition()) }))
        .route("/healthz", get(health))
        .route("/readyz", get(move || async move { readiness(ready()) }))
        .fallback(|| async { nothing_else() });
    axum::serve(listener, routes).with_graceful_shutdown(shutdown).await
}

fn nothing_else() -> Response {
    axum::response::IntoResponse::into_response(Problem::not_found("here are /metrics, /healthz and /readyz; the API listens elsewhere"))
}
