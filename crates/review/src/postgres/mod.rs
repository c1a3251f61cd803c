//! The PostgreSQL adapter: items stand with the book's tables, and each action is one transaction over both.
//!
//! Locks are taken in the book's order: the job's row, then the item, then the audit trail. Read `replay.rs` first.

mod actions;
mod items;
mod quarantine;
mod replay;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use curfew_book::postgres::rows::column;
use curfew_book::postgres::{PostgresBook, tell_stories, unread, up_to_date};
use curfew_book::{BookError, Page, Story, Told};
use curfew_domain::{Key, Moment};
use curfew_store::{Migration, Postgres};
use uuid::Uuid;

use crate::act::act;
use crate::{Correction, Item, Quarantined, Replay, Replayed, Review, ReviewError, ReviewFilter};

/// What review adds to the book's tables; they come after the book's.
pub const MIGRATIONS: [Migration; 1] = [Migration { name: "review/0001_review", sql: include_str!("migrations/0001_review.sql") }];

/// The book's and review's tables, in their order: what `curfew book migrate` applies.
pub fn all_migrations() -> Vec<Migration> {
    curfew_book::postgres::MIGRATIONS.into_iter().chain(MIGRATIONS).collect()
}

/// The review store beside a PostgreSQL book.
#[derive(Clone, Debug)]
pub struct PostgresReview {
    book: Arc<PostgresBook>,
}

impl PostgresReview {
    /// Opens review; its tables must be up to date (`Postgres::migrate` with [`MIGRATIONS`]).
    ///
    /// # Errors
    /// `Store` where a migration is pending, naming it; `Unavailable` where the server doesn't answer.
    pub async fn open(book: Arc<PostgresBook>) -> Result<Self, ReviewError> {
        up_to_date(book.store(), &MIGRATIONS).await?;
        Ok(Self { book })
    }

    fn store(&self) -> &Postgres {
        self.book.store()
    }

    /// The item as the action left it.
    async fn shown(&self, id: Uuid) -> Result<Item, ReviewError> {
        items::show(self.store(), id).await?.ok_or(BookError::NotFound)
    }
}

#[async_trait]
impl Review for PostgresReview {
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
        let query = sqlx::query(include_str!("queries/open_by_reason.sql"));
        let found = self.store().all("count open items", query).await.map_err(unread("count open items"))?;
        found.iter().map(|row| Ok((column(row, 0)?, column::<i64>(row, 1)?.cast_unsigned()))).collect()
    }

    async fn oldest_in_doubt(&self) -> Result<Option<Moment>, ReviewError> {
        let query = sqlx::query(include_str!("queries/oldest_in_doubt.sql"));
        let found = self.store().first("find the oldest doubt", query).await.map_err(unread("find the oldest doubt"))?;
        found.map(|row| column(&row, 0).map(Moment::from_millis)).transpose()
    }
}
