//! A review item as it reads.

use curfew_domain::history::cut;
use curfew_domain::limits::DIAGNOSTIC_BYTES_MAX;
use curfew_review::{Item, ItemStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::HistoryBody;
use crate::free_text::hide_addresses;

/// A review item, field for field as the contract lists it, and whether it is in doubt.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct ItemBody {
    /// A UUIDv7.
    pub id: String,
    /// The job; null for a message that names none.
    pub job_id: Option<String>,
    /// Its key.
    pub key: Option<String>,
    /// Its tenant.
    pub tenant: Option<String>,
    /// The recipient's keyed hash.
    pub recipient_ref: Option<String>,
    /// The recipient as lists show it.
    pub recipient_masked: Option<String>,
    /// Of the generation that ended.
    pub release_at: Option<String>,
    /// Of the generation that ended.
    pub deadline_at: Option<String>,
    /// Begun in that generation.
    pub attempts: u32,
    /// The class of the last attempt's outcome.
    pub last_outcome: Option<String>,
    /// When that was known.
    pub last_attempt_at: Option<String>,
    /// Why it ended.
    pub reason: String,
    /// Redacted, at most 500 bytes.
    pub diagnostic: String,
    /// Whose work it is.
    pub owner: Option<String>,
    /// By when.
    pub due_at: Option<String>,
    /// `open`, `waiting_approval`, `replaying`, `resolved` or `withdrawn`.
    pub status: String,
    /// Counts a job's items from 1.
    pub number: u32,
    /// The item whose replay ended here.
    pub replay_of: Option<String>,
    /// Nobody can say what became of a handoff, and the item isn't closed.
    pub in_doubt: bool,
    /// When it was recorded.
    pub created_at: String,
    /// Oldest first.
    pub notes: Vec<NoteBody>,
    /// The story, oldest first; empty in lists.
    pub history: Vec<HistoryBody>,
}

/// A note on an item.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct NoteBody {
    /// When.
    pub at: String,
    /// Who.
    pub actor: String,
    /// What.
    pub text: String,
}

impl ItemBody {
    /// An item as it reads.
    pub(crate) fn of(item: &Item) -> Self {
        let mut diagnostic = hide_addresses(&item.diagnostic);
        cut(&mut diagnostic, DIAGNOSTIC_BYTES_MAX);
        Self {
            id: item.id.to_string(),
            job_id: item.job_id.map(|id| id.to_string()),
            key: item.key.as_ref().map(ToString::to_string),
            tenant: item.tenant.clone(),
            recipient_ref: item.recipient_ref.as_ref().map(|r| r.0.clone()),
            recipient_masked: item.recipient_masked.clone(),
            release_at: item.release_at.map(|t| t.rfc3339()),
            deadline_at: item.deadline_at.map(|t| t.rfc3339()),
            attempts: item.attempts,
            last_outcome: item.last.as_ref().map(|l| l.class.word().to_owned()),
            last_attempt_at: item.last.as_ref().map(|l| l.at.rfc3339()),
            reason: item.reason.word().to_owned(),
            diagnostic,
            owner: item.owner.clone(),
            due_at: item.due_at.map(|t| t.rfc3339()),
            status: item.status.word().to_owned(),
            number: item.number,
            replay_of: item.replay_of.map(|id| id.to_string()),
            in_doubt: item.in_doubt && !matches!(item.status, ItemStatus::Resolved | ItemStatus::Withdrawn),
            created_at: item.created_at.rfc3339(),
            notes: item.notes.iter().map(|(at, actor, text)| NoteBody { at: at.rfc3339(), actor: actor.clone(), text: text.clone() }).collect(),
            history: item.history.iter().map(HistoryBody::of).collect(),
        }
    }
}
