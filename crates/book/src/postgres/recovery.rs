//! Recovery's side of the book, and the guard against errands of an earlier incarnation.

use async_trait::async_trait;
use curfew_domain::verb::NumberedVerb;
use curfew_domain::{Key, Moment, Shard};
use curfew_store::{Durability, StoreError};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;

use super::query::readable;
use super::rows::{column, is_newer, lock_row, locked, number, save_histories, save_rows, select};
use super::transact::{unread, write};
use super::{Halt, PostgresBook};
use crate::forms;
use crate::judge::recovery::{self, BegunIn};
use crate::paging::parse_key;
use crate::{BookError, BookState, JobView, Mark, Recovery, VerbSeen, WrittenBy};

/// Refuses a transaction whose errands began in an earlier incarnation of their shard; until it ends nobody raises one.
pub(super) async fn guard(conn: &mut PgConnection, begun: &BegunIn) -> Result<(), Halt> {
    let shards: Vec<i16> = begun.0.keys().map(|shard| i16::from(shard.0)).collect();
    let query = sqlx::query(include_str!("queries/incarnations_of.sql")).bind(shards);
    for row in query.fetch_all(conn).await.map_err(StoreError::asking("read incarnations"))? {
        let shard = u8::try_from(column::<i16>(&row, 0)?).map_err(|_range| BookError::Unreadable("a shard".to_owned()))?;
        begun.check(Shard(shard), number(&row, 1)?)?;
    }
    Ok(())
}

/// Rows looked at by one query of the auditor's.
const UNREADABLE_PAGE: u32 = 500;

/// Rows of a shard after a key, as they stand, by one of these two queries: partial indexes, which a state that is bound would not use.
async fn rows_after(
    book: &PostgresBook,
    of: (Shard, BookState),
    texts: [&'static str; 2],
    until: Moment,
    after: &str,
    limit: u32,
) -> Result<Vec<PgRow>, BookError> {
    let (shard, [planned, staged]) = (of.0, texts);
    let text = match of.1 {
        BookState::Planned => planned,
        BookState::Staged => staged,
        BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed => return Ok(Vec::new()),
    };
    let query = sqlx::query(text).bind(i16::from(shard.0)).bind(until.as_millis()).bind(after).bind(i64::from(limit));
    book.store().all("list a shard's rows", query).await.map_err(unread("list a shard's rows"))
}

#[async_trait]
impl Recovery for PostgresBook {
    async fn rows_of(&self, shard: Shard, state: BookState, until: Moment, after: Option<&Key>, limit: u32) -> Result<Vec<JobView>, BookError> {
        let mut asked = limit;
        loop {
            let texts = [select!("light.sql", "rows_of_shard_planned.sql"), select!("light.sql", "rows_of_shard_staged.sql")];
            let found = rows_after(self, (shard, state), texts, until, after.map_or("", Key::as_str), asked).await?;
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
            let texts = [select!("history.sql", "rows_of_shard_planned.sql"), select!("history.sql", "rows_of_shard_staged.sql")];
            let found = rows_after(self, (shard, state), texts, until, &after, UNREADABLE_PAGE).await?;
            for row in &found {
                after = column(row, 1)?;
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
        let keys: Vec<&str> = keys.iter().map(Key::as_str).collect();
        let query = sqlx::query(include_str!("queries/verbs_of.sql")).bind(keys);
        let found = self.store().all("list jobs' verbs", query).await.map_err(unread("list jobs' verbs"))?;
        let seen = |row| -> Result<(Key, VerbSeen), BookError> {
            let verb = NumberedVerb {
                number: column::<i64>(row, 1)?.cast_unsigned(),
                generation: number(row, 2)?,
                verb: forms::one("a verb", column(row, 3)?)?,
            };
            Ok((parse_key(column(row, 0)?)?, VerbSeen { verb, actor: column(row, 4)?, applied: column::<Option<i16>>(row, 5)?.is_some() }))
        };
        // One that can't be read keeps no other from being applied.
        let readable = found.iter().filter_map(|row| seen(row).inspect_err(|error| self.unreadable.tell_verb(error)).ok());
        Ok(readable.collect())
    }

    async fn take_back(&self, mark: &Mark, at: Moment) -> Result<bool, BookError> {
        write(self.store(), Durability::Disk, "take a row back", mark.clone(), move |conn, mark| Box::pin(taken_back(conn, mark, at))).await
    }
}

async fn taken_back(conn: &mut PgConnection, mark: &Mark, at: Moment) -> Result<bool, Halt> {
    guard(conn, &BegunIn::of_marks(std::slice::from_ref(mark))).await?;
    let Some(mut locked) = lock_row(conn, &mark.key).await? else { return Ok(false) };
    if !recovery::take_back(&mut locked.row, mark, at) {
        return Ok(false);
    }
    save_rows(conn, &[&locked]).await?;
    save_histories(conn, &[&locked]).await?;
    Ok(true)
}
