//! The forms that stand in the book's BLOB columns: MessagePack with named fields, the format number first.

use std::collections::BTreeMap;

use curfew_domain::form::{self, FORMAT};
use curfew_domain::history::HistoryEntry;
use curfew_domain::job::{Job, LocalTimes};
use curfew_domain::outcome::Receipt;
use curfew_domain::record::LastOutcome;
use curfew_domain::verb::Verb;
use curfew_domain::{Moment, Reason, Token};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{BookError, Row};

/// What never changes after the door.
#[derive(Serialize, Deserialize)]
pub(super) struct Facts {
    format: u16,
    pub(super) purpose: String,
    pub(super) subject_ref: String,
    pub(super) business_date: String,
    pub(super) fingerprints: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) local: Option<LocalTimes>,
    pub(super) policy: String,
    pub(super) transport: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) accepted_at: Moment,
}

/// What stories and evidence told.
#[derive(Serialize, Deserialize, Default)]
pub(super) struct ToldSoFar {
    format: u16,
    #[serde(default)]
    pub(super) last: Option<LastOutcome>,
    #[serde(default)]
    pub(super) reason: Option<Reason>,
    #[serde(default)]
    pub(super) receipt: Option<Receipt>,
    #[serde(default)]
    pub(super) doubt: Option<Token>,
    #[serde(default)]
    pub(super) window_doubts: Vec<Token>,
    #[serde(default)]
    pub(super) doubts: Vec<Token>,
    #[serde(default)]
    pub(super) pins: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct One<T> {
    format: u16,
    value: T,
}

pub(super) fn facts(job: &Job) -> Vec<u8> {
    form::encode(&Facts {
        format: FORMAT,
        purpose: job.purpose.clone(),
        subject_ref: job.subject_ref.clone(),
        business_date: job.business_date.clone(),
        fingerprints: job.fingerprints.clone(),
        local: job.local.clone(),
        policy: job.policy.clone(),
        transport: job.transport.clone(),
        labels: job.labels.clone(),
        accepted_at: job.accepted_at,
    })
}

pub(super) fn told(row: &Row) -> Vec<u8> {
    form::encode(&ToldSoFar {
        format: FORMAT,
        last: row.last.clone(),
        reason: row.reason,
        receipt: row.receipt.clone(),
        doubt: row.doubt,
        window_doubts: row.window_doubts.clone(),
        doubts: row.doubts.clone(),
        pins: row.pins.clone(),
    })
}

pub(super) fn history(entries: &[HistoryEntry]) -> Vec<u8> {
    form::encode(&One { format: FORMAT, value: entries })
}

pub(super) fn verb(verb: &Verb) -> Vec<u8> {
    form::encode(&One { format: FORMAT, value: verb })
}

/// The form of a last outcome, as items keep it.
pub fn last(last: &LastOutcome) -> Vec<u8> {
    form::encode(&One { format: FORMAT, value: last })
}

/// Reads one value's form; `what` names it in the error.
///
/// # Errors
/// `Unreadable`.
pub fn one<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, BookError> {
    read::<One<T>>(what, bytes).map(|one| one.value)
}

pub(super) fn read<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, BookError> {
    form::decode(bytes).map_err(|e| BookError::Unreadable(format!("{what}: {e}")))
}
