//! How many attempts this worker ends in ten seconds: the best ten of the last hour, and the latest.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use curfew_book::Drain;
use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(10);
/// An hour of them.
const WINDOWS_KEPT: usize = 360;

/// Counts attempts as they end.
pub(crate) struct Meter(Mutex<State>);

struct State {
    from: Instant,
    count: u32,
    /// Of each whole window, the latest last.
    counts: VecDeque<u32>,
}

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(State { from: now, count: 0, counts: VecDeque::new() }))
    }

    /// An attempt ended.
    pub(crate) fn one(&self, now: Instant) {
        let mut state = self.0.lock().expect("no holder panics");
        state.turn(now);
        state.count += 1;
    }

    /// The best and the latest whole window; `None` until an attempt ended in one.
    pub(crate) fn measured(&self, now: Instant) -> Option<Drain> {
        let mut state = self.0.lock().expect("no holder panics");
        state.turn(now);
        let best = state.counts.iter().copied().max().filter(|best| *best > 0)?;
        Some(Drain { best, latest: state.counts.back().copied().unwrap_or(0) })
    }
}

impl State {
    fn turn(&mut self, now: Instant) {
        let passed = now.duration_since(self.from).as_secs() / WINDOW.as_secs();
        for window in 0..passed.min(WINDOWS_KEPT as u64) {
            self.counts.push_back(if window == 0 { self.count } else { 0 });
        }
        if passed > 0 {
            self.count = 0;
            self.from += WINDOW * u32::try_from(passed).unwrap_or(u32::MAX);
        }
        while self.counts.len() > WINDOWS_KEPT {
            self.counts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_an_hour_and_the_latest() {
        let began = Instant::now();
        let meter = Meter::new(began);
        let at = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(meter.measured(at(9)), None, "no window is whole");
        (0..50).for_each(|_| meter.one(at(3)));
        assert_eq!(meter.measured(at(9)), None);
        (0..20).for_each(|_| meter.one(at(12)));
        assert_eq!(meter.measured(at(20)), Some(Drain { best: 50, latest: 20 }));
        assert_eq!(meter.measured(at(300)), Some(Drain { best: 50, latest: 0 }), "silence is a measure too");
        assert_eq!(meter.measured(at(3_605)), Some(Drain { best: 50, latest: 0 }));
        assert_eq!(meter.measured(at(3_625)), None, "an hour later it is forgotten");
    }
}
