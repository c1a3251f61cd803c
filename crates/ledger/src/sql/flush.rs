//! Writing: one statement per kind of change, however many rows.
//!
//! Numbers and words travel as one JSON array, bytes as one BLOB beside it that the rows point into (`substr` counts from 1).

use std::collections::HashMap;
use std::time::Duration;

use curfew_domain::history::{HistoryEntry, fold};
use curfew_domain::limits::HISTORY_ENTRIES_MAX;
use curfew_domain::{Key, Moment, form, rung};
use curfew_store::{Durability, Queue, Sqlite, StoreError};
use serde::Serialize;
use sqlx::SqliteConnection;

use super::failed;
use super::round::{LetterChange, Row, Written};
use crate::LedgerError;

const INSERT_RECORDS: &str = include_str!("queries/insert_records.sql");
const UPDATE_RECORDS: &str = include_str!("queries/update_records.sql");
const INSERT_HISTORY: &str = include_str!("queries/insert_history.sql");
const READ_HISTORY: &str = include_str!("queries/read_history.sql");
const DELETE_HISTORY: &str = include_str!("queries/delete_history.sql");
const INSERT_LETTERS: &str = include_str!("queries/insert_letters.sql");
const DELETE_LETTERS: &str = include_str!("queries/delete_letters.sql");
const EXPIRE: &str = include_str!("queries/expire.sql");

/// A parameter for `json_each`.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("numbers and words always serialise")
}

/// Bytes of many rows, one after the other.
#[derive(Default)]
pub(super) struct Heap(Vec<u8>);

impl Heap {
    /// The place and the length, as `substr` takes them.
    pub(super) fn push(&mut self, bytes: &[u8]) -> (usize, usize) {
        let place = self.0.len() + 1;
        self.0.extend_from_slice(bytes);
        (place, bytes.len())
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// A row of `update_records.sql`; with key, shard and tenant behind it, of `insert_records.sql`.
type Columns<'a> = (i64, u32, u64, &'a str, i64, Option<&'a str>, Option<i64>, Option<i64>, Option<i64>, i64, usize, usize);
type Fresh<'a> = (i64, u32, u64, &'a str, i64, Option<&'a str>, Option<i64>, Option<i64>, Option<i64>, i64, usize, usize, &'a str, u8, &'a str);

/// Writes what a round changed.
pub(super) async fn write(conn: &mut SqliteConnection, rows: &HashMap<Key, Row>, horizon: Duration, now: Moment) -> Result<(), StoreError> {
    let mut changed: Vec<(&Row, &Written)> = rows.values().filter_map(|row| row.written.as_ref().map(|written| (row, written))).collect();
    // In the order of the table, so that neighbouring rows share a page while it is at hand.
    changed.sort_unstable_by_key(|(row, _)| row.id);
    let (fresh, old): (Vec<_>, Vec<_>) = changed.iter().partition(|(_, written)| written.fresh);
    insert_records(conn, &fresh, horizon, now).await?;
    update_records(conn, &old, horizon, now).await?;
    delete(conn, DELETE_HISTORY, changed.iter().filter(|(_, written)| written.trimmed && !written.fresh).map(|(row, _)| row.id)).await?;
    insert_history(conn, &changed).await?;
    let ended = changed.iter().filter(|(_, written)| !written.fresh && matches!(written.letter, LetterChange::Delete));
    delete(conn, DELETE_LETTERS, ended.map(|(row, _)| row.id)).await?;
    insert_letters(conn, &changed).await?;
    for (row, written) in changed {
        let long = written.entries.iter().any(|(n, _)| *n as usize >= 2 * HISTORY_ENTRIES_MAX && (*n as usize).is_multiple_of(HISTORY_ENTRIES_MAX));
        if long {
            fold_history(conn, row.id).await?;
        }
    }
    Ok(())
}

fn columns<'a>(row: &Row, written: &'a Written, heap: &mut Heap, horizon: Duration, now: Moment) -> Columns<'a> {
    let next = &written.next;
    let (place, length) = heap.push(&next.bytes);
    let line_at = next.line.map(|due| rung::line_at(due, now, horizon).as_millis());
    let (index, timer_at) = next.timer.map(|timer| (timer.index.word(), timer.at.as_millis())).unzip();
    let standing = next.standing;
    let expires_at = next.expires_at.map(Moment::as_millis);
    (
        row.id,
        next.generation,
        next.version,
        standing.state.word(),
        standing.due.as_millis(),
        index,
        timer_at,
        line_at,
        expires_at,
        row.entries,
        place,
        length,
    )
}

async fn update_records(conn: &mut SqliteConnection, changed: &[(&Row, &Written)], horizon: Duration, now: Moment) -> Result<(), StoreError> {
    if changed.is_empty() {
        return Ok(());
    }
    let mut heap = Heap::default();
    let all: Vec<_> = changed.iter().map(|(row, written)| columns(row, written, &mut heap, horizon, now)).collect();
    run(conn, UPDATE_RECORDS, json(&all), Some(heap), "update records").await
}

async fn insert_records(conn: &mut SqliteConnection, fresh: &[(&Row, &Written)], horizon: Duration, now: Moment) -> Result<(), StoreError> {
    if fresh.is_empty() {
        return Ok(());
    }
    let mut heap = Heap::default();
    let all = fresh.iter().map(|(row, written)| {
        let (id, generation, version, state, due, index, timer, line, expires, entries, place, length) =
            columns(row, written, &mut heap, horizon, now);
        let next = &written.next;
        let rest = (next.key.as_str(), next.shard.0, next.key.tenant());
        (id, generation, version, state, due, index, timer, line, expires, entries, place, length, rest.0, rest.1, rest.2)
    });
    let all: Vec<Fresh<'_>> = all.collect();
    run(conn, INSERT_RECORDS, json(&all), Some(heap), "insert records").await
}

async fn insert_history(conn: &mut SqliteConnection, changed: &[(&Row, &Written)]) -> Result<(), StoreError> {
    let mut heap = Heap::default();
    let mut all = Vec::new();
    for (row, written) in changed {
        for (n, entry) in &written.entries {
            let (place, length) = heap.push(entry);
            all.push((row.id, *n, place, length));
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    run(conn, INSERT_HISTORY, json(&all), Some(heap), "insert history").await
}

async fn insert_letters(conn: &mut SqliteConnection, changed: &[(&Row, &Written)]) -> Result<(), StoreError> {
    let mut heap = Heap::default();
    let mut all = Vec::new();
    for (row, written) in changed {
        match &written.letter {
            LetterChange::Put(letter) => {
                let (place, length) = heap.push(letter.as_bytes());
                all.push((row.id, place, length));
            }
            LetterChange::None | LetterChange::Delete => {}
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    run(conn, INSERT_LETTERS, json(&all), Some(heap), "insert letters").await
}

async fn delete(conn: &mut SqliteConnection, sql: &'static str, ids: impl Iterator<Item = i64>) -> Result<(), StoreError> {
    let ids: Vec<i64> = ids.collect();
    if ids.is_empty() {
        return Ok(());
    }
    run(conn, sql, json(&ids), None, "delete what ended").await
}

pub(super) async fn run(
    conn: &mut SqliteConnection,
    sql: &'static str,
    rows: String,
    heap: Option<Heap>,
    operation: &'static str,
) -> Result<(), StoreError> {
    let query = sqlx::query(sql).bind(rows);
    let query = match heap {
        Some(heap) => query.bind(heap.into_bytes()),
        None => query,
    };
    query.execute(conn).await.map(drop).map_err(StoreError::during(operation))
}

/// Keeps a long story to its bound. Rare: after each 64 entries beyond the first 64.
async fn fold_history(conn: &mut SqliteConnection, id: i64) -> Result<(), StoreError> {
    let stored: Vec<(i64, Vec<u8>)> =
        sqlx::query_as(READ_HISTORY).bind(id).fetch_all(&mut *conn).await.map_err(StoreError::during("read a history"))?;
    let entries: Result<Vec<HistoryEntry>, _> = stored.iter().map(|(_, entry)| rmp_serde::from_slice(entry)).collect();
    // What can't be read is left as it is: a reader will say so.
    let Ok(entries) = entries else { return Ok(()) };
    let folded = fold(entries);
    let mut heap = Heap::default();
    // The latest numbers, so that the next entry's number is free.
    let numbers = stored[stored.len() - folded.len()..].iter().map(|(n, _)| *n);
    let all = numbers.zip(&folded).map(|(n, entry)| {
        let (place, length) = heap.push(&form::encode(entry));
        (id, n, place, length)
    });
    let all: Vec<_> = all.collect();
    delete(conn, DELETE_HISTORY, [id].into_iter()).await?;
    run(conn, INSERT_HISTORY, json(&all), Some(heap), "fold a history").await
}

/// Moves timers or places in line on.
pub(super) async fn move_on(store: &Sqlite, sql: &'static str, moves: &[(Key, u64, Moment)], operation: &'static str) -> Result<(), LedgerError> {
    if moves.is_empty() {
        return Ok(());
    }
    let all: Vec<_> = moves.iter().map(|(key, version, at)| (key, version, at.as_millis())).collect();
    let all = json(&all);
    let moved = store.write(Queue::Ledger, Durability::Process, move |conn| Box::pin(run(conn, sql, all, None, operation)));
    moved.await.map_err(failed(operation))
}

/// Deletes tombstones whose time is over, with what stands beside them.
pub(super) async fn expire(store: &Sqlite, now: Moment, limit: usize) -> Result<u64, LedgerError> {
    let limit = i64::try_from(limit.min(curfew_store::BULK_ROWS_MAX)).unwrap_or(i64::MAX);
    let expired = store.write(Queue::Bulk, Durability::Process, move |conn| {
        Box::pin(async move {
            let query = sqlx::query_scalar(EXPIRE).bind(now.as_millis()).bind(limit);
            let ids: Vec<i64> = query.fetch_all(&mut *conn).await.map_err(StoreError::during("expire"))?;
            delete(&mut *conn, DELETE_HISTORY, ids.iter().copied()).await?;
            delete(&mut *conn, DELETE_LETTERS, ids.iter().copied()).await?;
            Ok(ids.len() as u64)
        })
    });
    expired.await.map_err(failed("expire"))
}
