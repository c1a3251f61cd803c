//! What a simulation asks of the code that it runs: bugs planted for it, and what occurred. Without the feature `simulation`, which tests alone
//! ask for, no bug is planted and nothing is counted.
//!
//! Both belong to a thread: a simulated fleet runs in one.

/// A mistake that others have made, to be planted: the simulation must find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// The worker hands over without having written its intent.
    NoIntent,
    /// The worker doesn't look again before the end marker.
    NoLastLook,
    /// A handoff whose lease is over is retried as if nothing had been handed over.
    ResendOnLeaseExpiry,
    /// No answer to the end marker counts as a refusal.
    TimeoutTakenAsFailure,
    /// An overdue wake-up is published again, whatever waits in the queue.
    RepublishDuringBacklog,
    /// Nothing in an attempt is bounded by the deadline.
    NoDeadlineCheck,
}

#[cfg(not(feature = "simulation"))]
mod inner {
    use super::Bug;
    use crate::transition::{Change, Event, Refusal};

    /// Never.
    #[inline(always)]
    pub const fn planted(_bug: Bug) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn seen(_event: &Event<'_>, answer: Result<Change, Refusal>) -> Result<Change, Refusal> {
        answer
    }
}

#[cfg(feature = "simulation")]
mod inner {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    use super::Bug;
    use crate::transition::{Change, Event, Refusal};

    /// How often each event had each answer: "changed", or the refusal's name.
    pub type Seen = BTreeMap<(&'static str, &'static str), u64>;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static SEEN: RefCell<Seen> = const { RefCell::new(BTreeMap::new()) };
    }

    /// Plants a bug in this thread, or takes it out.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether this bug is planted in this thread.
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// What this thread saw since it was asked last.
    pub fn take_seen() -> Seen {
        SEEN.take()
    }

    pub(crate) fn seen(event: &Event<'_>, answer: Result<Change, Refusal>) -> Result<Change, Refusal> {
        let came = match &answer {
            Ok(_) => CHANGED,
            Err(refusal) => refusal_name(*refusal),
        };
        SEEN.with_borrow_mut(|seen| *seen.entry((event_name(event), came)).or_default() += 1);
        answer
    }

    /// The answer of an event that changes the record.
    pub const CHANGED: &str = "changed";

    macro_rules! names {
        ($(#[$doc:meta])* $all:ident, $name:ident($what:ty) { $($pattern:pat => $word:literal),+ $(,)? }) => {
            $(#[$doc])*
            pub const $all: &[&str] = &[$($word),+];
            fn $name(what: $what) -> &'static str {
                match what { $($pattern => $word),+ }
            }
        };
    }

    names!(/// Every event's name.
    EVENTS, event_name(&Event<'_>) {
        Event::Release { .. } => "Release",
        Event::Claim { .. } => "Claim",
        Event::Limited { .. } => "Limited",
        Event::Renew { .. } => "Renew",
        Event::Intent { .. } => "Intent",
        Event::Prepared { .. } => "Prepared",
        Event::Verdict { .. } => "Verdict",
        Event::GiveBack { .. } => "GiveBack",
        Event::LeaseOver { .. } => "LeaseOver",
        Event::DeadlineReached => "DeadlineReached",
        Event::Strike { .. } => "Strike",
        Event::Verb(_) => "Verb",
        Event::RecipientSuppressed => "RecipientSuppressed",
        Event::Closed => "Closed",
        Event::Asserted { .. } => "Asserted",
        Event::RolledBack { .. } => "RolledBack",
        Event::BookWins(_) => "BookWins",
        Event::MovedInBook { .. } => "MovedInBook",
        Event::SentInGeneration(_) => "SentInGeneration",
        Event::ClaimDropped => "ClaimDropped",
    });

    names!(/// Every refusal's name.
    REFUSALS, refusal_name(Refusal) {
        Refusal::WrongState => "WrongState",
        Refusal::NotOwner => "NotOwner",
        Refusal::NotDue(_) => "NotDue",
        Refusal::TooLate => "TooLate",
        Refusal::LeaseEnded => "LeaseEnded",
        Refusal::LeaseRuns(_) => "LeaseRuns",
        Refusal::AppliedAlready => "AppliedAlready",
        Refusal::Superseded => "Superseded",
        Refusal::Conflict(_) => "Conflict",
        Refusal::ForTheBook => "ForTheBook",
        Refusal::NothingToChange => "NothingToChange",
        Refusal::TooManyDoubts => "TooManyDoubts",
    });
}

pub use inner::planted;
pub(crate) use inner::seen;
#[cfg(feature = "simulation")]
pub use inner::{CHANGED, EVENTS, REFUSALS, Seen, plant, take_seen};
