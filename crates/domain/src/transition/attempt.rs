//! A worker's own steps on a job that it holds: renew, intent, an outcome before the intent, giving back.

use std::time::Duration;

use super::{Change, Guard, Refusal, Rules, change, change_with_grace, entry, next};
use crate::decide::{Decision, Provider, Question, Retry, decide};
use crate::history::cut;
use crate::limits::{DOUBTS_MAX, IDEMPOTENCY_MARGIN, LEASE_MAX, LEASE_MIN, RECORD_DIAGNOSTIC_BYTES_MAX};
use crate::outcome::Outcome;
use crate::policy::AtDeadline;
use crate::record::{LastOutcome, WaitingFor};
use crate::{Moment, OutcomeClass, Reason, Record, State, Token, WorkerId};

/// `claimed` or `handoff` stays, its lease runs on. A lease that is over can't be renewed: somebody may have acted on it.
pub(super) fn renew(record: &Record, worker: WorkerId, lease: Duration, now: Moment) -> Result<Change, Refusal> {
    owned(record, worker, now)?;
    let mut renewed = next(record, record.state);
    renewed.lease_until = Some(now.plus(lease.clamp(LEASE_MIN, LEASE_MAX)));
    Ok(change_with_grace(renewed, Duration::ZERO, now, None))
}

/// `claimed` → `handoff`: from here on the provider may have accepted. The ledger checks release, deadline and lease by its own clock.
pub(super) fn intent(record: &Record, worker: WorkerId, token: Token, lease: Duration, pins: &[String], now: Moment) -> Result<Change, Refusal> {
    owned(record, worker, now)?;
    if record.state != State::Claimed {
        return Err(Refusal::WrongState);
    }
    if now < record.release_at {
        return Err(Refusal::NotDue(record.release_at));
    }
    if now >= record.stops_at() {
        return Err(Refusal::TooLate);
    }
    let mut handoff = next(record, State::Handoff);
    if let Some(stepped_over) = handoff.token.replace(token) {
        if handoff.doubts.len() + handoff.window_doubts.len() >= DOUBTS_MAX {
            return Err(Refusal::TooManyDoubts);
        }
        handoff.window_doubts.push(stepped_over);
    }
    handoff.first_handoff_at = record.first_handoff_at.or(Some(now));
    let lease_was = record.lease_until.unwrap_or(now);
    handoff.lease_until = Some(now.plus(lease.clamp(LEASE_MIN, LEASE_MAX)));
    pin(&mut handoff, pins);
    let mut change = change_with_grace(handoff, Duration::ZERO, now, None);
    change.guards = vec![Guard::NotBefore(record.release_at), Guard::Before(record.stops_at().min(lease_was))];
    Ok(change)
}

/// `claimed` → `scheduled` or `dead_letter`: an attempt that ended with nothing handed over.
pub(super) fn prepared(
    record: &Record,
    worker: WorkerId,
    outcome: &Outcome,
    rules: Rules<'_>,
    pins: &[String],
    now: Moment,
) -> Result<Change, Refusal> {
    if record.state != State::Claimed || record.worker != Some(worker) {
        return Err(Refusal::NotOwner);
    }
    let mut ended = record.clone();
    pin(&mut ended, pins);
    Ok(not_accepted(&ended, outcome, rules, "worker", now))
}

/// `claimed` → `scheduled`, no attempt used: a drain, a limit, a circuit.
pub(super) fn give_back(record: &Record, worker: WorkerId, waits_for: Option<WaitingFor>, until: Moment, now: Moment) -> Result<Change, Refusal> {
    if record.state != State::Claimed || record.worker != Some(worker) {
        return Err(Refusal::NotOwner);
    }
    let mut back = next(record, State::Scheduled);
    back.attempts = back.attempts.saturating_sub(1);
    back.next_attempt_at = until.max(now);
    back.waiting_for = waits_for;
    back.lease_until = None;
    back.reason = Some(Reason::GivenBack);
    Ok(change_with_grace(back, Duration::ZERO, now, None))
}

/// What `decide` makes of an outcome that isn't an acceptance. The record is in `claimed` or `handoff`; a token in it is no longer
/// open, unless the outcome is ambiguous.
pub(super) fn not_accepted(record: &Record, outcome: &Outcome, rules: Rules<'_>, actor: &str, now: Moment) -> Change {
    let mut ended = record.clone();
    let uses_no_attempt = outcome.class == OutcomeClass::Configuration;
    if uses_no_attempt {
        ended.configuration_met += 1;
    }
    let attempts_before = ended.attempts.saturating_sub(1);
    let decision = decide(&Question {
        attempts_before,
        class: outcome.class,
        softened: outcome.softened,
        retry_after: outcome.retry_after,
        provider: provider(&ended, rules, now),
        configuration_met: ended.configuration_met,
        now,
        release_at: ended.release_at,
        deadline_at: Some(ended.deadline_at),
        policy: rules.policy,
        jitter: rules.jitter,
    });
    ended.policy_version = rules.policy.version;
    ended.last = Some(last(outcome, now));
    let attempt_made = ended.attempts;
    if uses_no_attempt {
        ended.attempts = attempts_before;
    }
    let mut change = match decision {
        Decision::Complete => dead_letter(&ended, Reason::ReconciliationRequired, actor, now, "accepted without a receipt"),
        Decision::Retry(retry) => again(&ended, &retry, outcome, rules, actor, now),
        Decision::AwaitSetUp => {
            let mut waiting = next(&ended, State::Scheduled);
            waiting.lease_until = None;
            waiting.reason = Some(Reason::Configuration);
            waiting.waiting_for = Some(WaitingFor::Circuit);
            waiting.next_attempt_at = now.plus(SET_UP_WAIT);
            let entry = entry(Some(record.state), &waiting, actor, now, outcome.rule);
            change(waiting, now, entry)
        }
        Decision::DeadLetter(reason) => dead_letter(&ended, exact(reason, outcome), actor, now, outcome.rule),
    };
    if let Some(entry) = &mut change.history {
        entry.attempt = attempt_made;
    }
    change
}

/// A job that met a wrong set-up looks again after this; the circuit holds it longer.
const SET_UP_WAIT: Duration = Duration::from_secs(30);

/// Back into the line. A doubt of this generation holds whatever came after it to the provider's window.
fn again(ended: &Record, retry: &Retry, outcome: &Outcome, rules: Rules<'_>, actor: &str, now: Moment) -> Change {
    let doubted = ended.token.is_some();
    let window_until = window_until(ended, rules).filter(|_| doubted);
    if doubted && window_until.is_none_or(|until| retry.at >= until) {
        return dead_letter(ended, Reason::ReconciliationRequired, actor, now, "the provider's window is over before the retry is");
    }
    if doubted && ended.doubts.len() + ended.window_doubts.len() >= DOUBTS_MAX {
        return dead_letter(ended, Reason::ReconciliationRequired, actor, now, "too many handoffs in doubt");
    }
    let mut waiting = next(ended, State::Scheduled);
    waiting.lease_until = None;
    waiting.window_until = window_until;
    waiting.next_attempt_at = retry.at;
    waiting.waiting_for = Some(WaitingFor::Retry);
    waiting.reason = Some(match outcome.cause {
        Some(Reason::LeaseExpired) => Reason::LeaseExpired,
        _transient => retry.reason,
    });
    let entry = entry(Some(ended.state), &waiting, actor, now, outcome.rule);
    change(waiting, now, entry)
}

/// `dead_letter`, or what the deadline's policy makes of it. A doubt outranks every other reason: its uncertainty must not be lost, nor
/// suppressed out of sight (nor is one carried across a replay). It keeps the end of the lease under which something may still happen, for nobody replays it sooner.
pub(super) fn dead_letter(record: &Record, reason: Reason, actor: &str, now: Moment, detail: &str) -> Change {
    let reason = if record.token.is_some() { Reason::ReconciliationRequired } else { reason };
    let by_policy = reason == Reason::BusinessDeadlineReached && record.at_deadline == AtDeadline::Suppress && record.doubts.is_empty();
    let mut ended = next(record, if by_policy { State::Suppressed } else { State::DeadLetter });
    ended.reason = Some(reason);
    ended.lease_until = record.token.and(record.lease_until.or(Some(now)));
    let entry = entry(Some(record.state), &ended, actor, now, detail);
    change(ended, now, entry)
}

/// `worker_lost` and `artifact_missing` say more than "no attempt or no time left".
fn exact(reason: Reason, outcome: &Outcome) -> Reason {
    match (reason, outcome.cause) {
        (Reason::RetryBudgetExhausted, Some(Reason::LeaseExpired)) => Reason::WorkerLost,
        (Reason::RetryBudgetExhausted | Reason::BusinessDeadlineReached, Some(Reason::ArtifactMissing)) => Reason::ArtifactMissing,
        (Reason::PermanentFailure, Some(Reason::ArtifactMismatch)) => Reason::ArtifactMismatch,
        _by_class => reason,
    }
}

/// Whether the provider would recognise the key for the whole of an attempt that began now.
fn provider(record: &Record, rules: Rules<'_>, now: Moment) -> Provider {
    if window_until(record, rules).is_some_and(|until| now < until) { Provider::KnowsKeys } else { Provider::ForgetsKeys }
}

/// Before this an attempt must begin, so that the whole of it ends before first handoff + window − 60 s; `None`: no window is confirmed.
fn window_until(record: &Record, rules: Rules<'_>) -> Option<Moment> {
    Some(record.first_handoff_at?.plus(rules.idempotency_window?).minus(IDEMPOTENCY_MARGIN).minus(rules.attempt_max))
}

pub(super) fn last(outcome: &Outcome, now: Moment) -> LastOutcome {
    let mut diagnostic = outcome.diagnostic.clone();
    cut(&mut diagnostic, RECORD_DIAGNOSTIC_BYTES_MAX);
    LastOutcome { at: now, class: outcome.class, stage: outcome.stage, rule: outcome.rule.to_owned(), diagnostic }
}

fn pin(record: &mut Record, pins: &[String]) {
    if record.pins.is_empty() {
        record.pins = pins.to_vec();
    }
}

fn owned(record: &Record, worker: WorkerId, now: Moment) -> Result<(), Refusal> {
    match record.state {
        State::Claimed | State::Handoff if record.worker != Some(worker) => Err(Refusal::NotOwner),
        State::Claimed | State::Handoff if record.lease_until.is_none_or(|until| now >= until) => Err(Refusal::LeaseEnded),
        State::Claimed | State::Handoff => Ok(()),
        State::Scheduled | State::Queued | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => Err(Refusal::NotOwner),
    }
}
