//! A replay: one transaction in the book alone (R3, R4, R5). Staging does the rest, whatever crashes.

use curfew_book::sql::items::note;
use curfew_book::sql::{Halt, Locked, audit, save_rows, write};
use curfew_book::{BookError, BookState};
use curfew_domain::limits::{DOUBT_REST, DOUBTS_MAX};
use curfew_store::{Durability, Queue, Sqlite, StoreError};
use sqlx::SqliteConnection;

use super::items::{LockedItem, lock};
use crate::{Replay, Replayed, ReviewError};

pub(super) async fn replay(store: &Sqlite, replay: Replay) -> Result<Replayed, ReviewError> {
    write(store, Queue::Ledger, Durability::Disk, "replay", move |conn| Box::pin(replayed(conn, replay))).await
}

async fn replayed(conn: &mut SqliteConnection, replay: Replay) -> Result<Replayed, Halt> {
    let item = lock(conn, replay.item).await?.open("replay")?;
    let mut locked = item.row(conn).await?.ok_or_else(|| BookError::Conflict("the item names no job that could run again".to_owned()))?;
    check(&item, &locked, &replay)?;
    let generation = locked.row.generation + 1;
    if replay.dry_run {
        return Ok(Replayed { row: locked.row, generation });
    }
    let over_a_doubt = locked.row.doubt.is_some() || item.item.in_doubt;
    raise(&mut locked, &replay, generation);
    save_rows(conn, &[&locked]).await?;
    sqlx::query(include_str!("queries/replaying.sql")).bind(item.n).execute(&mut *conn).await.map_err(StoreError::during("replay"))?;
    note(conn, item.n, replay.at, &replay.actor, &format!("replayed as generation {generation}: {}", replay.reason)).await?;
    let object = replay.item.hyphenated().to_string();
    let detail = serde_json::json!({
        "key": locked.row.job.key.as_str(),
        "generation": generation,
        "deadline_at": replay.deadline_at.rfc3339(),
        "content_revision": locked.row.job.content_revision,
        "over_a_doubt": over_a_doubt,
    })
    .to_string();
    let entry = audit::Entry { at: replay.at, actor: &replay.actor, action: "replay", object: &object, reason: &replay.reason, detail: &detail };
    audit::append(conn, entry).await?;
    Ok(Replayed { row: locked.row, generation })
}

/// Everything that must hold before the generation is raised.
fn check(item: &LockedItem, locked: &Locked, replay: &Replay) -> Result<(), BookError> {
    let row = &locked.row;
    if replay.actor.trim().is_empty() {
        return Err(BookError::Invalid { field: "actor", reason: "is empty".to_owned() });
    }
    if replay.reason.trim().is_empty() {
        return Err(BookError::Invalid { field: "reason", reason: "is empty".to_owned() });
    }
    if replay.deadline_at <= replay.at {
        return Err(BookError::Invalid { field: "deadline_at", reason: format!("is not after {}", replay.at) });
    }
    if row.state != BookState::DeadLetter || row.generation != item.item.generation {
        return Err(BookError::Conflict(format!(
            "the job is {} in generation {}: its dead letter isn't the item's",
            row.state.word(),
            row.generation
        )));
    }
    if let Some(number) = row.open_verb {
        return Err(BookError::Conflict(format!("verb {number} is open on the job")));
    }
    if row.doubt.is_none() && !item.item.in_doubt {
        return Ok(());
    }
    if !replay.accept_duplicate_risk {
        return Err(BookError::Invalid {
            field: "accept_duplicate_risk",
            reason: "nobody knows whether the mail was accepted; a replay may send it twice".to_owned(),
        });
    }
    let rested = item.item.lease_ended_at.unwrap_or(item.item.created_at).plus(DOUBT_REST);
    if replay.at < rested {
        return Err(BookError::NotYet(format!("a worker may still be at it: not before {rested}")));
    }
    if row.doubts.len() + row.window_doubts.len() + usize::from(row.doubt.is_some()) > DOUBTS_MAX {
        return Err(BookError::Conflict(format!("more than {DOUBTS_MAX} handoffs of this job are in doubt")));
    }
    Ok(())
}

/// The row in its next generation; whatever was in doubt goes with it.
fn raise(locked: &mut Locked, replay: &Replay, generation: u32) {
    let row = &mut locked.row;
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
