//! What a caller can do about a ledger's failure.

/// Errors of every adapter. After any of them nothing is known: read, the version and the token tell.
#[derive(Clone, Debug, thiserror::Error)]
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
    /// This process distrusts the clock of the shard's node: the same is refused until clocks agree again.
    #[error("the clock of the shard's node is distrusted")]
    Halted,
    /// The server isn't the one that the shard was on, or the errand began in another incarnation: nothing was read or written. Begin the
    /// errand anew; where that is refused too, the shard waits for its recovery.
    #[error("the shard was on another server, or in another incarnation, when this began")]
    OtherServer,
    /// Written by a newer process, or unreadable: leave it alone.
    #[error("a record can't be read: {0}")]
    Unreadable(#[from] curfew_domain::form::FormError),
    /// The store is broken for good.
    #[error("the ledger's store: {0}")]
    Store(String),
}

impl LedgerError {
    /// Whether it is of the shard that was asked for, or of that shard's node: others may answer, and this one will again.
    pub fn may_be_of_one_shard(&self) -> bool {
        match self {
            LedgerError::Unavailable { .. } | LedgerError::Recovering | LedgerError::Halted | LedgerError::OtherServer => true,
            LedgerError::Unreadable(_) | LedgerError::Store(_) => false,
        }
    }
}
