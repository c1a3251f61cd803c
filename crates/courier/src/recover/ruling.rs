//! What recovery does with one job, from what survived in the ledger and what the book knows: pure, by the rules of the model's `rollback`.
//!
//! `lost_worker`: one that could have had the job has not reported. Then whatever may have been claimed by `until` (T1) and isn't proven is in
//! doubt about every token of its generation; else everything continues as it stands.

use curfew_book::{BookState, Row, VerbSeen};
use curfew_domain::transition::BookStory;
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Moment, Reason, State};
use curfew_ledger::Survivor;

/// What is known of one job.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What survived.
    pub survivor: Option<&'a Survivor>,
    /// What the book has.
    pub row: Option<&'a Row>,
    /// Verbs open or applied, by number.
    pub verbs: &'a [VerbSeen],
    /// The incarnation that recovers.
    pub incarnation: u32,
    /// Whether a worker that could have had it is missing.
    pub lost_worker: bool,
    /// Nothing was claimed after this (T1).
    pub until: Moment,
}

/// What is done about it.
#[derive(Clone, PartialEq, Debug)]
pub enum Ruling {
    /// Nothing.
    Stands,
    /// The record follows the book's later story, and is closed.
    BookWins(BookStory),
    /// The record takes the times that the book saw later.
    Moved(Moment, Moment),
    /// A receipt of an earlier generation ends the one that the book staged.
    SentIn(u32),
    /// The row is planned again in its next generation; an earlier record that stands in its way is closed so first.
    TakeBack(Option<BookStory>),
    /// A record is written in the row's generation, in doubt about every token of it.
    Missing,
    /// The record is in doubt about every token of its generation.
    Doubt,
    /// The claim was dropped by its worker.
    ClaimDropped,
}

/// Rules on one job.
pub fn rule(facts: Facts<'_>) -> Ruling {
    let Some(row) = facts.row else { return facts.survivor.map_or(Ruling::Stands, |survivor| continued(facts, survivor)) };
    let may_have_run = facts.lost_worker && row.job.release_at <= facts.until;
    match (row.state, facts.survivor) {
        (BookState::Planned, None) if may_have_run => Ruling::Missing,
        (BookState::Planned, None) => Ruling::Stands,
        (BookState::Staged, None) => missing(facts, row, None),
        (BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed, None) => Ruling::Stands,
        (BookState::Planned, Some(survivor)) if survivor.record.generation < row.generation => replayed(facts, row, survivor, may_have_run),
        (BookState::Staged, Some(survivor)) if survivor.record.generation < row.generation => match survivor.record.state {
            State::Sent => Ruling::SentIn(row.generation),
            _unsent => missing(facts, row, Some(survivor)),
        },
        (_, Some(survivor)) if proven(facts, survivor) => Ruling::Stands,
        (BookState::Staged, Some(survivor)) => staged(facts, row, survivor, may_have_run),
        (BookState::Planned, Some(survivor)) => continued(facts, survivor),
        (BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed, Some(survivor)) => told(facts, row, survivor),
    }
}

/// The verbs that the record lacks, in the order of their numbers.
pub fn lacking<'a>(facts: &Facts<'a>, survivor: &Survivor) -> Vec<&'a NumberedVerb> {
    let record = &survivor.record;
    let lacks = |seen: &&VerbSeen| {
        let same_times = match &seen.verb.verb {
            Verb::Move { release_at, deadline_at } => (*release_at, *deadline_at) == (record.release_at, record.deadline_at),
            Verb::Cancel | Verb::Suppress => false,
        };
        seen.verb.generation == record.generation && record.verbs.iter().all(|number| *number < seen.verb.number) && !same_times
    };
    facts.verbs.iter().filter(lacks).map(|seen| &seen.verb).collect()
}

/// A report, or an earlier try of this recovery, said what became of it. A verdict alone doesn't prove a job that waits: its next attempt may be lost.
fn proven(facts: Facts<'_>, survivor: &Survivor) -> bool {
    survivor.written_in == facts.incarnation
        && match survivor.record.state {
            State::Handoff | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => true,
            State::Scheduled | State::Queued | State::Claimed => false,
        }
}

/// The book planned a replay. What survived of the earlier generation is closed already, or the book knows better.
fn replayed(facts: Facts<'_>, row: &Row, survivor: &Survivor, may_have_run: bool) -> Ruling {
    let record = &survivor.record;
    let touched = survivor.written_in == facts.incarnation;
    match record.state {
        // Its receipt withdraws the replay once it is told.
        State::Sent => Ruling::Stands,
        _unsent if record.closed && (touched || !may_have_run) => Ruling::Stands,
        _unsent if touched && proven(facts, survivor) => Ruling::Stands,
        _unsent if may_have_run => Ruling::Missing,
        _unsent => Ruling::BookWins(closed_for_its_replay(row, survivor)),
    }
}

fn missing(facts: Facts<'_>, row: &Row, survivor: Option<&Survivor>) -> Ruling {
    if row.job.release_at <= facts.until {
        return Ruling::Missing;
    }
    Ruling::TakeBack(survivor.filter(|survivor| !survivor.record.closed).map(|survivor| closed_for_its_replay(row, survivor)))
}

/// The ledger's own: the book may have seen a later move of it.
fn staged(facts: Facts<'_>, row: &Row, survivor: &Survivor, may_have_run: bool) -> Ruling {
    let record = &survivor.record;
    let waits = matches!(record.state, State::Scheduled | State::Queued | State::Claimed);
    let later = row.seen.0 == record.generation && row.seen > written(survivor) && record.generation == row.generation;
    if waits && later && !may_have_run {
        return Ruling::Moved(row.job.release_at, row.job.deadline_at);
    }
    continued(facts, survivor)
}

/// The book has its end: what it saw later than the record wins.
fn told(facts: Facts<'_>, row: &Row, survivor: &Survivor) -> Ruling {
    let end = match row.state {
        BookState::Sent => State::Sent,
        BookState::DeadLetter => State::DeadLetter,
        BookState::Cancelled => State::Cancelled,
        BookState::Suppressed => State::Suppressed,
        BookState::Planned | BookState::Staged => return Ruling::Stands,
    };
    let (seen, stands) = (row.seen, written(survivor));
    if seen > stands || seen == stands && survivor.record.state != end {
        return Ruling::BookWins(BookStory {
            generation: row.generation.max(survivor.record.generation),
            state: end,
            reason: row.reason,
            receipt: row.receipt.clone(),
            token: row.doubt.filter(|_| end == State::DeadLetter),
            window_doubts: if end == State::DeadLetter { row.window_doubts.clone() } else { Vec::new() },
            doubts: row.doubts.clone(),
        });
    }
    continued(facts, survivor)
}

fn written(survivor: &Survivor) -> (u32, u32, u64) {
    (survivor.record.generation, survivor.written_in, survivor.record.version)
}

/// As it stands, unless it may have been claimed in the part that is lost.
fn continued(facts: Facts<'_>, survivor: &Survivor) -> Ruling {
    let record = &survivor.record;
    if record.closed || proven(facts, survivor) {
        return Ruling::Stands;
    }
    let begun = match record.state {
        State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => return Ruling::Stands,
        State::Claimed | State::Handoff => true,
        State::Scheduled | State::Queued => earliest(facts, survivor) <= facts.until,
    };
    match (facts.lost_worker && begun, record.state) {
        (true, _) => Ruling::Doubt,
        (false, State::Claimed) => Ruling::ClaimDropped,
        (false, _) => Ruling::Stands,
    }
}

/// When it could have been claimed first: by its own times, by the book's, by a move that the record lacks.
fn earliest(facts: Facts<'_>, survivor: &Survivor) -> Moment {
    let moves = facts.verbs.iter().filter_map(|seen| match seen.verb.verb {
        Verb::Move { release_at, .. } if seen.verb.generation == survivor.record.generation => Some(release_at),
        Verb::Move { .. } | Verb::Cancel | Verb::Suppress => None,
    });
    moves.chain([survivor.record.due()]).min().unwrap_or(survivor.record.due())
}

/// The earlier generation is a recorded dead letter, as the book has it: its open tokens are carried by the row.
fn closed_for_its_replay(row: &Row, survivor: &Survivor) -> BookStory {
    let record = &survivor.record;
    let mut doubts = row.doubts.clone();
    doubts.extend(record.doubts.iter().filter(|token| !row.doubts.contains(token)));
    BookStory {
        generation: record.generation,
        state: State::DeadLetter,
        reason: record.reason.or(Some(Reason::LedgerRolledBack)),
        receipt: None,
        token: None,
        window_doubts: Vec::new(),
        doubts,
    }
}
