//! The audit trail: appended to under one lock, never changed (K7; the chain is `crate::trail`'s).

use curfew_domain::Moment;
use curfew_store::{Postgres, StoreError};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;

use super::Halt;
use super::rows::{column, text};
use super::transact::unread;
use crate::paging::{cut_page, not_a_cursor};
pub use crate::trail::Entry;
use crate::trail::{BEFORE_THE_FIRST, follows, hash};
use crate::{AuditEntry, BookError, Page};

/// Entries that `verify` reads at once.
const VERIFY_ROWS: i64 = 500;

/// Appends an entry in the caller's transaction. Its lock is held to the end of it: append last.
///
/// # Errors
/// The store's.
pub async fn append(conn: &mut PgConnection, entry: Entry<'_>) -> Result<(), Halt> {
    let failed = StoreError::asking("append to the audit trail");
    // The hash covers what stands there.
    let [actor, action, object, reason, detail] = [entry.actor, entry.action, entry.object, entry.reason, entry.detail].map(text);
    let entry = Entry { at: entry.at, actor: &actor, action: &action, object: &object, reason: &reason, detail: &detail };
    sqlx::query(include_str!("queries/audit_lock.sql")).execute(&mut *conn).await.map_err(failed)?;
    let last = sqlx::query(include_str!("queries/audit_last.sql")).fetch_optional(&mut *conn).await.map_err(failed)?;
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
    Ok(query.execute(conn).await.map(drop).map_err(failed)?)
}

pub(super) async fn list(store: &Postgres, cursor: Option<&str>, limit: u32) -> Result<Page<AuditEntry>, BookError> {
    let limit = limit.clamp(1, 500);
    let below = cursor.map_or(Ok(i64::MAX), |cursor| cursor.parse().map_err(|_form| not_a_cursor()))?;
    let query = sqlx::query(include_str!("queries/audit_list.sql")).bind(below).bind(i64::from(limit) + 1);
    let found = store.all("list the audit trail", query).await.map_err(unread("list the audit trail"))?;
    let mut items = found.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    Ok(Page { next_cursor: cut_page(&mut items, limit, |e| e.number.to_string()), items })
}

pub(super) async fn verify(store: &Postgres) -> Result<Result<u64, u64>, BookError> {
    let mut before = BEFORE_THE_FIRST.to_vec();
    let mut number = 0_u64;
    loop {
        let query = sqlx::query(include_str!("queries/audit_from.sql")).bind(number.cast_signed()).bind(VERIFY_ROWS);
        let found = store.all("verify the audit trail", query).await.map_err(unread("verify the audit trail"))?;
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

fn entry(row: &PgRow) -> Result<AuditEntry, BookError> {
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
