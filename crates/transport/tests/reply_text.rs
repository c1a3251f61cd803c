//! What is read from a reply's text besides its class: a wait, a queue id; and what must not stay in it.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use curfew_domain::limits::DIAGNOSTIC_BYTES_MAX;
use curfew_domain::outcome::{OutcomeClass, Scope, Stage};
use curfew_transport::classify::{Event, Heard, Verdict, classify, enhanced_code, queue_id, redact};
use proptest::prelude::*;

fn wait(text: &str) -> Option<u64> {
    classify(&Heard::reply(Stage::Mail, 451, text)).retry_after.map(|d| d.as_secs())
}

#[test]
fn a_wait_that_the_text_names_is_read() {
    for (text, seconds) in [
        ("4.4.5 server busy, please try again in 5 minutes from [192.0.2.10]", Some(300)),
        ("4.7.1 sending rate for account exceeded, retry in 30 minutes", Some(1800)),
        ("4.2.0 greylisted, try again in 300 seconds", Some(300)),
        ("4.2.0 Greylisting in action, please come back in 00:06:40", Some(400)),
        ("4.7.1 rate limited, please wait 90s", Some(90)),
        ("4.7.1 rate limited; retry after 2 hours", Some(7200)),
        ("4.7.1 delayed, try again in at least 10 min.", Some(600)),
        ("4.7.1 try again later", None),
        ("4.7.1 Sender rate exceeded, 100 messages in 60 minutes", None),
        ("4.7.1 try again in 0 seconds", None),
        ("4.7.1 try again in 99999999999999999999 minutes", None),
        ("4.7.1 try again in 18446744073709551615 minutes", Some(7 * 24 * 3600)),
    ] {
        assert_eq!(wait(text), seconds, "{text}");
    }
}

#[test]
fn greylisting_waits_five_minutes_unless_it_names_more() {
    let judgement = |text: &str| classify(&Heard::reply(Stage::Rcpt, 451, text));
    assert_eq!(judgement("4.7.1 greylisted").retry_after, Some(Duration::from_secs(300)));
    assert_eq!(judgement("4.7.1 greylisted, retry in 20 minutes").retry_after, Some(Duration::from_secs(1200)));
    assert_eq!(judgement("4.7.1 greylisted, retry in 20 seconds").retry_after, Some(Duration::from_secs(300)), "sooner is refused again");
}

#[test]
fn a_soft_reading_of_a_hard_digit_says_so() {
    let soft = classify(&Heard::reply(Stage::Dot, 554, "5.3.0 temporary failure, please try again"));
    assert!(soft.softened && soft.verdict == Verdict::Class(OutcomeClass::Transient));
    assert!(classify(&Heard::reply(Stage::Rcpt, 450, "5.7.1 service refused")).softened);
    assert!(!classify(&Heard::reply(Stage::Dot, 451, "4.3.0 try again")).softened);
    assert!(!classify(&Heard::reply(Stage::Mail, 550, "5.4.5 daily sending quota exceeded")).softened, "a quota ends by itself");
}

#[test]
fn a_recipients_rate_is_not_the_transports() {
    let scope = |stage, code, text| classify(&Heard::reply(stage, code, text)).scope;
    assert_eq!(scope(Stage::Rcpt, 450, "4.2.1 this user receives mail too quickly"), Scope::Recipient);
    assert_eq!(scope(Stage::Rcpt, 450, "4.2.1 peak SMTP relay limit exceeded for customer"), Scope::Transport);
}

#[test]
fn an_enhanced_code_has_three_numbers_and_a_known_class() {
    assert_eq!(enhanced_code("5.1.10"), Some((5, 1, 10)));
    for none in ["RP-001", "1", "3.1.1", "5.1", "5.1.1.1", "5.1234.1", "5..1", "", "4.16.", "٥.1.1"] {
        assert_eq!(enhanced_code(none), None, "{none}");
    }
}

#[test]
fn the_servers_queue_id_is_found() {
    for (text, id) in [
        ("2.0.0 Ok: queued as 4ZK3QH5xYz", Some("4ZK3QH5xYz")),
        ("2.0.0 from MTA(smtp:[127.0.0.1]:10025): 250 2.0.0 Ok: queued as 12AB34", Some("12AB34")),
        ("OK id=1tA2bC-000000-0x", Some("1tA2bC-000000-0x")),
        ("2.6.0 <stable-id@example.com> [InternalId=33607, Hostname=HOST.example] queued mail for delivery", Some("33607")),
        ("Ok 0100018c0ffee000-1111-2222-3333-444455556666-000000", Some("0100018c0ffee000-1111-2222-3333-444455556666-000000")),
        ("2.0.0 3AB1cdEf012345 Message accepted for delivery", Some("3AB1cdEf012345")),
        ("2.0.0 OK  1714400000 d2e1a72fcca58-3a4f9c1b2d7si812345.41 - gsmtp", Some("d2e1a72fcca58-3a4f9c1b2d7si812345.41")),
        ("2.0.0 Ok", None),
        ("queued as <ada@example.com>", None),
        ("message accepted for delivery", None),
        ("", None),
    ] {
        assert_eq!(queue_id(text).as_deref(), id, "{text}");
    }
}

#[test]
fn no_spelling_of_an_address_survives_redaction() {
    let encoded = STANDARD.encode("ada.lovelace@example.com");
    let login = STANDARD.encode("\0ada@example.com\0password");
    for text in [
        "<ada@example.com>: user unknown",
        "user ada@example.com, unknown",
        "mailto:ada@example.com?subject=x",
        "<\"ada lovelace\"@example.com> unknown",
        "to \"ada lovelace\"@example.com: unknown",
        "ada%40example.com unknown",
        "ada=40example.com unknown",
        "ada＠example.com",
        "IMCEASMTP-ada+40example+2Ecom unknown",
        "(ada@[192.0.2.1])",
        &format!("decoded {encoded} badly"),
        &format!("auth {login}"),
        "one\r\ntwo ada@example.com\r\nthree",
    ] {
        let kept = redact(text);
        assert!(!kept.contains("ada") && !kept.contains('@') && !kept.contains(encoded.trim_end_matches('=')) && !kept.contains(&login), "{kept}");
        assert!(!kept.contains(['\r', '\n']));
    }
    assert_eq!(redact("550 5.1.1 user unknown in table, id 4ZK3QH5xYz"), "550 5.1.1 user unknown in table, id 4ZK3QH5xYz");
    assert!(!redact(&"t0k3n".repeat(40)).contains("t0k3n"));
}

/// Found by fuzzing: a reply of 64 KiB full of `"@` held its reader for seconds, each mark moving the whole rest.
#[test]
fn of_a_giant_reply_the_beginning_is_read_and_no_half_of_an_address() {
    assert!(redact(&"\"@ ".repeat(21_000)).len() <= DIAGNOSTIC_BYTES_MAX);
    // What is read ends in "ada.love", which has no `@`.
    let words = format!("<{}@> ada.lovelace@example.com unknown", "y".repeat(8_180));
    assert_eq!(redact(&words), "[…]");
    assert_eq!(redact(&"y".repeat(9_000)), "");
}

#[test]
fn an_outcome_carries_what_the_judgement_found() {
    let heard = Heard::reply(Stage::Rcpt, 450, "4.2.1 <ada@example.com> receives mail too quickly, try again in 10 minutes");
    let outcome = classify(&heard).outcome(heard.stage, heard.text).expect("a class ends the attempt");
    assert_eq!((outcome.class, outcome.scope), (OutcomeClass::Throttled, Scope::Recipient));
    assert_eq!(outcome.retry_after, Some(Duration::from_secs(600)));
    assert!(!outcome.diagnostic.contains("ada") && outcome.diagnostic.contains("too quickly"));
    assert!(classify(&Heard::event(Stage::Quit, Event::TimedOut)).outcome(Stage::Quit, "").is_none());
}

proptest! {
    #[test]
    fn any_reply_has_a_judgement(stage in proptest::sample::select(Stage::ALL.to_vec()), code in proptest::option::of(any::<u16>()), enhanced in ".{0,12}", text in "(?s).{0,300}") {
        let judgement = classify(&Heard::described(stage, code, Some(&enhanced), &text));
        prop_assert!(judgement.verdict != Verdict::Class(OutcomeClass::Accepted) || stage == Stage::Dot);
        prop_assert!(judgement.outcome(stage, &text).is_none_or(|o| o.diagnostic.len() <= DIAGNOSTIC_BYTES_MAX));
    }

    #[test]
    fn redaction_is_bounded_and_done_once(text in "(?s).{0,900}") {
        let kept = redact(&text);
        prop_assert!(kept.len() <= DIAGNOSTIC_BYTES_MAX && !kept.contains('@'));
        prop_assert_eq!(redact(&kept), kept.clone());
    }

    #[test]
    fn whatever_happens_after_the_end_marker_is_in_doubt(text in "<event: [a-zA-Z ]{0,60}>") {
        prop_assert_eq!(classify(&Heard::described(Stage::Dot, None, None, &text)).verdict, Verdict::Class(OutcomeClass::Ambiguous));
    }
}
