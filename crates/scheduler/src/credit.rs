//! How much may stand in a ready queue: what the shard drains in 5 s, by the best 10-second mean of the last 10 minutes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Until a rate is measured.
const UNMEASURED_PER_S: f64 = 1_000.0;
/// What a queue may hold, in seconds of draining.
const DEPTH_S: f64 = 5.0;
const WINDOW: Duration = Duration::from_secs(10);
const WINDOWS_KEPT: usize = 60;

/// Measures one shard's draining. What left the queue = what was released − what stands there now.
#[derive(Debug)]
pub(crate) struct Drain {
    released: u64,
    window_from: Instant,
    drained_at_from: u64,
    means: VecDeque<f64>,
}

impl Drain {
    pub(crate) fn new(now: Instant) -> Self {
        Self { released: 0, window_from: now, drained_at_from: 0, means: VecDeque::new() }
    }

    pub(crate) fn released(&mut self, count: u64) {
        self.released += count;
    }

    /// How many more may be released while `queued` stand there.
    pub(crate) fn room(&mut self, queued: u64, concurrency: u32, now: Instant) -> usize {
        let drained = self.released.saturating_sub(queued);
        let passed = now.duration_since(self.window_from);
        if passed >= WINDOW {
            let left = drained.saturating_sub(self.drained_at_from);
            // A quiet window measures nothing: how fast a shard drains shows only where something waits.
            if left > 0 || queued > 0 {
                self.means.push_back(left as f64 / passed.as_secs_f64());
            }
            if self.means.len() > WINDOWS_KEPT {
                self.means.pop_front();
            }
            self.window_from = now;
            self.drained_at_from = drained;
        }
        let best = self.means.iter().copied().fold(0.0, f64::max).max(if self.means.len() < 2 { UNMEASURED_PER_S } else { 0.0 });
        let depth = (best * DEPTH_S).max(f64::from(concurrency) * 2.0) as u64;
        usize::try_from(depth.saturating_sub(queued)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_night_measures_nothing() {
        let start = Instant::now();
        let mut drain = Drain::new(start);
        for n in 1..=100 {
            assert_eq!(drain.room(0, 64, start + WINDOW * n), 5_000);
        }
    }

    #[test]
    fn a_slow_shard_gets_a_shallow_queue_but_never_less_than_twice_the_concurrency() {
        let start = Instant::now();
        let mut drain = Drain::new(start);
        assert_eq!(drain.room(0, 64, start), 5_000);
        drain.released(5_000);
        for n in 1..=20 {
            drain.room(5_000 - n * 100, 64, start + WINDOW * u32::try_from(n).expect("small"));
        }
        assert_eq!(drain.room(10, 64, start + WINDOW * 21), 118, "10/s drain in 5 s is under twice the concurrency");
    }
}
