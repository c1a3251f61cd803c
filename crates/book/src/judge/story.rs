//! A story from the ledger reaches the book (K3, K4, R2).

use curfew_domain::{Record, State, Token};

use super::history::merged;
use crate::{BookState, Row, Story, Told};

/// What the same transaction does with the job's review item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ItemFate {
    /// Nothing.
    Keep,
    /// A dead letter was told: the generation's item is inserted, or told again where it stands.
    Record,
    /// The item that is worked on is resolved, with this note.
    Resolve(&'static str),
    /// The item whose replay was planned is withdrawn.
    Withdraw,
    /// The item stays, and is noted; it is no longer in doubt.
    EndDoubt(&'static str),
    /// The item stays as it is, and is noted.
    Note(&'static str),
}

/// What came of a story.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Telling {
    /// The answer.
    pub told: Told,
    /// Whether the row changed and must be saved, its history too.
    pub changed: bool,
    /// The item's part.
    pub item: ItemFate,
}

/// Tells a row one version of its record. The caller closes the verbs in `record.verbs` as applied whatever this answers.
pub fn tell(row: &mut Row, story: &Story) -> Telling {
    let record = &story.record;
    let heard = (record.generation, record.incarnation, record.version);
    if heard == row.seen && book_state(record.state) == Some(row.state) {
        return told_again(row, story);
    }
    let unchanged = Telling { told: if heard == row.seen { Told::Written } else { Told::Older }, changed: false, item: ItemFate::Keep };
    let newer = heard > row.seen;
    let withdraws = record.state == State::Sent && record.generation < row.generation && row.state == BookState::Planned;
    let Some(state) = book_state(record.state).filter(|state| (newer && yields(row.state, *state)) || withdraws) else {
        return unchanged;
    };
    if newer {
        row.seen = heard;
        row.generation = row.generation.max(record.generation);
        row.job.release_at = record.release_at;
        row.job.deadline_at = record.deadline_at;
    }
    row.state = state;
    row.attempts = record.attempts;
    row.last.clone_from(&record.last);
    row.reason = record.reason;
    row.receipt.clone_from(&record.receipt);
    row.pins.clone_from(&record.pins);
    row.history = merged(&row.history, &story.history);
    keep_doubts(row, record);
    let item = match state {
        BookState::DeadLetter => ItemFate::Record,
        BookState::Sent if withdraws => ItemFate::Withdraw,
        BookState::Sent => ItemFate::Resolve("the provider accepted"),
        BookState::Cancelled => ItemFate::Resolve("the job was cancelled"),
        BookState::Suppressed => ItemFate::Resolve("the job was suppressed"),
        BookState::Planned | BookState::Staged => ItemFate::Keep,
    };
    Telling { told: Told::Written, changed: true, item }
}

/// The version that the row knows: a verb's end tells state and reason without the story, so what the story adds is kept.
fn told_again(row: &mut Row, story: &Story) -> Telling {
    let history = merged(&row.history, &story.history);
    let changed = history != row.history;
    row.history = history;
    Telling { told: Told::Written, changed, item: ItemFate::Keep }
}

/// A live record tells the book nothing.
const fn book_state(state: State) -> Option<BookState> {
    match state {
        State::Scheduled | State::Queued | State::Claimed | State::Handoff => None,
        State::Sent => Some(BookState::Sent),
        State::DeadLetter => Some(BookState::DeadLetter),
        State::Cancelled => Some(BookState::Cancelled),
        State::Suppressed => Some(BookState::Suppressed),
    }
}

/// `sent` is final; `cancelled` and `suppressed` yield to `sent` alone.
const fn yields(stands: BookState, told: BookState) -> bool {
    match stands {
        BookState::Planned | BookState::Staged | BookState::DeadLetter => true,
        BookState::Cancelled | BookState::Suppressed => matches!(told, BookState::Sent),
        BookState::Sent => false,
    }
}

/// Tokens whose fate was open once stay on record: evidence may still come for them.
fn keep_doubts(row: &mut Row, record: &Record) {
    row.doubt = record.token.filter(|_| record.in_doubt());
    row.window_doubts.clone_from(&record.window_doubts);
    for token in &record.doubts {
        keep(row, *token);
    }
}

/// Notes a token among the earlier ones in doubt.
pub(super) fn keep(row: &mut Row, token: Token) {
    if !row.doubts.contains(&token) {
        row.doubts.push(token);
    }
}
