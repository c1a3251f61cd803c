//! How long this process has waited, by a clock that nobody sets: the node's may be set back in the middle, and the book may be away meanwhile.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use curfew_book::BookError;
use curfew_domain::Shard;
use tokio::time::Instant;

type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Kept by whoever looks, from look to look.
pub struct Patience {
    clock: Clock,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// Since when the book answers.
    book_since: Duration,
    /// Since when a shard was seen to recover in an incarnation.
    recovering: BTreeMap<Shard, (u32, Duration)>,
}

impl std::fmt::Debug for Patience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").finish_non_exhaustive()
    }
}

impl Default for Patience {
    fn default() -> Self {
        let start = Instant::now();
        Self::by(move || start.elapsed())
    }
}

impl Patience {
    /// By a clock that only goes forward.
    pub fn by(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let inside = Inside { book_since: clock(), ..Inside::default() };
        Self { clock: Box::new(clock), inside: Mutex::new(inside) }
    }

    /// How long a shard has been seen to recover in that incarnation.
    pub(super) fn recovering(&self, shard: Shard, incarnation: u32) -> Duration {
        let now = (self.clock)();
        let mut inside = self.lock();
        let seen = inside.recovering.entry(shard).or_insert((incarnation, now));
        if seen.0 != incarnation {
            *seen = (incarnation, now);
        }
        now.saturating_sub(seen.1)
    }

    /// How long the book has answered.
    pub(super) fn book_answers(&self) -> Duration {
        (self.clock)().saturating_sub(self.lock().book_since)
    }

    /// The book didn't answer, or not as it should.
    pub(super) fn book_failed(&self, error: &BookError) {
        // That is an answer.
        if !matches!(error, BookError::OtherIncarnation) {
            self.lock().book_since = (self.clock)();
        }
    }

    /// The shard recovers no more.
    pub(super) fn works(&self, shard: Shard) {
        self.lock().recovering.remove(&shard);
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn each_incarnation_and_each_error_of_the_book_begins_anew() {
        let clock = Arc::new(AtomicU64::new(100));
        let seen = Arc::clone(&clock);
        let patience = Patience::by(move || Duration::from_secs(seen.load(Ordering::SeqCst)));
        let after = |seconds: u64| clock.fetch_add(seconds, Ordering::SeqCst);
        assert_eq!(patience.recovering(Shard(1), 4), Duration::ZERO);
        after(20);
        assert_eq!((patience.recovering(Shard(1), 4), patience.book_answers()), (Duration::from_secs(20), Duration::from_secs(20)));
        patience.book_failed(&BookError::OtherIncarnation);
        assert_eq!(patience.book_answers(), Duration::from_secs(20), "that is an answer");
        patience.book_failed(&BookError::Unavailable { operation: "read" });
        assert_eq!(patience.book_answers(), Duration::ZERO);
        assert_eq!(patience.recovering(Shard(1), 5), Duration::ZERO);
        after(3);
        patience.works(Shard(1));
        assert_eq!((patience.recovering(Shard(1), 5), patience.book_answers()), (Duration::ZERO, Duration::from_secs(3)));
    }
}
