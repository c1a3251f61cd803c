//! What became of a token, in time and late.

use curfew_domain::outcome::Receipt;
use curfew_domain::transition::{Event, Verdict, transition};
use curfew_domain::{Reason, State};

use crate::check::{
    BUDGETS, CARRIED, DEADLINES, FOREIGN, POLICIES, PRESENT, STATES, STEPPED_OVER, check, doubting, now, outcome, policy, rules, say, set_deadline,
    set_policy, standing,
};
use crate::records::at;

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
        waiting, claimed, dead_letter, dead_letter+       | any                           | unknown          | refused: NothingToChange
        waiting, claimed                                  | foreign                       | refused          | refused: NothingToChange
        waiting, claimed                                  | foreign                       | accepted         | refused: ForTheBook
        dead_letter, dead_letter+                         | foreign                       | accepted,refused | refused: ForTheBook
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
