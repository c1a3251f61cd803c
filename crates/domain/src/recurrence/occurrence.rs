//! One occurrence: its nominal time, what became of it on the clock, and the verdict on its window.

use super::civil::{Date, Local, TimeOfDay};
use super::cron::Class;
use super::wall_clock::{Dst, WallClock, instant, reads};
use crate::moment::Moment;

/// A deadline: a time on the customer's clock, some days after the send's date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// The time.
    pub time: TimeOfDay,
    /// 0 is the same date.
    pub days: i32,
}

/// Whether an occurrence has a window in which it can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It has.
    Ok,
    /// Its release is not before its deadline: nothing may be sent.
    InvalidWindow,
    /// It has no release: nothing is sent, and nothing is missing.
    NoJob,
    /// Its deadline doesn't exist on the clock: nothing may be sent.
    NoDeadline,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::InvalidWindow => "invalid_window",
            Self::NoJob => "no_job",
            Self::NoDeadline => "no_deadline",
        }
    }
}

/// Why an occurrence is not where its pattern says, for whoever previews it or reads the day's board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The clock is put forward over its time: moved, or skipped where the schedule says so.
    Gap,
    /// The clock reads its time twice.
    Overlap,
    /// The whole date is missing on the clock: no job.
    MissingDate,
    /// No business day, and the schedule skips those: no job.
    NotABusinessDay,
    /// No business day: sent on another date.
    Rolled,
    /// An earlier date's job goes out at this very instant: no second one.
    Collapsed,
}

impl Why {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Overlap => "overlap",
            Self::MissingDate => "missing_date",
            Self::NotABusinessDay => "not_a_business_day",
            Self::Rolled => "rolled",
            Self::Collapsed => "collapsed",
        }
    }
}

/// One occurrence of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Occurrence {
    /// The local time that names it, before rolling; of an interval job what the clock reads at the instant.
    pub nominal: Local,
    /// Where it stands among the others: its release, or where that would have been.
    pub at: Moment,
    /// The first moment at which it may be sent.
    pub release_at: Option<Moment>,
    /// The moment at which automation stops.
    pub deadline_at: Option<Moment>,
    /// What follows.
    pub verdict: Verdict,
    /// What happened to it.
    pub why: Option<Why>,
    /// The local date of the release.
    pub send_date: Option<Date>,
    pub(super) class: Class,
}

impl Occurrence {
    /// The date in the job's key: nominal, whatever a gap or a holiday makes of the send.
    pub fn business_date(&self) -> Date {
        self.nominal.date()
    }

    /// The last part of the job's key: the business date, with the slot where a date has several (`Pattern::several_a_day`): the nominal time, or
    /// for an interval job the instant, for its clock may read a time twice.
    pub fn key_part(&self, several_a_day: bool) -> String {
        let (local, zone) = match self.class {
            Class::Interval => (Local::from_millis(self.at.as_millis()), "Z"),
            Class::FixedTime if several_a_day => (self.nominal, ""),
            Class::FixedTime => return self.nominal.date().to_string(),
        };
        let time = local.time();
        // Seconds only where a rule has them: two of one minute are two keys.
        let seconds = if time.second() > 0 { format!("{:02}", time.second()) } else { String::new() };
        format!("{}T{:02}{:02}{seconds}{zone}", local.date(), time.hour(), time.minute())
    }
}

/// The window of one business date: release and deadline each resolved on their own, and the verdict.
///
/// A deadline that was not asked for is none, and no fault: the verdict is `Ok`.
pub fn window(clock: &dyn WallClock, release: Local, deadline: Option<Deadline>, dst: Dst) -> Occurrence {
    let released = instant(clock, release, dst);
    let mut occurrence = Occurrence {
        nominal: release,
        at: released.unwrap_or_else(|| super::wall_clock::earliest(clock, release)),
        release_at: released,
        deadline_at: None,
        verdict: Verdict::Ok,
        why: why(clock, release, dst),
        send_date: None,
        class: Class::FixedTime,
    };
    judge(&mut occurrence, clock, release.date(), deadline, dst);
    occurrence
}

/// Fills in deadline, verdict and send date of an occurrence whose release is known.
pub(super) fn judge(occurrence: &mut Occurrence, clock: &dyn WallClock, date: Date, deadline: Option<Deadline>, dst: Dst) {
    occurrence.deadline_at = deadline.and_then(|d| instant(clock, date.plus(d.days).at(d.time), dst));
    occurrence.send_date = occurrence.release_at.map(|at| reads(clock, at).date());
    occurrence.verdict = match (occurrence.release_at, occurrence.deadline_at) {
        (None, _) => Verdict::NoJob,
        (Some(_), None) if deadline.is_some() => Verdict::NoDeadline,
        (Some(release), Some(deadline)) if release >= deadline => Verdict::InvalidWindow,
        (Some(_), _) => Verdict::Ok,
    };
}

/// What a change of the clock makes of a local time.
pub(super) fn why(clock: &dyn WallClock, local: Local, dst: Dst) -> Option<Why> {
    use super::wall_clock::{Reading, exists, reading};
    match reading(clock, local) {
        Reading::Once(_) => None,
        Reading::Twice { .. } => Some(Why::Overlap),
        Reading::Never { .. } if instant(clock, local, dst).is_none() && !exists(clock, local.date()) => Some(Why::MissingDate),
        Reading::Never { .. } => Some(Why::Gap),
    }
}
