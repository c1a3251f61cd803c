//! What is decided about an item and its job before anything is written: pure, shared by every adapter (R3, R4, R5).

use curfew_book::{BookError, BookState, Row};
use curfew_domain::history::HistoryEntry;
use curfew_domain::limits::{DOUBT_REST, DOUBTS_MAX};
use curfew_domain::{Moment, Reason, State};

use crate::{Item, ItemStatus, Replay};

/// Refuses an item that isn't open, naming how it stands.
///
/// # Errors
/// `Conflict`.
pub fn open(item: &Item, wanted: &str) -> Result<(), BookError> {
    match item.status {
        ItemStatus::Open => Ok(()),
        ItemStatus::WaitingApproval | ItemStatus::Replaying | ItemStatus::Resolved | ItemStatus::Withdrawn => {
            Err(BookError::Conflict(format!("an item that is {} takes no {wanted}", item.status.word())))
        }
    }
}

/// Everything that must hold before the generation is raised.
///
/// # Errors
/// `Invalid` (actor, reason, deadline, risk), `Conflict` (another state or generation, a verb open, too many doubts), `NotYet` (a doubt rests).
pub fn check(item: &Item, row: &Row, replay: &Replay) -> Result<(), BookError> {
    if replay.actor.trim().is_empty() {
        return Err(BookError::Invalid { field: "actor", reason: "is empty".to_owned() });
    }
    if replay.reason.trim().is_empty() {
        return Err(BookError::Invalid { field: "reason", reason: "is empty".to_owned() });
    }
    if replay.deadline_at <= replay.at {
        return Err(BookError::Invalid { field: "deadline_at", reason: format!("is not after {}", replay.at) });
    }
    if row.state != BookState::DeadLetter || row.generation != item.generation {
        return Err(BookError::Conflict(format!(
            "the job is {} in generation {}: its dead letter isn't the item's",
            row.state.word(),
            row.generation
        )));
    }
    if let Some(number) = row.open_verb {
        return Err(BookError::Conflict(format!("verb {number} is open on the job")));
    }
    if row.doubt.is_none() && !item.in_doubt {
        return Ok(());
    }
    if !replay.accept_duplicate_risk {
        return Err(BookError::Invalid {
            field: "accept_duplicate_risk",
            reason: "nobody knows whether the mail was accepted; a replay may send it twice".to_owned(),
        });
    }
    let rested = item.lease_ended_at.unwrap_or(item.created_at).plus(DOUBT_REST);
    if replay.at < rested {
        return Err(BookError::NotYet(format!("a worker may still be at it: not before {rested}")));
    }
    if row.doubts.len() + row.window_doubts.len() + usize::from(row.doubt.is_some()) > DOUBTS_MAX {
        return Err(BookError::Conflict(format!("more than {DOUBTS_MAX} handoffs of this job are in doubt")));
    }
    Ok(())
}

/// The row in its next generation; whatever was in doubt goes with it.
pub fn raise(row: &mut Row, replay: &Replay, generation: u32) {
    let open: Vec<_> = row.window_doubts.drain(..).chain(row.doubt.take()).collect();
    for token in open {
        if !row.doubts.contains(&token) {
            row.doubts.push(token);
        }
    }
    row.state = BookState::Planned;
    row.generation = generation;
    row.seen = (generation, 0, 0);
    row.replays += 1;
    row.attempts = 0;
    row.reason = None;
    row.job.release_at = replay.at;
    row.job.deadline_at = replay.deadline_at;
}

/// A replay's arguments, as its audit entry holds them. The row is raised already.
pub fn replayed(row: &Row, replay: &Replay, over_a_doubt: bool) -> String {
    serde_json::json!({
        "key": row.job.key.as_str(),
        "generation": row.generation,
        "deadline_at": replay.deadline_at.rfc3339(),
        "content_revision": row.job.content_revision,
        "over_a_doubt": over_a_doubt,
    })
    .to_string()
}

/// A staged row whose record is gone: its job can't end by itself any more.
pub fn lost(row: &mut Row, at: Moment) {
    row.state = BookState::DeadLetter;
    row.reason = Some(Reason::LedgerRecordMissing);
    let (generation, detail) = (row.generation, "no record stands".to_owned());
    let entry =
        HistoryEntry { at, actor: "deadletter".to_owned(), from: None, to: State::DeadLetter, reason: row.reason, attempt: 0, generation, detail };
    row.history.push(entry.bounded());
}
