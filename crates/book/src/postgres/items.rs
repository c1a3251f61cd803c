//! The item's part in the book's transactions: inserted, told again, resolved, withdrawn.
//!
//! An item stands for one dead letter of one generation; it is inserted once and never upserted. A later version of the same dead
//! letter (its doubt ended) changes the item that stands. Whoever comes here holds the lock of the item's job.

use curfew_domain::Moment;
use curfew_store::StoreError;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Halt;
use super::rows::{Locked, column, text as clean};
use crate::forms::{self, id};
use crate::judge::ItemFate;
pub use crate::judge::item::{Circumstances, new_id};
use crate::judge::item::{begins_in_doubt, diagnostic, owner, reason};

/// Carries out the item's part; `locked.item` follows.
///
/// # Errors
/// The store's, or `Unreadable`.
pub async fn carry_out(conn: &mut PgConnection, locked: &mut Locked, fate: &ItemFate, with: &Circumstances<'_>) -> Result<(), Halt> {
    match (fate, locked.item) {
        (ItemFate::Record, working) => record(conn, locked, working, with).await,
        (ItemFate::Resolve(why), Some(item)) => {
            locked.item = None;
            close(conn, item, "resolved", with, why).await.map(drop)
        }
        (ItemFate::Withdraw, Some(item)) => {
            locked.item = None;
            close(conn, item, "withdrawn", with, "an earlier generation was sent; the planned replay is withdrawn").await.map(drop)
        }
        (ItemFate::EndDoubt(why), Some(item)) => {
            let query = sqlx::query(include_str!("queries/item_doubt_ended.sql")).bind(item);
            query.execute(&mut *conn).await.map_err(StoreError::asking("end an item's doubt"))?;
            note(conn, item, with.at, with.actor, why).await
        }
        (ItemFate::Note(why), Some(item)) => note(conn, item, with.at, with.actor, why).await,
        (ItemFate::Keep | ItemFate::Resolve(_) | ItemFate::Withdraw | ItemFate::EndDoubt(_) | ItemFate::Note(_), _none) => Ok(()),
    }
}

/// Adds a note to an item.
///
/// # Errors
/// The store's.
pub async fn note(conn: &mut PgConnection, item: i64, at: Moment, actor: &str, text: &str) -> Result<(), Halt> {
    let query = sqlx::query(include_str!("queries/item_note.sql")).bind(item).bind(at.as_millis()).bind(clean(actor)).bind(clean(text));
    Ok(query.execute(conn).await.map(drop).map_err(StoreError::asking("note"))?)
}

/// Whether an item is in doubt.
///
/// # Errors
/// The store's.
pub async fn in_doubt(conn: &mut PgConnection, item: i64) -> Result<bool, Halt> {
    let query = sqlx::query(include_str!("queries/item_in_doubt.sql")).bind(item);
    let found = query.fetch_optional(conn).await.map_err(StoreError::asking("read an item"))?;
    Ok(found.map(|row| column(&row, 0)).transpose()?.unwrap_or(false))
}

async fn record(conn: &mut PgConnection, locked: &mut Locked, working: Option<i64>, with: &Circumstances<'_>) -> Result<(), Halt> {
    let stands = sqlx::query(include_str!("queries/item_of_generation.sql"))
        .bind(locked.row.job.id.as_bytes().as_slice())
        .bind(locked.row.generation.cast_signed())
        .fetch_optional(&mut *conn)
        .await
        .map_err(StoreError::asking("find an item"))?;
    if let Some(row) = stands {
        return told_again(conn, locked, column(&row, 0)?, with).await;
    }
    let mut replay_of = None;
    if let Some(item) = working {
        replay_of = close(conn, item, "resolved", with, "its replay ended as a dead letter").await?;
    }
    locked.item = Some(insert(conn, locked, replay_of, with).await?);
    Ok(())
}

async fn insert(conn: &mut PgConnection, locked: &Locked, replay_of: Option<Uuid>, with: &Circumstances<'_>) -> Result<i64, Halt> {
    let (row, job) = (&locked.row, &locked.row.job);
    let reason = reason(row);
    let new = new_id(with.at);
    let query = sqlx::query(include_str!("queries/item_insert.sql"))
        .bind(new.as_bytes().as_slice())
        .bind(job.id.as_bytes().as_slice())
        .bind(job.key.as_str())
        .bind(job.tenant.as_str())
        .bind(job.recipient_ref.0.as_str())
        .bind(clean(&job.recipient_masked))
        .bind(job.release_at.as_millis())
        .bind(job.deadline_at.as_millis())
        .bind(row.attempts.cast_signed())
        .bind(row.last.as_ref().map(forms::last))
        .bind(reason.word())
        .bind(clean(&diagnostic(row)))
        .bind(owner(reason, with).map(clean))
        .bind(row.generation.cast_signed())
        .bind(replay_of.map(|id| id.as_bytes().to_vec()))
        .bind(begins_in_doubt(row, with))
        .bind(with.record.and_then(|r| r.lease_until).map(Moment::as_millis))
        .bind(with.at.as_millis());
    Ok(column(&query.fetch_one(conn).await.map_err(StoreError::asking("record a dead letter"))?, 0)?)
}

async fn told_again(conn: &mut PgConnection, locked: &Locked, item: i64, with: &Circumstances<'_>) -> Result<(), Halt> {
    let row = &locked.row;
    let query = sqlx::query(include_str!("queries/item_told_again.sql"))
        .bind(item)
        .bind(reason(row).word())
        .bind(clean(&diagnostic(row)))
        .bind(row.last.as_ref().map(forms::last))
        .bind(row.attempts.cast_signed())
        .bind(row.doubt.is_some())
        .bind(with.record.and_then(|r| r.lease_until).map(Moment::as_millis));
    query.execute(&mut *conn).await.map_err(StoreError::asking("record a dead letter again"))?;
    let text = if row.doubt.is_some() { "told again: still in doubt" } else { "told again: not in doubt" };
    note(conn, item, with.at, with.actor, text).await
}

/// Closes an item that is worked on; its id, where it was.
async fn close(conn: &mut PgConnection, item: i64, status: &'static str, with: &Circumstances<'_>, why: &str) -> Result<Option<Uuid>, Halt> {
    let query = sqlx::query(include_str!("queries/item_close.sql")).bind(item).bind(status).bind(with.at.as_millis());
    let closed = query.fetch_optional(&mut *conn).await.map_err(StoreError::asking("close an item"))?;
    let id = closed.as_ref().map(|row| id(column(row, 0)?)).transpose()?.map(|id| id.0);
    if id.is_some() {
        note(conn, item, with.at, with.actor, why).await?;
    }
    Ok(id)
}
