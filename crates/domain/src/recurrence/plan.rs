//! Materialising, judged: which slots a schedule has from the last one planned to some time ahead, and which of them become jobs.
//!
//! Promises
//! - P1  Plans of one revision follow one another without a gap: whatever the bounds and however often repeated, each slot is in one of them.
//! - P2  A slot is named by its rule alone, never by the moment of the scan; whoever stores slots keeps each name once.
//! - P3  A call looks at no more than `slots_max` slots, those on the last one's instant, and those up to the next that has a job.
//! - P4  A missed slot runs by the catch-up rule; past its deadline it is a job that ends as `business_deadline_reached`, never a send.
//!
//! Read `change.rs` next: what edits and pauses make of what is planned.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::change::{Phase, Progress};
use super::civil::Date;
use super::limits::{MISSED_AFTER, REST_MAX, SCANS_PER_HORIZON};
use super::occurrence::{Occurrence, Verdict, Why};
use super::pattern::Pattern;
use super::rule::{Range, Recurrence};
use super::wall_clock::WallClock;
use crate::moment::Moment;

/// What becomes of slots that a downtime missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum CatchUp {
    /// The latest of them runs; the others are skipped.
    #[default]
    One,
    /// Each runs.
    Each,
    /// None runs.
    None,
}

/// Why a slot has no job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skip {
    /// Its date or its time has none: no business day, missing on the clock, or another date's job goes out at that instant.
    Calendar(Option<Why>),
    /// The schedule was paused.
    Pause,
    /// It was missed, and the catch-up rule passes it over.
    CatchUp,
    /// Its release is not before its deadline.
    Window,
    /// It lies before the edit that made its rule.
    Edit,
}

/// What a slot comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A job for each recipient.
    Make {
        /// The first moment at which they may be sent, before they are spread.
        release_at: Moment,
        /// The moment at which automation stops.
        deadline_at: Moment,
    },
    /// Nothing is sent.
    Skip(Skip),
}

/// A slot's name: what is unique in its schedule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlotName {
    /// The business date.
    pub date: Date,
    /// The last part of its jobs' keys: the date, with the time where a date has several.
    pub slot: String,
}

/// One slot of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Its name.
    pub name: SlotName,
    /// Where it stands among the others.
    pub at: Moment,
    /// What it comes to.
    pub what: What,
}

/// What a scan asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Now, by the ledger's clock.
    pub now: Moment,
    /// How long ahead slots are made.
    pub horizon: Duration,
    /// How many slots one call plans, from 1; those on the last one's instant come with it.
    pub slots_max: usize,
}

/// A bounded part of a schedule's slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// In the order of their instants.
    pub slots: Vec<Slot>,
    /// Every slot up to this moment is planned, these included.
    pub cursor: Moment,
    /// When to scan next, `now` where there is more; `None`: never.
    pub next_scan: Option<Moment>,
}

impl CatchUp {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Each => "each",
            Self::None => "none",
        }
    }

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::One, Self::Each, Self::None].into_iter().find(|c| c.word() == word)
    }
}

impl Skip {
    /// The word for it, as the board shows it and the book keeps it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Calendar(None) => "calendar",
            Self::Calendar(Some(why)) => why.word(),
            Self::Pause => "pause",
            Self::CatchUp => "catch_up",
            Self::Window => "window",
            Self::Edit => "edit",
        }
    }
}

impl SlotName {
    /// Whether it and another may not both have jobs: the same slot, or one date with and without a slot. A rule that is edited from once a
    /// day to twice gives a date that had its job no second one.
    pub fn collides(&self, other: &Self) -> bool {
        self.slot == other.slot || self.date == other.date && (self.is_whole_date() || other.is_whole_date())
    }

    fn is_whole_date(&self) -> bool {
        self.slot.len() == "2027-01-05".len()
    }
}

/// The next slots of a schedule.
pub fn plan(rule: &Recurrence, clock: &dyn WallClock, catch_up: CatchUp, progress: &Progress, ask: &Ask) -> Plan {
    let until = match progress.phase {
        Phase::Active => ask.now.plus(ask.horizon),
        // Paused slots are skipped when their time has come: until then they may still be resumed.
        Phase::Paused => ask.now,
        Phase::Deleted => return Plan { slots: Vec::new(), cursor: progress.cursor, next_scan: None },
    };
    if until <= progress.cursor {
        return Plan { slots: Vec::new(), cursor: progress.cursor, next_scan: Some(next_scan(rule, clock, progress.cursor, ask)) };
    }
    let judge = Judge { several: rule.pattern.several_a_day(), catch_up, progress, now: ask.now };
    let mut coming = occurrences(rule, clock, Range::ALL.after(progress.cursor).to(until));
    let (mut slots, mut missed): (Vec<Slot>, Option<usize>) = (Vec::new(), None);
    let mut rest = None;
    for occurrence in coming.by_ref() {
        if slots.len() >= ask.slots_max.max(1) && slots.last().is_some_and(|last| last.at < occurrence.at) {
            rest = Some(occurrence);
            break;
        }
        let slot = judge.slot(&occurrence);
        if catch_up == CatchUp::One && judge.is_missed(&slot) {
            let earlier = missed.replace(slots.len());
            earlier.into_iter().for_each(|place| slots[place].what = What::Skip(Skip::CatchUp));
        }
        slots.push(slot);
    }
    let Some(rest) = rest else {
        return Plan { slots, cursor: until, next_scan: Some(next_scan(rule, clock, until, ask)) };
    };
    // The latest missed slot of this part is the latest of all only if the next one with a job isn't missed.
    if let Some(place) = missed {
        let next = std::iter::once(rest).chain(coming).map(|o| judge.slot(&o)).find(|slot| matches!(slot.what, What::Make { .. }));
        if next.is_some_and(|slot| judge.is_missed(&slot)) {
            slots[place].what = What::Skip(Skip::CatchUp);
        }
    }
    let cursor = slots.last().map_or(progress.cursor, |last| last.at);
    Plan { slots, cursor, next_scan: Some(ask.now) }
}

/// A range's occurrences in the order of their instants; a list of dates has an order of its own, and may name one twice.
fn occurrences<'a>(rule: &'a Recurrence, clock: &'a dyn WallClock, range: Range) -> Box<dyn Iterator<Item = Occurrence> + 'a> {
    if !matches!(rule.pattern, Pattern::Around { .. }) {
        return Box::new(rule.slots(clock, range));
    }
    let mut listed: Vec<Occurrence> = rule.slots(clock, range).collect();
    listed.sort_by_key(|o| (o.at, o.nominal));
    listed.dedup_by_key(|o| o.nominal);
    Box::new(listed.into_iter())
}

/// When the next slot comes into reach, within bounds.
fn next_scan(rule: &Recurrence, clock: &dyn WallClock, after: Moment, ask: &Ask) -> Moment {
    let ahead = after.since(ask.now);
    let next = occurrences(rule, clock, Range::ALL.after(after).to(after.plus(REST_MAX))).next();
    let in_reach = next.map_or(ask.now.plus(REST_MAX), |o| o.at.minus(ahead));
    in_reach.max(ask.now.plus(ask.horizon / SCANS_PER_HORIZON)).min(ask.now.plus(REST_MAX))
}

struct Judge<'a> {
    several: bool,
    catch_up: CatchUp,
    progress: &'a Progress,
    now: Moment,
}

impl Judge<'_> {
    fn slot(&self, occurrence: &Occurrence) -> Slot {
        let name = SlotName { date: occurrence.business_date(), slot: occurrence.key_part(self.several) };
        Slot { name, at: occurrence.at, what: self.what(occurrence) }
    }

    fn what(&self, occurrence: &Occurrence) -> What {
        let (release_at, deadline_at) = match (occurrence.verdict, occurrence.release_at, occurrence.deadline_at) {
            (Verdict::NoJob, _, _) | (_, None, _) => return What::Skip(Skip::Calendar(occurrence.why)),
            (Verdict::InvalidWindow | Verdict::NoDeadline, _, _) | (Verdict::Ok, _, None) => return What::Skip(Skip::Window),
            (Verdict::Ok, Some(release_at), Some(deadline_at)) => (release_at, deadline_at),
        };
        if occurrence.at <= self.progress.in_force_from {
            return What::Skip(self.progress.before);
        }
        match (self.progress.phase, self.catch_up) {
            (Phase::Paused | Phase::Deleted, _) => What::Skip(Skip::Pause),
            (Phase::Active, CatchUp::None) if self.is_past(release_at) => What::Skip(Skip::CatchUp),
            (Phase::Active, CatchUp::None | CatchUp::One | CatchUp::Each) => What::Make { release_at, deadline_at },
        }
    }

    fn is_missed(&self, slot: &Slot) -> bool {
        matches!(slot.what, What::Make { release_at, .. } if self.is_past(release_at))
    }

    fn is_past(&self, release_at: Moment) -> bool {
        release_at.plus(MISSED_AFTER) < self.now
    }
}
