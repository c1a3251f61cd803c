//! A gate before each call of a store: whoever comes there waits until the driver lets it pass, so that one actor runs at a time and the
//! seed alone decides who is next, whose reply is lost, and who dies between two calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use curfew_book::{
    Accepted, AuditEntry, Book, BookError, BookState, Day, Door, Drain, Enrolled, Enrolment, Evidence, EvidenceTaken, Filter, HoldRow, JobView, Load,
    Mark, OpenVerb, OpenedVerb, Orders, Page, Planned, Recovery, Registry, Row, Story, SuppressionRow, Told, VerbEnd, VerbRequest, VerbSeen,
};
use curfew_domain::history::HistoryEntry;
use curfew_domain::record::WaitingFor;
use curfew_domain::sealed::RecipientRef;
use curfew_domain::transition::{Counter, Index};
use curfew_domain::{JobId, Key, Moment, Record, Shard, State, WorkerId};
use curfew_ledger::{Beat, Create, Created, Entry, Hold, Holds, Ledger, LedgerError, LineEntry, Suppression, Swap, Swapped, TimerEntry};
use curfew_review::{Correction, Item, Quarantined, Replay, Replayed, Review, ReviewError, ReviewFilter};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::truth::Truths;

/// What the driver says to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// It runs.
    Go,
    /// It fails, and nothing is done.
    FailBefore,
    /// It runs, and its reply is lost.
    FailAfter,
}

/// Somebody stands at a gate, or is done.
pub enum Heard {
    At(usize, oneshot::Sender<Pass>),
    Done,
}

/// One actor's gate.
#[derive(Clone)]
pub struct Gate {
    pub actor: usize,
    pub driver: mpsc::UnboundedSender<Heard>,
}

impl Gate {
    pub async fn pass(&self) -> Pass {
        let (go, wait) = oneshot::channel();
        let _driver_gone = self.driver.send(Heard::At(self.actor, go));
        match wait.await {
            Ok(pass) => pass,
            Err(_driver_gone) => std::future::pending().await,
        }
    }
}

/// The stores behind one actor's gate.
pub struct Gated<T: ?Sized> {
    pub inner: Arc<T>,
    pub gate: Gate,
    pub truths: Arc<Truths>,
}

macro_rules! through {
    ($self:ident, $lost:expr, $call:expr) => {
        match $self.gate.pass().await {
            Pass::Go => $call.await,
            Pass::FailBefore => Err($lost),
            Pass::FailAfter => $call.await.and_then(|_reply| Err($lost)),
        }
    };
}

const fn ledger_lost() -> LedgerError {
    LedgerError::Unavailable { operation: "a lost reply" }
}

const fn book_lost() -> BookError {
    BookError::Unavailable { operation: "a lost reply" }
}

#[async_trait]
impl Ledger for Gated<dyn Ledger> {
    async fn now(&self) -> Result<Moment, LedgerError> {
        self.inner.now().await
    }
    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Created>, LedgerError> {
        through!(self, ledger_lost(), self.inner.create(creates))
    }
    async fn swap(&self, swap: Swap) -> Result<Swapped, LedgerError> {
        through!(self, ledger_lost(), self.inner.swap(swap))
    }
    async fn swap_all(&self, swaps: Vec<Swap>) -> Result<Vec<Swapped>, LedgerError> {
        if swaps.is_empty() {
            return Ok(Vec::new());
        }
        through!(self, ledger_lost(), self.inner.swap_all(swaps))
    }
    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        through!(self, ledger_lost(), self.inner.get(key))
    }
    async fn records(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, LedgerError> {
        through!(self, ledger_lost(), self.inner.records(keys))
    }
    async fn overdue(&self, shard: Shard, index: Index, now: Moment, limit: usize) -> Result<Vec<TimerEntry>, LedgerError> {
        through!(self, ledger_lost(), self.inner.overdue(shard, index, now, limit))
    }
    async fn histories(&self, keys: &[Key]) -> Result<Vec<Vec<HistoryEntry>>, LedgerError> {
        through!(self, ledger_lost(), self.inner.histories(keys))
    }
    async fn postpone(&self, timers: Vec<(Key, u64, Moment)>) -> Result<(), LedgerError> {
        self.inner.postpone(timers).await
    }
    async fn move_in_line(&self, places: Vec<(Key, u64, Moment)>) -> Result<(), LedgerError> {
        self.inner.move_in_line(places).await
    }
    async fn lines(&self, shard: Shard, now: Moment, per_tenant: usize, limit: usize, skip: &[String]) -> Result<Vec<LineEntry>, LedgerError> {
        self.inner.lines(shard, now, per_tenant, limit, skip).await
    }
    async fn counts(&self, shard: Shard, counters: &[Counter]) -> Result<Vec<u64>, LedgerError> {
        self.inner.counts(shard, counters).await
    }
    async fn oldest_due(&self, shard: Shard, now: Moment) -> Result<Option<Moment>, LedgerError> {
        self.inner.oldest_due(shard, now).await
    }
    async fn walk(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<(Record, Option<TimerEntry>, Option<Moment>)>, LedgerError> {
        self.inner.walk(shard, after, limit).await
    }
    async fn recount(&self, shard: Shard) -> Result<u64, LedgerError> {
        self.inner.recount(shard).await
    }
    async fn restore_timer(&self, key: &Key) -> Result<bool, LedgerError> {
        self.inner.restore_timer(key).await
    }
    async fn expire(&self, now: Moment, limit: usize) -> Result<u64, LedgerError> {
        self.inner.expire(now, limit).await
    }
    async fn set_suppressions(&self, all: Vec<Suppression>) -> Result<(), LedgerError> {
        through!(self, ledger_lost(), self.inner.set_suppressions(all))
    }
    async fn set_hold(&self, hold: Hold, by: Option<(WaitingFor, Option<Moment>)>) -> Result<(), LedgerError> {
        self.inner.set_hold(hold, by).await
    }
    async fn holds(&self) -> Result<Holds, LedgerError> {
        self.inner.holds().await
    }
    async fn permits(&self, name: &str, per_second: f64, n: u32) -> Result<(u32, Moment), LedgerError> {
        self.inner.permits(name, per_second, n).await
    }
    async fn beat(&self, count: u64) -> Result<(), LedgerError> {
        self.inner.beat(count).await
    }
    async fn last_beat(&self) -> Result<Option<Beat>, LedgerError> {
        self.inner.last_beat().await
    }
    async fn live_by_state(&self) -> Result<BTreeMap<State, u64>, LedgerError> {
        self.inner.live_by_state().await
    }
    fn leases_die_with_process(&self) -> bool {
        true
    }
}

#[async_trait]
impl Registry for Gated<dyn Book> {
    async fn enrol(&self, process: &Enrolment) -> Result<(), BookError> {
        self.inner.enrol(process).await
    }
    async fn measured(&self, id: WorkerId, drain: Drain) -> Result<(), BookError> {
        self.inner.measured(id, drain).await
    }
    async fn alive(&self, id: WorkerId, at: Moment) -> Result<Orders, BookError> {
        self.inner.alive(id, at).await
    }
    async fn orders(&self, id: WorkerId) -> Result<Orders, BookError> {
        self.inner.orders(id).await
    }
    async fn leave(&self, id: WorkerId, at: Moment) -> Result<(), BookError> {
        self.inner.leave(id, at).await
    }
    async fn enrolled(&self, since: Moment) -> Result<Vec<Enrolled>, BookError> {
        self.inner.enrolled(since).await
    }
    async fn ask_to_drain(&self, at: Moment) -> Result<u64, BookError> {
        self.inner.ask_to_drain(at).await
    }
    async fn incarnations(&self) -> Result<BTreeMap<Shard, u32>, BookError> {
        self.inner.incarnations().await
    }
    async fn raise(&self, shard: Shard, from: u32) -> Result<u32, BookError> {
        self.inner.raise(shard, from).await
    }
    async fn reported(&self, id: WorkerId, shard: Shard, incarnation: u32) -> Result<(), BookError> {
        self.inner.reported(id, shard, incarnation).await
    }
    async fn reports(&self, shard: Shard, incarnation: u32) -> Result<BTreeSet<WorkerId>, BookError> {
        self.inner.reports(shard, incarnation).await
    }
}

#[async_trait]
impl Recovery for Gated<dyn Book> {
    async fn rows_of(&self, shard: Shard, state: BookState, until: Moment, after: Option<&Key>, limit: u32) -> Result<Vec<JobView>, BookError> {
        self.inner.rows_of(shard, state, until, after, limit).await
    }
    async fn verbs_of(&self, keys: &[Key]) -> Result<Vec<(Key, VerbSeen)>, BookError> {
        self.inner.verbs_of(keys).await
    }
    async fn take_back(&self, mark: &Mark, at: Moment) -> Result<bool, BookError> {
        self.inner.take_back(mark, at).await
    }
}

#[async_trait]
impl Book for Gated<dyn Book> {
    async fn accept(&self, jobs: Vec<curfew_domain::job::Job>, door: &Door) -> Result<Vec<Accepted>, BookError> {
        self.inner.accept(jobs, door).await
    }
    async fn plan(&self, shards: &[Shard], until: Moment, limit: u32) -> Result<Vec<Planned>, BookError> {
        through!(self, book_lost(), self.inner.plan(shards, until, limit))
    }
    async fn next_release(&self) -> Result<Option<Moment>, BookError> {
        self.inner.next_release().await
    }
    async fn mark_staged(&self, rows: &[Mark]) -> Result<(), BookError> {
        through!(self, book_lost(), self.inner.mark_staged(rows))
    }
    async fn settle(&self, stories: Vec<Story>, at: Moment) -> Result<Vec<Told>, BookError> {
        through!(self, book_lost(), self.inner.settle(stories, at))
    }
    async fn evidence(&self, evidence: Evidence) -> Result<EvidenceTaken, BookError> {
        through!(self, book_lost(), self.inner.evidence(evidence))
    }
    async fn open_verb(&self, request: VerbRequest) -> Result<OpenedVerb, BookError> {
        through!(self, book_lost(), self.inner.open_verb(request))
    }
    async fn close_verb(&self, number: u64, end: VerbEnd, at: Moment) -> Result<bool, BookError> {
        through!(self, book_lost(), self.inner.close_verb(number, end, at))
    }
    async fn open_verbs(&self, before: Moment, limit: u32) -> Result<Vec<OpenVerb>, BookError> {
        through!(self, book_lost(), self.inner.open_verbs(before, limit))
    }
    async fn by_key(&self, key: &Key) -> Result<Option<Row>, BookError> {
        through!(self, book_lost(), self.inner.by_key(key))
    }
    async fn by_id(&self, id: JobId) -> Result<Option<Row>, BookError> {
        self.inner.by_id(id).await
    }
    async fn rows(&self, keys: &[Key]) -> Result<Vec<Option<JobView>>, BookError> {
        self.inner.rows(keys).await
    }
    async fn list(&self, filter: &Filter) -> Result<Page<JobView>, BookError> {
        self.inner.list(filter).await
    }
    async fn staged_after(&self, after: Option<&Key>, limit: u32) -> Result<Vec<JobView>, BookError> {
        self.inner.staged_after(after, limit).await
    }
    async fn day(&self, date: &str, tenant: Option<&str>) -> Result<Day, BookError> {
        self.inner.day(date, tenant).await
    }
    async fn load(&self, date: &str, latest: u32) -> Result<Load, BookError> {
        self.inner.load(date, latest).await
    }
    async fn day_differences(
        &self,
        date: &str,
        tenant: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(JobId, Option<Key>, Option<curfew_book::BookState>)>, BookError> {
        self.inner.day_differences(date, tenant, limit).await
    }
    async fn day_staged(&self, date: &str, tenant: Option<&str>, after: Option<&Key>, limit: u32) -> Result<Vec<Key>, BookError> {
        self.inner.day_staged(date, tenant, after, limit).await
    }
    async fn suppress_recipient(&self, row: SuppressionRow) -> Result<bool, BookError> {
        through!(self, book_lost(), self.inner.suppress_recipient(row))
    }
    async fn unsuppress_recipient(
        &self,
        tenant: Option<&str>,
        recipient: &RecipientRef,
        actor: &str,
        reason: &str,
        at: Moment,
    ) -> Result<bool, BookError> {
        self.inner.unsuppress_recipient(tenant, recipient, actor, reason, at).await
    }
    async fn suppressions(&self) -> Result<Vec<SuppressionRow>, BookError> {
        through!(self, book_lost(), self.inner.suppressions())
    }
    async fn hold(&self, row: HoldRow) -> Result<(), BookError> {
        self.inner.hold(row).await
    }
    async fn lift(&self, kind: &str, name: &str, by: &str, actor: &str, reason: &str, at: Moment) -> Result<bool, BookError> {
        self.inner.lift(kind, name, by, actor, reason, at).await
    }
    async fn holds(&self) -> Result<Vec<HoldRow>, BookError> {
        self.inner.holds().await
    }
    async fn audit(&self, at: Moment, actor: &str, action: &str, object: &str, reason: &str, detail: &str) -> Result<(), BookError> {
        self.inner.audit(at, actor, action, object, reason, detail).await
    }
    async fn audit_list(&self, cursor: Option<&str>, limit: u32) -> Result<Page<AuditEntry>, BookError> {
        self.inner.audit_list(cursor, limit).await
    }
    async fn audit_verify(&self) -> Result<Result<u64, u64>, BookError> {
        self.inner.audit_verify().await
    }
    async fn constants(&self, given: &[(String, String)]) -> Result<Vec<(String, String)>, BookError> {
        self.inner.constants(given).await
    }
    async fn beat(&self, ledger_count: u64, at: Moment) -> Result<(), BookError> {
        self.inner.beat(ledger_count, at).await
    }
    async fn last_beat(&self) -> Result<Option<(u64, Moment)>, BookError> {
        self.inner.last_beat().await
    }
}

#[async_trait]
impl Review for Gated<dyn Review> {
    async fn record(&self, stories: Vec<Story>, owners: &BTreeMap<String, String>, at: Moment) -> Result<Vec<Told>, ReviewError> {
        through!(self, book_lost(), self.inner.record(stories, owners, at))
    }
    async fn quarantine(&self, message: Quarantined) -> Result<Uuid, ReviewError> {
        self.inner.quarantine(message).await
    }
    async fn list(&self, filter: &ReviewFilter) -> Result<Page<Item>, ReviewError> {
        self.inner.list(filter).await
    }
    async fn show(&self, id: Uuid) -> Result<Option<Item>, ReviewError> {
        self.inner.show(id).await
    }
    async fn open_item_of(&self, key: &Key) -> Result<Option<Item>, ReviewError> {
        through!(self, book_lost(), self.inner.open_item_of(key))
    }
    /// What the operator accepted is true from the commit on, whether or not the reply arrives.
    async fn replay(&self, replay: Replay) -> Result<Replayed, ReviewError> {
        let pass = self.gate.pass().await;
        if pass == Pass::FailBefore {
            return Err(book_lost());
        }
        let replayed = self.inner.replay(replay).await?;
        self.truths.replayed(&replayed.row);
        if pass == Pass::Go { Ok(replayed) } else { Err(book_lost()) }
    }
    async fn correct(&self, correction: Correction) -> Result<Item, ReviewError> {
        self.inner.correct(correction).await
    }
    async fn suppress(&self, id: Uuid, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError> {
        through!(self, book_lost(), self.inner.suppress(id, actor, reason, at))
    }
    async fn escalate(&self, id: Uuid, owner: &str, due_at: Moment, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError> {
        self.inner.escalate(id, owner, due_at, actor, reason, at).await
    }
    async fn assign(&self, id: Uuid, owner: &str, actor: &str, at: Moment) -> Result<Item, ReviewError> {
        self.inner.assign(id, owner, actor, at).await
    }
    async fn note(&self, id: Uuid, text: &str, actor: &str, at: Moment) -> Result<Item, ReviewError> {
        self.inner.note(id, text, actor, at).await
    }
    async fn resolve(&self, id: Uuid, receipt: Option<&str>, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError> {
        through!(self, book_lost(), self.inner.resolve(id, receipt, actor, reason, at))
    }
    async fn open_by_reason(&self) -> Result<BTreeMap<String, u64>, ReviewError> {
        self.inner.open_by_reason().await
    }
    async fn oldest_in_doubt(&self) -> Result<Option<Moment>, ReviewError> {
        self.inner.oldest_in_doubt().await
    }
}
