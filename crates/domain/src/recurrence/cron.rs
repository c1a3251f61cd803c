//! A cron expression, read strictly and matched on the civil calendar.
//!
//! Five fields, white space between them: minute 0-59, hour 0-23, day of month 1-31, month 1-12 or JAN-DEC, day of week 0-7 or SUN-SAT
//! (0 and 7 are Sunday). A field is `*`, or a list of `a`, `a-b` with a ≤ b, `*/n`, `a-b/n`; besides, `L` is a month's last day, `X#n` its n-th
//! weekday X (n 1 to 5) and `X#L` its last one. Names in any letter case. Where both day fields are restricted a day matches when either
//! does (POSIX); one that is exactly `*` leaves the other to decide.
//!
//! A job whose minute or hour field begins with `*` is an interval job: it runs at every real minute whose local reading matches.
//!
//! Not of the dialect, and refused rather than guessed at: `a/n`, `?`, `W`, `5L`, `@daily`, a field of seconds or years, ranges that wrap.

use super::civil::{Date, Local, Month, TimeOfDay, Weekday};
use super::limits::EXPRESSION_BYTES_MAX;
use super::refused::{Refused, quoted};

/// How a cron job meets a change of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// It means local times of a date: one job per date and time, moved out of a gap, once in an overlap.
    FixedTime,
    /// It means minutes that pass: nothing in a gap, both passes of an overlap.
    Interval,
}

/// A cron expression. At least one date matches it: one that never fires is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: Days,
    class: Class,
}

/// What the three day fields say.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Days {
    /// Bit 1 to 31.
    of_month: u64,
    last_of_month: bool,
    /// Bit 1 to 12.
    months: u64,
    /// Bit 0 to 6, from Sunday.
    of_week: u64,
    /// For each weekday: bit 1 to 5 the n-th of its month, bit 0 the last.
    nth: [u8; 7],
    any_of_month: bool,
    any_of_week: bool,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

/// A field's name and bounds.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    named: fn(&str) -> Option<u32>,
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", min: 0, max: 59, named: |_| None },
    Field { name: "hour", min: 0, max: 23, named: |_| None },
    Field { name: "day of month", min: 1, max: 31, named: |_| None },
    Field { name: "month", min: 1, max: 12, named: |name| MONTHS.iter().zip(1..).find_map(|(m, n)| m.eq_ignore_ascii_case(name).then_some(n)) },
    Field { name: "day of week", min: 0, max: 7, named: |name| Weekday::from_name(name).map(Weekday::number) },
];

impl Cron {
    /// Reads an expression.
    ///
    /// # Errors
    /// The field, what stands there and what is allowed; that no date ever matches.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(refused(format!("is longer than {EXPRESSION_BYTES_MAX} bytes")));
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(refused(format!("has {} fields; allowed: five (minute hour day-of-month month day-of-week)", fields.len())));
        };
        let [minutes, hours, _, months, _] = &FIELDS;
        let (of_month, last_of_month) = days_of_month(day)?;
        let (of_week, nth) = days_of_week(weekday)?;
        let days = Days { of_month, last_of_month, months: months.bits(month)?, of_week, nth, any_of_month: day == "*", any_of_week: weekday == "*" };
        if !days.can_match() {
            return Err(refused("never fires: no month of it has such a day"));
        }
        let class = if minute.starts_with('*') || hour.starts_with('*') { Class::Interval } else { Class::FixedTime };
        Ok(Self { minutes: minutes.bits(minute)?, hours: hours.bits(hour)?, days, class })
    }

    /// Whether it means local times or minutes that pass.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Whether a date matches.
    pub fn matches(&self, date: Date) -> bool {
        let month = date.month();
        has(self.days.months, month.month) && self.days.matches(date, month)
    }

    /// The first matching date from `from` up to `last`.
    pub fn date_from(&self, from: Date, last: Date) -> Option<Date> {
        let mut date = from;
        while date <= last {
            let month = date.month();
            if !has(self.days.months, month.month) {
                date = month.plus(1)?.first();
            } else if self.days.matches(date, month) {
                return Some(date);
            } else if date == Date::LAST {
                return None;
            } else {
                date = date.plus(1);
            }
        }
        None
    }

    /// Its times of day, in order; the same on each matching date.
    pub fn times(&self) -> Vec<TimeOfDay> {
        let hours = (0..24).filter(|h| has(self.hours, *h));
        hours.flat_map(|h| (0..60).filter(|m| has(self.minutes, *m)).filter_map(move |m| TimeOfDay::new(h, m, 0))).collect()
    }

    /// The first matching local minute from `from` on, up to the end of `last`.
    pub fn local_from(&self, from: Local, last: Date) -> Option<Local> {
        // A minute begins at its second 0.
        let from = Local::from_millis(from.as_millis().saturating_add(59_999).div_euclid(60_000) * 60_000);
        let today = from.date();
        if today <= last
            && self.matches(today)
            && let Some(time) = self.time_from(from.time())
        {
            return Some(today.at(time));
        }
        Some(self.date_from(today.plus(1), last)?.at(self.time_from(TimeOfDay::MIDNIGHT)?))
    }

    fn time_from(&self, from: TimeOfDay) -> Option<TimeOfDay> {
        let next = |bits: u64, from: u32| (from..60).find(|n| has(bits, *n));
        let (hour, minute) = (from.hour(), from.minute());
        if has(self.hours, hour)
            && let Some(minute) = next(self.minutes, minute)
        {
            return TimeOfDay::new(hour, minute, 0);
        }
        TimeOfDay::new(next(self.hours, hour + 1)?, next(self.minutes, 0)?, 0)
    }
}

impl Days {
    fn matches(&self, date: Date, month: Month) -> bool {
        let day = date.day();
        let of_month = || has(self.of_month, day) || self.last_of_month && day == month.days();
        let of_week = || {
            let (weekday, nth) = (date.weekday().number(), day.div_ceil(7));
            let bits = self.nth[weekday as usize];
            has(self.of_week, weekday) || bits & (1 << nth) != 0 || bits & 1 != 0 && day + 7 > month.days()
        };
        match (self.any_of_month, self.any_of_week) {
            (true, true) => true,
            (false, true) => of_month(),
            (true, false) => of_week(),
            (false, false) => of_month() || of_week(),
        }
    }

    /// Every weekday, and every n-th one, comes in every month at some time; a day of the month may not.
    fn can_match(&self) -> bool {
        let leap = |month| Month { year: 2000, month }.days();
        let has_such_a_day = |month: u32| self.last_of_month || (1..=leap(month)).any(|day| has(self.of_month, day));
        self.any_of_month || !self.any_of_week || (1..=12).any(|month| has(self.months, month) && has_such_a_day(month))
    }
}

impl Field {
    /// A field that is a list of plain items.
    fn bits(&self, text: &str) -> Result<u64, Refused> {
        text.split(',').try_fold(0, |bits, item| Ok(bits | self.item(item)?))
    }

    /// `*`, `*/n`, `a`, `a-b` or `a-b/n`.
    fn item(&self, item: &str) -> Result<u64, Refused> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (from, to) = match range.split_once('-') {
            None if range == "*" => (self.min, self.max),
            None if step.is_some() => return Err(self.wrong(item, "a step follows * or a range a-b")),
            None => (self.value(range)?, self.value(range)?),
            Some((from, to)) => (self.value(from)?, self.value(to)?),
        };
        if from > to {
            return Err(self.wrong(item, "in a range a-b, a is at most b"));
        }
        let step = match step {
            Some(step) => number(step).filter(|n| *n > 0).ok_or_else(|| self.wrong(item, "a step is a whole number from 1"))?,
            None => 1,
        };
        Ok((from..=to).step_by(step as usize).fold(0, |bits, n| bits | 1 << n))
    }

    fn value(&self, text: &str) -> Result<u32, Refused> {
        let known = number(text).filter(|n| (self.min..=self.max).contains(n)).or_else(|| (self.named)(text));
        known.ok_or_else(|| self.wrong(text, &format!("values are {} to {}{}", self.min, self.max, self.names())))
    }

    fn names(&self) -> &'static str {
        match self.name {
            "month" => " or JAN to DEC",
            "day of week" => " or SUN to SAT",
            _no_names => "",
        }
    }

    fn wrong(&self, item: &str, allowed: &str) -> Refused {
        refused(format!("{}: {} is not allowed: {allowed}", self.name, quoted(item)))
    }
}

fn days_of_month(text: &str) -> Result<(u64, bool), Refused> {
    let mut last = false;
    let mut bits = 0;
    for item in text.split(',') {
        if item.eq_ignore_ascii_case("L") {
            last = true;
        } else if item.bytes().any(|b| matches!(b, b'W' | b'w')) {
            return Err(FIELDS[2].wrong(item, "there is no W; a calendar with roll = \"previous\" or \"next\" finds business days"));
        } else {
            bits |= FIELDS[2].item(item)?;
        }
    }
    Ok((bits, last))
}

fn days_of_week(text: &str) -> Result<(u64, [u8; 7]), Refused> {
    let (mut bits, mut nth) = (0, [0; 7]);
    for item in text.split(',') {
        if let Some((weekday, which)) = item.split_once('#') {
            let bit = match which {
                "L" | "l" => 0,
                which => number(which).filter(|n| (1..=5).contains(n)).ok_or_else(|| FIELDS[4].wrong(item, "after # stands 1 to 5, or L"))?,
            };
            nth[(FIELDS[4].value(weekday)? % 7) as usize] |= 1 << bit;
        } else if let Some(weekday) = item.strip_suffix(['L', 'l']).filter(|w| FIELDS[4].value(w).is_ok()) {
            return Err(FIELDS[4].wrong(item, &format!("a month's last weekday is {weekday}#L")));
        } else {
            bits |= FIELDS[4].item(item)?;
        }
    }
    // 7 is Sunday too.
    Ok((bits & 0x7f | bits >> 7, nth))
}

fn number(text: &str) -> Option<u32> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn has(bits: u64, n: u32) -> bool {
    bits & (1 << n) != 0
}

fn refused(reason: impl Into<String>) -> Refused {
    Refused::new("cron", reason)
}

#[cfg(test)]
mod tests {
    use super::super::limits::QUIET_DAYS;
    use super::*;

    /// The first dates that match in 2027 and 2028.
    fn dates(cron: &str, count: usize) -> Vec<String> {
        let cron = Cron::parse(cron).expect("an expression");
        let all = (0..731).map(|n| Date::new(2027, 1, 1).expect("a date").plus(n)).filter(|d| cron.matches(*d));
        all.take(count).map(|d| d.to_string()[2..].to_owned()).collect()
    }

    #[test]
    fn a_day_matches_as_its_fields_say() {
        for (cron, expected) in [
            ("0 9 * * *", "27-01-01 27-01-02 27-01-03"),
            ("0 9 L * *", "27-01-31 27-02-28 27-03-31"),
            ("0 9 15,l FEB *", "27-02-15 27-02-28 28-02-15 28-02-29"),
            ("0 9 29 2 *", "28-02-29"),
            ("0 9 * * 5#L", "27-01-29 27-02-26 27-03-26"),
            ("0 9 * * fri#l", "27-01-29 27-02-26 27-03-26"),
            ("0 9 * * 0#1", "27-01-03 27-02-07"),
            ("0 9 * * 7#1", "27-01-03 27-02-07"),
            ("0 9 * * mon#5", "27-03-29 27-05-31"),
            ("0 9 * * mon#1,WED#3", "27-01-04 27-01-20 27-02-01 27-02-17"),
            ("0 9 * * 5-7", "27-01-01 27-01-02 27-01-03 27-01-08"),
            ("0 9 * * 1-5/2", "27-01-01 27-01-04 27-01-06"),
            ("0 9 * * 0-7/7", "27-01-03 27-01-10"),
            ("0 9 10 * MON", "27-01-04 27-01-10 27-01-11"),
            ("0 9 31 2 SUN", "27-02-07 27-02-14"),
            ("0 9 */2 * MON", "27-01-01 27-01-03 27-01-04 27-01-05"),
            ("0 9 1 */6 *", "27-01-01 27-07-01 28-01-01"),
            ("0 9 1 jan-mar *", "27-01-01 27-02-01 27-03-01 28-01-01"),
        ] {
            let expected: Vec<&str> = expected.split(' ').collect();
            assert_eq!(dates(cron, expected.len()), expected, "{cron}");
        }
    }

    #[test]
    fn what_is_not_of_the_dialect_is_refused() {
        let wrong = [
            "",
            " ",
            "0 9 * *",
            "0 9 * * * *",
            "0 0 9 * * *",
            "@daily",
            "60 9 * * *",
            "-1 9 * * *",
            "0 24 * * *",
            "0 9 0 * *",
            "0 9 32 * *",
            "0 9 * 0 *",
            "0 9 * 13 *",
            "0 9 * * 8",
            "*/0 * * * *",
            "5/15 * * * *",
            "0 9 * * 5-1",
            "0 9 * * SAT-SUN",
            "0 9 * * FRI#6",
            "0 9 * * FRI#0",
            "0 9 * * FRI#",
            "0 9 * * #1",
            "0 9 * * 1-5#1",
            "0 9 * * 5L",
            "0 9 * * FRIL",
            "0 9 * * L",
            "0 9 L-3 * *",
            "0 9 LW * *",
            "0 9 15W * *",
            "0 9 ? * 1",
            "0 9 * * 1-",
            "0 9 * * -5",
            "0 9 * * MON-",
            "0 9 * * 1,,2",
            "0 9 * * 1,",
            "0 9 * * ,1",
            "1e1 9 * * *",
            "+5 9 * * *",
            "4294967296 9 * * *",
            "５ 9 * * *",
            "0 9 * * MONDAY",
            "0 9 * JANUARY *",
            "0 9 31 2 *",
            "0 9 30 FEB *",
            "0 9 31 4,6,9,11 *",
            "0\u{a0}9 * * *",
            "0 9 * * *\u{2003}",
            "* L * * *",
            "0 9 * * */-1",
            "0 9 1--2 * *",
            "0 9 1-2-3 * *",
            "0 9 **  * *",
            "0 9 */2/2 * *",
            "MON 9 * * *",
            "0x5 9 * * *",
            "5.0 9 * * *",
        ];
        for cron in wrong {
            let refused = Cron::parse(cron).expect_err(cron);
            assert_eq!(refused.field, "cron", "{cron}");
        }
        assert!(Cron::parse(&"1,".repeat(2_000)).is_err());
        assert!(Cron::parse("0 9 * * FRIL").is_err_and(|r| r.reason.contains("FRI#L")));
    }

    #[test]
    fn white_space_is_any_of_ascii_and_numbers_may_have_zeros_in_front() {
        assert_eq!(Cron::parse(" 00\t09  *   * 01-05 \n"), Cron::parse("0 9 * * 1-5"));
    }

    #[test]
    fn a_leading_star_makes_an_interval_job() {
        for (cron, class) in [
            ("*/15 * * * *", Class::Interval),
            ("*/5 9 * * *", Class::Interval),
            ("0 */2 * * *", Class::Interval),
            ("*,0 9 * * *", Class::Interval),
            ("0 9-17 * * *", Class::FixedTime),
            ("0,30 9 * * *", Class::FixedTime),
            ("0-59 0-23 * * *", Class::FixedTime),
            ("0 9 */2 * */2", Class::FixedTime),
        ] {
            assert_eq!(Cron::parse(cron).map(|c| c.class()), Ok(class), "{cron}");
        }
    }

    #[test]
    fn the_longest_silence_of_the_calendar_is_found() {
        let (cron, from) = (Cron::parse("0 9 * 2 MON#5").expect("an expression"), Date::new(2072, 3, 1).expect("a date"));
        assert_eq!(cron.date_from(from, from.plus(QUIET_DAYS)).map(|d| d.to_string()).as_deref(), Some("2112-02-29"));
        assert_eq!(cron.date_from(from, from.plus(39 * 366)), None);
        assert_eq!(cron.date_from(Date::new(9997, 3, 1).expect("a date"), Date::LAST), None);
    }

    #[test]
    fn the_next_minute_is_at_or_after_the_one_asked_for() {
        let next = |cron: &str, from: &str| {
            let found = Cron::parse(cron).expect("an expression").local_from(Local::parse(from).expect("a time"), Date::LAST);
            found.map(|l| l.to_string()[..16].to_owned())
        };
        for (cron, from, expected) in [
            ("* * * * *", "2027-01-01T09:00:00", "2027-01-01T09:00"),
            ("* * * * *", "2027-01-01T09:00:01", "2027-01-01T09:01"),
            ("* * * * *", "2027-12-31T23:59:01", "2028-01-01T00:00"),
            ("*/20 9,17 * * *", "2027-01-01T09:41:00", "2027-01-01T17:00"),
            ("*/20 9,17 * * MON", "2027-01-01T09:41:00", "2027-01-04T09:00"),
            ("*/20 9,17 * * FRI", "2027-01-01T17:41:00", "2027-01-08T09:00"),
        ] {
            assert_eq!(next(cron, from).as_deref(), Some(expected), "{cron} from {from}");
        }
    }
}
