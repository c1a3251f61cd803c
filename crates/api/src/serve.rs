//! The server: the router on a listener, until told to stop.

use std::future::Future;
use std::sync::Arc;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use crate::api::Api;
use crate::routes::router;

/// Serves until `shutdown` ends, then finishes what is in hand. The caller bounds how long it waits for that.
///
/// # Errors
/// The listener's own.
pub async fn serve(listener: TcpListener, api: Arc<Api>, shutdown: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    // Without it a small answer waits for the client's delayed acknowledgement, 40 ms each.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, router(api)).with_graceful_shutdown(shutdown).await
}
