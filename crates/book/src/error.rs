//! What a caller can do about the book's failure.

/// Errors of every adapter. No bound value ever stands in one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    /// No answer; the transaction may have been committed. Everything here may be repeated.
    #[error("the book didn't answer: {operation}")]
    Unavailable {
        /// What was asked.
        operation: &'static str,
    },
    /// No such job, item or row.
    #[error("not found")]
    NotFound,
    /// The state forbids it (409): the sentence says which and why.
    #[error("{0}")]
    Conflict(String),
    /// Not yet (exit 75): the sentence says from when on.
    #[error("{0}")]
    NotYet(String),
    /// The errand began in an earlier incarnation of its shard: nothing is written. Begin it anew (DESIGN 8).
    #[error("the errand began before its shard was recovered")]
    OtherIncarnation,
    /// A value in the request is out of form (422).
    #[error("{field}: {reason}")]
    Invalid {
        /// The request's field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A row can't be read.
    #[error("a row can't be read: {0}")]
    Unreadable(String),
    /// The store is broken for good.
    #[error("the book's store: {0}")]
    Store(String),
}
