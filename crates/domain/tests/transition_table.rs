//! The whole of `transition`, as text: for each event every state, under every condition that matters to it.
//!
//! `check` builds every combination of a table's values. It fails on a row that lies, a combination without a row or with two, and a row
//! that fits nothing. A cell is `any`, a value, several (`a, b`), all others (`not a, b`), or a group of states: `waiting` is scheduled
//! and queued, `ended` are sent, dead_letter, cancelled and suppressed, with and without `+`, which says that the book has recorded it.
//! An answer is the next state with its reason, or the refusal; then what became of the attempt's count; `in doubt`, where a handoff of
//! this generation is; and the number of tokens whose fate is open.

mod records;

use std::time::Duration;

use curfew_domain::outcome::{Outcome, Receipt, Stage};
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::record::{LastOutcome, WaitingFor};
use curfew_domain::transition::{Change, Event, Letter, Rules, Verdict, transition};
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Moment, OutcomeClass, Reason, Record, Refusal, State, Token, WorkerId};
use records::at;
use uuid::Uuid;

const STATES: &[&str] = &[
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
const WAITING: &[&str] = &["scheduled", "queued"];
const OWNERS: &[&str] = &["ours", "another's"];
const ME: WorkerId = WorkerId(Uuid::from_u128(1));
const OTHER: WorkerId = WorkerId(Uuid::from_u128(2));
const PRESENT: Token = Token(Uuid::from_u128(11));
const STEPPED_OVER: Token = Token(Uuid::from_u128(12));
const CARRIED: Token = Token(Uuid::from_u128(13));
const FOREIGN: Token = Token(Uuid::from_u128(14));
const LEASE: Duration = Duration::from_secs(60);
const RULE: &str = "a-rule";

/// One combination of a table's values.
struct Case<'a>(&'a [(&'a str, &'a [&'a str])], Vec<&'a str>);

impl Case<'_> {
    fn is(&self, column: &str, value: &str) -> bool {
        self.get(column) == value
    }

    fn get(&self, column: &str) -> &str {
        let place = self.0.iter().position(|(name, _)| *name == column).expect("a column of the table");
        self.1[place]
    }
}

fn check(columns: &[(&str, &[&str])], found: impl Fn(&Case<'_>) -> String, table: &str) {
    let mut lines = table.trim().lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).chain(["answer"]).collect();
    assert_eq!(head, names, "the table's head");
    let rows: Vec<Vec<&str>> = lines.collect();
    let mut used = vec![false; rows.len()];
    let cases = columns.iter().fold(vec![Vec::new()], |cases: Vec<Vec<&str>>, (_, values)| {
        cases.iter().flat_map(|case| values.iter().map(move |v| [case.as_slice(), &[*v]].concat())).collect()
    });
    for case in cases {
        let fitting: Vec<usize> = (0..rows.len()).filter(|n| case.iter().zip(&rows[*n]).all(|(value, cell)| fits(cell, value))).collect();
        let case = Case(columns, case);
        let answer = found(&case);
        assert_eq!(fitting.len(), 1, "{:?} has the rows {fitting:?} and finds {answer:?}", case.1);
        used[fitting[0]] = true;
        assert_eq!(answer, rows[fitting[0]][columns.len()], "{:?}", case.1);
    }
    assert_eq!(used.iter().position(|u| !u).map(|n| &rows[n]), None, "a row that fits nothing");
}

fn fits(cell: &str, value: &str) -> bool {
    if let Some(excluded) = cell.strip_prefix("not ") {
        return !fits(excluded, value);
    }
    cell == "any"
        || cell
            .split(',')
            .map(str::trim)
            .any(|one| one == value || one == "waiting" && WAITING.contains(&value) || one == "ended" && STATES[4..].contains(&value))
}

/// A record in a state, as the clock shows 08:40: released at 08:30, stopping at 09:00, on its first attempt of three.
fn standing(state: &str) -> Record {
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

fn now() -> Moment {
    at("08:40:00")
}

/// In doubt about an earlier handoff, inside the provider's window until 08:50.
fn doubting(record: &mut Record) {
    record.token = Some(PRESENT);
    record.first_handoff_at = Some(at("08:31:00"));
    record.window_until = Some(at("08:50:00"));
}

/// Says an answer, and holds what is true of every change.
fn say(before: &Record, answer: Result<Change, Refusal>) -> String {
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

fn policy(budget: &str) -> Policy {
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
fn rules<'a>(policy: &'a Policy, window: &str) -> Rules<'a> {
    let idempotency_window = match window {
        "holds" => Some(Duration::from_secs(24 * 3600)),
        "short" => Some(Duration::from_secs(14 * 60)),
        _none => None,
    };
    Rules { policy, jitter: 0.0, idempotency_window, attempt_max: Duration::from_secs(120) }
}

/// `ahead` of the next attempt, `near`: ahead of now alone, `past`.
fn set_deadline(record: &mut Record, deadline: &str) {
    record.deadline_at = match deadline {
        "ahead" => at("09:00:00"),
        "near" => at("08:45:00"),
        _past => now(),
    };
}

fn set_policy(record: &mut Record, at_deadline: &str) {
    record.at_deadline = if at_deadline == "suppress" { AtDeadline::Suppress } else { AtDeadline::Review };
}

fn outcome(word: &str) -> Outcome {
    let of = |class| Outcome::new(class, Stage::Rcpt, RULE, "451 4.7.1 words");
    let caused = |class, cause| Outcome { cause: Some(cause), ..of(class) };
    match word {
        "artifact missing" => caused(OutcomeClass::Transient, Reason::ArtifactMissing),
        "artifact mismatch" => caused(OutcomeClass::Permanent, Reason::ArtifactMismatch),
        "third configuration" => of(OutcomeClass::Configuration),
        class => of(OutcomeClass::from_word(class).expect("a class")),
    }
}

#[test]
fn release() {
    check(
        &[("state", STATES), ("stop", &["ahead", "reached"])],
        |case| {
            let record = standing(case.get("state"));
            let now = if case.is("stop", "ahead") { now() } else { record.stops_at() };
            say(&record, transition(&record, &Event::Release { claim_grace: LEASE }, now))
        },
        "
        state                   | stop    | answer
        waiting                 | ahead   | queued
        waiting                 | reached | refused: TooLate
        claimed, handoff, ended | any     | refused: WrongState
        ",
    );
}

#[test]
fn claim() {
    check(
        &[("state", STATES), ("time", &["before the release", "before the next time", "due", "at the stop"]), ("doubt", &["none", "earlier"])],
        |case| {
            let mut record = standing(case.get("state"));
            record.next_attempt_at = at("08:35:00");
            if case.is("doubt", "earlier") {
                doubting(&mut record);
            }
            let now = match case.get("time") {
                "before the release" => record.release_at.minus(Duration::from_millis(1)),
                "before the next time" => record.next_attempt_at.minus(Duration::from_millis(1)),
                "due" => record.next_attempt_at,
                _stop => record.stops_at(),
            };
            say(&record, transition(&record, &Event::Claim { worker: ME, lease: LEASE }, now))
        },
        "
        state                   | time                                     | doubt   | answer
        waiting                 | before the release, before the next time | any     | refused: NotDue
        waiting                 | due                                      | none    | claimed, attempt begun
        waiting                 | due                                      | earlier | claimed, attempt begun, in doubt, 1 open
        waiting                 | at the stop                              | any     | refused: TooLate
        claimed, handoff, ended | any                                      | any     | refused: WrongState
        ",
    );
}

#[test]
fn a_limit() {
    check(
        &[("state", STATES), ("reason before", &["none", "transient_failure"])],
        |case| {
            let mut record = standing(case.get("state"));
            record.reason = Reason::from_word(case.get("reason before"));
            say(&record, transition(&record, &Event::Limited { by: WaitingFor::TenantRate, until: at("08:41:00") }, now()))
        },
        "
        state                   | reason before     | answer
        waiting                 | none              | scheduled: given_back
        waiting                 | transient_failure | scheduled: transient_failure
        claimed, handoff, ended | any               | refused: WrongState
        ",
    );
}

#[test]
fn a_suppressed_recipient() {
    check(
        &[("state", STATES), ("doubt", &["none", "earlier"])],
        |case| {
            let mut record = standing(case.get("state"));
            if case.is("doubt", "earlier") {
                doubting(&mut record);
            }
            say(&record, transition(&record, &Event::RecipientSuppressed, now()))
        },
        "
        state            | doubt   | answer
        waiting, claimed | none    | suppressed: suppression_list
        waiting, claimed | earlier | dead_letter: reconciliation_required, in doubt, 1 open
        handoff, ended   | any     | refused: WrongState
        ",
    );
}

#[test]
fn renewal() {
    check(
        &[("state", STATES), ("lease", OWNERS), ("time", &["it runs", "it is over"])],
        |case| {
            let record = standing(case.get("state"));
            let now = if case.is("time", "it runs") { now() } else { now().plus(LEASE) };
            let worker = if case.is("lease", "ours") { ME } else { OTHER };
            say(&record, transition(&record, &Event::Renew { worker, lease: LEASE }, now))
        },
        "
        state            | lease     | time       | answer
        claimed          | ours      | it runs    | claimed
        handoff          | ours      | it runs    | handoff
        claimed, handoff | ours      | it is over | refused: LeaseEnded
        claimed, handoff | another's | any        | refused: NotOwner
        waiting, ended   | any       | any        | refused: NotOwner
        ",
    );
}

#[test]
fn intent() {
    check(
        &[
            ("state", STATES),
            ("lease", OWNERS),
            ("lease time", &["runs", "over"]),
            ("time", &["before the release", "in time", "at the stop"]),
            ("doubt", &["none", "earlier", "too many"]),
        ],
        |case| {
            let mut record = standing(case.get("state"));
            match case.get("time") {
                "before the release" => record.release_at = now().plus(Duration::from_millis(1)),
                "at the stop" => record.deadline_at = now(),
                _in_time => {}
            }
            if case.is("lease time", "over") {
                record.lease_until = Some(now());
            }
            if !case.is("doubt", "none") {
                doubting(&mut record);
            }
            if case.is("doubt", "too many") {
                record.doubts = vec![CARRIED; 8];
            }
            let worker = if case.is("lease", "ours") { ME } else { OTHER };
            let event = Event::Intent { worker, token: FOREIGN, lease: LEASE, pins: Vec::new() };
            say(&record, transition(&record, &event, now()))
        },
        "
        state            | lease     | lease time | time               | doubt    | answer
        claimed          | ours      | runs       | in time            | none     | handoff
        claimed          | ours      | runs       | in time            | earlier  | handoff, 1 open
        claimed          | ours      | runs       | in time            | too many | refused: TooManyDoubts
        claimed          | ours      | runs       | before the release | any      | refused: NotDue
        claimed          | ours      | runs       | at the stop        | any      | refused: TooLate
        handoff          | ours      | runs       | any                | any      | refused: WrongState
        claimed, handoff | ours      | over       | any                | any      | refused: LeaseEnded
        claimed, handoff | another's | any        | any                | any      | refused: NotOwner
        waiting, ended   | any       | any        | any                | any      | refused: NotOwner
        ",
    );
}

#[test]
fn giving_back() {
    check(
        &[("state", STATES), ("lease", OWNERS)],
        |case| {
            let record = standing(case.get("state"));
            let worker = if case.is("lease", "ours") { ME } else { OTHER };
            say(&record, transition(&record, &Event::GiveBack { worker, waits_for: None, until: now() }, now()))
        },
        "
        state       | lease     | answer
        claimed     | ours      | scheduled: given_back, attempt given back
        claimed     | another's | refused: NotOwner
        not claimed | any       | refused: NotOwner
        ",
    );
}

#[test]
fn an_outcome_before_the_intent_is_its_owners_to_report() {
    check(
        &[("state", STATES), ("lease", OWNERS)],
        |case| {
            let record = standing(case.get("state"));
            let worker = if case.is("lease", "ours") { ME } else { OTHER };
            let (outcome, policy) = (outcome("permanent"), policy("left"));
            say(&record, transition(&record, &Event::Prepared { worker, outcome: &outcome, rules: rules(&policy, "none"), pins: Vec::new() }, now()))
        },
        "
        state       | lease     | answer
        claimed     | ours      | dead_letter: permanent_failure
        claimed     | another's | refused: NotOwner
        not claimed | any       | refused: NotOwner
        ",
    );
}

const OUTCOMES: &[&str] = &[
    "transient",
    "throttled",
    "permanent",
    "suppressed",
    "configuration",
    "third configuration",
    "ambiguous",
    "accepted",
    "artifact missing",
    "artifact mismatch",
];
const BUDGETS: &[&str] = &["left", "used up"];
const DEADLINES: &[&str] = &["ahead", "near", "past"];
const POLICIES: &[&str] = &["review", "suppress"];

#[test]
fn an_outcome_before_the_intent_without_a_doubt() {
    check(
        &[("outcome", OUTCOMES), ("attempts", BUDGETS), ("deadline", DEADLINES), ("at deadline", POLICIES)],
        |case| {
            let mut record = standing("claimed");
            prepare(&mut record, case);
            let (outcome, policy) = (outcome(case.get("outcome")), policy(case.get("attempts")));
            say(
                &record,
                transition(&record, &Event::Prepared { worker: ME, outcome: &outcome, rules: rules(&policy, "holds"), pins: Vec::new() }, now()),
            )
        },
        "
        outcome              | attempts | deadline    | at deadline | answer
        transient            | left     | ahead       | any         | scheduled: transient_failure
        throttled            | left     | ahead       | any         | scheduled: throttled
        transient, throttled | left     | near, past  | review      | dead_letter: business_deadline_reached
        transient, throttled | left     | near, past  | suppress    | suppressed: business_deadline_reached
        transient, throttled | used up  | any         | any         | dead_letter: retry_budget_exhausted
        artifact missing     | left     | ahead       | any         | scheduled: transient_failure
        artifact missing     | left     | near, past  | any         | dead_letter: artifact_missing
        artifact missing     | used up  | any         | any         | dead_letter: artifact_missing
        artifact mismatch    | any      | any         | any         | dead_letter: artifact_mismatch
        permanent            | any      | any         | any         | dead_letter: permanent_failure
        suppressed           | any      | any         | any         | dead_letter: recipient_suppressed
        configuration        | any      | ahead, near | any         | scheduled: configuration, attempt given back
        configuration        | any      | past        | review      | dead_letter: business_deadline_reached, attempt given back
        configuration        | any      | past        | suppress    | suppressed: business_deadline_reached, attempt given back
        third configuration  | any      | any         | any         | dead_letter: configuration, attempt given back
        ambiguous, accepted  | any      | any         | any         | dead_letter: reconciliation_required
        ",
    );
}

fn prepare(record: &mut Record, case: &Case<'_>) {
    set_deadline(record, case.get("deadline"));
    set_policy(record, case.get("at deadline"));
    if case.is("outcome", "third configuration") {
        record.configuration_met = 2;
    }
}

#[test]
fn an_outcome_before_the_intent_over_an_earlier_doubt() {
    check(
        &[("outcome", OUTCOMES), ("attempts", BUDGETS), ("deadline", DEADLINES), ("at deadline", POLICIES), ("window", &["holds", "short", "none"])],
        |case| {
            let mut record = standing("claimed");
            prepare(&mut record, case);
            doubting(&mut record);
            let (outcome, policy) = (outcome(case.get("outcome")), policy(case.get("attempts")));
            let rules = rules(&policy, case.get("window"));
            say(&record, transition(&record, &Event::Prepared { worker: ME, outcome: &outcome, rules, pins: Vec::new() }, now()))
        },
        "
        outcome                                | attempts | deadline    | at deadline | window      | answer
        transient, ambiguous, artifact missing | left     | ahead       | any         | holds       | scheduled: transient_failure, in doubt, 1 open
        throttled                              | left     | ahead       | any         | holds       | scheduled: throttled, in doubt, 1 open
        transient, ambiguous, artifact missing | left     | ahead       | any         | short, none | dead_letter: reconciliation_required, in doubt, 1 open
        throttled                              | left     | ahead       | any         | short, none | dead_letter: reconciliation_required, in doubt, 1 open
        transient, ambiguous, artifact missing | left     | near, past  | any         | any         | dead_letter: reconciliation_required, in doubt, 1 open
        throttled                              | left     | near, past  | any         | any         | dead_letter: reconciliation_required, in doubt, 1 open
        transient, ambiguous, artifact missing | used up  | any         | any         | any         | dead_letter: reconciliation_required, in doubt, 1 open
        throttled                              | used up  | any         | any         | any         | dead_letter: reconciliation_required, in doubt, 1 open
        configuration                          | any      | ahead, near | any         | any         | scheduled: configuration, attempt given back, in doubt, 1 open
        configuration                          | any      | past        | any         | any         | dead_letter: reconciliation_required, attempt given back, in doubt, 1 open
        third configuration                    | any      | any         | any         | any         | dead_letter: reconciliation_required, attempt given back, in doubt, 1 open
        permanent, suppressed, accepted        | any      | any         | any         | any         | dead_letter: reconciliation_required, in doubt, 1 open
        artifact mismatch                      | any      | any         | any         | any         | dead_letter: reconciliation_required, in doubt, 1 open
        ",
    );
}

fn receipt() -> Receipt {
    Receipt { at: now(), code: 250, text: "ok".into(), queue_id: None }
}

#[test]
fn the_owners_verdict_in_time_or_before_its_timer() {
    check(
        &[
            ("verdict", &["accepted", "unknown", "transient", "permanent", "configuration", "said ambiguous"]),
            ("attempts", BUDGETS),
            ("deadline", DEADLINES),
            ("at deadline", POLICIES),
            ("window", &["holds", "short", "none"]),
            ("stepped over", &["nothing", "a doubt"]),
        ],
        |case| {
            let mut record = standing("handoff");
            set_deadline(&mut record, case.get("deadline"));
            set_policy(&mut record, case.get("at deadline"));
            record.first_handoff_at = Some(at("08:31:00"));
            if case.is("stepped over", "a doubt") {
                record.window_doubts = vec![STEPPED_OVER];
                record.window_until = Some(at("08:50:00"));
            }
            let (receipt, policy) = (receipt(), policy(case.get("attempts")));
            let outcome = outcome(case.get("verdict").strip_prefix("said ").unwrap_or(if case.is("verdict", "unknown") { "ambiguous" } else { case.get("verdict") }));
            let verdict = match case.get("verdict") {
                "accepted" => Verdict::Accepted(&receipt),
                "unknown" => Verdict::Unknown(&outcome),
                _refused => Verdict::NotAccepted(&outcome),
            };
            say(&record, transition(&record, &Event::Verdict { token: PRESENT, verdict, rules: rules(&policy, case.get("window")) }, now()))
        },
        "
        verdict                 | attempts | deadline    | at deadline | window      | stepped over | answer
        accepted                | any      | any         | any         | any         | any          | sent: accepted
        unknown, said ambiguous | left     | ahead       | any         | holds       | nothing      | scheduled: transient_failure, in doubt, 1 open
        unknown, said ambiguous | left     | ahead       | any         | holds       | a doubt      | scheduled: transient_failure, in doubt, 2 open
        unknown, said ambiguous | left     | ahead       | any         | short, none | nothing      | dead_letter: reconciliation_required, in doubt, 1 open
        unknown, said ambiguous | left     | ahead       | any         | short, none | a doubt      | dead_letter: reconciliation_required, in doubt, 2 open
        unknown, said ambiguous | left     | near, past  | any         | any         | nothing      | dead_letter: reconciliation_required, in doubt, 1 open
        unknown, said ambiguous | left     | near, past  | any         | any         | a doubt      | dead_letter: reconciliation_required, in doubt, 2 open
        unknown, said ambiguous | used up  | any         | any         | any         | nothing      | dead_letter: reconciliation_required, in doubt, 1 open
        unknown, said ambiguous | used up  | any         | any         | any         | a doubt      | dead_letter: reconciliation_required, in doubt, 2 open
        transient               | left     | ahead       | any         | any         | nothing      | scheduled: transient_failure
        transient               | left     | near, past  | review      | any         | nothing      | dead_letter: business_deadline_reached
        transient               | left     | near, past  | suppress    | any         | nothing      | suppressed: business_deadline_reached
        transient               | used up  | any         | any         | any         | nothing      | dead_letter: retry_budget_exhausted
        transient               | left     | ahead       | any         | holds       | a doubt      | scheduled: transient_failure, in doubt, 1 open
        transient               | left     | ahead       | any         | short, none | a doubt      | dead_letter: reconciliation_required, in doubt, 1 open
        transient               | left     | near, past  | any         | any         | a doubt      | dead_letter: reconciliation_required, in doubt, 1 open
        transient               | used up  | any         | any         | any         | a doubt      | dead_letter: reconciliation_required, in doubt, 1 open
        permanent               | any      | any         | any         | any         | nothing      | dead_letter: permanent_failure
        permanent               | any      | any         | any         | any         | a doubt      | dead_letter: reconciliation_required, in doubt, 1 open
        configuration           | any      | ahead, near | any         | any         | nothing      | scheduled: configuration, attempt given back
        configuration           | any      | ahead, near | any         | any         | a doubt      | scheduled: configuration, attempt given back, in doubt, 1 open
        configuration           | any      | past        | review      | any         | nothing      | dead_letter: business_deadline_reached, attempt given back
        configuration           | any      | past        | suppress    | any         | nothing      | suppressed: business_deadline_reached, attempt given back
        configuration           | any      | past        | any         | any         | a doubt      | dead_letter: reconciliation_required, attempt given back, in doubt, 1 open
        ",
    );
}

/// Every record here holds three: the latest, one that it stepped over in the provider's window, one carried across a replay.
#[test]
fn a_late_verdict() {
    check(
        &[("state", STATES), ("token", &["latest", "stepped over", "carried", "foreign"]), ("verdict", &["accepted", "refused", "unknown"])],
        |case| {
            let mut record = standing(case.get("state"));
            doubting(&mut record);
            record.window_doubts = vec![STEPPED_OVER];
            record.doubts = vec![CARRIED];
            record.reason = Some(Reason::ReconciliationRequired);
            if record.state == State::Handoff && case.is("token", "latest") {
                return "in time".into();
            }
            let token = match case.get("token") {
                "latest" => PRESENT,
                "stepped over" => STEPPED_OVER,
                "carried" => CARRIED,
                _foreign => FOREIGN,
            };
            let (receipt, refused, unknown, policy) = (receipt(), outcome("transient"), outcome("ambiguous"), policy("left"));
            let verdict = match case.get("verdict") {
                "accepted" => Verdict::Accepted(&receipt),
                "refused" => Verdict::NotAccepted(&refused),
                _unknown => Verdict::Unknown(&unknown),
            };
            say(&record, transition(&record, &Event::Verdict { token, verdict, rules: rules(&policy, "none") }, now()))
        },
        "
        state                                             | token                         | verdict          | answer
        handoff                                           | latest                        | any              | in time
        handoff                                           | stepped over, carried         | accepted,refused | refused: WrongState
        handoff                                           | stepped over, carried         | unknown          | refused: NothingToChange
        handoff                                           | foreign                       | accepted         | refused: WrongState
        handoff                                           | foreign                       | refused, unknown | refused: NothingToChange
        waiting, claimed, dead_letter, dead_letter+       | latest, stepped over          | accepted         | sent: accepted, 1 open
        waiting, claimed, dead_letter, dead_letter+       | carried                       | accepted         | sent: accepted, 2 open
        waiting, claimed, dead_letter, dead_letter+       | latest, stepped over, carried | unknown          | refused: NothingToChange
        waiting, claimed, dead_letter, dead_letter+       | foreign                       | any              | refused: ForTheBook
        scheduled                                         | latest, stepped over, carried | refused          | scheduled: reconciliation_required, in doubt, 2 open
        queued                                            | latest, stepped over, carried | refused          | queued, in doubt, 2 open
        claimed                                           | latest, stepped over, carried | refused          | claimed, in doubt, 2 open
        dead_letter                                       | latest, stepped over, carried | refused          | dead_letter: reconciliation_required, in doubt, 2 open
        dead_letter+                                      | latest, stepped over, carried | refused          | refused: ForTheBook
        sent, sent+                                       | any                           | any              | refused: NothingToChange
        cancelled, suppressed, cancelled+, suppressed+    | any                           | accepted         | refused: ForTheBook
        cancelled, suppressed, cancelled+, suppressed+    | any                           | refused, unknown | refused: NothingToChange
        ",
    );
}

#[test]
fn a_lease_over_is_for_claimed_and_handoff() {
    check(
        &[("state", STATES), ("lease", &["runs", "over"])],
        |case| {
            let record = standing(case.get("state"));
            let now = if case.is("lease", "runs") { now() } else { now().plus(LEASE) };
            let policy = policy("left");
            say(&record, transition(&record, &Event::LeaseOver { rules: rules(&policy, "none") }, now))
        },
        "
        state            | lease | answer
        claimed, handoff | runs  | refused: LeaseRuns
        claimed          | over  | scheduled: lease_expired
        handoff          | over  | dead_letter: reconciliation_required, in doubt, 1 open
        waiting, ended   | any   | refused: WrongState
        ",
    );
}

#[test]
fn a_lease_over_decides_as_a_transient_outcome() {
    check(
        &[
            ("state", &["claimed", "handoff"]),
            ("attempts", BUDGETS),
            ("deadline", DEADLINES),
            ("at deadline", POLICIES),
            ("window", &["holds", "short"]),
            ("doubt", &["none", "earlier"]),
        ],
        |case| {
            let mut record = standing(case.get("state"));
            record.lease_until = Some(now());
            set_deadline(&mut record, case.get("deadline"));
            set_policy(&mut record, case.get("at deadline"));
            record.first_handoff_at = Some(at("08:31:00"));
            if case.is("doubt", "earlier") {
                doubting(&mut record);
            }
            if case.is("doubt", "earlier") && record.state == State::Handoff {
                record.window_doubts = vec![STEPPED_OVER];
            }
            let policy = policy(case.get("attempts"));
            say(&record, transition(&record, &Event::LeaseOver { rules: rules(&policy, case.get("window")) }, now()))
        },
        "
        state   | attempts | deadline   | at deadline | window | doubt   | answer
        claimed | left     | ahead      | any         | any    | none    | scheduled: lease_expired
        claimed | left     | near, past | review      | any    | none    | dead_letter: business_deadline_reached
        claimed | left     | near, past | suppress    | any    | none    | suppressed: business_deadline_reached
        claimed | used up  | any        | any         | any    | none    | dead_letter: worker_lost
        claimed | left     | ahead      | any         | holds  | earlier | scheduled: lease_expired, in doubt, 1 open
        claimed | left     | ahead      | any         | short  | earlier | dead_letter: reconciliation_required, in doubt, 1 open
        claimed | left     | near, past | any         | any    | earlier | dead_letter: reconciliation_required, in doubt, 1 open
        claimed | used up  | any        | any         | any    | earlier | dead_letter: reconciliation_required, in doubt, 1 open
        handoff | left     | ahead      | any         | holds  | none    | scheduled: lease_expired, in doubt, 1 open
        handoff | left     | ahead      | any         | short  | none    | dead_letter: reconciliation_required, in doubt, 1 open
        handoff | left     | near, past | any         | any    | none    | dead_letter: reconciliation_required, in doubt, 1 open
        handoff | used up  | any        | any         | any    | none    | dead_letter: reconciliation_required, in doubt, 1 open
        handoff | left     | ahead      | any         | holds  | earlier | scheduled: lease_expired, in doubt, 2 open
        handoff | left     | ahead      | any         | short  | earlier | dead_letter: reconciliation_required, in doubt, 2 open
        handoff | left     | near, past | any         | any    | earlier | dead_letter: reconciliation_required, in doubt, 2 open
        handoff | used up  | any        | any         | any    | earlier | dead_letter: reconciliation_required, in doubt, 2 open
        ",
    );
}

#[test]
fn the_deadline() {
    check(
        &[
            ("state", STATES),
            ("time", &["before", "at the window's end", "at the deadline"]),
            ("at deadline", POLICIES),
            ("last", &["artifact missing", "other"]),
            ("doubt", &["none", "earlier", "carried"]),
        ],
        |case| {
            let mut record = standing(case.get("state"));
            set_policy(&mut record, case.get("at deadline"));
            let rule = if case.is("last", "other") { RULE } else { "artifact-missing" };
            record.last = Some(LastOutcome { at: now(), class: OutcomeClass::Transient, stage: Stage::Rcpt, rule: rule.into(), diagnostic: String::new() });
            match case.get("doubt") {
                "earlier" => doubting(&mut record),
                "carried" => record.doubts = vec![CARRIED],
                _none => {}
            }
            let now = match case.get("time") {
                "before" => now(),
                "at the window's end" => at("08:50:00"),
                _deadline => record.deadline_at,
            };
            say(&record, transition(&record, &Event::DeadlineReached, now))
        },
        "
        state            | time                        | at deadline | last             | doubt         | answer
        waiting, claimed | before                      | any         | any              | any           | refused: NotDue
        waiting, claimed | at the window's end         | any         | any              | none, carried | refused: NotDue
        waiting, claimed | not before                  | any         | any              | earlier       | dead_letter: reconciliation_required, in doubt, 1 open
        waiting, claimed | at the deadline             | any         | artifact missing | none          | dead_letter: artifact_missing
        waiting, claimed | at the deadline             | any         | artifact missing | carried       | dead_letter: artifact_missing, 1 open
        waiting, claimed | at the deadline             | review      | other            | none          | dead_letter: business_deadline_reached
        waiting, claimed | at the deadline             | any         | other            | carried       | dead_letter: business_deadline_reached, 1 open
        waiting, claimed | at the deadline             | suppress    | other            | none          | suppressed: business_deadline_reached
        handoff, ended   | any                         | any         | any              | any           | refused: WrongState
        ",
    );
}

#[test]
fn a_strike() {
    check(
        &[("state", STATES), ("strike", &["first", "third"]), ("reason before", &["none", "transient_failure"]), ("doubt", &["none", "earlier"])],
        |case| {
            let mut record = standing(case.get("state"));
            record.strikes = if case.is("strike", "first") { 0 } else { 2 };
            record.reason = Reason::from_word(case.get("reason before"));
            if case.is("doubt", "earlier") {
                doubting(&mut record);
            }
            say(&record, transition(&record, &Event::Strike { until: now() }, now()))
        },
        "
        state          | strike | reason before     | doubt   | answer
        waiting        | first  | none              | none    | scheduled: given_back
        waiting        | first  | transient_failure | none    | scheduled: transient_failure
        waiting        | first  | none              | earlier | scheduled: given_back, in doubt, 1 open
        waiting        | first  | transient_failure | earlier | scheduled: transient_failure, in doubt, 1 open
        claimed        | first  | any               | none    | scheduled: given_back, attempt given back
        claimed        | first  | any               | earlier | scheduled: given_back, attempt given back, in doubt, 1 open
        waiting        | third  | any               | none    | dead_letter: poison_message
        waiting        | third  | any               | earlier | dead_letter: reconciliation_required, in doubt, 1 open
        claimed        | third  | any               | none    | dead_letter: poison_message, attempt given back
        claimed        | third  | any               | earlier | dead_letter: reconciliation_required, attempt given back, in doubt, 1 open
        handoff, ended | any    | any               | any     | refused: WrongState
        ",
    );
}

#[test]
fn an_operators_verb() {
    check(
        &[
            ("state", STATES),
            ("verb", &["cancel", "suppress", "move"]),
            ("number", &["new", "applied", "lower than one applied"]),
            ("generation", &["its own", "another"]),
            ("doubt", &["none", "earlier"]),
        ],
        |case| {
            let mut record = standing(case.get("state"));
            record.verbs = vec![5, 7];
            if case.is("doubt", "earlier") {
                doubting(&mut record);
            }
            let number = match case.get("number") {
                "new" => 8,
                "applied" => 5,
                _lower => 6,
            };
            let verb = match case.get("verb") {
                "cancel" => Verb::Cancel,
                "suppress" => Verb::Suppress,
                _move => Verb::Move { release_at: at("10:00:00"), deadline_at: at("11:00:00") },
            };
            let verb = NumberedVerb { number, generation: if case.is("generation", "its own") { 1 } else { 2 }, verb };
            say(&record, transition(&record, &Event::Verb(&verb), now()))
        },
        "
        state                    | verb           | number                 | generation | doubt   | answer
        any                      | any            | any                    | another    | any     | refused: Superseded
        any                      | any            | applied                | its own    | any     | refused: AppliedAlready
        any                      | any            | lower than one applied | its own    | any     | refused: Superseded
        waiting, claimed         | cancel         | new                    | its own    | none    | cancelled: operator
        waiting, claimed         | cancel         | new                    | its own    | earlier | cancelled: operator, in doubt, 1 open
        waiting, claimed         | suppress       | new                    | its own    | none    | suppressed: operator
        waiting, claimed         | suppress       | new                    | its own    | earlier | suppressed: operator, in doubt, 1 open
        waiting                  | move           | new                    | its own    | none    | scheduled
        waiting                  | move           | new                    | its own    | earlier | scheduled, in doubt, 1 open
        claimed                  | move           | new                    | its own    | none    | scheduled: given_back, attempt given back
        claimed                  | move           | new                    | its own    | earlier | scheduled: given_back, attempt given back, in doubt, 1 open
        cancelled, cancelled+    | cancel         | new                    | its own    | any     | refused: AppliedAlready
        suppressed, suppressed+  | suppress       | new                    | its own    | any     | refused: AppliedAlready
        cancelled, cancelled+    | suppress, move | new                    | its own    | any     | refused: Conflict
        suppressed, suppressed+  | cancel, move   | new                    | its own    | any     | refused: Conflict
        handoff, sent, sent+     | any            | new                    | its own    | any     | refused: Conflict
        dead_letter              | any            | new                    | its own    | any     | refused: Conflict
        dead_letter+             | any            | new                    | its own    | any     | refused: ForTheBook
        ",
    );
}

#[test]
fn closing() {
    check(
        &[("state", STATES)],
        |case| {
            let record = standing(case.get("state"));
            say(&record, transition(&record, &Event::Closed, now()))
        },
        "
        state                                        | answer
        sent                                         | sent+
        dead_letter                                  | dead_letter+
        cancelled                                    | cancelled+
        suppressed                                   | suppressed+
        sent+, dead_letter+, cancelled+, suppressed+ | refused: NothingToChange
        waiting, claimed, handoff                    | refused: WrongState
        ",
    );
}
