//! An operator's verb: what the book does by itself, and how a verb's row is closed (K5).

use curfew_domain::history::HistoryEntry;
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Moment, Reason, Record, State};

use super::story::ItemFate;
use crate::{BookError, BookState, Row, VerbEnd, VerbRequest};

/// What becomes of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Opening {
    /// A row is opened: the ledger decides.
    Open,
    /// The book applied it alone; the row is written as applied.
    Applied(ItemFate),
    /// Refused in the row's state.
    Refused,
}

/// What becomes of a verb's row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closing {
    /// Closed as applied; the row is saved where `true`.
    Applied(bool, ItemFate),
    /// Closed as refused.
    Refused,
    /// It stays as it is: closed before.
    Closed,
}

/// Whether a request is well formed.
///
/// # Errors
/// `Invalid`.
pub fn check(request: &VerbRequest) -> Result<(), BookError> {
    if let Verb::Move { release_at, deadline_at } = request.verb
        && deadline_at <= release_at
    {
        return Err(BookError::Invalid { field: "deadline_at", reason: "is not after release_at".to_owned() });
    }
    if request.reason.trim().is_empty() {
        return Err(BookError::Invalid { field: "reason", reason: "is empty".to_owned() });
    }
    Ok(())
}

/// A verb's arguments, as its audit entry holds them.
pub fn detail(number: i64, generation: u32, verb: &Verb) -> String {
    match verb {
        Verb::Cancel | Verb::Suppress => serde_json::json!({ "verb": number, "generation": generation }),
        Verb::Move { release_at, deadline_at } => {
            serde_json::json!({ "verb": number, "generation": generation, "release_at": release_at.rfc3339(), "deadline_at": deadline_at.rfc3339() })
        }
    }
    .to_string()
}

/// Answers a request. What the book owns alone is changed here: a planned job far away, a recorded dead letter.
pub fn ask(row: &mut Row, request: &VerbRequest) -> Opening {
    let far = !row.ever_staged && row.open_verb.is_none() && row.job.release_at > request.book_alone_from;
    match row.state {
        BookState::Planned if far => Opening::Applied(apply(row, &request.verb, &request.actor, request.at)),
        BookState::Planned | BookState::Staged => Opening::Open,
        BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed | BookState::Sent => {
            match in_the_book(row, &request.verb, &request.actor, request.at) {
                Some((_changed, item)) => Opening::Applied(item),
                None => Opening::Refused,
            }
        }
    }
}

/// Closes a verb's row. `applied` says how it stands: `None` open, else as it was closed. `by`: who asked for it, and now.
///
/// # Errors
/// `NotYet` where the book was asked, but the job is planned or staged: the verb stays open for the ledger.
pub fn close(row: &mut Row, verb: &NumberedVerb, applied: Option<bool>, end: &VerbEnd, by: (&str, Moment)) -> Result<Closing, BookError> {
    match (end, applied) {
        (VerbEnd::Applied(_) | VerbEnd::Refused(_) | VerbEnd::InTheBook, Some(true)) | (VerbEnd::Refused(_) | VerbEnd::InTheBook, Some(false)) => {
            Ok(Closing::Closed)
        }
        (VerbEnd::Applied(record), None | Some(false)) => {
            let (changed, item) = swapped(row, &verb.verb, record);
            Ok(Closing::Applied(changed, item))
        }
        (VerbEnd::Refused(_), None) => Ok(Closing::Refused),
        (VerbEnd::InTheBook, None) => match row.state {
            // A verb of another generation takes effect nowhere; left open, it would keep the job from being staged.
            BookState::Planned | BookState::Staged if row.generation != verb.generation => Ok(Closing::Refused),
            BookState::Planned | BookState::Staged => {
                Err(BookError::NotYet(format!("verb {} stays open: its job is {} again", verb.number, row.state.word())))
            }
            BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed => {
                Ok(in_the_book(row, &verb.verb, by.0, by.1).map_or(Closing::Refused, |(changed, item)| Closing::Applied(changed, item)))
            }
        },
    }
}

/// The ledger swapped: the row follows, unless it knows a later version. Whether it changed, and the item's part.
fn swapped(row: &mut Row, verb: &Verb, record: &Record) -> (bool, ItemFate) {
    let heard = (record.generation, record.incarnation, record.version);
    if heard <= row.seen || row.state == BookState::Sent {
        return (false, ItemFate::Keep);
    }
    let ended = match (verb, record.state) {
        (Verb::Cancel, State::Cancelled) => Some((BookState::Cancelled, "the job was cancelled")),
        (Verb::Suppress, State::Suppressed) => Some((BookState::Suppressed, "the job was suppressed")),
        (Verb::Cancel | Verb::Suppress | Verb::Move { .. }, _other) => None,
    };
    match (verb, ended) {
        (Verb::Cancel | Verb::Suppress, Some((state, note))) if !matches!(row.state, BookState::Cancelled | BookState::Suppressed) => {
            row.seen = heard;
            row.state = state;
            row.reason = record.reason;
            row.attempts = record.attempts;
            (true, ItemFate::Resolve(note))
        }
        (Verb::Move { .. }, _none) if row.generation == record.generation => {
            row.job.release_at = record.release_at;
            row.job.deadline_at = record.deadline_at;
            // An ended record's version belongs to the story that settles it: raised here, that story would count as known.
            if !record.state.is_terminal() {
                row.seen = heard;
            }
            (true, ItemFate::Keep)
        }
        (Verb::Cancel | Verb::Suppress | Verb::Move { .. }, _other) => (false, ItemFate::Keep),
    }
}

/// A recorded dead letter, or an ended job. `None`: refused.
fn in_the_book(row: &mut Row, verb: &Verb, actor: &str, at: Moment) -> Option<(bool, ItemFate)> {
    match (row.state, verb) {
        (BookState::DeadLetter, Verb::Cancel | Verb::Suppress) => Some((true, apply(row, verb, actor, at))),
        (BookState::Cancelled, Verb::Cancel) | (BookState::Suppressed, Verb::Suppress) => Some((false, ItemFate::Keep)),
        (
            BookState::Planned | BookState::Staged | BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed,
            _refused,
        ) => None,
    }
}

/// The book alone owns the job: the verb takes effect here.
fn apply(row: &mut Row, verb: &Verb, actor: &str, at: Moment) -> ItemFate {
    let (state, to, note) = match verb {
        Verb::Cancel => (BookState::Cancelled, State::Cancelled, "the job was cancelled"),
        Verb::Suppress => (BookState::Suppressed, State::Suppressed, "the job was suppressed"),
        Verb::Move { release_at, deadline_at } => {
            row.job.release_at = *release_at;
            row.job.deadline_at = *deadline_at;
            return ItemFate::Keep;
        }
    };
    let from = (row.state == BookState::DeadLetter).then_some(State::DeadLetter);
    row.state = state;
    row.reason = Some(Reason::Operator);
    let detail = format!("{} in the book", verb.word());
    let entry = HistoryEntry { at, actor: actor.to_owned(), from, to, reason: row.reason, attempt: 0, generation: row.generation, detail };
    row.history = super::history::merged(&row.history, &[entry.bounded()]);
    ItemFate::Resolve(note)
}
