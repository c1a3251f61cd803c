//! The owner's own steps: renewal, intent, giving back, and an outcome before the intent.

use std::time::Duration;

use curfew_domain::Record;
use curfew_domain::transition::{Event, transition};

use crate::check::{
    BUDGETS, CARRIED, Case, DEADLINES, FOREIGN, LEASE, ME, OTHER, OWNERS, POLICIES, STATES, check, doubting, now, outcome, policy, rules, say,
    set_deadline, set_policy, standing,
};

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
