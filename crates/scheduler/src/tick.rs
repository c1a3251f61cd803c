//! What is due, and what to do about it: pure, so that every case can be asked by a test.

use std::time::Duration;

use curfew_domain::rung::Rung;
use curfew_domain::simulation::{Bug, planted};
use curfew_domain::{Moment, Record, State};

/// What to do with a head of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Publish to this rung now: it arrives at its moment, at most a tick late, never early.
    Publish(Rung),
    /// Not yet: its place in line moves to this moment.
    MoveTo(Moment),
}

/// Where a job that is due at `due` goes at `now`.
///
/// The rung that arrives in `[due, due + tick]` is taken; where none does, the job waits for the next lower rung's moment.
pub fn place(due: Moment, now: Moment, tick: Duration, horizon: Duration) -> Place {
    let left = due.since(now);
    if left.is_zero() {
        return Place::Publish(Rung::Now);
    }
    let rung = Rung::fitting(left + tick, horizon);
    if rung != Rung::Now && rung.delay() >= left {
        return Place::Publish(rung);
    }
    Place::MoveTo(due.minus(Rung::fitting(left, horizon).delay()))
}

/// What to do about an overdue watch timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overdue {
    /// The deadline, or the end of the provider's window over a doubt: it ends.
    Deadline,
    /// The lease is over.
    LeaseOver,
    /// Publish its wake-up again.
    Republish,
    /// It can't be acted on now: look again then.
    Postpone(Moment),
}

/// What a healer knows besides the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// The ledger's now.
    pub now: Moment,
    /// Whether leases may be acted on.
    pub leases: Leases,
    /// What the ready queue says.
    pub ready: Ready,
    /// The claim grace.
    pub claim_grace: Duration,
}

/// Whether leases may be acted on: not before the ledger has answered for half a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leases {
    /// They may.
    Trusted,
    /// Workers renew and report first.
    Resting,
}

/// Whether a repetition is for silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// Reachable, and nothing waits there: what is overdue was lost.
    Silent,
    /// Reachable, and what waits there came after whatever is overdue, which was lost.
    Passed,
    /// Reachable, with a backlog: what is overdue most likely waits in it.
    Backlog,
    /// Not reachable, or blocked.
    Away,
}

/// What a ready queue with `waiting` messages says of a job that is overdue. `served`: when the latest wake-up arrived there of those that were
/// served; an overdue one arrived a claim grace ago or before, so one that came clearly later and was served has passed it.
///
/// However long a queue stands, that is no silence: copies of what waits there would only make it longer.
pub fn ready(waiting: u64, served: Option<Moment>, now: Moment, claim_grace: Duration) -> Ready {
    if waiting == 0 || planted(Bug::RepublishDuringBacklog) {
        return Ready::Silent;
    }
    let slack = claim_grace / 4;
    match served {
        Some(served) if served > now.minus(claim_grace).plus(slack) => Ready::Passed,
        Some(_) | None => Ready::Backlog,
    }
}

/// What to do about an overdue timer of a record that was postponed so often already.
pub fn overdue(record: &Record, postponed: u32, view: View) -> Overdue {
    let waits = matches!(record.state, State::Scheduled | State::Queued | State::Claimed);
    if waits && view.now >= record.stops_at() {
        return Overdue::Deadline;
    }
    match record.state {
        State::Claimed | State::Handoff => match (record.lease_until, view.leases) {
            (Some(until), _) if view.now < until => Overdue::Postpone(until),
            (_, Leases::Trusted) => Overdue::LeaseOver,
            (_, Leases::Resting) => Overdue::Postpone(view.now.plus(Duration::from_secs(1))),
        },
        State::Queued => match view.ready {
            Ready::Silent | Ready::Passed => Overdue::Republish,
            Ready::Backlog | Ready::Away => Overdue::Postpone(later(record, postponed, view)),
        },
        State::Scheduled | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => {
            Overdue::Postpone(record.stops_at().max(view.now.plus(view.claim_grace)))
        }
    }
}

/// Doubling, spread by the key so that a crowd doesn't come back as one, never past the moment at which automation stops.
fn later(record: &Record, postponed: u32, view: View) -> Moment {
    let wait = view.claim_grace * 2_u32.saturating_pow(postponed.min(6));
    let spread = record.key.as_str().bytes().fold(0_u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b))) % 256;
    view.now.plus(wait + wait.mul_f64(spread as f64 / 1024.0)).min(record.stops_at())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);
    const HORIZON: Duration = Duration::from_secs(32);

    fn at(left_ms: i64) -> Place {
        place(Moment::from_millis(left_ms), Moment::from_millis(0), TICK, HORIZON)
    }

    #[test]
    fn a_head_of_a_line_goes_to_the_rung_that_arrives_at_its_moment() {
        assert_eq!(at(0), Place::Publish(Rung::Now));
        assert_eq!(at(-5_000), Place::Publish(Rung::Now));
        assert_eq!(at(32_000), Place::Publish(Rung::Delay(5)));
        assert_eq!(at(31_950), Place::Publish(Rung::Delay(5)), "met within a tick of its line time");
        assert_eq!(at(31_800), Place::MoveTo(Moment::from_millis(15_800)), "met later it takes the next lower rung");
        assert_eq!(at(950), Place::Publish(Rung::Delay(0)));
        assert_eq!(at(500), Place::MoveTo(Moment::from_millis(500)), "under a second it waits for its moment");
        assert_eq!(at(100_000), Place::MoveTo(Moment::from_millis(68_000)));
    }

    #[test]
    fn nothing_ever_arrives_early_nor_more_than_a_tick_late() {
        for left_ms in 0..70_000_i64 {
            if let Place::Publish(rung) = at(left_ms) {
                let arrives = i64::try_from(rung.delay().as_millis()).expect("small");
                assert!(arrives >= left_ms && arrives <= left_ms + 100, "{left_ms} ms left: arrives after {arrives} ms");
            }
        }
    }

    fn record(state: State) -> Record {
        use curfew_domain::form::FORMAT;
        use curfew_domain::policy::AtDeadline;
        use curfew_domain::sealed::RecipientRef;
        use curfew_domain::{JobId, Key, Shard};
        Record {
            format: FORMAT,
            id: JobId::parse("01890000-0000-7000-8000-000000000001").expect("well formed"),
            key: Key::from_parts("acme", "renewal", "R-1", "2026-12-01").expect("well formed"),
            shard: Shard(0),
            generation: 1,
            version: 3,
            incarnation: 0,
            state,
            release_at: Moment::from_millis(1_000),
            deadline_at: Moment::from_millis(900_000),
            next_attempt_at: Moment::from_millis(1_000),
            attempts: 0,
            purpose: String::new(),
            business_date: String::new(),
            recipient_ref: RecipientRef(String::new()),
            transport: "smtp".to_owned(),
            policy: "default".to_owned(),
            policy_version: 1,
            at_deadline: AtDeadline::Review,
            content_revision: 1,
            lease_until: None,
            worker: None,
            token: None,
            window_doubts: Vec::new(),
            window_until: None,
            doubts: Vec::new(),
            first_handoff_at: None,
            waiting_for: None,
            last: None,
            reason: None,
            receipt: None,
            closed: false,
            configuration_met: 0,
            strikes: 0,
            verbs: Vec::new(),
            pins: Vec::new(),
            trace: None,
            kept: std::collections::BTreeMap::new(),
        }
    }

    fn view(now_ms: i64, ready: Ready) -> View {
        View { now: Moment::from_millis(now_ms), leases: Leases::Trusted, ready, claim_grace: Duration::from_secs(10) }
    }

    #[test]
    fn a_lost_wake_up_is_repeated_into_silence_and_elsewhere_only_once_it_was_passed() {
        let queued = record(State::Queued);
        assert_eq!(overdue(&queued, 0, view(20_000, Ready::Silent)), Overdue::Republish);
        assert!(matches!(overdue(&queued, 0, view(20_000, Ready::Backlog)), Overdue::Postpone(at) if at >= Moment::from_millis(30_000)));
        assert_eq!(overdue(&queued, 0, view(20_000, Ready::Passed)), Overdue::Republish);
        assert!(matches!(overdue(&queued, 9, view(20_000, Ready::Away)), Overdue::Postpone(at) if at <= queued.deadline_at));
        assert_eq!(overdue(&queued, 0, view(900_000, Ready::Away)), Overdue::Deadline);
    }

    /// While a relay hung for a quarter of an hour, each wake-up in the queue was published again every few claim graces.
    #[test]
    fn a_backlog_never_multiplies_itself_however_long_it_stands() {
        let grace = Duration::from_secs(10);
        let now = Moment::from_millis(600_000);
        assert_eq!(ready(0, None, now, grace), Ready::Silent);
        assert_eq!(ready(500, None, now, grace), Ready::Backlog);
        assert_eq!(ready(500, Some(Moment::from_millis(20_000)), now, grace), Ready::Backlog, "served, but long ago");
        assert_eq!(ready(500, Some(Moment::from_millis(592_500)), now, grace), Ready::Backlog, "within the slack");
        assert_eq!(ready(500, Some(Moment::from_millis(592_501)), now, grace), Ready::Passed);
        let queued = record(State::Queued);
        for postponed in 0..100 {
            assert!(matches!(overdue(&queued, postponed, view(20_000, Ready::Backlog)), Overdue::Postpone(_)), "{postponed}");
        }
    }

    /// Its wake-up would be published at every look, and never claimed.
    #[test]
    fn a_doubt_past_the_providers_window_ends_before_its_deadline() {
        let mut queued = record(State::Queued);
        queued.window_doubts.push(curfew_domain::Token(Default::default()));
        queued.window_until = Some(Moment::from_millis(50_000));
        assert_eq!(overdue(&queued, 0, view(49_999, Ready::Silent)), Overdue::Republish);
        assert_eq!(overdue(&queued, 0, view(50_000, Ready::Silent)), Overdue::Deadline);
    }

    #[test]
    fn a_lease_is_judged_when_it_is_over_and_leases_are_trusted() {
        let mut handoff = record(State::Handoff);
        handoff.lease_until = Some(Moment::from_millis(30_000));
        assert_eq!(overdue(&handoff, 0, view(29_000, Ready::Backlog)), Overdue::Postpone(Moment::from_millis(30_000)));
        assert_eq!(overdue(&handoff, 0, view(30_000, Ready::Backlog)), Overdue::LeaseOver);
        assert_eq!(overdue(&handoff, 0, view(999_000, Ready::Backlog)), Overdue::LeaseOver, "a deadline says nothing about a handoff");
        let resting = View { leases: Leases::Resting, ..view(30_000, Ready::Backlog) };
        assert!(matches!(overdue(&handoff, 0, resting), Overdue::Postpone(_)));
    }
}
