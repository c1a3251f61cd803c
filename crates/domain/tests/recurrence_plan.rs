//! Plans on clocks that no law has made: each slot once, whatever the cuts, crashes and changes; and what a timetable is refused for.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::Moment;
use curfew_domain::recurrence::limits::{MISSED_AFTER, REST_MAX};
use curfew_domain::recurrence::{
    Ask, CatchUp, Change, Fate, Phase, Plan, Progress, Range, Recurrence, Skip, Slot, SlotName, Span, Timetable, WallClock, What, Whereabouts,
    Written, fate, plan,
};
use proptest::prelude::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
/// 2027-01-01T00:00:00Z.
const START: i64 = 1_798_761_600_000;
const ALONE_AFTER: Duration = Duration::from_secs(12 * 60);

/// A clock of spans: an offset at first, then changes.
#[derive(Debug, Clone)]
struct Made(i32, BTreeMap<i64, i32>);

impl WallClock for Made {
    fn span(&self, at: Moment) -> Span {
        let offset_s = self.1.range(..=at.as_millis()).next_back().map_or(self.0, |(_, offset)| *offset);
        let next = self.1.range(at.as_millis().saturating_add(1)..).next();
        Span { offset_s, until: next.map(|(at, _)| Moment::from_millis(*at)) }
    }
}

fn clocks() -> impl Strategy<Value = Made> {
    let offset = || (-48i32..=56).prop_map(|quarters| quarters * 900);
    let change = (0i64..20 * 24 * 60, offset()).prop_map(|(minutes, offset)| (START + minutes * MINUTE, offset));
    (offset(), prop::collection::btree_map(0i64..20 * 24 * 60, offset(), 0..5), change).prop_map(|(first, changes, one)| {
        let changes = changes.into_iter().map(|(minutes, offset)| (START + minutes * MINUTE, offset)).chain([one]);
        Made(first, changes.collect())
    })
}

fn timetable(rule: &str) -> Timetable {
    let week = ["MON", "TUE", "WED", "THU", "FRI"].map(str::to_owned).to_vec();
    let (rule, roll) = rule.split_once(" | ").map_or((rule, None), |(rule, roll)| (rule, Some(roll.to_owned())));
    Timetable { deadline_days: 1, business_week: week, holidays: vec!["2027-01-06".into()], roll, ..Timetable::cron(rule, "made", "08:00") }
}

fn rules() -> impl Strategy<Value = Recurrence> {
    let crons = ["0 9 * * *", "30 2 * * * | next", "15 0 * * * | skip", "0 9,17 * * *", "*/40 * * * *", "59 23 1-10 * * | modified_previous"];
    prop::sample::select(crons.to_vec()).prop_map(|rule| timetable(rule).read().expect("a rule"))
}

fn catch_ups() -> impl Strategy<Value = CatchUp> {
    prop_oneof![Just(CatchUp::One), Just(CatchUp::Each), Just(CatchUp::None)]
}

/// One step of a schedule's life.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// 0 to 5: a scan; 6: a scan that is lost; 7 and above: a change.
    kind: u8,
    passed_min: i64,
    slots_max: usize,
    horizon_h: u64,
}

fn steps(kinds: u8) -> impl Strategy<Value = Vec<Step>> {
    let passed = prop_oneof![4 => 0i64..90, 2 => 90i64..1_500, 1 => 1_500i64..6_000];
    let one =
        (0..kinds, passed, 1usize..6, 1u64..60).prop_map(|(kind, passed_min, slots_max, horizon_h)| Step { kind, passed_min, slots_max, horizon_h });
    prop::collection::vec(one, 1..40)
}

/// A schedule in a book that keeps each name once.
struct Book {
    progress: Progress,
    slots: BTreeMap<SlotName, Slot>,
}

impl Book {
    fn new() -> Self {
        Self { progress: Progress::begun(Moment::from_millis(START)), slots: BTreeMap::new() }
    }

    fn take(&mut self, plan: &Plan) {
        for slot in &plan.slots {
            if !self.slots.keys().any(|name| name.collides(&slot.name)) {
                self.slots.insert(slot.name.clone(), slot.clone());
            }
        }
        self.progress.cursor = self.progress.cursor.max(plan.cursor);
    }

    fn change(&mut self, change: Change, at: Moment) {
        self.slots.retain(|_, slot| match slot.what {
            What::Skip(_) => true,
            What::Make { release_at, .. } => {
                let planned = Whereabouts::Planned { release_at, ever_staged: false, verb_open: false };
                fate(change, planned, at.plus(ALONE_AFTER)) != Fate::Withdrawn
            }
        });
        self.progress = self.progress.after(change, at);
    }
}

fn ask(step: Step, now: i64) -> Ask {
    Ask { now: Moment::from_millis(now), horizon: Duration::from_secs(step.horizon_h * 3600), slots_max: step.slots_max }
}

/// Everything that a rule has after the start and up to a moment.
fn all(rule: &Recurrence, clock: &Made, to: Moment) -> Vec<SlotName> {
    let several = rule.pattern.several_a_day();
    let range = Range::ALL.after(Moment::from_millis(START)).to(to);
    rule.slots(clock, range).map(|o| SlotName { date: o.business_date(), slot: o.key_part(several) }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// P1 and P2: plans that are cut anywhere, lost, and made again with other bounds come to the rule's slots, each once.
    #[test]
    fn each_slot_is_planned_once_whatever_the_cuts(clock in clocks(), rule in rules(), catch_up in catch_ups(), steps in steps(7)) {
        let (mut book, mut now) = (Book::new(), START);
        for step in steps {
            now += step.passed_min * MINUTE;
            let planned = plan(&rule, &clock, catch_up, &book.progress, &ask(step, now));
            prop_assert!(planned.cursor >= book.progress.cursor);
            prop_assert!(planned.next_scan.is_some_and(|at| at >= Moment::from_millis(now) && at <= Moment::from_millis(now).plus(REST_MAX)));
            let bound = planned.slots.get(step.slots_max - 1).map(|s| s.at);
            prop_assert!(planned.slots.iter().skip(step.slots_max).all(|s| Some(s.at) == bound), "a part is bounded");
            for (slot, next) in planned.slots.iter().zip(planned.slots.iter().skip(1)) {
                prop_assert!(slot.at <= next.at);
            }
            prop_assert!(planned.slots.iter().all(|s| !book.slots.contains_key(&s.name)), "no slot is planned again after its part was taken");
            if step.kind < 6 {
                book.take(&planned);
            }
        }
        let expected = all(&rule, &clock, book.progress.cursor);
        let mut sorted = expected.clone();
        sorted.sort();
        sorted.dedup();
        prop_assert_eq!(sorted.len(), expected.len(), "no two slots have one name");
        prop_assert!(book.slots.keys().eq(sorted.iter()), "{:?} {:?}", book.slots.keys(), sorted);
    }

    /// P4: a scan that comes in time makes every job; one that comes late makes the latest, each, or none.
    #[test]
    fn missed_slots_run_by_the_catch_up_rule(clock in clocks(), rule in rules(), down_min in 0i64..20_000, slots_max in 1usize..5) {
        let now = Moment::from_millis(START + down_min * MINUTE);
        let planned = |catch_up| {
            let (mut book, mut parts) = (Book::new(), 0);
            loop {
                let part = plan(&rule, &clock, catch_up, &book.progress, &Ask { now, horizon: Duration::from_secs(86_400), slots_max });
                book.take(&part);
                parts += 1;
                assert!(parts < 2_000, "it ends");
                if part.next_scan != Some(now) {
                    let mut slots: Vec<Slot> = book.slots.into_values().collect();
                    slots.sort_by_key(|s| s.at);
                    return slots;
                }
            }
        };
        let missed = |slot: &Slot| matches!(slot.what, What::Make { release_at, .. } if release_at.plus(MISSED_AFTER) < now);
        let (each, one, none) = (planned(CatchUp::Each), planned(CatchUp::One), planned(CatchUp::None));
        let latest = each.iter().rposition(missed);
        for (place, slot) in each.iter().enumerate() {
            prop_assert_eq!((&one[place].name, &none[place].name), (&slot.name, &slot.name));
            let skipped = What::Skip(Skip::CatchUp);
            prop_assert_eq!(none[place].what, if missed(slot) { skipped } else { slot.what });
            prop_assert_eq!(one[place].what, if missed(slot) && Some(place) != latest { skipped } else { slot.what });
        }
    }

    /// Whatever is edited, paused, resumed and deleted: a date has one job of a rule that runs once a day, and nothing goes out that was
    /// made while paused, or under a rule before that rule was made.
    #[test]
    fn changes_make_no_slot_twice(clock in clocks(), catch_up in catch_ups(), steps in steps(13)) {
        let choices = ["0 9 * * *", "0 10 * * *", "0 8,20 * * *", "30 2 * * * | next"].map(|rule| timetable(rule).read().expect("a rule"));
        let (mut book, mut now, mut which) = (Book::new(), START, 0);
        let mut sent: BTreeMap<SlotName, Moment> = BTreeMap::new();
        for step in steps {
            now += step.passed_min * MINUTE;
            let at = Moment::from_millis(now);
            // What is due has gone out.
            for (name, slot) in &book.slots {
                if let What::Make { release_at, .. } = slot.what && release_at <= at {
                    sent.insert(name.clone(), release_at);
                }
            }
            match step.kind {
                0..6 => {
                    let planned = plan(&choices[which], &clock, catch_up, &book.progress, &ask(step, now));
                    for slot in &planned.slots {
                        if matches!(slot.what, What::Make { .. }) {
                            prop_assert!(book.progress.phase == Phase::Active && slot.at > book.progress.in_force_from);
                        }
                    }
                    book.take(&planned);
                }
                6 => drop(plan(&choices[which], &clock, catch_up, &book.progress, &ask(step, now))),
                7 | 8 => {
                    which = (which + step.slots_max) % choices.len();
                    book.change(Change::Edit, at);
                }
                9 => book.change(Change::Pause, at),
                10 | 11 => book.change(Change::Resume, at),
                _deleted => {
                    book.change(Change::Delete, at);
                    prop_assert_eq!(plan(&choices[which], &clock, catch_up, &book.progress, &ask(step, now)).next_scan, None);
                    book.progress = Progress::begun(at);
                }
            }
            let names: Vec<&SlotName> = book.slots.keys().collect();
            for (place, name) in names.iter().enumerate() {
                prop_assert!(names[place + 1..].iter().all(|other| !name.collides(other)));
            }
            for name in sent.keys() {
                prop_assert!(book.slots.contains_key(name), "what went out stands");
            }
        }
    }
}

#[test]
fn a_timetable_is_refused_by_the_field_that_is_wrong() {
    let good = || Timetable::cron("30 8 * * 1-5", "made", "09:00");
    let utc = Made(0, BTreeMap::new());
    let now = Moment::from_millis(START);
    assert_eq!(good().admit(&utc, now).map(|(_, without)| without.len()), Ok(0));
    for (timetable, field) in [
        (Timetable { rule: Written::Cron("0 24 * * *".into()), ..good() }, "hour"),
        (Timetable { rule: Written::Cron("0 9 30 2 *".into()), ..good() }, "cron"),
        (Timetable { deadline: "24:00".into(), ..good() }, "deadline"),
        (Timetable { roll: Some("sideways".into()), ..good() }, "roll"),
        (Timetable { start: Some("2027-02-30".into()), ..good() }, "start"),
        (Timetable { start: Some("2027-03-01".into()), end: Some("2027-02-01".into()), ..good() }, "end"),
        (Timetable { business_week: vec!["MONDAY".into()], ..good() }, "calendar"),
        (Timetable { gap: Some("later".into()), ..good() }, "gap"),
        (Timetable { spread_ms: 86_400_001, ..good() }, "spread"),
        (Timetable { rule: Written::EveryHours { hours: 3, anchor: "soon".into() }, ..good() }, "anchor"),
    ] {
        let refused = timetable.read().expect_err(field);
        assert!(refused.to_string().contains(field), "{field}: {refused}");
    }
    // It matches dates, and none of them is a business day.
    let never = Timetable { rule: Written::Cron("0 9 * * SAT".into()), business_week: vec!["MON".into()], roll: Some("skip".into()), ..good() };
    assert!(never.admit(&utc, now).is_err_and(|refused| refused.to_string().contains("never fires")));
}

/// A release and a deadline in one gap collapse into one instant: refused with the dates, or allowed and skipped visibly.
#[test]
fn a_window_that_collapses_is_refused_with_its_dates_or_allowed_and_skipped() {
    // The clock is put forward by an hour at 02:00 on 2027-03-14.
    let spring = START + 72 * 24 * HOUR + 2 * HOUR;
    let clock = Made(0, BTreeMap::from([(spring, 3_600)]));
    let mut timetable = Timetable::cron("15 2 * * *", "made", "02:45");
    let now = Moment::from_millis(START);
    let refused = timetable.admit(&clock, now).expect_err("a date has no window");
    assert!(refused.to_string().contains("2027-03-14") && refused.field == "deadline", "{refused}");
    timetable.allow_invalid_windows = true;
    let (rule, without) = timetable.admit(&clock, now).expect("it is allowed");
    assert_eq!(without.iter().map(|o| o.business_date().to_string()).collect::<Vec<_>>(), ["2027-03-14"]);
    let eve = Moment::from_millis(spring - 12 * HOUR);
    let ask = Ask { now: eve, horizon: Duration::from_secs(86_400), slots_max: 10 };
    let planned = plan(&rule, &clock, CatchUp::One, &Progress::begun(eve), &ask);
    assert_eq!((planned.slots.len(), planned.slots[0].what), (1, What::Skip(Skip::Window)));
}

/// A year without a scan, at a job a minute: each call is as bounded as ever.
#[test]
fn a_long_silence_costs_a_call_no_more() {
    let clock = Made(0, BTreeMap::new());
    let rule = Timetable { deadline_days: 1, ..Timetable::cron("* * * * *", "made", "00:00") }.read().expect("a rule");
    let now = Moment::from_millis(START + 365 * 24 * HOUR);
    let ask = Ask { now, horizon: Duration::from_secs(86_400), slots_max: 500 };
    let planned = plan(&rule, &clock, CatchUp::One, &Progress::begun(Moment::from_millis(START)), &ask);
    assert_eq!((planned.slots.len(), planned.next_scan), (500, Some(now)));
    assert!(planned.slots.iter().all(|s| s.what == What::Skip(Skip::CatchUp)), "the latest missed one is far from this part");
}
