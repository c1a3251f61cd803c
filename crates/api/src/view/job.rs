//! A job as it reads: its own state while the ledger owns it, the book's otherwise, and one sentence that explains it.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_book::{BookState, Row};
use curfew_courier::{Rulebook, first_version, in_force};
use curfew_domain::explain::{explain, explain_planned};
use curfew_domain::history::HistoryEntry;
use curfew_domain::outcome::{OutcomeClass, Receipt};
use curfew_domain::record::WaitingFor;
use curfew_domain::{Moment, Record, State};
use curfew_ledger::{Hold, Holds};
use serde::Serialize;
use utoipa::ToSchema;

use super::told::Told;
use crate::free_text::hide_addresses;

/// Ends the sentence of a job whose shard recovers.
const ONLY_THE_BOOK: &str = " Its shard of the ledger recovers: this is what the book knows.";

/// A job, field for field as the contract lists it.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct JobBody {
    /// The idempotency key.
    pub key: String,
    /// A UUIDv7.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// What it is for.
    pub purpose: String,
    /// The submitter's opaque reference.
    pub subject_ref: String,
    /// Nominal, in the customer's zone.
    pub business_date: String,
    /// `planned`, a record's state, or how it ended.
    pub state: String,
    /// No handoff before this.
    pub release_at: String,
    /// No automated handoff at or after this.
    pub deadline_at: String,
    /// First moment of the next attempt, while one is to come.
    pub next_attempt_at: Option<String>,
    /// What it waits for.
    pub waiting_for: Option<String>,
    /// Begun in this generation.
    pub attempts: u32,
    /// Replays so far.
    pub replays: u32,
    /// 1 at first, +1 at each replay.
    pub generation: u32,
    /// The class of the last attempt's outcome.
    pub last_outcome: Option<String>,
    /// When that was known.
    pub last_attempt_at: Option<String>,
    /// Why it runs again or ended.
    pub reason: Option<String>,
    /// The server's words or our own, redacted.
    pub diagnostic: Option<String>,
    /// Nobody can say what became of a handoff.
    pub in_doubt: bool,
    /// Rises with each correction.
    pub content_revision: u32,
    /// The transport's name.
    pub transport: String,
    /// The policy's name.
    pub policy: String,
    /// The recipient's keyed hash.
    pub recipient_ref: String,
    /// The recipient as lists show it.
    pub recipient_masked: String,
    /// The provider's proof.
    pub receipt: Option<ReceiptBody>,
    /// Why it will run again, what it waits for, or why it stopped.
    pub explanation: String,
    /// The submitter's labels.
    pub labels: BTreeMap<String, String>,
    /// The story, oldest first; empty in lists.
    pub history: Vec<HistoryBody>,
}

/// The provider's proof.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct ReceiptBody {
    /// When the reply was read.
    pub at: String,
    /// The reply code; null for a capture, an event or an operator's word.
    pub code: Option<u16>,
    /// The reply's text.
    pub text: String,
    /// The server's own id for the message.
    pub queue_id: Option<String>,
}

/// One line of a job's story.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct HistoryBody {
    /// When.
    pub at: String,
    /// Who.
    pub actor: String,
    /// The state before.
    pub from: Option<String>,
    /// The state after.
    pub to: String,
    /// Why.
    pub reason: Option<String>,
    /// The attempt it speaks of, counted from 1.
    pub attempt: Option<u32>,
    /// A few words, redacted.
    pub detail: String,
}

/// What a view is made from besides the row.
pub(super) struct Around<'a> {
    pub rulebook: &'a Rulebook,
    pub holds: &'a Holds,
    pub staging_window: Duration,
    pub now: Moment,
    /// What keeps each tenant's due jobs in their line, where something does.
    pub kept_back: &'a KeptBack,
}

/// By tenant.
pub(super) type KeptBack = BTreeMap<String, WaitingFor>;

impl JobBody {
    /// A row, with the record that the ledger holds of its generation and the story to show.
    pub(super) fn of(row: &Row, told: Told<Record>, history: &[HistoryEntry], around: &Around<'_>) -> Self {
        let recovers = told == Told::Recovers && may_wait_for_its_shard(row, around);
        let record = told.stands();
        let record = record.as_ref();
        let live = record.filter(|r| owned_by_ledger(row, r));
        let shown = live.cloned().unwrap_or_else(|| as_record(row, record, around));
        let planned = live.is_none() && row.state == BookState::Planned;
        let state = match (planned, live.is_none(), row.state) {
            (true, _, _) => "planned",
            // Staged, and the ledger holds nothing: the auditor's errand. It reads as what staging made it.
            (_, true, BookState::Staged) => State::Scheduled.word(),
            (_, true, ended) => ended.word(),
            (_, false, _) => shown.state.word(),
        };
        let waits = planned || matches!(shown.state, State::Scheduled | State::Queued);
        let waiting_for = match (recovers, waits) {
            (true, _) => Some(WaitingFor::Recovery),
            (false, true) => waiting(&shown, planned, around),
            (false, false) => None,
        };
        let mut told = shown.clone();
        told.waiting_for = waiting_for;
        let job = &row.job;
        let policy = around.rulebook.policy(&shown.policy);
        let explanation = if planned && waiting_for.is_none_or(|w| w == WaitingFor::Release) {
            explain_planned(shown.release_at, shown.deadline_at, around.now)
        } else {
            explain(&told, policy.retries().checked_add(1), around.now)
        };
        let explanation = if recovers { explanation + ONLY_THE_BOOK } else { explanation };
        let (last, receipt) = (shown.last.as_ref(), shown.receipt.as_ref());
        // The failure before an acceptance stands in the history; what was last heard is the acceptance.
        let accepted = receipt.filter(|_| shown.state == State::Sent);
        Self {
            key: job.key.to_string(),
            id: job.id.to_string(),
            tenant: job.tenant.clone(),
            purpose: job.purpose.clone(),
            subject_ref: job.subject_ref.clone(),
            business_date: job.business_date.clone(),
            state: state.to_owned(),
            release_at: shown.release_at.rfc3339(),
            deadline_at: shown.deadline_at.rfc3339(),
            next_attempt_at: waits.then(|| shown.due().rfc3339()),
            waiting_for: waiting_for.map(|w| w.word().to_owned()),
            attempts: shown.attempts,
            replays: row.replays,
            generation: shown.generation,
            last_outcome: accepted.map(|_| OutcomeClass::Accepted).or_else(|| last.map(|l| l.class)).map(|c| c.word().to_owned()),
            last_attempt_at: accepted.map(|r| r.at).or_else(|| last.map(|l| l.at)).map(|at| at.rfc3339()),
            reason: shown.reason.map(|r| r.word().to_owned()),
            diagnostic: last.filter(|_| accepted.is_none()).map(|l| hide_addresses(&l.diagnostic)).filter(|d| !d.is_empty()),
            in_doubt: !shown.open_tokens().is_empty() && shown.state != State::Sent,
            content_revision: job.content_revision,
            transport: job.transport.clone(),
            policy: job.policy.clone(),
            recipient_ref: job.recipient_ref.0.clone(),
            recipient_masked: job.recipient_masked.clone(),
            receipt: receipt.map(ReceiptBody::of),
            explanation,
            labels: job.labels.clone(),
            history: history.iter().map(HistoryBody::of).collect(),
        }
    }
}

/// What the ledger decides once its shard works: the rest is the book's alone.
fn may_wait_for_its_shard(row: &Row, around: &Around<'_>) -> bool {
    match row.state {
        BookState::Staged => true,
        BookState::Planned => row.job.release_at <= around.now.plus(around.staging_window),
        BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed => false,
    }
}

/// Whether the record is the truth about the row: staged, or created and not yet marked.
pub(super) fn owned_by_ledger(row: &Row, record: &Record) -> bool {
    match row.state {
        BookState::Staged | BookState::Planned => record.id == row.job.id && record.generation == row.generation,
        // The ledger took an acceptance for a dead letter that is recorded; the book hears of it at the next settle.
        BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed => {
            record.state == State::Sent && record.id == row.job.id && record.generation == row.generation
        }
        BookState::Sent => false,
    }
}

/// The record that a row of the book would have: for the sentence, and so that a job reads the same wherever it is.
fn as_record(row: &Row, tombstone: Option<&Record>, around: &Around<'_>) -> Record {
    let mut record = first_version(row, around.rulebook, 0, around.now).record;
    record.state = match row.state {
        BookState::Planned | BookState::Staged => State::Scheduled,
        BookState::Sent => State::Sent,
        BookState::DeadLetter => State::DeadLetter,
        BookState::Cancelled => State::Cancelled,
        BookState::Suppressed => State::Suppressed,
    };
    if record.state.is_terminal() {
        record.attempts = row.attempts;
        record.reason = row.reason;
        record.receipt.clone_from(&row.receipt);
        record.token = row.doubt;
        record.waiting_for = None;
        // The end of the lease bounds a replay of a doubt; the tombstone alone keeps it.
        record.lease_until = tombstone.filter(|t| t.id == row.job.id && t.generation == row.generation).and_then(|t| t.lease_until);
    }
    record.last.clone_from(&row.last);
    // The row keeps the token whose acceptance ended the job. Without a replay there is no other that could still be in doubt.
    if record.state == State::Sent && row.replays == 0 {
        record.doubts.clear();
    }
    record
}

/// Due, and not on its way to a worker.
pub(super) fn in_its_line(record: &Record, now: Moment) -> bool {
    record.state == State::Scheduled && record.due() <= now
}

/// The record's own word, unless a hold in force outlasts its next time.
fn waiting(record: &Record, planned: bool, around: &Around<'_>) -> Option<WaitingFor> {
    let (now, due) = (around.now, record.due());
    let outlasts = |until: Option<Moment>| match until {
        Some(until) => due <= now || until > due,
        None => due <= now.plus(around.staging_window),
    };
    let places = [Hold::Fleet, Hold::Shard(record.shard.0), Hold::Tenant(record.tenant().to_owned()), Hold::Transport(record.transport.clone())];
    let held = places.iter().filter_map(|place| in_force(around.holds, place, now)).find(|(_, until)| outlasts(*until));
    if let Some((by, _)) = held {
        return Some(by);
    }
    let by_time = if record.attempts > 0 { WaitingFor::Retry } else { WaitingFor::Release };
    if planned {
        return Some(WaitingFor::Release);
    }
    if due > now && record.waiting_for.is_none_or(|w| matches!(w, WaitingFor::Release | WaitingFor::Retry)) {
        return Some(by_time);
    }
    // Due, and never published: its tenant's limits keep it in its line.
    if let Some(by) = around.kept_back.get(record.tenant()).filter(|_| in_its_line(record, now)) {
        return Some(*by);
    }
    // A hold that was lifted no longer stands in the way, whatever the record remembers.
    record.waiting_for.filter(|w| match w {
        WaitingFor::Release | WaitingFor::Retry => due > now,
        WaitingFor::Pause | WaitingFor::Circuit => false,
        WaitingFor::CoolDown => due > now,
        WaitingFor::TenantInFlight
        | WaitingFor::TenantRate
        | WaitingFor::TenantCredit
        | WaitingFor::TransportRate
        | WaitingFor::Broker
        | WaitingFor::Recovery => true,
    })
}

impl ReceiptBody {
    fn of(receipt: &Receipt) -> Self {
        Self {
            at: receipt.at.rfc3339(),
            code: Some(receipt.code).filter(|code| *code > 0),
            text: hide_addresses(&receipt.text),
            queue_id: receipt.queue_id.clone(),
        }
    }
}

impl HistoryBody {
    /// An entry as it reads.
    pub(crate) fn of(entry: &HistoryEntry) -> Self {
        Self {
            at: entry.at.rfc3339(),
            actor: entry.actor.clone(),
            from: entry.from.map(|s| s.word().to_owned()),
            to: entry.to.word().to_owned(),
            reason: entry.reason.map(|r| r.word().to_owned()),
            attempt: (entry.attempt > 0).then_some(entry.attempt),
            detail: hide_addresses(&entry.detail),
        }
    }
}
