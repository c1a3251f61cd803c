//! What a caller can do about a server's failure, and whether its connection is of any more use.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::LedgerError;

/// The error as callers see it, and whether the connection must be dropped. After any of them nothing is assumed.
pub(super) fn judged(error: &RedisError, operation: &'static str) -> (LedgerError, bool) {
    let unavailable = LedgerError::Unavailable { operation };
    // The server's words may quote what was sent; its code can't.
    let code = error.code().unwrap_or("none").to_owned();
    let broken = LedgerError::Store(format!("{operation}: {} ({code})", error.category()));
    match error.kind() {
        ErrorKind::Server(kind) => match kind {
            // Another node's business, or not now: connect, and identify, anew.
            ServerErrorKind::BusyLoading
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ReadOnly => (unavailable, true),
            ServerErrorKind::TryAgain | ServerErrorKind::NoScript | ServerErrorKind::NotBusy => (unavailable, false),
            // A slot that is being moved, seen from inside a script.
            ServerErrorKind::ResponseError if error.detail().is_some_and(|detail| detail.contains("non local key")) => (unavailable, true),
            _refused_for_good => (broken, false),
        },
        ErrorKind::Extension => match code.as_str() {
            // Refuses writes for now; nothing was written, for the first write of a script is refused before any other.
            "OOM" | "MISCONF" | "NOREPLICAS" | "BUSY" => (unavailable, false),
            "UNBLOCKED" | "NOMASTERLINK" => (unavailable, true),
            _refused_for_good => (broken, false),
        },
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig | ErrorKind::RESP3NotSupported => (broken, true),
        // Broken pipes, timeouts, answers that don't parse: what the server did is unknown.
        _connection => (unavailable, true),
    }
}
