//! A timetable as it was written, which is how it is stored: texts, read anew each time, so that no stored rule depends on how a build holds it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::{SPREAD_MAX, WINDOWS_LOOKED_AHEAD, WINDOWS_LOOKED_AT, WINDOWS_NAMED};
use super::rrule::Excluded;
use super::{
    Calendar, Cron, Date, Deadline, Dst, Gap, Local, Occurrence, Overlap, Pattern, Range, Recurrence, Refused, Roll, Rrule, TimeOfDay, Verdict,
    WallClock, Weekday,
};
use crate::moment::Moment;

/// When a schedule's jobs run and by when, in its author's words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Timetable {
    /// What is repeated.
    pub rule: Written,
    /// The IANA name of the customer's zone. Whoever has the zone data knows whether it is one.
    pub zone: String,
    /// `HH:MM`: when automation stops. No job is without a deadline.
    pub deadline: String,
    /// Days from the send's date to the deadline's; 0 is the same date.
    #[serde(default)]
    pub deadline_days: i32,
    /// The business days of a week, `MON`; empty: every day.
    #[serde(default)]
    pub business_week: Vec<String>,
    /// Dates that are no business days.
    #[serde(default)]
    pub holidays: Vec<String>,
    /// Where a date that is no business day rolls to; `None`: it is sent on that date.
    #[serde(default)]
    pub roll: Option<String>,
    /// The first nominal date.
    #[serde(default)]
    pub start: Option<String>,
    /// The last nominal date.
    #[serde(default)]
    pub end: Option<String>,
    /// What becomes of a time that the clock is put forward over; `None`: our rule.
    #[serde(default)]
    pub gap: Option<String>,
    /// Which pass of a time that the clock reads twice; `None`: our rule.
    #[serde(default)]
    pub overlap: Option<String>,
    /// Over how long the jobs of one slot are spread, in milliseconds; 0 to `SPREAD_MAX`.
    #[serde(default)]
    pub spread_ms: u64,
    /// Dates that have no window are allowed, and skipped visibly.
    #[serde(default)]
    pub allow_invalid_windows: bool,
}

/// A rule as written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Written {
    /// Five fields.
    Cron(String),
    /// An RRULE, its first local time `YYYY-MM-DDTHH:MM`, and the dates or local times taken out.
    Rrule {
        /// The value of an RRULE line.
        rrule: String,
        /// DTSTART, local.
        dtstart: String,
        /// EXDATE.
        excluded: Vec<String>,
    },
    /// Every so many hours from an instant on (RFC 3339).
    EveryHours {
        /// From 1.
        hours: u32,
        /// The first run.
        anchor: String,
    },
}

impl Timetable {
    /// One at a cron expression's times, with a deadline on the same date and nothing else said.
    pub fn cron(cron: &str, zone: &str, deadline: &str) -> Self {
        Self {
            rule: Written::Cron(cron.to_owned()),
            zone: zone.to_owned(),
            deadline: deadline.to_owned(),
            deadline_days: 0,
            business_week: Vec::new(),
            holidays: Vec::new(),
            roll: None,
            start: None,
            end: None,
            gap: None,
            overlap: None,
            spread_ms: 0,
            allow_invalid_windows: false,
        }
    }

    /// Over how long the jobs of one slot are spread.
    pub fn spread(&self) -> Duration {
        Duration::from_millis(self.spread_ms)
    }

    /// Reads it.
    ///
    /// # Errors
    /// The field, and what is allowed. Not the zone: see [`Self::admit`].
    pub fn read(&self) -> Result<Recurrence, Refused> {
        if self.spread() > SPREAD_MAX {
            return Err(Refused::new("spread", format!("is longer than {} h", SPREAD_MAX.as_secs() / 3600)));
        }
        let week = if self.business_week.is_empty() {
            Weekday::ALL.to_vec()
        } else {
            let day = |t: &String| parsed("calendar", "SUN, MON, TUE, WED, THU, FRI, SAT", Weekday::from_name(t));
            self.business_week.iter().map(day).collect::<Result<_, _>>()?
        };
        let holidays = self.holidays.iter().map(|t| parsed("calendar", "YYYY-MM-DD", Date::parse(t))).collect::<Result<Vec<_>, _>>()?;
        let recurrence = Recurrence {
            pattern: self.rule.read()?,
            calendar: Calendar::new(week, holidays)?,
            roll: word("roll", "skip, next, previous, modified_next, modified_previous", self.roll.as_deref(), Roll::from_word)?,
            deadline: Some(Deadline {
                time: parsed("deadline", "HH:MM; midnight at a day's end is 00:00 with deadline_days 1", TimeOfDay::parse(&self.deadline))?,
                days: self.deadline_days,
            }),
            dst: Dst {
                gap: word("gap", "first_valid, shift, skip", self.gap.as_deref(), Gap::from_word)?.unwrap_or_default(),
                overlap: word("overlap", "first, last", self.overlap.as_deref(), Overlap::from_word)?.unwrap_or_default(),
            },
            start: word("start", "YYYY-MM-DD", self.start.as_deref(), Date::parse)?,
            end: word("end", "YYYY-MM-DD", self.end.as_deref(), Date::parse)?,
        };
        recurrence.check()?;
        Ok(recurrence)
    }

    /// Reads it for a schedule that is made or changed now: it must fire, and every date must have a window, or its author allows those that
    /// haven't. The occurrences without one, at most `WINDOWS_NAMED`.
    ///
    /// # Errors
    /// The field; that it never fires; the dates on which the release isn't before the deadline.
    pub fn admit(&self, clock: &dyn WallClock, now: Moment) -> Result<(Recurrence, Vec<Occurrence>), Refused> {
        let recurrence = self.read()?;
        recurrence.check_fires(clock, Range::ALL.after(now))?;
        let range = Range::ALL.after(now).to(now.plus(WINDOWS_LOOKED_AHEAD));
        let without = |o: &Occurrence| matches!(o.verdict, Verdict::InvalidWindow | Verdict::NoDeadline);
        let bad: Vec<Occurrence> = recurrence.sends(clock, range).take(WINDOWS_LOOKED_AT).filter(without).take(WINDOWS_NAMED).collect();
        if bad.is_empty() || self.allow_invalid_windows {
            return Ok((recurrence, bad));
        }
        let dates: Vec<String> = bad.iter().map(|o| o.business_date().to_string()).collect();
        let reason = format!("the release is not before it on {}; allow_invalid_windows skips such dates", dates.join(", "));
        Err(Refused::new("deadline", reason))
    }
}

impl Written {
    fn read(&self) -> Result<Pattern, Refused> {
        match self {
            Self::Cron(text) => Ok(Pattern::Cron { cron: Cron::parse(text)?, time: None }),
            Self::Rrule { rrule, dtstart, excluded } => {
                let dtstart = parsed("start", "YYYY-MM-DDTHH:MM", Local::parse(dtstart))?;
                let read = |t: &String| parsed("rrule", "YYYY-MM-DD or YYYY-MM-DDTHH:MM in EXDATE", Excluded::parse(t));
                let excluded = excluded.iter().map(read).collect::<Result<_, _>>()?;
                Ok(Pattern::Rrule(Box::new(Rrule::new(rrule, dtstart, excluded)?)))
            }
            Self::EveryHours { hours, anchor } => {
                Ok(Pattern::EveryHours { hours: *hours, anchor: parsed("anchor", "RFC 3339", Moment::parse(anchor))? })
            }
        }
    }
}

fn parsed<T>(field: &'static str, allowed: &str, read: Option<T>) -> Result<T, Refused> {
    read.ok_or_else(|| Refused::new(field, format!("can't be read; allowed: {allowed}")))
}

fn word<T>(field: &'static str, allowed: &str, text: Option<&str>, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Refused> {
    text.map(|t| parsed(field, allowed, read(t))).transpose()
}
