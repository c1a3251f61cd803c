//! The tables, and a job's row as transactions read and save it.

use curfew_book::{AuditEntry, BookState, Enrolled, HoldRow, JobView, Row, SuppressionRow};
use curfew_domain::sealed::Sealed;
use curfew_domain::verb::NumberedVerb;
use curfew_domain::{JobId, Key, Moment, Shard, WorkerId};
use curfew_review::Item;
use uuid::Uuid;

use super::table::{Sequence, Table};

/// All that the store holds.
#[derive(Clone, Default)]
pub(super) struct Tables {
    /// Whole, but for the open verb, which is looked up.
    pub(super) rows: Table<JobId, Row>,
    pub(super) keys: Table<Key, JobId>,
    /// By date, tenant and job.
    pub(super) door_log: Table<(String, String, JobId), (Moment, String)>,
    pub(super) claims: Table<JobId, SoftClaim>,
    pub(super) verbs: Table<u64, VerbRow>,
    pub(super) verb_numbers: Sequence,
    /// In the order in which they were recorded.
    pub(super) items: Table<u64, ItemRow>,
    pub(super) item_numbers: Sequence,
    /// By recipient and tenant; an empty tenant is the list for all.
    pub(super) suppressions: Table<(String, String), SuppressionRow>,
    /// By kind, name and cause.
    pub(super) holds: Table<(String, String, String), HoldRow>,
    pub(super) audit: Table<u64, AuditRow>,
    pub(super) constants: Table<String, String>,
    pub(super) beat: Option<(u64, Moment)>,
    pub(super) workers: Table<WorkerId, Enrolled>,
    pub(super) shards: Table<Shard, u32>,
    pub(super) reports: Table<(Shard, u32, WorkerId), ()>,
}

/// A planned row that one scheduler read, left alone by the others for a while.
#[derive(Clone)]
pub(super) struct SoftClaim {
    pub(super) by: Uuid,
    pub(super) until: Moment,
}

/// A verb's row.
#[derive(Clone)]
pub(super) struct VerbRow {
    pub(super) job: JobId,
    pub(super) verb: NumberedVerb,
    pub(super) actor: String,
    pub(super) at: Moment,
    /// `None`: open.
    pub(super) applied: Option<bool>,
}

/// An item, with what lists don't show of it.
#[derive(Clone)]
pub(super) struct ItemRow {
    /// Its history is the job's, and is left out here.
    pub(super) item: Item,
    /// Set exactly where it is resolved or withdrawn.
    pub(super) closed_at: Option<Moment>,
    /// Of a quarantined message.
    pub(super) fingerprint: Option<String>,
}

/// An entry of the audit trail with its hash.
#[derive(Clone)]
pub(super) struct AuditRow {
    pub(super) entry: AuditEntry,
    pub(super) hash: Vec<u8>,
}

/// A row under its lock, with what the book alone needs of it.
#[derive(Clone)]
pub(super) struct Locked {
    /// The number of the item that is worked on.
    pub(super) item: Option<u64>,
    /// The row, without its letter.
    pub(super) row: Row,
}

impl Tables {
    /// Whether a transaction changed nothing.
    pub(super) fn is(&self, before: &Self) -> bool {
        let jobs = self.rows.is(&before.rows) && self.door_log.is(&before.door_log) && self.claims.is(&before.claims);
        let work = self.verbs.is(&before.verbs) && self.items.is(&before.items) && self.audit.is(&before.audit);
        let small = self.suppressions.is(&before.suppressions) && self.holds.is(&before.holds) && self.constants.is(&before.constants);
        let fleet = self.workers.is(&before.workers) && self.shards.is(&before.shards) && self.reports.is(&before.reports);
        jobs && work && small && fleet && self.beat == before.beat
    }

    /// The server comes up anew with what is left.
    pub(super) fn after_a_crash(&mut self) {
        self.verb_numbers.after_a_crash();
        self.item_numbers.after_a_crash();
    }

    /// A row whole.
    pub(super) fn whole(&self, id: &JobId) -> Option<Row> {
        self.rows.get(id).map(|row| Row { open_verb: self.open_verb(id), ..row.clone() })
    }

    /// The same by its key.
    pub(super) fn by_key(&self, key: &Key) -> Option<Row> {
        self.whole(self.keys.get(key)?)
    }

    /// A row as lists show it.
    pub(super) fn view(&self, id: &JobId) -> Option<JobView> {
        let mut row = self.whole(id)?;
        row.job.letter = Sealed::from_bytes(Vec::new());
        row.history = Vec::new();
        Some(JobView { row })
    }

    /// A row as a transaction reads it.
    pub(super) fn locked(&self, id: &JobId) -> Option<Locked> {
        let mut row = self.whole(id)?;
        row.job.letter = Sealed::from_bytes(Vec::new());
        Some(Locked { item: self.working(id), row })
    }

    /// The same by its key.
    pub(super) fn locked_key(&self, key: &Key) -> Option<Locked> {
        self.locked(self.keys.get(key)?)
    }

    /// Saves what stories, verbs, evidence and replays change of a row, its history too.
    pub(super) fn save(&mut self, row: &Row) {
        let stands = self.rows.get_mut(&row.job.id).expect("a locked row stands");
        let (letter, revision) = (stands.job.letter.clone(), stands.job.content_revision);
        let recipient = (stands.job.recipient_ref.clone(), stands.job.recipient_masked.clone());
        *stands = Row { open_verb: None, ..row.clone() };
        (stands.job.letter, stands.job.content_revision) = (letter, revision);
        (stands.job.recipient_ref, stands.job.recipient_masked) = recipient;
    }

    /// The lowest number of a verb that is open on a job.
    pub(super) fn open_verb(&self, job: &JobId) -> Option<u64> {
        self.verbs.iter().find(|(_number, verb)| verb.job == *job && verb.applied.is_none()).map(|(number, _verb)| *number)
    }

    /// The item of a job that is worked on.
    fn working(&self, job: &JobId) -> Option<u64> {
        let of_it = |(_n, row): &(&u64, &ItemRow)| row.item.job_id == Some(*job) && row.closed_at.is_none();
        self.items.iter().rev().find(of_it).map(|(n, _row)| *n)
    }

    /// Rows in a state, by key.
    pub(super) fn in_state(&self, state: BookState) -> impl Iterator<Item = (&Key, &Row)> {
        self.keys.iter().filter_map(move |(key, id)| self.rows.get(id).filter(|row| row.state == state).map(|row| (key, row)))
    }
}
