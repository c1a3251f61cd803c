//! The forms that stand in the book's binary columns, the same in every store: MessagePack with named fields, the format number first.

use std::collections::BTreeMap;

use curfew_domain::form;
use curfew_domain::history::HistoryEntry;
use curfew_domain::job::{Job, LocalTimes};
use curfew_domain::outcome::Receipt;
use curfew_domain::record::LastOutcome;
use curfew_domain::trace::TraceContext;
use curfew_domain::verb::Verb;
use curfew_domain::{JobId, Moment, Reason, Token};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{BookError, BookState, Definition, Row};

/// What never changes after the door.
#[derive(Serialize, Deserialize)]
pub(crate) struct Facts {
    format: u16,
    pub(crate) purpose: String,
    pub(crate) subject_ref: String,
    pub(crate) business_date: String,
    pub(crate) fingerprints: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) local: Option<LocalTimes>,
    pub(crate) policy: String,
    pub(crate) transport: String,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) accepted_at: Moment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<TraceContext>,
    #[cfg(feature = "next-format")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<bool>,
}

/// What stories and evidence told.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct ToldSoFar {
    format: u16,
    #[serde(default)]
    pub(crate) last: Option<LastOutcome>,
    #[serde(default)]
    pub(crate) reason: Option<Reason>,
    #[serde(default)]
    pub(crate) receipt: Option<Receipt>,
    #[serde(default)]
    pub(crate) doubt: Option<Token>,
    #[serde(default)]
    pub(crate) window_doubts: Vec<Token>,
    #[serde(default)]
    pub(crate) doubts: Vec<Token>,
    #[serde(default)]
    pub(crate) pins: Vec<String>,
    #[cfg(feature = "next-format")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<bool>,
}

/// The field that the next format adds, where this process writes that one.
#[cfg(feature = "next-format")]
fn next() -> Option<bool> {
    (form::written() == form::FORMAT).then_some(true)
}

#[derive(Serialize, Deserialize)]
struct One<T> {
    format: u16,
    value: T,
}

pub(crate) fn facts(job: &Job) -> Vec<u8> {
    form::encode(&Facts {
        format: form::written(),
        purpose: job.purpose.clone(),
        subject_ref: job.subject_ref.clone(),
        business_date: job.business_date.clone(),
        fingerprints: job.fingerprints.clone(),
        local: job.local.clone(),
        policy: job.policy.clone(),
        transport: job.transport.clone(),
        labels: job.labels.clone(),
        accepted_at: job.accepted_at,
        trace: job.trace,
        #[cfg(feature = "next-format")]
        next: next(),
    })
}

pub(crate) fn told(row: &Row) -> Vec<u8> {
    form::encode(&ToldSoFar {
        format: form::written(),
        last: row.last.clone(),
        reason: row.reason,
        receipt: row.receipt.clone(),
        doubt: row.doubt,
        window_doubts: row.window_doubts.clone(),
        doubts: row.doubts.clone(),
        pins: row.pins.clone(),
        #[cfg(feature = "next-format")]
        next: next(),
    })
}

/// What a job is told that ends before any attempt.
pub(crate) fn told_reason(reason: Reason) -> Vec<u8> {
    form::encode(&ToldSoFar { format: form::written(), reason: Some(reason), ..ToldSoFar::default() })
}

/// The form of a schedule's rule and settings.
pub(crate) fn definition(definition: &Definition) -> Vec<u8> {
    form::encode(&One { format: form::written(), value: definition })
}

pub(crate) fn history(entries: &[HistoryEntry]) -> Vec<u8> {
    form::encode(&One { format: form::written(), value: entries })
}

pub(crate) fn verb(verb: &Verb) -> Vec<u8> {
    form::encode(&One { format: form::written(), value: verb })
}

/// The form of a last outcome, as items keep it.
pub fn last(last: &LastOutcome) -> Vec<u8> {
    form::encode(&One { format: form::written(), value: last })
}

/// Reads one value's form; `what` names it in the error.
///
/// # Errors
/// `Unreadable`.
pub fn one<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, BookError> {
    read::<One<T>>(what, bytes).map(|one| one.value)
}

pub(crate) fn read<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, BookError> {
    form::decode(bytes).map_err(|e| BookError::Unreadable(format!("{what}: {e}")))
}

/// A binary column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    /// What never changes after the door.
    Facts,
    /// What stories and evidence told.
    Told,
    /// The story's lines.
    History,
    /// An operator's verb.
    Verb,
    /// An item's last outcome.
    Last,
}

/// Reads a column's form and writes what was read, for tests that hold bytes of any kind against the readers.
///
/// # Errors
/// `Unreadable`.
pub fn written_again(column: Column, bytes: &[u8]) -> Result<Vec<u8>, BookError> {
    Ok(match column {
        Column::Facts => form::encode(&read::<Facts>("facts", bytes)?),
        Column::Told => form::encode(&read::<ToldSoFar>("told", bytes)?),
        Column::History => form::encode(&read::<One<Vec<HistoryEntry>>>("history", bytes)?),
        Column::Verb => form::encode(&read::<One<Verb>>("verb", bytes)?),
        Column::Last => form::encode(&read::<One<LastOutcome>>("last", bytes)?),
    })
}

/// The code of a state in the table.
pub const fn code(state: BookState) -> i64 {
    match state {
        BookState::Planned => 0,
        BookState::Staged => 1,
        BookState::Sent => 2,
        BookState::DeadLetter => 3,
        BookState::Cancelled => 4,
        BookState::Suppressed => 5,
    }
}

pub(crate) fn state(code: i64) -> Result<BookState, BookError> {
    BookState::ALL.into_iter().find(|s| self::code(*s) == code).ok_or_else(|| BookError::Unreadable(format!("state {code}")))
}

/// A job's id from its sixteen bytes.
///
/// # Errors
/// `Unreadable`.
pub fn id(bytes: &[u8]) -> Result<JobId, BookError> {
    Uuid::from_slice(bytes).map(JobId).map_err(|_length| BookError::Unreadable("an id".to_owned()))
}
