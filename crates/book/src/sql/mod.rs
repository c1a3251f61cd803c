//! The SQLite adapter: every write is one request to the store's writer, every read one statement on a reader.
//!
//! The writer is alone, so a row that is read in a write is locked until its commit. Judging is `crate::judge`'s; here rows are
//! read, saved and counted. What `review` needs in its own transactions (rows, items, the audit trail) is public here.

mod accept;
pub mod audit;
mod chunks;
mod evidence;
mod holds;
pub mod items;
mod query;
mod recovery;
mod registry;
pub mod rows;
mod schedules;
mod settle;
mod slots;
mod stage;
mod transact;
mod verbs;

use std::sync::Arc;

use async_trait::async_trait;
use curfew_domain::job::Job;
use curfew_domain::sealed::RecipientRef;
use curfew_domain::{JobId, Key, Moment, Shard};
use curfew_store::{Durability, Migration, Queue, Sqlite};

pub use crate::forms;
pub use rows::{Locked, lock_numbered, lock_row, save_histories, save_rows};
pub use settle::tell_stories;
pub use transact::{Halt, book_error, unread, write};

use crate::unreadable::Unreadable;
use crate::{
    Accepted, AuditEntry, Book, BookError, BookState, Day, Door, Evidence, EvidenceTaken, Filter, HoldRow, JobView, Load, Mark, OpenVerb, OpenedVerb,
    Page, Planned, Row, Story, SuppressionRow, Told, VerbEnd, VerbRequest,
};

/// The book's tables, in their order.
pub const MIGRATIONS: [Migration; 5] = [
    Migration { name: "book/0001_book", sql: include_str!("migrations/0001_book.sql") },
    Migration { name: "book/0002_items", sql: include_str!("migrations/0002_items.sql") },
    Migration { name: "book/0003_registry", sql: include_str!("migrations/0003_registry.sql") },
    Migration { name: "book/0004_schedules", sql: include_str!("migrations/0004_schedules.sql") },
    Migration { name: "book/0005_drain", sql: include_str!("migrations/0005_drain.sql") },
];

/// The book in a SQLite store.
#[derive(Clone, Debug)]
pub struct SqlBook {
    store: Sqlite,
    unreadable: Arc<Unreadable>,
}

impl SqlBook {
    /// Brings the tables up to date. Repeating is free.
    ///
    /// # Errors
    /// `Store` where a migration fails, `Unavailable` where the store doesn't answer.
    pub async fn open(store: Sqlite) -> Result<Self, BookError> {
        store.migrate(&MIGRATIONS).await.map_err(|error| book_error("migrate the book", &error))?;
        Ok(Self { store, unreadable: Arc::default() })
    }

    /// The store, for whoever writes in the same transactions.
    pub fn store(&self) -> &Sqlite {
        &self.store
    }
}

#[async_trait]
impl Book for SqlBook {
    async fn accept(&self, jobs: Vec<Job>, door: &Door) -> Result<Vec<Accepted>, BookError> {
        accept::accept(&self.store, jobs, door).await
    }

    async fn plan(&self, shards: &[Shard], until: Moment, limit: u32) -> Result<Vec<Planned>, BookError> {
        stage::plan(&self.store, &self.unreadable, shards, until, limit).await
    }

    async fn next_release(&self) -> Result<Option<Moment>, BookError> {
        stage::next_release(&self.store).await
    }

    async fn mark_staged(&self, rows: &[Mark]) -> Result<(), BookError> {
        stage::mark_staged(&self.store, rows).await
    }

    async fn settle(&self, stories: Vec<Story>, at: Moment) -> Result<Vec<Told>, BookError> {
        tell_stories(&self.store, stories, std::collections::BTreeMap::new(), at).await
    }

    async fn evidence(&self, evidence: Evidence) -> Result<EvidenceTaken, BookError> {
        evidence::take(&self.store, evidence).await
    }

    async fn open_verb(&self, request: VerbRequest) -> Result<OpenedVerb, BookError> {
        verbs::open(&self.store, request).await
    }

    async fn close_verb(&self, number: u64, end: VerbEnd, at: Moment) -> Result<bool, BookError> {
        verbs::close(&self.store, number, end, at).await
    }

    async fn open_verbs(&self, before: Moment, limit: u32) -> Result<Vec<OpenVerb>, BookError> {
        verbs::open_verbs(&self.store, before, limit).await
    }

    async fn by_key(&self, key: &Key) -> Result<Option<Row>, BookError> {
        query::by_key(&self.store, key).await
    }

    async fn by_id(&self, id: JobId) -> Result<Option<Row>, BookError> {
        query::by_id(&self.store, id).await
    }

    async fn rows(&self, keys: &[Key]) -> Result<Vec<Option<JobView>>, BookError> {
        query::rows(&self.store, &self.unreadable, keys).await
    }

    async fn list(&self, filter: &Filter) -> Result<Page<JobView>, BookError> {
        query::list(&self.store, filter).await
    }

    async fn staged_after(&self, after: Option<&Key>, limit: u32) -> Result<Vec<JobView>, BookError> {
        query::staged_after(&self.store, &self.unreadable, after, limit).await
    }

    async fn day(&self, date: &str, tenant: Option<&str>) -> Result<Day, BookError> {
        query::day(&self.store, date, tenant).await
    }

    async fn load(&self, date: &str, latest: u32) -> Result<Load, BookError> {
        query::load(&self.store, date, latest).await
    }

    async fn day_differences(&self, date: &str, tenant: Option<&str>, limit: u32) -> Result<Vec<(JobId, Option<Key>, Option<BookState>)>, BookError> {
        query::day_differences(&self.store, date, tenant, limit).await
    }

    async fn day_staged(&self, date: &str, tenant: Option<&str>, after: Option<&Key>, limit: u32) -> Result<Vec<Key>, BookError> {
        query::day_staged(&self.store, date, tenant, after, limit).await
    }

    async fn suppress_recipient(&self, row: SuppressionRow) -> Result<bool, BookError> {
        holds::suppress(&self.store, row).await
    }

    async fn unsuppress_recipient(
        &self,
        tenant: Option<&str>,
        recipient: &RecipientRef,
        actor: &str,
        reason: &str,
        at: Moment,
    ) -> Result<bool, BookError> {
        holds::unsuppress(&self.store, tenant, recipient, actor, reason, at).await
    }

    async fn suppressions(&self) -> Result<Vec<SuppressionRow>, BookError> {
        holds::suppressions(&self.store).await
    }

    async fn hold(&self, row: HoldRow) -> Result<(), BookError> {
        holds::hold(&self.store, row).await
    }

    async fn lift(&self, kind: &str, name: &str, by: &str, actor: &str, reason: &str, at: Moment) -> Result<bool, BookError> {
        let lift =
            holds::Lift { kind: kind.to_owned(), name: name.to_owned(), by: by.to_owned(), actor: actor.to_owned(), reason: reason.to_owned(), at };
        holds::lift(&self.store, lift).await
    }

    async fn holds(&self) -> Result<Vec<HoldRow>, BookError> {
        holds::holds(&self.store).await
    }

    async fn audit(&self, at: Moment, actor: &str, action: &str, object: &str, reason: &str, detail: &str) -> Result<(), BookError> {
        let texts = [actor, action, object, reason, detail].map(str::to_owned);
        write(&self.store, Queue::Ledger, Durability::Disk, "append to the audit trail", move |conn| {
            Box::pin(async move {
                let [actor, action, object, reason, detail] = &texts;
                audit::append(conn, audit::Entry { at, actor, action, object, reason, detail }).await
            })
        })
        .await
    }

    async fn audit_list(&self, cursor: Option<&str>, limit: u32) -> Result<Page<AuditEntry>, BookError> {
        audit::list(&self.store, cursor, limit).await
    }

    async fn audit_verify(&self) -> Result<Result<u64, u64>, BookError> {
        audit::verify(&self.store).await
    }

    async fn constants(&self, given: &[(String, String)]) -> Result<Vec<(String, String)>, BookError> {
        holds::constants(&self.store, given).await
    }

    async fn beat(&self, ledger_count: u64, at: Moment) -> Result<(), BookError> {
        holds::beat(&self.store, ledger_count, at).await
    }

    async fn last_beat(&self) -> Result<Option<(u64, Moment)>, BookError> {
        holds::last_beat(&self.store).await
    }
}
