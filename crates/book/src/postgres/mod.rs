//! The PostgreSQL adapter: every write is one transaction, in which rows are locked in the order of their keys.
//!
//! Locks are taken in one order everywhere: keys or rows of jobs (by key), then their items, then the audit trail. What is locked is read
//! in a later statement, for under `READ COMMITTED` a statement's snapshot may be older than the lock it waited for. Judging is
//! `crate::judge`'s; here rows are read, saved and counted. What `review` needs in its own transactions is public here.
//!
//! A commit that is answered is worth what the server is set to (`Postgres::durability`). Two writes don't wait for it: marks of staging,
//! which are made again, and the soft claims of `plan`. A settle does wait, other than in SQLite: the ledger, elsewhere, closes its record
//! right after it. Read `rows.rs` next, then `settle.rs`.

mod accept;
pub mod audit;
mod evidence;
mod holds;
pub mod items;
mod months;
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

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use async_trait::async_trait;
use curfew_domain::job::Job;
use curfew_domain::sealed::RecipientRef;
use curfew_domain::{JobId, Key, Moment, Shard};
use curfew_store::{Durability, Migration, Postgres};
use uuid::Uuid;

pub use crate::sql::{Halt, book_error};
pub use rows::{Locked, lock_id, lock_row, save_histories, save_rows};
pub use settle::tell_stories;
pub use transact::{unread, write};

use crate::unreadable::Unreadable;
use crate::{
    Accepted, AuditEntry, Book, BookError, BookState, Day, Door, Evidence, EvidenceTaken, Filter, HoldRow, JobView, Load, Mark, OpenVerb, OpenedVerb,
    Page, Planned, Row, Story, SuppressionRow, Told, VerbEnd, VerbRequest,
};

/// The book's tables, in their order. `review`'s come after them.
pub const MIGRATIONS: [Migration; 7] = [
    Migration { name: "book/0001_book", sql: include_str!("migrations/0001_book.sql") },
    Migration { name: "book/0002_items", sql: include_str!("migrations/0002_items.sql") },
    Migration { name: "book/0003_months", sql: include_str!("migrations/0003_months.sql") },
    Migration { name: "book/0004_fleet", sql: include_str!("migrations/0004_fleet.sql") },
    Migration { name: "book/0005_registry", sql: include_str!("migrations/0005_registry.sql") },
    Migration { name: "book/0006_schedules", sql: include_str!("migrations/0006_schedules.sql") },
    Migration { name: "book/0007_drain", sql: include_str!("migrations/0007_drain.sql") },
];

/// The book in a PostgreSQL store. Clones are one scheduler to `plan`.
#[derive(Clone, Debug)]
pub struct PostgresBook {
    store: Postgres,
    /// Names this process in soft claims.
    me: Uuid,
    /// The ms until which months are known to be made.
    months_until: Arc<AtomicI64>,
    unreadable: Arc<Unreadable>,
}

impl PostgresBook {
    /// Opens the book; its tables must be up to date (`Postgres::migrate` with [`MIGRATIONS`]), for a fleet migrates when its operator says so.
    ///
    /// # Errors
    /// `Store` where a migration is pending, naming it; `Unavailable` where the server doesn't answer.
    pub async fn open(store: Postgres) -> Result<Self, BookError> {
        up_to_date(&store, &MIGRATIONS).await?;
        Ok(Self { store, me: Uuid::new_v4(), months_until: Arc::default(), unreadable: Arc::default() })
    }

    /// The store, for whoever writes in the same transactions.
    pub fn store(&self) -> &Postgres {
        &self.store
    }

    /// Names this process in soft claims.
    pub(super) fn me(&self) -> Uuid {
        self.me
    }

    /// Makes the months of `at` and the two after it, where they are missing; rows of theirs that came too early are moved. `beat` does so
    /// by itself. Repeating is free.
    ///
    /// # Errors
    /// `Unavailable`; `Store` where the role may not create tables: rows then go to the rest, and nothing is refused.
    pub async fn make_months(&self, at: Moment) -> Result<(), BookError> {
        months::make(&self.store, &self.months_until, at).await
    }
}

/// Refuses a store whose tables are older than this build's.
///
/// # Errors
/// `Store`, naming what is pending; `Unavailable`.
pub async fn up_to_date(store: &Postgres, migrations: &[Migration]) -> Result<(), BookError> {
    let pending = store.pending(migrations).await.map_err(|error| book_error("list migrations", &error))?;
    if pending.is_empty() {
        return Ok(());
    }
    Err(BookError::Store(format!("not migrated: {} (run `curfew book migrate`)", pending.join(", "))))
}

#[async_trait]
impl Book for PostgresBook {
    async fn accept(&self, jobs: Vec<Job>, door: &Door) -> Result<Vec<Accepted>, BookError> {
        accept::accept(&self.store, jobs, door).await
    }

    async fn plan(&self, shards: &[Shard], until: Moment, limit: u32) -> Result<Vec<Planned>, BookError> {
        let left = stage::plan(&self.store, self.me, shards, until, limit).await?;
        self.unreadable.tell(left.unreadable.len(), left.unreadable.first().map(|(id, error)| (id.as_slice(), error)));
        self.unreadable.note_newer(left.newer);
        Ok(left.planned)
    }

    fn met_newer(&self) -> BTreeSet<Shard> {
        self.unreadable.take_newer()
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
        let (tenant, recipient, actor, reason) = (tenant.map(str::to_owned), recipient.clone(), actor.to_owned(), reason.to_owned());
        holds::unsuppress(&self.store, holds::Unsuppress { tenant, recipient, actor, reason, at }).await
    }

    async fn suppressions(&self) -> Result<Vec<SuppressionRow>, BookError> {
        holds::suppressions(&self.store).await
    }

    async fn hold(&self, row: HoldRow) -> Result<(), BookError> {
        holds::hold(&self.store, row).await
    }

    async fn lift(&self, kind: &str, name: &str, by: &str, actor: &str, reason: &str, at: Moment) -> Result<bool, BookError> {
        let [kind, name, by, actor, reason] = [kind, name, by, actor, reason].map(str::to_owned);
        holds::lift(&self.store, holds::Lift { kind, name, by, actor, reason, at }).await
    }

    async fn holds(&self) -> Result<Vec<HoldRow>, BookError> {
        holds::holds(&self.store).await
    }

    async fn audit(&self, at: Moment, actor: &str, action: &str, object: &str, reason: &str, detail: &str) -> Result<(), BookError> {
        let texts = [actor, action, object, reason, detail].map(str::to_owned);
        write(&self.store, Durability::Disk, "append to the audit trail", texts, move |conn, [actor, action, object, reason, detail]| {
            Box::pin(audit::append(conn, audit::Entry { at, actor, action, object, reason, detail }))
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
        months::make_ahead(&self.store, &self.months_until, at).await;
        holds::beat(&self.store, ledger_count, at).await
    }

    async fn last_beat(&self) -> Result<Option<(u64, Moment)>, BookError> {
        holds::last_beat(&self.store).await
    }

    async fn clock(&self) -> Result<Option<Moment>, BookError> {
        holds::clock(&self.store).await.map(Some)
    }
}
