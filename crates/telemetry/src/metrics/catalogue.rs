//! The catalogue: every metric's name, labels, unit, and what healthy looks like.
//!
//! Dashboards and alerts use these names and no others; `tests/golden/metrics.txt` holds them.

use super::labels::{AuditKind, Covers, Phase, ReplayResult, ResolvedBy, Store, WakeUpResult, Where, Within};

/// What a metric does with its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// As it stands.
    Gauge,
    /// Counted by bucket.
    Histogram,
}

/// The values a label may have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Values {
    /// These words and no others.
    Closed(&'static [&'static str]),
    /// A name from the configuration, the topology or the domain's closed words; or capped, as its doc says.
    Bounded(&'static str),
}

/// A label.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// What it may be.
    pub values: Values,
}

/// A metric.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Metric {
    /// Its full name, unit last.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Its labels, in the order of the contract.
    pub labels: &'static [Label],
    /// Upper bounds of a histogram's buckets; empty otherwise.
    pub buckets: &'static [f64],
    /// What it is, and what healthy looks like.
    pub help: &'static str,
}

const fn closed(name: &'static str, words: &'static [&'static str]) -> Label {
    Label { name, values: Values::Closed(words) }
}

const fn bounded(name: &'static str, by: &'static str) -> Label {
    Label { name, values: Values::Bounded(by) }
}

const fn counter(name: &'static str, labels: &'static [Label], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, labels, buckets: &[], help }
}

const fn gauge(name: &'static str, labels: &'static [Label], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, buckets: &[], help }
}

const fn histogram(name: &'static str, buckets: &'static [f64], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, labels: &[], buckets, help }
}

const REASON: Label = bounded("reason", "the domain's reasons");
const STATE: Label = bounded("state", "the domain's states");
const TRANSPORT: Label = bounded("transport", "the configuration's transports");

macro_rules! catalogue {
    ($($(#[$doc:meta])* $name:ident = $metric:expr;)+) => {
        $($(#[$doc])* pub const $name: Metric = $metric;)+

        /// All of them, in the order of the contract.
        pub const ALL: &[Metric] = &[$($name),+];
    };
}

catalogue! {
    /// Jobs accepted at the door. Healthy: follows the customers' day.
    JOBS_ACCEPTED = counter("curfew_jobs_accepted_total", &[bounded("purpose", "the first 100 purposes met, then `other`")],
        "Jobs accepted at the door. Healthy: follows the customers' day.");
    /// Jobs whose end reached the book. Healthy: keeps up with what was accepted and is due.
    JOBS_SETTLED = counter("curfew_jobs_settled_total", &[STATE, REASON],
        "Jobs whose end reached the book. Healthy: keeps up with what was accepted and is due; almost all sent.");
    /// Attempts by outcome class.
    ATTEMPTS = counter("curfew_attempts_total", &[bounded("outcome", "the domain's outcome classes"), TRANSPORT],
        "Attempts by outcome class. Healthy: accepted above 95 percent; configuration at zero.");
    /// Attempts by their number.
    ATTEMPTS_BY_NUMBER = counter("curfew_attempts_by_number_total", &[bounded("n", "1 to 9, then `10+`")],
        "Attempts by their number, from 1. Healthy: almost all are first attempts.");
    /// Jobs that run again.
    RETRIES = counter("curfew_retries_total", &[REASON],
        "Jobs that run again. Healthy: a few percent of attempts, lease_expired near zero.");
    /// Repetitions that changed nothing.
    DUPLICATES_SUPPRESSED = counter("curfew_duplicates_suppressed_total", &[closed("where", Where::WORDS)],
        "Repetitions that changed nothing. Healthy: any; each is a second mail that was not sent.");
    /// Leases that ended in silence.
    LEASE_EXPIRATIONS = counter("curfew_lease_expirations_total", &[closed("phase", Phase::WORDS)],
        "Leases that ended while their worker said nothing. Healthy: zero outside crashes; handoff makes doubt.");
    /// Jobs that ended as dead letters.
    DEAD_LETTERS = counter("curfew_dead_letters_total", &[REASON],
        "Jobs that ended as dead letters. Healthy: permanent_failure follows list quality, the others near zero.");
    /// Review items that are open.
    REVIEW_OPEN = gauge("curfew_review_open", &[REASON],
        "Review items that are open. Healthy: falls during working hours.");
    /// Handoffs in doubt that were resolved.
    IN_DOUBT = counter("curfew_in_doubt_total", &[closed("resolved_by", ResolvedBy::WORDS)],
        "Handoffs in doubt that were resolved. Healthy: mostly late_verdict and provider_event.");
    /// Replays by their end.
    REPLAYS = counter("curfew_replays_total", &[closed("result", ReplayResult::WORDS)],
        "Replays by their end. Healthy: mostly sent.");
    /// Wake-ups published again.
    REPUBLISHED = counter("curfew_republished_total", &[],
        "Wake-ups published again into silence. Healthy: zero while the broker stands.");
    /// Wake-ups by what they came to.
    WAKEUPS = counter("curfew_wakeups_total", &[closed("result", WakeUpResult::WORDS)],
        "Wake-ups by what they came to. Healthy: claimed dominates; undecodable is zero.");
    /// The longest wait of an eligible job.
    OLDEST_ELIGIBLE_AGE = gauge("curfew_oldest_eligible_age_seconds", &[],
        "Age of the eligible job that waits longest. Eligible: past its next time and held by no pause, circuit or tenant limit. Healthy: under 5 s.");
    /// Jobs that will miss their deadline, as things stand.
    DEADLINE_AT_RISK = gauge("curfew_deadline_at_risk_jobs", &[closed("within", Within::WORDS)],
        "Jobs not sent whose deadline is this near and that the workers won't have ended by then, at the drain they measured. Healthy: zero.");
    /// Jobs by whether the service level was met.
    DEADLINE_OUTCOMES = counter("curfew_deadline_outcomes_total", &[closed("met", &["true", "false"])],
        "Jobs by whether they were accepted in time for the service level. Healthy: false within the error budget.");
    /// Seconds from the moment a job was due to the moment it was accepted.
    ///
    /// Above the claim grace the ready queue is backlogged.
    RELEASE_LATENESS = histogram("curfew_release_lateness_seconds", &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0],
        "Seconds from due to accepted. Healthy: p99 under 0.25 s while the fleet keeps up.");
    /// Seconds from the intent to the provider's answer. The last bucket is the end marker's timeout.
    HANDOFF = histogram("curfew_handoff_seconds", &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 600.0],
        "Seconds from the intent to the provider's answer. Healthy: the provider's usual reply time.");
    /// Times that a provider asked for patience.
    THROTTLED = counter("curfew_throttled_total", &[TRANSPORT],
        "Times that a provider asked for patience. Healthy: near zero; else lower the transport's rate.");
    /// Open circuits.
    CIRCUIT_OPEN = gauge("curfew_circuit_open", &[TRANSPORT],
        "1 while a transport's circuit is open. Healthy: 0.");
    /// Shards that are recovering.
    SHARD_RECOVERING = gauge("curfew_shard_recovering", &[],
        "Shards that are recovering. Healthy: 0.");
    /// What the auditor repaired.
    AUDIT_REPAIRS = counter("curfew_audit_repairs_total", &[closed("kind", AuditKind::WORDS)],
        "What the auditor repaired. Healthy: zero.");
    /// What can't be read.
    UNREADABLE = gauge("curfew_unreadable", &[closed("store", Store::WORDS)],
        "Rows of the book and records of the ledger that can't be read, as the auditor last found. Healthy: 0; curfew check --audit names them.");
    /// The ledger's clock against ours.
    LEDGER_CLOCK_OFFSET = gauge("curfew_ledger_clock_offset_seconds", &[],
        "The ledger's clock less ours, smoothed. Healthy: within 0.1 s.");
    /// The last tick.
    SCHEDULER_LAST_TICK = gauge("curfew_scheduler_last_tick_timestamp_seconds", &[],
        "When a scheduler's tick last ended, seconds since the epoch. Healthy: within a second of now.");
    /// Durability reached.
    DURABILITY_LEVEL = gauge("curfew_durability_level", &[closed("store", Store::WORDS)],
        "Durability that a store reaches: 0 none, 1 process, 2 fsync, 3 replicated. Healthy: at least curfew_durability_required.");
    /// Durability asked for.
    DURABILITY_REQUIRED = gauge("curfew_durability_required", &[closed("store", Store::WORDS)],
        "Durability that the configuration asks of a store, 0 to 3. Healthy: at most curfew_durability_level.");
    /// The day's difference.
    DAY_DIFFERENCE = gauge("curfew_day_difference", &[],
        "Accepted less the day's other six figures. Healthy: 0.");
    /// Messages where none should be.
    STRAY_MESSAGES = gauge("curfew_stray_messages", &[bounded("queue", "the topology's queues")],
        "Messages where none should be: unrouted or parked. Healthy: 0.");
    /// Shards that nobody works.
    UNCOVERED_SHARDS = gauge("curfew_uncovered_shards", &[closed("role", Covers::WORDS)],
        "Shards that no live process of a role covers. Healthy: 0; else their jobs wait.");
    /// The oldest doubt.
    IN_DOUBT_OLDEST_AGE = gauge("curfew_in_doubt_oldest_age_seconds", &[],
        "Age of the oldest item in doubt. Healthy: under a working day.");
    /// Jobs by state.
    JOBS = gauge("curfew_jobs", &[STATE],
        "Jobs by state, as they stand. Healthy: claimed and handoff at most the fleet's concurrency.");
    /// The tenants that wait longest.
    TENANT_OLDEST_ELIGIBLE_AGE = gauge("curfew_tenant_oldest_eligible_age_seconds", &[bounded("tenant", "the 20 that wait longest")],
        "Age of a tenant's eligible job that waits longest, for the 20 tenants that wait longest. Healthy: under 5 s.");
    /// The zone data in use.
    ZONE_DATA = gauge("curfew_zone_data_info", &[bounded("version", "one at a time")],
        "1, with the version of the zone data in use. Healthy: this year's.");
}
