//! From the ledger into the book: the story of an ended record, then its closing. The book may know better; the record closes all the same,
//! unless the book doesn't know the job: then the record alone does, and stays.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_book::{Book, BookError, Story, Told};
use curfew_domain::transition::{Event, transition};
use curfew_domain::{Moment, Record};
use curfew_ledger::{Ledger, Swap, Swapped};
use curfew_review::Review;
use curfew_telemetry::traces;

use crate::CourierError;

/// A story that the book can't take is told again after this, so that it doesn't stand in front of the others.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// What a round of closing did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Closed {
    /// Stories told.
    pub told: usize,
    /// Records closed; the rest moved on meanwhile and owe a newer story.
    pub closed: usize,
    /// Stories that the book couldn't take, or whose job it doesn't know: their records stay, and are looked at later.
    pub kept: usize,
}

/// Settles records that ended as sent, cancelled or suppressed.
///
/// # Errors
/// `CourierError`: the errand stays overdue.
pub async fn settle(ledger: &dyn Ledger, book: &dyn Book, records: Vec<Record>, now: Moment) -> Result<Closed, CourierError> {
    carry(ledger, Teller::Book(book), records, now).await
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
    carry(ledger, Teller::Review(review, owners), records, now).await
}

/// Who takes the stories.
#[derive(Clone, Copy)]
enum Teller<'a> {
    Book(&'a dyn Book),
    Review(&'a dyn Review, &'a BTreeMap<String, String>),
}

impl Teller<'_> {
    async fn tell(self, stories: Vec<Story>, at: Moment) -> Result<Vec<Told>, BookError> {
        match self {
            Teller::Book(book) => book.settle(stories, at).await,
            Teller::Review(review, owners) => review.record(stories, owners, at).await,
        }
    }

    /// Together; where one of them is the trouble, each by itself. `None`: it can't be taken.
    async fn tell_each(self, stories: Vec<Story>, at: Moment) -> Result<Vec<Option<Told>>, BookError> {
        match self.tell(stories.clone(), at).await {
            Ok(told) => return Ok(told.into_iter().map(Some).collect()),
            Err(error @ (BookError::Unavailable { .. } | BookError::OtherIncarnation)) => return Err(error),
            Err(error) if stories.len() == 1 => return Err(error),
            Err(_one_of_them) => {}
        }
        let mut told = Vec::with_capacity(stories.len());
        for story in stories {
            told.push(match self.tell(vec![story], at).await {
                Ok(mut answers) => answers.pop(),
                Err(error @ BookError::Unavailable { .. }) => return Err(error),
                Err(_this_one) => None,
            });
        }
        Ok(told)
    }
}

async fn carry(ledger: &dyn Ledger, teller: Teller<'_>, records: Vec<Record>, now: Moment) -> Result<Closed, CourierError> {
    if records.is_empty() {
        return Ok(Closed::default());
    }
    let keys: Vec<_> = records.iter().map(|r| r.key.clone()).collect();
    let histories = ledger.histories(&keys).await?;
    let traced = if traces::are_sent() { histories.clone() } else { Vec::new() };
    let stories = records.iter().cloned().zip(histories).map(|(record, history)| Story { record, history }).collect();
    let told = teller.tell_each(stories, now).await?;
    let mut swaps = Vec::with_capacity(records.len());
    for ((record, history), told) in records.iter().zip(&traced).zip(&told) {
        if *told == Some(Told::Written) {
            traces::ended(record, history);
        }
    }
    let mut kept = Vec::new();
    for (record, told) in records.iter().zip(&told) {
        match told {
            Some(Told::Written | Told::Older) => swaps.extend(transition(record, &Event::Closed, now).ok().map(|change| Swap::of(record, change))),
            Some(Told::Unknown) | None => kept.push((record.key.clone(), record.version, now.plus(TELL_AGAIN))),
        }
    }
    let kept_count = kept.len();
    ledger.postpone(kept).await?;
    let answers = ledger.swap_all(swaps).await?;
    Ok(Closed { told: told.len(), closed: answers.iter().filter(|a| matches!(a, Swapped::Swapped)).count(), kept: kept_count })
}
