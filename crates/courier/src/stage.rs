//! Staging: the ledger's time, the book's rows, `create`, mark. Repeating is free: a create says what it found.

use curfew_book::{Book, Planned, Row};
use curfew_domain::form;
use curfew_domain::record::{Kept, WaitingFor};
use curfew_domain::transition::{Change, created};
use curfew_domain::{Moment, Record, State};
use curfew_ledger::{Create, Created, Ledger};
use curfew_review::Review;

use crate::close::{record_dead_letters, settle};
use crate::{CourierError, Rulebook};

/// What a staging did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Staged {
    /// Records created.
    pub created: usize,
    /// Records that stood there already, in the same generation.
    pub found: usize,
    /// Rows left for later: a stale read, an unclosed earlier generation, a higher one.
    pub left: usize,
}

/// Stages rows that were read at `read_at` or later, by the ledger's clock.
///
/// An ended record of the same generation is told to the book again. A row whose earlier generation isn't closed yet waits for that.
///
/// # Errors
/// `CourierError`: what was created stays, and is found by the next try.
pub async fn stage(
    ledger: &dyn Ledger,
    book: &dyn Book,
    review: &dyn Review,
    rulebook: &Rulebook,
    rows: Vec<Planned>,
    read_at: Moment,
) -> Result<Staged, CourierError> {
    let mut staged = Staged::default();
    if rows.is_empty() {
        return Ok(staged);
    }
    let now = ledger.now().await?;
    let creates = rows.iter().map(|p| Create { change: first_version(&p.row, rulebook, now), letter: p.row.job.letter.clone(), read_at }).collect();
    let answers = ledger.create(creates).await?;
    let mut marks = Vec::with_capacity(rows.len());
    let mut ended = Vec::new();
    for (planned, answer) in rows.iter().zip(answers) {
        match answer {
            Created::Created => {
                staged.created += 1;
                marks.push((planned.row.job.key.clone(), planned.row.generation));
            }
            Created::Exists(record) => {
                staged.found += 1;
                if record.state.is_terminal() { ended.push(*record) } else { marks.push((planned.row.job.key.clone(), planned.row.generation)) }
            }
            Created::EarlierUnclosed(record) if record.state.is_terminal() => {
                staged.left += 1;
                ended.push(*record);
            }
            Created::EarlierUnclosed(_) | Created::HigherGeneration | Created::StaleRead => staged.left += 1,
        }
    }
    book.mark_staged(&marks).await?;
    tell_again(ledger, book, review, rulebook, ended, now).await?;
    Ok(staged)
}

/// A record that ended, and whose row doesn't know: its story is told to the book once more.
async fn tell_again(
    ledger: &dyn Ledger,
    book: &dyn Book,
    review: &dyn Review,
    rulebook: &Rulebook,
    ended: Vec<Record>,
    now: Moment,
) -> Result<(), CourierError> {
    let (dead, settled): (Vec<_>, Vec<_>) = ended.into_iter().partition(|r| r.state == State::DeadLetter);
    settle(ledger, book, settled, now).await?;
    record_dead_letters(ledger, review, dead, rulebook.owners(), now).await?;
    Ok(())
}

/// The first version of a row's record in its present generation.
pub fn first_version(row: &Row, rulebook: &Rulebook, now: Moment) -> Change {
    let job = &row.job;
    let policy = rulebook.policy(&job.policy);
    let record = Record {
        format: form::written(),
        id: job.id,
        key: job.key.clone(),
        shard: job.shard,
        generation: row.generation,
        version: 1,
        incarnation: 0,
        state: State::Scheduled,
        release_at: job.release_at,
        deadline_at: job.deadline_at,
        next_attempt_at: job.release_at,
        attempts: 0,
        purpose: job.purpose.clone(),
        business_date: job.business_date.clone(),
        recipient_ref: job.recipient_ref.clone(),
        transport: job.transport.clone(),
        policy: job.policy.clone(),
        policy_version: policy.version,
        at_deadline: policy.at_deadline.clone(),
        content_revision: job.content_revision,
        lease_until: None,
        worker: None,
        token: None,
        window_doubts: Vec::new(),
        window_until: None,
        doubts: row.doubts.clone(),
        first_handoff_at: None,
        waiting_for: (job.release_at > now).then_some(WaitingFor::Release),
        last: None,
        reason: None,
        receipt: None,
        closed: false,
        configuration_met: 0,
        strikes: 0,
        verbs: Vec::new(),
        pins: row.pins.clone(),
        kept: Kept::default(),
    };
    created(record, now)
}
