//! How many stories are told at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use curfew_book::BookError;

use crate::CourierError;

/// A bound that gives way: a book that is too far away or too busy for many stories within its answer time is told fewer, down to one, so that each
/// round that is answered leaves less to tell. Halved by each silence, doubled by each answer.
#[derive(Debug)]
pub struct Portion {
    now: AtomicUsize,
    most: usize,
}

impl Portion {
    /// Begins with `most` (from 1), which it never exceeds.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { now: AtomicUsize::new(most), most }
    }

    /// Stories to tell at once, 1 to the most.
    pub fn size(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// Learns from how a round ended, and hands that on. An error other than the book's silence tells nothing.
    ///
    /// # Errors
    /// The one that was given.
    pub fn learn<T>(&self, ended: Result<T, CourierError>) -> Result<T, CourierError> {
        let size = self.size();
        match &ended {
            Ok(_) => self.now.store((size * 2).min(self.most), Ordering::Relaxed),
            Err(CourierError::Book(BookError::Unavailable { .. })) => self.now.store((size / 2).max(1), Ordering::Relaxed),
            Err(_) => {}
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: BookError = BookError::Unavailable { operation: "tell stories" };

    #[test]
    fn a_silent_book_is_told_less_and_an_answering_one_more() {
        let portion = Portion::new(200);
        let mut sizes = Vec::new();
        for _ in 0..9 {
            sizes.push(portion.size());
            assert!(portion.learn::<()>(Err(SILENT.into())).is_err());
        }
        assert_eq!(sizes, [200, 100, 50, 25, 12, 6, 3, 1, 1]);
        for expected in [2, 4, 8, 16, 32, 64, 128, 200, 200] {
            assert_eq!(portion.learn(Ok(7)).ok(), Some(7));
            assert_eq!(portion.size(), expected);
        }
    }

    #[test]
    fn what_is_no_silence_of_the_book_changes_nothing() {
        let portion = Portion::new(8);
        assert!(portion.learn::<()>(Err(CourierError::Contended)).is_err());
        assert!(portion.learn::<()>(Err(BookError::NotFound.into())).is_err());
        assert_eq!(portion.size(), 8);
    }
}
