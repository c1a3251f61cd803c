//! Business days: which dates are, and where a date that isn't one rolls to.

use std::collections::BTreeSet;

use super::civil::{Date, Month, Weekday};
use super::limits::HOLIDAYS_MAX;
use super::refused::Refused;

/// A week's business days and the holidays among them. It always has a business day ahead: its week has one, and its holidays end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Calendar {
    week: [bool; 7],
    holidays: BTreeSet<Date>,
}

/// Where the send of a date goes that is no business day. All keep the order of dates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Roll {
    /// Nowhere: that date has no job.
    Skip,
    /// To the next business day.
    Next,
    /// To the one before.
    Previous,
    /// To the next, unless that is in another month: then to the one before.
    ModifiedNext,
    /// To the one before, unless that is in another month: then to the next.
    ModifiedPrevious,
}

impl Roll {
    /// Every way to roll.
    pub const ALL: [Self; 5] = [Self::Skip, Self::Next, Self::Previous, Self::ModifiedNext, Self::ModifiedPrevious];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Next => "next",
            Self::Previous => "previous",
            Self::ModifiedNext => "modified_next",
            Self::ModifiedPrevious => "modified_previous",
        }
    }

    /// Reads the word; `forward` and `backward` are people's words for next and previous.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "forward" => Some(Self::Next),
            "backward" => Some(Self::Previous),
            other => Self::ALL.into_iter().find(|r| r.word() == other),
        }
    }
}

impl Calendar {
    /// A calendar of these business days and holidays.
    ///
    /// # Errors
    /// A week without a business day; more holidays than `HOLIDAYS_MAX`.
    pub fn new(week: impl IntoIterator<Item = Weekday>, holidays: impl IntoIterator<Item = Date>) -> Result<Self, Refused> {
        let mut days = [false; 7];
        week.into_iter().for_each(|day| days[day.number() as usize] = true);
        let holidays: BTreeSet<Date> = holidays.into_iter().take(HOLIDAYS_MAX + 1).collect();
        if days == [false; 7] {
            return Err(Refused::new("business_week", "has no business day; allowed: one to seven of SUN to SAT"));
        }
        if holidays.len() > HOLIDAYS_MAX {
            return Err(Refused::new("holidays", format!("are more than {HOLIDAYS_MAX}")));
        }
        Ok(Self { week: days, holidays })
    }

    /// Every day a business day.
    pub fn every_day() -> Self {
        Self { week: [true; 7], holidays: BTreeSet::new() }
    }

    /// Whether a date is a business day.
    pub fn is_business(&self, date: Date) -> bool {
        self.week[date.weekday().number() as usize] && !self.holidays.contains(&date)
    }

    /// The date itself or the first business day after it.
    pub fn on_or_after(&self, date: Date) -> Date {
        self.seek(date, 1)
    }

    /// The date itself or the last business day before it.
    pub fn on_or_before(&self, date: Date) -> Date {
        self.seek(date, -1)
    }

    fn seek(&self, mut date: Date, step: i32) -> Date {
        while !self.is_business(date) && date > Date::FIRST && date < Date::LAST {
            date = date.plus(step);
        }
        date
    }

    /// The n-th business day strictly after a date; the date itself or the next one where `n` is 0.
    pub fn after(&self, date: Date, n: u32) -> Date {
        if n == 0 { self.on_or_after(date) } else { (0..n).fold(date, |d, _nth| self.on_or_after(d.plus(1))) }
    }

    /// The n-th business day strictly before a date; the date itself or the one before where `n` is 0.
    pub fn before(&self, date: Date, n: u32) -> Date {
        if n == 0 { self.on_or_before(date) } else { (0..n).fold(date, |d, _nth| self.on_or_before(d.plus(-1))) }
    }

    /// A month's n-th business day, from its end where `n` is negative; `None` where it hasn't so many.
    pub fn nth_of(&self, month: Month, n: i32) -> Option<Date> {
        let (first, days) = (month.first(), month.days() as i32);
        let of_the_month = (0..days).map(|day| first.plus(if n > 0 { day } else { days - 1 - day }));
        of_the_month.filter(|d| self.is_business(*d)).nth(usize::try_from(n.unsigned_abs().checked_sub(1)?).ok()?)
    }

    /// The date on which the job of a nominal date is sent; `None` where it is skipped.
    pub fn roll(&self, date: Date, roll: Roll) -> Option<Date> {
        if self.is_business(date) {
            return Some(date);
        }
        let (next, previous) = (|| self.on_or_after(date), || self.on_or_before(date));
        match roll {
            Roll::Skip => None,
            Roll::Next => Some(next()),
            Roll::Previous => Some(previous()),
            Roll::ModifiedNext => Some(Some(next()).filter(|d| d.month() == date.month()).unwrap_or_else(previous)),
            Roll::ModifiedPrevious => Some(Some(previous()).filter(|d| d.month() == date.month()).unwrap_or_else(next)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Date {
        Date::parse(text).expect("a date")
    }

    fn weekdays(holidays: &[&str]) -> Calendar {
        Calendar::new(Weekday::ALL[1..6].iter().copied(), holidays.iter().map(|h| date(h))).expect("a calendar")
    }

    #[test]
    fn a_date_rolls_as_its_word_says() {
        let calendar = weekdays(&["2027-01-01"]);
        for (from, roll, to) in [
            ("2027-01-01", "skip", None),
            ("2027-01-04", "skip", Some("2027-01-04")),
            ("2027-01-01", "next", Some("2027-01-04")),
            ("2027-01-01", "forward", Some("2027-01-04")),
            ("2027-01-02", "previous", Some("2026-12-31")),
            ("2027-01-02", "modified_previous", Some("2027-01-04")),
            ("2027-01-31", "modified_next", Some("2027-01-29")),
            ("2027-01-30", "next", Some("2027-02-01")),
            ("2027-01-17", "modified_next", Some("2027-01-18")),
        ] {
            let rolled = calendar.roll(date(from), Roll::from_word(roll).expect("a word"));
            assert_eq!(rolled, to.map(date), "{from} {roll}");
        }
    }

    #[test]
    fn rolling_keeps_the_order_of_dates() {
        let holidays = ["2027-03-26", "2027-03-29", "2027-03-30", "2027-03-31", "2027-04-01", "2027-05-03", "2027-05-31"];
        let calendar = weekdays(&holidays);
        for roll in [Roll::Next, Roll::Previous, Roll::ModifiedNext, Roll::ModifiedPrevious] {
            let rolled: Vec<_> = (0..200).map(|n| calendar.roll(date("2027-02-01").plus(n), roll)).collect();
            assert!(rolled.is_sorted(), "{roll:?}");
        }
    }

    #[test]
    fn a_month_without_so_many_business_days_has_none() {
        let calendar = weekdays(&[]);
        assert_eq!(calendar.nth_of(Month { year: 2027, month: 2 }, 20), Some(date("2027-02-26")));
        assert_eq!(calendar.nth_of(Month { year: 2027, month: 2 }, 21), None);
        assert_eq!(calendar.nth_of(Month { year: 2027, month: 2 }, -20), Some(date("2027-02-01")));
        assert_eq!(calendar.nth_of(Month { year: 2027, month: 2 }, 0), None);
    }

    #[test]
    fn a_week_without_a_business_day_is_refused() {
        assert!(Calendar::new([], []).is_err());
        assert!(Calendar::new(Weekday::ALL, (0..20_000).map(|n| Date::FIRST.plus(n))).is_err());
    }
}
