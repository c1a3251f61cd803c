//! What became of a token: reported in time by its owner, late by a worker that was frozen, or by the provider's own events.
//!
//! Accepted: a dead letter in doubt about that token becomes `sent`, recorded or not, and so does a replay of it without an intent.
//! Refused or not handed off, late: the dead letter stays and its doubt ends; it never runs again by itself.

use super::attempt::{last, not_accepted};
use super::{Change, Refusal, Rules, change, entry, next};
use crate::outcome::{Outcome, Receipt, Stage};
use crate::{Moment, Reason, Record, State, Token};

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

pub(super) fn verdict(record: &Record, token: Token, verdict: &Verdict<'_>, rules: Rules<'_>, now: Moment) -> Result<Change, Refusal> {
    let present = record.token == Some(token);
    match record.state {
        State::Handoff if present => Ok(in_time(record, verdict, rules, now)),
        State::DeadLetter | State::Scheduled | State::Queued | State::Claimed if present => late(record, verdict, now),
        State::DeadLetter | State::Scheduled | State::Queued | State::Claimed if steps_over(record, token) => earlier(record, token, verdict, now),
        State::Handoff if steps_over(record, token) => Err(Refusal::WrongState),
        State::Sent | State::Cancelled | State::Suppressed | State::Handoff => Err(Refusal::NothingToChange),
        State::DeadLetter | State::Scheduled | State::Queued | State::Claimed => Err(Refusal::ForTheBook),
    }
}

/// Whether the token is in doubt, though not the latest one.
fn steps_over(record: &Record, token: Token) -> bool {
    record.doubts.contains(&token) || record.window_doubt == Some(token)
}

fn in_time(record: &Record, verdict: &Verdict<'_>, rules: Rules<'_>, now: Moment) -> Change {
    match verdict {
        Verdict::Accepted(receipt) => sent(record, receipt, "worker", now),
        Verdict::NotAccepted(outcome) => {
            let mut proven = record.clone();
            proven.token = proven.window_doubt.take().filter(|_| outcome.stage != Stage::Dot);
            not_accepted(&proven, outcome, rules, "worker", now)
        }
        Verdict::Unknown(outcome) => not_accepted(record, outcome, rules, "worker", now),
    }
}

/// The token is the one in doubt.
fn late(record: &Record, verdict: &Verdict<'_>, now: Moment) -> Result<Change, Refusal> {
    match verdict {
        Verdict::Accepted(receipt) => Ok(sent(record, receipt, "worker", now)),
        Verdict::Unknown(_) => Err(Refusal::NothingToChange),
        Verdict::NotAccepted(_) if record.closed => Err(Refusal::ForTheBook),
        Verdict::NotAccepted(outcome) => {
            let mut proven = next(record, record.state);
            proven.token = None;
            proven.last = Some(last(outcome, now));
            if record.state == State::DeadLetter {
                proven.lease_until = None;
            }
            let entry = entry(Some(record.state), &proven, "worker", now, "late: not accepted");
            Ok(change(proven, now, entry))
        }
    }
}

/// The token is of an earlier generation, or of an earlier attempt in the provider's window.
fn earlier(record: &Record, token: Token, verdict: &Verdict<'_>, now: Moment) -> Result<Change, Refusal> {
    match verdict {
        Verdict::Accepted(receipt) => Ok(sent(record, receipt, "worker", now)),
        Verdict::Unknown(_) => Err(Refusal::NothingToChange),
        Verdict::NotAccepted(_) if record.closed => Err(Refusal::ForTheBook),
        Verdict::NotAccepted(_) => {
            let mut proven = next(record, record.state);
            proven.doubts.retain(|t| *t != token);
            proven.window_doubt = proven.window_doubt.filter(|t| *t != token);
            let entry = entry(Some(record.state), &proven, "worker", now, "late: an earlier handoff was not accepted");
            Ok(change(proven, now, entry))
        }
    }
}

fn sent(record: &Record, receipt: &Receipt, actor: &str, now: Moment) -> Change {
    let mut sent = next(record, State::Sent);
    sent.reason = Some(Reason::Accepted);
    sent.receipt = Some(receipt.clone());
    sent.closed = false;
    sent.token = None;
    sent.window_doubt = None;
    sent.lease_until = None;
    let detail = match record.state {
        State::Handoff => receipt.queue_id.as_deref().unwrap_or("accepted"),
        State::Scheduled | State::Queued | State::Claimed | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => "late verdict: accepted",
    };
    let entry = entry(Some(record.state), &sent, actor, now, detail);
    change(sent, now, entry)
}
