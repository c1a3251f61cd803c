//! A job's story, one short line per attempt and per verb, kept beside the record and flushed to the book at settle.

use serde::{Deserialize, Serialize};

use crate::limits::{HISTORY_ENTRIES_MAX, HISTORY_ENTRY_BYTES_MAX};
use crate::{Moment, Reason, State};

/// One line of a job's story.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// By the ledger's clock.
    pub at: Moment,
    /// `scheduler`, `worker`, `deadletter`, `provider`, or an operator's name.
    pub actor: String,
    /// The state before; `None` at the creation.
    pub from: Option<State>,
    /// The state after.
    pub to: State,
    /// Why.
    pub reason: Option<Reason>,
    /// The attempt it speaks of, counted from 1; 0 where it speaks of none.
    pub attempt: u32,
    /// The generation it belongs to.
    #[serde(default)]
    pub generation: u32,
    /// A few words, redacted, cut so that the entry keeps to 120 bytes.
    pub detail: String,
}

/// The moment, attempt and generation at their longest, and the lengths in front of the texts.
const NUMBERS_BYTES_MAX: usize = 28;
/// What an actor's name may take of an entry.
const ACTOR_BYTES_MAX: usize = 40;

impl HistoryEntry {
    /// Cuts the detail so that the whole entry keeps its bound, field names not counted.
    pub fn bounded(mut self) -> Self {
        let words = self.from.map_or(0, |s| s.word().len()) + self.to.word().len() + self.reason.map_or(0, |r| r.word().len());
        let rest = HISTORY_ENTRY_BYTES_MAX.saturating_sub(NUMBERS_BYTES_MAX + words);
        cut(&mut self.actor, ACTOR_BYTES_MAX.min(rest));
        cut(&mut self.detail, rest - self.actor.len());
        self
    }
}

/// Cuts a text to at most `bytes_max` bytes, on a character's edge.
pub fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let edge = (0..=bytes_max).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(edge);
    }
}

/// Folds the middle of a long history: the first and the latest entries stay, what lay between becomes a count in one detail.
pub fn fold(mut entries: Vec<HistoryEntry>) -> Vec<HistoryEntry> {
    if entries.len() <= HISTORY_ENTRIES_MAX {
        return entries;
    }
    let keep_first = HISTORY_ENTRIES_MAX / 2;
    let surplus = entries.len() - HISTORY_ENTRIES_MAX + 1;
    let before: usize = entries[keep_first..keep_first + surplus]
        .iter()
        .map(|e| e.detail.strip_prefix("folded ").and_then(|n| n.parse().ok()).unwrap_or(1_usize))
        .fold(0, usize::saturating_add);
    let mut folded = entries[keep_first + surplus - 1].clone();
    folded.detail = format!("folded {before}");
    entries.splice(keep_first..keep_first + surplus, [folded]);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_its_bound_whatever_it_says() {
        let entry = HistoryEntry {
            at: Moment::from_millis(i64::MAX),
            actor: "ä".repeat(100),
            from: Some(State::DeadLetter),
            to: State::DeadLetter,
            reason: Some(Reason::BusinessDeadlineReached),
            attempt: u32::MAX,
            generation: u32::MAX,
            detail: "ö".repeat(100),
        };
        for reason in Reason::ALL.iter().map(|r| Some(*r)).chain([None]) {
            let bounded = HistoryEntry { reason, ..entry.clone() }.bounded();
            let bytes = rmp_serde::to_vec(&bounded).unwrap().len();
            assert!(bytes <= HISTORY_ENTRY_BYTES_MAX, "{bytes} bytes: {bounded:?}");
        }
    }

    #[test]
    fn a_long_history_keeps_its_ends_and_counts_its_middle() {
        let mut entries = Vec::new();
        for n in 0..200_i64 {
            entries.push(HistoryEntry {
                at: Moment::from_millis(n),
                actor: "worker".into(),
                from: None,
                to: State::Scheduled,
                reason: None,
                attempt: 0,
                generation: 1,
                detail: String::new(),
            });
            entries = fold(entries);
        }
        assert_eq!(entries.len(), HISTORY_ENTRIES_MAX);
        assert_eq!((entries[0].at.as_millis(), entries[63].at.as_millis()), (0, 199));
        assert_eq!(entries[32].detail, format!("folded {}", 200 - 63));
    }

    /// Found by fuzzing: an entry whose count stood at its end broke every reading of its history.
    #[test]
    fn a_count_at_its_end_stays_there() {
        let entry = HistoryEntry {
            at: Moment::default(),
            actor: "worker".into(),
            from: None,
            to: State::Scheduled,
            reason: None,
            attempt: 0,
            generation: 1,
            detail: format!("folded {}", usize::MAX),
        };
        assert_eq!(fold(vec![entry; 100])[32].detail, format!("folded {}", usize::MAX));
    }
}
