//! A replay: one transaction in the book alone (R3, R4, R5). Staging does the rest, whatever crashes.

use curfew_book::BookError;
use curfew_book::sql::items::note;
use curfew_book::sql::{Halt, audit, save_rows, write};
use curfew_store::{Durability, Queue, Sqlite, StoreError};
use sqlx::SqliteConnection;

use super::items::lock;
use crate::{Replay, Replayed, ReviewError, judge};

pub(super) async fn replay(store: &Sqlite, replay: Replay) -> Result<Replayed, ReviewError> {
    write(store, Queue::Ledger, Durability::Disk, "replay", move |conn| Box::pin(replayed(conn, replay))).await
}

async fn replayed(conn: &mut SqliteConnection, replay: Replay) -> Result<Replayed, Halt> {
    let item = lock(conn, replay.item).await?.open("replay")?;
    let mut locked = item.row(conn).await?.ok_or_else(|| BookError::Conflict("the item names no job that could run again".to_owned()))?;
    judge::check(&item.item, &locked.row, &replay)?;
    let generation = locked.row.generation + 1;
    if replay.dry_run {
        return Ok(Replayed { row: locked.row, generation });
    }
    let over_a_doubt = locked.row.doubt.is_some() || item.item.in_doubt;
    judge::raise(&mut locked.row, &replay, generation);
    save_rows(conn, &[&locked]).await?;
    sqlx::query(include_str!("queries/replaying.sql")).bind(item.n).execute(&mut *conn).await.map_err(StoreError::during("replay"))?;
    note(conn, item.n, replay.at, &replay.actor, &format!("replayed as generation {generation}: {}", replay.reason)).await?;
    let object = replay.item.hyphenated().to_string();
    let detail = judge::replayed(&locked.row, &replay, over_a_doubt);
    let entry = audit::Entry { at: replay.at, actor: &replay.actor, action: "replay", object: &object, reason: &replay.reason, detail: &detail };
    audit::append(conn, entry).await?;
    Ok(Replayed { row: locked.row, generation })
}
