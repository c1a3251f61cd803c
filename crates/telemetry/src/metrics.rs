//! The metrics: typed functions over the catalogue, and their exposition as text.
//!
//! A loop says `metrics::attempt(OutcomeClass::Accepted, "default")`; what that is called outside stands in `catalogue.rs` alone.
//! Without an installed recorder every function does nothing, so libraries and tests need no set-up.

pub mod catalogue;
mod expose;
pub mod labels;

use std::time::Duration;

use ::metrics::{counter, gauge, histogram};
use curfew_domain::{OutcomeClass, Reason};

use catalogue as c;
pub use expose::{Exposition, InstallError, install};
pub use labels::{AuditKind, Covers, Durability, Phase, ReplayResult, ResolvedBy, Store, WakeUpResult, Where, Within};

/// A job was accepted at the door.
pub fn job_accepted(purpose: &str) {
    counter!(c::JOBS_ACCEPTED.name, "purpose" => labels::purpose(purpose)).increment(1);
}

/// A job's end reached the book; `state` is the word of a terminal state.
pub fn job_settled(state: &'static str, reason: Reason) {
    counter!(c::JOBS_SETTLED.name, "state" => state, "reason" => reason.word()).increment(1);
}

/// An attempt ended.
pub fn attempt(outcome: OutcomeClass, transport: &str) {
    counter!(c::ATTEMPTS.name, "outcome" => outcome.word(), "transport" => transport.to_owned()).increment(1);
}

/// An attempt of this number (from 1) ended; 10 and above share one label.
pub fn attempt_number(n: u32) {
    counter!(c::ATTEMPTS_BY_NUMBER.name, "n" => labels::number(n)).increment(1);
}

/// A job runs again.
pub fn retry(reason: Reason) {
    counter!(c::RETRIES.name, "reason" => reason.word()).increment(1);
}

/// A second submission, staging, claim, handoff or piece of evidence changed nothing.
pub fn duplicate_suppressed(at: Where) {
    counter!(c::DUPLICATES_SUPPRESSED.name, "where" => at.word()).increment(1);
}

/// A lease ended while its worker said nothing.
pub fn lease_expired(phase: Phase) {
    counter!(c::LEASE_EXPIRATIONS.name, "phase" => phase.word()).increment(1);
}

/// A job ended as a dead letter.
pub fn dead_letter(reason: Reason) {
    counter!(c::DEAD_LETTERS.name, "reason" => reason.word()).increment(1);
}

/// Open review items of a reason, as they stand.
pub fn review_open(reason: Reason, items: u64) {
    gauge!(c::REVIEW_OPEN.name, "reason" => reason.word()).set(items as f64);
}

/// A handoff in doubt was resolved.
pub fn in_doubt_resolved(by: ResolvedBy) {
    counter!(c::IN_DOUBT.name, "resolved_by" => by.word()).increment(1);
}

/// A replay ended, or was refused.
pub fn replay(result: ReplayResult) {
    counter!(c::REPLAYS.name, "result" => result.word()).increment(1);
}

/// A wake-up was published again into silence.
pub fn republished() {
    counter!(c::REPUBLISHED.name).increment(1);
}

/// A worker was handed a wake-up.
pub fn wake_up(result: WakeUpResult) {
    counter!(c::WAKEUPS.name, "result" => result.word()).increment(1);
}

/// The age of the eligible job that waits longest; zero where none does.
pub fn oldest_eligible_age(age: Duration) {
    gauge!(c::OLDEST_ELIGIBLE_AGE.name).set(age.as_secs_f64());
}

/// Jobs not sent whose deadline is this near and that the workers won't have ended by then.
pub fn deadline_at_risk(within: Within, jobs: u64) {
    gauge!(c::DEADLINE_AT_RISK.name, "within" => within.word()).set(jobs as f64);
}

/// A job ended, before the service level's lead or not.
pub fn deadline_outcome(met: bool) {
    counter!(c::DEADLINE_OUTCOMES.name, "met" => if met { "true" } else { "false" }).increment(1);
}

/// From the moment a job was due to its acceptance.
pub fn release_lateness(late: Duration) {
    histogram!(c::RELEASE_LATENESS.name).record(late.as_secs_f64());
}

/// From the intent to the provider's answer.
pub fn handoff(took: Duration) {
    histogram!(c::HANDOFF.name).record(took.as_secs_f64());
}

/// A provider asked for patience.
pub fn throttled(transport: &str) {
    counter!(c::THROTTLED.name, "transport" => transport.to_owned()).increment(1);
}

/// Whether a transport's circuit is open.
pub fn circuit_open(transport: &str, open: bool) {
    gauge!(c::CIRCUIT_OPEN.name, "transport" => transport.to_owned()).set(f64::from(u8::from(open)));
}

/// How many shards are recovering.
pub fn shards_recovering(shards: u32) {
    gauge!(c::SHARD_RECOVERING.name).set(f64::from(shards));
}

/// The auditor repaired something.
pub fn audit_repair(kind: AuditKind) {
    counter!(c::AUDIT_REPAIRS.name, "kind" => kind.word()).increment(1);
}

/// How many rows or records of a store can't be read, as the auditor found.
pub fn unreadable(store: Store, count: u64) {
    gauge!(c::UNREADABLE.name, "store" => store.word()).set(count as f64);
}

/// The ledger's clock less ours, smoothed; signed seconds.
pub fn ledger_clock_offset(seconds: f64) {
    gauge!(c::LEDGER_CLOCK_OFFSET.name).set(seconds);
}

/// A scheduler's tick ended at this time of the ledger, in seconds since the epoch.
pub fn scheduler_ticked(at_s: f64) {
    gauge!(c::SCHEDULER_LAST_TICK.name).set(at_s);
}

/// The durability that a store reaches.
pub fn durability_level(store: Store, level: Durability) {
    gauge!(c::DURABILITY_LEVEL.name, "store" => store.word()).set(level.figure());
}

/// The durability that the configuration asks of a store.
pub fn durability_required(store: Store, level: Durability) {
    gauge!(c::DURABILITY_REQUIRED.name, "store" => store.word()).set(level.figure());
}

/// The day's difference, as last counted.
pub fn day_difference(difference: i64) {
    gauge!(c::DAY_DIFFERENCE.name).set(difference as f64);
}

/// Messages where none should be; `queue` is a name of the topology.
pub fn stray_messages(queue: &'static str, messages: u64) {
    gauge!(c::STRAY_MESSAGES.name, "queue" => queue).set(messages as f64);
}

/// Shards that no live process covers, as last seen.
pub fn uncovered_shards(covers: Covers, shards: u64) {
    gauge!(c::UNCOVERED_SHARDS.name, "role" => covers.word()).set(shards as f64);
}

/// The age of the oldest item in doubt; zero where there is none.
pub fn in_doubt_oldest_age(age: Duration) {
    gauge!(c::IN_DOUBT_OLDEST_AGE.name).set(age.as_secs_f64());
}

/// Jobs in a state, as they stand; `state` is a word of the contract.
pub fn jobs(state: &'static str, count: u64) {
    gauge!(c::JOBS.name, "state" => state).set(count as f64);
}

/// Replaces the tenants that wait longest; the 20 longest are kept, the others vanish from the exposition.
pub fn tenants_waiting(ages: Vec<(String, Duration)>) {
    expose::set_tenants_waiting(ages);
}

/// Which zone data is in use.
pub fn zone_data(version: &str) {
    gauge!(c::ZONE_DATA.name, "version" => version.to_owned()).set(1.0);
}
