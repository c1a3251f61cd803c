//! A worker's report: what it holds of a shard, asserted to a ledger that may have lost it.

use std::collections::HashMap;

use curfew_book::{Book, BookState, Row};
use curfew_domain::transition::{Assertion, Event, Refusal, Verdict, transition};
use curfew_domain::{Key, Outcome, Record, Token, outcome::Receipt};
use curfew_ledger::{Create, Created, Ledger, LedgerError, Recoverable, Swap, Swapped};

use super::shard::{begun_by_recovery, carry_doubts};
use super::unreadable::{Stands, left, survivors};
use crate::{By, CourierError, Report, Reported, Rulebook, first_version, report};

/// Tokens asserted at once.
const TOKENS_AT_ONCE: usize = 200;
const TRIES_MAX: u32 = 32;

/// What a worker knows of a token.
#[derive(Clone, PartialEq, Debug)]
pub enum Known {
    /// Its handoff is under way: the record as the worker holds it, with the lease that it counts on.
    UnderWay(Box<Record>),
    /// The provider accepted.
    Accepted(Receipt),
    /// It did not, for certain.
    NotAccepted(Box<Outcome>),
    /// Nobody can say.
    Unknown,
}

/// One token.
#[derive(Clone, PartialEq, Debug)]
pub struct Assertable {
    /// Whose.
    pub key: Key,
    /// Its generation.
    pub generation: u32,
    /// The token.
    pub token: Token,
    /// What became of it.
    pub known: Known,
}

/// Asserts all of it to a shard that recovers in `incarnation`. Repeating is free.
///
/// # Errors
/// `CourierError`: some may be asserted; assert again. `OtherServer` where the shard doesn't recover in that incarnation any more.
pub async fn assert_again(
    recoverable: &dyn Recoverable,
    book: &dyn Book,
    rulebook: &Rulebook,
    incarnation: u32,
    all: &[Assertable],
) -> Result<(), CourierError> {
    let hands = recoverable.in_recovery();
    let Some(hands_on) = hands.recoverable() else { return Ok(()) };
    let asserting = Asserting { hands: &*hands, hands_on, book, rulebook, incarnation };
    for part in all.chunks(TOKENS_AT_ONCE) {
        asserting.part(part).await?;
    }
    Ok(())
}

struct Asserting<'a> {
    hands: &'a dyn Ledger,
    hands_on: &'a dyn Recoverable,
    book: &'a dyn Book,
    rulebook: &'a Rulebook,
    incarnation: u32,
}

impl Asserting<'_> {
    /// Read together, for most of it the ledger knows, or the book does where the record is gone.
    async fn part(&self, part: &[Assertable]) -> Result<(), CourierError> {
        let keys: Vec<Key> = part.iter().map(|one| one.key.clone()).collect();
        let found = survivors(self.hands_on, &keys).await?;
        let gone: Vec<Key> = part
            .iter()
            .zip(&found)
            .filter(|(one, found)| match found {
                Stands::Nothing => true,
                Stands::Survivor(survivor) => survivor.record.generation < one.generation,
                Stands::Unreadable => false,
            })
            .map(|(one, _)| one.key.clone())
            .collect();
        let rows: HashMap<Key, Row> = match gone.is_empty() {
            true => HashMap::new(),
            false => self.book.rows(&gone).await?.into_iter().flatten().map(|view| (view.row.job.key.clone(), view.row)).collect(),
        };
        for (one, found) in part.iter().zip(found) {
            left(&one.key, self.one(one, found, rows.get(&one.key)).await, ())?;
        }
        Ok(())
    }

    async fn one(&self, one: &Assertable, found: Stands, row: Option<&Row>) -> Result<(), CourierError> {
        let ended = row.is_some_and(|row| !matches!(row.state, BookState::Planned | BookState::Staged));
        let earlier = match found {
            Stands::Unreadable => return Ok(()),
            Stands::Survivor(survivor) if survivor.record.incarnation != self.incarnation => return Err(LedgerError::OtherServer.into()),
            Stands::Survivor(survivor) if survivor.record.generation >= one.generation => return self.to_the_record(one, survivor.record).await,
            Stands::Survivor(survivor) => Some(survivor.record),
            Stands::Nothing => None,
        };
        match row {
            // The book has its end: a verdict is evidence there.
            Some(_) if ended => self.verdict(one).await,
            Some(_) => self.anew(one, earlier).await,
            None => Ok(()),
        }
    }

    async fn to_the_record(&self, one: &Assertable, mut record: Record) -> Result<(), CourierError> {
        for _ in 0..TRIES_MAX {
            let Some(assertion) = assertion(&one.known) else { return self.verdict(one).await };
            let now = self.hands.now().await?;
            let event = Event::Asserted { generation: one.generation, token: one.token, assertion };
            let change = match transition(&record, &event, now) {
                Ok(change) => change,
                // An acceptance of what was cancelled, or of a replay that ended: evidence.
                Err(Refusal::ForTheBook) => return self.verdict(one).await,
                Err(_known) => return Ok(()),
            };
            match self.hands.swap(Swap::of(&record, change).on_disk()).await? {
                Swapped::Conflict(standing) => record = *standing,
                Swapped::Swapped | Swapped::Missing | Swapped::Refused(_) | Swapped::Full => return Ok(()),
            }
        }
        Err(CourierError::Contended)
    }

    /// No record of its generation stands: one is made that says what the worker knows.
    async fn anew(&self, one: &Assertable, earlier: Option<Record>) -> Result<(), CourierError> {
        let Some(assertion) = assertion(&one.known) else { return Ok(()) };
        let Some(mut row) = self.book.by_key(&one.key).await? else { return Ok(()) };
        row.generation = one.generation;
        let now = self.hands.now().await?;
        let mut first = first_version(&row, self.rulebook, self.incarnation, now).record;
        if let Some(earlier) = &earlier {
            carry_doubts(&mut first, earlier);
        }
        let event = Event::Asserted { generation: one.generation, token: one.token, assertion };
        let Ok(change) = transition(&first, &event, now) else { return Ok(()) };
        let create = Create { change: begun_by_recovery(change), letter: row.job.letter, read_at: now };
        let over = earlier.map(|earlier| (earlier.generation, earlier.version));
        match self.hands_on.supplant(create, over).await? {
            Created::Created | Created::HigherGeneration => Ok(()),
            Created::Exists(record) => self.to_the_record(one, *record).await,
            // Somebody was first, or the clock jumped: the whole report is made again.
            Created::EarlierUnclosed(_) | Created::StaleRead => Err(CourierError::Contended),
        }
    }

    async fn verdict(&self, one: &Assertable) -> Result<(), CourierError> {
        let verdict = match &one.known {
            Known::Accepted(receipt) => Verdict::Accepted(receipt),
            Known::NotAccepted(outcome) => Verdict::NotAccepted(outcome),
            Known::UnderWay(_) | Known::Unknown => return Ok(()),
        };
        let said = Report { key: &one.key, generation: one.generation, token: one.token, verdict, by: By::Worker, own: None };
        match report(self.hands, self.book, self.rulebook, said, 0.0).await? {
            // What has to wait is reported beside, until it is written.
            Reported::Written(_) | Reported::Evidence(_) | Reported::Known | Reported::Later => Ok(()),
        }
    }
}

/// `None`: a refusal, which is a verdict like any other.
fn assertion(known: &Known) -> Option<Assertion<'_>> {
    match known {
        Known::UnderWay(record) => Some(Assertion::Handoff(record)),
        Known::Accepted(receipt) => Some(Assertion::Receipt(receipt)),
        Known::Unknown => Some(Assertion::Unknown),
        Known::NotAccepted(_) => None,
    }
}
