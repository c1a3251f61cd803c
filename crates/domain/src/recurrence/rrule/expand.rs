//! An RRULE's local times, period by period.

use std::collections::VecDeque;

use super::{ByDay, Frequency, Rrule};
use crate::recurrence::civil::{Date, Local, Month, is_leap};
use crate::recurrence::limits::QUIET_DAYS;

/// The local times of a rule, in order.
#[derive(Debug)]
pub struct Expansion<'a> {
    rule: &'a Rrule,
    from: Date,
    /// The number of the next period, from DTSTART's.
    period: i32,
    ready: VecDeque<Local>,
    /// Occurrences before `ready`, where COUNT asks.
    counted: u32,
    /// Where the last one was found: a rule that stays silent is over.
    heard: Date,
    over: bool,
}

impl<'a> Expansion<'a> {
    pub(super) fn new(rule: &'a Rrule, from: Date) -> Self {
        let from = from.max(rule.dtstart.date());
        // Without COUNT nothing before `from` matters; with it everything is counted.
        let period = if rule.parts.count.is_some() { 0 } else { rule.period_before(from) };
        let heard = if period == 0 { rule.dtstart.date() } else { from };
        Self { rule, from, period, ready: VecDeque::new(), counted: 0, heard, over: false }
    }

    /// The next one, if there is one up to the end of `last`; asked again with a later `last` it goes on.
    pub fn next(&mut self, last: Date) -> Option<Local> {
        loop {
            while let Some(local) = self.ready.front().copied() {
                if self.rule.is_over(local) || self.rule.parts.count.is_some_and(|count| self.counted >= count) {
                    self.over = true;
                    self.ready.clear();
                    return None;
                }
                if local.date() > last {
                    return None;
                }
                self.ready.pop_front();
                self.counted += 1;
                if local.date() >= self.from && !self.rule.is_excluded(local) {
                    return Some(local);
                }
            }
            self.fill(last)?;
        }
    }

    /// The next period's times; `None` where it begins after `last` or there is none.
    fn fill(&mut self, last: Date) -> Option<()> {
        let first = self.rule.first_of(self.period).filter(|_| !self.over)?;
        if first > last || first > self.rule.last_date() || first > self.heard.plus(QUIET_DAYS) {
            return None;
        }
        self.period = self.period.checked_add(1)?;
        let times = self.rule.times_of(first);
        if let Some(local) = times.last() {
            self.heard = self.heard.max(local.date());
        }
        self.ready.extend(times.into_iter().filter(|local| *local >= self.rule.dtstart));
        Some(())
    }
}

impl Rrule {
    /// The number of a period that begins at or before `from`'s.
    fn period_before(&self, from: Date) -> i32 {
        let (start, interval) = (self.dtstart.date(), self.parts.interval as i32);
        let (a, b) = (start.month(), from.month());
        let passed = match self.parts.frequency {
            Frequency::Yearly => b.year - a.year,
            Frequency::Monthly => (b.year - a.year) * 12 + b.month as i32 - a.month as i32,
            Frequency::Weekly => from.since(start) / 7,
            Frequency::Daily => from.since(start),
        };
        (passed / interval - 1).max(0)
    }

    /// The first date of a period.
    fn first_of(&self, period: i32) -> Option<Date> {
        let start = self.dtstart.date();
        let steps = period.checked_mul(self.parts.interval as i32)?;
        let first = match self.parts.frequency {
            Frequency::Yearly => Month { year: start.month().year, month: 1 }.plus(steps.checked_mul(12)?)?.first(),
            Frequency::Monthly => start.month().plus(steps)?.first(),
            Frequency::Weekly => start.plus(-start.weekday().days_after(self.parts.week_start)).plus(steps.checked_mul(7)?),
            Frequency::Daily => start.plus(steps),
        };
        (first < Date::LAST).then_some(first)
    }

    /// The local times of the period that begins with `first`, in order.
    fn times_of(&self, first: Date) -> Vec<Local> {
        let days = match self.parts.frequency {
            Frequency::Yearly => 365 + i32::from(is_leap(first.month().year)),
            Frequency::Monthly => first.month().days() as i32,
            Frequency::Weekly => 7,
            Frequency::Daily => 1,
        };
        let dates = (0..days).map(|n| first.plus(n)).filter(|d| self.has(*d));
        let all: Vec<Local> = dates.flat_map(|date| self.times.iter().map(move |time| date.at(*time))).collect();
        if self.parts.by_set_position.is_empty() {
            return all;
        }
        let at = |position: &i32| {
            let index = if *position > 0 { i64::from(*position) - 1 } else { all.len() as i64 + i64::from(*position) };
            usize::try_from(index).ok().and_then(|i| all.get(i)).copied()
        };
        let mut chosen: Vec<Local> = self.parts.by_set_position.iter().filter_map(at).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    /// Whether a date of the period is one of the rule's: RFC 5545's table of BY parts, where expanding a period is choosing among its dates.
    fn has(&self, date: Date) -> bool {
        let (parts, month, day) = (&self.parts, date.month(), date.day() as i32);
        let chosen = |list: &[i32], n: i32, of: i32| list.is_empty() || list.contains(&n) || list.contains(&(n - of - 1));
        let year_days = 365 + i32::from(is_leap(month.year));
        (parts.by_month.is_empty() || parts.by_month.contains(&(month.month as i32)))
            && chosen(&parts.by_month_day, day, month.days() as i32)
            && chosen(&parts.by_year_day, date.day_of_year() as i32, year_days)
            && (parts.by_week.is_empty() || self.is_in_week(date))
            && (parts.by_day.is_empty() || parts.by_day.iter().any(|by| self.is_weekday(date, *by)))
            && self.is_as_dtstart(date)
    }

    /// What no BY part says is DTSTART's.
    fn is_as_dtstart(&self, date: Date) -> bool {
        let (parts, start) = (&self.parts, self.dtstart.date());
        let day_said = !(parts.by_month_day.is_empty() && parts.by_year_day.is_empty() && parts.by_day.is_empty());
        if day_said {
            return true;
        }
        match parts.frequency {
            Frequency::Yearly if !parts.by_week.is_empty() => date.weekday() == start.weekday(),
            Frequency::Yearly => date.day() == start.day() && (!parts.by_month.is_empty() || date.month().month == start.month().month),
            Frequency::Monthly => date.day() == start.day(),
            Frequency::Weekly => date.weekday() == start.weekday(),
            Frequency::Daily => true,
        }
    }

    fn is_weekday(&self, date: Date, by: ByDay) -> bool {
        if date.weekday() != by.weekday {
            return false;
        }
        let Some(nth) = by.nth else { return true };
        let of_the_year = self.parts.frequency == Frequency::Yearly && self.parts.by_month.is_empty();
        let (day, days) = if of_the_year {
            (date.day_of_year() as i32, 365 + i32::from(is_leap(date.month().year)))
        } else {
            (date.day() as i32, date.month().days() as i32)
        };
        if nth > 0 { (day - 1) / 7 + 1 == nth } else { (days - day) / 7 + 1 == -nth }
    }

    /// BYWEEKNO, by ISO 8601 with the rule's own first day of the week: week 1 has at least four days of its year.
    fn is_in_week(&self, date: Date) -> bool {
        // A week belongs to the year of its fourth day.
        let fourth = date.plus(3 - date.weekday().days_after(self.parts.week_start));
        let number = (fourth.day_of_year() as i32 - 1) / 7 + 1;
        let rest = (365 + i32::from(is_leap(fourth.month().year)) - fourth.day_of_year() as i32) / 7;
        self.parts.by_week.iter().any(|n| *n == number || *n == -(rest + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Excluded;
    use super::*;

    fn expand(text: &str, dtstart: &str, count: usize) -> Vec<String> {
        let dtstart = Local::parse(dtstart).expect("a local time");
        let rule = Rrule::new(text, dtstart, Vec::new()).expect("a rule");
        let mut all = rule.expand(Date::FIRST);
        std::iter::from_fn(|| all.next(Date::LAST)).take(count).map(|l| l.to_string()).collect()
    }

    /// The examples of RFC 5545, 3.8.5.3, as it lists them.
    #[test]
    fn the_examples_of_rfc_5545_occur_as_it_says() {
        for (text, expected) in [
            ("FREQ=DAILY;COUNT=3", "1997-09-02 1997-09-03 1997-09-04 -"),
            ("FREQ=DAILY;UNTIL=19970905T000000Z", "1997-09-02 1997-09-03 1997-09-04"),
            ("FREQ=DAILY;INTERVAL=10;COUNT=5", "1997-09-02 1997-09-12 1997-09-22 1997-10-02 1997-10-12 -"),
            ("FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH", "1997-09-02 1997-09-04 1997-09-16 1997-09-18 1997-09-30"),
            ("FREQ=MONTHLY;COUNT=10;BYDAY=1FR", "1997-09-05 1997-10-03 1997-11-07 1997-12-05"),
            ("FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU", "1997-09-07 1997-09-28 1997-11-02 1997-11-30 1998-01-04"),
            ("FREQ=MONTHLY;COUNT=6;BYDAY=-2MO", "1997-09-22 1997-10-20 1997-11-17 1997-12-22 1998-01-19 1998-02-16 -"),
            ("FREQ=MONTHLY;BYMONTHDAY=-3", "1997-09-28 1997-10-29 1997-11-28 1997-12-29 1998-01-29 1998-02-26"),
            ("FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1", "1997-09-30 1997-10-01 1997-10-31 1997-11-01"),
            ("FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11", "1997-09-10 1997-09-11 1999-03-10 1999-03-11"),
            ("FREQ=YEARLY;COUNT=10;BYMONTH=6,7", "1998-06-02 1998-07-02 1999-06-02"),
            ("FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200", "2000-01-01 2000-04-09 2000-07-18 2003-01-01 2003-04-10 2003-07-19"),
            ("FREQ=YEARLY;BYDAY=20MO", "1998-05-18 1999-05-17 2000-05-15"),
            ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1998-05-11 1999-05-17 2000-05-15"),
            ("FREQ=YEARLY;BYMONTH=3;BYDAY=TH", "1998-03-05 1998-03-12 1998-03-19 1998-03-26 1999-03-04"),
            ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "1998-02-13 1998-03-13 1998-11-13 1999-08-13 2000-10-13"),
            ("FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13", "1997-09-13 1997-10-11 1997-11-08"),
            ("FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", "1997-11-04 2001-11-06 2005-11-08"),
            ("FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "1997-09-04 1997-10-07 1997-11-06 -"),
            ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "1997-09-29 1997-10-30 1997-11-27 1997-12-30"),
            ("FREQ=YEARLY;BYWEEKNO=20", "1998-05-12 1999-05-18"),
            ("FREQ=MONTHLY;BYMONTHDAY=31", "1997-10-31 1997-12-31 1998-01-31 1998-03-31"),
        ] {
            let dates: Vec<String> = expected.split(' ').filter(|d| *d != "-").map(|d| format!("{d}T09:00:00")).collect();
            let asked = dates.len() + usize::from(expected.ends_with('-'));
            assert_eq!(expand(text, "1997-09-02T09:00", asked), dates, "{text}");
        }
    }

    /// RFC 5545: "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU" from Tuesday, 5 August 1997, differs by the first day of the week.
    #[test]
    fn the_first_day_of_the_week_decides_which_week_is_which() {
        let rule = |wkst| expand(&format!("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST={wkst}"), "1997-08-05T09:00", 9);
        assert_eq!(rule("MO"), ["1997-08-05T09:00:00", "1997-08-10T09:00:00", "1997-08-19T09:00:00", "1997-08-24T09:00:00"]);
        assert_eq!(rule("SU"), ["1997-08-05T09:00:00", "1997-08-17T09:00:00", "1997-08-19T09:00:00", "1997-08-31T09:00:00"]);
    }

    #[test]
    fn times_of_a_day_come_in_order_and_set_positions_choose_among_them() {
        let twice = expand("FREQ=DAILY;BYHOUR=17,9;BYMINUTE=30;COUNT=3", "2027-01-01T09:00", 9);
        assert_eq!(twice, ["2027-01-01T09:30:00", "2027-01-01T17:30:00", "2027-01-02T09:30:00"]);
        let last = expand("FREQ=DAILY;BYHOUR=9,17;BYSETPOS=-1;COUNT=2", "2027-01-01T09:00", 9);
        assert_eq!(last, ["2027-01-01T17:00:00", "2027-01-02T17:00:00"]);
    }

    #[test]
    fn what_is_excluded_counts_and_does_not_occur() {
        let dtstart = Local::parse("2027-01-01T09:00").expect("a local time");
        let excluded = ["2027-01-02T09:00", "2027-01-03", "2027-01-04T10:00"].map(|e| Excluded::parse(e).expect("an exclusion"));
        let rule = Rrule::new("FREQ=DAILY;COUNT=4", dtstart, excluded.to_vec()).expect("a rule");
        let mut all = rule.expand(Date::FIRST);
        let found: Vec<String> = std::iter::from_fn(|| all.next(Date::LAST)).map(|l| l.date().to_string()).collect();
        assert_eq!(found, ["2027-01-01", "2027-01-04"]);
    }

    #[test]
    fn starting_in_the_middle_gives_the_same_as_starting_at_the_start() {
        let dtstart = Local::parse("1997-09-02T09:00").expect("a local time");
        for text in [
            "FREQ=DAILY;INTERVAL=3",
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
            "FREQ=MONTHLY;INTERVAL=5;BYMONTHDAY=-1",
            "FREQ=YEARLY;INTERVAL=3;BYDAY=-1MO",
            "FREQ=MONTHLY;COUNT=400",
        ] {
            let rule = Rrule::new(text, dtstart, Vec::new()).expect("a rule");
            let from = Date::new(2027, 3, 14).expect("a date");
            let (mut all, mut late) = (rule.expand(Date::FIRST), rule.expand(from));
            let all: Vec<Local> = std::iter::from_fn(|| all.next(Date::LAST)).filter(|l| l.date() >= from).take(20).collect();
            assert_eq!(std::iter::from_fn(|| late.next(Date::LAST)).take(20).collect::<Vec<_>>(), all, "{text}");
        }
    }

    #[test]
    fn a_rule_without_such_a_day_is_over() {
        for text in ["FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=MONTHLY;BYMONTHDAY=31;BYMONTH=4", "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"] {
            assert!(expand(text, "2027-01-01T09:00", 1).is_empty(), "{text}");
        }
    }
}
