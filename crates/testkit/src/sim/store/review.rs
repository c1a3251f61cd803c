//! The review store's port over the same tables.

use std::collections::BTreeMap;

use async_trait::async_trait;
use curfew_book::{BookError, Page, Story, Told};
use curfew_domain::{Key, Moment};
use curfew_review::act::{Act, act};
use curfew_review::{Correction, Item, Quarantined, Replay, Replayed, Review, ReviewError, ReviewFilter};
use uuid::Uuid;

use super::client::SimStore;
use super::reading;
use super::server::Tx;

impl SimStore {
    /// One action, and then the item as it left it: two calls, as in the other adapters.
    async fn act(&self, operation: &'static str, id: Uuid, work: impl FnOnce(&mut Tx<'_>) -> Result<(), BookError>) -> Result<Item, ReviewError> {
        self.write(operation, work).await?;
        self.show(id).await?.ok_or(BookError::NotFound)
    }
}

#[async_trait]
impl Review for SimStore {
    async fn record(&self, stories: Vec<Story>, owners: &BTreeMap<String, String>, at: Moment) -> Result<Vec<Told>, ReviewError> {
        self.tell(stories, owners, at).await
    }

    async fn quarantine(&self, message: Quarantined) -> Result<Uuid, ReviewError> {
        self.write("quarantine", |tx| Ok(tx.quarantine(message))).await
    }

    async fn list(&self, filter: &ReviewFilter) -> Result<Page<Item>, ReviewError> {
        self.read("list items", |tables| reading::items(tables, filter)).await?
    }

    async fn show(&self, id: Uuid) -> Result<Option<Item>, ReviewError> {
        self.read("show an item", |tables| reading::show(tables, id)).await
    }

    async fn open_item_of(&self, key: &Key) -> Result<Option<Item>, ReviewError> {
        self.read("find a job's item", |tables| reading::open_item_of(tables, key)).await
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, ReviewError> {
        self.write("replay", |tx| tx.replay(&replay)).await
    }

    async fn correct(&self, correction: Correction) -> Result<Item, ReviewError> {
        let act = Act::of(&correction).reasoned()?;
        self.act("correct", act.item, |tx| tx.correct(&act, &correction)).await
    }

    async fn suppress(&self, id: Uuid, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError> {
        let act = act(id, actor, reason, at).reasoned()?;
        self.act("suppress", id, |tx| tx.suppress(&act)).await
    }

    async fn escalate(&self, id: Uuid, owner: &str, due_at: Moment, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError> {
        let act = act(id, actor, reason, at).reasoned()?;
        self.act("escalate", id, |tx| tx.escalate(&act, owner, due_at)).await
    }

    async fn assign(&self, id: Uuid, owner: &str, actor: &str, at: Moment) -> Result<Item, ReviewError> {
        self.act("assign", id, |tx| tx.assign(&act(id, actor, "", at), owner)).await
    }

    async fn note(&self, id: Uuid, text: &str, actor: &str, at: Moment) -> Result<Item, ReviewError> {
        self.act("note", id, |tx| tx.add_note(&act(id, actor, "", at), text)).await
    }

    async fn resolve(&self, id: Uuid, receipt: Option<&str>, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError> {
        let act = act(id, actor, reason, at).reasoned()?;
        self.act("resolve", id, |tx| tx.resolve(&act, receipt)).await
    }

    async fn open_by_reason(&self) -> Result<BTreeMap<String, u64>, ReviewError> {
        let count = |tables: &super::tables::Tables| {
            let mut open = BTreeMap::new();
            for row in reading::waiting(tables) {
                *open.entry(row.item.reason.word().to_owned()).or_default() += 1;
            }
            open
        };
        self.read("count open items", count).await
    }

    async fn oldest_in_doubt(&self) -> Result<Option<Moment>, ReviewError> {
        let oldest = |tables: &super::tables::Tables| reading::waiting(tables).filter(|row| row.item.in_doubt).map(|row| row.item.created_at).min();
        self.read("find the oldest doubt", oldest).await
    }
}
