//! Staging's side of the book: what is due, and marking what the ledger now owns.

use curfew_domain::{Moment, Shard};
use curfew_store::{Durability, Queue, Sqlite, StoreError};

use super::recovery::guard;
use super::rows::{column, json_texts, locked, select};
use super::transact::{unread, write};
use crate::judge::recovery::BegunIn;
use crate::unreadable::Unreadable;
use crate::{BookError, Mark, Planned};

pub(super) async fn plan(store: &Sqlite, unreadable: &Unreadable, shards: &[Shard], until: Moment, limit: u32) -> Result<Vec<Planned>, BookError> {
    let shards: Vec<u8> = shards.iter().map(|s| s.0).collect();
    let shards = serde_json::to_string(&shards).expect("numbers always serialise");
    let mut asked = limit;
    loop {
        let query = sqlx::query(select!("whole.sql", "planned.sql")).bind(until.as_millis()).bind(shards.as_str()).bind(asked);
        let found = query.fetch_all(store.read()).await.map_err(unread("plan"))?;
        let (mut planned, mut left) = (Vec::with_capacity(found.len()), Vec::new());
        for row in &found {
            match locked(row) {
                Ok(locked) => planned.push(Planned { row: locked.row }),
                Err(error) => left.push((column::<&[u8]>(row, 1)?, error)),
            }
        }
        // The next look reads past them, so that they stand in front of no others.
        let enough = limit.saturating_add(u32::try_from(left.len()).unwrap_or(u32::MAX));
        if asked >= enough || found.len() < asked as usize {
            unreadable.tell(left.len(), left.first().map(|(id, error)| (*id, error)));
            return Ok(planned);
        }
        asked = enough;
    }
}

pub(super) async fn next_release(store: &Sqlite) -> Result<Option<Moment>, BookError> {
    let found: Option<i64> =
        sqlx::query_scalar(include_str!("queries/next_release.sql")).fetch_optional(store.read()).await.map_err(unread("find the next release"))?;
    Ok(found.map(Moment::from_millis))
}

/// A mark that is lost with the machine is made again: staging is idempotent. So it doesn't wait for the disk.
pub(super) async fn mark_staged(store: &Sqlite, rows: &[Mark]) -> Result<(), BookError> {
    let keys = json_texts(rows.iter().map(|mark| &mark.key));
    let marks: Vec<String> = rows.iter().map(|mark| format!("{} {}", mark.key, mark.generation)).collect();
    let marks = serde_json::to_string(&marks).expect("texts always serialise");
    let begun = BegunIn::of_marks(rows);
    write(store, Queue::Ledger, Durability::Process, "mark staged", move |conn| {
        Box::pin(async move {
            guard(conn, &begun).await?;
            let mark = sqlx::query(include_str!("queries/mark_staged.sql")).bind(keys).bind(marks);
            Ok(mark.execute(conn).await.map(drop).map_err(StoreError::during("mark staged"))?)
        })
    })
    .await
}
