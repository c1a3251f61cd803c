//! What a caller can do about a ledger's failure.

/// Errors of every adapter. After any of them nothing is known: read, the version and the token tell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// No answer, or the store refuses writes for now. The swap may have been applied.
    #[error("the ledger didn't answer: {operation}")]
    Unavailable {
        /// What was asked.
        operation: &'static str,
    },
    /// The shard recovers: claims, intents and timers are refused, reports are taken.
    #[error("the shard recovers")]
    Recovering,
    /// Written by a newer process, or unreadable: leave it alone.
    #[error("a record can't be read: {0}")]
    Unreadable(#[from] curfew_domain::form::FormError),
    /// The store is broken for good.
    #[error("the ledger's store: {0}")]
    Store(String),
}
