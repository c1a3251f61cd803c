//! A clock that stands still until a test moves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Unix time in milliseconds, set by hand. Clones share one time.
#[derive(Debug, Clone)]
pub struct HandClock {
    now_ms: Arc<AtomicI64>,
}

impl HandClock {
    /// A clock that shows `now_ms`.
    pub fn at(now_ms: i64) -> Self {
        Self { now_ms: Arc::new(AtomicI64::new(now_ms)) }
    }

    /// What the clock shows, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    /// Moves the clock forward, in whole milliseconds (less than one is dropped), and returns the new time.
    pub fn advance(&self, by: Duration) -> i64 {
        let by = i64::try_from(by.as_millis()).expect("a test moves its clock by less than 292 million years");
        self.now_ms.fetch_add(by, Ordering::SeqCst) + by
    }

    /// Sets the clock, backwards too: clocks do that.
    pub fn set(&self, now_ms: i64) {
        self.now_ms.store(now_ms, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_show_one_time_and_it_moves_by_hand_alone() {
        let clock = HandClock::at(1_000);
        let other = clock.clone();
        assert_eq!(clock.advance(Duration::from_secs(2)), 3_000);
        assert_eq!(other.now_ms(), 3_000);
        other.set(500);
        assert_eq!(clock.now_ms(), 500);
    }
}
