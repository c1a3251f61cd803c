//! Items: read under the writer's lock, and shown.

use std::collections::HashMap;

use curfew_book::sql::rows::{column, id};
use curfew_book::sql::{Halt, Locked, forms, lock_numbered, unread};
use curfew_book::{BookError, Page};
use curfew_domain::sealed::RecipientRef;
use curfew_domain::{Key, Moment, Reason};
use curfew_store::{Sqlite, StoreError};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::{Item, ItemStatus, ReviewError, ReviewFilter, judge};

/// The most items of one page.
const PAGE_MAX: u32 = 500;

macro_rules! select {
    ($which:literal) => {
        concat!(include_str!("queries/columns.sql"), include_str!(concat!("queries/", $which)))
    };
}

/// An item under the writer's lock.
pub(super) struct LockedItem {
    pub(super) n: i64,
    pub(super) job: Option<i64>,
    pub(super) item: Item,
}

impl LockedItem {
    /// Refuses what isn't open, naming how it stands.
    pub(super) fn open(self, wanted: &str) -> Result<Self, BookError> {
        judge::open(&self.item, wanted).map(|()| self)
    }

    /// Its job's row, where it names a job.
    pub(super) async fn row(&self, conn: &mut SqliteConnection) -> Result<Option<Locked>, Halt> {
        match self.job {
            Some(n) => Ok(Some(lock_numbered(conn, n).await?.ok_or(BookError::NotFound)?)),
            None => Ok(None),
        }
    }
}

pub(super) async fn lock(conn: &mut SqliteConnection, id: Uuid) -> Result<LockedItem, Halt> {
    let query = sqlx::query(select!("of_id.sql")).bind(id.as_bytes().to_vec());
    let found = query.fetch_optional(conn).await.map_err(StoreError::during("lock an item"))?;
    Ok(item(&found.ok_or(BookError::NotFound)?)?)
}

pub(super) async fn show(store: &Sqlite, id: Uuid) -> Result<Option<Item>, ReviewError> {
    let query = sqlx::query(select!("of_id.sql")).bind(id.as_bytes().to_vec());
    whole(store, query.fetch_optional(store.read()).await.map_err(unread("show an item"))?).await
}

pub(super) async fn open_item_of(store: &Sqlite, key: &Key) -> Result<Option<Item>, ReviewError> {
    let query = sqlx::query(select!("of_key.sql")).bind(key.as_str());
    whole(store, query.fetch_optional(store.read()).await.map_err(unread("find a job's item"))?).await
}

/// With notes and the job's story.
async fn whole(store: &Sqlite, found: Option<SqliteRow>) -> Result<Option<Item>, ReviewError> {
    let Some(found) = found.as_ref().map(item).transpose()? else {
        return Ok(None);
    };
    let history: Option<Vec<u8>> = match found.job {
        Some(n) => {
            sqlx::query_scalar(include_str!("queries/history.sql")).bind(n).fetch_optional(store.read()).await.map_err(unread("read a history"))?
        }
        None => None,
    };
    let mut items = vec![found];
    add_notes(store, &mut items).await?;
    let mut shown = items.pop().expect("it was just put there").item;
    shown.history = history.map(|bytes| forms::one("a history", &bytes)).transpose()?.unwrap_or_default();
    Ok(Some(shown))
}

pub(super) async fn list(store: &Sqlite, filter: &ReviewFilter) -> Result<Page<Item>, ReviewError> {
    let limit = filter.limit.clamp(1, PAGE_MAX);
    let foreign = |_form| BookError::Invalid { field: "cursor", reason: "is none that a list answered".to_owned() };
    let below = filter.cursor.as_deref().map_or(Ok(i64::MAX), |cursor| i64::from_str_radix(cursor, 16).map_err(foreign))?;
    let query = match filter.status {
        Some(_) => sqlx::query(select!("list_in_status.sql")),
        None => sqlx::query(select!("list_all.sql")),
    };
    let mut query = query.bind(below).bind(filter.tenant.as_deref()).bind(filter.reason.map(Reason::word)).bind(limit + 1);
    if let Some(status) = filter.status {
        query = query.bind(status.word());
    }
    let found = query.fetch_all(store.read()).await.map_err(unread("list items"))?;
    let mut items = found.iter().map(item).collect::<Result<Vec<_>, _>>()?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    add_notes(store, &mut items).await?;
    let next_cursor = items.last().filter(|_| more).map(|last| format!("{:x}", last.n));
    Ok(Page { items: items.into_iter().map(|locked| locked.item).collect(), next_cursor })
}

async fn add_notes(store: &Sqlite, items: &mut [LockedItem]) -> Result<(), ReviewError> {
    let numbers = serde_json::to_string(&items.iter().map(|i| i.n).collect::<Vec<_>>()).expect("numbers always serialise");
    let found = sqlx::query(include_str!("queries/notes.sql")).bind(numbers).fetch_all(store.read()).await.map_err(unread("read notes"))?;
    let mut notes: HashMap<i64, Vec<(Moment, String, String)>> = HashMap::new();
    for row in &found {
        notes.entry(column(row, 0)?).or_default().push((Moment::from_millis(column(row, 1)?), column(row, 2)?, column(row, 3)?));
    }
    for item in items {
        item.item.notes = notes.remove(&item.n).unwrap_or_default();
    }
    Ok(())
}

/// One item, as `columns.sql` names it: no notes, no history.
fn item(found: &SqliteRow) -> Result<LockedItem, BookError> {
    let moment = |place| column::<Option<i64>>(found, place).map(|ms| ms.map(Moment::from_millis));
    let uuid = |place| column::<Option<&[u8]>>(found, place)?.map(id).transpose();
    let word = |place| column::<&str>(found, place);
    let item = Item {
        id: id(column(found, 1)?)?.0,
        job_id: uuid(3)?,
        key: column::<Option<&str>>(found, 4)?.map(Key::parse).transpose().map_err(|e| BookError::Unreadable(format!("a key {e}")))?,
        tenant: column(found, 5)?,
        recipient_ref: column::<Option<String>>(found, 6)?.map(RecipientRef),
        recipient_masked: column(found, 7)?,
        release_at: moment(8)?,
        deadline_at: moment(9)?,
        attempts: column(found, 10)?,
        last: column::<Option<&[u8]>>(found, 11)?.map(|bytes| forms::one("a last outcome", bytes)).transpose()?,
        reason: Reason::from_word(word(12)?).ok_or_else(|| BookError::Unreadable("a reason".to_owned()))?,
        diagnostic: column(found, 13)?,
        owner: column(found, 14)?,
        due_at: moment(15)?,
        status: ItemStatus::from_word(word(16)?).ok_or_else(|| BookError::Unreadable("a status".to_owned()))?,
        generation: column(found, 17)?,
        number: column(found, 18)?,
        replay_of: uuid(19)?.map(|id| id.0),
        in_doubt: column(found, 20)?,
        lease_ended_at: moment(21)?,
        created_at: Moment::from_millis(column(found, 22)?),
        notes: Vec::new(),
        history: Vec::new(),
    };
    Ok(LockedItem { n: column(found, 0)?, job: column(found, 2)?, item })
}
