//! What each shard's ready queue has served: the evidence that an overdue job's wake-up was lost although others still wait there.
//!
//! A queue is served in its order. A job that has ended, and whose wake-up arrived there after another's, says that the other's is gone; a queue
//! that serves nothing says nothing, however long it stands. A wake-up arrives at its job's next time or, released after that, at its release;
//! of the latter one a second is remembered, so that a burst that was due at one moment tells too.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use curfew_domain::{Key, Moment, Shard};

/// Releases remembered per shard: some minutes of them.
const MARKS_MAX: usize = 256;
/// Between two of them.
const MARK_EVERY: Duration = Duration::from_secs(1);

/// Of every shard that this process leads; another leader begins with nothing and learns.
#[derive(Debug, Default)]
pub(crate) struct Served {
    shards: BTreeMap<Shard, Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// When the latest wake-up arrived of those whose jobs have ended.
    latest: Option<Moment>,
    /// Jobs released when they were due already, with that moment, oldest first.
    marks: VecDeque<(Key, Moment)>,
}

impl Served {
    /// A job that was due already was released at `at`.
    pub(crate) fn released(&mut self, shard: Shard, key: &Key, at: Moment) {
        let marks = &mut self.shards.entry(shard).or_default().marks;
        if marks.back().is_some_and(|(_, last)| at.since(*last) < MARK_EVERY) {
            return;
        }
        marks.push_back((key.clone(), at));
        if marks.len() > MARKS_MAX {
            marks.pop_front();
        }
    }

    /// A job that was due at `due` has ended.
    pub(crate) fn ended(&mut self, shard: Shard, key: &Key, due: Moment) {
        let queue = self.shards.entry(shard).or_default();
        let marked = queue.marks.iter().position(|(marked, _)| marked == key).and_then(|n| queue.marks.remove(n));
        let arrived = marked.map_or(due, |(_, at)| at.max(due));
        queue.latest = queue.latest.max(Some(arrived));
    }

    /// When the latest wake-up arrived that the shard's queue is known to have served.
    pub(crate) fn latest(&self, shard: Shard) -> Option<Moment> {
        self.shards.get(&shard)?.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: Shard = Shard(3);

    fn key(n: u32) -> Key {
        Key::from_parts("acme", "renewal", &format!("R-{n}"), "2026-12-01").expect("well formed")
    }

    fn at(s: i64) -> Moment {
        Moment::from_millis(s * 1_000)
    }

    #[test]
    fn what_ended_tells_when_its_wake_up_arrived_and_nothing_lowers_it() {
        let mut served = Served::default();
        assert_eq!(served.latest(SHARD), None);
        served.ended(SHARD, &key(1), at(10));
        served.ended(SHARD, &key(2), at(7));
        assert_eq!((served.latest(SHARD), served.latest(Shard(4))), (Some(at(10)), None));
    }

    /// A whole morning's mails are due at nine: by their next time alone none of them came after another.
    #[test]
    fn in_a_burst_the_moment_of_the_release_tells() {
        let mut served = Served::default();
        for n in 0..60 {
            served.released(SHARD, &key(n), at(900).plus(Duration::from_millis(u64::from(n) * 500)));
        }
        served.ended(SHARD, &key(40), at(900));
        assert_eq!(served.latest(SHARD), Some(at(920)), "one a second is remembered, this one too");
        served.ended(SHARD, &key(41), at(900));
        assert_eq!(served.latest(SHARD), Some(at(920)), "this one isn't, and its next time says less");
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut served = Served::default();
        for n in 0..1_000 {
            served.released(SHARD, &key(n), at(i64::from(n)));
        }
        assert_eq!(served.shards[&SHARD].marks.len(), MARKS_MAX);
    }
}
