//! The audit trail: appended to, never changed; each entry's hash covers the entry and the hash before it (K7).
//!
//! Cutting off its end is not found by the chain alone: keep the last number and hash elsewhere where that matters.

use curfew_domain::Moment;
use curfew_store::{Sqlite, StoreError};
use sha2::{Digest, Sha256};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::query::{cut_page, not_a_cursor};
use super::rows::column;
use super::transact::{Halt, unread};
use crate::{AuditEntry, BookError, Page};

/// Entries that `verify` reads at once.
const VERIFY_ROWS: u32 = 500;
/// What the first entry's hash covers as the hash before it.
const BEFORE_THE_FIRST: [u8; 32] = [0; 32];

/// An entry to be written.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// When, by the ledger's clock.
    pub at: Moment,
    /// Who.
    pub actor: &'a str,
    /// What.
    pub action: &'a str,
    /// On what: a key, an item's id, a transport; never an address.
    pub object: &'a str,
    /// Why.
    pub reason: &'a str,
    /// Arguments as JSON, without addresses.
    pub detail: &'a str,
}

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
            let e = Entry {
                at: stands.at,
                actor: &stands.actor,
                action: &stands.action,
                object: &stands.object,
                reason: &stands.reason,
                detail: &stands.detail,
            };
            if stands.number != number + 1 || written != hash(&before, stands.number.cast_signed(), e) {
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

/// SHA-256 over the hash before, the number, the time, and each text with its length in front: no two entries share bytes.
fn hash(before: &[u8], number: i64, entry: Entry<'_>) -> Vec<u8> {
    let mut sha = Sha256::new();
    sha.update(before);
    sha.update(number.to_be_bytes());
    sha.update(entry.at.as_millis().to_be_bytes());
    for text in [entry.actor, entry.action, entry.object, entry.reason, entry.detail] {
        sha.update((text.len() as u64).to_be_bytes());
        sha.update(text.as_bytes());
    }
    sha.finalize().to_vec()
}
