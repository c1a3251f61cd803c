//! The port: what the dead-letter consumer and operators ask of the review store.

use std::collections::BTreeMap;

use async_trait::async_trait;
use curfew_book::{Page, Row, Story, Told};
use curfew_domain::history::HistoryEntry;
use curfew_domain::record::LastOutcome;
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::{JobId, Key, Moment, Reason};
use uuid::Uuid;

use crate::ReviewError;

/// Where the human work on an item stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ItemStatus {
    /// To be worked on.
    Open,
    /// A correction or a plan waits for another person.
    WaitingApproval,
    /// Its replay is planned or runs.
    Replaying,
    /// Done.
    Resolved,
    /// Overtaken: an earlier generation turned out to be sent.
    Withdrawn,
}

impl ItemStatus {
    /// Every status, in the order of an item's life.
    pub const ALL: [ItemStatus; 5] =
        [ItemStatus::Open, ItemStatus::WaitingApproval, ItemStatus::Replaying, ItemStatus::Resolved, ItemStatus::Withdrawn];

    /// The status of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }

    /// As stored and shown.
    pub const fn word(self) -> &'static str {
        match self {
            ItemStatus::Open => "open",
            ItemStatus::WaitingApproval => "waiting_approval",
            ItemStatus::Replaying => "replaying",
            ItemStatus::Resolved => "resolved",
            ItemStatus::Withdrawn => "withdrawn",
        }
    }
}

/// A review item as lists show it.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// A UUIDv7.
    pub id: Uuid,
    /// The job; `None` for a quarantined message that names none.
    pub job_id: Option<JobId>,
    /// Its key, where known.
    pub key: Option<Key>,
    /// Its tenant, where known.
    pub tenant: Option<String>,
    /// The recipient's keyed hash.
    pub recipient_ref: Option<RecipientRef>,
    /// As lists show it.
    pub recipient_masked: Option<String>,
    /// Of the generation that ended.
    pub release_at: Option<Moment>,
    /// Of the generation that ended.
    pub deadline_at: Option<Moment>,
    /// Begun in that generation.
    pub attempts: u32,
    /// The last attempt's outcome.
    pub last: Option<LastOutcome>,
    /// Why it ended.
    pub reason: Reason,
    /// Redacted, at most 500 bytes.
    pub diagnostic: String,
    /// Whose work it is, by `[review.owners]` or an escalation.
    pub owner: Option<String>,
    /// By when it should be worked on.
    pub due_at: Option<Moment>,
    /// Where the work stands.
    pub status: ItemStatus,
    /// The generation that ended.
    pub generation: u32,
    /// The dead-letter number: counts a job's items from 1.
    pub number: u32,
    /// The item that a replay answered, where this one ended that replay.
    pub replay_of: Option<Uuid>,
    /// Whether nobody can say what became of a handoff.
    pub in_doubt: bool,
    /// When its lease ended, for the 15 minutes of rest.
    pub lease_ended_at: Option<Moment>,
    /// When it was recorded.
    pub created_at: Moment,
    /// Notes, oldest first: at, actor, text.
    pub notes: Vec<(Moment, String, String)>,
    /// The story, in `show` only.
    pub history: Vec<HistoryEntry>,
}

/// A message that the broker dropped and nobody can read: kept sealed and bounded.
#[derive(Clone, PartialEq, Debug)]
pub struct Quarantined {
    /// Why: `malformed_message`, `poison_message`, `ledger_record_missing`.
    pub reason: Reason,
    /// The key, where the message names one.
    pub key: Option<Key>,
    /// The bytes, sealed, at most 4 KiB of them. AAD: the bytes' SHA-256.
    pub body: Option<Sealed>,
    /// A fingerprint of the bytes, so that a repetition makes no second item.
    pub fingerprint: String,
    /// What was seen, redacted.
    pub diagnostic: String,
    /// When.
    pub at: Moment,
}

/// An operator's replay.
#[derive(Clone, PartialEq, Debug)]
pub struct Replay {
    /// Which item.
    pub item: Uuid,
    /// The new deadline, ahead of now.
    pub deadline_at: Moment,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// Whether the risk of a duplicate is accepted.
    pub accept_duplicate_risk: bool,
    /// Whether to say only what would happen.
    pub dry_run: bool,
    /// The ledger's now: the new release.
    pub at: Moment,
}

/// What a replay did, or would do.
#[derive(Clone, PartialEq, Debug)]
pub struct Replayed {
    /// The job's row after it (as it stands, for a dry run); its letter is left out.
    pub row: Row,
    /// The generation it made.
    pub generation: u32,
}

/// A correction: a new content revision, the same key.
#[derive(Clone, PartialEq, Debug)]
pub struct Correction {
    /// Which item.
    pub item: Uuid,
    /// The new sealed letter.
    pub letter: Sealed,
    /// The new recipient's hash and masked form, where it changed.
    pub recipient: Option<(RecipientRef, String)>,
    /// Whether artifacts changed: their pins are forgotten.
    pub forget_pins: bool,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Moment,
}

/// Which items a list shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReviewFilter {
    /// For one reason.
    pub reason: Option<Reason>,
    /// Of one tenant.
    pub tenant: Option<String>,
    /// In one status; all where `None`.
    pub status: Option<ItemStatus>,
    /// From here on.
    pub cursor: Option<String>,
    /// At most; 1 to 500.
    pub limit: u32,
}

/// What the dead-letter consumer and operators ask.
#[async_trait]
pub trait Review: Send + Sync {
    /// Records dead letters: item, history and outcome in one guarded transaction each; answers in order. `owners` by reason's word.
    ///
    /// # Errors
    /// `ReviewError` for all: nothing is known; repeating is safe.
    async fn record(&self, stories: Vec<Story>, owners: &BTreeMap<String, String>, at: Moment) -> Result<Vec<Told>, ReviewError>;

    /// Keeps what can't be sent and names no readable job. Repeating is safe.
    ///
    /// # Errors
    /// `ReviewError`.
    async fn quarantine(&self, message: Quarantined) -> Result<Uuid, ReviewError>;

    /// Items, newest first, by keyset.
    ///
    /// # Errors
    /// `ReviewError`.
    async fn list(&self, filter: &ReviewFilter) -> Result<Page<Item>, ReviewError>;

    /// One item with notes and history.
    ///
    /// # Errors
    /// `ReviewError`.
    async fn show(&self, id: Uuid) -> Result<Option<Item>, ReviewError>;

    /// The open item of a job.
    ///
    /// # Errors
    /// `ReviewError`.
    async fn open_item_of(&self, key: &Key) -> Result<Option<Item>, ReviewError>;

    /// Replays an item.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` (not open, a verb open, unrecorded), `NotYet` (a doubt before its 15 min), `Invalid` (deadline, reason, risk).
    async fn replay(&self, replay: Replay) -> Result<Replayed, ReviewError>;

    /// Corrects an open item's letter.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    async fn correct(&self, correction: Correction) -> Result<Item, ReviewError>;

    /// Ends an open item and its job as suppressed (or cancelled).
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    async fn suppress(&self, id: Uuid, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError>;

    /// Changes owner and due time.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    async fn escalate(&self, id: Uuid, owner: &str, due_at: Moment, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError>;

    /// Gives it an owner.
    ///
    /// # Errors
    /// `NotFound`.
    async fn assign(&self, id: Uuid, owner: &str, actor: &str, at: Moment) -> Result<Item, ReviewError>;

    /// Adds a note.
    ///
    /// # Errors
    /// `NotFound`.
    async fn note(&self, id: Uuid, text: &str, actor: &str, at: Moment) -> Result<Item, ReviewError>;

    /// Closes an item; with a receipt an item in doubt becomes `sent`.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, `Invalid`.
    async fn resolve(&self, id: Uuid, receipt: Option<&str>, actor: &str, reason: &str, at: Moment) -> Result<Item, ReviewError>;

    /// Open items by reason's word, for the gauge.
    ///
    /// # Errors
    /// `ReviewError`.
    async fn open_by_reason(&self) -> Result<BTreeMap<String, u64>, ReviewError>;

    /// The oldest open item in doubt.
    ///
    /// # Errors
    /// `ReviewError`.
    async fn oldest_in_doubt(&self) -> Result<Option<Moment>, ReviewError>;
}
