//! Stage: planned rows whose release is inside the staging window become records.

use std::time::Duration;

use curfew_book::Planned;
use curfew_courier::CourierError;
use curfew_courier::pause::Point;
use curfew_domain::Shard;
use curfew_ledger::{Ledger, LedgerError};
use tokio::time::Instant;

use crate::{Ports, Settings};

/// Rows per round; the book's bulk transactions take 500.
const ROWS_MAX: u32 = 500;
/// How long a measure of the ledger's memory holds; what is staged meanwhile is added to it.
const MEASURED_FOR: Duration = Duration::from_secs(2);
/// What a waiting job weighs in the ledger without its letter, rounded up (measured: 1,754 bytes).
const RECORD_BYTES: u64 = 2 * 1024;

/// Rows that can't be staged now are read past, up to so many.
const STUCK_MAX: u32 = 5_000;

/// What one round tells the next.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    /// How many rows the last one left; the plan is read past them, so that they don't stand in front of the others.
    stuck: u32,
    measured: Option<(Instant, u64)>,
    added: u64,
}

impl Filling {
    /// Bytes that the ledger holds: what it said a moment ago, and what was staged since.
    async fn bytes(&mut self, ledger: &dyn Ledger) -> Result<u64, LedgerError> {
        let held = match self.measured {
            Some((at, bytes)) if at.elapsed() < MEASURED_FOR => bytes,
            Some(_) | None => {
                let bytes = ledger.live_bytes().await?;
                (self.measured, self.added) = (Some((Instant::now(), bytes)), 0);
                bytes
            }
        };
        Ok(held.saturating_add(self.added))
    }

    fn add(&mut self, letters: impl Iterator<Item = usize>) {
        self.added += letters.map(|bytes| bytes as u64 + RECORD_BYTES).sum::<u64>();
    }
}

/// One round.
pub(crate) async fn step(ports: &Ports, settings: &Settings, shards: &[Shard], filling: &mut Filling) -> Result<Step, CourierError> {
    let begun = curfew_courier::begin(&*ports.ledger, shards).await?;
    let limit = ROWS_MAX + filling.stuck.min(STUCK_MAX);
    let rows: Vec<Planned> = ports.book.plan(&begun.shards(), begun.at.plus(settings.staging_window), limit).await?;
    if rows.is_empty() {
        filling.stuck = 0;
        return Ok(Step::Idle);
    }
    if filling.bytes(&*ports.ledger).await? >= settings.max_live_bytes {
        return Ok(Step::Full);
    }
    filling.add(rows.iter().map(|planned| planned.row.job.letter.as_bytes().len()));
    let count = rows.len();
    for planned in &rows {
        ports.pauses.at(Point::BeforeStaging, &planned.row.job.key).await;
    }
    let staged = curfew_courier::stage(&*ports.ledger, &*ports.book, &*ports.review, &ports.rulebook, rows, &begun).await?;
    filling.stuck = u32::try_from(staged.left).unwrap_or(u32::MAX);
    Ok(if count == limit as usize && staged.created > 0 { Step::More } else { Step::Idle })
}

/// What a round asks of its loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing more now.
    Idle,
    /// Go on at once.
    More,
    /// The ledger holds as much as it may.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Between two measures 5,000 jobs a second would pass any bound unseen.
    #[tokio::test]
    async fn what_is_staged_since_a_measure_is_added_to_it_until_the_next() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let store = curfew_store::Sqlite::open(curfew_store::OpenOptions::new(folder.path())).await.expect("a new file opens");
        let ledger = curfew_ledger::sql::SqlLedger::open(store, curfew_ledger::sql::Options::default()).await.expect("an empty file is a ledger");
        tokio::time::pause();
        let mut filling = Filling::default();
        assert_eq!(filling.bytes(&ledger).await.expect("it is there"), 0, "what lies on the disk takes no memory");
        filling.add([1024, 256 * 1024].into_iter());
        let added = 1024 + 256 * 1024 + 2 * RECORD_BYTES;
        assert_eq!(filling.bytes(&ledger).await.expect("it is there"), added);
        tokio::time::advance(MEASURED_FOR).await;
        assert_eq!(filling.bytes(&ledger).await.expect("it is there"), 0, "measured anew");
    }
}
