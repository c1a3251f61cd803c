//! The scenarios of `recurrence_cases.json`: a schedule with a past. What a downtime missed, what an edit makes of jobs made ahead, and keys
//! that outlive midnight. The slots here are kept as the book keeps them: one per name.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_content::Zones;
use curfew_content::zone::ZoneClock;
use curfew_domain::Moment;
use curfew_domain::recurrence::{
    Ask, CatchUp, Change, Date, Fate, Phase, Plan, Progress, Range, Recurrence, Skip, Slot, SlotName, Timetable, WallClock, What, Whereabouts, fate,
    plan,
};
use serde_json::Value;

/// The staging window of 10 min and the 2 min that DESIGN 4 adds.
const ALONE_AFTER: Duration = Duration::from_secs(12 * 60);
const HORIZON: Duration = Duration::from_secs(24 * 3600);
/// The cases list what is pending in the 25 h after an edit.
const AFTER_AN_EDIT: Duration = Duration::from_secs(25 * 3600);

fn cases(kind: &str, of_kind: usize) -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../../../tests/cases/recurrence_cases.json")).expect("JSON");
    let all = file["cases"].as_array().expect("cases").iter();
    let found: Vec<Value> = all.filter(|c| c["kind"] == kind && (kind != "business_key" || c.get("given").is_some())).cloned().collect();
    assert_eq!(found.len(), of_kind, "cases of kind {kind}");
    found
}

fn moment(value: &Value) -> Moment {
    Moment::parse(value.as_str().expect("a text")).expect("RFC 3339")
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|v| v.as_str().expect("a text").to_owned()).collect()
}

fn clock(zone: &Value) -> ZoneClock {
    Zones::load().clock(zone.as_str().expect("a zone")).expect("a zone")
}

fn rule(cron: &Value, deadline: &Value) -> Recurrence {
    let deadline = deadline.as_str().unwrap_or("23:59");
    Timetable::cron(cron.as_str().expect("a text"), "checked elsewhere", deadline).read().expect("a rule")
}

/// The end of the slots of a date: everything up to it is planned.
fn after_date(rule: &Recurrence, clock: &dyn WallClock, date: &str) -> Moment {
    let date = Date::parse(date).expect("a date");
    rule.sends(clock, Range::ALL.from(moment(&Value::from(format!("{}T00:00:00Z", date.plus(-2))))))
        .find(|o| o.business_date() == date)
        .expect("it has one")
        .at
}

fn made(slot: &Slot) -> Option<(Moment, Moment)> {
    match slot.what {
        What::Make { release_at, deadline_at } => Some((release_at, deadline_at)),
        What::Skip(_) => None,
    }
}

fn active(cursor: Moment) -> Progress {
    Progress { phase: Phase::Active, cursor, in_force_from: Moment::from_millis(0), before: Skip::Edit }
}

#[test]
fn what_a_downtime_missed_runs_before_its_deadline_and_ends_visibly_after_it() {
    for case in cases("catch_up", 7) {
        let (clock, rule) = (clock(&case["timezone"]), rule(&case["cron"], &case["deadline_local"]));
        let cursor = after_date(&rule, &clock, case["last_finished_business_date"].as_str().expect("a date"));
        let now = moment(&case["scheduler_up_at_utc"]);
        // Two months, so that a monthly job's next date is among them; in parts of one slot, as a bounded scan plans.
        let ask = Ask { now, horizon: 62 * HORIZON, slots_max: 1 };
        let (mut progress, mut slots) = (active(cursor), Vec::new());
        loop {
            let Plan { slots: part, cursor, next_scan } = plan(&rule, &clock, CatchUp::Each, &progress, &ask);
            slots.extend(part);
            progress.cursor = cursor;
            if next_scan != Some(now) {
                break;
            }
        }
        let dates = |which: &dyn Fn(Moment, Moment) -> bool| -> Vec<String> {
            slots.iter().filter(|s| made(s).is_some_and(|(release, deadline)| which(release, deadline))).map(|s| s.name.slot.clone()).collect()
        };
        assert_eq!(dates(&|release, deadline| release <= now && now < deadline), texts(&case["expected"]["release_now"]), "{}", case["id"]);
        assert_eq!(dates(&|_, deadline| deadline <= now), texts(&case["expected"]["expired"]), "{}", case["id"]);
        let next = slots.iter().find(|s| made(s).is_some_and(|(release, _)| release > now)).expect("there is a next one");
        assert_eq!(next.name.slot, case["expected"]["next_business_date"], "{}", case["id"]);
        assert_eq!(made(next).map(|(release, _)| release), Some(moment(&case["expected"]["next_release_utc"])), "{}", case["id"]);
    }
}

/// The alternates of the file that a schedule may choose: all missed ones are skipped, or the latest alone runs.
#[test]
fn the_other_catch_up_rules_run_the_latest_or_none() {
    for case in cases("catch_up", 7) {
        let (clock, rule) = (clock(&case["timezone"]), rule(&case["cron"], &case["deadline_local"]));
        let progress = active(after_date(&rule, &clock, case["last_finished_business_date"].as_str().expect("a date")));
        let now = moment(&case["scheduler_up_at_utc"]);
        let missed = |catch_up| -> Vec<(String, What)> {
            let planned = plan(&rule, &clock, catch_up, &progress, &Ask { now, horizon: HORIZON, slots_max: 100 });
            planned.slots.into_iter().filter(|s| s.at < now).map(|s| (s.name.slot, s.what)).collect()
        };
        assert!(missed(CatchUp::None).iter().all(|(_, what)| *what == What::Skip(Skip::CatchUp)), "{}", case["id"]);
        let (each, one) = (missed(CatchUp::Each), missed(CatchUp::One));
        assert_eq!(one.last(), each.last(), "{}", case["id"]);
        assert!(one.iter().rev().skip(1).all(|(_, what)| *what == What::Skip(Skip::CatchUp)), "{}", case["id"]);
    }
}

/// The slots of one schedule, as the book keeps them.
#[derive(Default)]
struct Board(BTreeMap<SlotName, (Moment, Whereabouts)>);

impl Board {
    fn take(&mut self, plan: &Plan) {
        for slot in &plan.slots {
            let stands = self.0.keys().any(|name| name.collides(&slot.name));
            if let (Some((release_at, _)), false) = (made(slot), stands) {
                self.0.insert(slot.name.clone(), (release_at, Whereabouts::Planned { release_at, ever_staged: false, verb_open: false }));
            }
        }
    }

    /// Takes back what a change takes back; the releases of it.
    fn change(&mut self, change: Change, at: Moment) -> Vec<Moment> {
        let mut withdrawn = Vec::new();
        self.0.retain(|_, (release_at, job)| {
            let fate = fate(change, *job, at.plus(ALONE_AFTER));
            if fate == Fate::Withdrawn {
                withdrawn.push(*release_at);
            }
            fate != Fate::Withdrawn
        });
        withdrawn
    }

    fn pending(&self) -> Vec<(String, Moment)> {
        self.0.iter().filter(|(_, (_, job))| *job != Whereabouts::Ended).map(|(name, (release_at, _))| (name.slot.clone(), *release_at)).collect()
    }
}

/// `0 9 * * * @ America/New_York` is a rule with its zone.
fn with_zone(text: &Value, zone: &Value) -> (Value, Value) {
    match text.as_str().expect("a text").split_once(" @ ") {
        Some((cron, zone)) => (Value::from(cron), Value::from(zone)),
        None => (text.clone(), zone.clone()),
    }
}

#[test]
fn an_edit_changes_what_is_not_yet_staged_and_leaves_what_is() {
    for case in cases("schedule_edit", 6) {
        let at = moment(&case["edited_at_utc"]);
        let mut board = Board::default();
        for occurrence in case["occurrences_before_edit"].as_array().expect("a list") {
            let date = Date::parse(occurrence["business_date"].as_str().expect("a date")).expect("a date");
            let release_at = moment(&occurrence["release_utc"]);
            let planned = Whereabouts::Planned { release_at, ever_staged: false, verb_open: false };
            let job = if occurrence["state"] == "released" { Whereabouts::Ended } else { planned };
            board.0.insert(SlotName { date, slot: date.to_string() }, (release_at, job));
        }
        let last = board.0.values().map(|(release_at, _)| *release_at).max().expect("there is one");
        let paused = case["schedule_after"] == "(paused)";
        let change = if paused { Change::Pause } else { Change::Edit };
        let withdrawn = board.change(change, at);
        let expected = texts(&case["expected"]["cancelled"]);
        assert_eq!(withdrawn, expected.iter().map(|t| moment(&Value::from(t.as_str()))).collect::<Vec<_>>(), "{}", case["id"]);

        let progress = active(last).after(change, at);
        let (cron, zone) = with_zone(if paused { &case["schedule_before"] } else { &case["schedule_after"] }, &case["timezone"]);
        let (clock, rule) = (clock(&zone), rule(&cron, &Value::Null));
        board.take(&plan(&rule, &clock, CatchUp::Each, &progress, &Ask { now: at, horizon: AFTER_AN_EDIT, slots_max: 100 }));
        let pending = board.pending();
        let after: Vec<(String, Moment)> = case["expected"]["pending_after"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|o| (o["business_date"].as_str().expect("a date").to_owned(), moment(&o["release_utc"])))
            .collect();
        assert_eq!(pending, after, "{}", case["id"]);
        for date in texts(&case["expected"]["no_second_send_for"]) {
            assert!(!pending.iter().any(|(slot, _)| *slot == date), "{} {date}", case["id"]);
        }
    }
}

/// J08's second half: what passed during a pause stays skipped, and says why.
#[test]
fn a_resumed_schedule_does_not_backfill() {
    let (clock, rule) = (clock(&Value::from("America/New_York")), rule(&Value::from("0 9 * * *"), &Value::Null));
    let day = |text: &str| moment(&Value::from(text));
    let paused = active(day("2027-01-06T14:00:00Z")).after(Change::Pause, day("2027-01-05T13:30:00Z"));
    let ask = |now| Ask { now, horizon: HORIZON, slots_max: 100 };
    let during = plan(&rule, &clock, CatchUp::Each, &paused, &ask(day("2027-01-07T15:00:00Z")));
    let skipped = |plan: &Plan| plan.slots.iter().map(|s| (s.name.slot.clone(), s.what)).collect::<Vec<_>>();
    let pause = What::Skip(Skip::Pause);
    assert_eq!(skipped(&during), ["2027-01-05", "2027-01-06", "2027-01-07"].map(|d| (d.to_owned(), pause)));
    let resumed = Progress { cursor: during.cursor, ..paused }.after(Change::Resume, day("2027-01-08T14:00:00Z"));
    let after = plan(&rule, &clock, CatchUp::Each, &resumed, &ask(day("2027-01-08T14:00:30Z")));
    assert_eq!(after.slots[0].what, pause, "a slot on the very instant of the resume is not sent");
    assert!(matches!(after.slots[1].what, What::Make { .. }) && after.slots[1].name.slot == "2027-01-09");
}

#[test]
fn a_key_holds_the_nominal_date_for_every_attempt() {
    for case in cases("business_key", 3) {
        let given = &case["given"];
        let (clock, rule) = (clock(&case["timezone"]), rule(&given["cron"], &Value::Null));
        let release = moment(&given["release_utc"]);
        let attempts = given["attempts_at_utc"].as_array().expect("a list");
        for now in attempts.iter().map(moment) {
            // Planned a day ahead, or found only as the attempt begins: the name is the rule's.
            for cursor in [release.minus(HORIZON), release.minus(Duration::from_secs(1))] {
                let planned = plan(&rule, &clock, CatchUp::Each, &active(cursor), &Ask { now, horizon: HORIZON, slots_max: 10 });
                let slot = planned.slots.iter().find(|s| s.at == release).expect("it is planned");
                assert_eq!(slot.name.slot, case["expected"]["business_date_for_every_attempt"], "{}", case["id"]);
            }
        }
    }
}

/// Two dates of one schedule are two jobs: the one that still waits for a retry keeps the next from nothing. (That the stored retry is not
/// attempted past its deadline is `domain`'s, `tests/transition_table`: `deadline_reached`.)
#[test]
fn a_date_that_still_waits_for_its_retry_keeps_the_next_from_nothing() {
    for case in cases("run_overlap", 1) {
        let given = &case["given"];
        let (clock, rule) = (clock(&case["timezone"]), rule(&given["cron"], &given["deadline_local"]));
        let now = moment(&given["now"]);
        let before = case["given"]["state"][0]["business_date"].as_str().expect("a date");
        let planned =
            plan(&rule, &clock, CatchUp::Each, &active(after_date(&rule, &clock, before)), &Ask { now, horizon: HORIZON / 2, slots_max: 10 });
        let released: Vec<String> = planned.slots.iter().filter(|s| made(s).is_some()).map(|s| s.name.slot.clone()).collect();
        assert_eq!(released, texts(&case["expected"]["released"]));
        let older = SlotName { date: Date::parse(before).expect("a date"), slot: before.to_owned() };
        assert!(!older.collides(&planned.slots[0].name), "their keys differ");
        // The stored retry lies past its own deadline, so `decide` and the timer end it: the deadline of a date is its own.
        let yesterday = rule.sends(&clock, Range::ALL.from(now.minus(HORIZON))).next().expect("it has one");
        assert!(yesterday.business_date() == older.date && yesterday.deadline_at.expect("it has one") <= now);
    }
}
