//! The door: jobs are accepted, each by itself, in one transaction of four statements (K1, K2).

use std::collections::{HashMap, HashSet};

use curfew_domain::Key;
use curfew_domain::job::Job;
use curfew_store::{BULK_ROWS_MAX, Durability, Postgres, StoreError};
use sqlx::PgConnection;

use super::Halt;
use super::rows::{column, locked, select, small, text};
use super::transact::write;
use crate::forms;
use crate::judge::door::{date, end_as_suppressed, fresh, repeated};
use crate::{Accepted, BookError, BookState, Door, Row};

pub(super) async fn accept(store: &Postgres, jobs: Vec<Job>, door: &Door) -> Result<Vec<Accepted>, BookError> {
    if jobs.len() > BULK_ROWS_MAX {
        return Err(BookError::Invalid { field: "jobs", reason: format!("more than {BULK_ROWS_MAX} at once") });
    }
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    write(store, Durability::Disk, "accept", (jobs, door.clone()), |conn, (jobs, door)| Box::pin(accepted(conn, jobs, door))).await
}

/// The door inside a transaction of the caller's.
pub(super) async fn accepted(conn: &mut PgConnection, jobs: &[Job], door: &Door) -> Result<Vec<Accepted>, Halt> {
    let mut first: HashMap<&Key, &Job> = HashMap::with_capacity(jobs.len());
    for job in jobs {
        first.entry(&job.key).or_insert(job);
    }
    // From here on nobody else accepts these keys; what is not ours was committed before, and is read by a later statement.
    let ours = take_keys(conn, &first).await?;
    let listed = suppressed(conn, jobs).await?;
    let mut rows: HashMap<&Key, Row> = HashMap::with_capacity(first.len());
    for job in first.values().filter(|job| ours.contains(job.key.as_str())) {
        let mut row = fresh((*job).clone());
        if [String::new(), row.job.tenant.clone()].into_iter().any(|tenant| listed.contains(&(tenant, row.job.recipient_ref.0.clone()))) {
            end_as_suppressed(&mut row, door);
        }
        rows.insert(&job.key, row);
    }
    insert(conn, rows.values().collect(), door).await?;
    let theirs: Vec<&str> = first.keys().map(|key| key.as_str()).filter(|key| !ours.contains(*key)).collect();
    let standing = standing(conn, theirs).await?;
    jobs.iter()
        .map(|job| match (rows.get(&job.key), standing.get(&job.key)) {
            (Some(row), _none) if std::ptr::eq(first[&job.key], job) => Ok(Accepted::New(row.state)),
            (Some(row), _none) => Ok(repeated(job, row)),
            (None, Some(stands)) => Ok(repeated(job, stands)),
            (None, None) => Err(BookError::Unreadable("a key without its job".to_owned()).into()),
        })
        .collect()
}

/// Takes the keys that are free; those that were.
async fn take_keys(conn: &mut PgConnection, first: &HashMap<&Key, &Job>) -> Result<HashSet<String>, Halt> {
    let jobs: Vec<&Job> = first.values().copied().collect();
    let query = sqlx::query(include_str!("queries/insert_keys.sql"))
        .bind(jobs.iter().map(|job| job.key.as_str()).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| job.id.as_bytes().as_slice()).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| i16::from(job.shard.0)).collect::<Vec<_>>());
    let found = query.fetch_all(conn).await.map_err(StoreError::asking("accept"))?;
    Ok(found.iter().map(|row| column(row, 0)).collect::<Result<_, _>>()?)
}

/// The rows of keys that were taken before.
async fn standing(conn: &mut PgConnection, keys: Vec<&str>) -> Result<HashMap<Key, Row>, Halt> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let query = sqlx::query(select!("whole.sql", "of_keys.sql")).bind(keys);
    let found = query.fetch_all(conn).await.map_err(StoreError::asking("accept"))?;
    Ok(found.iter().map(|row| locked(row).map(|l| (l.row.job.key.clone(), l.row))).collect::<Result<_, _>>()?)
}

/// The (tenant, recipient) pairs of these recipients on suppressions lists; an empty tenant is the list for all.
async fn suppressed(conn: &mut PgConnection, jobs: &[Job]) -> Result<HashSet<(String, String)>, Halt> {
    let recipients: HashSet<&str> = jobs.iter().map(|job| job.recipient_ref.0.as_str()).collect();
    let query = sqlx::query(include_str!("queries/door_suppressions.sql")).bind(recipients.into_iter().collect::<Vec<_>>());
    let found = query.fetch_all(conn).await.map_err(StoreError::asking("accept"))?;
    Ok(found.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect::<Result<_, BookError>>()?)
}

async fn insert(conn: &mut PgConnection, rows: Vec<&Row>, door: &Door) -> Result<(), Halt> {
    if rows.is_empty() {
        return Ok(());
    }
    let jobs = || rows.iter().map(|row| &row.job);
    let query = sqlx::query(include_str!("queries/insert_jobs.sql"))
        .bind(jobs().map(|job| job.id.as_bytes().as_slice()).collect::<Vec<_>>())
        .bind(jobs().map(|job| job.key.as_str()).collect::<Vec<_>>())
        .bind(jobs().map(|job| job.tenant.as_str()).collect::<Vec<_>>())
        .bind(jobs().map(|job| i16::from(job.shard.0)).collect::<Vec<_>>())
        .bind(jobs().map(|job| date(&job.business_date)).collect::<Vec<_>>())
        .bind(jobs().map(|job| job.recipient_ref.0.as_str()).collect::<Vec<_>>())
        .bind(jobs().map(|job| text(&job.recipient_masked)).collect::<Vec<_>>())
        .bind(jobs().map(|job| job.content_revision.cast_signed()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| small(row.state)).collect::<Vec<_>>())
        .bind(jobs().map(|job| job.release_at.as_millis()).collect::<Vec<_>>())
        .bind(jobs().map(|job| job.deadline_at.as_millis()).collect::<Vec<_>>())
        .bind(jobs().map(forms::facts).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| (row.state != BookState::Planned).then(|| forms::told(row))).collect::<Vec<_>>())
        .bind(jobs().map(|job| job.letter.as_bytes()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| (!row.history.is_empty()).then(|| forms::history(&row.history))).collect::<Vec<_>>())
        .bind(door.at.as_millis())
        .bind(text(&door.actor));
    query.execute(conn).await.map(drop).map_err(StoreError::asking("accept"))?;
    Ok(())
}
