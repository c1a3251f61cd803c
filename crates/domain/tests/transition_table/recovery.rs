//! Recovery's events: what workers assert, what nobody can prove, what the book saw.

use curfew_domain::outcome::Receipt;
use curfew_domain::transition::{Assertion, BookStory, Change, Event, transition};
use curfew_domain::{Reason, Record, Refusal, State, Token};

use crate::check::{CARRIED, Case, FOREIGN, LEASE, OTHER, PRESENT, STATES, STEPPED_OVER, check, now, policy, rules, say, standing};
use crate::records::at;

const TOKENS: &[&str] = &["known", "all", "foreign"];

/// Says what became of a record, whatever generation and version it went to.
fn told(record: &Record, answer: Result<Change, Refusal>) -> String {
    let mut before = record.clone();
    if let Ok(change) = &answer {
        (before.version, before.generation) = (change.record.version - 1, change.record.generation);
        assert_eq!(change.record.incarnation, record.incarnation, "an errand keeps its incarnation");
        assert!(change.record.version > record.version);
    }
    say(&before, answer)
}

/// A record in a state, that has a token of its own in doubt, perhaps every token, or knows of none.
fn doubting(case: &Case<'_>) -> Record {
    let mut record = standing(case.get("state"));
    record.reason = record.state.is_terminal().then_some(Reason::PermanentFailure);
    record.token = match case.get("token") {
        "known" => Some(FOREIGN),
        "all" => Some(Token::ANY),
        _foreign => record.token,
    };
    record
}

fn receipt() -> Receipt {
    Receipt { at: now(), code: 250, text: "ok".into(), queue_id: None }
}

#[test]
fn a_receipt_that_is_asserted() {
    check(
        &[("state", STATES), ("generation", &["its own", "earlier", "later"])],
        |case| {
            let mut record = standing(case.get("state"));
            record.generation = 2;
            let generation = match case.get("generation") {
                "its own" => 2,
                "earlier" => 1,
                _later => 3,
            };
            let receipt = receipt();
            told(&record, transition(&record, &Event::Asserted { generation, token: FOREIGN, assertion: Assertion::Receipt(&receipt) }, now()))
        },
        "
        state                                          | generation       | answer
        any                                            | later            | refused: WrongState
        waiting, claimed                               | its own, earlier | sent: accepted
        handoff, dead_letter, dead_letter+             | its own          | sent: accepted
        handoff, dead_letter, dead_letter+             | earlier          | refused: NothingToChange
        sent, sent+                                    | its own, earlier | refused: NothingToChange
        cancelled, suppressed, cancelled+, suppressed+ | its own, earlier | refused: ForTheBook
        ",
    );
}

#[test]
fn a_handoff_that_is_asserted_while_it_is_under_way() {
    check(
        &[("state", STATES), ("token", TOKENS), ("the worker's record", &["later", "earlier", "of an earlier generation", "of a later generation"])],
        |case| {
            let mut record = doubting(case);
            (record.generation, record.version) = (2, 5);
            let mut held = standing("handoff");
            (held.token, held.worker, held.attempts) = (Some(FOREIGN), Some(OTHER), record.attempts);
            (held.generation, held.version) = match case.get("the worker's record") {
                "later" => (2, 9),
                "earlier" => (2, 4),
                "of an earlier generation" => (1, 9),
                _later => (3, 2),
            };
            let event = Event::Asserted { generation: held.generation, token: FOREIGN, assertion: Assertion::Handoff(&held) };
            let answer = transition(&record, &event, now());
            if let Some(change) = answer.as_ref().ok().filter(|change| change.record.token == Some(FOREIGN) && change.record.state == State::Handoff) {
                assert_eq!((change.record.worker, change.record.lease_until), (Some(OTHER), Some(now().plus(LEASE))));
            }
            told(&record, answer)
        },
        "
        state                                          | token      | the worker's record      | answer
        any                                            | any        | of a later generation    | refused: WrongState
        handoff                                        | known      | later, earlier           | handoff
        handoff                                        | all        | later, earlier           | refused: NothingToChange
        handoff                                        | foreign    | later                    | handoff
        handoff                                        | foreign    | earlier                  | handoff, 1 open
        waiting, claimed                               | foreign    | later                    | handoff
        waiting, claimed                               | foreign    | earlier                  | dead_letter: reconciliation_required, in doubt, 1 open
        waiting, claimed                               | known, all | later, earlier           | refused: NothingToChange
        dead_letter                                    | foreign    | later, earlier           | dead_letter: reconciliation_required, in doubt, 1 open
        cancelled                                      | foreign    | later, earlier           | cancelled: permanent_failure, 1 open
        suppressed                                     | foreign    | later, earlier           | suppressed: permanent_failure, 1 open
        dead_letter, cancelled, suppressed             | known, all | later, earlier           | refused: NothingToChange
        scheduled                                      | foreign    | of an earlier generation | scheduled, 1 open
        queued                                         | foreign    | of an earlier generation | queued, 1 open
        claimed                                        | foreign    | of an earlier generation | claimed, 1 open
        handoff                                        | foreign    | of an earlier generation | handoff, 1 open
        dead_letter                                    | foreign    | of an earlier generation | dead_letter: permanent_failure, 1 open
        cancelled                                      | foreign    | of an earlier generation | cancelled: permanent_failure, 1 open
        suppressed                                     | foreign    | of an earlier generation | suppressed: permanent_failure, 1 open
        waiting, claimed, handoff                      | known, all | of an earlier generation | refused: NothingToChange
        dead_letter, cancelled, suppressed             | known, all | of an earlier generation | refused: NothingToChange
        sent, sent+                                    | any        | not of a later generation | refused: NothingToChange
        dead_letter+, cancelled+, suppressed+          | any        | not of a later generation | refused: NothingToChange
        ",
    );
}

#[test]
fn a_handoff_that_nobody_can_tell_of() {
    check(
        &[("state", STATES), ("token", TOKENS), ("generation", &["its own", "earlier"])],
        |case| {
            let mut record = doubting(case);
            record.generation = 2;
            let generation = if case.is("generation", "its own") { 2 } else { 1 };
            told(&record, transition(&record, &Event::Asserted { generation, token: FOREIGN, assertion: Assertion::Unknown }, now()))
        },
        "
        state                                          | token      | generation | answer
        waiting, claimed                               | foreign    | its own    | dead_letter: reconciliation_required, in doubt, 1 open
        handoff                                        | foreign    | its own    | handoff, 1 open
        dead_letter                                    | foreign    | its own    | dead_letter: reconciliation_required, in doubt, 1 open
        dead_letter                                    | foreign    | earlier    | dead_letter: permanent_failure, 1 open
        cancelled                                      | foreign    | any        | cancelled: permanent_failure, 1 open
        suppressed                                     | foreign    | any        | suppressed: permanent_failure, 1 open
        scheduled                                      | foreign    | earlier    | scheduled, 1 open
        queued                                         | foreign    | earlier    | queued, 1 open
        claimed                                        | foreign    | earlier    | claimed, 1 open
        handoff                                        | foreign    | earlier    | handoff, 1 open
        waiting, claimed, handoff                      | known, all | any        | refused: NothingToChange
        dead_letter, cancelled, suppressed             | known, all | any        | refused: NothingToChange
        sent, sent+                                    | any        | any        | refused: NothingToChange
        dead_letter+, cancelled+, suppressed+          | any        | any        | refused: NothingToChange
        ",
    );
}

/// Nobody's to send while somebody's lease may run; then in review, in doubt about every token of its generation.
#[test]
fn what_nobody_can_prove() {
    check(
        &[("state", STATES), ("token", TOKENS), ("a lease may run", &["yes", "no"])],
        |case| {
            let record = doubting(case);
            let until = case.is("a lease may run", "yes").then(|| now().plus(LEASE));
            let answer = transition(&record, &Event::RolledBack { until }, now());
            if let Ok(change) = &answer {
                assert_eq!(change.record.token, Some(Token::ANY));
                assert!(record.token.is_none_or(|token| token == Token::ANY || change.record.window_doubts == [token]), "no doubt is dropped");
            }
            told(&record, answer)
        },
        "
        state            | token          | a lease may run | answer
        waiting, claimed | foreign        | yes             | handoff
        waiting, claimed | all            | yes             | handoff
        waiting, claimed | known          | yes             | handoff, 1 open
        waiting, claimed | foreign, all   | no              | dead_letter: ledger_rolled_back, in doubt, 1 open
        waiting, claimed | known          | no              | dead_letter: ledger_rolled_back, in doubt, 2 open
        handoff          | foreign, known | yes             | handoff, 1 open
        handoff          | foreign, known | no              | dead_letter: ledger_rolled_back, in doubt, 2 open
        handoff          | all            | yes             | refused: NothingToChange
        handoff          | all            | no              | dead_letter: ledger_rolled_back, in doubt, 1 open
        ended            | any            | any             | refused: WrongState
        ",
    );
}

/// Its lease ends like any other, but no provider's window holds for a handoff that nobody saw.
#[test]
fn a_lease_of_somebody_lost_ends_in_review() {
    let (mut record, policy) = (standing("handoff"), policy("left"));
    record.token = Some(Token::ANY);
    let over = transition(&record, &Event::LeaseOver { rules: rules(&policy, "holds") }, now().plus(LEASE));
    assert_eq!(told(&record, over), "dead_letter: ledger_rolled_back, in doubt, 1 open");
}

#[test]
fn the_books_later_story() {
    check(
        &[("state", STATES), ("the book says", &["sent", "dead_letter", "cancelled", "scheduled"]), ("generation", &["its own", "later", "earlier"])],
        |case| {
            let mut record = standing(case.get("state"));
            (record.generation, record.doubts) = (2, vec![CARRIED]);
            let generation = match case.get("generation") {
                "its own" => 2,
                "later" => 3,
                _earlier => 1,
            };
            let state = State::from_word(case.get("the book says")).expect("a state");
            let token = (state == State::DeadLetter).then_some(PRESENT);
            let story = BookStory { generation, state, reason: None, receipt: None, token, window_doubts: Vec::new(), doubts: vec![STEPPED_OVER] };
            told(&record, transition(&record, &Event::BookWins(&story), now()))
        },
        "
        state | the book says | generation     | answer
        any   | scheduled     | any            | refused: WrongState
        any   | not scheduled | earlier        | refused: WrongState
        any   | sent          | its own, later | sent+, 1 open
        any   | dead_letter   | its own, later | dead_letter+, in doubt, 2 open
        any   | cancelled     | its own, later | cancelled+, 1 open
        ",
    );
}

#[test]
fn the_books_later_move_and_a_dropped_claim() {
    check(
        &[("state", STATES), ("event", &["move", "dropped"])],
        |case| {
            let record = standing(case.get("state"));
            let event = match case.get("event") {
                "move" => Event::MovedInBook { release_at: at("10:00:00"), deadline_at: at("11:00:00") },
                _dropped => Event::ClaimDropped,
            };
            told(&record, transition(&record, &event, now()))
        },
        "
        state          | event   | answer
        waiting        | move    | scheduled
        claimed        | any     | scheduled: given_back, attempt given back
        waiting        | dropped | refused: WrongState
        handoff, ended | any     | refused: WrongState
        ",
    );
}

#[test]
fn a_receipt_ends_the_generation_that_the_book_staged() {
    check(
        &[("state", STATES), ("generation", &["later", "its own"])],
        |case| {
            let record = standing(case.get("state"));
            let generation = if case.is("generation", "later") { 2 } else { 1 };
            told(&record, transition(&record, &Event::SentInGeneration(generation), now()))
        },
        "
        state          | generation | answer
        sent, sent+    | later      | sent
        sent, sent+    | its own    | refused: WrongState
        not sent,sent+ | any        | refused: WrongState
        ",
    );
}
