//! SIGTERM and SIGINT: the first drains, a second one stops at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns at the first signal, or when something else says stop (`fleet drain`).
pub async fn first(stop: &CancellationToken) {
    tokio::select! {
        () = any() => {}
        () = stop.cancelled() => {}
    }
}

/// Returns at the next signal.
pub async fn second() {
    any().await;
}

async fn any() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        std::future::pending::<()>().await;
        return;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
