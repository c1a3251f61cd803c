//! What became of a token: reported in time by its owner, late by a worker that was frozen, or by the provider's own events.
//!
//! Accepted: a dead letter in doubt about that token becomes `sent`, recorded or not, and so does a replay of it without an intent.
//! Refused or not handed off, late: the dead letter stays and its doubt ends; it never runs again by itself.
//! A refusal never ends another token's doubt, not even under the same provider key: it may have come before the provider knew the key.

use super::attempt::{last, not_accepted};
use super::{Change, Refusal, Rules, change, entry, next};
use crate::limits::DOUBTS_MAX;
use crate::outcome::{Outcome, Receipt};
use crate::{Moment, OutcomeClass, Reason, Record, State, Token};

/// What became of a token.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'a> {
    /// The provider accepted; the outcome carries the receipt.
    Accepted(&'a Receipt),
    /// The provider's own refusal after the end marker, or anything before it: not accepted, for certain.
    NotAccepted(&'a Outcome),
    /// Nobody can say.
    Unknown(&'a Outcome),
}

impl<'a> Verdict<'a> {
    /// A "not accepted" whose outcome says otherwise is no proof: an acceptance without its receipt, or a doubt, stays unknown.
    fn certain(self) -> Self {
        match self {
            Verdict::NotAccepted(outcome) if matches!(outcome.class, OutcomeClass::Accepted | OutcomeClass::Ambiguous) => Verdict::Unknown(outcome),
            Verdict::Accepted(_) | Verdict::NotAccepted(_) | Verdict::Unknown(_) => self,
        }
    }
}

pub(super) fn verdict(record: &Record, token: Token, verdict: &Verdict<'_>, rules: Rules<'_>, now: Moment) -> Result<Change, Refusal> {
    let verdict = &verdict.certain();
    let present = record.token == Some(token);
    let earlier = record.doubts.contains(&token) || record.window_doubts.contains(&token);
    match (record.state, verdict) {
        (State::Handoff, _) if present => Ok(in_time(record, token, verdict, rules, now)),
        (State::Sent, _) => Err(Refusal::NothingToChange),
        (State::Handoff, Verdict::Accepted(_)) => Err(Refusal::WrongState),
        (State::Handoff, Verdict::NotAccepted(_)) if earlier => Err(Refusal::WrongState),
        (State::Handoff, Verdict::NotAccepted(_) | Verdict::Unknown(_)) => Err(Refusal::NothingToChange),
        (State::Cancelled | State::Suppressed, Verdict::Accepted(_)) => Err(Refusal::ForTheBook),
        (State::Cancelled | State::Suppressed, Verdict::NotAccepted(_) | Verdict::Unknown(_)) => Err(Refusal::NothingToChange),
        (State::DeadLetter | State::Scheduled | State::Queued | State::Claimed, Verdict::Unknown(_)) => Err(Refusal::NothingToChange),
        // A refusal that a live record doesn't doubt was told before: a worker asserts its last 10 minutes again after each reconnect.
        (State::Scheduled | State::Queued | State::Claimed, Verdict::NotAccepted(_)) if !(present || earlier) => Err(Refusal::NothingToChange),
        (State::DeadLetter | State::Scheduled | State::Queued | State::Claimed, _) if !(present || earlier) => Err(Refusal::ForTheBook),
        (State::DeadLetter | State::Scheduled | State::Queued | State::Claimed, Verdict::Accepted(receipt)) => Ok(sent(record, token, receipt, now)),
        (State::DeadLetter | State::Scheduled | State::Queued | State::Claimed, Verdict::NotAccepted(outcome)) => {
            refused_late(record, token, outcome, now)
        }
    }
}

fn in_time(record: &Record, token: Token, verdict: &Verdict<'_>, rules: Rules<'_>, now: Moment) -> Change {
    match verdict {
        Verdict::Accepted(receipt) => sent(record, token, receipt, now),
        Verdict::NotAccepted(outcome) => {
            let mut proven = record.clone();
            proven.token = proven.window_doubts.pop();
            not_accepted(&proven, outcome, rules, "worker", now)
        }
        Verdict::Unknown(outcome) => not_accepted(record, outcome, rules, "worker", now),
    }
}

/// The doubt about one token ends; the state stays. Another of this generation, which it hid, comes to the front.
fn refused_late(record: &Record, token: Token, outcome: &Outcome, now: Moment) -> Result<Change, Refusal> {
    if record.closed {
        return Err(Refusal::ForTheBook);
    }
    let mut proven = next(record, record.state);
    proven.doubts.retain(|t| *t != token);
    proven.window_doubts.retain(|t| *t != token);
    if record.token == Some(token) {
        proven.token = proven.window_doubts.pop();
        proven.last = Some(last(outcome, now));
    }
    if proven.token.is_none() {
        proven.window_until = None;
        proven.lease_until = proven.lease_until.filter(|_| record.state == State::Claimed);
    }
    let entry = entry(Some(record.state), &proven, "worker", now, "late: not accepted");
    Ok(change(proven, now, entry))
}

/// The end. Under the same provider key the other tokens of this generation are one delivery with it; after a late acceptance of an
/// earlier generation's token they stay on record as doubts, for nobody knows whether they made a second one.
pub(super) fn sent(record: &Record, token: Token, receipt: &Receipt, now: Moment) -> Change {
    let mut sent = next(record, State::Sent);
    sent.reason = Some(Reason::Accepted);
    sent.receipt = Some(receipt.clone());
    sent.closed = false;
    if record.doubts.contains(&token) {
        sent.doubts = record.open_tokens();
        sent.doubts.retain(|t| *t != token);
        sent.doubts.truncate(DOUBTS_MAX);
    }
    sent.token = None;
    sent.window_doubts = Vec::new();
    sent.window_until = None;
    sent.lease_until = None;
    let detail = match record.state {
        State::Handoff => receipt.queue_id.as_deref().unwrap_or("accepted"),
        State::Scheduled | State::Queued | State::Claimed | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => {
            "late verdict: accepted"
        }
    };
    let entry = entry(Some(record.state), &sent, "worker", now, detail);
    change(sent, now, entry)
}
