//! What timers find and what others ask: a lease that is over, a deadline, a strike, an operator's verb, and closing.

use super::attempt::{dead_letter, not_accepted};
use super::{Change, Refusal, Rules, change, change_with_grace, entry, next};
use crate::limits::{POISON_STRIKES_MAX, VERBS_KEPT};
use crate::outcome::{Outcome, Stage};
use crate::record::WaitingFor;
use crate::simulation::{Bug, planted};
use crate::verb::{NumberedVerb, Verb};
use crate::{Moment, OutcomeClass, Reason, Record, State, Token};

/// `claimed` under a lease that is over: as a transient outcome. `handoff`: in doubt by definition, never sent again by automation.
pub(super) fn lease_over(record: &Record, rules: Rules<'_>, now: Moment) -> Result<Change, Refusal> {
    let until = record.lease_until.unwrap_or(now);
    if planted(Bug::ResendOnLeaseExpiry) && record.state == State::Handoff {
        return lease_over(&Record { state: State::Claimed, token: None, ..record.clone() }, rules, now);
    }
    match record.state {
        State::Claimed | State::Handoff if now < until => Err(Refusal::LeaseRuns(until)),
        State::Claimed => {
            let mut outcome = Outcome::new(OutcomeClass::Transient, Stage::Artifact, "lease-over", "the worker's lease ended before the intent");
            outcome.cause = Some(Reason::LeaseExpired);
            Ok(not_accepted(record, &outcome, rules, "scheduler", now))
        }
        State::Handoff if record.token == Some(Token::ANY) => super::recovery::rolled_back(record, None, now),
        State::Handoff => {
            let mut outcome =
                Outcome::new(OutcomeClass::Ambiguous, Stage::Dot, "lease-over", "the worker's lease ended after the intent and before a verdict");
            outcome.cause = Some(Reason::LeaseExpired);
            Ok(not_accepted(record, &outcome, rules, "scheduler", now))
        }
        State::Scheduled | State::Queued | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => Err(Refusal::WrongState),
    }
}

/// A waiting or claimed job at the moment at which automation stops. A claimed one too: its intent is then refused.
pub(super) fn deadline_reached(record: &Record, now: Moment) -> Result<Change, Refusal> {
    match record.state {
        State::Scheduled | State::Queued | State::Claimed if now < record.stops_at() => Err(Refusal::NotDue(record.stops_at())),
        State::Scheduled | State::Queued | State::Claimed => {
            let artifact = record.last.as_ref().is_some_and(|l| l.rule == ARTIFACT_MISSING_RULE);
            let reason = if artifact { Reason::ArtifactMissing } else { Reason::BusinessDeadlineReached };
            let detail = if now < record.deadline_at { "the provider's window is over" } else { "the deadline" };
            Ok(dead_letter(record, reason, "scheduler", now, detail))
        }
        State::Handoff | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => Err(Refusal::WrongState),
    }
}

/// The rule that names an absent artifact; where it was the last word before the deadline, it is the reason.
pub const ARTIFACT_MISSING_RULE: &str = "artifact-missing";

/// A delivery broke before the intent: given back without an attempt, never earlier than it was due; the third time it is poison.
pub(super) fn strike(record: &Record, until: Moment, now: Moment) -> Result<Change, Refusal> {
    match record.state {
        State::Scheduled | State::Queued | State::Claimed => {}
        State::Handoff | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => return Err(Refusal::WrongState),
    }
    let mut struck = record.clone();
    struck.strikes += 1;
    if record.state == State::Claimed {
        struck.attempts = struck.attempts.saturating_sub(1);
    }
    if struck.strikes >= POISON_STRIKES_MAX {
        return Ok(dead_letter(&struck, Reason::PoisonMessage, "worker", now, "broke its worker three times"));
    }
    let mut back = next(&struck, State::Scheduled);
    back.next_attempt_at = until.max(now).max(record.next_attempt_at);
    back.lease_until = None;
    if record.state == State::Claimed || back.reason.is_none() {
        back.reason = Some(Reason::GivenBack);
    }
    let entry = entry(Some(record.state), &back, "worker", now, "a delivery of it broke");
    Ok(change(back, now, entry))
}

/// An operator's verb: refused where its number or a higher one is there already, or the generation is another; found there, done.
pub(super) fn verb(record: &Record, verb: &NumberedVerb, now: Moment) -> Result<Change, Refusal> {
    if record.generation == verb.generation && record.verbs.contains(&verb.number) {
        return Err(Refusal::AppliedAlready);
    }
    if record.generation != verb.generation || record.verbs.iter().any(|n| *n >= verb.number) {
        return Err(Refusal::Superseded);
    }
    match record.state {
        State::Scheduled | State::Queued | State::Claimed => {}
        State::Cancelled if verb.verb == Verb::Cancel => return Err(Refusal::AppliedAlready),
        State::Suppressed if verb.verb == Verb::Suppress => return Err(Refusal::AppliedAlready),
        State::DeadLetter if record.closed => return Err(Refusal::ForTheBook),
        State::Handoff | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => return Err(Refusal::Conflict(record.state)),
    }
    let mut applied = match &verb.verb {
        Verb::Cancel => ended_by_operator(record, State::Cancelled),
        Verb::Suppress => ended_by_operator(record, State::Suppressed),
        Verb::Move { release_at, deadline_at } => moved(record, *release_at, *deadline_at, now),
    };
    applied.verbs.push(verb.number);
    let surplus = applied.verbs.len().saturating_sub(VERBS_KEPT);
    applied.verbs.drain(..surplus);
    let entry = entry(Some(record.state), &applied, "operator", now, &format!("{} #{}", verb.verb.word(), verb.number));
    Ok(change(applied, now, entry))
}

fn ended_by_operator(record: &Record, state: State) -> Record {
    let mut ended = next(record, state);
    ended.reason = Some(Reason::Operator);
    ended.lease_until = None;
    ended
}

/// A move of a claimed job is a give-back with the new times, same generation.
pub(super) fn moved(record: &Record, release_at: Moment, deadline_at: Moment, now: Moment) -> Record {
    let mut moved = next(record, State::Scheduled);
    if record.state == State::Claimed {
        moved.attempts = moved.attempts.saturating_sub(1);
        moved.reason = Some(Reason::GivenBack);
    }
    moved.release_at = release_at;
    moved.deadline_at = deadline_at;
    moved.next_attempt_at = release_at;
    moved.lease_until = None;
    moved.waiting_for = if release_at > now { Some(WaitingFor::Release) } else { (moved.attempts > 0).then_some(WaitingFor::Retry) };
    moved
}

/// The book holds this story: trimmed, expires after 48 h. Repeating it changes nothing.
pub(super) fn closed(record: &Record, now: Moment) -> Result<Change, Refusal> {
    match record.state {
        State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed if record.closed => Err(Refusal::NothingToChange),
        State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => {
            let mut closed = next(record, record.state);
            closed.closed = true;
            Ok(change_with_grace(closed, std::time::Duration::ZERO, now, None))
        }
        State::Scheduled | State::Queued | State::Claimed | State::Handoff => Err(Refusal::WrongState),
    }
}
