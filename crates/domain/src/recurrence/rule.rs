//! A whole recurrence: a pattern, the days it may be sent on, its window and its choice where clocks change.

use std::time::Duration;

use super::business::{Calendar, Roll};
use super::civil::Date;
use super::cron::Class;
use super::limits::{DEADLINE_DAYS_MAX, QUIET_DAYS, QUIET_YEARS};
use super::occurrence::{Deadline, Occurrence, Verdict};
use super::pattern::Pattern;
use super::refused::Refused;
use super::wall_clock::{Dst, WallClock};
use crate::moment::Moment;

const MILLISECOND: Duration = Duration::from_millis(1);

/// When a schedule's jobs run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recurrence {
    /// What is repeated.
    pub pattern: Pattern,
    /// Which dates are business days.
    pub calendar: Calendar,
    /// Where a date that isn't one rolls to; `None`: it is sent on that date.
    pub roll: Option<Roll>,
    /// When automation stops, counted from the date of the send before any gap.
    pub deadline: Option<Deadline>,
    /// The choice where clocks change.
    pub dst: Dst,
    /// The first nominal date.
    pub start: Option<Date>,
    /// The last nominal date.
    pub end: Option<Date>,
}

/// Moments from one to another, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub(super) from: Moment,
    pub(super) to: Moment,
}

impl Range {
    /// All moments.
    pub const ALL: Self = Self { from: Moment::from_millis(i64::MIN), to: Moment::from_millis(i64::MAX) };

    /// Those of them that are later than a moment.
    #[must_use]
    pub fn after(self, at: Moment) -> Self {
        self.from(at.plus(MILLISECOND))
    }

    /// Those of them that are not earlier.
    #[must_use]
    pub fn from(self, at: Moment) -> Self {
        Self { from: self.from.max(at), ..self }
    }

    /// Those of them that are not later.
    #[must_use]
    pub fn to(self, at: Moment) -> Self {
        Self { to: self.to.min(at), ..self }
    }
}

impl Recurrence {
    /// A pattern on all days, without deadline or bounds, by our rule.
    pub fn plain(pattern: Pattern) -> Self {
        Self { pattern, calendar: Calendar::every_day(), roll: None, deadline: None, dst: Dst::default(), start: None, end: None }
    }

    /// Whether its parts fit together.
    ///
    /// # Errors
    /// The field and what is allowed.
    pub fn check(&self) -> Result<(), Refused> {
        self.pattern.check()?;
        let skips_at_most = matches!(self.roll, None | Some(Roll::Skip));
        if self.pattern.class() == Class::Interval && !skips_at_most {
            return Err(Refused::new("roll", "an interval job runs as time passes and can't roll; allowed: skip"));
        }
        if self.deadline.is_some_and(|d| d.days.abs() > DEADLINE_DAYS_MAX) {
            return Err(Refused::new("deadline_days", format!("allowed: up to {DEADLINE_DAYS_MAX}")));
        }
        if let (Some(start), Some(end)) = (self.start, self.end)
            && start > end
        {
            return Err(Refused::new("end", "lies before the start"));
        }
        Ok(())
    }

    /// Whether it fires at all from a moment on: what never does is refused at creation.
    ///
    /// # Errors
    /// That it never fires. One that has a last date, COUNT or UNTIL may be over; that is no fault.
    pub fn check_fires(&self, clock: &dyn WallClock, range: Range) -> Result<(), Refused> {
        let ends = self.end.is_some() || range.to != Range::ALL.to || matches!(&self.pattern, Pattern::Around { .. });
        let ends = ends || matches!(&self.pattern, Pattern::Rrule(rule) if rule.ends());
        if ends || self.sends(clock, range).next().is_some() {
            return Ok(());
        }
        Err(Refused::new("schedule", format!("never fires: nothing within {QUIET_YEARS} years")))
    }

    /// The occurrences of a range that have a release, in order.
    pub fn sends<'a>(&'a self, clock: &'a dyn WallClock, range: Range) -> impl Iterator<Item = Occurrence> + 'a {
        let (mut slots, mut heard) = (self.slots(clock, range), None);
        std::iter::from_fn(move || {
            loop {
                let slot = slots.next()?;
                let date = slot.business_date();
                if slot.verdict != Verdict::NoJob {
                    heard = Some(date);
                    return Some(slot);
                }
                if date.since(*heard.get_or_insert(date)) > QUIET_DAYS {
                    return None;
                }
            }
        })
    }

    /// A range's occurrences that have a release and no window to send in, at most `most` of them: what a schedule is refused for at creation, with
    /// the dates, or is allowed to have explicitly. Give the range an end: a schedule whose windows are all good is walked to it.
    pub fn without_window(&self, clock: &dyn WallClock, range: Range, most: usize) -> Vec<Occurrence> {
        let bad = |o: &Occurrence| matches!(o.verdict, Verdict::InvalidWindow | Verdict::NoDeadline);
        self.sends(clock, range).filter(bad).take(most).collect()
    }
}
