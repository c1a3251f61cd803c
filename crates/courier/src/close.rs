//! From the ledger into the book: the story of an ended record, then its closing. The book may know better; the record closes all the same.

use std::collections::BTreeMap;

use curfew_book::{Book, Story};
use curfew_domain::transition::{Event, transition};
use curfew_domain::{Moment, Record};
use curfew_ledger::{Ledger, Swap, Swapped};
use curfew_review::Review;

use crate::CourierError;

/// What a round of closing did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Closed {
    /// Stories told.
    pub told: usize,
    /// Records closed; the rest moved on meanwhile and owe a newer story.
    pub closed: usize,
}

/// Settles records that ended as sent, cancelled or suppressed.
///
/// # Errors
/// `CourierError`: the errand stays overdue.
pub async fn settle(ledger: &dyn Ledger, book: &dyn Book, records: Vec<Record>, now: Moment) -> Result<Closed, CourierError> {
    if records.is_empty() {
        return Ok(Closed::default());
    }
    book.settle(stories(ledger, &records).await?, now).await?;
    close(ledger, records, now).await
}

/// Records dead letters in the review store.
///
/// # Errors
/// `CourierError`: the errand stays overdue.
pub async fn record_dead_letters(
    ledger: &dyn Ledger,
    review: &dyn Review,
    records: Vec<Record>,
    owners: &BTreeMap<String, String>,
    now: Moment,
) -> Result<Closed, CourierError> {
    if records.is_empty() {
        return Ok(Closed::default());
    }
    review.record(stories(ledger, &records).await?, owners, now).await?;
    close(ledger, records, now).await
}

async fn stories(ledger: &dyn Ledger, records: &[Record]) -> Result<Vec<Story>, CourierError> {
    let keys: Vec<_> = records.iter().map(|r| r.key.clone()).collect();
    let histories = ledger.histories(&keys).await?;
    Ok(records.iter().cloned().zip(histories).map(|(record, history)| Story { record, history }).collect())
}

async fn close(ledger: &dyn Ledger, records: Vec<Record>, now: Moment) -> Result<Closed, CourierError> {
    let told = records.len();
    let swaps: Vec<_> = records.iter().filter_map(|r| transition(r, &Event::Closed, now).ok().map(|change| Swap::of(r, change))).collect();
    let answers = ledger.swap_all(swaps).await?;
    Ok(Closed { told, closed: answers.iter().filter(|a| matches!(a, Swapped::Swapped)).count() })
}
