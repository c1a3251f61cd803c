//! Rungs: the delays a wake-up can be published with, and the time at which a waiting job stands in its line.
//!
//! One hop is always enough (DESIGN 5): a job is met in its line at its due time minus the largest rung that fits, and arrives at its moment.

use std::time::Duration;

use crate::Moment;

/// The highest rung: 64 s.
pub const RUNG_MAX: u8 = 6;

/// Where a wake-up is published: a delay exchange, or straight to the ready queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rung {
    /// `curfew.v1.ready`.
    Now,
    /// `curfew.v1.delay.NN`: arrives 2^NN s later; NN is 0 to 6.
    Delay(u8),
}

impl Rung {
    /// The largest rung whose delay fits `left`, at most `horizon`; `Now` under a second.
    pub fn fitting(left: Duration, horizon: Duration) -> Rung {
        let seconds = left.min(horizon).as_secs();
        if seconds == 0 { Rung::Now } else { Rung::Delay((63 - seconds.leading_zeros() as u8).min(RUNG_MAX)) }
    }

    /// How long it holds a message.
    pub fn delay(self) -> Duration {
        match self {
            Rung::Now => Duration::ZERO,
            Rung::Delay(n) => Duration::from_secs(1 << n),
        }
    }
}

/// When a job due at `due` must be met in its line: its rung before that, or, under a second before it, at once.
pub fn line_at(due: Moment, now: Moment, horizon: Duration) -> Moment {
    let left = due.since(now);
    match Rung::fitting(left, horizon) {
        Rung::Now => due.minus(left),
        rung @ Rung::Delay(_) => due.minus(rung.delay()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_rung_that_fits_time_and_horizon_is_taken() {
        let horizon = Duration::from_secs(32);
        let rungs = [
            (0, Rung::Now),
            (999, Rung::Now),
            (1_000, Rung::Delay(0)),
            (3_999, Rung::Delay(1)),
            (31_999, Rung::Delay(4)),
            (3_600_000, Rung::Delay(5)),
        ];
        for (left_ms, rung) in rungs {
            assert_eq!(Rung::fitting(Duration::from_millis(left_ms), horizon), rung, "{left_ms} ms left");
        }
        assert_eq!(Rung::fitting(Duration::from_secs(500), Duration::from_secs(500)), Rung::Delay(RUNG_MAX));
    }

    #[test]
    fn a_job_is_met_its_rung_before_it_is_due() {
        let at = |due_ms| line_at(Moment::from_millis(due_ms), Moment::from_millis(10_000), Duration::from_secs(32)).as_millis();
        assert_eq!(at(100_000), 68_000, "the horizon's rung");
        assert_eq!(at(15_000), 11_000, "4 s fit into 5 s");
        assert_eq!(at(10_900), 10_000, "under a second: at once");
        assert_eq!(at(4_000), 4_000, "overdue: the older one first");
    }
}
