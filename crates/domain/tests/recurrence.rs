//! Recurrence on clocks that no law has made: the resolver's definition, the order of occurrences, and every answer against a plain scan.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::Moment;
use curfew_domain::recurrence::wall_clock::{earliest, exists, instant, reading, reads};
use curfew_domain::recurrence::{
    Calendar, Class, Cron, Date, Deadline, Dst, Gap, Local, Overlap, Pattern, Range, Reading, Recurrence, Roll, Span, TimeOfDay, Verdict, WallClock,
    Weekday, window,
};
use proptest::prelude::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
/// 2027-01-01T00:00:00Z.
const START: i64 = 1_798_761_600_000;

/// A clock of spans: an offset at first, then changes.
#[derive(Debug, Clone)]
struct Made {
    first: i32,
    changes: BTreeMap<i64, i32>,
}

impl WallClock for Made {
    fn span(&self, at: Moment) -> Span {
        let offset_s = self.changes.range(..=at.as_millis()).next_back().map_or(self.first, |(_, offset)| *offset);
        let next = self.changes.range(at.as_millis().saturating_add(1)..).next();
        Span { offset_s, until: next.map(|(at, _)| Moment::from_millis(*at)) }
    }
}

/// Offsets of quarters of an hour between −12 h and +14 h; changes from minutes to weeks apart, at any minute.
fn clocks() -> impl Strategy<Value = Made> {
    let offset = || (-48i32..=56).prop_map(|quarters| quarters * 900);
    let apart = prop_oneof![1i64..90, 90i64..2_000, 2_000i64..60_000];
    (offset(), proptest::collection::vec((apart, offset()), 0..8)).prop_map(|(first, changes)| {
        let mut at = START + 2 * 24 * HOUR;
        let changes = changes.into_iter().map(|(minutes, offset)| {
            at += minutes * MINUTE;
            (at, offset)
        });
        Made { first, changes: changes.collect() }
    })
}

/// A local minute in the first two months of 2027.
fn locals() -> impl Strategy<Value = Local> {
    (0i64..60 * 24 * 60).prop_map(|minutes| Local::from_millis(START + minutes * MINUTE))
}

fn choices() -> impl Strategy<Value = Dst> {
    (prop_oneof![Just(Gap::FirstValid), Just(Gap::Shift), Just(Gap::Skip)], prop_oneof![Just(Overlap::First), Just(Overlap::Last)])
        .prop_map(|(gap, overlap)| Dst { gap, overlap })
}

fn crons() -> impl Strategy<Value = String> {
    let minute = prop_oneof![Just("0"), Just("30"), Just("15,45"), Just("*/20"), Just("59"), Just("5-50/15"), Just("*")];
    let hour = prop_oneof![Just("0"), Just("2"), Just("23"), Just("1,13"), Just("*/3"), Just("*"), Just("0-23/5")];
    let day = prop_oneof![4 => Just("*"), 1 => Just("L"), 1 => Just("1,15"), 1 => Just("10-20/3")];
    let weekday = prop_oneof![4 => Just("*"), 1 => Just("1-5"), 1 => Just("FRI#L"), 1 => Just("0,SAT")];
    (minute, hour, day, weekday).prop_map(|(minute, hour, day, weekday)| format!("{minute} {hour} {day} * {weekday}"))
}

fn rolls() -> impl Strategy<Value = Option<Roll>> {
    prop_oneof![3 => Just(None), 1 => Just(Some(Roll::Skip)), 1 => Just(Some(Roll::Next)), 1 => Just(Some(Roll::Previous)),
        1 => Just(Some(Roll::ModifiedNext)), 1 => Just(Some(Roll::ModifiedPrevious))]
}

fn date(text: &str) -> Date {
    Date::parse(text).expect("a date")
}

fn business() -> Calendar {
    let holidays = ["2027-01-18", "2027-01-29", "2027-02-01"].map(date);
    Calendar::new(Weekday::ALL[1..6].iter().copied(), holidays).expect("a calendar")
}

fn schedule(cron: &str, roll: Option<Roll>, dst: Dst) -> Recurrence {
    let cron = Cron::parse(cron).expect("an expression");
    let roll = if cron.class() == Class::Interval { roll.map(|_| Roll::Skip) } else { roll };
    Recurrence { calendar: business(), roll, dst, ..Recurrence::plain(Pattern::Cron { cron, time: None }) }
}

/// Every minute of the two months and what a schedule sends at it, found without any of the search.
fn scan(rule: &Recurrence, clock: &Made) -> Vec<(Moment, Local)> {
    let Pattern::Cron { cron, .. } = &rule.pattern else { panic!("these are crons") };
    let mut sends: Vec<(Moment, Local)> = Vec::new();
    let times = cron.times();
    if cron.class() == Class::Interval {
        for minute in 0..60 * 24 * 60 {
            let at = Moment::from_millis(START + minute * MINUTE);
            let local = reads(clock, at);
            let business = || rule.roll.is_none() || rule.calendar.is_business(local.date());
            if times.binary_search(&local.time()).is_ok() && business() && cron.matches(local.date()) {
                sends.push((at, local));
            }
        }
        return sends;
    }
    for day in -40..100 {
        let nominal = date("2027-01-01").plus(day);
        let Some(send) = rule.roll.map_or(Some(nominal), |roll| rule.calendar.roll(nominal, roll)).filter(|_| cron.matches(nominal)) else {
            continue;
        };
        for time in &times {
            sends.extend(instant(clock, send.at(*time), rule.dst).map(|at| (at, nominal.at(*time))));
        }
    }
    sends.sort();
    sends.dedup_by_key(|(at, _)| *at);
    let window = Moment::from_millis(START)..Moment::from_millis(START + 60 * 24 * HOUR);
    sends.into_iter().filter(|(at, _)| window.contains(at)).collect()
}

fn two_months() -> Range {
    Range::ALL.from(Moment::from_millis(START)).to(Moment::from_millis(START + 60 * 24 * HOUR - 1))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_instant_is_the_earliest_that_reads_the_time_or_later(clock in clocks(), local in locals()) {
        let at = earliest(&clock, local);
        prop_assert!(reads(&clock, at) >= local);
        for minute in 1..=(27 * 60) {
            prop_assert!(reads(&clock, Moment::from_millis(at.as_millis() - minute * MINUTE)) < local, "{minute} minutes before {at}");
        }
        prop_assert!(reads(&clock, Moment::from_millis(at.as_millis() - 1)) < local);
    }

    #[test]
    fn the_rule_keeps_order(clock in clocks(), local in locals(), later in 0i64..5_000) {
        prop_assert!(earliest(&clock, local) <= earliest(&clock, Local::from_millis(local.as_millis() + later * MINUTE)));
    }

    #[test]
    fn a_reading_says_what_the_clock_does(clock in clocks(), local in locals()) {
        match reading(&clock, local) {
            Reading::Once(at) => prop_assert_eq!(reads(&clock, at), local),
            Reading::Twice { first, last } => {
                prop_assert!(first < last);
                prop_assert_eq!((reads(&clock, first), reads(&clock, last)), (local, local));
            }
            Reading::Never { valid, shifted } => {
                prop_assert!(reads(&clock, valid) > local && reads(&clock, valid.minus(Duration::from_millis(1))) < local);
                prop_assert!(shifted >= valid);
            }
        }
    }

    #[test]
    fn a_date_exists_where_the_clock_reads_it(clock in clocks(), day in 0i32..55) {
        let day = date("2027-01-02").plus(day);
        let minutes = (-16 * 60)..(40 * 60);
        let midnight = day.at(TimeOfDay::MIDNIGHT).as_millis();
        let read = minutes.clone().any(|m| reads(&clock, Moment::from_millis(midnight + m * MINUTE)).date() == day);
        // A clock that leaps over a date and comes back to it later is not of this world.
        prop_assume!(read == exists(&clock, day) || clock.changes.len() < 2);
        prop_assert_eq!(exists(&clock, day), read);
    }

    #[test]
    fn occurrences_are_those_that_a_plain_scan_finds(clock in clocks(), cron in crons(), roll in rolls(), dst in choices()) {
        let rule = schedule(&cron, roll, dst);
        let found: Vec<_> = rule.sends(&clock, two_months()).map(|o| (o.release_at.expect("a release"), o.nominal)).collect();
        prop_assert_eq!(found, scan(&rule, &clock), "{}", cron);
    }

    #[test]
    fn the_next_is_later_and_starting_anew_after_any_goes_on_the_same(clock in clocks(), cron in crons(), roll in rolls(), dst in choices(), skip in 0usize..40) {
        let rule = schedule(&cron, roll, dst);
        let all: Vec<_> = rule.slots(&clock, two_months()).collect();
        prop_assert!(all.iter().filter(|o| o.verdict != Verdict::NoJob).is_sorted_by_key(|o| o.at));
        let Some(last) = all.get(skip) else { return Ok(()) };
        let anew: Vec<_> = rule.slots(&clock, two_months().after(last.at)).collect();
        let rest: Vec<_> = all.iter().filter(|o| o.at > last.at).cloned().collect();
        prop_assert!(anew.first().is_none_or(|next| next.at > last.at));
        prop_assert_eq!(anew, rest);
    }

    #[test]
    fn a_window_is_ok_only_if_it_is_open(clock in clocks(), local in locals(), minutes in 0i64..3_000, dst in choices()) {
        let until = Local::from_millis(local.as_millis() + minutes * MINUTE);
        let deadline = Deadline { time: until.time(), days: until.date().since(local.date()) };
        let found = window(&clock, local, Some(deadline), dst);
        match (found.release_at, found.deadline_at) {
            (Some(release), Some(deadline)) => prop_assert_eq!(found.verdict == Verdict::Ok, release < deadline),
            (Some(_), None) => prop_assert_eq!(found.verdict, Verdict::NoDeadline),
            (None, _) => prop_assert_eq!(found.verdict, Verdict::NoJob),
        }
        // Under our rule a deadline that is later on the clock is never before its release.
        if dst == Dst::default() && let (Some(release), Some(deadline)) = (found.release_at, found.deadline_at) {
            prop_assert!(release <= deadline);
        }
    }

    #[test]
    fn any_text_is_read_or_refused_and_what_is_read_fires(text in "[-0-9*/,#LlA-Z ?]{0,24}", from in 0i32..60_000) {
        if let Ok(cron) = Cron::parse(&text) {
            let from = Date::FIRST.plus(from);
            prop_assert!(cron.date_from(from, from.plus(41 * 366)).is_some(), "{}", text);
            prop_assert!(!cron.times().is_empty());
        }
    }
}

#[test]
fn a_schedule_that_never_fires_is_refused_in_bounded_time() {
    let clock = Made { first: 0, changes: BTreeMap::new() };
    for cron in ["0 9 * * SAT", "* * * * SUN", "0-59 0-23 * * 6,7"] {
        let rule = schedule(cron, Some(Roll::Skip), Dst::default());
        let refused = rule.check_fires(&clock, Range::ALL.from(Moment::from_millis(START))).expect_err(cron);
        assert!(refused.reason.contains("never fires"), "{refused}");
    }
    let none = Pattern::NthBusinessDay { n: 24, time: TimeOfDay::MIDNIGHT };
    let rule = Recurrence { calendar: business(), ..Recurrence::plain(none) };
    assert!(rule.check_fires(&clock, Range::ALL.from(Moment::from_millis(START))).is_err());
}

#[test]
fn a_bounded_schedule_that_is_over_is_no_fault() {
    let clock = Made { first: 0, changes: BTreeMap::new() };
    let rule = Recurrence { end: Some(date("2026-12-31")), ..schedule("0 9 * * *", None, Dst::default()) };
    let range = Range::ALL.from(Moment::from_millis(START));
    assert!(rule.check_fires(&clock, range).is_ok());
    assert_eq!(rule.slots(&clock, range).next(), None);
}

#[test]
fn dates_without_a_window_are_named() {
    // Put forward from 02:00 to 03:00 on 5 January.
    let clock = Made { first: 0, changes: BTreeMap::from([(START + 4 * 24 * HOUR + 2 * HOUR, 3_600)]) };
    let time = |text| TimeOfDay::parse(text).expect("a time");
    let rule = Recurrence { deadline: Some(Deadline { time: time("02:45"), days: 0 }), ..schedule("15 2 * * *", None, Dst::default()) };
    let bad = rule.without_window(&clock, two_months(), 10);
    assert_eq!(bad.iter().map(|o| (o.business_date(), o.verdict)).collect::<Vec<_>>(), [(date("2027-01-05"), Verdict::InvalidWindow)]);
}

#[test]
fn the_ends_of_time_are_no_panic() {
    let clock = Made { first: 3_600, changes: BTreeMap::new() };
    for cron in ["0 9 * * *", "* * * * *", "0 9 29 2 *"] {
        let rule = schedule(cron, None, Dst::default());
        for at in [i64::MIN, i64::MIN / 2, -10_000_000_000_000, 253_370_764_800_000, i64::MAX / 2, i64::MAX] {
            let at = Moment::from_millis(at);
            let _first = rule.sends(&clock, Range::ALL.after(at)).take(3).count();
            let _last = rule.sends(&clock, Range::ALL.to(at)).take(3).count();
            let _rolled = schedule(cron, Some(Roll::Next), Dst::default()).sends(&clock, Range::ALL.after(at)).take(3).count();
        }
    }
    let hours = Recurrence::plain(Pattern::EveryHours { hours: 5, anchor: Moment::from_millis(i64::MAX) });
    assert!(hours.sends(&clock, Range::ALL).take(3).count() <= 1);
}

#[test]
fn a_key_names_its_slot_where_a_day_has_several() {
    let clock = Made { first: -5 * 3_600, changes: BTreeMap::new() };
    let part = |cron: &str| {
        let rule = schedule(cron, None, Dst::default());
        let first = rule.sends(&clock, Range::ALL.from(Moment::from_millis(START + 12 * HOUR))).next().expect("an occurrence");
        first.key_part(rule.pattern.several_a_day())
    };
    assert_eq!(part("30 8 * * *"), "2027-01-01");
    assert_eq!(part("30 8,17 * * *"), "2027-01-01T0830");
    assert_eq!(part("30 * * * *"), "2027-01-01T1230Z");
}

#[test]
fn a_collapsed_or_skipped_date_says_why_it_has_no_job() {
    let clock = Made { first: 0, changes: BTreeMap::new() };
    let why = |roll| -> Vec<String> {
        let rule = schedule("0 9 * * *", Some(roll), Dst::default());
        let range = Range::ALL.from(Moment::from_millis(START + 24 * HOUR)).to(Moment::from_millis(START + 4 * 24 * HOUR));
        let shown = rule.slots(&clock, range).map(|o| format!("{} {} {}", o.business_date(), o.verdict.word(), o.why.map_or("-", |w| w.word())));
        shown.collect()
    };
    // 2027-01-02 is a Saturday.
    assert_eq!(why(Roll::Next), ["2027-01-02 ok rolled", "2027-01-03 no_job collapsed", "2027-01-04 no_job collapsed"]);
    assert_eq!(why(Roll::Skip), ["2027-01-02 no_job not_a_business_day", "2027-01-03 no_job not_a_business_day", "2027-01-04 ok -"]);
}
