//! An RRULE of RFC 5545, expanded on the civil calendar; our resolver makes instants of what it gives.
//!
//! FREQ YEARLY, MONTHLY, WEEKLY or DAILY, with INTERVAL, COUNT, UNTIL, WKST and every BY part that section 3.3.10 allows with it. Where the text
//! leaves something open it is DTSTART's (the day, the weekday, the time). DTSTART itself occurs only where the rule says so.
//!
//! Two things are ours and not the RFC's: a time in a gap is moved and counts (it ignores those), and COUNT counts local times, whether a zone has
//! them or not, so that a rule means the same dates everywhere. HOURLY and less is refused: such a job is an interval, and a cron with `*` says so.

mod expand;
mod parse;

pub(super) use expand::Expansion;

use super::civil::{Date, Local, TimeOfDay, Weekday};
use super::limits::{LISTED_DATES_MAX, RRULE_TIMES_MAX};
use super::refused::Refused;
use crate::moment::Moment;

/// A rule with its start and what is taken out of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rrule {
    parts: Parts,
    dtstart: Local,
    /// In order.
    times: Vec<TimeOfDay>,
    excluded: Vec<Excluded>,
}

/// What EXDATE takes out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Excluded {
    /// One local time.
    Time(Local),
    /// All of a date.
    Date(Date),
}

/// What the text says.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Parts {
    frequency: Frequency,
    interval: u32,
    count: Option<u32>,
    until: Option<Until>,
    week_start: Weekday,
    by_month: Vec<i32>,
    by_week: Vec<i32>,
    by_year_day: Vec<i32>,
    by_month_day: Vec<i32>,
    by_day: Vec<ByDay>,
    by_hour: Vec<i32>,
    by_minute: Vec<i32>,
    by_second: Vec<i32>,
    by_set_position: Vec<i32>,
}

/// How long a period is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Frequency {
    Yearly,
    Monthly,
    Weekly,
    Daily,
}

/// The last moment, inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Until {
    Instant(Moment),
    Local(Local),
}

/// A weekday, or the n-th of them from the start or the end of a month or year.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ByDay {
    nth: Option<i32>,
    weekday: Weekday,
}

impl Rrule {
    /// Reads a rule: the value of an RRULE line, with or without `RRULE:` in front.
    ///
    /// # Errors
    /// The part, what stands there and what is allowed.
    pub fn new(text: &str, dtstart: Local, excluded: Vec<Excluded>) -> Result<Self, Refused> {
        if excluded.len() > LISTED_DATES_MAX {
            return Err(Refused::new("exdates", format!("are more than {LISTED_DATES_MAX}")));
        }
        let parts = Parts::parse(text)?;
        let times = parts.times(dtstart.time());
        if times.len() > RRULE_TIMES_MAX {
            return Err(Refused::new("rrule", format!("BYSECOND gives a date {} times; allowed: {RRULE_TIMES_MAX}", times.len())));
        }
        let mut excluded = excluded;
        excluded.sort_unstable();
        Ok(Self { parts, dtstart, times, excluded })
    }

    /// The date from which it occurs.
    pub(super) fn start(&self) -> Date {
        self.dtstart.date()
    }

    /// Whether one date may have several occurrences.
    pub fn several_a_day(&self) -> bool {
        self.times.len() > 1
    }

    /// The last instant at which it occurs, where its UNTIL is one.
    pub fn until_instant(&self) -> Option<Moment> {
        match self.parts.until {
            Some(Until::Instant(at)) => Some(at),
            Some(Until::Local(_)) | None => None,
        }
    }

    /// Whether COUNT or UNTIL end it, so that "nothing more" is no fault.
    pub fn ends(&self) -> bool {
        self.parts.count.is_some() || self.parts.until.is_some()
    }

    /// The last date on which it can occur.
    fn last_date(&self) -> Date {
        match self.parts.until {
            // No clock is two days from UTC.
            Some(Until::Instant(at)) => Local::from_millis(at.as_millis()).date().plus(2),
            Some(Until::Local(local)) => local.date(),
            None => Date::LAST,
        }
    }

    fn is_over(&self, local: Local) -> bool {
        matches!(self.parts.until, Some(Until::Local(until)) if local > until)
    }

    fn is_excluded(&self, local: Local) -> bool {
        [Excluded::Time(local), Excluded::Date(local.date())].iter().any(|e| self.excluded.binary_search(e).is_ok())
    }

    /// Its local times on and after a date.
    pub(super) fn expand(&self, from: Date) -> Expansion<'_> {
        Expansion::new(self, from)
    }
}

impl Excluded {
    /// Reads a date, or a local time.
    pub fn parse(text: &str) -> Option<Self> {
        Date::parse(text).map(Self::Date).or_else(|| Local::parse(text).map(Self::Time))
    }
}
