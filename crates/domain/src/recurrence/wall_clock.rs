//! The one resolver of local times: **a local date and time means the earliest instant at which the customer's wall clock reads that time or later.**
//!
//! A gap gives the first valid instant after it, whatever its length, across midnight too; an overlap gives the first pass. The rule keeps
//! order: of two local times the later one never comes first. A whole date that the clock leaps over has no instants of its own.
//!
//! A zone is what `WallClock` says: spans of one offset, one after the other. Nothing here knows a zone's name.

use super::civil::{Date, Local, TimeOfDay};
use super::limits::SPANS_MAX;
use crate::moment::Moment;

/// No wall clock is further from UTC than this (POSIX: under 26 hours).
const OFFSET_MS_MAX: i64 = 26 * 3_600_000;

/// A time during which a zone's clock keeps one offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Local minus UTC, in seconds; under 26 hours either way.
    pub offset_s: i32,
    /// When it ends and the next one begins; `None`: never. After the moment that was asked for.
    pub until: Option<Moment>,
}

/// What a zone's clock reads.
pub trait WallClock {
    /// The span that holds a moment. Two neighbours may have the same offset.
    fn span(&self, at: Moment) -> Span;
}

/// How a clock meets a local time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// It reads it once.
    Once(Moment),
    /// It is put back and reads it again.
    Twice {
        /// The first pass.
        first: Moment,
        /// The last.
        last: Moment,
    },
    /// It is put forward over it.
    Never {
        /// When it is put forward: the first instant that reads the time or later.
        valid: Moment,
        /// The time shifted by the length of the gap: what the offset before the gap makes of it.
        shifted: Moment,
    },
}

/// What becomes of a local time in a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gap {
    /// The first valid instant after it: our rule.
    #[default]
    FirstValid,
    /// As much later as the gap is long. It doesn't keep order, and can put a release after its deadline.
    Shift,
    /// Nothing: that date has no job, or no deadline.
    Skip,
}

/// What becomes of a local time in an overlap. "Both" is not among the choices: a business date has one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overlap {
    /// The first pass: our rule.
    #[default]
    First,
    /// The last pass.
    Last,
}

/// A schedule's choice where clocks change, for release and deadline alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dst {
    /// In a gap.
    pub gap: Gap,
    /// In an overlap.
    pub overlap: Overlap,
}

impl Gap {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::FirstValid => "first_valid",
            Self::Shift => "shift",
            Self::Skip => "skip",
        }
    }

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::FirstValid, Self::Shift, Self::Skip].into_iter().find(|g| g.word() == word)
    }
}

impl Overlap {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
        }
    }

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::First, Self::Last].into_iter().find(|o| o.word() == word)
    }
}

/// What the clock reads at a moment.
pub fn reads(clock: &dyn WallClock, at: Moment) -> Local {
    Local::from_millis(at.as_millis().saturating_add(i64::from(clock.span(at).offset_s) * 1_000))
}

/// The rule itself: the earliest instant at which the clock reads `local` or later.
pub fn earliest(clock: &dyn WallClock, local: Local) -> Moment {
    match reading(clock, local) {
        Reading::Once(at) | Reading::Twice { first: at, .. } | Reading::Never { valid: at, .. } => at,
    }
}

/// How the clock meets a local time.
///
/// Walks the spans from 26 hours before to 26 hours after, so that it is the definition itself and not a case distinction about one change.
pub fn reading(clock: &dyn WallClock, local: Local) -> Reading {
    let (mut start, mut first, mut last) = (local.as_millis().saturating_sub(OFFSET_MS_MAX), None, None);
    let end = local.as_millis().saturating_add(OFFSET_MS_MAX);
    let mut before = 0;
    for _span in 0..SPANS_MAX {
        let Span { offset_s, until } = clock.span(Moment::from_millis(start));
        let offset = i64::from(offset_s) * 1_000;
        let exact = local.as_millis() - offset;
        let until = until.map_or(i64::MAX, Moment::as_millis);
        if exact >= start && exact < until {
            first.get_or_insert(exact);
            last = Some(exact);
        } else if first.is_none() && exact < start {
            return Reading::Never { valid: Moment::from_millis(start), shifted: Moment::from_millis(local.as_millis() - before) };
        }
        if until >= end {
            break;
        }
        (start, before) = (until, offset);
    }
    match (first, last) {
        (Some(first), Some(last)) if first < last => Reading::Twice { first: Moment::from_millis(first), last: Moment::from_millis(last) },
        (Some(at), _) => Reading::Once(Moment::from_millis(at)),
        // Only a clock that breaks its promise (offsets under 26 hours, spans that move on) comes here.
        (None, _) => Reading::Once(Moment::from_millis(local.as_millis() - before)),
    }
}

/// The instant that a local time means under a schedule's choice; `None` where the choice is to skip it, or the whole date is missing.
pub fn instant(clock: &dyn WallClock, local: Local, dst: Dst) -> Option<Moment> {
    match reading(clock, local) {
        Reading::Once(at) => Some(at),
        Reading::Twice { first, last } => match dst.overlap {
            Overlap::First => Some(first),
            Overlap::Last => Some(last),
        },
        Reading::Never { valid, shifted } => match dst.gap {
            Gap::Skip => None,
            Gap::FirstValid | Gap::Shift if !exists(clock, local.date()) => None,
            Gap::FirstValid => Some(valid),
            Gap::Shift => Some(shifted),
        },
    }
}

/// Whether the clock ever reads a date: Apia had no 2011-12-30.
pub fn exists(clock: &dyn WallClock, date: Date) -> bool {
    reads(clock, earliest(clock, date.at(TimeOfDay::MIDNIGHT))).date() == date
}
