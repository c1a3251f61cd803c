//! An operator's verb: first a row in the book, then a transition, then one transaction that applies it and closes the row.

use curfew_book::{Book, BookError, BookState, OpenedVerb, Planned, Row, VerbEnd, VerbRequest};
use curfew_domain::history::HistoryEntry;
use curfew_domain::transition::{Event, Refusal, transition};
use curfew_domain::verb::NumberedVerb;
use curfew_domain::{Key, State};
use curfew_ledger::{Ledger, Swap, Swapped};
use curfew_review::Review;

use crate::{CourierError, Rulebook, begin, stage};

/// What became of a verb.
#[derive(Clone, PartialEq, Debug)]
pub enum VerbOutcome {
    /// In force: the row as it stands.
    Applied(Box<Row>),
    /// Refused in this state (409).
    Refused(&'static str),
    /// No such job.
    NotFound,
}

/// Tries against others that change the record at the same moment.
const TRIES_MAX: u32 = 32;

/// Opens a verb's row and carries it out. Only when it returns is the caller told.
///
/// A dropped future leaves an open row, which a scheduler finishes.
///
/// # Errors
/// `CourierError`: the row may be open; a scheduler finishes it.
pub async fn carry_out(
    ledger: &dyn Ledger,
    book: &dyn Book,
    review: &dyn Review,
    rulebook: &Rulebook,
    request: VerbRequest,
) -> Result<VerbOutcome, CourierError> {
    let (key, actor) = (request.key.clone(), request.actor.clone());
    match book.open_verb(request).await? {
        OpenedVerb::NotFound => Ok(VerbOutcome::NotFound),
        OpenedVerb::Refused(state) => Ok(VerbOutcome::Refused(state.word())),
        OpenedVerb::Done(row) => Ok(VerbOutcome::Applied(row)),
        OpenedVerb::Open(verb, _row) => {
            let applied = finish(ledger, book, review, rulebook, &key, &verb, &actor).await?;
            let row = book.by_key(&key).await?;
            Ok(match (applied, row) {
                (_, None) => VerbOutcome::NotFound,
                (true, Some(row)) => VerbOutcome::Applied(Box::new(row)),
                (false, Some(row)) => VerbOutcome::Refused(refused_in(ledger, &row).await?),
            })
        }
    }
}

async fn refused_in(ledger: &dyn Ledger, row: &Row) -> Result<&'static str, CourierError> {
    if row.state != BookState::Staged {
        return Ok(row.state.word());
    }
    let record = ledger.records(std::slice::from_ref(&row.job.key)).await?.pop().flatten();
    Ok(record.map_or(row.state.word(), |r| r.state.word()))
}

/// Brings an open verb to its end, whoever opened it; `actor` is the name that history shows. Whether it stands applied.
///
/// # Errors
/// `CourierError`: the row stays open.
pub async fn finish(
    ledger: &dyn Ledger,
    book: &dyn Book,
    review: &dyn Review,
    rulebook: &Rulebook,
    key: &Key,
    verb: &NumberedVerb,
    actor: &str,
) -> Result<bool, CourierError> {
    for _ in 0..TRIES_MAX {
        let read_at = ledger.now().await?;
        let Some(row) = book.by_key(key).await? else { return Ok(book.close_verb(verb.number, VerbEnd::Refused(State::Cancelled), read_at).await?) };
        if row.state == BookState::Planned && row.generation == verb.generation {
            // Read again within the errand, which begins with the shard's incarnation.
            let begun = begin(ledger, &[row.job.shard]).await?;
            let rows = book.by_key(key).await?.filter(|row| row.state == BookState::Planned && row.generation == verb.generation);
            let _staged = stage(ledger, book, review, rulebook, rows.map(|row| Planned { row }).into_iter().collect(), &begun).await?;
        } else if row.state != BookState::Staged {
            return Ok(book.close_verb(verb.number, VerbEnd::InTheBook, read_at).await?);
        }
        if let Some(end) = swap(ledger, key, verb, actor).await? {
            match book.close_verb(verb.number, end, read_at).await {
                // Its shard was recovered meanwhile: the swap may be lost, so it is looked for again.
                Err(BookError::OtherIncarnation) => continue,
                closed => return Ok(closed?),
            }
        }
    }
    Err(CourierError::Contended)
}

/// One try in the ledger; `None`: somebody was first, look again.
async fn swap(ledger: &dyn Ledger, key: &Key, verb: &NumberedVerb, actor: &str) -> Result<Option<VerbEnd>, CourierError> {
    let now = ledger.now().await?;
    let Some(record) = ledger.records(std::slice::from_ref(key)).await?.pop().flatten() else { return Ok(None) };
    match transition(&record, &Event::Verb(verb), now) {
        Ok(mut change) => {
            change.history = change.history.map(|entry| HistoryEntry { actor: actor.to_owned(), ..entry }.bounded());
            let next = change.record.clone();
            match ledger.swap(Swap::of(&record, change).on_disk()).await? {
                Swapped::Swapped => Ok(Some(VerbEnd::Applied(Box::new(next)))),
                Swapped::Conflict(_) | Swapped::Missing | Swapped::Refused(_) | Swapped::Full => Ok(None),
            }
        }
        Err(Refusal::AppliedAlready) => Ok(Some(VerbEnd::Applied(Box::new(record)))),
        Err(Refusal::ForTheBook) => Ok(Some(VerbEnd::InTheBook)),
        Err(
            Refusal::Superseded
            | Refusal::Conflict(_)
            | Refusal::WrongState
            | Refusal::NotOwner
            | Refusal::NotDue(_)
            | Refusal::TooLate
            | Refusal::LeaseEnded
            | Refusal::LeaseRuns(_)
            | Refusal::NothingToChange
            | Refusal::TooManyDoubts,
        ) => Ok(Some(VerbEnd::Refused(record.state))),
    }
}
