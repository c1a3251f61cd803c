//! Materialising: slots, their jobs and the scan's progress in one transaction (S2, S3). The jobs go through the door.

use std::collections::{BTreeMap, HashMap};

use curfew_domain::Moment;
use curfew_store::{BULK_ROWS_MAX, Durability, Queue, Sqlite, StoreError};
use sqlx::SqliteConnection;

use super::accept::{accept_ready, prepare};
use super::rows::{column, json_texts};
use super::transact::{Halt, write};
use crate::judge::schedule::{self, Advance, SlotRow, Stands, slot_code};
use crate::schedules::keys;
use crate::{Accepted, Batch, BookError, Door, Materialised};

pub(super) async fn materialise(store: &Sqlite, batches: Vec<Batch>, door: &Door) -> Result<Vec<Materialised>, BookError> {
    if keys(&batches).len() > BULK_ROWS_MAX {
        return Err(BookError::Invalid { field: "jobs", reason: format!("more than {BULK_ROWS_MAX} at once") });
    }
    if batches.is_empty() {
        return Ok(Vec::new());
    }
    let door = door.clone();
    write(store, Queue::Bulk, Durability::Disk, "materialise", move |conn| Box::pin(materialised(conn, batches, door))).await
}

async fn materialised(conn: &mut SqliteConnection, mut batches: Vec<Batch>, door: Door) -> Result<Vec<Materialised>, Halt> {
    let mut stands = Vec::with_capacity(batches.len());
    for batch in &batches {
        stands.push(standing(conn, batch).await?);
    }
    let written = schedule::batches(&batches, &stands, door.at);
    let numbers = put_slots(conn, &written.slots).await?;
    let (mut jobs, mut slots) = (Vec::new(), Vec::new());
    for row in &written.slots {
        let number = numbers.get(&(row.schedule, row.slot.clone())).copied().ok_or(BookError::NotFound)?;
        let of_slot = std::mem::take(&mut batches[row.place.0].slots[row.place.1].jobs);
        slots.extend(std::iter::repeat_n((row.place.0, number), of_slot.len()));
        jobs.extend(of_slot);
    }
    let mut counts = vec![(0, 0); batches.len()];
    if !jobs.is_empty() {
        let keys: Vec<_> = jobs.iter().map(|job| job.key.clone()).collect();
        let free = sqlx::query(include_str!("queries/keys_free.sql")).bind(json_texts(&keys));
        free.execute(&mut *conn).await.map_err(StoreError::during("materialise"))?;
        let answers = accept_ready(conn, prepare(jobs), &door).await?;
        let mut links = Vec::with_capacity(keys.len());
        for ((key, (batch, slot)), answer) in keys.iter().zip(&slots).zip(answers) {
            match answer {
                Accepted::New(_) => {
                    counts[*batch].0 += 1;
                    links.push((key.as_str(), *slot));
                }
                Accepted::Duplicate(_) | Accepted::Conflict(..) => counts[*batch].1 += 1,
            }
        }
        let links = serde_json::to_string(&links).expect("texts and numbers always serialise");
        let link = sqlx::query(include_str!("queries/links_put.sql")).bind(links);
        link.execute(&mut *conn).await.map_err(StoreError::during("materialise"))?;
    }
    for advance in &written.advances {
        go_on(conn, advance).await?;
    }
    let answers = written.stood.iter().zip(counts).map(|(stood, (made, taken))| match stood {
        Some(stood) => Materialised::Done { made, taken, stood: *stood },
        None => Materialised::Outdated,
    });
    Ok(answers.collect())
}

async fn standing(conn: &mut SqliteConnection, batch: &Batch) -> Result<Option<Stands>, Halt> {
    let failed = StoreError::during("materialise");
    let query = sqlx::query(include_str!("queries/schedule_stands.sql")).bind(batch.tenant.as_str()).bind(batch.name.as_str());
    let Some(found) = query.fetch_optional(&mut *conn).await.map_err(failed)? else { return Ok(None) };
    let n = column(&found, 0)?;
    let mut dates: Vec<String> = batch.slots.iter().map(|planned| planned.slot.name.date.to_string()).collect();
    dates.dedup();
    let dates = serde_json::to_string(&dates).expect("texts always serialise");
    let rows = sqlx::query(include_str!("queries/slots_of_dates.sql")).bind(n).bind(dates).fetch_all(conn).await.map_err(failed)?;
    let slots = rows.iter().map(|row| Ok((schedule::name(column(row, 0)?, column(row, 1)?)?, schedule::slot_state(column(row, 2)?)?)));
    let slots = slots.collect::<Result<BTreeMap<_, _>, BookError>>()?;
    let (revision, cursor) = (column::<i64>(&found, 1)?.cast_unsigned(), Moment::from_millis(column(&found, 2)?));
    Ok(Some(Stands { n, revision, cursor, recipients: column(&found, 3)?, slots }))
}

/// Writes slots; their numbers by schedule and name.
async fn put_slots(conn: &mut SqliteConnection, rows: &[SlotRow]) -> Result<HashMap<(i64, String), i64>, Halt> {
    if rows.is_empty() {
        return Ok(HashMap::new());
    }
    let values = rows.iter().map(|row| {
        let (release_at, deadline_at) = row.window.unzip();
        let ms = |at: Option<Moment>| at.map(Moment::as_millis);
        let state = slot_code(row.state);
        serde_json::json!([
            row.schedule,
            row.date,
            row.slot,
            row.at.as_millis(),
            ms(release_at),
            ms(deadline_at),
            state,
            row.why,
            row.revision,
            row.expected
        ])
    });
    let values = serde_json::Value::Array(values.collect()).to_string();
    let put = sqlx::query(include_str!("queries/slots_put.sql")).bind(values).fetch_all(conn).await;
    let found = put.map_err(StoreError::during("materialise"))?;
    Ok(found.iter().map(|row| Ok(((column(row, 1)?, column(row, 2)?), column(row, 0)?))).collect::<Result<_, BookError>>()?)
}

async fn go_on(conn: &mut SqliteConnection, advance: &Advance) -> Result<(), Halt> {
    let (slot, gone_through) = advance.open.as_ref().map(|(slot, made)| (slot.as_str(), *made)).unzip();
    let query = sqlx::query(include_str!("queries/schedule_advance.sql"))
        .bind(advance.schedule)
        .bind(advance.cursor.as_millis())
        .bind(slot)
        .bind(gone_through)
        .bind(advance.next_scan.map(Moment::as_millis));
    Ok(query.execute(conn).await.map(drop).map_err(StoreError::during("materialise"))?)
}
