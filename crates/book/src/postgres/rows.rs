//! Rows of the table `jobs`: locked, read, saved.

use std::borrow::Cow;

use curfew_domain::job::Job;
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::{JobId, Key, Moment, Shard, form};
use curfew_store::StoreError;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use super::Halt;
use crate::forms::{self, Facts, ToldSoFar, code, id};
use crate::{BookError, Row};

/// A SELECT over rows: how much of each, then which.
macro_rules! select {
    ($much:literal, $which:literal) => {
        concat!(include_str!("queries/columns.sql"), include_str!(concat!("queries/", $much)), include_str!(concat!("queries/", $which)))
    };
}
pub(super) use select;

/// A row under its lock, with what the book alone needs of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Locked {
    /// The number of the item that is worked on.
    pub item: Option<i64>,
    /// The row, without its letter.
    pub row: Row,
}

/// A state as the table holds it.
pub(super) fn small(state: crate::BookState) -> i16 {
    i16::try_from(code(state)).expect("a state's code is below six")
}

/// Locks the rows of these keys for this transaction, in the order of keys; histories read, letters not. Each key once, whatever is given.
///
/// # Errors
/// The store's, or `Unreadable`.
pub async fn lock_rows<'k>(conn: &mut PgConnection, keys: impl IntoIterator<Item = &'k Key>) -> Result<Vec<Locked>, Halt> {
    let keys: std::collections::BTreeSet<&str> = keys.into_iter().map(Key::as_str).collect();
    let query = sqlx::query(include_str!("queries/lock_keys.sql")).bind(keys.into_iter().collect::<Vec<_>>());
    let found = query.fetch_all(&mut *conn).await.map_err(StoreError::asking("lock rows"))?;
    read_locked(conn, &found).await
}

/// One row by key, as `lock_rows`.
///
/// # Errors
/// The store's, or `Unreadable`.
pub async fn lock_row(conn: &mut PgConnection, key: &Key) -> Result<Option<Locked>, Halt> {
    Ok(lock_rows(conn, [key]).await?.pop())
}

/// One row by its id, as `lock_rows`.
///
/// # Errors
/// The store's, or `Unreadable`.
pub async fn lock_id(conn: &mut PgConnection, id: JobId) -> Result<Option<Locked>, Halt> {
    let query = sqlx::query(include_str!("queries/lock_id.sql")).bind(id.as_bytes().as_slice());
    let found = query.fetch_all(&mut *conn).await.map_err(StoreError::asking("lock a row"))?;
    Ok(read_locked(conn, &found).await?.pop())
}

/// What is locked now, as it stands now.
async fn read_locked(conn: &mut PgConnection, ids: &[PgRow]) -> Result<Vec<Locked>, Halt> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids = ids.iter().map(|row| column::<&[u8]>(row, 0)).collect::<Result<Vec<_>, _>>()?;
    let query = sqlx::query(select!("history.sql", "of_ids.sql")).bind(ids);
    let found = query.fetch_all(conn).await.map_err(StoreError::asking("read locked rows"))?;
    Ok(found.iter().map(locked).collect::<Result<_, _>>()?)
}

/// Saves what stories, verbs, evidence and replays change of rows.
///
/// # Errors
/// The store's.
pub async fn save_rows(conn: &mut PgConnection, rows: &[&Locked]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let all = || rows.iter().map(|locked| &locked.row);
    let query = sqlx::query(include_str!("queries/save_rows.sql"))
        .bind(all().map(|r| r.job.id.as_bytes().as_slice()).collect::<Vec<_>>())
        .bind(all().map(|r| small(r.state)).collect::<Vec<_>>())
        .bind(all().map(|r| r.generation.cast_signed()).collect::<Vec<_>>())
        .bind(all().map(|r| r.seen.0.cast_signed()).collect::<Vec<_>>())
        .bind(all().map(|r| r.seen.1.cast_signed()).collect::<Vec<_>>())
        .bind(all().map(|r| r.seen.2.cast_signed()).collect::<Vec<_>>())
        .bind(all().map(|r| r.ever_staged).collect::<Vec<_>>())
        .bind(all().map(|r| r.replays.cast_signed()).collect::<Vec<_>>())
        .bind(all().map(|r| r.attempts.cast_signed()).collect::<Vec<_>>())
        .bind(all().map(|r| r.job.release_at.as_millis()).collect::<Vec<_>>())
        .bind(all().map(|r| r.job.deadline_at.as_millis()).collect::<Vec<_>>())
        .bind(all().map(forms::told).collect::<Vec<_>>());
    query.execute(conn).await.map(drop).map_err(StoreError::asking("save rows"))
}

/// Saves rows' histories.
///
/// # Errors
/// The store's.
pub async fn save_histories(conn: &mut PgConnection, rows: &[&Locked]) -> Result<(), StoreError> {
    let told = || rows.iter().map(|locked| &locked.row).filter(|row| !row.history.is_empty());
    if told().next().is_none() {
        return Ok(());
    }
    let query = sqlx::query(include_str!("queries/put_history.sql"))
        .bind(told().map(|r| r.job.id.as_bytes().as_slice()).collect::<Vec<_>>())
        .bind(told().map(|r| forms::history(&r.history)).collect::<Vec<_>>());
    query.execute(conn).await.map(drop).map_err(StoreError::asking("save histories"))
}

/// One row, as `columns.sql` names it.
pub(super) fn locked(found: &PgRow) -> Result<Locked, BookError> {
    let facts: Facts = forms::read("a job's facts", column::<&[u8]>(found, 17)?)?;
    let told: ToldSoFar = match column::<Option<&[u8]>>(found, 18)? {
        Some(bytes) => forms::read("what a job was told", bytes)?,
        None => ToldSoFar::default(),
    };
    let history = match column::<Option<&[u8]>>(found, 22)? {
        Some(bytes) => forms::one("a history", bytes)?,
        None => Vec::new(),
    };
    let row = Row {
        state: forms::state(column::<i16>(found, 7)?.into())?,
        generation: number(found, 8)?,
        seen: (number(found, 9)?, number(found, 10)?, column::<i64>(found, 11)?.cast_unsigned()),
        ever_staged: column(found, 12)?,
        replays: number(found, 13)?,
        attempts: number(found, 14)?,
        last: told.last,
        reason: told.reason,
        receipt: told.receipt,
        doubt: told.doubt,
        window_doubts: told.window_doubts,
        doubts: told.doubts,
        pins: told.pins,
        open_verb: column::<Option<i64>>(found, 19)?.map(i64::cast_unsigned),
        history,
        job: job(found, facts)?,
    };
    Ok(Locked { item: column(found, 20)?, row })
}

/// Whether a row has a form that only a newer process reads.
pub(super) fn is_newer(found: &PgRow) -> Result<bool, BookError> {
    let forms = [Some(column::<&[u8]>(found, 17)?), column(found, 18)?, column(found, 22)?];
    Ok(forms.into_iter().flatten().any(form::is_newer))
}

fn job(found: &PgRow, facts: Facts) -> Result<Job, BookError> {
    Ok(Job {
        id: id(column(found, 0)?)?,
        key: crate::paging::parse_key(column(found, 1)?)?,
        tenant: column(found, 2)?,
        shard: Shard(u8::try_from(column::<i16>(found, 3)?).map_err(|_range| BookError::Unreadable("a shard".to_owned()))?),
        recipient_ref: RecipientRef(column(found, 4)?),
        recipient_masked: column(found, 5)?,
        content_revision: number(found, 6)?,
        letter: Sealed::from_bytes(column::<Option<Vec<u8>>>(found, 21)?.unwrap_or_default()),
        release_at: Moment::from_millis(column(found, 15)?),
        deadline_at: Moment::from_millis(column(found, 16)?),
        purpose: facts.purpose,
        subject_ref: facts.subject_ref,
        business_date: facts.business_date,
        fingerprints: facts.fingerprints,
        local: facts.local,
        policy: facts.policy,
        transport: facts.transport,
        labels: facts.labels,
        accepted_at: facts.accepted_at,
        trace: facts.trace,
    })
}

/// A column by its place.
///
/// # Errors
/// `Unreadable`, with the place and never the value.
pub fn column<'r, T>(found: &'r PgRow, place: usize) -> Result<T, BookError>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    found.try_get(place).map_err(|_foreign| BookError::Unreadable(format!("column {place}")))
}

/// A text that PostgreSQL takes: it has no NUL, which a mail server's words or an operator's may hold. Nothing may fail for want of a letter.
pub fn text(words: &str) -> Cow<'_, str> {
    if words.contains('\0') { Cow::Owned(words.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(words) }
}

/// A counter: PostgreSQL's integers have a sign.
///
/// # Errors
/// `Unreadable`.
pub fn number(found: &PgRow, place: usize) -> Result<u32, BookError> {
    column::<i32>(found, place).map(i32::cast_unsigned)
}
