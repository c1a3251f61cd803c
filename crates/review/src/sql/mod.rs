//! The SQLite adapter: items stand with the book's tables, and each action is one transaction over both.
//!
//! Read `replay.rs` first.

mod actions;
mod items;
mod quarantine;
mod replay;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use curfew_book::sql::rows::column;
use curfew_book::sql::{SqlBook, book_error, tell_stories, unread};
use curfew_book::{BookError, Page, Story, Told};
use curfew_domain::{Key, Moment};
use curfew_store::{Migration, Sqlite};
use uuid::Uuid;

use crate::act::act;
use crate::{Correction, Item, Quarantined, Replay, Replayed, Review, ReviewError, ReviewFilter};

/// What review adds to the book's tables.
pub const MIGRATIONS: [Migration; 1] = [Migration { name: "review/0001_review", sql: include_str!("migrations/0001_review.sql") }];

/// The review store beside a SQLite book.
#[derive(Clone, Debug)]
pub struct SqlReview {
    book: Arc<SqlBook>,
}

impl SqlReview {
    /// Brings its tables up to date. Repeating is free.
    ///
    /// # Errors
    /// `Store` where a migration fails, `Unavailable` where the store doesn't answer.
    pub async fn open(book: Arc<SqlBook>) -> Result<Self, ReviewError> {
        book.store().migrate(&MIGRATIONS).await.map_err(|error| book_error("migrate review", &error))?;
        Ok(Self { book })
    }

    fn store(&self) -> &Sqlite {
        self.book.store()
    }

    /// The item as the action left it.
    async fn shown(&self, id: Uuid) -> Result<Item, ReviewError> {
        items::show(self.store(), id).await?.ok_or(BookError::NotFound)
    }
}

#[async_trait]
impl Review for SqlReview {
    async fn record(&self, stories: Vec<Story>, owners: &BTreeMap<String, String>, at: Moment) -> Result<Vec<Told>, ReviewError> {
        tell_stories(self.store(), stories, owners.clone(), at).await
    }

    async fn quarantine(&self, message: Quarantined) -> Result<Uuid, ReviewError> {
        quarantine::quarantine(self.store(), message).await
    }

    async fn list(&self, filter: &ReviewFilter) -> Result<Page<Item>, ReviewError> {
        items::list(self.store(), filter).await
    }

    async fn show(&self, id: Uuid) -> Result<Option<Item>, ReviewError> {
        items::show(self.store(), id).await
    }

    async fn open_item_of(&self, key: &Key) -> Result<Option<Item>, ReviewError> {
        items::open_item_of(self.store(), key).await
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, ReviewError> {
        replay::replay(self.store(), replay).await
    }

    async fn correct(&self, correction: Correction) -> Result<Item, ReviewError> {
        let id = correction.item;
        actions::correct(self.store(), correction).await?;
        self.shown(id).await
    }

    async fn suppress(&self, id: Uuid, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError> {
        actions::suppress(self.store(), act(id, actor, reason, at)).await?;
        self.shown(id).await
    }

    async fn escalate(&self, id: Uuid, owner: &str, due_at: Moment, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError> {
        actions::escalate(self.store(), act(id, actor, reason, at), owner.to_owned(), due_at).await?;
        self.shown(id).await
    }

    async fn assign(&self, id: Uuid, owner: &str, actor: &str, at: Moment) -> Result<Item, ReviewError> {
        actions::assign(self.store(), act(id, actor, "", at), owner.to_owned()).await?;
        self.shown(id).await
    }

    async fn note(&self, id: Uuid, text: &str, actor: &str, at: Moment) -> Result<Item, ReviewError> {
        actions::add_note(self.store(), act(id, actor, "", at), text.to_owned()).await?;
        self.shown(id).await
    }

    async fn resolve(&self, id: Uuid, receipt: Option<&str>, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError> {
        actions::resolve(self.store(), act(id, actor, reason, at), receipt.map(str::to_owned)).await?;
        self.shown(id).await
    }

    async fn open_by_reason(&self) -> Result<BTreeMap<String, u64>, ReviewError> {
        let found =
            sqlx::query(include_str!("queries/open_by_reason.sql")).fetch_all(self.store().read()).await.map_err(unread("count open items"))?;
        found.iter().map(|row| Ok((column(row, 0)?, column::<i64>(row, 1)?.cast_unsigned()))).collect()
    }

    async fn oldest_in_doubt(&self) -> Result<Option<Moment>, ReviewError> {
        let query = sqlx::query_scalar(include_str!("queries/oldest_in_doubt.sql"));
        let found: Option<i64> = query.fetch_optional(self.store().read()).await.map_err(unread("find the oldest doubt"))?;
        Ok(found.map(Moment::from_millis))
    }
}
