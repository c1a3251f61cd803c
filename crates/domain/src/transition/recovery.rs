//! What recovery tells a record of a ledger that lost its latest part (DESIGN 8): what workers assert, what nobody can prove, what the book saw.
//!
//! A worker's own record is from the same history as the one that survived, so the later of the two says what was. What nobody can prove is in
//! doubt about every token of its generation: `Token::ANY`. A dead letter is never revived here either, and no doubt is dropped.
//! Each of them may be told twice. The rules are those of the model's `rollback`.

use super::attempt::dead_letter;
use super::errand::moved;
use super::verdict::sent;
use super::{Change, Refusal, change, change_with_grace, entry, next};
use crate::outcome::Receipt;
use crate::{Moment, Reason, Record, State, Token, WorkerId};

/// What a worker knows of a token.
#[derive(Clone, Copy, Debug)]
pub enum Assertion<'a> {
    /// The provider accepted.
    Receipt(&'a Receipt),
    /// Its handoff is under way: the record as the worker holds it, its lease as far as the worker counts on it.
    Handoff(&'a Record),
    /// The handoff has ended, or its lease has, and nobody can say.
    Unknown,
}

/// A story that the book saw and the ledger lost.
#[derive(Clone, PartialEq, Debug)]
pub struct BookStory {
    /// The generation that it tells of.
    pub generation: u32,
    /// How the job ended: sent, dead_letter, cancelled or suppressed.
    pub state: State,
    /// Why.
    pub reason: Option<Reason>,
    /// The provider's proof.
    pub receipt: Option<Receipt>,
    /// The token in doubt.
    pub token: Option<Token>,
    /// Tokens of its generation behind that one.
    pub window_doubts: Vec<Token>,
    /// Earlier tokens in doubt.
    pub doubts: Vec<Token>,
}

pub(super) fn asserted(record: &Record, generation: u32, token: Token, assertion: Assertion<'_>, now: Moment) -> Result<Change, Refusal> {
    match assertion {
        Assertion::Receipt(receipt) => receipt_asserted(record, generation, token, receipt, now),
        Assertion::Handoff(held) => handoff_asserted(record, token, held, now),
        Assertion::Unknown => doubt_asserted(record, generation, token, now),
    }
}

/// A receipt ends its job, a waiting replay of it too. A replay in handoff, or dead, is for the late verdict.
fn receipt_asserted(record: &Record, generation: u32, token: Token, receipt: &Receipt, now: Moment) -> Result<Change, Refusal> {
    match record.state {
        _ if record.generation < generation => Err(Refusal::WrongState),
        State::Sent => Err(Refusal::NothingToChange),
        State::Cancelled | State::Suppressed => Err(Refusal::ForTheBook),
        State::Handoff | State::DeadLetter if record.generation > generation => Err(Refusal::NothingToChange),
        State::Scheduled | State::Queued | State::Claimed | State::Handoff | State::DeadLetter => {
            Ok(told(sent(record, token, receipt, now), "recovery: its worker has the receipt"))
        }
    }
}

/// The worker's record is the later one: it stands again, lease and token. Else the ledger moved on, and may know the token.
fn handoff_asserted(record: &Record, token: Token, held: &Record, now: Moment) -> Result<Change, Refusal> {
    if record.generation < held.generation {
        return Err(Refusal::WrongState);
    }
    let same = record.generation == held.generation;
    match record.state {
        State::Handoff if same && record.token == Some(token) => {
            let mut stands = next(record, State::Handoff);
            stands.lease_until = held.lease_until;
            stands.worker = held.worker;
            Ok(change_with_grace(stands, std::time::Duration::ZERO, now, None))
        }
        State::Scheduled | State::Queued | State::Claimed | State::Handoff if same && record.version < held.version && !knows(record, token) => {
            let mut stands = next(held, State::Handoff);
            stands.incarnation = record.incarnation;
            stands.closed = false;
            let entry = entry(Some(record.state), &stands, "worker", now, "recovery: its worker holds the handoff");
            Ok(change(stands, now, entry))
        }
        State::Scheduled
        | State::Queued
        | State::Claimed
        | State::Handoff
        | State::Sent
        | State::DeadLetter
        | State::Cancelled
        | State::Suppressed => doubt_asserted(record, held.generation, token, now),
    }
}

/// A token whose fate nobody knows: in doubt, wherever the record stands.
fn doubt_asserted(record: &Record, generation: u32, token: Token, now: Moment) -> Result<Change, Refusal> {
    if record.generation < generation {
        return Err(Refusal::WrongState);
    }
    if record.closed || record.state == State::Sent || knows(record, token) {
        return Err(Refusal::NothingToChange);
    }
    const DETAIL: &str = "recovery: a handoff that its worker can't tell of";
    if record.generation > generation {
        let mut doubting = next(record, record.state);
        doubting.doubts.push(token);
        return Ok(change_with_grace(doubting, std::time::Duration::ZERO, now, None));
    }
    match record.state {
        State::Scheduled | State::Queued | State::Claimed => {
            let mut doubting = record.clone();
            if let Some(earlier) = doubting.token.replace(token) {
                doubting.window_doubts.push(earlier);
            }
            Ok(dead_letter(&doubting, Reason::ReconciliationRequired, "worker", now, DETAIL))
        }
        State::Handoff => {
            let mut doubting = next(record, State::Handoff);
            doubting.window_doubts.push(token);
            Ok(change_with_grace(doubting, std::time::Duration::ZERO, now, None))
        }
        State::DeadLetter => {
            let mut doubting = record.clone();
            match doubting.token {
                Some(_) => doubting.window_doubts.push(token),
                None => doubting.token = Some(token),
            }
            Ok(dead_letter(&doubting, Reason::ReconciliationRequired, "worker", now, DETAIL))
        }
        State::Cancelled | State::Suppressed | State::Sent => {
            let mut doubting = next(record, record.state);
            doubting.doubts.push(token);
            Ok(change_with_grace(doubting, std::time::Duration::ZERO, now, None))
        }
    }
}

/// Whether the record has the token in doubt, by its name or among all of its generation.
fn knows(record: &Record, token: Token) -> bool {
    record.token == Some(token) || record.token == Some(Token::ANY) || record.doubts.contains(&token) || record.window_doubts.contains(&token)
}

pub(super) fn rolled_back(record: &Record, until: Option<Moment>, now: Moment) -> Result<Change, Refusal> {
    match record.state {
        State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => return Err(Refusal::WrongState),
        State::Handoff if until.is_some() && record.token == Some(Token::ANY) => return Err(Refusal::NothingToChange),
        State::Scheduled | State::Queued | State::Claimed | State::Handoff => {}
    }
    let mut lost = next(record, if until.is_some() { State::Handoff } else { State::DeadLetter });
    if let Some(earlier) = lost.token.replace(Token::ANY).filter(|earlier| *earlier != Token::ANY) {
        lost.window_doubts.push(earlier);
    }
    let detail = match until {
        Some(_) => {
            lost.worker = Some(WorkerId::LOST);
            lost.lease_until = until;
            lost.first_handoff_at = record.first_handoff_at.or(Some(now));
            "recovery: a worker that may have had it is missing"
        }
        None => {
            lost.lease_until = record.lease_until.or(Some(now));
            lost.reason = Some(Reason::LedgerRolledBack);
            "recovery: nobody can prove what became of it"
        }
    };
    let entry = entry(Some(record.state), &lost, "scheduler", now, detail);
    Ok(change(lost, now, entry))
}

/// The record follows the book, and is closed: the book has the story already.
pub(super) fn book_wins(record: &Record, story: &BookStory, now: Moment) -> Result<Change, Refusal> {
    if record.generation > story.generation || !story.state.is_terminal() {
        return Err(Refusal::WrongState);
    }
    let mut ended = next(record, story.state);
    ended.generation = story.generation;
    ended.reason = story.reason;
    ended.receipt.clone_from(&story.receipt);
    ended.token = story.token;
    ended.window_doubts.clone_from(&story.window_doubts);
    ended.doubts.clone_from(&story.doubts);
    ended.window_until = None;
    ended.lease_until = record.lease_until.filter(|_| story.token.is_some());
    ended.closed = true;
    let entry = entry(Some(record.state), &ended, "scheduler", now, "recovery: the book saw a later story");
    Ok(change(ended, now, entry))
}

pub(super) fn moved_in_book(record: &Record, release_at: Moment, deadline_at: Moment, now: Moment) -> Result<Change, Refusal> {
    match record.state {
        State::Scheduled | State::Queued | State::Claimed => {
            let moved = moved(record, release_at, deadline_at, now);
            let entry = entry(Some(record.state), &moved, "scheduler", now, "recovery: the book saw a later move");
            Ok(change(moved, now, entry))
        }
        State::Handoff | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => Err(Refusal::WrongState),
    }
}

pub(super) fn sent_in_generation(record: &Record, generation: u32, now: Moment) -> Result<Change, Refusal> {
    if record.state != State::Sent || record.generation >= generation {
        return Err(Refusal::WrongState);
    }
    let mut raised = next(record, State::Sent);
    raised.generation = generation;
    raised.closed = false;
    let entry = entry(Some(record.state), &raised, "scheduler", now, "recovery: an earlier receipt ends the replay");
    Ok(change(raised, now, entry))
}

/// As a give-back, by whoever finds that its owner can't go on.
pub(super) fn claim_dropped(record: &Record, now: Moment) -> Result<Change, Refusal> {
    if record.state != State::Claimed {
        return Err(Refusal::WrongState);
    }
    let mut back = next(record, State::Scheduled);
    back.attempts = back.attempts.saturating_sub(1);
    back.lease_until = None;
    back.reason = Some(Reason::GivenBack);
    Ok(change_with_grace(back, std::time::Duration::ZERO, now, None))
}

fn told(mut change: Change, detail: &str) -> Change {
    if let Some(entry) = &mut change.history {
        detail.clone_into(&mut entry.detail);
    }
    change
}
