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
    /// `queued` stood there before the first look; who began with none would take their leaving for no draining at all.
    pub(crate) fn new(queued: u64, now: Instant) -> Self {
        Self { released: queued, window_from: now, drained_at_from: 0, means: VecDeque::new() }
    }

    pub(crate) fn released(&mut self, count: u64) {
        self.released += count;
    }

    /// What went back into its line wasn't drained.
    pub(crate) fn returned(&mut self, count: u64) {
        self.released = self.released.saturating_sub(count);
    }

    /// How many may stand there, `queued` of which do.
    pub(crate) fn depth(&mut self, queued: u64, concurrency: u32, now: Instant) -> usize {
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
        (best * DEPTH_S).max(f64::from(concurrency) * 2.0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_night_measures_nothing() {
        let start = Instant::now();
        let mut drain = Drain::new(0, start);
        for n in 1..=100 {
            assert_eq!(drain.depth(0, 64, start + WINDOW * n), 5_000);
        }
    }

    #[test]
    fn a_slow_shard_gets_a_shallow_queue_but_never_less_than_twice_the_concurrency() {
        let start = Instant::now();
        let mut drain = Drain::new(0, start);
        assert_eq!(drain.depth(0, 64, start), 5_000);
        drain.released(5_000);
        for n in 1..=20 {
            drain.depth(5_000 - n * 100, 64, start + WINDOW * u32::try_from(n).expect("small"));
        }
        assert_eq!(drain.depth(2_900, 64, start + WINDOW * 21), 128, "10/s drain in 5 s is under twice the concurrency");
    }

    #[test]
    fn what_stood_there_at_the_start_drains_like_what_was_released_since() {
        let start = Instant::now();
        let mut drain = Drain::new(5_000, start);
        for n in 0..=4 {
            drain.depth(5_000 - n * 1_000, 64, start + WINDOW * u32::try_from(n).expect("small"));
        }
        assert_eq!(drain.depth(1_000, 64, start + WINDOW * 4), 500, "100/s");
        drain.returned(1_000);
        assert_eq!(drain.depth(0, 64, start + WINDOW * 5), 500, "what went back into its line wasn't drained");
    }
}
