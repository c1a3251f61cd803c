//! A schedule's occurrences on a customer's clock, in the order of their instants.
//!
//! Nominal times come from the pattern in order and are rolled (that keeps order) and resolved (our rule keeps it, `Gap::Shift` doesn't). So what is
//! resolved waits in a heap until no later date can come before it: a day is looked ahead, never more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::business::Roll;
use super::civil::{Date, Local, TimeOfDay};
use super::cron::{Class, Cron};
use super::limits::QUIET_DAYS;
use super::occurrence::{Occurrence, Verdict, Why, judge, why, window};
use super::pattern::{Direction, Feed, Pattern};
use super::rule::{Range, Recurrence};
use super::wall_clock::{WallClock, earliest, instant, reads};
use crate::moment::Moment;

const MINUTE: Duration = Duration::from_secs(60);
/// Days around a moment whose jobs may lie at it: a gap or an overlap of a whole day, and one for safety.
const MARGIN_DAYS: i32 = 2;

impl Recurrence {
    /// All of a range's occurrences, those too that have no job and why: what a preview and a day's board show.
    pub fn slots<'a>(&'a self, clock: &'a dyn WallClock, range: Range) -> Slots<'a> {
        let walk = match &self.pattern {
            Pattern::Cron { cron, time: None } if cron.class() == Class::Interval => Walk::Minutes {
                cron,
                cursor: range.from.max(earliest(clock, self.start.unwrap_or(Date::FIRST).at(TimeOfDay::MIDNIGHT))),
                heard: None,
            },
            Pattern::EveryHours { hours, anchor } => {
                let step = i64::from((*hours).max(1)) * 3_600_000;
                let passed = i128::from(range.from.as_millis()) - i128::from(anchor.as_millis());
                let runs = if passed > 0 { (passed as u128).div_ceil(step as u128) as i64 } else { 0 };
                Walk::Hours { step, next: Moment::from_millis(anchor.as_millis().saturating_add(step.saturating_mul(runs))), heard: None }
            }
            Pattern::Around { dates, direction, n, time } => {
                Walk::Listed { dates: dates.iter(), around: Around { direction: *direction, n: *n, time: *time } }
            }
            Pattern::Cron { .. }
            | Pattern::NthBusinessDay { .. }
            | Pattern::MonthlyClamped { .. }
            | Pattern::YearlyClamped { .. }
            | Pattern::Rrule(_) => Walk::Dates(Box::new(self.dates(clock, range))),
        };
        Slots { rule: self, clock, range, walk }
    }

    /// Where nominal dates begin and end whose jobs may lie in a range.
    fn dates<'a>(&'a self, clock: &dyn WallClock, range: Range) -> Dates<'a> {
        let rolls = self.roll.is_some_and(|roll| roll != Roll::Skip);
        let (first, last) = (reads(clock, range.from).date().plus(-MARGIN_DAYS), reads(clock, range.to).date().plus(MARGIN_DAYS));
        // A business day is where rolling begins anew: no earlier date comes after it, no later one before it.
        let (first, last) = if rolls { (self.calendar.on_or_before(first), self.calendar.on_or_after(last)) } else { (first, last) };
        let first = first.max(self.start.unwrap_or(Date::FIRST));
        let first = if let Pattern::Rrule(rule) = &self.pattern { first.max(rule.start()) } else { first };
        Dates {
            feed: Feed::new(&self.pattern, &self.calendar, first),
            last: last.min(self.end.unwrap_or(Date::LAST)),
            heard: first,
            waiting: BinaryHeap::new(),
            bound: (Date::FIRST, Moment::from_millis(i64::MIN)),
            over: false,
            released: None,
        }
    }
}

/// Occurrences in the order of their instants; of a list of dates in the list's order.
pub struct Slots<'a> {
    rule: &'a Recurrence,
    clock: &'a dyn WallClock,
    range: Range,
    walk: Walk<'a>,
}

enum Walk<'a> {
    Dates(Box<Dates<'a>>),
    Minutes { cron: &'a Cron, cursor: Moment, heard: Option<Moment> },
    Hours { step: i64, next: Moment, heard: Option<Moment> },
    Listed { dates: std::slice::Iter<'a, Date>, around: Around },
}

/// How the send of a listed date is found.
#[derive(Clone, Copy)]
struct Around {
    direction: Direction,
    n: u32,
    time: TimeOfDay,
}

struct Dates<'a> {
    feed: Feed<'a>,
    last: Date,
    /// The last nominal date that the feed gave.
    heard: Date,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// The send date of the feed's last time, and the earliest instant of it: nothing that the feed still gives comes before.
    bound: (Date, Moment),
    over: bool,
    released: Option<Moment>,
}

/// A resolved nominal time. Its order is that of instants; the earlier nominal time of two names them both.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    at: Moment,
    nominal: Local,
    /// The rolled local time; `None` where it is skipped.
    send: Option<Local>,
}

impl Iterator for Slots<'_> {
    type Item = Occurrence;

    fn next(&mut self) -> Option<Occurrence> {
        let Self { rule, clock, range, walk } = self;
        match walk {
            Walk::Dates(dates) => dates.next(rule, *clock, *range),
            Walk::Minutes { cron, cursor, heard } => loop {
                let at = next_minute(rule, *clock, cron, cursor, range.to.min(quiet_end(heard, *cursor)))?;
                *cursor = at.plus(MINUTE);
                if let Some(occurrence) = passing(rule, *clock, at)? {
                    *heard = Some(at);
                    return Some(occurrence);
                }
            },
            Walk::Hours { step, next, heard } => loop {
                let at = *next;
                if at > range.to || at > quiet_end(heard, at) {
                    return None;
                }
                *next = Moment::from_millis(at.as_millis().checked_add(*step)?);
                if let Some(occurrence) = passing(rule, *clock, at)? {
                    *heard = Some(at);
                    return Some(occurrence);
                }
            },
            Walk::Listed { dates, around } => loop {
                let date = *dates.next()?;
                if rule.start.is_some_and(|start| date < start) || rule.end.is_some_and(|end| date > end) {
                    continue;
                }
                let occurrence = listed(rule, *clock, date, *around);
                if occurrence.at >= range.from && occurrence.at <= range.to {
                    return Some(occurrence);
                }
            },
        }
    }
}

impl Dates<'_> {
    fn next(&mut self, rule: &Recurrence, clock: &dyn WallClock, range: Range) -> Option<Occurrence> {
        loop {
            if !self.over && self.waiting.peek().is_none_or(|Reverse(first)| first.at >= self.bound.1) {
                self.look_ahead(rule, clock);
                continue;
            }
            let Reverse(Waiting { at, nominal, send }) = self.waiting.pop()?;
            if at > range.to {
                return None;
            }
            let occurrence = self.occurrence(rule, clock, nominal, send, at);
            let past_its_end = matches!(&rule.pattern, Pattern::Rrule(r) if r.until_instant().is_some_and(|until| at > until));
            if at >= range.from && !past_its_end {
                return Some(occurrence);
            }
        }
    }

    /// Takes the feed's next time and resolves it.
    fn look_ahead(&mut self, rule: &Recurrence, clock: &dyn WallClock) {
        let Some(nominal) = self.feed.next(self.last.min(self.heard.plus(QUIET_DAYS))) else {
            self.over = true;
            return;
        };
        let date = nominal.date();
        self.heard = date;
        let rolled = rule.roll.map_or(Some(date), |roll| rule.calendar.roll(date, roll));
        let send = rolled.map(|d| d.at(nominal.time()));
        let local = send.unwrap_or(nominal);
        let at = instant(clock, local, rule.dst).unwrap_or_else(|| earliest(clock, local));
        if self.bound.0 != local.date() {
            self.bound = (local.date(), earliest(clock, local.date().at(TimeOfDay::MIDNIGHT)));
        }
        self.waiting.push(Reverse(Waiting { at, nominal, send }));
    }

    fn occurrence(&mut self, rule: &Recurrence, clock: &dyn WallClock, nominal: Local, send: Option<Local>, at: Moment) -> Occurrence {
        let mut occurrence = match send {
            Some(send) => window(clock, send, rule.deadline, rule.dst),
            None => no_job(nominal, at, Why::NotABusinessDay),
        };
        if occurrence.release_at.is_some() && self.released == occurrence.release_at {
            occurrence = no_job(nominal, at, Why::Collapsed);
        }
        self.released = occurrence.release_at.or(self.released);
        if send.is_some_and(|send| send != nominal) {
            occurrence.why.get_or_insert(Why::Rolled);
        }
        occurrence.nominal = nominal;
        occurrence
    }
}

fn no_job(nominal: Local, at: Moment, why: Why) -> Occurrence {
    let class = Class::FixedTime;
    Occurrence { nominal, at, release_at: None, deadline_at: None, verdict: Verdict::NoJob, why: Some(why), send_date: None, class }
}

/// When an interval has been silent for too long.
fn quiet_end(heard: &mut Option<Moment>, now: Moment) -> Moment {
    heard.get_or_insert(now).plus(Duration::from_secs(QUIET_DAYS as u64 * 86_400))
}

/// The first minute from the cursor to `last` whose local reading matches. Moves the cursor over spans without one.
fn next_minute(rule: &Recurrence, clock: &dyn WallClock, cron: &Cron, cursor: &mut Moment, last: Moment) -> Option<Moment> {
    // Past the last date that can be meant; a span may be put back by a day.
    let last_date = reads(clock, last).date().plus(MARGIN_DAYS);
    loop {
        if *cursor > last {
            return None;
        }
        let span = clock.span(*cursor);
        let offset = i64::from(span.offset_s) * 1_000;
        let found = next_local(rule, cron, Local::from_millis(cursor.as_millis().saturating_add(offset)), last_date);
        let at = found.map(|local| Moment::from_millis(local.as_millis() - offset));
        match (at, span.until) {
            (Some(at), until) if until.is_none_or(|until| at < until) => return Some(at).filter(|at| *at <= last),
            (_, Some(until)) => *cursor = until,
            (_, None) => return None,
        }
    }
}

/// The same on the civil calendar, where days that are skipped have none.
fn next_local(rule: &Recurrence, cron: &Cron, mut from: Local, last: Date) -> Option<Local> {
    loop {
        let local = cron.local_from(from, last)?;
        if rule.roll != Some(Roll::Skip) || rule.calendar.is_business(local.date()) {
            return Some(local);
        }
        from = Some(local.date()).filter(|d| *d < Date::LAST)?.plus(1).at(TimeOfDay::MIDNIGHT);
    }
}

/// An interval's run: `None` where the rule is over, `Some(None)` where this one is not of it.
fn passing(rule: &Recurrence, clock: &dyn WallClock, at: Moment) -> Option<Option<Occurrence>> {
    let nominal = reads(clock, at);
    let date = nominal.date();
    if rule.end.is_some_and(|end| date > end.plus(MARGIN_DAYS)) {
        return None;
    }
    let skipped = rule.roll == Some(Roll::Skip) && !rule.calendar.is_business(date);
    if skipped || rule.start.is_some_and(|start| date < start) || rule.end.is_some_and(|end| date > end) {
        return Some(None);
    }
    let mut occurrence = Occurrence {
        nominal,
        at,
        release_at: Some(at),
        deadline_at: None,
        verdict: Verdict::Ok,
        why: why(clock, nominal, rule.dst),
        send_date: None,
        class: Class::Interval,
    };
    judge(&mut occurrence, clock, date, rule.deadline, rule.dst);
    Some(Some(occurrence))
}

/// The job of a listed date, some days before or after it.
fn listed(rule: &Recurrence, clock: &dyn WallClock, date: Date, around: Around) -> Occurrence {
    let Around { direction, n, time } = around;
    let found = match direction {
        Direction::BusinessDaysBefore => rule.calendar.before(date, n),
        Direction::BusinessDaysAfter => rule.calendar.after(date, n),
        Direction::CalendarDaysBefore => date.plus(-i32::try_from(n).unwrap_or(i32::MAX)),
    };
    let Some(send) = rule.roll.map_or(Some(found), |roll| rule.calendar.roll(found, roll)) else {
        return no_job(date.at(time), earliest(clock, found.at(time)), Why::NotABusinessDay);
    };
    let mut occurrence = window(clock, send.at(time), rule.deadline, rule.dst);
    if send != found {
        occurrence.why.get_or_insert(Why::Rolled);
    }
    occurrence.nominal = date.at(time);
    occurrence
}
