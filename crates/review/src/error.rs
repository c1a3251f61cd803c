//! What a caller can do about the review store's failure.

/// The book's errors serve: replay, record and evidence are transactions in the book.
pub type ReviewError = curfew_book::BookError;
