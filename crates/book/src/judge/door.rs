//! What the door makes of a job: a row, a duplicate, a conflict (K1).

use std::collections::BTreeMap;

use curfew_domain::history::HistoryEntry;
use curfew_domain::job::Job;
use curfew_domain::{Reason, State};

use crate::{Accepted, BookState, Door, Row};

/// A row as the door makes it.
pub fn fresh(job: Job) -> Row {
    Row {
        job,
        state: BookState::Planned,
        generation: 1,
        seen: (1, 0, 0),
        ever_staged: false,
        replays: 0,
        attempts: 0,
        last: None,
        reason: None,
        receipt: None,
        doubt: None,
        window_doubts: Vec::new(),
        doubts: Vec::new(),
        pins: Vec::new(),
        open_verb: None,
        history: Vec::new(),
    }
}

/// A recipient on a suppressions list: accepted, and ended at once.
pub fn end_as_suppressed(row: &mut Row, door: &Door) {
    row.state = BookState::Suppressed;
    row.reason = Some(Reason::SuppressionList);
    let detail = "on the suppressions list".to_owned();
    let entry = HistoryEntry {
        at: door.at,
        actor: door.actor.clone(),
        from: None,
        to: State::Suppressed,
        reason: row.reason,
        attempt: 0,
        generation: 1,
        detail,
    };
    row.history.push(entry.bounded());
}

/// The same key again: by its fingerprints the same job, or another.
pub fn repeated(job: &Job, stands: &Row) -> Accepted {
    let differing = differing(&stands.job.fingerprints, &job.fingerprints);
    if differing.is_empty() { Accepted::Duplicate(Box::new(stands.clone())) } else { Accepted::Conflict(stands.job.id, differing) }
}

fn differing(stands: &BTreeMap<String, String>, given: &BTreeMap<String, String>) -> Vec<String> {
    let mut fields: Vec<String> = stands.keys().chain(given.keys()).filter(|field| stands.get(*field) != given.get(*field)).cloned().collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// A business date without its slot: days are counted by it.
pub fn date(business_date: &str) -> &str {
    business_date.get(..10).unwrap_or(business_date)
}
