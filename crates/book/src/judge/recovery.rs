//! What recovery asks of a row.

use std::collections::BTreeMap;

use curfew_domain::history::HistoryEntry;
use curfew_domain::{Moment, Shard, State};

use crate::{BookError, BookState, Mark, Row, Story};

/// Whether a staged row is taken back: planned in its next generation, for its record was lost before its release.
pub fn take_back(row: &mut Row, mark: &Mark, at: Moment) -> bool {
    if row.state != BookState::Staged || row.generation != mark.generation {
        return false;
    }
    row.state = BookState::Planned;
    row.generation += 1;
    row.seen = (row.generation, 0, 0);
    let entry = HistoryEntry {
        at,
        actor: "scheduler".to_owned(),
        from: None,
        to: State::Scheduled,
        reason: None,
        attempt: 0,
        generation: mark.generation,
        detail: "recovery: lost before its release; staged again".to_owned(),
    };
    row.history = super::history::merged(&row.history, &[entry.bounded()]);
    true
}

/// The incarnations in which the errands of a transaction began, the oldest of each shard.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BegunIn(pub BTreeMap<Shard, u32>);

impl BegunIn {
    /// Of errands by their shards.
    pub fn of(pairs: impl Iterator<Item = (Shard, u32)>) -> Self {
        let mut all = Self::default();
        for (shard, incarnation) in pairs {
            let oldest = all.0.entry(shard).or_insert(incarnation);
            *oldest = incarnation.min(*oldest);
        }
        all
    }

    /// Of what the ledger tells.
    pub fn of_stories(stories: &[Story]) -> Self {
        Self::of(stories.iter().map(|story| (story.record.shard, story.record.incarnation)))
    }

    /// Of what was staged.
    pub fn of_marks(marks: &[Mark]) -> Self {
        Self::of(marks.iter().map(|mark| (mark.shard, mark.incarnation)))
    }

    /// Refuses errands of before, by the incarnation that stands.
    ///
    /// # Errors
    /// `OtherIncarnation`.
    pub fn check(&self, shard: Shard, stands: u32) -> Result<(), BookError> {
        if self.0.get(&shard).is_some_and(|begun| *begun < stands) { Err(BookError::OtherIncarnation) } else { Ok(()) }
    }
}
