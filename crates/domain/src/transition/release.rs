//! From the line to a worker: release, claim, and what refuses a claim.

use std::time::Duration;

use super::attempt::dead_letter;
use super::{Change, Guard, Refusal, change, change_with_grace, entry, next};
use crate::limits::{LEASE_MAX, LEASE_MIN};
use crate::record::WaitingFor;
use crate::{Moment, Reason, Record, State, WorkerId};

/// `scheduled` or an overdue `queued` → `queued`. The wake-up for this version is confirmed already. Leaves no history: an attempt's line says enough.
pub(super) fn release(record: &Record, claim_grace: Duration, now: Moment) -> Result<Change, Refusal> {
    match record.state {
        State::Scheduled | State::Queued if now >= record.stops_at() => Err(Refusal::TooLate),
        State::Scheduled | State::Queued => Ok(change_with_grace(next(record, State::Queued), claim_grace, now, None)),
        State::Claimed | State::Handoff | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => Err(Refusal::WrongState),
    }
}

/// `queued`, or `scheduled` and due → `claimed`. The ledger checks window and suppressions by its own clock and sets.
pub(super) fn claim(record: &Record, worker: WorkerId, lease: Duration, now: Moment) -> Result<Change, Refusal> {
    match record.state {
        State::Scheduled | State::Queued => {}
        State::Claimed | State::Handoff | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => return Err(Refusal::WrongState),
    }
    if now >= record.stops_at() {
        return Err(Refusal::TooLate);
    }
    if now < record.due() {
        return Err(Refusal::NotDue(record.due()));
    }
    let mut claimed = next(record, State::Claimed);
    claimed.worker = Some(worker);
    claimed.attempts += 1;
    claimed.lease_until = Some(now.plus(lease.clamp(LEASE_MIN, LEASE_MAX)));
    let mut change = change_with_grace(claimed, Duration::ZERO, now, None);
    change.guards = vec![Guard::NotBefore(record.due()), Guard::Before(record.stops_at()), Guard::NotSuppressed(record.recipient_ref.clone())];
    Ok(change)
}

/// A limit speaks before the claim: back into the line, the limit named, no attempt used.
pub(super) fn limited(record: &Record, by: WaitingFor, until: Moment, now: Moment) -> Result<Change, Refusal> {
    match record.state {
        State::Scheduled | State::Queued => {}
        State::Claimed | State::Handoff | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => return Err(Refusal::WrongState),
    }
    let mut back = next(record, State::Scheduled);
    back.next_attempt_at = until.max(record.next_attempt_at);
    back.waiting_for = Some(by);
    if back.reason.is_none() {
        back.reason = Some(Reason::GivenBack);
    }
    Ok(change_with_grace(back, Duration::ZERO, now, None))
}

/// The claim's guard found the recipient on a suppressions list: Curfew's own decision not to send. With a handoff in doubt it may have
/// been sent already: a person's, then.
pub(super) fn recipient_suppressed(record: &Record, now: Moment) -> Result<Change, Refusal> {
    match record.state {
        State::Scheduled | State::Queued | State::Claimed => {}
        State::Handoff | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => return Err(Refusal::WrongState),
    }
    if record.in_doubt() {
        return Ok(dead_letter(record, Reason::ReconciliationRequired, "worker", now, "on the suppressions list, an earlier handoff in doubt"));
    }
    let mut ended = next(record, State::Suppressed);
    ended.reason = Some(Reason::SuppressionList);
    ended.lease_until = None;
    let entry = entry(Some(record.state), &ended, "worker", now, "on the suppressions list");
    Ok(change(ended, now, entry))
}
