//! The audit trail: appended to, never changed; each entry's hash covers the entry and the hash before it (K7).
//!
//! Cutting off its end is not found by the chain alone: keep the last number and hash elsewhere where that matters.

use curfew_domain::Moment;
use curfew_store::{Sqlite, StoreError};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::rows::column;
use super::transact::{Halt, unread};
use crate::paging::{cut_page, not_a_cursor};
pub use crate::trail::Entry;
use crate::trail::{BEFORE_THE_FIRST, follows, hash};
use crate::{AuditEntry, BookError, Page};

/// Entries that `verify` reads at once.
const VERIFY_ROWS: u32 = 500;

/// Appends an entry in the caller's transaction.
///
/// # Errors
/// The store's.
pub async fn append(conn: &mut SqliteConnection, entry: Entry<'_>) -> Result<(), Halt> {
    let last =
        sqlx::query(include_str!("queries/audit_last.sql")).fetch_optional(&mut *conn).await.map_err(StoreError::during("read the audit trail"))?;
    let (number, before) = match &last {
        Some(row) => (column::<i64>(row, 0)? + 1, column::<Vec<u8>>(row, 1)?),
        None => (1, BEFORE_THE_FIRST.to_vec()),
    };
    let query = sqlx::query(include_str!("queries/audit_append.sql"))
        .bind(number)
        .bind(entry.at.as_millis())
        .bind(entry.actor)
        .bind(entry.action)
        .bind(entry.object)
        .bind(entry.reason)
        .bind(entry.detail)
        .bind(hash(&before, number, entry));
    Ok(query.execute(conn).await.map(drop).map_err(StoreError::during("append to the audit trail"))?)
}

pub(super) async fn list(store: &Sqlite, cursor: Option<&str>, limit: u32) -> Result<Page<AuditEntry>, BookError> {
    let limit = limit.clamp(1, 500);
    let below = cursor.map_or(Ok(i64::MAX), |cursor| cursor.parse().map_err(|_form| not_a_cursor()))?;
    let query = sqlx::query(include_str!("queries/audit_list.sql")).bind(below).bind(limit + 1);
    let found = query.fetch_all(store.read()).await.map_err(unread("list the audit trail"))?;
    let mut items = found.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    Ok(Page { next_cursor: cut_page(&mut items, limit, |e| e.number.to_string()), items })
}

pub(super) async fn verify(store: &Sqlite) -> Result<Result<u64, u64>, BookError> {
    let mut before = BEFORE_THE_FIRST.to_vec();
    let mut number = 0_u64;
    loop {
        let query = sqlx::query(include_str!("queries/audit_from.sql")).bind(number.cast_signed()).bind(VERIFY_ROWS);
        let found = query.fetch_all(store.read()).await.map_err(unread("verify the audit trail"))?;
        if found.is_empty() {
            return Ok(Ok(number));
        }
        for row in &found {
            let stands = entry(row)?;
            let written: Vec<u8> = column(row, 7)?;
            if stands.number != number + 1 || !follows(&stands, &before, &written) {
                return Ok(Err(number + 1));
            }
            number = stands.number;
            before = written;
        }
    }
}

fn entry(row: &SqliteRow) -> Result<AuditEntry, BookError> {
    Ok(AuditEntry {
        number: column::<i64>(row, 0)?.cast_unsigned(),
        at: Moment::from_millis(column(row, 1)?),
        actor: column(row, 2)?,
        action: column(row, 3)?,
        object: column(row, 4)?,
        reason: column(row, 5)?,
        detail: column(row, 6)?,
    })
}
