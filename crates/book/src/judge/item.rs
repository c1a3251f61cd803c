//! What a review item says of the dead letter that it stands for.

use std::collections::BTreeMap;

use curfew_domain::history::cut;
use curfew_domain::limits::DIAGNOSTIC_BYTES_MAX;
use curfew_domain::policy::AtDeadline;
use curfew_domain::{Moment, Reason, Record};
use uuid::{NoContext, Timestamp, Uuid};

use crate::Row;

/// What an item is made with.
pub struct Circumstances<'a> {
    /// Owners by reason's word.
    pub owners: &'a BTreeMap<String, String>,
    /// The record that tells of the dead letter.
    pub record: Option<&'a Record>,
    /// Who ends the item, for its note.
    pub actor: &'a str,
    /// When.
    pub at: Moment,
}

/// A new item's id: its order is that of `at`.
pub fn new_id(at: Moment) -> Uuid {
    let ms = u64::try_from(at.as_millis()).unwrap_or(0);
    let nanos = u32::try_from(ms % 1000).expect("under a thousand") * 1_000_000;
    Uuid::new_v7(Timestamp::from_unix(NoContext, ms / 1000, nanos))
}

/// Whether a new item is in doubt: about the row's token, or because nobody can say what the lost record knew.
pub fn begins_in_doubt(row: &Row, with: &Circumstances<'_>) -> bool {
    row.doubt.is_some() || (with.record.is_none() && reason(row) == Reason::LedgerRecordMissing)
}

/// Why it is there.
pub fn reason(row: &Row) -> Reason {
    row.reason.unwrap_or(Reason::ReconciliationRequired)
}

/// What people read first: the last outcome's words, or how the story ended.
pub fn diagnostic(row: &Row) -> String {
    let words = row.last.as_ref().map(|last| last.diagnostic.as_str());
    let end = row.history.last().map(|entry| entry.detail.as_str());
    let mut text = words.or(end).unwrap_or_default().to_owned();
    cut(&mut text, DIAGNOSTIC_BYTES_MAX);
    text
}

/// By an escalation, else by the reason.
pub fn owner<'a>(reason: Reason, with: &'a Circumstances<'_>) -> Option<&'a str> {
    let escalated = with.record.and_then(|record| match (&record.at_deadline, reason) {
        (AtDeadline::Escalate(owner), Reason::BusinessDeadlineReached) => Some(owner.as_str()),
        (AtDeadline::Review | AtDeadline::Suppress | AtDeadline::Escalate(_), _other) => None,
    });
    escalated.or_else(|| with.owners.get(reason.word()).map(String::as_str))
}
