//! What a schedule repeats: the nominal dates and times of its jobs, before any rolling and without any zone.

use super::business::Calendar;
use super::civil::{Date, Local, Month, TimeOfDay};
use super::cron::{Class, Cron};
use super::limits::{DAYS_BETWEEN_MAX, EVERY_HOURS_MAX, LISTED_DATES_MAX};
use super::refused::Refused;
use super::rrule::Rrule;
use crate::moment::Moment;

/// A rule of repetition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// A cron expression.
    Cron {
        /// The expression.
        cron: Cron,
        /// Where given, the time of every date instead of the expression's own.
        time: Option<TimeOfDay>,
    },
    /// A month's n-th business day; from its end where `n` is negative. A month without it has none.
    NthBusinessDay {
        /// −31 to 31, not 0.
        n: i32,
        /// When on that day.
        time: TimeOfDay,
    },
    /// Days before or after each of some dates: each date is another customer's. In the list's order, and two on one instant stay two.
    Around {
        /// The dates, nominal.
        dates: Vec<Date>,
        /// Which way, and what is counted.
        direction: Direction,
        /// How many.
        n: u32,
        /// When on the day so found.
        time: TimeOfDay,
    },
    /// A day of every month, the last one where it has fewer.
    MonthlyClamped {
        /// 1 to 31.
        day: u32,
        /// When on that day.
        time: TimeOfDay,
    },
    /// A day of every year, the month's last one where it has fewer.
    YearlyClamped {
        /// 1 to 12.
        month: u32,
        /// 1 to 31.
        day: u32,
        /// When on that day.
        time: TimeOfDay,
    },
    /// An RRULE of RFC 5545.
    Rrule(Box<Rrule>),
    /// Hours that pass, whatever any clock reads.
    EveryHours {
        /// From 1.
        hours: u32,
        /// The first run.
        anchor: Moment,
    },
}

/// Which way from a date, and what is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Business days strictly before it.
    BusinessDaysBefore,
    /// Business days strictly after it.
    BusinessDaysAfter,
    /// Days before it.
    CalendarDaysBefore,
}

impl Pattern {
    /// Whether it means local times or minutes that pass.
    pub fn class(&self) -> Class {
        match self {
            Self::Cron { cron, time: None } => cron.class(),
            Self::EveryHours { .. } => Class::Interval,
            Self::Cron { time: Some(_), .. } | Self::Rrule(_) => Class::FixedTime,
            Self::NthBusinessDay { .. } | Self::Around { .. } | Self::MonthlyClamped { .. } | Self::YearlyClamped { .. } => Class::FixedTime,
        }
    }

    /// Whether one date may have several jobs, so that a key needs their slots. A property of the rule and not of a date: otherwise a key
    /// would change with the day.
    pub fn several_a_day(&self) -> bool {
        match self {
            Self::Cron { cron, time: None } => cron.class() == Class::Interval || cron.times().len() > 1,
            Self::Rrule(rrule) => rrule.several_a_day(),
            Self::EveryHours { .. } => true,
            Self::Cron { time: Some(_), .. } | Self::NthBusinessDay { .. } | Self::Around { .. } => false,
            Self::MonthlyClamped { .. } | Self::YearlyClamped { .. } => false,
        }
    }

    /// Whether its numbers are in range.
    ///
    /// # Errors
    /// The field and what is allowed.
    pub fn check(&self) -> Result<(), Refused> {
        let within = |field, n: i64, min: i64, max: i64| {
            if (min..=max).contains(&n) { Ok(()) } else { Err(Refused::new(field, format!("is {n}; allowed: {min} to {max}"))) }
        };
        match self {
            Self::Cron { .. } | Self::Rrule(_) => Ok(()),
            Self::NthBusinessDay { n: 0, .. } => Err(Refused::new("n", "is 0; allowed: 1 to 31, or -31 to -1 from the end of the month")),
            Self::NthBusinessDay { n, .. } => within("n", i64::from(*n), -31, 31),
            Self::Around { dates, n, .. } => {
                within("of", dates.len() as i64, 1, LISTED_DATES_MAX as i64)
                    .map_err(|r| Refused::new(r.field, format!("has {} dates; allowed: 1 to {LISTED_DATES_MAX}", dates.len())))?;
                within("n", i64::from(*n), 0, i64::from(DAYS_BETWEEN_MAX))
            }
            Self::MonthlyClamped { day, .. } => within("day", i64::from(*day), 1, 31),
            Self::YearlyClamped { month, day, .. } => {
                within("month", i64::from(*month), 1, 12)?;
                within("day", i64::from(*day), 1, 31)
            }
            Self::EveryHours { hours, .. } => within("hours", i64::from(*hours), 1, i64::from(EVERY_HOURS_MAX)),
        }
    }

    /// The times of each of its dates; empty for an interval, a list or an RRULE.
    pub(super) fn times(&self) -> Vec<TimeOfDay> {
        match self {
            Self::Cron { time: Some(time), .. } => vec![*time],
            Self::Cron { cron, time: None } => cron.times(),
            Self::NthBusinessDay { time, .. } | Self::MonthlyClamped { time, .. } | Self::YearlyClamped { time, .. } => vec![*time],
            Self::Around { .. } | Self::Rrule(_) | Self::EveryHours { .. } => Vec::new(),
        }
    }

    /// Its first nominal date from `from` up to `last`; `None` for those without times of their own.
    pub(super) fn date_from(&self, calendar: &Calendar, from: Date, last: Date) -> Option<Date> {
        match self {
            Self::Cron { cron, .. } => cron.date_from(from, last),
            Self::NthBusinessDay { n, .. } => monthly(from, last, |month| calendar.nth_of(month, *n)),
            Self::MonthlyClamped { day, .. } => monthly(from, last, |month| Some(month.clamped(*day))),
            Self::YearlyClamped { month, day, .. } => monthly(from, last, |m| (m.month == *month).then(|| m.clamped(*day))),
            Self::Around { .. } | Self::Rrule(_) | Self::EveryHours { .. } => None,
        }
    }
}

/// The first date from `from` up to `last` among those that a function finds, one a month.
fn monthly(from: Date, last: Date, of: impl Fn(Month) -> Option<Date>) -> Option<Date> {
    let mut month = from.month();
    while month.first() <= last {
        if let Some(date) = of(month).filter(|d| *d >= from) {
            return Some(date).filter(|d| *d <= last);
        }
        month = month.plus(1)?;
    }
    None
}

/// Nominal local times, in order.
#[derive(Debug)]
pub(super) enum Feed<'a> {
    /// A date's times, then the next date's.
    Dates { pattern: &'a Pattern, calendar: &'a Calendar, times: Vec<TimeOfDay>, date: Option<Date>, next: usize },
    /// An RRULE's own.
    Rrule(Box<super::rrule::Expansion<'a>>),
}

impl<'a> Feed<'a> {
    /// The nominal times from a date on.
    pub(super) fn new(pattern: &'a Pattern, calendar: &'a Calendar, from: Date) -> Self {
        match pattern {
            Pattern::Rrule(rrule) => Self::Rrule(Box::new(rrule.expand(from))),
            other => Self::Dates { pattern: other, calendar, times: other.times(), date: Some(from), next: usize::MAX },
        }
    }

    /// The next one, if there is one up to the end of `last`; asked again with a later `last` it goes on.
    pub(super) fn next(&mut self, last: Date) -> Option<Local> {
        match self {
            Self::Rrule(expansion) => expansion.next(last),
            Self::Dates { pattern, calendar, times, date, next } => {
                if *next >= times.len() {
                    let from = if *next == usize::MAX { (*date)? } else { Some((*date)?).filter(|d| *d < Date::LAST)?.plus(1) };
                    *date = Some(pattern.date_from(calendar, from, last)?);
                    *next = 0;
                }
                let local = (*date)?.at(*times.get(*next)?);
                *next += 1;
                Some(local)
            }
        }
    }
}
