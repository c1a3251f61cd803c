//! What can't be sent and names no readable job is kept, once, sealed and bounded.
//!
//! A wake-up whose record is missing while its row is still the ledger's is more: the job can't end by itself any more. Its row becomes
//! a dead letter, in doubt, so that an operator can judge it.

use std::collections::BTreeMap;

use curfew_book::forms::id;
use curfew_book::judge::ItemFate;
use curfew_book::postgres::items::{Circumstances, carry_out, new_id};
use curfew_book::postgres::rows::{column, text};
use curfew_book::postgres::{Halt, lock_row, save_histories, save_rows, write};
use curfew_book::{BookError, BookState};
use curfew_domain::history::cut;
use curfew_domain::limits::DIAGNOSTIC_BYTES_MAX;
use curfew_domain::{Key, Reason};
use curfew_store::{Durability, Postgres, StoreError};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::{Quarantined, ReviewError, judge};

pub(super) async fn quarantine(store: &Postgres, mut message: Quarantined) -> Result<Uuid, ReviewError> {
    cut(&mut message.diagnostic, DIAGNOSTIC_BYTES_MAX);
    write(store, Durability::Disk, "quarantine", message, |conn, message| Box::pin(kept(conn, message))).await
}

async fn kept(conn: &mut PgConnection, message: &Quarantined) -> Result<Uuid, Halt> {
    let failed = StoreError::asking("quarantine");
    let alone = sqlx::query(include_str!("queries/fingerprint_lock.sql")).bind(text(&message.fingerprint));
    alone.execute(&mut *conn).await.map_err(failed)?;
    let known = sqlx::query(include_str!("queries/of_fingerprint.sql")).bind(text(&message.fingerprint));
    if let Some(row) = known.fetch_optional(&mut *conn).await.map_err(failed)? {
        return Ok(id(column(&row, 0)?)?.0);
    }
    if let Some(id) = lost_record(conn, message).await? {
        return Ok(id);
    }
    let new = new_id(message.at);
    let query = sqlx::query(include_str!("queries/quarantine.sql"))
        .bind(new.as_bytes().as_slice())
        .bind(message.key.as_ref().map(Key::as_str))
        .bind(message.key.as_ref().map(Key::tenant))
        .bind(message.reason.word())
        .bind(text(&message.diagnostic))
        .bind(message.at.as_millis())
        .bind(text(&message.fingerprint))
        .bind(message.body.as_ref().map(|body| body.as_bytes()));
    query.execute(conn).await.map_err(failed)?;
    Ok(new)
}

async fn lost_record(conn: &mut PgConnection, message: &Quarantined) -> Result<Option<Uuid>, Halt> {
    let Some(key) = message.key.as_ref().filter(|_| message.reason == Reason::LedgerRecordMissing) else {
        return Ok(None);
    };
    let Some(mut locked) = lock_row(conn, key).await?.filter(|l| l.row.state == BookState::Staged) else {
        return Ok(None);
    };
    judge::lost(&mut locked.row, message.at);
    let owners = BTreeMap::new();
    carry_out(conn, &mut locked, &ItemFate::Record, &Circumstances { owners: &owners, record: None, actor: "curfew", at: message.at }).await?;
    save_rows(conn, &[&locked]).await?;
    save_histories(conn, &[&locked]).await?;
    let query = sqlx::query(include_str!("queries/fingerprint.sql"))
        .bind(locked.item)
        .bind(text(&message.fingerprint))
        .bind(message.body.as_ref().map(|body| body.as_bytes()))
        .bind(text(&message.diagnostic));
    let item = query.fetch_optional(conn).await.map_err(StoreError::asking("quarantine"))?.ok_or(BookError::NotFound)?;
    Ok(Some(id(column(&item, 0)?)?.0))
}
