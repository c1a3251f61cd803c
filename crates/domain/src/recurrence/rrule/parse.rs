//! The text of an RRULE.

use super::{ByDay, Frequency, Parts, Until};
use crate::moment::Moment;
use crate::recurrence::civil::{Date, Local, TimeOfDay, Weekday};
use crate::recurrence::limits::{EXPRESSION_BYTES_MAX, RRULE_COUNT_MAX, RRULE_INTERVAL_MAX};
use crate::recurrence::refused::{Refused, quoted};

impl Parts {
    pub(super) fn parse(text: &str) -> Result<Self, Refused> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(refused(format!("is longer than {EXPRESSION_BYTES_MAX} bytes")));
        }
        let upper = text.trim().to_ascii_uppercase();
        let mut given: Vec<(&str, &str)> = Vec::new();
        for part in upper.strip_prefix("RRULE:").unwrap_or(&upper).split(';').filter(|p| !p.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| refused(format!("{} is no NAME=VALUE", quoted(part))))?;
            if given.iter().any(|(n, _)| *n == name) {
                return Err(refused(format!("{} stands there twice", quoted(name))));
            }
            given.push((name, value));
        }
        let take = |name: &str| given.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        if let Some((name, _)) = given.iter().find(|(n, _)| !NAMES.contains(n)) {
            return Err(refused(format!("{} is no part of a rule; allowed: {}", quoted(name), NAMES.join(", "))));
        }
        let list = |name: &'static str, max: i32, zero: Zero| take(name).map_or(Ok(Vec::new()), |value| numbers(name, value, max, zero));
        let parts = Self {
            frequency: frequency(take("FREQ"))?,
            interval: take("INTERVAL").map_or(Ok(1), |v| whole("INTERVAL", v, RRULE_INTERVAL_MAX))?,
            count: take("COUNT").map(|v| whole("COUNT", v, RRULE_COUNT_MAX)).transpose()?,
            until: take("UNTIL").map(until).transpose()?,
            week_start: take("WKST").map_or(Ok(Weekday::Monday), |v| weekday("WKST", v))?,
            by_month: list("BYMONTH", 12, Zero::Refused)?.into_iter().map(|m| positive("BYMONTH", m)).collect::<Result<_, _>>()?,
            by_week: list("BYWEEKNO", 53, Zero::Refused)?,
            by_year_day: list("BYYEARDAY", 366, Zero::Refused)?,
            by_month_day: list("BYMONTHDAY", 31, Zero::Refused)?,
            by_day: take("BYDAY").map_or(Ok(Vec::new()), |v| v.split(',').map(by_day).collect())?,
            by_hour: list("BYHOUR", 23, Zero::Allowed)?,
            by_minute: list("BYMINUTE", 59, Zero::Allowed)?,
            by_second: list("BYSECOND", 59, Zero::Allowed)?,
            by_set_position: list("BYSETPOS", 366, Zero::Refused)?,
        };
        parts.fit()?;
        Ok(parts)
    }

    /// RFC 5545, 3.3.10: which parts stand together.
    fn fit(&self) -> Result<(), Refused> {
        let yearly = self.frequency == Frequency::Yearly;
        let counted = self.by_day.iter().any(|d| d.nth.is_some());
        let no_other_by = [&self.by_month, &self.by_week, &self.by_year_day, &self.by_month_day, &self.by_hour, &self.by_minute, &self.by_second]
            .iter()
            .all(|list| list.is_empty());
        let wrong = [
            (self.count.is_some() && self.until.is_some(), "COUNT and UNTIL exclude each other"),
            (!self.by_week.is_empty() && !yearly, "BYWEEKNO stands with FREQ=YEARLY alone"),
            (!self.by_year_day.is_empty() && !yearly, "BYYEARDAY stands with FREQ=YEARLY alone"),
            (!self.by_month_day.is_empty() && self.frequency == Frequency::Weekly, "BYMONTHDAY doesn't stand with FREQ=WEEKLY"),
            (
                counted && matches!(self.frequency, Frequency::Weekly | Frequency::Daily),
                "a number before a BYDAY stands with FREQ=MONTHLY or YEARLY alone",
            ),
            (counted && !self.by_week.is_empty(), "a number before a BYDAY doesn't stand with BYWEEKNO"),
            (!self.by_set_position.is_empty() && self.by_day.is_empty() && no_other_by, "BYSETPOS needs another BY part to choose from"),
        ];
        wrong.into_iter().find(|(hit, _)| *hit).map_or(Ok(()), |(_, reason)| Err(refused(reason)))
    }

    /// The times of each of its dates, in order.
    pub(super) fn times(&self, dtstart: TimeOfDay) -> Vec<TimeOfDay> {
        let or = |list: &[i32], given: u32| if list.is_empty() { vec![given as i32] } else { list.to_vec() };
        let (hours, minutes) = (or(&self.by_hour, dtstart.hour()), or(&self.by_minute, dtstart.minute()));
        let seconds = or(&self.by_second, dtstart.second());
        let mut times = Vec::new();
        for hour in &hours {
            for minute in &minutes {
                times.extend(seconds.iter().filter_map(|second| TimeOfDay::new(*hour as u32, *minute as u32, *second as u32)));
            }
        }
        times.sort_unstable();
        times.dedup();
        times
    }
}

const NAMES: [&str; 14] = [
    "FREQ",
    "INTERVAL",
    "COUNT",
    "UNTIL",
    "WKST",
    "BYMONTH",
    "BYWEEKNO",
    "BYYEARDAY",
    "BYMONTHDAY",
    "BYDAY",
    "BYHOUR",
    "BYMINUTE",
    "BYSECOND",
    "BYSETPOS",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    /// A time: 0 and more.
    Allowed,
    /// A place from the start, or from the end where it is negative.
    Refused,
}

fn frequency(value: Option<&str>) -> Result<Frequency, Refused> {
    match value {
        Some("YEARLY") => Ok(Frequency::Yearly),
        Some("MONTHLY") => Ok(Frequency::Monthly),
        Some("WEEKLY") => Ok(Frequency::Weekly),
        Some("DAILY") => Ok(Frequency::Daily),
        Some("HOURLY" | "MINUTELY" | "SECONDLY") => Err(refused(
            "FREQ: allowed: YEARLY, MONTHLY, WEEKLY, DAILY; a job every hour or minute is a cron whose minute or hour field begins with *",
        )),
        Some(other) => Err(refused(format!("FREQ: {} is not allowed: YEARLY, MONTHLY, WEEKLY, DAILY", quoted(other)))),
        None => Err(refused("has no FREQ")),
    }
}

fn numbers(name: &'static str, value: &str, max: i32, zero: Zero) -> Result<Vec<i32>, Refused> {
    let number = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let plain = !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|b| b.is_ascii_digit());
        let n: i32 = if plain { text.parse().ok()? } else { return None };
        let allowed = match zero {
            Zero::Allowed => digits.len() == text.len() && n <= max,
            Zero::Refused => n != 0 && n.abs() <= max,
        };
        allowed.then_some(n)
    };
    let least = if zero == Zero::Allowed { "0" } else { "1 (or from -1 down)" };
    value.split(',').map(|t| number(t).ok_or_else(|| refused(format!("{name}: {} is not allowed: {least} to {max}", quoted(t))))).collect()
}

fn positive(name: &str, n: i32) -> Result<i32, Refused> {
    if n > 0 { Ok(n) } else { Err(refused(format!("{name}: {n} is not allowed: 1 to 12"))) }
}

fn whole(name: &str, value: &str, max: u32) -> Result<u32, Refused> {
    let plain = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let n = if plain { value.parse().ok() } else { None };
    n.filter(|n| (1..=max).contains(n)).ok_or_else(|| refused(format!("{name}: {} is not allowed: 1 to {max}", quoted(value))))
}

fn weekday(name: &str, value: &str) -> Result<Weekday, Refused> {
    const NAMES: [&str; 7] = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"];
    let found = NAMES.iter().position(|n| *n == value).map(|i| Weekday::ALL[i]);
    found.ok_or_else(|| refused(format!("{name}: {} is not allowed: SU, MO, TU, WE, TH, FR, SA", quoted(value))))
}

fn by_day(value: &str) -> Result<ByDay, Refused> {
    let (number, name) = value.split_at_checked(value.len().saturating_sub(2)).unwrap_or(("", value));
    let nth = if number.is_empty() { None } else { Some(numbers("BYDAY", number, 53, Zero::Refused)?[0]) };
    Ok(ByDay { nth, weekday: weekday("BYDAY", name)? })
}

/// `YYYYMMDD` (all of that date), `YYYYMMDDTHHMMSS` (local) or `YYYYMMDDTHHMMSSZ` (an instant).
fn until(value: &str) -> Result<Until, Refused> {
    let read = || {
        let (date, time) = value.split_once('T').map_or((value, None), |(d, t)| (d, Some(t)));
        let date = Date::parse(&format!("{}-{}-{}", date.get(0..4)?, date.get(4..6)?, date.get(6..)?))?;
        let Some(time) = time else { return Some(Until::Local(date.at(TimeOfDay::new(23, 59, 59)?))) };
        let (digits, utc) = time.strip_suffix('Z').map_or((time, false), |t| (t, true));
        let time = TimeOfDay::parse(&format!("{}:{}:{}", digits.get(0..2)?, digits.get(2..4)?, digits.get(4..)?))?;
        let local: Local = date.at(time);
        Some(if utc { Until::Instant(Moment::from_millis(local.as_millis())) } else { Until::Local(local) })
    };
    read().ok_or_else(|| refused(format!("UNTIL: {} is not allowed: YYYYMMDDTHHMMSSZ, YYYYMMDDTHHMMSS or YYYYMMDD", quoted(value))))
}

fn refused(reason: impl Into<String>) -> Refused {
    Refused::new("rrule", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rfc_5545_does_not_allow_is_refused() {
        for (text, names) in [
            ("", "FREQ"),
            ("INTERVAL=2", "FREQ"),
            ("FREQ=FORTNIGHTLY", "FREQ"),
            ("FREQ=HOURLY", "FREQ"),
            ("FREQ=DAILY;FREQ=DAILY", "twice"),
            ("FREQ=DAILY;COUNT=3;UNTIL=20270101", "COUNT and UNTIL"),
            ("FREQ=DAILY;INTERVAL=0", "INTERVAL"),
            ("FREQ=DAILY;INTERVAL=-1", "INTERVAL"),
            ("FREQ=DAILY;COUNT=0", "COUNT"),
            ("FREQ=DAILY;COUNT=4294967297", "COUNT"),
            ("FREQ=DAILY;UNTIL=20270230", "UNTIL"),
            ("FREQ=DAILY;UNTIL=2027-01-01", "UNTIL"),
            ("FREQ=DAILY;UNTIL=20270101T240000Z", "UNTIL"),
            ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY"),
            ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY"),
            ("FREQ=MONTHLY;BYMONTHDAY=--1", "BYMONTHDAY"),
            ("FREQ=MONTHLY;BYMONTH=13", "BYMONTH"),
            ("FREQ=MONTHLY;BYMONTH=-1", "BYMONTH"),
            ("FREQ=MONTHLY;BYHOUR=24", "BYHOUR"),
            ("FREQ=MONTHLY;BYHOUR=-1", "BYHOUR"),
            ("FREQ=MONTHLY;BYDAY=MON", "BYDAY"),
            ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY"),
            ("FREQ=MONTHLY;BYDAY=", "BYDAY"),
            ("FREQ=MONTHLY;BYDAY=ÄMO", "BYDAY"),
            ("FREQ=WEEKLY;BYDAY=2MO", "BYDAY"),
            ("FREQ=WEEKLY;BYMONTHDAY=2", "BYMONTHDAY"),
            ("FREQ=MONTHLY;BYYEARDAY=2", "BYYEARDAY"),
            ("FREQ=MONTHLY;BYWEEKNO=2", "BYWEEKNO"),
            ("FREQ=YEARLY;BYWEEKNO=2;BYDAY=1MO", "BYDAY"),
            ("FREQ=MONTHLY;BYSETPOS=1", "BYSETPOS"),
            ("FREQ=DAILY;BYEASTER=0", "BYEASTER"),
            ("FREQ", "NAME=VALUE"),
        ] {
            let refused = Parts::parse(text).expect_err(text);
            assert!(refused.field == "rrule" && refused.reason.contains(names), "{text}: {refused}");
        }
    }

    #[test]
    fn letter_case_and_the_lines_name_do_not_matter() {
        assert_eq!(Parts::parse("RRULE:FREQ=WEEKLY;BYDAY=MO"), Parts::parse("freq=weekly;byday=mo;"));
    }
}
