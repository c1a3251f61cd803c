//! Rows of the table `jobs`: read, saved.

use std::sync::LazyLock;

use curfew_domain::job::Job;
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::{Key, Moment, Shard, form};
use curfew_store::StoreError;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::chunks::Chunks;
use super::transact::Halt;
use crate::forms::{self, Facts, ToldSoFar};
pub use crate::forms::{code, id};
use crate::{BookError, Row};

/// A SELECT over rows: how much of each, then which.
macro_rules! select {
    ($much:literal, $which:literal) => {
        concat!(include_str!("queries/columns.sql"), include_str!(concat!("queries/", $much)), include_str!(concat!("queries/", $which)))
    };
}
pub(super) use select;

/// A row under the writer's lock, with what the book alone needs of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Locked {
    /// Its number in the book's tables.
    pub n: i64,
    /// The number of the item that is worked on.
    pub item: Option<i64>,
    /// The row, without its letter.
    pub row: Row,
}

static SAVE: LazyLock<Chunks> =
    LazyLock::new(|| Chunks::new("save rows", include_str!("queries/save_rows.sql"), 12, include_str!("queries/save_rows_end.sql")));
static HISTORY: LazyLock<Chunks> = LazyLock::new(|| Chunks::new("save histories", include_str!("queries/put_history.sql"), 2, ""));

/// The rows of these keys, locked for this transaction (the writer is alone), histories read, letters not.
///
/// # Errors
/// The store's, or `Unreadable`.
pub async fn lock_rows<'k>(conn: &mut SqliteConnection, keys: impl IntoIterator<Item = &'k Key>) -> Result<Vec<Locked>, Halt> {
    let found = sqlx::query(select!("history.sql", "of_keys.sql")).bind(json_texts(keys)).fetch_all(conn).await;
    let rows = found.map_err(StoreError::during("lock rows"))?;
    Ok(rows.iter().map(locked).collect::<Result<_, _>>()?)
}

/// One row by key, as `lock_rows`.
///
/// # Errors
/// The store's, or `Unreadable`.
pub async fn lock_row(conn: &mut SqliteConnection, key: &Key) -> Result<Option<Locked>, Halt> {
    Ok(lock_rows(conn, [key]).await?.pop())
}

/// One row by its number, as `lock_rows`.
///
/// # Errors
/// The store's, or `Unreadable`.
pub async fn lock_numbered(conn: &mut SqliteConnection, n: i64) -> Result<Option<Locked>, Halt> {
    let found = sqlx::query(select!("history.sql", "of_n.sql")).bind(n).fetch_optional(conn).await.map_err(StoreError::during("lock a row"))?;
    Ok(found.as_ref().map(locked).transpose()?)
}

/// Saves what stories, verbs, evidence and replays change of rows.
///
/// # Errors
/// The store's.
pub async fn save_rows(conn: &mut SqliteConnection, rows: &[&Locked]) -> Result<(), StoreError> {
    let with_forms: Vec<(&Locked, Vec<u8>)> = rows.iter().map(|r| (*r, forms::told(&r.row))).collect();
    SAVE.run(conn, &with_forms, |query, (locked, told)| {
        let row = &locked.row;
        query
            .bind(locked.n)
            .bind(code(row.state))
            .bind(row.generation)
            .bind(row.seen.0)
            .bind(row.seen.1)
            .bind(row.seen.2.cast_signed())
            .bind(row.ever_staged)
            .bind(row.replays)
            .bind(row.attempts)
            .bind(row.job.release_at.as_millis())
            .bind(row.job.deadline_at.as_millis())
            .bind(told.as_slice())
    })
    .await
}

/// Saves rows' histories.
///
/// # Errors
/// The store's.
pub async fn save_histories(conn: &mut SqliteConnection, rows: &[&Locked]) -> Result<(), StoreError> {
    let told: Vec<(i64, Vec<u8>)> = rows.iter().filter(|r| !r.row.history.is_empty()).map(|r| (r.n, forms::history(&r.row.history))).collect();
    HISTORY.run(conn, &told, |query, (n, entries)| query.bind(*n).bind(entries.as_slice())).await
}

/// One row, as `columns.sql` names it.
pub(super) fn locked(found: &SqliteRow) -> Result<Locked, BookError> {
    let facts: Facts = forms::read("a job's facts", column::<&[u8]>(found, 18)?)?;
    let told: ToldSoFar = match column::<Option<&[u8]>>(found, 19)? {
        Some(bytes) => forms::read("what a job was told", bytes)?,
        None => ToldSoFar::default(),
    };
    let history = match column::<Option<&[u8]>>(found, 23)? {
        Some(bytes) => forms::one("a history", bytes)?,
        None => Vec::new(),
    };
    let row = Row {
        state: forms::state(column(found, 8)?)?,
        generation: column(found, 9)?,
        seen: (column(found, 10)?, column(found, 11)?, column::<i64>(found, 12)?.cast_unsigned()),
        ever_staged: column(found, 13)?,
        replays: column(found, 14)?,
        attempts: column(found, 15)?,
        last: told.last,
        reason: told.reason,
        receipt: told.receipt,
        doubt: told.doubt,
        window_doubts: told.window_doubts,
        doubts: told.doubts,
        pins: told.pins,
        open_verb: column::<Option<i64>>(found, 20)?.map(i64::cast_unsigned),
        history,
        job: job(found, facts)?,
    };
    Ok(Locked { n: column(found, 0)?, item: column(found, 21)?, row })
}

/// Whether a row has a form that only a newer process reads.
pub(super) fn is_newer(found: &SqliteRow) -> Result<bool, BookError> {
    let forms = [Some(column::<&[u8]>(found, 18)?), column(found, 19)?, column(found, 23)?];
    Ok(forms.into_iter().flatten().any(form::is_newer))
}

fn job(found: &SqliteRow, facts: Facts) -> Result<Job, BookError> {
    let key = column::<&str>(found, 2)?;
    Ok(Job {
        id: id(column(found, 1)?)?,
        key: Key::parse(key).map_err(|e| BookError::Unreadable(format!("a key {e}")))?,
        tenant: column(found, 3)?,
        shard: Shard(column(found, 4)?),
        recipient_ref: RecipientRef(column(found, 5)?),
        recipient_masked: column(found, 6)?,
        content_revision: column(found, 7)?,
        letter: Sealed::from_bytes(column::<Option<Vec<u8>>>(found, 22)?.unwrap_or_default()),
        release_at: Moment::from_millis(column(found, 16)?),
        deadline_at: Moment::from_millis(column(found, 17)?),
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
pub fn column<'r, T>(found: &'r SqliteRow, place: usize) -> Result<T, BookError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    found.try_get(place).map_err(|_foreign| BookError::Unreadable(format!("column {place}")))
}

/// Keys as a JSON list, for `json_each`.
pub(super) fn json_texts<'k>(keys: impl IntoIterator<Item = &'k Key>) -> String {
    // A key's alphabet has no quote and no backslash, so nothing needs escaping.
    let quoted: Vec<String> = keys.into_iter().map(|key| format!("\"{key}\"")).collect();
    format!("[{}]", quoted.join(","))
}
