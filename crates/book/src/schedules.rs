//! The port of schedules: what is repeated, how far its slots are planned, and what became of each.
//!
//! Promises (proved by `conformance`, for every adapter)
//! - S1  Of two changes of one revision one is made; the other is told which revision stands. A change that changes nothing raises none.
//! - S2  A slot's jobs are made once, whoever plans it and however often: its name decides, then the jobs' keys.
//! - S3  Slots, their jobs and the scan's progress are one transaction; a batch planned from an older revision writes nothing.
//! - S4  An edit, a pause or a deletion takes back the jobs that are the book's alone, and says how many it left; a slot so taken back gets
//!   other jobs, under the same keys, where the rule in force has it.
//! - S5  A schedule that can't be read, or can't be planned, keeps no other from being scanned.
//! - S6  A day's board shows every slot that was planned for it, each as what it came to.
//!
//! Not promised: that a schedule's zone exists, its templates or its recipients' addresses; whoever puts it has checked them.

use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::job::Job;
use curfew_domain::recurrence::{CatchUp, Change, Phase, Progress, Slot, Timetable};
use curfew_domain::sealed::Sealed;
use curfew_domain::{Key, Moment};
use serde::{Deserialize, Serialize};

use crate::paging::cut_page;
use crate::unreadable::Unreadable;
use crate::{Book, BookError, Door, Page};

/// What of a schedule is nobody's secret.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Definition {
    /// What its jobs are for.
    pub purpose: String,
    /// When they run.
    pub timetable: Timetable,
    /// What becomes of missed slots.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// The policy's name; `None`: the tenant's.
    #[serde(default)]
    pub policy: Option<String>,
    /// The transport's name; `None`: the tenant's.
    #[serde(default)]
    pub transport: Option<String>,
    /// How many recipients it has.
    pub recipients: u32,
}

/// A schedule as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleRow {
    /// Whose.
    pub tenant: String,
    /// Unique in its tenant, for good.
    pub name: String,
    /// Rises with each change; from 1. Its ETag.
    pub revision: u64,
    /// Whether it runs, and how far it is planned.
    pub progress: Progress,
    /// Its rule and settings.
    pub definition: Definition,
    /// Recipients and content, sealed by whoever put it; AAD is [`aad`].
    pub private: Sealed,
    /// A keyed hash of the private part, so that the same one is known without being opened.
    pub fingerprint: String,
    /// The slot that is being made, and how many of its recipients have been gone through.
    pub open: Option<(String, u32)>,
    /// When it is scanned next; `None`: never.
    pub next_scan: Option<Moment>,
    /// What kept it from being planned at the last scan.
    pub trouble: Option<String>,
    /// Since when it stands so.
    pub changed_at: Moment,
    /// By whom.
    pub changed_by: String,
}

/// What a schedule's private part is sealed with: nobody's but this one's.
pub fn aad(tenant: &str, name: &str) -> Vec<u8> {
    format!("schedule:{tenant}/{name}").into_bytes()
}

/// A schedule to be made, or changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutSchedule {
    /// Its definition.
    pub definition: Definition,
    /// Recipients and content, sealed.
    pub private: Sealed,
    /// The keyed hash of them.
    pub fingerprint: String,
}

/// A person's change of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeRequest {
    /// Whose.
    pub tenant: String,
    /// Which.
    pub name: String,
    /// The revision that it changes; `None`: any that stands, and for a new definition that there is none.
    pub expected: Option<u64>,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When, by the ledger's clock.
    pub at: Moment,
    /// Jobs released later are the book's alone: now + staging window + 2 min.
    pub book_alone_from: Moment,
}

/// What a change came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Changed {
    /// It is made.
    Done {
        /// The schedule as it stands now.
        row: Box<ScheduleRow>,
        /// Jobs taken back: cancelled before anybody could send them.
        withdrawn: u64,
        /// Jobs made before that run all the same: with the ledger, or about to be.
        left: u64,
    },
    /// It stands so already.
    Same(Box<ScheduleRow>),
    /// Another revision stands, or there is none (`None`).
    Lost(Option<u64>),
}

/// A slot of a plan with its jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotJobs {
    /// As planned.
    pub slot: Slot,
    /// Its jobs, or the next part of them; none where it is skipped.
    pub jobs: Vec<Job>,
    /// How many of its recipients have been gone through with these; the slot is made once it is all of them.
    pub gone_through: u32,
}

/// The next part of a schedule's slots.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// Whose.
    pub tenant: String,
    /// Which.
    pub name: String,
    /// The revision it was planned from.
    pub revision: u64,
    /// The cursor it was planned from.
    pub from: Moment,
    /// All of the plan's, in its order. For those after an unfinished one there is no room: they come without jobs, nothing gone through.
    pub slots: Vec<SlotJobs>,
    /// The plan's cursor. An unfinished slot keeps the schedule's before it.
    pub cursor: Moment,
    /// When to scan next.
    pub next_scan: Option<Moment>,
}

/// What a batch came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Materialised {
    /// It is written.
    Done {
        /// Jobs made.
        made: u32,
        /// Jobs whose key was taken: made before, or somebody else's.
        taken: u32,
        /// Slots that stood already.
        stood: u32,
    },
    /// Its schedule was changed meanwhile, or its cursor lies before the batch: nothing of it is written. Plan anew.
    Outdated,
}

/// A schedule whose scan is due.
#[derive(Debug)]
pub struct Due {
    /// Whose.
    pub tenant: String,
    /// Which.
    pub name: String,
    /// Its revision.
    pub revision: u64,
    /// The schedule, or why it can't be read.
    pub row: Result<Box<ScheduleRow>, BookError>,
}

/// How a slot stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// Its jobs are being made.
    Open,
    /// Its jobs are made.
    Made,
    /// It has none, and why.
    Skipped,
    /// All its jobs were taken back by a change, and the rule in force hasn't made others.
    Cancelled,
}

/// A slot on a day's board.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// The last part of its jobs' keys.
    pub slot: String,
    /// Where it stands among the others.
    pub at: Moment,
    /// Its window, where it has one.
    pub window: Option<(Moment, Moment)>,
    /// How it stands.
    pub state: SlotState,
    /// Why it was skipped or cancelled: a word of `Skip`, or of `Change`.
    pub why: Option<String>,
    /// Jobs that it should have.
    pub expected: u32,
    /// Jobs by what became of them; those that were taken back aren't counted.
    pub planned: u32,
    /// With the ledger.
    pub staged: u32,
    /// Sent.
    pub sent: u32,
    /// Dead-lettered.
    pub dead_letter: u32,
    /// Cancelled by an operator.
    pub cancelled: u32,
    /// Suppressed.
    pub suppressed: u32,
    /// Planned or staged, though their release is past by more than [`LATE_AFTER_MS`].
    pub late: u32,
    /// With an item of the review store that nobody has closed.
    pub in_review: u32,
}

/// How far back a change looks for jobs that still run: spread over a day, or moved by somebody.
pub(crate) const LOOKED_BACK: Duration = Duration::from_secs(7 * 24 * 3600);
/// A job is late on the board where its release is past by more.
pub const LATE_AFTER_MS: i64 = 60_000;

impl SlotState {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Made => "made",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What schedulers and people ask about schedules. Every write may be repeated; a dropped future may have written.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Makes a schedule, or changes it where `expected` names its revision. Audited.
    ///
    /// # Errors
    /// `Invalid`; `BookError`.
    async fn put_schedule(&self, request: &ChangeRequest, schedule: PutSchedule) -> Result<Changed, BookError>;

    /// Pauses, resumes or deletes one. Audited.
    ///
    /// # Errors
    /// `Invalid` for an edit, which needs a definition; `BookError`.
    async fn turn_schedule(&self, request: &ChangeRequest, change: Change) -> Result<Changed, BookError>;

    /// One schedule; a deleted one too.
    ///
    /// # Errors
    /// `Unreadable`; `BookError`.
    async fn schedule(&self, tenant: &str, name: &str) -> Result<Option<ScheduleRow>, BookError>;

    /// Schedules by tenant and name, without those that are deleted. One that can't be read is left out and told in the log; the cursor leads
    /// past it, so that a page may hold fewer than `limit`, or none, and still name a next one.
    ///
    /// # Errors
    /// `Invalid` for a cursor of somebody's own making; `BookError`.
    async fn schedules(&self, tenant: Option<&str>, cursor: Option<&str>, limit: u32) -> Result<Page<ScheduleRow>, BookError>;

    /// Schedules whose scan is due, the longest overdue first. Two that ask at once are given different ones, where the store can.
    ///
    /// # Errors
    /// `BookError`.
    async fn due_schedules(&self, now: Moment, limit: u32) -> Result<Vec<Due>, BookError>;

    /// Writes batches, each by itself, in one transaction; at most 500 jobs in all. On the disk before the answer.
    ///
    /// # Errors
    /// `Invalid`; `BookError` for all: nothing is known; repeating is safe.
    async fn materialise(&self, batches: Vec<Batch>, door: &Door) -> Result<Vec<Materialised>, BookError>;

    /// Puts off a schedule that can't be planned, where its revision stands; `trouble` says why, without a recipient's address.
    ///
    /// # Errors
    /// `BookError`.
    async fn put_off(&self, tenant: &str, name: &str, revision: u64, until: Moment, trouble: &str) -> Result<(), BookError>;

    /// The board of a business date: every slot planned for it, in order; a job a minute makes 1,440 of them.
    ///
    /// # Errors
    /// `NotFound`; `BookError`.
    async fn runs(&self, tenant: &str, name: &str, date: &str, now: Moment) -> Result<Vec<Run>, BookError>;
}

/// A book that keeps schedules.
pub trait ScheduledBook: Book + Schedules {}

impl<B: Book + Schedules> ScheduledBook for B {}

/// A row of a list: its cursor, and the schedule or why it can't be read.
pub(crate) type Listed = (String, Result<ScheduleRow, BookError>);

/// A page of those that can be read. The cursor is cut before they are told apart: what can't be read at its end hides nothing behind it.
pub(crate) fn page(mut found: Vec<Listed>, limit: u32, unreadable: &Unreadable) -> Page<ScheduleRow> {
    let next_cursor = cut_page(&mut found, limit, |(cursor, _)| cursor.clone());
    let (mut items, mut left) = (Vec::with_capacity(found.len()), Vec::new());
    for (cursor, row) in found {
        match row {
            Ok(row) => items.push(row),
            Err(error) => left.push((cursor, error)),
        }
    }
    unreadable.tell_schedules(left.len(), left.first().map(|(schedule, error)| (schedule.as_str(), error)));
    Page { items, next_cursor }
}

/// What a schedule's cursor in a list names.
pub(crate) fn list_cursor(tenant: &str, name: &str) -> String {
    format!("{tenant}/{name}")
}

/// The tenant and name of such a cursor.
pub(crate) fn list_after(cursor: Option<&str>) -> Result<(String, String), BookError> {
    match cursor {
        None => Ok((String::new(), String::new())),
        Some(cursor) => {
            let (tenant, name) = cursor.split_once('/').ok_or_else(crate::paging::not_a_cursor)?;
            Ok((tenant.to_owned(), name.to_owned()))
        }
    }
}

/// Whether a part of a slot's name is one of a key's.
pub(crate) fn checked_name(tenant: &str, name: &str) -> Result<(), BookError> {
    for (field, part) in [("tenant", tenant), ("name", name)] {
        curfew_domain::key::check_part(part).map_err(|e| BookError::Invalid { field, reason: e.to_string() })?;
    }
    Ok(())
}

/// The keys of a batch's jobs.
pub(crate) fn keys(batches: &[Batch]) -> Vec<Key> {
    batches.iter().flat_map(|batch| &batch.slots).flat_map(|slot| &slot.jobs).map(|job| job.key.clone()).collect()
}

/// The phase as the table holds it.
pub(crate) const fn phase_code(phase: Phase) -> i64 {
    match phase {
        Phase::Active => 0,
        Phase::Paused => 1,
        Phase::Deleted => 2,
    }
}
