//! What each table needs: a record in any state, and the conditions by name.

use std::time::Duration;

use curfew_domain::outcome::{Outcome, Stage};
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::transition::{Change, Letter, Rules};
use curfew_domain::{Moment, OutcomeClass, Reason, Record, Refusal, State, Token, WorkerId};
use uuid::Uuid;

use crate::records::{self, at};
use crate::table;
pub(crate) use crate::table::Case;

pub(crate) const STATES: &[&str] = &[
    "scheduled",
    "queued",
    "claimed",
    "handoff",
    "sent",
    "dead_letter",
    "cancelled",
    "suppressed",
    "sent+",
    "dead_letter+",
    "cancelled+",
    "suppressed+",
];
pub(crate) const OWNERS: &[&str] = &["ours", "another's"];
pub(crate) const ME: WorkerId = WorkerId(Uuid::from_u128(1));
pub(crate) const OTHER: WorkerId = WorkerId(Uuid::from_u128(2));
pub(crate) const PRESENT: Token = Token(Uuid::from_u128(11));
pub(crate) const STEPPED_OVER: Token = Token(Uuid::from_u128(12));
pub(crate) const CARRIED: Token = Token(Uuid::from_u128(13));
pub(crate) const FOREIGN: Token = Token(Uuid::from_u128(14));
pub(crate) const LEASE: Duration = Duration::from_secs(60);
pub(crate) const RULE: &str = "a-rule";

const GROUPS: &[table::Column<'_>] = &[("waiting", &["scheduled", "queued"]), ("ended", STATES.split_at(4).1)];

pub(crate) fn check(columns: &[table::Column<'_>], found: impl Fn(&Case<'_>) -> String, rows: &str) {
    table::check(columns, GROUPS, found, rows);
}

/// A record in a state, as the clock shows 08:40: released at 08:30, stopping at 09:00, on its first attempt of three.
pub(crate) fn standing(state: &str) -> Record {
    let mut record = records::record();
    record.state = State::from_word(state.trim_end_matches('+')).expect("a state");
    record.closed = state.ends_with('+');
    if matches!(record.state, State::Claimed | State::Handoff) {
        record.attempts = 1;
        record.worker = Some(ME);
        record.lease_until = Some(now().plus(LEASE));
    }
    if record.state == State::Handoff {
        record.token = Some(PRESENT);
        record.first_handoff_at = Some(now());
    }
    record
}

pub(crate) fn now() -> Moment {
    at("08:40:00")
}

/// In doubt about an earlier handoff, inside the provider's window until 08:50.
pub(crate) fn doubting(record: &mut Record) {
    record.token = Some(PRESENT);
    record.first_handoff_at = Some(at("08:31:00"));
    record.window_until = Some(at("08:50:00"));
}

/// Says an answer, and holds what is true of every change.
pub(crate) fn say(before: &Record, answer: Result<Change, Refusal>) -> String {
    let change = match answer {
        Ok(change) => change,
        Err(Refusal::NotDue(_)) => return "refused: NotDue".into(),
        Err(Refusal::LeaseRuns(_)) => return "refused: LeaseRuns".into(),
        Err(Refusal::Conflict(_)) => return "refused: Conflict".into(),
        Err(plain) => return format!("refused: {plain:?}"),
    };
    let after = &change.record;
    assert_eq!((after.version, after.generation), (before.version + 1, before.generation));
    assert_eq!(change.timer.is_none(), after.closed, "a record that owes something has exactly one timer");
    assert_eq!(change.line.is_some(), after.state == State::Scheduled);
    assert_eq!(change.letter == Letter::Delete, after.state.is_terminal());
    assert_eq!(after.worker.is_some(), matches!(after.state, State::Claimed | State::Handoff));
    let mut text = format!("{}{}", after.state, if after.closed { "+" } else { "" });
    if let Some(reason) = after.reason.filter(|_| after.state == State::Scheduled || after.state.is_terminal() && !after.closed) {
        text += &format!(": {reason}");
    }
    match i64::from(after.attempts) - i64::from(before.attempts) {
        0 => {}
        1 => text += ", attempt begun",
        -1 => text += ", attempt given back",
        other => panic!("{other} attempts at once"),
    }
    if after.in_doubt() {
        text += ", in doubt";
    }
    match after.open_tokens().len() {
        0 => {}
        open => text += &format!(", {open} open"),
    }
    text
}

pub(crate) fn policy(budget: &str) -> Policy {
    let retries = if budget == "left" { 2 } else { 0 };
    Policy {
        name: "default".into(),
        version: 3,
        backoff: Backoff::Delays(vec![Duration::from_secs(300); retries]),
        max_attempts: None,
        jitter: Jitter::default(),
        at_deadline: AtDeadline::Review,
    }
}

/// The provider's window from the first handoff on: `holds` for a retry in 5 min, is `short` for it, or `none` is confirmed.
pub(crate) fn rules<'a>(policy: &'a Policy, window: &str) -> Rules<'a> {
    let idempotency_window = match window {
        "holds" => Some(Duration::from_secs(24 * 3600)),
        "short" => Some(Duration::from_secs(14 * 60)),
        _none => None,
    };
    Rules { policy, jitter: 0.0, idempotency_window, attempt_max: Duration::from_secs(120) }
}

/// `ahead` of the next attempt, `near`: ahead of now alone, `past`.
pub(crate) fn set_deadline(record: &mut Record, deadline: &str) {
    record.deadline_at = match deadline {
        "ahead" => at("09:00:00"),
        "near" => at("08:45:00"),
        _past => now(),
    };
}

pub(crate) fn set_policy(record: &mut Record, at_deadline: &str) {
    record.at_deadline = if at_deadline == "suppress" { AtDeadline::Suppress } else { AtDeadline::Review };
}

pub(crate) fn outcome(word: &str) -> Outcome {
    let of = |class| Outcome::new(class, Stage::Rcpt, RULE, "451 4.7.1 words");
    let caused = |class, cause| Outcome { cause: Some(cause), ..of(class) };
    match word {
        "artifact missing" => caused(OutcomeClass::Transient, Reason::ArtifactMissing),
        "artifact mismatch" => caused(OutcomeClass::Permanent, Reason::ArtifactMismatch),
        "third configuration" => of(OutcomeClass::Configuration),
        class => of(OutcomeClass::from_word(class).expect("a class")),
    }
}

pub(crate) const BUDGETS: &[&str] = &["left", "used up"];
pub(crate) const DEADLINES: &[&str] = &["ahead", "near", "past"];
pub(crate) const POLICIES: &[&str] = &["review", "suppress"];
