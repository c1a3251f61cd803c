//! Staging: the ledger's time, the book's rows, `create`, mark. Repeating is free: a create says what it found.

use std::collections::BTreeMap;

use curfew_book::{Book, BookError, Mark, Planned, Row};
use curfew_domain::form;
use curfew_domain::record::{Kept, WaitingFor};
use curfew_domain::transition::{Change, created};
use curfew_domain::{Moment, Record, Shard, State};
use curfew_ledger::{Create, Created, Ledger, LedgerError};
use curfew_review::Review;

use crate::close::{record_dead_letters, settle};
use crate::{Begun, CourierError, Rulebook};

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

/// Stages rows that were read after the errand began. A shard that waits for its recovery, or that was recovered since, is left for later; the
/// others go on.
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
    begun: &Begun,
) -> Result<Staged, CourierError> {
    let mut staged = Staged::default();
    if rows.is_empty() {
        return Ok(staged);
    }
    let now = ledger.now().await?;
    let mut shards: BTreeMap<Shard, Vec<Row>> = BTreeMap::new();
    for planned in rows {
        shards.entry(planned.row.job.shard).or_default().push(planned.row);
    }
    let mut ended = Vec::new();
    let asked = shards.iter().map(|(shard, rows)| async move {
        let Some(incarnation) = begun.incarnations.get(shard) else { return Err(LedgerError::OtherServer) };
        let create =
            |row: &Row| Create { change: first_version(row, rulebook, *incarnation, now), letter: row.job.letter.clone(), read_at: begun.at };
        ledger.create(rows.iter().map(create).collect()).await
    });
    for (answers, (shard, rows)) in futures::future::join_all(asked).await.into_iter().zip(&shards) {
        let marks = match answers {
            Ok(answers) => sorted(&mut staged, &mut ended, rows, answers, begun.incarnations.get(shard).copied().unwrap_or_default()),
            Err(LedgerError::OtherServer | LedgerError::Recovering | LedgerError::Halted) => {
                staged.left += rows.len();
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match book.mark_staged(&marks).await {
            Ok(()) => {}
            Err(BookError::OtherIncarnation) => staged.left += marks.len(),
            Err(error) => return Err(error.into()),
        }
    }
    tell_again(ledger, book, review, rulebook, ended, now).await?;
    Ok(staged)
}

/// What the answers of one shard come to: the rows to be marked.
fn sorted(staged: &mut Staged, ended: &mut Vec<Record>, rows: &[Row], answers: Vec<Created>, incarnation: u32) -> Vec<Mark> {
    let mut marks = Vec::with_capacity(rows.len());
    for (row, answer) in rows.iter().zip(answers) {
        let mark = || Mark { key: row.job.key.clone(), generation: row.generation, shard: row.job.shard, incarnation };
        match answer {
            Created::Created => {
                staged.created += 1;
                marks.push(mark());
            }
            Created::Exists(record) => {
                staged.found += 1;
                if record.state.is_terminal() { ended.push(*record) } else { marks.push(mark()) }
            }
            Created::EarlierUnclosed(record) if record.state.is_terminal() => {
                staged.left += 1;
                ended.push(*record);
            }
            Created::EarlierUnclosed(_) | Created::HigherGeneration | Created::StaleRead => staged.left += 1,
        }
    }
    marks
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

/// The first version of a row's record in its present generation, in the incarnation in which the errand began.
pub fn first_version(row: &Row, rulebook: &Rulebook, incarnation: u32, now: Moment) -> Change {
    let job = &row.job;
    let policy = rulebook.policy(&job.policy);
    let record = Record {
        format: form::written(),
        id: job.id,
        key: job.key.clone(),
        shard: job.shard,
        generation: row.generation,
        version: 1,
        incarnation,
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
        trace: job.trace,
        kept: Kept::default(),
    };
    created(record, now)
}
