//! The port: what roles and operators ask of the book.

use std::collections::BTreeSet;

use async_trait::async_trait;
use curfew_domain::history::HistoryEntry;
use curfew_domain::job::Job;
use curfew_domain::outcome::{Outcome, Receipt};
use curfew_domain::sealed::RecipientRef;
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{JobId, Key, Moment, Record, Shard, State, Token};

use crate::view::{Day, HoldRow, JobView, Load, Row, SuppressionRow};
use crate::{BookError, Recovery, Registry};

/// Who owns a row, or how it ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BookState {
    /// The book's: not staged in its present generation.
    Planned,
    /// The ledger's.
    Staged,
    /// Final.
    Sent,
    /// Its dead letter is recorded.
    DeadLetter,
    /// Ended by an operator.
    Cancelled,
    /// Ended by Curfew's own decision.
    Suppressed,
}

impl BookState {
    /// Every state, in the order of a job's life.
    pub const ALL: [BookState; 6] =
        [BookState::Planned, BookState::Staged, BookState::Sent, BookState::DeadLetter, BookState::Cancelled, BookState::Suppressed];

    /// The state of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// As shown; `staged` is shown as the record's own state.
    pub const fn word(self) -> &'static str {
        match self {
            BookState::Planned => "planned",
            BookState::Staged => "staged",
            BookState::Sent => "sent",
            BookState::DeadLetter => "dead_letter",
            BookState::Cancelled => "cancelled",
            BookState::Suppressed => "suppressed",
        }
    }
}

/// What the door answers for one job.
#[derive(Clone, PartialEq, Debug)]
pub enum Accepted {
    /// Accepted now; `Suppressed` where the recipient stands on a suppressions list.
    New(BookState),
    /// The same key with the same content: the job as it stands.
    Duplicate(Box<Row>),
    /// The same key with other content; these fields differ.
    Conflict(JobId, Vec<String>),
}

/// How a batch came in, for the door's log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Door {
    /// When, by the ledger's clock.
    pub at: Moment,
    /// The operator's name, or `local`.
    pub actor: String,
}

/// A planned row, ready to be staged.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    /// The row as read.
    pub row: Row,
}

/// A row that the ledger took over, as the errand that staged it names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Which.
    pub key: Key,
    /// In which generation.
    pub generation: u32,
    /// Its shard.
    pub shard: Shard,
    /// The incarnation of the shard in which the errand began.
    pub incarnation: u32,
}

/// What the ledger tells the book: one version of a record, with its history.
#[derive(Clone, PartialEq, Debug)]
pub struct Story {
    /// The record at that version.
    pub record: Record,
    /// The story so far.
    pub history: Vec<HistoryEntry>,
}

/// What the book made of a story.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// Written, or known already at this very version: close the record.
    Written,
    /// An older story: nothing changed; it still closes its record.
    Older,
    /// The book has no such job: it lost its tail. The record must not be closed, for it alone knows the job.
    Unknown,
}

/// What became of a token, where no record can take it.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// Whose.
    pub key: Key,
    /// The generation of the token.
    pub generation: u32,
    /// The token; `None` where a provider's event names the job alone: then it speaks of the one open doubt.
    pub token: Option<Token>,
    /// What became of it.
    pub fate: Fate,
    /// Who says so.
    pub source: EvidenceSource,
    /// When it was said, by the ledger's clock.
    pub at: Moment,
}

/// What evidence says.
#[derive(Clone, PartialEq, Debug)]
pub enum Fate {
    /// The provider accepted.
    Accepted(Receipt),
    /// It did not, for certain.
    NotAccepted(Box<Outcome>),
}

/// Who brings evidence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EvidenceSource {
    /// A worker's late verdict.
    LateVerdict,
    /// The provider's own event.
    ProviderEvent,
    /// A person, by name.
    Operator(String),
}

/// What the book made of evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvidenceTaken {
    /// The item in doubt became `sent`.
    Sent,
    /// The dead letter stays; its doubt ended.
    DoubtEnded,
    /// Nothing to change: known, or nothing in doubt.
    Known,
    /// A replay is planned, or the row is staged: the ledger decides; bring it there (again) once it is staged.
    AskLedger,
    /// No such job.
    Unknown,
    /// It says otherwise than what is on record (accepted, though refused; refused, though accepted).
    Conflicting,
}

/// An operator's request for a verb.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerbRequest {
    /// On which job.
    pub key: Key,
    /// What.
    pub verb: Verb,
    /// Who asks.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When, by the ledger's clock.
    pub at: Moment,
    /// The staging window in force: a planned job further away, never staged, is changed in the book alone.
    pub book_alone_from: Moment,
}

/// What became of a request.
#[derive(Clone, PartialEq, Debug)]
pub enum OpenedVerb {
    /// A row is open: stage where planned, swap, then `close_verb`.
    Open(NumberedVerb, Box<Row>),
    /// Applied in the book alone: done.
    Done(Box<Row>),
    /// Refused in this state (409).
    Refused(BookState),
    /// No such job.
    NotFound,
}

/// A verb's row that is open.
#[derive(Clone, PartialEq, Debug)]
pub struct OpenVerb {
    /// The verb.
    pub verb: NumberedVerb,
    /// Its job.
    pub key: Key,
    /// Since when.
    pub at: Moment,
}

/// How a verb ended in the ledger.
#[derive(Clone, PartialEq, Debug)]
pub enum VerbEnd {
    /// Swapped now or before: the record as the swap left it.
    Applied(Box<Record>),
    /// Refused by the ledger.
    Refused(State),
    /// The book owns the job again (recorded dead letter, or closed): apply it in the book if its state allows.
    InTheBook,
}

/// A page of something, newest first.
#[derive(Clone, PartialEq, Debug)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Which jobs a list shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Of one tenant.
    pub tenant: Option<String>,
    /// In these states.
    pub states: Vec<BookState>,
    /// To one recipient.
    pub recipient_ref: Option<RecipientRef>,
    /// Made by schedules of this name.
    pub schedule: Option<String>,
    /// From here on.
    pub cursor: Option<String>,
    /// At most; 1 to 500.
    pub limit: u32,
}

/// One line of the audit trail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// Its number, rising by one.
    pub number: u64,
    /// When.
    pub at: Moment,
    /// Who.
    pub actor: String,
    /// What, for instance `cancel`, `replay`, `pause`.
    pub action: String,
    /// On what: a key, an item's id, a transport.
    pub object: String,
    /// Why.
    pub reason: String,
    /// Arguments as JSON, without addresses.
    pub detail: String,
}

/// What roles and operators ask of the book. Every write may be repeated; a dropped future may have written.
#[async_trait]
pub trait Book: Registry + Recovery {
    /// Accepts jobs, each by itself, and writes the door's log. On the disk before the answer. At most 500 at once.
    ///
    /// # Errors
    /// `BookError` for all: nothing is known; repeating is safe.
    async fn accept(&self, jobs: Vec<Job>, door: &Door) -> Result<Vec<Accepted>, BookError>;

    /// Planned rows released by `until`, the earliest first, without those on which a verb is open.
    ///
    /// # Errors
    /// `BookError`.
    async fn plan(&self, shards: &[Shard], until: Moment, limit: u32) -> Result<Vec<Planned>, BookError>;

    /// Shards in which planning met, since this was asked last, rows that only a newer process reads. They are left alone; a newer scheduler may be
    /// there for them (DESIGN 7).
    fn met_newer(&self) -> BTreeSet<Shard> {
        BTreeSet::new()
    }

    /// The earliest release among planned rows, so that a scheduler can rest.
    ///
    /// # Errors
    /// `BookError`.
    async fn next_release(&self) -> Result<Option<Moment>, BookError>;

    /// Marks rows staged, where they are still planned in that generation.
    ///
    /// # Errors
    /// `OtherIncarnation` for all where the shard of one is in a later incarnation than its mark; `BookError`.
    async fn mark_staged(&self, rows: &[Mark]) -> Result<(), BookError>;

    /// Writes stories of records that ended as sent, cancelled or suppressed; answers in order.
    ///
    /// # Errors
    /// `OtherIncarnation` for all where the shard of one is in a later incarnation than its record was read in; `BookError` for all: nothing is known.
    async fn settle(&self, stories: Vec<Story>, at: Moment) -> Result<Vec<Told>, BookError>;

    /// Takes evidence about a token where no record stands, or a provider's event.
    ///
    /// # Errors
    /// `BookError`.
    async fn evidence(&self, evidence: Evidence) -> Result<EvidenceTaken, BookError>;

    /// Opens a verb's row, which is its audit entry. On the disk before the answer.
    ///
    /// # Errors
    /// `BookError`.
    async fn open_verb(&self, request: VerbRequest) -> Result<OpenedVerb, BookError>;

    /// Applies and closes a verb's row; who swapped closes it as applied, even over a refusal. Whether it stands applied.
    ///
    /// # Errors
    /// `OtherIncarnation` where the shard is in a later one than the swapped record; `BookError`.
    async fn close_verb(&self, number: u64, end: VerbEnd, at: Moment) -> Result<bool, BookError>;

    /// Verbs' rows open since before `before`.
    ///
    /// # Errors
    /// `BookError`.
    async fn open_verbs(&self, before: Moment, limit: u32) -> Result<Vec<OpenVerb>, BookError>;

    /// One row by key.
    ///
    /// # Errors
    /// `BookError`.
    async fn by_key(&self, key: &Key) -> Result<Option<Row>, BookError>;

    /// One row by id.
    ///
    /// # Errors
    /// `BookError`.
    async fn by_id(&self, id: JobId) -> Result<Option<Row>, BookError>;

    /// Rows by key, in order, without letters and histories.
    ///
    /// # Errors
    /// `BookError`.
    async fn rows(&self, keys: &[Key]) -> Result<Vec<Option<JobView>>, BookError>;

    /// Jobs, newest first, by keyset.
    ///
    /// # Errors
    /// `BookError`.
    async fn list(&self, filter: &Filter) -> Result<Page<JobView>, BookError>;

    /// Staged rows after a key, for the auditor.
    ///
    /// # Errors
    /// `BookError`.
    async fn staged_after(&self, after: Option<&Key>, limit: u32) -> Result<Vec<JobView>, BookError>;

    /// A business date's figures; `difference` ids are found by the caller through `accepted_ids`.
    ///
    /// # Errors
    /// `BookError`.
    async fn day(&self, date: &str, tenant: Option<&str>) -> Result<Day, BookError>;

    /// What a business date asks of the fleet, and what the `latest` jobs that ended took. Reads the day's rows; for people's questions.
    ///
    /// # Errors
    /// `BookError`.
    async fn load(&self, date: &str, latest: u32) -> Result<Load, BookError>;

    /// Jobs in the door's log of a date that have no row, and staged rows of the date by key (bounded): the ids behind a difference.
    ///
    /// # Errors
    /// `BookError`.
    async fn day_differences(&self, date: &str, tenant: Option<&str>, limit: u32) -> Result<Vec<(JobId, Option<Key>, Option<BookState>)>, BookError>;

    /// Keys of the staged rows of a business date, after a key.
    ///
    /// # Errors
    /// `BookError`.
    async fn day_staged(&self, date: &str, tenant: Option<&str>, after: Option<&Key>, limit: u32) -> Result<Vec<Key>, BookError>;

    /// Puts a recipient on a suppressions list; false where it was there. Audited.
    ///
    /// # Errors
    /// `BookError`.
    async fn suppress_recipient(&self, row: SuppressionRow) -> Result<bool, BookError>;

    /// Takes one off; false where it wasn't there. Audited.
    ///
    /// # Errors
    /// `BookError`.
    async fn unsuppress_recipient(
        &self,
        tenant: Option<&str>,
        recipient: &RecipientRef,
        actor: &str,
        reason: &str,
        at: Moment,
    ) -> Result<bool, BookError>;

    /// All suppressions.
    ///
    /// # Errors
    /// `BookError`.
    async fn suppressions(&self) -> Result<Vec<SuppressionRow>, BookError>;

    /// Sets or replaces a hold. Audited where a person does it.
    ///
    /// # Errors
    /// `BookError`.
    async fn hold(&self, row: HoldRow) -> Result<(), BookError>;

    /// Lifts a hold of that kind, name and cause; whether there was one. Audited where a person does it.
    ///
    /// # Errors
    /// `BookError`.
    async fn lift(&self, kind: &str, name: &str, by: &str, actor: &str, reason: &str, at: Moment) -> Result<bool, BookError>;

    /// All holds.
    ///
    /// # Errors
    /// `BookError`.
    async fn holds(&self) -> Result<Vec<HoldRow>, BookError>;

    /// Appends to the audit trail.
    ///
    /// # Errors
    /// `BookError`.
    async fn audit(&self, at: Moment, actor: &str, action: &str, object: &str, reason: &str, detail: &str) -> Result<(), BookError>;

    /// The audit trail, newest first.
    ///
    /// # Errors
    /// `BookError`.
    async fn audit_list(&self, cursor: Option<&str>, limit: u32) -> Result<Page<AuditEntry>, BookError>;

    /// Recomputes the trail's chain of hashes: the number of entries, or the first that doesn't fit.
    ///
    /// # Errors
    /// `BookError`.
    async fn audit_verify(&self) -> Result<Result<u64, u64>, BookError>;

    /// The fleet's constants as the first start wrote them; writes the given ones where none stand.
    ///
    /// # Errors
    /// `BookError`.
    async fn constants(&self, given: &[(String, String)]) -> Result<Vec<(String, String)>, BookError>;

    /// Writes the heartbeat that the book keeps of the ledger, and reads back both.
    ///
    /// # Errors
    /// `BookError`.
    async fn beat(&self, ledger_count: u64, at: Moment) -> Result<(), BookError>;

    /// The heartbeat counter last written.
    ///
    /// # Errors
    /// `BookError`.
    async fn last_beat(&self) -> Result<Option<(u64, Moment)>, BookError>;

    /// The book's own clock, the witness between the ledger's and this process's; `None` where it has none but this process's.
    ///
    /// # Errors
    /// `BookError`.
    async fn clock(&self) -> Result<Option<Moment>, BookError> {
        Ok(None)
    }
}
