//! The start: what memory is rebuilt from, what a dead process left, and what an auditor puts back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use curfew_domain::transition::timer;
use curfew_domain::{Key, Moment, Record, State, form, rung};
use curfew_store::{Durability, Queue, Sqlite, StoreError};
use sqlx::SqliteConnection;

use super::counters::{Counters, tally};
use super::flush::{Heap, json, run};
use super::read::during;
use super::{Memory, Options, failed, hold, suppressions};
use crate::LedgerError;

const NEXT_ID: &str = include_str!("queries/next_id.sql");
const LEASES: &str = include_str!("queries/leases.sql");
const END_LEASES: &str = include_str!("queries/end_leases.sql");
const RELEASE_QUEUED: &str = include_str!("queries/release_queued.sql");
const TIMER_OF: &str = include_str!("queries/timer_of.sql");
const RESTORE_TIMER: &str = include_str!("queries/restore_timer.sql");

/// Leases ended in one transaction.
const LEASES_PER_WRITE: i64 = 500;

/// Counts all that stands and reads the suppressions.
pub(super) async fn memory(store: &Sqlite, options: Options) -> Result<Arc<Memory>, LedgerError> {
    let suppressions = suppressions::load(store).await?;
    let holds = hold::load(store).await?;
    let counted = store.write(Queue::Ledger, Durability::Process, |conn| {
        Box::pin(async move {
            let next_id: i64 = sqlx::query_scalar(NEXT_ID).fetch_one(&mut *conn).await.map_err(StoreError::during("open"))?;
            Ok(Counters::new(tally(conn, None).await?, next_id))
        })
    });
    let counters = counted.await.map_err(failed("open"))?;
    Ok(Arc::new(Memory { options, counters: Mutex::new(counters), suppressions: Mutex::new(suppressions), holds: Mutex::new(holds) }))
}

pub(super) async fn take_over(store: &Sqlite, now: Moment) -> Result<u64, LedgerError> {
    let (mut ended, mut after) = (0, 0);
    loop {
        let part = store.write(Queue::Ledger, Durability::Process, move |conn| Box::pin(end_leases(conn, now, after)));
        let (count, last) = part.await.map_err(failed("take over"))?;
        ended += count;
        match last {
            Some(id) => after = id,
            None => break,
        }
    }
    let released = store.write(Queue::Ledger, Durability::Disk, move |conn| {
        Box::pin(async move {
            let query = sqlx::query(RELEASE_QUEUED).bind(now.as_millis());
            query.execute(conn).await.map(drop).map_err(StoreError::during("take over"))
        })
    });
    released.await.map_err(failed("take over"))?;
    Ok(ended)
}

/// Ends the next leases; how many, and the last id looked at. The record itself says so, in a version of its own: bytes never change
/// under a version, and nobody else is left to be fenced.
async fn end_leases(conn: &mut SqliteConnection, now: Moment, after: i64) -> Result<(u64, Option<i64>), StoreError> {
    let query = sqlx::query_as(LEASES).bind(after).bind(LEASES_PER_WRITE);
    let found: Vec<(i64, Vec<u8>)> = query.fetch_all(&mut *conn).await.map_err(StoreError::during("take over"))?;
    let mut heap = Heap::default();
    let mut ended = Vec::new();
    for (id, bytes) in &found {
        // What a newer process wrote is its own to take over.
        let Ok(mut record) = form::decode::<Record>(bytes) else { continue };
        if record.lease_until.is_some_and(|until| until <= now) {
            continue;
        }
        record.lease_until = Some(now);
        record.version += 1;
        let (place, length) = heap.push(&form::encode(&record));
        ended.push((*id, record.version, now.as_millis(), place, length));
    }
    if !ended.is_empty() {
        run(conn, END_LEASES, json(&ended), Some(heap), "take over").await?;
    }
    Ok((ended.len() as u64, found.last().map(|(id, _)| *id)))
}

/// Puts back a timer or a place in line that isn't there, as the record's state asks for it. The version decides whether it still applies.
pub(super) async fn restore_timer(store: &Sqlite, memory: &Memory, key: &Key) -> Result<bool, LedgerError> {
    let found: Option<(Vec<u8>, Option<i64>, Option<i64>)> =
        sqlx::query_as(TIMER_OF).bind(key.as_str()).fetch_optional(store.read()).await.map_err(during("restore timer"))?;
    let Some((bytes, timer_at, line_at)) = found else { return Ok(false) };
    let record: Record = form::decode(&bytes)?;
    let now = memory.now();
    // The grace it was released with isn't known any more: it is looked at as soon as it is due.
    let owed = timer(&record, Duration::ZERO, now);
    let line = (record.state == State::Scheduled).then(|| rung::line_at(record.due(), now, memory.options.horizon));
    if (timer_at.is_some() || owed.is_none()) && (line_at.is_some() || line.is_none()) {
        return Ok(false);
    }
    let key = key.clone();
    let restored = store.write(Queue::Ledger, Durability::Process, move |conn| {
        Box::pin(async move {
            let query = sqlx::query(RESTORE_TIMER).bind(key.as_str()).bind(i64::from(record.generation)).bind(record.version as i64);
            let query =
                query.bind(owed.map(|timer| timer.index.word())).bind(owed.map(|timer| timer.at.as_millis())).bind(line.map(Moment::as_millis));
            query.execute(conn).await.map(|done| done.rows_affected() > 0).map_err(StoreError::during("restore timer"))
        })
    });
    restored.await.map_err(failed("restore timer"))
}
