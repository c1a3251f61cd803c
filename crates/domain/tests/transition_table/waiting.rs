//! From the line to a worker: release, claim, and what refuses a claim.

use std::time::Duration;

use curfew_domain::Reason;
use curfew_domain::record::WaitingFor;
use curfew_domain::transition::{Event, transition};

use crate::check::{LEASE, ME, STATES, check, doubting, now, say, standing};
use crate::records::at;

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
