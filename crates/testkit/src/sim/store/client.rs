//! What a process holds of the store: the ports, each call over its way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use curfew_book::{
    Accepted, AuditEntry, Book, BookError, BookState, Day, Door, Drain, Enrolled, Enrolment, Evidence, EvidenceTaken, Filter, HoldRow, JobView, Load,
    Mark, OpenVerb, OpenedVerb, Orders, Page, Planned, Recovery, Registry, Row, Story, SuppressionRow, Told, VerbEnd, VerbRequest, VerbSeen, judge,
};
use curfew_domain::job::Job;
use curfew_domain::sealed::RecipientRef;
use curfew_domain::{JobId, Key, Moment, Shard, WorkerId};
use uuid::Uuid;

use super::reading::{self, Difference};
use super::server::{SimStoreServer, Tx, Waits};
use super::tables::Tables;
use super::{door, registry, small, verbs};
use crate::sim::{Link, Lost};

/// The door's bound, as in the other adapters.
const JOBS_MAX: usize = 500;

/// One process's book and review store.
pub struct SimStore {
    link: Link,
    server: Arc<SimStoreServer>,
    /// Names this process in soft claims.
    me: Uuid,
}

impl SimStore {
    pub(super) fn new(link: Link, server: Arc<SimStoreServer>) -> Self {
        let me = link.world.uuid();
        Self { link, server, me }
    }

    /// Asks for something of one moment.
    pub(super) async fn read<T>(&self, operation: &'static str, read: impl FnOnce(&Tables) -> T) -> Result<T, BookError> {
        answered(operation, self.link.call(operation, || self.server.read(read)).await)
    }

    /// One transaction that can't be refused.
    async fn change<T>(&self, operation: &'static str, work: impl FnOnce(&mut Tx<'_>) -> T) -> Result<T, BookError> {
        self.write(operation, |tx| Ok(work(tx))).await
    }

    /// One transaction that waits for the disk.
    pub(super) async fn write<T>(&self, operation: &'static str, work: impl FnOnce(&mut Tx<'_>) -> Result<T, BookError>) -> Result<T, BookError> {
        self.commit(operation, Waits::ForTheDisk, work).await
    }

    async fn commit<T>(&self, operation: &'static str, waits: Waits, work: impl FnOnce(&mut Tx<'_>) -> Result<T, BookError>) -> Result<T, BookError> {
        answered(operation, self.link.call(operation, || self.server.write(waits, work)).await)?
    }
}

/// Nothing is known of a call that wasn't answered.
fn answered<T>(operation: &'static str, answer: Result<T, Lost>) -> Result<T, BookError> {
    answer.map_err(|Lost| BookError::Unavailable { operation })
}

#[async_trait]
impl Book for SimStore {
    async fn accept(&self, jobs: Vec<Job>, door: &Door) -> Result<Vec<Accepted>, BookError> {
        if jobs.len() > JOBS_MAX {
            return Err(BookError::Invalid { field: "jobs", reason: format!("more than {JOBS_MAX} at once") });
        }
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.change("accept", |tx| tx.accept(jobs, door)).await
    }

    async fn plan(&self, shards: &[Shard], until: Moment, limit: u32) -> Result<Vec<Planned>, BookError> {
        self.commit("plan", Waits::ForNothing, |tx| Ok(tx.plan(self.me, shards, until, limit))).await
    }

    async fn next_release(&self) -> Result<Option<Moment>, BookError> {
        self.read("find the next release", door::next_release).await
    }

    async fn mark_staged(&self, rows: &[Mark]) -> Result<(), BookError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.commit("mark staged", Waits::ForNothing, |tx| tx.mark_staged(rows)).await
    }

    async fn settle(&self, stories: Vec<Story>, at: Moment) -> Result<Vec<Told>, BookError> {
        self.tell(stories, &BTreeMap::new(), at).await
    }

    async fn evidence(&self, evidence: Evidence) -> Result<EvidenceTaken, BookError> {
        self.change("take evidence", |tx| tx.take_evidence(&evidence)).await
    }

    async fn open_verb(&self, request: VerbRequest) -> Result<OpenedVerb, BookError> {
        judge::check(&request)?;
        self.change("open a verb", |tx| tx.open_verb(&request)).await
    }

    async fn close_verb(&self, number: u64, end: VerbEnd, at: Moment) -> Result<bool, BookError> {
        self.write("close a verb", |tx| tx.close_verb(number, &end, at)).await
    }

    async fn open_verbs(&self, before: Moment, limit: u32) -> Result<Vec<OpenVerb>, BookError> {
        self.read("list open verbs", |tables| verbs::open_verbs(tables, before, limit)).await
    }

    async fn by_key(&self, key: &Key) -> Result<Option<Row>, BookError> {
        self.read("read a row", |tables| tables.by_key(key)).await
    }

    async fn by_id(&self, id: JobId) -> Result<Option<Row>, BookError> {
        self.read("read a row", |tables| tables.whole(&id)).await
    }

    async fn rows(&self, keys: &[Key]) -> Result<Vec<Option<JobView>>, BookError> {
        self.read("read rows", |tables| keys.iter().map(|key| tables.view(tables.keys.get(key)?)).collect()).await
    }

    async fn list(&self, filter: &Filter) -> Result<Page<JobView>, BookError> {
        self.read("list jobs", |tables| reading::list(tables, filter)).await?
    }

    async fn staged_after(&self, after: Option<&Key>, limit: u32) -> Result<Vec<JobView>, BookError> {
        self.read("list staged rows", |tables| reading::staged_after(tables, after, limit)).await
    }

    async fn day(&self, date: &str, tenant: Option<&str>) -> Result<Day, BookError> {
        self.read("count a day", |tables| reading::day(tables, date, tenant)).await
    }

    async fn load(&self, date: &str, latest: u32) -> Result<Load, BookError> {
        self.read("find the busiest minute", |tables| reading::load(tables, date, latest)).await
    }

    async fn day_differences(&self, date: &str, tenant: Option<&str>, limit: u32) -> Result<Vec<Difference>, BookError> {
        self.read("find a day's differences", |tables| reading::day_differences(tables, date, tenant, limit)).await
    }

    async fn day_staged(&self, date: &str, tenant: Option<&str>, after: Option<&Key>, limit: u32) -> Result<Vec<Key>, BookError> {
        self.read("list a day's staged rows", |tables| reading::day_staged(tables, date, tenant, after, limit)).await
    }

    async fn suppress_recipient(&self, row: SuppressionRow) -> Result<bool, BookError> {
        self.change("suppress a recipient", |tx| tx.suppress_recipient(row)).await
    }

    async fn unsuppress_recipient(
        &self,
        tenant: Option<&str>,
        recipient: &RecipientRef,
        actor: &str,
        reason: &str,
        at: Moment,
    ) -> Result<bool, BookError> {
        self.change("unsuppress a recipient", |tx| tx.unsuppress_recipient(tenant, recipient, (actor, reason), at)).await
    }

    async fn suppressions(&self) -> Result<Vec<SuppressionRow>, BookError> {
        self.read("list suppressions", small::suppressions).await
    }

    async fn hold(&self, row: HoldRow) -> Result<(), BookError> {
        self.change("hold", |tx| tx.hold(row)).await
    }

    async fn lift(&self, kind: &str, name: &str, by: &str, actor: &str, reason: &str, at: Moment) -> Result<bool, BookError> {
        self.change("lift a hold", |tx| tx.lift([kind, name, by], (actor, reason), at)).await
    }

    async fn holds(&self) -> Result<Vec<HoldRow>, BookError> {
        self.read("list holds", |tables| tables.holds.values().cloned().collect()).await
    }

    async fn audit(&self, at: Moment, actor: &str, action: &str, object: &str, reason: &str, detail: &str) -> Result<(), BookError> {
        self.change("append to the audit trail", |tx| tx.trail(at, [actor, action, object, reason, detail])).await
    }

    async fn audit_list(&self, cursor: Option<&str>, limit: u32) -> Result<Page<AuditEntry>, BookError> {
        self.read("list the audit trail", |tables| small::audit_list(tables, cursor, limit)).await?
    }

    async fn audit_verify(&self) -> Result<Result<u64, u64>, BookError> {
        self.read("verify the audit trail", small::audit_verify).await
    }

    async fn constants(&self, given: &[(String, String)]) -> Result<Vec<(String, String)>, BookError> {
        self.change("write the constants", |tx| tx.constants(given)).await
    }

    async fn beat(&self, ledger_count: u64, at: Moment) -> Result<(), BookError> {
        self.change("write a beat", |tx| tx.tables.beat = Some((ledger_count, at))).await
    }

    async fn last_beat(&self) -> Result<Option<(u64, Moment)>, BookError> {
        self.read("read the beat", |tables| tables.beat).await
    }

    async fn clock(&self) -> Result<Option<Moment>, BookError> {
        let operation = "read the clock";
        answered(operation, self.link.call(operation, || Some(self.server.clock())).await)
    }
}

impl SimStore {
    /// Stories of ended records, and dead letters.
    pub(super) async fn tell(&self, stories: Vec<Story>, owners: &BTreeMap<String, String>, at: Moment) -> Result<Vec<Told>, BookError> {
        if stories.is_empty() {
            return Ok(Vec::new());
        }
        self.write("tell stories", |tx| tx.tell(&stories, owners, at)).await
    }
}

#[async_trait]
impl Registry for SimStore {
    async fn enrol(&self, process: &Enrolment) -> Result<(), BookError> {
        self.change("enrol", |tx| tx.enrol(process.clone())).await
    }

    async fn measured(&self, id: WorkerId, drain: Drain) -> Result<(), BookError> {
        self.change("keep a drain", |tx| tx.measured(id, drain)).await
    }

    async fn alive(&self, id: WorkerId, at: Moment) -> Result<Orders, BookError> {
        self.change("beat", |tx| tx.alive(id, at)).await
    }

    async fn orders(&self, id: WorkerId) -> Result<Orders, BookError> {
        self.read("read orders", |tables| registry::orders(tables, id)).await
    }

    async fn leave(&self, id: WorkerId, at: Moment) -> Result<(), BookError> {
        self.change("leave", |tx| tx.leave(id, at)).await
    }

    async fn enrolled(&self, since: Moment) -> Result<Vec<Enrolled>, BookError> {
        self.read("list processes", |tables| registry::enrolled(tables, since)).await
    }

    async fn ask_to_drain(&self, at: Moment) -> Result<u64, BookError> {
        self.change("ask to drain", |tx| tx.ask_to_drain(at)).await
    }

    async fn incarnations(&self) -> Result<BTreeMap<Shard, u32>, BookError> {
        self.read("read the incarnations", |tables| tables.shards.iter().map(|(shard, stands)| (*shard, *stands)).collect()).await
    }

    async fn raise(&self, shard: Shard, from: u32) -> Result<u32, BookError> {
        self.change("raise an incarnation", |tx| tx.raise(shard, from)).await
    }

    async fn reported(&self, id: WorkerId, shard: Shard, incarnation: u32) -> Result<(), BookError> {
        self.change("report", |tx| tx.tables.reports.insert((shard, incarnation, id), ())).await.map(drop)
    }

    async fn reports(&self, shard: Shard, incarnation: u32) -> Result<BTreeSet<WorkerId>, BookError> {
        self.read("read reports", |tables| registry::reports(tables, shard, incarnation)).await
    }
}

#[async_trait]
impl Recovery for SimStore {
    async fn rows_of(&self, shard: Shard, state: BookState, until: Moment, after: Option<&Key>, limit: u32) -> Result<Vec<JobView>, BookError> {
        match state {
            BookState::Planned | BookState::Staged => {
                self.read("list a shard's rows", |tables| reading::rows_of(tables, (shard, state), until, after, limit)).await
            }
            BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed => Ok(Vec::new()),
        }
    }

    async fn verbs_of(&self, keys: &[Key]) -> Result<Vec<(Key, VerbSeen)>, BookError> {
        self.read("list jobs' verbs", |tables| verbs::verbs_of(tables, keys)).await
    }

    async fn take_back(&self, mark: &Mark, at: Moment) -> Result<bool, BookError> {
        self.write("take a row back", |tx| tx.take_back(mark, at)).await
    }
}
