//! What a mail server's answer, or its silence, says about a job: one table, read from the top, the first row that fits decides.
//!
//! Promises
//! - C1  The stage outranks the code, the code the enhanced code; words may soften a refusal or explain it, never turn it into `accepted`.
//! - C2  `accepted` comes from `dot` alone, from 250, 251 or 252; whatever else is met there without a refusal is `ambiguous`.
//! - C3  Every input has an answer; names of hosts, addresses, numbers and case in a reply's text change nothing.
//!
//! Not promised: that a provider means what it says. Read `classify/table.rs` next, then `classify/words.rs`.

mod event;
mod queue_id;
mod reader;
mod redact;
mod row;
mod table;
mod words;

use std::time::Duration;

use curfew_domain::outcome::{Outcome, OutcomeClass, Reason, Scope, Stage};

pub use event::Event;
pub use queue_id::queue_id;
pub use redact::redact;
pub use row::Row;
pub use table::TABLE;
pub use words::{FAMILIES, WORDS_MAX};

/// The enhanced code of a reply: class, subject, detail (RFC 3463).
pub type Enhanced = (u8, u16, u16);

/// What was heard from a server, or what happened instead.
#[derive(Clone, Debug)]
pub struct Heard<'a> {
    /// Where in the dialogue.
    pub stage: Stage,
    /// The three digits, whatever they are; `None` where no reply was read.
    pub code: Option<u16>,
    /// The enhanced code; where `None`, one at the start of the text counts.
    pub enhanced: Option<Enhanced>,
    /// The text without code, its lines joined by a space or a line end.
    pub text: &'a str,
    /// What happened, where something happened besides or instead.
    pub event: Option<Event>,
}

impl<'a> Heard<'a> {
    /// A reply, as read from the wire.
    pub fn reply(stage: Stage, code: u16, text: &'a str) -> Self {
        Self { stage, code: Some(code), enhanced: None, text, event: None }
    }

    /// Something that happened instead of a reply.
    pub fn event(stage: Stage, event: Event) -> Self {
        Self { stage, code: None, enhanced: None, text: "", event: Some(event) }
    }

    /// A described case: columns of text, as `curfew try reply` gets them. `<event: …>` in the text is read by its words, and an
    /// `enhanced` that isn't one (`RP-001`, `1`) is ignored.
    pub fn described(stage: Stage, code: Option<u16>, enhanced: Option<&str>, text: &'a str) -> Self {
        Self { stage, code, enhanced: enhanced.and_then(enhanced_code), text, event: Event::described(stage, text) }
    }
}

/// What becomes of the dialogue or the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The attempt ends in this class.
    Class(OutcomeClass),
    /// Not an end: go on.
    Continue,
    /// The job's result stands already and isn't touched.
    ResultUnchanged,
    /// A pooled connection is of no use; no job is affected, no attempt used.
    Reconnect,
}

impl Verdict {
    /// The word in answers: a class, `continue`, `result_unchanged` or `reconnect`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Class(class) => class.word(),
            Self::Continue => "continue",
            Self::ResultUnchanged => "result_unchanged",
            Self::Reconnect => "reconnect",
        }
    }
}

/// A judgement and the row it came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// What becomes of it.
    pub verdict: Verdict,
    /// The reason a job would end with if no attempt were left; `None` where no job ends.
    pub reason: Option<Reason>,
    /// The row's name.
    pub rule: &'static str,
    /// What a throttle covers.
    pub scope: Scope,
    /// Whether a refusal is read more softly than its digit: capped at three tries.
    pub softened: bool,
    /// A wait that the text names; for greylisting without one, 300 s.
    pub retry_after: Option<Duration>,
}

impl Judgement {
    /// The outcome of an attempt that ends here, without receipt; `None` where the dialogue goes on or no job is affected.
    pub fn outcome(&self, stage: Stage, text: &str) -> Option<Outcome> {
        let Verdict::Class(class) = self.verdict else { return None };
        let mut outcome = Outcome::new(class, stage, self.rule, redact(text));
        outcome.retry_after = self.retry_after;
        outcome.scope = self.scope;
        outcome.softened = self.softened;
        Some(outcome)
    }
}

/// Judges what was heard. Total and pure.
pub fn classify(heard: &Heard<'_>) -> Judgement {
    let said = reader::read(heard.text);
    let enhanced = heard.enhanced.or(said.enhanced);
    let met = row::Met { stage: heard.stage, code: heard.code, enhanced, words: &said.words, event: heard.event, queue_id: said.queue_id };
    let row = TABLE.iter().find(|row| row.fits(&met)).expect("the table's last row fits everything");
    Judgement {
        verdict: row.verdict,
        reason: reason(row.verdict),
        rule: row.name,
        scope: row.scope,
        softened: row.softened || (row.verdict == Verdict::Class(OutcomeClass::Transient) && heard.code.is_some_and(|c| c / 100 == 5)),
        retry_after: match row.verdict {
            Verdict::Class(OutcomeClass::Transient | OutcomeClass::Throttled) => said.wait.max(row.wait),
            Verdict::Class(_) | Verdict::Continue | Verdict::ResultUnchanged | Verdict::Reconnect => None,
        },
    }
}

fn reason(verdict: Verdict) -> Option<Reason> {
    let Verdict::Class(class) = verdict else { return None };
    Some(match class {
        OutcomeClass::Accepted => Reason::Accepted,
        OutcomeClass::Transient | OutcomeClass::Throttled => Reason::RetryBudgetExhausted,
        OutcomeClass::Permanent => Reason::PermanentFailure,
        OutcomeClass::Suppressed => Reason::RecipientSuppressed,
        OutcomeClass::Ambiguous => Reason::ReconciliationRequired,
        OutcomeClass::Configuration => Reason::Configuration,
    })
}

/// Reads `d.ddd.ddd` with class 2, 4 or 5 (RFC 2034); anything else is none.
pub fn enhanced_code(text: &str) -> Option<Enhanced> {
    let mut parts = text.trim().split('.');
    let mut next = |digits_max: usize| {
        let part = parts.next()?;
        let plain = (1..=digits_max).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| part.parse::<u16>().ok()).flatten()
    };
    let (class, subject, detail) = (next(1)?, next(3)?, next(3)?);
    (matches!(class, 2 | 4 | 5) && parts.next().is_none()).then_some((class as u8, subject, detail))
}
