//! What occurred, by name. Each function is exhaustive over an enum of the product: a new variant doesn't compile before it has a name here,
//! and each name must have occurred at least once over the batch.

use std::collections::BTreeMap;

use curfew_book::judge::{Closing, Opening};
use curfew_book::{EvidenceTaken, Told};
use curfew_courier::recover::Ruling;
use curfew_domain::transition::{Assertion, Event, Guard, Verdict};
use curfew_domain::verb::Verb;
use curfew_domain::{Refusal, State};

/// How often each name occurred, repetitions of the same question not counted.
#[derive(Clone, Default, Debug)]
pub struct Seen(BTreeMap<&'static str, u64>);

impl Seen {
    pub fn note(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    pub fn add(&mut self, other: &Seen) {
        for (name, count) in &other.0 {
            *self.0.entry(name).or_default() += count;
        }
    }

    /// How often a name occurred.
    pub fn count(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

macro_rules! closed {
    ($all:ident, $name:ident($what:ty) { $($pattern:pat => $word:literal),+ $(,)? }) => {
        pub const $all: &[&str] = &[$($word),+];
        pub fn $name(what: &$what) -> &'static str {
            match what { $($pattern => $word),+ }
        }
    };
}

closed!(EVENTS, event(Event<'_>) {
    Event::Release { .. } => "event Release",
    Event::Claim { .. } => "event Claim",
    Event::Limited { .. } => "event Limited",
    Event::Renew { .. } => "event Renew",
    Event::Intent { .. } => "event Intent",
    Event::Prepared { .. } => "event Prepared",
    Event::Verdict { .. } => "event Verdict",
    Event::GiveBack { .. } => "event GiveBack",
    Event::LeaseOver { .. } => "event LeaseOver",
    Event::DeadlineReached => "event DeadlineReached",
    Event::Strike { .. } => "event Strike",
    Event::Verb(_) => "event Verb",
    Event::RecipientSuppressed => "event RecipientSuppressed",
    Event::Closed => "event Closed",
    Event::Asserted { .. } => "event Asserted",
    Event::RolledBack { .. } => "event RolledBack",
    Event::BookWins(_) => "event BookWins",
    Event::MovedInBook { .. } => "event MovedInBook",
    Event::SentInGeneration(_) => "event SentInGeneration",
    Event::ClaimDropped => "event ClaimDropped",
});

closed!(REFUSALS, refusal(Refusal) {
    Refusal::WrongState => "refusal WrongState",
    Refusal::NotOwner => "refusal NotOwner",
    Refusal::NotDue(_) => "refusal NotDue",
    Refusal::TooLate => "refusal TooLate",
    Refusal::LeaseEnded => "refusal LeaseEnded",
    Refusal::LeaseRuns(_) => "refusal LeaseRuns",
    Refusal::AppliedAlready => "refusal AppliedAlready",
    Refusal::Superseded => "refusal Superseded",
    Refusal::Conflict(_) => "refusal Conflict",
    Refusal::ForTheBook => "refusal ForTheBook",
    Refusal::NothingToChange => "refusal NothingToChange",
    Refusal::TooManyDoubts => "refusal TooManyDoubts",
});

closed!(VERDICTS, verdict(Verdict<'_>) {
    Verdict::Accepted(_) => "verdict Accepted",
    Verdict::NotAccepted(_) => "verdict NotAccepted",
    Verdict::Unknown(_) => "verdict Unknown",
});

closed!(ASSERTIONS, assertion(Assertion<'_>) {
    Assertion::Receipt(_) => "assertion Receipt",
    Assertion::Handoff(_) => "assertion Handoff",
    Assertion::Unknown => "assertion Unknown",
});

closed!(VERBS, verb(Verb) {
    Verb::Cancel => "verb Cancel",
    Verb::Suppress => "verb Suppress",
    Verb::Move { .. } => "verb Move",
});

closed!(GUARDS, guard(Guard) {
    Guard::NotBefore(_) => "guard NotBefore refuses",
    Guard::Before(_) => "guard Before refuses",
    Guard::NotSuppressed(_) => "guard NotSuppressed refuses",
});

closed!(STATES, state(State) {
    State::Scheduled => "state scheduled",
    State::Queued => "state queued",
    State::Claimed => "state claimed",
    State::Handoff => "state handoff",
    State::Sent => "state sent",
    State::DeadLetter => "state dead_letter",
    State::Cancelled => "state cancelled",
    State::Suppressed => "state suppressed",
});

closed!(TOLD, told(Told) {
    Told::Written => "told Written",
    Told::Older => "told Older",
    Told::Unknown => "told Unknown",
});

closed!(TAKEN, taken(EvidenceTaken) {
    EvidenceTaken::Sent => "evidence Sent",
    EvidenceTaken::DoubtEnded => "evidence DoubtEnded",
    EvidenceTaken::Known => "evidence Known",
    EvidenceTaken::AskLedger => "evidence AskLedger",
    EvidenceTaken::Unknown => "evidence Unknown",
    EvidenceTaken::Conflicting => "evidence Conflicting",
});

closed!(OPENINGS, opening(Opening) {
    Opening::Open => "opening Open",
    Opening::Applied(_) => "opening Applied",
    Opening::Refused => "opening Refused",
});

closed!(CLOSINGS, closing(Closing) {
    Closing::Applied(..) => "closing Applied",
    Closing::Refused => "closing Refused",
    Closing::Closed => "closing Closed",
});

closed!(RULINGS, ruling(Ruling) {
    Ruling::Stands => "ruling Stands",
    Ruling::BookWins(_) => "ruling BookWins",
    Ruling::Moved(..) => "ruling Moved",
    Ruling::SentIn(_) => "ruling SentIn",
    Ruling::TakeBack(_) => "ruling TakeBack",
    Ruling::Missing => "ruling Missing",
    Ruling::Doubt => "ruling Doubt",
    Ruling::ClaimDropped => "ruling ClaimDropped",
});
