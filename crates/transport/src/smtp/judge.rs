//! From what the driver met to an outcome, by the classification table.
//!
//! The stage outranks the table: before the end marker nothing can be accepted or in doubt, after it nothing but a whole refusal is certain.

use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};

use super::dialogue::Broken;
use super::reply::Reply;
use crate::classify::{Event, Heard, Verdict, classify};

/// A refusal, or another reply that ends the attempt before the end marker.
pub fn refused(stage: Stage, reply: &Reply) -> Box<Outcome> {
    let text = reply.text();
    let judgement = classify(&Heard::reply(stage, reply.code, &text));
    let said = format!("{} {text}", reply.code);
    let outcome =
        judgement.outcome(stage, &said).unwrap_or_else(|| Outcome::new(OutcomeClass::Transient, stage, OUT_OF_STEP, words(Event::IncompleteReply)));
    before_marker(outcome)
}

/// Something happened instead of a reply, before the end marker.
pub(super) fn met(stage: Stage, event: Event) -> Box<Outcome> {
    let judgement = classify(&Heard::event(stage, event));
    let outcome =
        judgement.outcome(stage, words(event)).unwrap_or_else(|| Outcome::new(OutcomeClass::Transient, stage, judgement.rule, words(event)));
    before_marker(outcome)
}

/// The same, for a dialogue that can't go on.
pub(super) fn broken(stage: Stage, broken: Broken) -> Box<Outcome> {
    match broken {
        Broken::Met(event) => met(stage, event),
        Broken::OutOfStep => out_of_step(stage),
    }
}

/// The rule's name where replies don't answer what was asked.
pub const OUT_OF_STEP: &str = "out-of-step";

/// The server said something nobody asked for, before the end marker: the connection is of no use, the job has met nothing.
pub(super) fn out_of_step(stage: Stage) -> Box<Outcome> {
    Box::new(Outcome::new(OutcomeClass::Transient, stage, OUT_OF_STEP, "the server's replies were out of step with what was asked"))
}

/// A refusal of the driver's own, in its own words.
pub(super) fn own(class: OutcomeClass, stage: Stage, rule: &'static str, why: &str) -> Box<Outcome> {
    Box::new(Outcome::new(class, stage, rule, why))
}

/// The reply to the end marker that isn't an acceptance: 4yz and 5yz refuse, unless the table knows their words as a proxy's; anything
/// else is in doubt.
pub fn after_marker(reply: &Reply) -> Box<Outcome> {
    let text = reply.text();
    let judgement = classify(&Heard::reply(Stage::Dot, reply.code, &text));
    let said = format!("{} {text}", reply.code);
    match judgement.verdict {
        Verdict::Class(OutcomeClass::Accepted) | Verdict::Continue | Verdict::ResultUnchanged | Verdict::Reconnect => doubt(OUT_OF_STEP, &said),
        Verdict::Class(_) if !matches!(reply.digit(), 4 | 5) => doubt(judgement.rule, &said),
        Verdict::Class(_) => Box::new(judgement.outcome(Stage::Dot, &said).expect("a class makes an outcome")),
    }
}

/// Something happened instead of a reply to the end marker: in doubt, whatever it was.
pub(super) fn met_after_marker(broken: Broken) -> Box<Outcome> {
    let event = match broken {
        Broken::Met(event) => event,
        Broken::OutOfStep => Event::IncompleteReply,
    };
    doubt(classify(&Heard::event(Stage::Dot, event)).rule, words(event))
}

/// In doubt.
pub(super) fn doubt(rule: &'static str, why: &str) -> Box<Outcome> {
    Box::new(Outcome::new(OutcomeClass::Ambiguous, Stage::Dot, rule, crate::classify::redact(why)))
}

fn before_marker(mut outcome: Outcome) -> Box<Outcome> {
    if matches!(outcome.class, OutcomeClass::Accepted | OutcomeClass::Ambiguous) {
        outcome.class = OutcomeClass::Transient;
    }
    Box::new(outcome)
}

/// Our words for what happened; no name, no address.
fn words(event: Event) -> &'static str {
    match event {
        Event::TimedOut => "no answer within the phase's time",
        Event::Reset => "the connection was reset",
        Event::Closed => "the connection was closed",
        Event::Refused => "the connection was refused",
        Event::NoRoute => "no route to the relay",
        Event::DnsTemporary => "the relay's name could not be looked up for now",
        Event::RelayUnknown => "the relay's name does not exist",
        Event::RecipientDomainUnknown => "the recipient's domain does not exist",
        Event::BindUnavailable => "the local address is not available",
        Event::CertificateName => "the certificate is for another name",
        Event::CertificateInvalid => "the certificate is not valid",
        Event::UnknownIssuer => "the certificate's issuer is not trusted",
        Event::NoCommonTls => "no common TLS version or cipher, or no TLS there",
        Event::HandshakeFailed => "the TLS handshake broke off",
        Event::TlsInjection => "plaintext stood behind the answer to STARTTLS",
        Event::StarttlsMissing => "the server does not offer STARTTLS, which is required",
        Event::MechanismMissing => "the server does not offer the configured AUTH mechanism",
        Event::CredentialsMissing => "the password cannot be read",
        Event::ExtensionMissing => "the server lacks an extension that the message needs",
        Event::NotSmtp => "the other side does not speak SMTP",
        Event::BrokenPipe => "a write failed",
        Event::WorkerDied => "the worker died before the end marker",
        Event::WorkerDiedInDoubt => "the worker died when the end marker may have been out",
        Event::Cancelled => "the wait was given up",
        Event::IncompleteReply => "a reply broke off, could not be parsed, or answered another command",
        Event::Unknown => "an unknown failure of the connection",
    }
}
