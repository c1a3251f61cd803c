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

/// Ends the process, like a second signal, when whoever holds the other side of its standard input is gone.
pub fn end_with_stdin() {
    std::thread::spawn(|| {
        let _read = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
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
