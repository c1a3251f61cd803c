//! What is known of one node's clock from its last answers: pure, so that every case can be asked by a test.
//!
//! A node reads its clock between a question's departure and the answer's arrival, so each sample gives a span that holds the true moment, and
//! monotonic time carries it on; the longer ago, the wider, for clocks drift. All that are kept hold it, so the truth is where they overlap: a slow
//! round trip drops out by itself. A sample that can't agree says that the clock was set: by a little it is followed at once, by more than
//! [`JUMP`] it isn't, and the old clock is carried on beside it until somebody says that the new one is right.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use curfew_domain::Moment;

use crate::clock::Reading;

/// A clock that moves by more against monotonic time has jumped (DESIGN 4).
const JUMP: Duration = Duration::from_secs(2);
/// Samples that are kept.
const KEPT_MAX: usize = 8;
/// Parts of a million by which two clocks may drift apart: twice what a clock that is being slewed does.
const DRIFT_PPM: i64 = 1_000;

/// One answer of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// When the question left.
    pub asked: Instant,
    /// The same by this process's own clock.
    pub asked_by_the_system: SystemTime,
    /// When its answer was there.
    pub answered: Instant,
    /// Microseconds since the epoch, by the node.
    pub micros: i64,
}

/// A node's clock.
#[derive(Default, Debug)]
pub(super) struct Estimate {
    kept: VecDeque<Sample>,
    /// Since it jumped: what it says now.
    beside: VecDeque<Sample>,
    last: Option<Sample>,
    jumps: u64,
}

/// Microseconds between which the truth is.
type Span = (i64, i64);

impl Estimate {
    /// Takes an answer in. It must be younger than all before.
    pub(super) fn take(&mut self, sample: Sample) {
        let (at, fresh) = (sample.answered, sample.span(sample.answered));
        self.last = Some(sample);
        let Some(known) = overlap(&self.kept, at) else {
            self.kept.push_back(sample);
            return;
        };
        let jump = micros(JUMP);
        if gap(known, fresh) <= jump {
            // Back again: no less a jump than the one away.
            self.jumps += u64::from(self.jumped());
            self.beside.clear();
            keep(&mut self.kept, sample);
        } else {
            self.jumps += u64::from(overlap(&self.beside, at).is_none_or(|other| gap(other, fresh) > jump));
            keep(&mut self.beside, sample);
        }
    }

    /// Whether it jumped, and nobody said yet that it is right now.
    pub(super) fn jumped(&self) -> bool {
        !self.beside.is_empty()
    }

    /// How often it jumped.
    pub(super) fn jumps(&self) -> u64 {
        self.jumps
    }

    /// What it says since its jump is right.
    pub(super) fn adopt(&mut self) {
        if self.jumped() {
            self.kept = std::mem::take(&mut self.beside);
        }
    }

    /// What it says at an instant of ours. After a jump: what it would say without.
    pub(super) fn reading(&self, at: Instant, by_the_system: SystemTime) -> Option<Reading> {
        let (earliest, latest) = overlap(&self.kept, at)?;
        // Monotonic time stands still while a machine sleeps: where the system's clock saw more time pass, it may be later.
        let slept = self.kept.back().and_then(|sample| sample.slept(at, by_the_system)).unwrap_or_default();
        let latest = latest + micros(slept);
        Some(Reading { earliest: Moment::from_millis(earliest.div_euclid(1000)), latest: Moment::from_millis(latest.div_euclid(1000) + 1) })
    }

    /// By how many milliseconds it is ahead of the system's clock, as it said last, jump or not.
    pub(super) fn ahead_ms(&self) -> Option<i64> {
        let last = self.last?;
        let half_way = (last.answered - last.asked) / 2;
        let system = (last.asked_by_the_system + half_way).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Some((last.micros - micros(system)) / 1000)
    }

    /// When it last answered.
    pub(super) fn answered(&self) -> Option<Instant> {
        self.last.map(|last| last.answered)
    }
}

impl Sample {
    /// Where the truth is at a later instant, as far as this sample knows.
    fn span(&self, at: Instant) -> Span {
        let (since_asked, since_answered) = (micros(at.saturating_duration_since(self.asked)), micros(at.saturating_duration_since(self.answered)));
        let drift = |passed: i64| passed * DRIFT_PPM / 1_000_000;
        (self.micros + since_answered - drift(since_answered), self.micros + 1 + since_asked + drift(since_asked))
    }

    fn slept(&self, at: Instant, by_the_system: SystemTime) -> Option<Duration> {
        by_the_system.duration_since(self.asked_by_the_system).ok()?.checked_sub(at.saturating_duration_since(self.asked))
    }
}

/// Keeps a sample, and of the others those that agree with it.
fn keep(samples: &mut VecDeque<Sample>, sample: Sample) {
    let fresh = sample.span(sample.answered);
    samples.retain(|old| gap(old.span(sample.answered), fresh) == 0);
    // Each agrees with the newest, but perhaps not with each other: then the newest alone is believed.
    if overlap(samples, sample.answered).is_none() {
        samples.clear();
    }
    samples.push_back(sample);
    if samples.len() > KEPT_MAX {
        samples.pop_front();
    }
}

/// Where all samples overlap; where they don't, what the newest says.
fn overlap(samples: &VecDeque<Sample>, at: Instant) -> Option<Span> {
    let newest = samples.back()?.span(at);
    let all = samples.iter().map(|sample| sample.span(at)).fold((i64::MIN, i64::MAX), |a, b| (a.0.max(b.0), a.1.min(b.1)));
    Some(if all.0 <= all.1 { all } else { newest })
}

/// How far two spans are apart; 0 where they overlap.
fn gap(a: Span, b: Span) -> i64 {
    (b.0 - a.1).max(a.0 - b.1).max(0)
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node whose clock is set by hand, asked over a way that takes its time.
    struct Node {
        estimate: Estimate,
        began: Instant,
        began_by_the_system: SystemTime,
    }

    /// The node's clock when the test begins, in microseconds.
    const EPOCH: i64 = 1_800_000_000_000_000;
    const MS: i64 = 1_000;
    const S: i64 = 1_000_000;

    impl Node {
        fn new() -> Self {
            Self { estimate: Estimate::default(), began: Instant::now(), began_by_the_system: SystemTime::UNIX_EPOCH + us(EPOCH) }
        }

        /// Asked at a moment of ours; its clock is read after `there` and the answer is here after `back`. It is ahead of what passed by `ahead`.
        fn asked(&mut self, at: i64, there: i64, back: i64, ahead: i64) -> &mut Self {
            let asked = self.began + us(at);
            let asked_by_the_system = self.began_by_the_system + us(at);
            let micros = EPOCH + at + there + ahead;
            self.estimate.take(Sample { asked, asked_by_the_system, answered: asked + us(there + back), micros });
            self
        }

        /// The bounds at a moment of ours, in milliseconds from what the node's clock says without being ahead.
        fn bounds(&self, at: i64) -> (i64, i64) {
            let reading = self.estimate.reading(self.began + us(at), self.began_by_the_system + us(at)).expect("it was asked");
            let truth = (EPOCH + at) / 1000;
            (reading.earliest.as_millis() - truth, reading.latest.as_millis() - truth)
        }
    }

    fn us(micros: i64) -> Duration {
        Duration::from_micros(u64::try_from(micros).expect("a time to come"))
    }

    #[test]
    fn the_truth_is_between_the_bounds_whichever_way_took_long() {
        for (there, back) in [(0, 300 * MS), (300 * MS, 0), (150 * MS, 150 * MS), (1, 1)] {
            let mut node = Node::new();
            let (earliest, latest) = node.asked(0, there, back, 0).bounds(S);
            assert!(earliest <= 0 && latest >= 0, "{there} {back}: {earliest} {latest}");
            assert!(latest - earliest <= (there + back) / MS + 4, "{there} {back}: {earliest} {latest}");
        }
    }

    #[test]
    fn a_slow_answer_among_fast_ones_changes_nothing() {
        let mut node = Node::new();
        node.asked(0, 100, 100, 0).asked(S, 100, 100, 0);
        let before = node.bounds(3 * S);
        node.asked(2 * S, 800 * MS, 100, 0);
        let after = node.bounds(3 * S);
        assert!(before.0 <= after.0 && after.0 <= 0 && after.1 >= 0 && after.1 <= before.1, "{before:?} {after:?}");
        assert!(!node.estimate.jumped());
    }

    #[test]
    fn bounds_widen_while_nobody_answers() {
        let mut node = Node::new();
        node.asked(0, 100, 100, 0);
        let (earliest, latest) = node.bounds(100 * S);
        assert!((-101..=-99).contains(&earliest) && (99..=102).contains(&latest), "a tenth of a percent: {earliest} {latest}");
    }

    #[test]
    fn a_clock_that_is_set_by_a_little_is_followed_at_once() {
        let mut node = Node::new();
        node.asked(0, 100, 100, 0).asked(S, 100, 100, 0).asked(2 * S, 100, 100, -1_500 * MS);
        let (earliest, latest) = node.bounds(2 * S + 500);
        assert!((-1_502..=-1_499).contains(&earliest) && (-1_501..=-1_498).contains(&latest), "{earliest} {latest}");
        assert_eq!((node.estimate.jumped(), node.estimate.jumps()), (false, 0));
    }

    #[test]
    fn a_jump_is_not_followed_until_somebody_says_that_it_is_right() {
        let mut node = Node::new();
        node.asked(0, 100, 100, 0).asked(S, 100, 100, 600 * S).asked(2 * S, 100, 100, 600 * S);
        assert_eq!((node.estimate.jumped(), node.estimate.jumps()), (true, 1));
        let (earliest, latest) = node.bounds(3 * S);
        assert!(earliest >= -5 && latest <= 5, "the old clock goes on: {earliest} {latest}");
        assert_eq!(node.estimate.ahead_ms(), Some(600_000), "what it says is told all the same");
        node.estimate.adopt();
        let (earliest, latest) = node.bounds(3 * S);
        assert!((599_995..=600_000).contains(&earliest) && (600_000..=600_005).contains(&latest), "{earliest} {latest}");
        assert!(!node.estimate.jumped());
    }

    #[test]
    fn the_way_back_is_a_jump_too() {
        let mut node = Node::new();
        node.asked(0, 100, 100, 0).asked(S, 100, 100, -600 * S).asked(2 * S, 100, 100, 0);
        assert_eq!((node.estimate.jumped(), node.estimate.jumps()), (false, 2));
        let (earliest, latest) = node.bounds(3 * S);
        assert!(earliest >= -5 && latest <= 5, "{earliest} {latest}");
    }

    #[test]
    fn time_that_a_machine_slept_may_have_passed() {
        let mut node = Node::new();
        node.asked(0, 100, 100, 0);
        let reading = node.estimate.reading(node.began + us(S), node.began_by_the_system + us(3_600 * S)).expect("it was asked");
        assert!(reading.latest.as_millis() >= (EPOCH + 3_600 * S) / 1000);
        assert!(reading.earliest.as_millis() <= (EPOCH + S) / 1000);
    }
}
