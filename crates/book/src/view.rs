//! What the book shows of its rows.

use std::collections::BTreeMap;

use curfew_domain::history::HistoryEntry;
use curfew_domain::job::Job;
use curfew_domain::outcome::Receipt;
use curfew_domain::record::LastOutcome;
use curfew_domain::sealed::RecipientRef;
use curfew_domain::{Moment, Reason, Token};

use crate::BookState;

/// A row whole, for staging, verbs and the API. Its letter is sealed.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// As accepted; `release_at`, `deadline_at`, `letter` and `content_revision` as they stand now.
    pub job: Job,
    /// Who owns it, or how it ended.
    pub state: BookState,
    /// The generation in force.
    pub generation: u32,
    /// The highest story seen: (generation, incarnation, version).
    pub seen: (u32, u32, u64),
    /// Whether it was ever staged.
    pub ever_staged: bool,
    /// Replays so far.
    pub replays: u32,
    /// Attempts begun in the generation told last.
    pub attempts: u32,
    /// The last outcome told.
    pub last: Option<LastOutcome>,
    /// Why it ended.
    pub reason: Option<Reason>,
    /// The provider's proof.
    pub receipt: Option<Receipt>,
    /// The token in doubt of a recorded dead letter.
    pub doubt: Option<Token>,
    /// Its generation's tokens in doubt that attempts inside the provider's window stepped over; empty where `doubt` is.
    pub window_doubts: Vec<Token>,
    /// Earlier tokens in doubt, carried into the next generation.
    pub doubts: Vec<Token>,
    /// Artifact hashes as first read.
    pub pins: Vec<String>,
    /// The number of a verb that is open on it.
    pub open_verb: Option<u64>,
    /// The story as flushed so far.
    pub history: Vec<HistoryEntry>,
}

/// A row as lists show it: no letter, no history.
#[derive(Clone, PartialEq, Debug)]
pub struct JobView {
    /// The row, its letter empty and its history left out.
    pub row: Row,
}

/// One state's figure and the ids behind it, where asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DayCount {
    /// Rows of the state.
    pub count: u64,
}

/// What a day asks of the fleet, and what the latest jobs took.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// The minute in which most jobs of the day are released, and how many; cancelled and suppressed ones aren't counted.
    pub busiest: Option<(Moment, u64)>,
    /// Of the latest jobs that were tried and ended: how many took so many attempts.
    pub by_attempts: BTreeMap<u32, u64>,
}

/// A business date's figures, each counted on its own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Day {
    /// From the door's log.
    pub accepted: u64,
    /// Rows by state.
    pub sent: u64,
    /// Dead letters.
    pub dead_letter: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Suppressed.
    pub suppressed: u64,
    /// The book's own: not staged.
    pub planned: u64,
    /// Owned by the ledger; the caller compares it with the ledger's records.
    pub staged: u64,
}

/// A hold as the book keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HoldRow {
    /// `transport`, `tenant`, `shard` or `fleet`.
    pub kind: String,
    /// The name; empty for the fleet.
    pub name: String,
    /// `pause`, `cool_down` or `circuit`.
    pub by: String,
    /// Until when it surely holds.
    pub until: Option<Moment>,
    /// Why, for people.
    pub reason: String,
    /// Who, or `curfew`.
    pub actor: String,
    /// Since when.
    pub since: Moment,
}

/// A recipient on a suppressions list, as the book keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SuppressionRow {
    /// Of one tenant, or all.
    pub tenant: Option<String>,
    /// The keyed hash.
    pub recipient_ref: RecipientRef,
    /// As lists show it.
    pub recipient_masked: String,
    /// Why.
    pub reason: String,
    /// Who.
    pub actor: String,
    /// Since when.
    pub since: Moment,
}
