//! Items: read under their locks, and shown.

use std::collections::HashMap;

use curfew_book::forms::{self, id};
use curfew_book::postgres::rows::{column, number};
use curfew_book::postgres::{Halt, Locked, lock_id, unread};
use curfew_book::{BookError, Page};
use curfew_domain::sealed::RecipientRef;
use curfew_domain::{Key, Moment, Reason};
use curfew_store::{Postgres, StoreError};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::{Item, ItemStatus, ReviewError, ReviewFilter, judge};

/// The most items of one page.
const PAGE_MAX: u32 = 500;

macro_rules! select {
    ($which:literal) => {
        concat!(include_str!("queries/columns.sql"), include_str!(concat!("queries/", $which)))
    };
}

/// An item under its lock, and its job's row under its own, where it names a job.
pub(super) struct LockedItem {
    pub(super) n: i64,
    pub(super) item: Item,
    pub(super) row: Option<Locked>,
}

impl LockedItem {
    /// Refuses what isn't open, naming how it stands.
    pub(super) fn open(self, wanted: &str) -> Result<Self, BookError> {
        judge::open(&self.item, wanted).map(|()| self)
    }
}

/// Locks the job's row, then the item, as every transaction of the book does; what is read is read under both.
pub(super) async fn lock(conn: &mut PgConnection, id: Uuid) -> Result<LockedItem, Halt> {
    let failed = StoreError::asking("lock an item");
    let query = sqlx::query(include_str!("queries/job_of.sql")).bind(id.as_bytes().as_slice());
    let job = query.fetch_optional(&mut *conn).await.map_err(failed)?.ok_or(BookError::NotFound)?;
    let row = match column::<Option<&[u8]>>(&job, 0)? {
        Some(job) => Some(lock_id(conn, self::id(job)?).await?.ok_or(BookError::NotFound)?),
        None => None,
    };
    let query = sqlx::query(select!("locked.sql")).bind(id.as_bytes().as_slice());
    let found = query.fetch_optional(conn).await.map_err(failed)?.ok_or(BookError::NotFound)?;
    let (n, item) = item(&found)?;
    Ok(LockedItem { n, item, row })
}

pub(super) async fn show(store: &Postgres, id: Uuid) -> Result<Option<Item>, ReviewError> {
    let query = sqlx::query(select!("of_id.sql")).bind(id.as_bytes().as_slice());
    whole(store, store.first("show an item", query).await.map_err(unread("show an item"))?).await
}

pub(super) async fn open_item_of(store: &Postgres, key: &Key) -> Result<Option<Item>, ReviewError> {
    let query = sqlx::query(select!("of_key.sql")).bind(key.as_str());
    whole(store, store.first("find a job's item", query).await.map_err(unread("find a job's item"))?).await
}

/// With notes and the job's story.
async fn whole(store: &Postgres, found: Option<PgRow>) -> Result<Option<Item>, ReviewError> {
    let Some(found) = found.as_ref().map(item).transpose()? else {
        return Ok(None);
    };
    let history = match found.1.job_id {
        Some(job) => {
            let query = sqlx::query(include_str!("queries/history.sql")).bind(job.as_bytes().as_slice());
            store.first("read a history", query).await.map_err(unread("read a history"))?
        }
        None => None,
    };
    let mut items = vec![found];
    add_notes(store, &mut items).await?;
    let mut shown = items.pop().expect("it was just put there").1;
    shown.history = history.map(|row| forms::one("a history", column(&row, 0)?)).transpose()?.unwrap_or_default();
    Ok(Some(shown))
}

pub(super) async fn list(store: &Postgres, filter: &ReviewFilter) -> Result<Page<Item>, ReviewError> {
    let limit = filter.limit.clamp(1, PAGE_MAX);
    let foreign = |_form| BookError::Invalid { field: "cursor", reason: "is none that a list answered".to_owned() };
    let below = filter.cursor.as_deref().map_or(Ok(i64::MAX), |cursor| i64::from_str_radix(cursor, 16).map_err(foreign))?;
    let query = match filter.status {
        Some(_) => sqlx::query(select!("list_in_status.sql")),
        None => sqlx::query(select!("list_all.sql")),
    };
    let mut query = query.bind(below).bind(filter.tenant.as_deref()).bind(filter.reason.map(Reason::word)).bind(i64::from(limit) + 1);
    if let Some(status) = filter.status {
        query = query.bind(status.word());
    }
    let found = store.all("list items", query).await.map_err(unread("list items"))?;
    let mut items = found.iter().map(item).collect::<Result<Vec<_>, _>>()?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    add_notes(store, &mut items).await?;
    let next_cursor = items.last().filter(|_| more).map(|(n, _last)| format!("{n:x}"));
    Ok(Page { items: items.into_iter().map(|(_n, item)| item).collect(), next_cursor })
}

async fn add_notes(store: &Postgres, items: &mut [(i64, Item)]) -> Result<(), ReviewError> {
    let query = sqlx::query(include_str!("queries/notes.sql")).bind(items.iter().map(|(n, _item)| *n).collect::<Vec<_>>());
    let found = store.all("read notes", query).await.map_err(unread("read notes"))?;
    let mut notes: HashMap<i64, Vec<(Moment, String, String)>> = HashMap::new();
    for row in &found {
        notes.entry(column(row, 0)?).or_default().push((Moment::from_millis(column(row, 1)?), column(row, 2)?, column(row, 3)?));
    }
    for (n, item) in items {
        item.notes = notes.remove(n).unwrap_or_default();
    }
    Ok(())
}

/// One item and its number, as `columns.sql` names it: no notes, no history.
fn item(found: &PgRow) -> Result<(i64, Item), BookError> {
    let moment = |place| column::<Option<i64>>(found, place).map(|ms| ms.map(Moment::from_millis));
    let uuid = |place| column::<Option<&[u8]>>(found, place)?.map(id).transpose();
    let word = |place| column::<&str>(found, place);
    let item = Item {
        id: id(column(found, 1)?)?.0,
        job_id: uuid(2)?,
        key: column::<Option<&str>>(found, 3)?.map(Key::parse).transpose().map_err(|e| BookError::Unreadable(format!("a key {e}")))?,
        tenant: column(found, 4)?,
        recipient_ref: column::<Option<String>>(found, 5)?.map(RecipientRef),
        recipient_masked: column(found, 6)?,
        release_at: moment(7)?,
        deadline_at: moment(8)?,
        attempts: number(found, 9)?,
        last: column::<Option<&[u8]>>(found, 10)?.map(|bytes| forms::one("a last outcome", bytes)).transpose()?,
        reason: Reason::from_word(word(11)?).ok_or_else(|| BookError::Unreadable("a reason".to_owned()))?,
        diagnostic: column(found, 12)?,
        owner: column(found, 13)?,
        due_at: moment(14)?,
        status: ItemStatus::from_word(word(15)?).ok_or_else(|| BookError::Unreadable("a status".to_owned()))?,
        generation: number(found, 16)?,
        number: number(found, 17)?,
        replay_of: uuid(18)?.map(|id| id.0),
        in_doubt: column(found, 19)?,
        lease_ended_at: moment(20)?,
        created_at: Moment::from_millis(column(found, 21)?),
        notes: Vec::new(),
        history: Vec::new(),
    };
    Ok((column(found, 0)?, item))
}
