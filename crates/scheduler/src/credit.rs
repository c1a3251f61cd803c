//! How much may stand in a ready queue: what the shard drains in 5 s, by the best 10-second mean of the last 10 minutes.

use std::collections::VecDeque;
use std::time::Duration;

use curfew_domain::transition::Counter;
use curfew_domain::{Moment, State};
use tokio::time::Instant;

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

    /// How many may stand there; `queued` do, `due` of them at their moment, the rest on a rung.
    pub(crate) fn depth(&mut self, queued: u64, due: u64, concurrency: u32, now: Instant) -> usize {
        let drained = self.released.saturating_sub(queued);
        let passed = now.duration_since(self.window_from);
        if passed >= WINDOW {
            let left = drained.saturating_sub(self.drained_at_from);
            // A quiet window measures nothing: how fast a shard drains shows only where something waits, and what is on a rung doesn't yet.
            if left > 0 || due > 0 {
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

/// What one shard's queue has room for: as much for what is due, and as much for all that is on a rung, by the second of its next time.
/// Counted together, a burst that is ahead would take the room of what is due now.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    depth: u64,
    now: i64,
    due: u64,
    ahead: u64,
}

impl Room {
    /// The counters it is made from: all that is queued, then each second ahead that a rung can reach.
    pub(crate) fn counters(now: Moment, horizon: Duration) -> Vec<Counter> {
        let ahead = (1..=horizon.as_secs().cast_signed() + 1).map(|n| Counter::QueuedSecond(second(now) + n));
        std::iter::once(Counter::State(State::Queued)).chain(ahead).collect()
    }

    /// From those counters' values; what stands there by no second ahead is due. Its depth is set later.
    pub(crate) fn new(now: Moment, counts: &[u64]) -> Self {
        let (queued, ahead) = counts.split_first().map_or((0, &[][..]), |(queued, ahead)| (*queued, ahead));
        let ahead = ahead.iter().sum();
        Self { depth: 0, now: second(now), due: queued.saturating_sub(ahead), ahead }
    }

    pub(crate) fn with_depth(self, depth: usize) -> Self {
        Self { depth: depth as u64, ..self }
    }

    /// What stands there at its moment.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Whether something that is due fits.
    pub(crate) fn is_full(&self) -> bool {
        self.due >= self.depth
    }

    /// Takes a place for a job due at `due`, if there is one.
    pub(crate) fn take(&mut self, due: Moment) -> bool {
        let stands = if second(due) <= self.now { &mut self.due } else { &mut self.ahead };
        let fits = *stands < self.depth;
        *stands += u64::from(fits);
        fits
    }
}

fn second(at: Moment) -> i64 {
    at.as_millis().div_euclid(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_night_measures_nothing() {
        let start = Instant::now();
        let mut drain = Drain::new(0, start);
        for n in 1..=100 {
            assert_eq!(drain.depth(0, 0, 64, start + WINDOW * n), 5_000);
        }
    }

    #[test]
    fn a_slow_shard_gets_a_shallow_queue_but_never_less_than_twice_the_concurrency() {
        let start = Instant::now();
        let mut drain = Drain::new(0, start);
        assert_eq!(drain.depth(0, 0, 64, start), 5_000);
        drain.released(5_000);
        for n in 1..=20 {
            drain.depth(5_000 - n * 100, 5_000 - n * 100, 64, start + WINDOW * u32::try_from(n).expect("small"));
        }
        assert_eq!(drain.depth(2_900, 2_900, 64, start + WINDOW * 21), 128, "10/s drain in 5 s is under twice the concurrency");
    }

    #[test]
    fn what_stood_there_at_the_start_drains_like_what_was_released_since() {
        let start = Instant::now();
        let mut drain = Drain::new(5_000, start);
        for n in 0..=4 {
            drain.depth(5_000 - n * 1_000, 5_000 - n * 1_000, 64, start + WINDOW * u32::try_from(n).expect("small"));
        }
        assert_eq!(drain.depth(1_000, 1_000, 64, start + WINDOW * 4), 500, "100/s");
        drain.returned(1_000);
        assert_eq!(drain.depth(0, 0, 64, start + WINDOW * 5), 500, "what went back into its line wasn't drained");
    }

    /// Three thousand mails for nine o'clock, put on their rungs half a minute before, kept a mail that was due at once waiting for them, and
    /// passed for a shard that drains nothing.
    #[test]
    fn what_is_on_a_rung_takes_no_room_from_what_is_due() {
        let now = Moment::from_millis(1_000_500);
        let counters = Room::counters(now, Duration::from_secs(32));
        assert_eq!(counters[..2], [Counter::State(State::Queued), Counter::QueuedSecond(1_001)]);
        assert_eq!(counters.last(), Some(&Counter::QueuedSecond(1_033)));
        let mut counts = vec![0; counters.len()];
        (counts[0], counts[32]) = (110, 100);
        let mut room = Room::new(now, &counts).with_depth(100);
        assert_eq!((room.due(), room.is_full()), (10, false));
        assert!(!room.take(now.plus(Duration::from_secs(31))), "the rungs have theirs");
        assert!((0..90).all(|_| room.take(now)), "what is due has its own");
        assert!(room.is_full() && !room.take(now));
        let start = Instant::now();
        let mut drain = Drain::new(0, start);
        drain.released(5_000);
        for n in 1..=3 {
            assert_eq!(drain.depth(5_000, 0, 64, start + WINDOW * n), 5_000, "nothing was due, nothing is measured");
        }
    }
}
