//! What timers find and what others ask: a lease over, the deadline, a strike, an operator's verb, closing.

use curfew_domain::outcome::Stage;
use curfew_domain::record::LastOutcome;
use curfew_domain::transition::{Event, transition};
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{OutcomeClass, Reason, State};

use crate::check::{
    BUDGETS, CARRIED, DEADLINES, LEASE, POLICIES, RULE, STATES, STEPPED_OVER, check, doubting, now, policy, rules, say, set_deadline, set_policy,
    standing,
};
use crate::records::at;

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
