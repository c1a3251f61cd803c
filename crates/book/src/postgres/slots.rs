//! Materialising: slots, their jobs and the scan's progress in one transaction (S2, S3). The jobs go through the door.
//!
//! Ten statements whatever the number of schedules. Locks: schedules by number, then keys by key.

use std::collections::{BTreeMap, HashMap};

use curfew_domain::Moment;
use curfew_store::{BULK_ROWS_MAX, Durability, Postgres, StoreError};
use sqlx::PgConnection;

use super::Halt;
use super::accept::accepted;
use super::rows::{column, number};
use super::transact::write;
use crate::judge::schedule::{self, Advance, SlotRow, Stands, slot_code};
use crate::schedules::keys;
use crate::{Accepted, Batch, BookError, Door, Materialised};

pub(super) async fn materialise(store: &Postgres, batches: Vec<Batch>, door: &Door) -> Result<Vec<Materialised>, BookError> {
    if keys(&batches).len() > BULK_ROWS_MAX {
        return Err(BookError::Invalid { field: "jobs", reason: format!("more than {BULK_ROWS_MAX} at once") });
    }
    if batches.is_empty() {
        return Ok(Vec::new());
    }
    let input = (batches, door.clone());
    write(store, Durability::Disk, "materialise", input, |conn, (batches, door)| Box::pin(materialised(conn, batches, door))).await
}

async fn materialised(conn: &mut PgConnection, batches: &[Batch], door: &Door) -> Result<Vec<Materialised>, Halt> {
    let failed = StoreError::asking("materialise");
    let stands = standing(conn, batches).await?;
    let written = schedule::batches(batches, &stands, door.at);
    let numbers = put_slots(conn, &written.slots).await?;
    let (mut jobs, mut slots) = (Vec::new(), Vec::new());
    for row in &written.slots {
        let slot = numbers.get(&(row.schedule, row.slot.clone())).copied().ok_or(BookError::NotFound)?;
        let of_slot = &batches[row.place.0].slots[row.place.1].jobs;
        slots.extend(std::iter::repeat_n((row.place.0, slot), of_slot.len()));
        jobs.extend(of_slot.iter().cloned());
    }
    let mut counts = vec![(0, 0); batches.len()];
    if !jobs.is_empty() {
        let free = sqlx::query(include_str!("queries/keys_free.sql")).bind(jobs.iter().map(|job| job.key.as_str()).collect::<Vec<_>>());
        free.execute(&mut *conn).await.map_err(failed)?;
        let answers = accepted(conn, &jobs, door).await?;
        let mut links: (Vec<&[u8]>, Vec<i64>) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        for ((job, (batch, slot)), answer) in jobs.iter().zip(&slots).zip(answers) {
            match answer {
                Accepted::New(_) => {
                    counts[*batch].0 += 1;
                    links.0.push(job.id.as_bytes());
                    links.1.push(*slot);
                }
                Accepted::Duplicate(_) | Accepted::Conflict(..) => counts[*batch].1 += 1,
            }
        }
        let link = sqlx::query(include_str!("queries/links_put.sql")).bind(links.0).bind(links.1);
        link.execute(&mut *conn).await.map_err(failed)?;
    }
    go_on(conn, &written.advances).await?;
    let answers = written.stood.iter().zip(counts).map(|(stood, (made, taken))| match stood {
        Some(stood) => Materialised::Done { made, taken, stood: *stood },
        None => Materialised::Outdated,
    });
    Ok(answers.collect())
}

async fn standing(conn: &mut PgConnection, batches: &[Batch]) -> Result<Vec<Option<Stands>>, Halt> {
    let failed = StoreError::asking("materialise");
    let (tenants, names): (Vec<&str>, Vec<&str>) = batches.iter().map(|batch| (batch.tenant.as_str(), batch.name.as_str())).unzip();
    let lock = sqlx::query(include_str!("queries/schedules_lock.sql")).bind(tenants).bind(names);
    let mut found: HashMap<(String, String), Stands> = HashMap::with_capacity(batches.len());
    for row in &lock.fetch_all(&mut *conn).await.map_err(failed)? {
        let (revision, cursor) = (column::<i64>(row, 3)?.cast_unsigned(), Moment::from_millis(column(row, 4)?));
        let stands = Stands { n: column(row, 0)?, revision, cursor, recipients: number(row, 5)?, slots: BTreeMap::new() };
        found.insert((column(row, 1)?, column(row, 2)?), stands);
    }
    let (mut schedules, mut dates) = (Vec::new(), Vec::new());
    for batch in batches {
        let Some(stands) = found.get(&(batch.tenant.clone(), batch.name.clone())) else { continue };
        let mut of_batch: Vec<String> = batch.slots.iter().map(|planned| planned.slot.name.date.to_string()).collect();
        of_batch.dedup();
        schedules.extend(std::iter::repeat_n(stands.n, of_batch.len()));
        dates.extend(of_batch);
    }
    let look = sqlx::query(include_str!("queries/slots_of_dates.sql")).bind(schedules).bind(dates);
    let mut slots: HashMap<i64, BTreeMap<_, _>> = HashMap::new();
    for row in &look.fetch_all(conn).await.map_err(failed)? {
        let state = schedule::slot_state(column::<i16>(row, 3)?.into())?;
        slots.entry(column(row, 0)?).or_default().insert(schedule::name(column(row, 1)?, column(row, 2)?)?, state);
    }
    found.values_mut().for_each(|stands| stands.slots = slots.remove(&stands.n).unwrap_or_default());
    Ok(batches.iter().map(|batch| found.get(&(batch.tenant.clone(), batch.name.clone())).cloned()).collect())
}

/// Writes slots; their numbers by schedule and name.
async fn put_slots(conn: &mut PgConnection, rows: &[SlotRow]) -> Result<HashMap<(i64, String), i64>, Halt> {
    if rows.is_empty() {
        return Ok(HashMap::new());
    }
    let query = sqlx::query(include_str!("queries/slots_put.sql"))
        .bind(rows.iter().map(|row| row.schedule).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.date.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.slot.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.at.as_millis()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.window.map(|(release_at, _)| release_at.as_millis())).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.window.map(|(_, deadline_at)| deadline_at.as_millis())).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| i16::try_from(slot_code(row.state)).expect("a state's code is below four")).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.why).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.revision.cast_signed()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.expected.cast_signed()).collect::<Vec<_>>());
    let found = query.fetch_all(conn).await.map_err(StoreError::asking("materialise"))?;
    Ok(found.iter().map(|row| Ok(((column(row, 1)?, column(row, 2)?), column(row, 0)?))).collect::<Result<_, BookError>>()?)
}

async fn go_on(conn: &mut PgConnection, advances: &[Advance]) -> Result<(), Halt> {
    let query = sqlx::query(include_str!("queries/schedules_advance.sql"))
        .bind(advances.iter().map(|a| a.schedule).collect::<Vec<_>>())
        .bind(advances.iter().map(|a| a.cursor.as_millis()).collect::<Vec<_>>())
        .bind(advances.iter().map(|a| a.open.as_ref().map(|(slot, _)| slot.as_str())).collect::<Vec<_>>())
        .bind(advances.iter().map(|a| a.open.as_ref().map(|(_, made)| made.cast_signed())).collect::<Vec<_>>())
        .bind(advances.iter().map(|a| a.next_scan.map(Moment::as_millis)).collect::<Vec<_>>());
    Ok(query.execute(conn).await.map(drop).map_err(StoreError::asking("materialise"))?)
}
