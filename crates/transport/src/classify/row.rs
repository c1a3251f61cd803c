//! A row of the table, and when it fits.

use std::time::Duration;

use curfew_domain::outcome::{Scope, Stage};

use super::{Enhanced, Event, Verdict};

/// One rule: where it looks, what it wants to see there, what follows, and who says so.
#[derive(Debug)]
pub struct Row {
    /// Its name, which stands in outcomes as `rule`.
    pub name: &'static str,
    /// The stages it holds at.
    pub stages: &'static [Stage],
    /// The replies it looks at.
    pub codes: Codes,
    /// What must be there besides.
    pub evidence: Evidence,
    /// What follows.
    pub verdict: Verdict,
    /// What a throttle covers.
    pub scope: Scope,
    /// The least wait it asks for, where the text names none.
    pub wait: Option<Duration>,
    /// Whether the digit is read softly.
    pub softened: bool,
    /// An RFC's section, a provider's page, or the client whose source knows the reply.
    pub source: &'static str,
}

/// The replies a row looks at, by code.
#[derive(Clone, Copy, Debug)]
pub enum Codes {
    /// Any reply, and any event.
    Any,
    /// Codes with this first digit.
    Digit(u16),
    /// 4yz and 5yz.
    Refusal,
    /// These codes alone.
    Of(&'static [u16]),
}

/// Families of patterns of words.
pub type Families = &'static [&'static str];
/// Patterns of enhanced codes: `x` for either refusal's class, `*` for any detail, `500-899` for a range.
pub type Enhanceds = &'static [&'static str];

/// What a row wants to see besides stage and code.
#[derive(Clone, Copy, Debug)]
pub enum Evidence {
    /// Nothing.
    None,
    /// A pattern of one of these families.
    Words(Families),
    /// A pattern of each of these families.
    AllWords(Families),
    /// One of these enhanced codes, in agreement with the first digit.
    Enhanced(Enhanceds),
    /// One or the other.
    Either(Enhanceds, Families),
    /// Both.
    Both(Enhanceds, Families),
    /// An enhanced code whose class is not the first digit's.
    Disagreement,
    /// The same, where the enhanced code says: this address, for good (5.1.x).
    AddressRefused,
    /// No enhanced code.
    NoEnhanced,
    /// A queue id in the text.
    QueueId,
    /// One of these events.
    Events(&'static [Event]),
    /// Any event.
    AnyEvent,
}

/// What is matched against the rows.
pub(super) struct Met<'a> {
    pub stage: Stage,
    pub code: Option<u16>,
    pub enhanced: Option<Enhanced>,
    pub words: &'a [String],
    pub event: Option<Event>,
    pub queue_id: bool,
}

impl Row {
    /// Whether this row decides.
    pub(super) fn fits(&self, met: &Met<'_>) -> bool {
        self.stages.contains(&met.stage) && self.codes.hold(met.code) && self.evidence.holds(met)
    }
}

impl Codes {
    fn hold(self, code: Option<u16>) -> bool {
        match (self, code) {
            (Self::Any, _) => true,
            (_, None) => false,
            (Self::Digit(digit), Some(code)) => code / 100 == digit,
            (Self::Refusal, Some(code)) => matches!(code / 100, 4 | 5),
            (Self::Of(codes), Some(code)) => codes.contains(&code),
        }
    }
}

impl Evidence {
    fn holds(self, met: &Met<'_>) -> bool {
        // A client that met an event has no use for words of a reply: those belong to the rows for replies alone.
        let reply = met.event.is_none();
        match self {
            Self::None => reply,
            Self::Words(families) => reply && said(families, met),
            Self::AllWords(families) => reply && families.iter().all(|family| said(std::slice::from_ref(family), met)),
            Self::Enhanced(codes) => reply && coded(codes, met),
            Self::Either(codes, families) => reply && (coded(codes, met) || said(families, met)),
            Self::Both(codes, families) => reply && coded(codes, met) && said(families, met),
            Self::Disagreement => reply && disagrees(met),
            Self::AddressRefused => reply && disagrees(met) && matches!(met.enhanced, Some((5, 1, _))),
            Self::NoEnhanced => reply && met.enhanced.is_none(),
            Self::QueueId => reply && met.queue_id,
            Self::Events(events) => met.event.is_some_and(|e| events.contains(&e)),
            Self::AnyEvent => met.event.is_some(),
        }
    }
}

fn said(families: Families, met: &Met<'_>) -> bool {
    families.iter().flat_map(|family| family.split(", ")).any(|pattern| super::reader::says(met.words, pattern))
}

fn disagrees(met: &Met<'_>) -> bool {
    matches!((met.code, met.enhanced), (Some(code), Some((class, ..))) if u16::from(class) != code / 100)
}

fn coded(patterns: Enhanceds, met: &Met<'_>) -> bool {
    let Some(enhanced) = met.enhanced.filter(|_| !disagrees(met)) else { return false };
    patterns.iter().any(|pattern| code_fits(pattern, enhanced))
}

fn code_fits(pattern: &str, (class, subject, detail): Enhanced) -> bool {
    let mut parts = pattern.split('.');
    let mut part = |value: u16| match parts.next() {
        Some("x" | "*") => true,
        Some(one) => match one.split_once('-') {
            Some((first, last)) => first.parse::<u16>().is_ok_and(|n| n <= value) && last.parse::<u16>().is_ok_and(|n| value <= n),
            None => one.parse() == Ok(value),
        },
        None => false,
    };
    part(u16::from(class)) && part(subject) && part(detail)
}
