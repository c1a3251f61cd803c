//! A carry fails because one of its two sides does. Nothing is known then; carry again.

use curfew_book::BookError;
use curfew_ledger::LedgerError;

/// Which side failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CourierError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The book or the review store.
    #[error(transparent)]
    Book(#[from] BookError),
    /// Others kept changing the record between reading and swapping.
    #[error("the record changed under every try")]
    Contended,
}
