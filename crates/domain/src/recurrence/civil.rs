//! Dates and times on the civil calendar: what a wall clock reads, without any zone.

use std::fmt;

use chrono::{Datelike, NaiveDate};

/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;
/// The day number of 1970-01-01 in chrono's count from year 1.
const EPOCH_FROM_CE: i32 = 719_163;

/// A date of the proleptic Gregorian calendar, from 1900-01-01 to 9998-12-31.
///
/// Arithmetic saturates at both ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(i32);

/// A month of a year.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Month {
    /// 1900 to 9998.
    pub year: i32,
    /// 1 to 12.
    pub month: u32,
}

/// A day of the week.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Weekday {
    /// Cron's 0 and 7.
    Sunday,
    /// 1.
    Monday,
    /// 2.
    Tuesday,
    /// 3.
    Wednesday,
    /// 4.
    Thursday,
    /// 5.
    Friday,
    /// 6.
    Saturday,
}

/// A time of day, in whole seconds since midnight: 0 to 86,399.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeOfDay(u32);

/// What a wall clock reads, in milliseconds since it would have read 1970-01-01T00:00:00.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Local(i64);

impl Date {
    /// The first date.
    pub const FIRST: Self = Self(-25_567);
    /// The last date.
    pub const LAST: Self = Self(2_932_531);

    /// A date, where there is one.
    pub fn new(year: i32, month: u32, day: u32) -> Option<Self> {
        let days = NaiveDate::from_ymd_opt(year, month, day)?.num_days_from_ce() - EPOCH_FROM_CE;
        (Self::FIRST.0..=Self::LAST.0).contains(&days).then_some(Self(days))
    }

    /// Reads `YYYY-MM-DD`, and nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |from: usize, to: usize| digits(text.get(from..to)?);
        let dashes = text.len() == 10 && text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-';
        if dashes { Self::new(i32::try_from(number(0, 4)?).ok()?, number(5, 7)?, number(8, 10)?) } else { None }
    }

    /// The date so many days later, or earlier. Saturates.
    pub fn plus(self, days: i32) -> Self {
        Self(self.0.saturating_add(days).clamp(Self::FIRST.0, Self::LAST.0))
    }

    /// Days from `earlier` to this one; negative where it is later.
    pub fn since(self, earlier: Self) -> i32 {
        self.0 - earlier.0
    }

    /// The day of its week.
    pub fn weekday(self) -> Weekday {
        // 1970-01-01 was a Thursday.
        Weekday::ALL[(self.0 + 4).rem_euclid(7) as usize]
    }

    /// Its month.
    pub fn month(self) -> Month {
        let date = self.chrono();
        Month { year: date.year(), month: date.month() }
    }

    /// The day of its month, from 1.
    pub fn day(self) -> u32 {
        self.chrono().day()
    }

    /// The day of its year, from 1.
    pub fn day_of_year(self) -> u32 {
        self.chrono().ordinal()
    }

    /// The local time at a time of this date.
    pub fn at(self, time: TimeOfDay) -> Local {
        Local(i64::from(self.0) * DAY_MS + i64::from(time.0) * 1_000)
    }

    fn chrono(self) -> NaiveDate {
        NaiveDate::from_num_days_from_ce_opt(self.0 + EPOCH_FROM_CE).expect("a date is between 1900 and 9998")
    }
}

impl Month {
    /// Its first day.
    pub fn first(self) -> Date {
        Date::new(self.year, self.month, 1).expect("a month is between 1900 and 9998")
    }

    /// How many days it has.
    pub fn days(self) -> u32 {
        match self.month {
            2 if is_leap(self.year) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _other => 31,
        }
    }

    /// Its last day.
    pub fn last(self) -> Date {
        self.first().plus(self.days() as i32 - 1)
    }

    /// Its day of that number, the last one where it has fewer.
    pub fn clamped(self, day: u32) -> Date {
        self.first().plus(day.clamp(1, self.days()) as i32 - 1)
    }

    /// The month so many months later, where it is in range.
    pub fn plus(self, months: i32) -> Option<Self> {
        let index = (self.year * 12 + self.month as i32 - 1).checked_add(months)?;
        let (year, month) = (index.div_euclid(12), index.rem_euclid(12) as u32 + 1);
        (1900..=9998).contains(&year).then_some(Self { year, month })
    }
}

/// Whether a year has a 29th of February.
pub fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

impl Weekday {
    /// All, from Sunday, in cron's order.
    pub const ALL: [Self; 7] = [Self::Sunday, Self::Monday, Self::Tuesday, Self::Wednesday, Self::Thursday, Self::Friday, Self::Saturday];

    /// Cron's number: 0 is Sunday.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Reads `MON` or `mon`.
    pub fn from_name(name: &str) -> Option<Self> {
        const NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
        NAMES.iter().position(|n| n.eq_ignore_ascii_case(name)).map(|i| Self::ALL[i])
    }

    /// Days from `first` to this one within a week that begins with `first`: 0 to 6.
    pub fn days_after(self, first: Self) -> i32 {
        (self as i32 - first as i32).rem_euclid(7)
    }
}

impl TimeOfDay {
    /// Midnight, when a day begins.
    pub const MIDNIGHT: Self = Self(0);

    /// A time, where there is one; 24:00 is none: it is 00:00 of the day after.
    pub fn new(hour: u32, minute: u32, second: u32) -> Option<Self> {
        (hour < 24 && minute < 60 && second < 60).then(|| Self(hour * 3_600 + minute * 60 + second))
    }

    /// Reads `HH:MM` or `HH:MM:SS`, and nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let colons = matches!(text.len(), 5 | 8) && text.bytes().enumerate().all(|(i, b)| if i % 3 == 2 { b == b':' } else { b.is_ascii_digit() });
        let number = |from: usize| text.get(from..from + 2).and_then(digits);
        if !colons {
            return None;
        }
        Self::new(number(0)?, number(3)?, if text.len() == 8 { number(6)? } else { 0 })
    }

    /// The hour, 0 to 23.
    pub fn hour(self) -> u32 {
        self.0 / 3_600
    }

    /// The minute, 0 to 59.
    pub fn minute(self) -> u32 {
        self.0 / 60 % 60
    }

    /// The second, 0 to 59.
    pub fn second(self) -> u32 {
        self.0 % 60
    }
}

impl Local {
    /// The local time of so many milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Its milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Reads `YYYY-MM-DDTHH:MM` with or without `:SS`, and nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.split_once('T')?;
        Some(Date::parse(date)?.at(TimeOfDay::parse(time)?))
    }

    /// Its date. Saturates at the ends of `Date`.
    pub fn date(self) -> Date {
        let days = self.0.div_euclid(DAY_MS).clamp(i64::from(Date::FIRST.0), i64::from(Date::LAST.0));
        Date(i32::try_from(days).expect("it is between two of them"))
    }

    /// Its time of day, parts of a second cut off.
    pub fn time(self) -> TimeOfDay {
        TimeOfDay(u32::try_from(self.0.rem_euclid(DAY_MS) / 1_000).expect("a day has 86,400 seconds"))
    }
}

fn digits(text: &str) -> Option<u32> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Month { year, month } = self.month();
        write!(f, "{year:04}-{month:02}-{:02}", self.day())
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.hour(), self.minute())?;
        if self.second() > 0 { write!(f, ":{:02}", self.second()) } else { Ok(()) }
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time();
        write!(f, "{}T{:02}:{:02}:{:02}", self.date(), time.hour(), time.minute(), time.second())
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_reads_as_it_was_written() {
        for text in ["1900-01-01", "1970-01-01", "2000-02-29", "2028-02-29", "9998-12-31"] {
            assert_eq!(Date::parse(text).map(|d| d.to_string()).as_deref(), Some(text));
        }
        for bad in ["", "1899-12-31", "9999-01-01", "2027-02-29", "2100-02-29", "2027-1-01", "2027-01-01 ", "+027-01-01", "２027-01-01", "2027-13-01"]
        {
            assert_eq!(Date::parse(bad), None, "{bad}");
        }
        assert_eq!((Date::new(1900, 1, 1), Date::new(9998, 12, 31)), (Some(Date::FIRST), Some(Date::LAST)));
    }

    #[test]
    fn a_time_is_of_one_day() {
        assert_eq!(TimeOfDay::parse("23:59:59").map(|t| t.to_string()).as_deref(), Some("23:59:59"));
        for bad in ["24:00", "23:60", "9:00", "09:00:60", "09:0", "09-00", "09:00:0", "", "+9:00"] {
            assert_eq!(TimeOfDay::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_calendar_is_the_gregorian_one() {
        let date = |text| Date::parse(text).expect("a date");
        assert_eq!((date("2026-11-30").weekday(), date("2000-01-01").weekday()), (Weekday::Monday, Weekday::Saturday));
        assert_eq!((date("2028-02-29").day_of_year(), date("2028-12-31").day_of_year()), (60, 366));
        assert_eq!(Month { year: 2100, month: 2 }.last(), date("2100-02-28"));
        assert_eq!(Month { year: 2027, month: 12 }.plus(1), Some(Month { year: 2028, month: 1 }));
        assert_eq!(Month { year: 2027, month: 1 }.plus(-1), Some(Month { year: 2026, month: 12 }));
        assert_eq!(Month { year: 9998, month: 12 }.plus(1), None);
        assert_eq!(Date::LAST.plus(9), Date::LAST);
    }
}
