//! What a worker says of its attempts: lines for people, spans for their traces; never an address.

use curfew_domain::outcome::Outcome;
use curfew_domain::{Moment, Reason, Record, State};
use curfew_telemetry::metrics;
use curfew_telemetry::traces::{self, Attempt};

use crate::lane::Lane;
use crate::lease::Leased;
use crate::steps::outcome_of;
use crate::trouble::Tidings;
use crate::verdicts::Known;

/// The lines about the transport itself: its jobs run again by themselves, and each of them says so at a lower level only.
pub(crate) fn tidings(lane: &Lane, outcome: &Outcome, now: Moment) {
    let name = &lane.settings.name;
    match lane.tidings(outcome, now) {
        Some(failing @ Tidings::Failing { .. }) => {
            tracing::warn!(role = "worker", transport = %name, outcome = %outcome.class, "transport {name}: {failing}");
        }
        Some(working @ Tidings::Working { .. }) => tracing::info!(role = "worker", transport = %name, "transport {name}: {working}"),
        None => {}
    }
}

/// One line for each claim, at a lower level.
pub(crate) fn claimed(record: &Record) {
    tracing::debug!(
        role = "worker",
        shard = %record.shard,
        job_id = %record.id,
        key = %record.key,
        tenant = record.tenant(),
        generation = record.generation,
        version = record.version,
        attempt = record.attempts,
        to = %record.state,
        "claimed"
    );
}

/// One line for each final outcome, one for each retry at a lower level.
pub(crate) fn attempted(leased: &Leased, before: &Record, after: &Record, known: &Known, now: Moment) {
    let outcome = outcome_of(known);
    let (claimed, from) = leased.claimed;
    let number = after.attempts.max(before.attempts);
    traces::attempted(&Attempt { claimed, from, intent: leased.intent, outcome: &outcome, number }, after, now);
    match after.state {
        State::Sent => {
            metrics::release_lateness(after.receipt.as_ref().map(|r| r.at.since(before.due())).unwrap_or_default());
            end(before, after, &outcome, "sent");
        }
        State::DeadLetter | State::Suppressed | State::Cancelled => {
            if after.state == State::DeadLetter {
                metrics::dead_letter(after.reason.unwrap_or(Reason::PermanentFailure));
            }
            end(before, after, &outcome, &format!("stopped: {}", outcome.rule));
        }
        State::Scheduled | State::Queued | State::Claimed | State::Handoff => {
            metrics::retry(after.reason.unwrap_or(Reason::TransientFailure));
            tracing::debug!(
                role = "worker",
                shard = %after.shard,
                job_id = %after.id,
                key = %after.key,
                tenant = after.tenant(),
                generation = after.generation,
                version = after.version,
                attempt = before.attempts,
                from = %before.state,
                to = %after.state,
                outcome = %outcome.class,
                reason = after.reason.map(Reason::word),
                "runs again at {}: {}: {}", after.next_attempt_at, outcome.rule, outcome.diagnostic
            );
        }
    }
}

/// The line of a final outcome, with every field that the contract names for it.
fn end(before: &Record, after: &Record, outcome: &Outcome, says: &str) {
    let ended = after.receipt.as_ref().map(|r| r.at).or_else(|| after.last.as_ref().map(|l| l.at));
    let queue_age_ms = ended.map(|at| u64::try_from(at.since(before.due()).as_millis()).unwrap_or(u64::MAX));
    tracing::info!(
        role = "worker",
        shard = %after.shard,
        job_id = %after.id,
        key = %after.key,
        tenant = after.tenant(),
        business_date = after.business_date,
        generation = after.generation,
        version = after.version,
        attempt = after.attempts.max(before.attempts),
        from = %before.state,
        to = %after.state,
        outcome = %outcome.class,
        reason = after.reason.map(Reason::word),
        queue_age_ms,
        "{says}"
    );
}
