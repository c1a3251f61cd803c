//! Staging's side of the book: what is due, and marking what the ledger now owns.

use std::collections::BTreeSet;
use std::time::Duration;

use curfew_domain::{Moment, Shard};
use curfew_store::{Durability, Postgres, StoreError};
use sqlx::PgConnection;
use uuid::Uuid;

use super::Halt;
use super::recovery::guard;
use super::rows::{column, is_newer, locked, select};
use super::transact::{unread, write};
use crate::judge::recovery::BegunIn;
use crate::{BookError, Mark, Planned};

/// How long a row that one scheduler read stays out of the others' way. It has the row staged and marked long before, or it is gone.
const SOFT_CLAIM: Duration = Duration::from_secs(5);

/// What one scheduler asks for.
struct Ask {
    me: Uuid,
    shards: Vec<i16>,
    until: Moment,
    limit: u32,
}

/// What a scheduler was given, and what couldn't be.
#[derive(Default)]
pub(super) struct Batch {
    pub planned: Vec<Planned>,
    /// Ids of rows that can't be read, and why.
    pub unreadable: Vec<(Vec<u8>, BookError)>,
    /// Where some of them are of a newer process.
    pub newer: BTreeSet<Shard>,
}

pub(super) async fn plan(store: &Postgres, me: Uuid, shards: &[Shard], until: Moment, limit: u32) -> Result<Batch, BookError> {
    let ask = Ask { me, shards: shards.iter().map(|s| i16::from(s.0)).collect(), until, limit };
    write(store, Durability::Process, "plan", ask, |conn, ask| Box::pin(planned(conn, ask))).await
}

async fn planned(conn: &mut PgConnection, ask: &Ask) -> Result<Batch, Halt> {
    let failed = StoreError::asking("plan");
    let claim = sqlx::query(include_str!("queries/plan_claim.sql"))
        .bind(ask.until.as_millis())
        .bind(&ask.shards)
        .bind(i64::from(ask.limit))
        .bind(ask.me.as_bytes().as_slice())
        .bind(i64::try_from(SOFT_CLAIM.as_millis()).expect("seconds fit"));
    let claimed = claim.fetch_all(&mut *conn).await.map_err(failed)?;
    if claimed.is_empty() {
        return Ok(Batch::default());
    }
    let ids = claimed.iter().map(|row| column::<&[u8]>(row, 0)).collect::<Result<Vec<_>, _>>()?;
    let found = sqlx::query(select!("whole.sql", "of_ids.sql")).bind(ids).fetch_all(&mut *conn).await.map_err(failed)?;
    let mut batch = Batch::default();
    for row in &found {
        match locked(row) {
            Ok(locked) => batch.planned.push(Planned { row: locked.row }),
            Err(error) => {
                batch.unreadable.push((column::<&[u8]>(row, 0)?.to_vec(), error));
                if is_newer(row)? {
                    batch.newer.extend(u8::try_from(column::<i16>(row, 3)?).ok().map(Shard));
                }
            }
        }
    }
    if !batch.unreadable.is_empty() {
        let ids = batch.unreadable.iter().map(|(id, _)| id.as_slice()).collect::<Vec<_>>();
        sqlx::query(include_str!("queries/put_aside.sql")).bind(ids).execute(conn).await.map_err(failed)?;
    }
    // A verb may have been opened between the two statements.
    batch.planned.retain(|p| p.row.open_verb.is_none());
    batch.planned.sort_by_key(|p| (p.row.job.release_at, p.row.job.id));
    Ok(batch)
}

pub(super) async fn next_release(store: &Postgres) -> Result<Option<Moment>, BookError> {
    let query = sqlx::query(include_str!("queries/next_release.sql"));
    let found = store.first("find the next release", query).await.map_err(unread("find the next release"))?;
    found.map(|row| column(&row, 0).map(Moment::from_millis)).transpose()
}

/// A mark that is lost with the server is made again: staging is idempotent. So it doesn't wait for the disk.
pub(super) async fn mark_staged(store: &Postgres, rows: &[Mark]) -> Result<(), BookError> {
    if rows.is_empty() {
        return Ok(());
    }
    let marks: (Vec<String>, Vec<i32>) = rows.iter().map(|mark| (mark.key.as_str().to_owned(), mark.generation.cast_signed())).unzip();
    let marks = (marks.0, marks.1, BegunIn::of_marks(rows));
    write(store, Durability::Process, "mark staged", marks, |conn, (keys, generations, begun)| {
        Box::pin(async move {
            guard(conn, begun).await?;
            let mark = sqlx::query(include_str!("queries/mark_staged.sql")).bind(keys).bind(generations);
            Ok(mark.execute(conn).await.map(drop).map_err(StoreError::asking("mark staged"))?)
        })
    })
    .await
}
