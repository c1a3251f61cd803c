//! The door: jobs are accepted, each by itself, in one transaction (K1, K2).
//!
//! Everything that can be made ready before the writer's turn is: the writer holds up the ledger while it runs.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use curfew_domain::job::Job;
use curfew_domain::{Key, Moment};
use curfew_store::{BULK_ROWS_MAX, Durability, Queue, Sqlite, StoreError};
use sqlx::{Row as _, SqliteConnection};

use super::chunks::Chunks;
use super::rows::{Locked, code, column, json_texts, locked, save_histories, select};
use super::transact::{Halt, write};
use crate::forms;
use crate::judge::door::{date, end_as_suppressed, fresh, repeated};
use crate::{Accepted, BookError, BookState, Door, Row};

static JOBS: LazyLock<Chunks> = LazyLock::new(|| Chunks::new("accept jobs", include_str!("queries/insert_jobs.sql"), 21, ""));
static KEYS: LazyLock<Chunks> = LazyLock::new(|| Chunks::new("accept keys", include_str!("queries/insert_keys.sql"), 2, ""));
static LETTERS: LazyLock<Chunks> = LazyLock::new(|| Chunks::new("accept letters", include_str!("queries/insert_letters.sql"), 2, ""));
static DOOR_LOG: LazyLock<Chunks> = LazyLock::new(|| Chunks::new("write the door's log", include_str!("queries/insert_door_log.sql"), 5, ""));

/// A job ready to be written.
struct Ready {
    locked: Locked,
    facts: Vec<u8>,
}

/// Jobs ready to be written, with what is looked up for them.
pub(super) struct Prepared {
    ready: Vec<Ready>,
    keys: String,
    recipients: String,
}

pub(super) async fn accept(store: &Sqlite, jobs: Vec<Job>, door: &Door) -> Result<Vec<Accepted>, BookError> {
    if jobs.len() > BULK_ROWS_MAX {
        return Err(BookError::Invalid { field: "jobs", reason: format!("more than {BULK_ROWS_MAX} at once") });
    }
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let (door, prepared) = (door.clone(), prepare(jobs));
    write(store, Queue::Bulk, Durability::Disk, "accept", move |conn| Box::pin(async move { accept_ready(conn, prepared, &door).await })).await
}

pub(super) fn prepare(jobs: Vec<Job>) -> Prepared {
    let keys = json_texts(jobs.iter().map(|job| &job.key));
    let recipients: HashSet<&str> = jobs.iter().map(|job| job.recipient_ref.0.as_str()).collect();
    let recipients = serde_json::to_string(&recipients).expect("texts always serialise");
    let ready: Vec<Ready> =
        jobs.into_iter().map(|job| Ready { facts: forms::facts(&job), locked: Locked { n: 0, item: None, row: fresh(job) } }).collect();
    Prepared { ready, keys, recipients }
}

/// The door inside a transaction of the caller's.
pub(super) async fn accept_ready(conn: &mut SqliteConnection, prepared: Prepared, door: &Door) -> Result<Vec<Accepted>, Halt> {
    let Prepared { ready, keys, recipients } = prepared;
    let (known, mut n) = standing(conn, &keys).await?;
    let listed = suppressed(conn, &recipients).await?;
    let mut answers = Vec::with_capacity(ready.len());
    let mut new = Vec::with_capacity(ready.len());
    let mut places: HashMap<Key, usize> = HashMap::with_capacity(ready.len());
    for mut one in ready {
        let row = &mut one.locked.row;
        let stands = known.get(&row.job.key).or_else(|| places.get(&row.job.key).map(|place| new_row(&new, *place)));
        if let Some(stands) = stands {
            answers.push(repeated(&row.job, stands));
            continue;
        }
        if listed.contains(&(String::new(), row.job.recipient_ref.0.clone()))
            || listed.contains(&(row.job.tenant.clone(), row.job.recipient_ref.0.clone()))
        {
            end_as_suppressed(row, door);
        }
        n += 1;
        one.locked.n = n;
        answers.push(Accepted::New(row.state));
        places.insert(row.job.key.clone(), new.len());
        new.push(one);
    }
    insert(conn, &new, door).await?;
    Ok(answers)
}

fn new_row(new: &[Ready], place: usize) -> &Row {
    &new[place].locked.row
}

/// The rows whose keys are taken, and the highest number given.
async fn standing(conn: &mut SqliteConnection, keys: &str) -> Result<(HashMap<Key, Row>, i64), Halt> {
    let look = sqlx::query(include_str!("queries/known_keys.sql")).bind(keys).fetch_one(&mut *conn).await.map_err(StoreError::during("accept"))?;
    let n = column(&look, 1)?;
    if !column::<bool>(&look, 0)? {
        return Ok((HashMap::new(), n));
    }
    let found = sqlx::query(select!("whole.sql", "of_keys.sql")).bind(keys).fetch_all(conn).await.map_err(StoreError::during("accept"))?;
    let rows = found.iter().map(|row| locked(row).map(|l| (l.row.job.key.clone(), l.row))).collect::<Result<_, _>>()?;
    Ok((rows, n))
}

/// The (tenant, recipient) pairs of these recipients on suppressions lists; an empty tenant is the list for all.
async fn suppressed(conn: &mut SqliteConnection, recipients: &str) -> Result<HashSet<(String, String)>, Halt> {
    let found =
        sqlx::query(include_str!("queries/door_suppressions.sql")).bind(recipients).fetch_all(conn).await.map_err(StoreError::during("accept"))?;
    found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, _>>().map_err(|e| StoreError::during("accept")(e).into())
}

async fn insert(conn: &mut SqliteConnection, new: &[Ready], door: &Door) -> Result<(), Halt> {
    JOBS.run(conn, new, |query, ready| {
        let (row, job) = (&ready.locked.row, &ready.locked.row.job);
        let told = (row.state != BookState::Planned).then(|| forms::told(row));
        query
            .bind(ready.locked.n)
            .bind(job.id.as_bytes().as_slice())
            .bind(job.key.as_str())
            .bind(job.tenant.as_str())
            .bind(job.shard.0)
            .bind(date(&job.business_date))
            .bind(job.recipient_ref.0.as_str())
            .bind(job.recipient_masked.as_str())
            .bind(job.content_revision)
            .bind(code(row.state))
            .bind(row.generation)
            .bind(row.seen.0)
            .bind(row.seen.1)
            .bind(row.seen.2.cast_signed())
            .bind(row.ever_staged)
            .bind(row.replays)
            .bind(row.attempts)
            .bind(job.release_at.as_millis())
            .bind(job.deadline_at.as_millis())
            .bind(ready.facts.as_slice())
            .bind(told)
    })
    .await?;
    KEYS.run(conn, new, |query, ready| query.bind(ready.locked.row.job.key.as_str()).bind(ready.locked.n)).await?;
    LETTERS.run(conn, new, |query, ready| query.bind(ready.locked.n).bind(ready.locked.row.job.letter.as_bytes())).await?;
    let logged: Vec<(&Job, Moment, &str)> = new.iter().map(|ready| (&ready.locked.row.job, door.at, door.actor.as_str())).collect();
    DOOR_LOG
        .run(conn, &logged, |query, (job, at, actor)| {
            query.bind(date(&job.business_date)).bind(job.tenant.as_str()).bind(job.id.as_bytes().as_slice()).bind(at.as_millis()).bind(*actor)
        })
        .await?;
    let ended: Vec<&Locked> = new.iter().map(|ready| &ready.locked).filter(|l| !l.row.history.is_empty()).collect();
    Ok(save_histories(conn, &ended).await?)
}
