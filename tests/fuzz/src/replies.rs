//! A mail server's replies: read from bytes, judged by the table.

use curfew_domain::limits::DIAGNOSTIC_BYTES_MAX;
use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};
use curfew_transport::classify::{Heard, TABLE, Verdict, classify, queue_id, redact};
use curfew_transport::smtp::judge::{OUT_OF_STEP, after_marker, refused};
use curfew_transport::smtp::reply::{Parsed, Reply, parse};

/// Longer inputs aren't cut at every byte.
const CUT_BYTES_MAX: usize = 256;

/// The bytes are what a server says; whatever it is, each stage has an answer of the table, and no word of an address is kept.
pub fn smtp_reply(bytes: &[u8]) {
    let (reply, used) = match parse(bytes) {
        Parsed::Whole(reply, used) => (reply, used),
        Parsed::Partial(code) => return assert!(code.is_none_or(|code| (200..600).contains(&code))),
        Parsed::Garbage => return garbage_stays(bytes),
    };
    assert!(used <= bytes.len() && (200..600).contains(&reply.code) && bytes[used - 1] == b'\n');
    assert_eq!(parse(&bytes[..used]), Parsed::Whole(reply.clone(), used), "what follows a reply changes it");
    for cut in 0..used.min(CUT_BYTES_MAX) {
        assert!(matches!(parse(&bytes[..cut]), Parsed::Partial(_)), "the reply cut at {cut} is believed");
    }
    // One stage an input, or judging would be all that the fuzzer does.
    let sum = bytes[..used].iter().fold(0, |sum, b| sum + usize::from(*b));
    judged(Stage::ALL[sum % Stage::ALL.len()], &reply);
    let marker = after_marker(&reply);
    named(&marker);
    let certain = matches!(reply.digit(), 4 | 5);
    assert!(marker.class != OutcomeClass::Accepted && (certain || marker.class == OutcomeClass::Ambiguous), "{marker:?}");
    if let Some(id) = queue_id(&reply.text()) {
        assert!(id.len() <= 128 && !id.contains('@') && !id.chars().any(char::is_whitespace));
    }
}

fn judged(stage: Stage, reply: &Reply) {
    let text = reply.text();
    let judgement = classify(&Heard::reply(stage, reply.code, &text));
    assert!(TABLE.iter().any(|row| row.name == judgement.rule), "{} is no row", judgement.rule);
    if judgement.verdict == Verdict::Class(OutcomeClass::Accepted) {
        assert!(stage == Stage::Dot && (250..=252).contains(&reply.code), "accepted by {} at {stage}", judgement.rule);
    }
    assert!(judgement.retry_after.is_none_or(|wait| !wait.is_zero()));
    let outcome = refused(stage, reply);
    assert!(!matches!(outcome.class, OutcomeClass::Accepted | OutcomeClass::Ambiguous), "{outcome:?}");
    named(&outcome);
}

fn named(outcome: &Outcome) {
    assert!(outcome.rule == OUT_OF_STEP || TABLE.iter().any(|row| row.name == outcome.rule), "{} is no row", outcome.rule);
    let said = &outcome.diagnostic;
    assert!(said.len() <= DIAGNOSTIC_BYTES_MAX && !said.contains('@') && !said.chars().any(char::is_control), "{said:?}");
    assert_eq!(&redact(said), said, "a diagnostic is redacted once and for all");
}

/// More bytes never make sense of what made none.
fn garbage_stays(bytes: &[u8]) {
    let more = [bytes, b"\r\n250 ok\r\n"].concat();
    assert_eq!(parse(&more), Parsed::Garbage);
}
