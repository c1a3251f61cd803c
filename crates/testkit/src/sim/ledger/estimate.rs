//! What a client knows of one node's clock, as the Redis adapter does it: each answer gives a span that holds the truth, and the truth is where
//! they overlap (but for drift, which virtual time hasn't). A sample that is off by more than a jump isn't followed until the witness says that it is right.

use std::collections::VecDeque;
use std::time::Duration;

use curfew_domain::Moment;
use curfew_ledger::clock::Reading;

/// A clock that moves by more against monotonic time has jumped (DESIGN 4).
const JUMP_US: i64 = 2_000_000;
/// Samples that are kept.
const KEPT_MAX: usize = 8;

/// One answer of a node; times are the run's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub asked: Duration,
    pub answered: Duration,
    /// By the node.
    pub at: Moment,
    /// By the process's own clock, half way.
    pub own: Moment,
}

/// A node's clock.
#[derive(Clone, Default, Debug)]
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
    pub fn take(&mut self, sample: Sample) {
        let (at, fresh) = (sample.answered, sample.span(sample.answered));
        self.last = Some(sample);
        match overlap(&self.kept, at) {
            None => self.kept.push_back(sample),
            Some(known) if gap(known, fresh) <= JUMP_US => {
                // Back again: no less a jump than the one away.
                self.jumps += u64::from(self.jumped());
                self.beside.clear();
                keep(&mut self.kept, sample);
            }
            Some(_jumped) => {
                self.jumps += u64::from(overlap(&self.beside, at).is_none_or(|other| gap(other, fresh) > JUMP_US));
                keep(&mut self.beside, sample);
            }
        }
    }

    pub fn jumped(&self) -> bool {
        !self.beside.is_empty()
    }

    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    /// What it says since its jump is right.
    pub fn adopt(&mut self) {
        if self.jumped() {
            self.kept = std::mem::take(&mut self.beside);
        }
    }

    /// What it says at a time of the run. After a jump: what it would say without.
    pub fn reading(&self, at: Duration) -> Option<Reading> {
        let (earliest, latest) = overlap(&self.kept, at)?;
        Some(Reading { earliest: Moment::from_millis(earliest.div_euclid(1000)), latest: Moment::from_millis(latest.div_euclid(1000)) })
    }

    /// By how many milliseconds it is ahead of the process's own clock, as it said last, jump or not.
    pub fn ahead_ms(&self) -> Option<i64> {
        self.last.map(|last| last.at.as_millis() - last.own.as_millis())
    }

    pub fn answered(&self) -> Option<Duration> {
        self.last.map(|last| last.answered)
    }
}

impl Sample {
    /// Where the truth is at a later time. Virtual time doesn't drift: there is no more error than the sample's way took.
    fn span(&self, at: Duration) -> Span {
        let told = self.at.as_millis() * 1000;
        (told + micros(at.saturating_sub(self.answered)), told + micros(at.saturating_sub(self.asked)))
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
fn overlap(samples: &VecDeque<Sample>, at: Duration) -> Option<Span> {
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
