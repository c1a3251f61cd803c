//! What follows from an outcome: complete, run again, wait for the set-up, or stop. One pure function, small enough to read whole.
//!
//! The order of tests is that of RECURRENCE, section 6: the first that fits decides.

use std::time::Duration;

use crate::limits::{CONFIGURATION_MET_MAX, SOFTENED_TRIES_MAX};
use crate::policy::{Backoff, Policy};
use crate::{Moment, OutcomeClass, Reason};

/// Everything a decision rests on.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// Attempts that ended before this one; 0 at the first.
    pub attempts_before: u32,
    /// What this one came to.
    pub class: OutcomeClass,
    /// Whether a 5yz was read softly: capped at three tries.
    pub softened: bool,
    /// The provider's lower bound. Of a throttle it holds; of a transient reply (greylisting) it gives way to the deadline.
    pub retry_after: Option<Duration>,
    /// Whether the provider recognises our key for the whole of another attempt.
    pub provider: Provider,
    /// Configuration outcomes that the job has met, this one counted.
    pub configuration_met: u32,
    /// The ledger's now.
    pub now: Moment,
    /// No attempt before this.
    pub release_at: Moment,
    /// No attempt at or after this.
    pub deadline_at: Option<Moment>,
    /// The policy that decides.
    pub policy: &'a Policy,
    /// Where in the jitter's range to go: 0.0 its lower end, 1.0 its upper.
    pub jitter: f64,
}

/// What the provider is known to do with a key it has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provider {
    /// It knows no keys: what is in doubt stays in doubt.
    ForgetsKeys,
    /// It answers a repeated key as a duplicate.
    KnowsKeys,
}

/// What follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Accepted; nothing more to do.
    Complete,
    /// Runs again.
    Retry(Retry),
    /// Not the job's fault: waits until the set-up works, uses no attempt; the deadline rules.
    AwaitSetUp,
    /// Ends for this reason.
    DeadLetter(Reason),
}

impl Decision {
    /// The word of the contract: `complete`, `retry` or `dead_letter`; a job that waits for the set-up runs again.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Retry(_) | Self::AwaitSetUp => "retry",
            Self::DeadLetter(_) => "dead_letter",
        }
    }

    /// Why.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Complete => Reason::Accepted,
            Self::Retry(retry) => retry.reason,
            Self::AwaitSetUp => Reason::Configuration,
            Self::DeadLetter(reason) => *reason,
        }
    }
}

/// When a job runs again, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retry {
    /// The moment chosen.
    pub at: Moment,
    /// The earliest that any jitter could have chosen.
    pub earliest: Moment,
    /// The latest.
    pub latest: Latest,
    /// `transient_failure` or `throttled`.
    pub reason: Reason,
}

/// The upper end of the moments a retry may get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latest {
    /// This moment may be chosen.
    Inclusive(Moment),
    /// This one may not: it is the deadline.
    Exclusive(Moment),
}

impl Latest {
    /// The bound's moment, whichever kind it is.
    pub const fn moment(self) -> Moment {
        match self {
            Self::Inclusive(moment) | Self::Exclusive(moment) => moment,
        }
    }

    /// The word of the contract: `inclusive` or `exclusive`.
    pub const fn bound(self) -> &'static str {
        match self {
            Self::Inclusive(_) => "inclusive",
            Self::Exclusive(_) => "exclusive",
        }
    }
}

/// Decides what follows from an outcome.
pub fn decide(q: &Question<'_>) -> Decision {
    let unknown = q.class == OutcomeClass::Ambiguous;
    match q.class {
        OutcomeClass::Accepted => return Decision::Complete,
        OutcomeClass::Permanent => return Decision::DeadLetter(Reason::PermanentFailure),
        OutcomeClass::Suppressed => return Decision::DeadLetter(Reason::RecipientSuppressed),
        OutcomeClass::Configuration if q.configuration_met >= CONFIGURATION_MET_MAX => return Decision::DeadLetter(Reason::Configuration),
        OutcomeClass::Configuration if q.deadline_at.is_some_and(|d| q.now >= d) => return Decision::DeadLetter(Reason::BusinessDeadlineReached),
        OutcomeClass::Configuration => return Decision::AwaitSetUp,
        OutcomeClass::Ambiguous if q.provider == Provider::ForgetsKeys => return Decision::DeadLetter(Reason::ReconciliationRequired),
        OutcomeClass::Ambiguous | OutcomeClass::Transient | OutcomeClass::Throttled => {}
    }
    let stop = |reason| Decision::DeadLetter(if unknown { Reason::ReconciliationRequired } else { reason });
    let retries = if q.softened { q.policy.retries().min(SOFTENED_TRIES_MAX - 1) } else { q.policy.retries() };
    if q.attempts_before >= retries {
        return stop(Reason::RetryBudgetExhausted);
    }
    let delay = q.policy.delay(q.attempts_before);
    let hint = hint(q, delay);
    let base = q.now.plus(delay.max(hint));
    // A release that isn't before the deadline leaves no moment at all, wherever the clock stands.
    if q.deadline_at.is_some_and(|deadline| base >= deadline || q.release_at >= deadline) {
        return stop(Reason::BusinessDeadlineReached);
    }
    let reason = if q.class == OutcomeClass::Throttled { Reason::Throttled } else { Reason::TransientFailure };
    Decision::Retry(spread(q, delay, hint, base, reason))
}

/// The least wait that the provider asks for. A throttle's is its word. A transient reply's (greylisting, with 300 s where no time is named) is
/// what such servers usually mean: it gives way where it alone would cost the deadline.
fn hint(q: &Question<'_>, delay: Duration) -> Duration {
    let asked = q.retry_after.unwrap_or_default();
    let fits = |wait: Duration| q.deadline_at.is_none_or(|deadline| q.now.plus(wait) < deadline);
    match q.class {
        OutcomeClass::Throttled => asked,
        OutcomeClass::Transient if fits(asked) || !fits(delay) => asked,
        OutcomeClass::Transient
        | OutcomeClass::Accepted
        | OutcomeClass::Permanent
        | OutcomeClass::Suppressed
        | OutcomeClass::Ambiguous
        | OutcomeClass::Configuration => Duration::ZERO,
    }
}

/// Chooses the moment inside the jitter's range, never before now, the hint or the release, and strictly before the deadline.
fn spread(q: &Question<'_>, delay: Duration, hint: Duration, base: Moment, reason: Reason) -> Retry {
    let (lo_ms, hi_ms) = q.policy.jitter_ms(delay);
    let low = shifted(q.now.plus(delay), lo_ms).max(q.now).max(q.now.plus(hint)).max(q.release_at);
    let high = shifted(base, hi_ms.max(0)).max(low);
    let (earliest, latest) = match q.deadline_at {
        Some(deadline) if high >= deadline => (if low >= deadline { base.max(q.release_at) } else { low }, Latest::Exclusive(deadline)),
        _within => (low, Latest::Inclusive(high)),
    };
    let last = match latest {
        Latest::Inclusive(m) => m,
        Latest::Exclusive(m) => Moment::from_millis(m.as_millis() - 1),
    };
    let room = last.since(earliest).as_millis() as f64;
    let chosen = earliest.plus(Duration::from_millis((room * q.jitter.clamp(0.0, 1.0)) as u64)).min(last.max(earliest));
    Retry { at: chosen, earliest, latest, reason }
}

fn shifted(m: Moment, ms: i64) -> Moment {
    Moment::from_millis(m.as_millis().saturating_add(ms))
}

impl Policy {
    /// How many retries it allows: the list's length, `max_attempts` − 1, or the smaller where both are given. An exponential policy
    /// without `max_attempts` has no end of its own: the deadline stops it.
    pub fn retries(&self) -> u32 {
        let by_max = self.max_attempts.map(|n| n.saturating_sub(1));
        let by_list = match &self.backoff {
            Backoff::Delays(list) => Some(u32::try_from(list.len()).unwrap_or(u32::MAX)),
            Backoff::Exponential { .. } => None,
        };
        by_max.into_iter().chain(by_list).min().unwrap_or(u32::MAX)
    }

    /// The wait after the attempt of this zero-based index, without jitter.
    pub fn delay(&self, attempt: u32) -> Duration {
        match &self.backoff {
            Backoff::Delays(list) => list.get(attempt as usize).or(list.last()).copied().unwrap_or_default(),
            // Nothing times infinity is no number, and would be read as the cap.
            Backoff::Exponential { base, .. } if base.is_zero() => Duration::ZERO,
            Backoff::Exponential { base, factor, cap } => {
                let seconds = base.as_secs_f64() * factor.powi(i32::try_from(attempt).unwrap_or(i32::MAX));
                if seconds.is_finite() && seconds < cap.as_secs_f64() { Duration::from_millis((seconds * 1000.0).round() as u64) } else { *cap }
            }
        }
    }

    fn jitter_ms(&self, delay: Duration) -> (i64, i64) {
        match self.jitter.percent {
            Some(percent) => (0, i64::try_from(delay.as_millis()).unwrap_or(i64::MAX).saturating_mul(i64::from(percent)) / 100),
            None => (self.jitter.lo_ms, self.jitter.hi_ms),
        }
    }
}
