//! The sentences that operators read, golden: one line per situation.

mod records;

use curfew_domain::explain::{explain, explain_planned};
use curfew_domain::outcome::{Receipt, Stage};
use curfew_domain::record::{LastOutcome, WaitingFor};
use curfew_domain::{Moment, OutcomeClass, Reason, Record, State, Token};
use records::at;
use uuid::Uuid;

const GOLDEN: &str = include_str!("fixtures/explain.txt");

fn last(class: OutcomeClass, stage: Stage, rule: &str, diagnostic: &str) -> Option<LastOutcome> {
    Some(LastOutcome { at: at("08:35:02"), class, stage, rule: rule.into(), diagnostic: diagnostic.into() })
}

fn greylisted() -> Option<LastOutcome> {
    last(OutcomeClass::Transient, Stage::Rcpt, "rcpt-greylisted", "451 4.7.1 Greylisted, come back in 5 min")
}

fn now() -> Moment {
    at("08:40:00")
}

fn scheduled(attempts: u32, reason: Option<Reason>, waiting_for: Option<WaitingFor>, next: &str) -> Record {
    Record { attempts, reason, waiting_for, next_attempt_at: at(next), last: if attempts > 0 { greylisted() } else { None }, ..records::record() }
}

fn doubting(record: Record) -> Record {
    Record {
        token: Some(Token(Uuid::from_u128(1))),
        first_handoff_at: Some(at("08:31:00")),
        window_until: Some(at("08:55:00")),
        lease_until: (record.state == State::DeadLetter).then(|| at("08:31:00")),
        last: last(OutcomeClass::Ambiguous, Stage::Dot, "dot-lost", "the connection was lost after the end marker"),
        ..record
    }
}

fn ended(state: State, reason: Reason) -> Record {
    Record { state, reason: Some(reason), attempts: 3, last: greylisted(), ..records::record() }
}

/// Every situation with its name, in the order of the golden file.
fn situations() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut say = |name: &str, record: &Record, now: Moment| all.push((name.to_owned(), explain(record, Some(3), now)));
    let again = scheduled(2, Some(Reason::TransientFailure), Some(WaitingFor::Retry), "08:45:12");
    say("release ahead", &scheduled(0, None, Some(WaitingFor::Release), "08:30:00"), at("08:00:00"));
    say(
        "release on another day",
        &scheduled(0, None, Some(WaitingFor::Release), "08:30:00"),
        Moment::parse("2026-11-30T22:00:00Z").expect("a moment"),
    );
    say("due", &scheduled(0, None, None, "08:30:00"), now());
    say("retry", &again, now());
    say("retry, due", &again, at("08:46:00"));
    say(
        "retry, without a reply's code",
        &Record { last: last(OutcomeClass::Transient, Stage::Connect, "connect-refused", "connection refused"), ..again.clone() },
        now(),
    );
    say(
        "retry, words with an address",
        &Record { last: last(OutcomeClass::Transient, Stage::Rcpt, "rcpt-busy", "busy for ada@example.com"), ..again.clone() },
        now(),
    );
    say(
        "retry, throttled",
        &Record {
            reason: Some(Reason::Throttled),
            last: last(OutcomeClass::Throttled, Stage::Mail, "mail-rate", "421 4.7.0 slow down"),
            ..again.clone()
        },
        now(),
    );
    say("retry, lease expired", &Record { reason: Some(Reason::LeaseExpired), ..again.clone() }, now());
    say("retry, in the provider's window", &doubting(again.clone()), now());
    say(
        "set-up is wrong",
        &Record {
            reason: Some(Reason::Configuration),
            waiting_for: Some(WaitingFor::Circuit),
            last: last(OutcomeClass::Configuration, Stage::Auth, "auth-refused", "535 5.7.8 bad credentials"),
            ..again.clone()
        },
        now(),
    );
    say("given back", &Record { reason: Some(Reason::GivenBack), waiting_for: None, attempts: 0, last: None, ..again.clone() }, now());
    for limit in WaitingFor::ALL.iter().filter(|w| !matches!(w, WaitingFor::Release | WaitingFor::Retry)) {
        say(limit.word(), &scheduled(0, Some(Reason::GivenBack), Some(*limit), "08:40:30"), now());
    }
    say("retry held by a limit", &Record { waiting_for: Some(WaitingFor::CoolDown), ..again.clone() }, now());
    say("limit over", &scheduled(0, Some(Reason::GivenBack), Some(WaitingFor::TenantRate), "08:39:30"), now());
    say("next time after the deadline", &scheduled(0, Some(Reason::GivenBack), Some(WaitingFor::Pause), "09:00:00"), now());
    say("deadline passed", &again, at("09:00:00"));
    say("window passed", &doubting(again.clone()), at("08:55:00"));
    say("queued", &Record { state: State::Queued, waiting_for: None, ..again.clone() }, at("08:45:20"));
    say("queued, on its rung", &Record { state: State::Queued, waiting_for: None, ..again.clone() }, now());
    let claimed = Record { state: State::Claimed, attempts: 3, lease_until: Some(at("08:46:12")), ..again.clone() };
    say("claimed", &claimed, at("08:45:13"));
    say("claimed, lease over", &claimed, at("08:46:13"));
    let handoff = Record { state: State::Handoff, token: Some(Token(Uuid::from_u128(2))), ..claimed.clone() };
    say("handoff", &handoff, at("08:45:13"));
    say("handoff, lease over", &handoff, at("08:46:13"));
    let receipt = Receipt { at: at("08:45:14"), code: 250, text: "2.0.0 Ok".into(), queue_id: Some("4XyZ12".into()) };
    let sent = Record { receipt: Some(receipt.clone()), last: None, ..ended(State::Sent, Reason::Accepted) };
    say("sent", &sent, at("08:45:15"));
    say("sent, the day after", &sent, Moment::parse("2026-12-02T08:00:00Z").expect("a moment"));
    say("sent, without a queue id", &Record { receipt: Some(Receipt { queue_id: None, ..receipt.clone() }), ..sent.clone() }, now());
    say("sent, captured", &Record { receipt: Some(Receipt { code: 0, queue_id: Some("0001.eml".into()), ..receipt }), ..sent.clone() }, now());
    say("sent, an older handoff in doubt", &Record { doubts: vec![Token(Uuid::from_u128(9))], ..sent }, now());
    for reason in Reason::ALL.iter().filter(|r| runs_never_again(**r)) {
        say(&format!("dead letter, {reason}"), &ended(State::DeadLetter, *reason), at("09:00:00"));
    }
    let unknown_user = last(OutcomeClass::Permanent, Stage::Rcpt, "rcpt-unknown-user", "550 5.1.1 no such user");
    say("dead letter, unknown user", &Record { last: unknown_user, ..ended(State::DeadLetter, Reason::PermanentFailure) }, now());
    let replayed = Record { doubts: vec![Token(Uuid::from_u128(9))], ..ended(State::DeadLetter, Reason::BusinessDeadlineReached) };
    say("dead letter, a replay over a doubt", &replayed, at("09:00:00"));
    let doubt = doubting(ended(State::DeadLetter, Reason::ReconciliationRequired));
    say("dead letter, in doubt", &doubt, now());
    say("dead letter, in doubt, rest over", &doubt, at("08:46:00"));
    say("dead letter, ledger rolled back, in doubt", &doubting(ended(State::DeadLetter, Reason::LedgerRolledBack)), now());
    say("cancelled", &ended(State::Cancelled, Reason::Operator), now());
    say("cancelled, in doubt", &doubting(ended(State::Cancelled, Reason::Operator)), now());
    say("suppressed by an operator", &ended(State::Suppressed, Reason::Operator), now());
    say("suppressed by the list", &ended(State::Suppressed, Reason::SuppressionList), now());
    say("suppressed by its policy", &ended(State::Suppressed, Reason::BusinessDeadlineReached), at("09:00:00"));
    all.push(("retry, budget unknown".into(), explain(&again, None, now())));
    all.push(("planned".into(), explain_planned(at("08:30:00"), at("09:00:00"), at("08:00:00"))));
    all.push((
        "planned, another day".into(),
        explain_planned(at("08:30:00"), at("09:00:00"), Moment::parse("2026-11-30T12:00:00Z").expect("a moment")),
    ));
    all.push(("planned, due".into(), explain_planned(at("08:30:00"), at("09:00:00"), now())));
    all.push(("planned, too late".into(), explain_planned(at("08:30:00"), at("09:00:00"), at("09:00:00"))));
    all
}

/// The contract's dead letters.
fn runs_never_again(reason: Reason) -> bool {
    match reason {
        Reason::PermanentFailure
        | Reason::RecipientSuppressed
        | Reason::ReconciliationRequired
        | Reason::RetryBudgetExhausted
        | Reason::BusinessDeadlineReached
        | Reason::ArtifactMissing
        | Reason::ArtifactMismatch
        | Reason::Configuration
        | Reason::WorkerLost
        | Reason::MalformedMessage
        | Reason::PoisonMessage
        | Reason::LedgerRecordMissing
        | Reason::LedgerRolledBack
        | Reason::BookRolledBack => true,
        Reason::Accepted
        | Reason::TransientFailure
        | Reason::Throttled
        | Reason::LeaseExpired
        | Reason::GivenBack
        | Reason::Operator
        | Reason::Policy
        | Reason::SuppressionList => false,
    }
}

/// The golden file is `name: sentence` a line; what differs is printed whole, to be read and pasted.
#[test]
fn every_situation_has_its_sentence() {
    let found: Vec<String> = situations().into_iter().map(|(name, sentence)| format!("{name}: {sentence}")).collect();
    let golden: Vec<&str> = GOLDEN.lines().collect();
    assert_eq!(found, golden, "found:\n{}\n", found.join("\n"));
}

#[test]
fn the_contracts_sentence_stands() {
    let again = scheduled(2, Some(Reason::TransientFailure), Some(WaitingFor::Retry), "08:45:12");
    let contract = "Runs again at 08:45:12 (attempt 3 of 3) because the server answered 451 4.7.1; stops at 09:00:00.";
    assert_eq!(explain(&again, Some(3), now()), contract);
}

#[test]
fn no_sentence_holds_an_address_or_a_second_line() {
    for (name, sentence) in situations() {
        assert!(!sentence.contains(['@', '\n', '\r']), "{name}: {sentence}");
        assert!(sentence.ends_with('.') && !sentence.contains("..") && !sentence.contains("  "), "{name}: {sentence}");
    }
}
