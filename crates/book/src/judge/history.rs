//! A row's story over its generations.

use curfew_domain::history::{HistoryEntry, fold};

/// The row's entries with the told ones: a newer telling of a generation replaces what it repeats, and nothing else is lost.
pub(super) fn merged(kept: &[HistoryEntry], told: &[HistoryEntry]) -> Vec<HistoryEntry> {
    let folded = |e: &HistoryEntry| e.detail.starts_with("folded ");
    // A folded telling counts what it left out; the entries behind that count must not be counted twice.
    let replaced: Vec<u32> = told.iter().filter(|e| folded(e)).map(|e| e.generation).collect();
    let mut all: Vec<HistoryEntry> = kept.iter().filter(|e| !told.contains(e) && !replaced.contains(&e.generation)).cloned().collect();
    all.extend_from_slice(told);
    all.sort_by_key(|e| (e.generation, e.at));
    fold(all)
}
