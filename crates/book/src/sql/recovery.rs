//! Recovery's side of the book, and the guard against errands of an earlier incarnation. An embedded ledger never loses its latest part apart
//! from its book, so that here the guard never refuses; the promises are the same.

use async_trait::async_trait;
use curfew_domain::verb::NumberedVerb;
use curfew_domain::{Key, Moment, Shard};
use curfew_store::{Durability, Queue, StoreError};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::SqlBook;
use super::query::readable;
use super::rows::{column, is_newer, json_texts, lock_row, locked, save_histories, save_rows, select};
use super::transact::{Halt, unread, write};
use crate::forms::{self, code};
use crate::judge::recovery::{self, BegunIn};
use crate::paging::parse_key;
use crate::{BookError, BookState, JobView, Mark, Recovery, VerbSeen, WrittenBy};

/// Refuses a transaction whose errands began in an earlier incarnation of their shard.
pub(super) async fn guard(conn: &mut SqliteConnection, begun: &BegunIn) -> Result<(), Halt> {
    let shards: Vec<u8> = begun.0.keys().map(|shard| shard.0).collect();
    let shards = serde_json::to_string(&shards).expect("numbers always serialise");
    let query = sqlx::query(include_str!("queries/incarnations_of.sql")).bind(shards);
    for row in query.fetch_all(conn).await.map_err(StoreError::during("read incarnations"))? {
        let shard = u8::try_from(column::<i64>(&row, 0)?).map_err(|_range| BookError::Unreadable("a shard".to_owned()))?;
        let stands = u32::try_from(column::<i64>(&row, 1)?).map_err(|_range| BookError::Unreadable("an incarnation".to_owned()))?;
        begun.check(Shard(shard), stands)?;
    }
    Ok(())
}

/// Rows looked at by one query of the auditor's.
const UNREADABLE_PAGE: u32 = 500;

/// Rows of a shard after a key, as they stand, by this query.
async fn rows_after(
    book: &SqlBook,
    of: (Shard, BookState),
    text: &'static str,
    until: Moment,
    after: &str,
    limit: u32,
) -> Result<Vec<SqliteRow>, BookError> {
    let (shard, state) = of;
    if !matches!(state, BookState::Planned | BookState::Staged) {
        return Ok(Vec::new());
    }
    let query = sqlx::query(text).bind(shard.0).bind(code(state)).bind(until.as_millis()).bind(after).bind(limit);
    query.fetch_all(book.store().read()).await.map_err(unread("list a shard's rows"))
}

#[async_trait]
impl Recovery for SqlBook {
    async fn rows_of(&self, shard: Shard, state: BookState, until: Moment, after: Option<&Key>, limit: u32) -> Result<Vec<JobView>, BookError> {
        let mut asked = limit;
        loop {
            let text = select!("light.sql", "rows_of_shard.sql");
            let found = rows_after(self, (shard, state), text, until, after.map_or("", Key::as_str), asked).await?;
            let views = readable(&found, &self.unreadable)?;
            // The next look reads past those that can't be read: a page is short at the end alone.
            let enough = limit.saturating_add(u32::try_from(found.len() - views.len()).unwrap_or(u32::MAX));
            if asked >= enough || found.len() < asked as usize {
                return Ok(views);
            }
            asked = enough;
        }
    }

    async fn unreadable_of(&self, shard: Shard, state: BookState, until: Moment, limit: usize) -> Result<Vec<(String, WrittenBy)>, BookError> {
        let (mut left, mut after) = (Vec::new(), String::new());
        loop {
            // With their stories: staging and settling read those too.
            let text = select!("history.sql", "rows_of_shard.sql");
            let found = rows_after(self, (shard, state), text, until, &after, UNREADABLE_PAGE).await?;
            for row in &found {
                after = column(row, 2)?;
                if locked(row).is_err() && left.len() < limit {
                    left.push((after.clone(), if is_newer(row)? { WrittenBy::Newer } else { WrittenBy::Nobody }));
                }
            }
            if found.len() < UNREADABLE_PAGE as usize || left.len() >= limit {
                return Ok(left);
            }
        }
    }

    async fn verbs_of(&self, keys: &[Key]) -> Result<Vec<(Key, VerbSeen)>, BookError> {
        let query = sqlx::query(include_str!("queries/verbs_of.sql")).bind(json_texts(keys));
        let found = query.fetch_all(self.store().read()).await.map_err(unread("list jobs' verbs"))?;
        let seen = |row| -> Result<(Key, VerbSeen), BookError> {
            let verb = NumberedVerb {
                number: column::<i64>(row, 1)?.cast_unsigned(),
                generation: u32::try_from(column::<i64>(row, 2)?).map_err(|_range| BookError::Unreadable("a generation".to_owned()))?,
                verb: forms::one("a verb", column(row, 3)?)?,
            };
            Ok((parse_key(column(row, 0)?)?, VerbSeen { verb, actor: column(row, 4)?, applied: column::<Option<i64>>(row, 5)?.is_some() }))
        };
        // One that can't be read keeps no other from being applied.
        let readable = found.iter().filter_map(|row| seen(row).inspect_err(|error| self.unreadable.tell_verb(error)).ok());
        Ok(readable.collect())
    }

    async fn take_back(&self, mark: &Mark, at: Moment) -> Result<bool, BookError> {
        let mark = mark.clone();
        write(self.store(), Queue::Ledger, Durability::Disk, "take a row back", move |conn| Box::pin(taken_back(conn, mark, at))).await
    }
}

async fn taken_back(conn: &mut SqliteConnection, mark: Mark, at: Moment) -> Result<bool, Halt> {
    guard(conn, &BegunIn::of_marks(std::slice::from_ref(&mark))).await?;
    let Some(mut locked) = lock_row(conn, &mark.key).await? else { return Ok(false) };
    if !recovery::take_back(&mut locked.row, &mark, at) {
        return Ok(false);
    }
    save_rows(conn, &[&locked]).await?;
    save_histories(conn, &[&locked]).await?;
    Ok(true)
}
