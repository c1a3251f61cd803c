//! Stage: planned rows whose release is inside the staging window become records.

use curfew_book::Planned;
use curfew_courier::CourierError;
use curfew_courier::pause::Point;
use curfew_domain::Shard;

use crate::{Ports, Settings};

/// Rows per round; the book's bulk transactions take 500.
const ROWS_MAX: u32 = 500;
/// What a live record weighs with its letter, for `max_live_bytes`, until the ledger can say better.
const LIVE_BYTES_EACH: u64 = 4 * 1024;

/// Rows that can't be staged now are read past, up to so many.
const STUCK_MAX: u32 = 5_000;

/// One round. `stuck`: how many rows the last one left; the plan is read past them, so that they don't stand in front of the others.
pub(crate) async fn step(ports: &Ports, settings: &Settings, shards: &[Shard], stuck: &mut u32) -> Result<Step, CourierError> {
    let read_at = ports.ledger.now().await?;
    let limit = ROWS_MAX + (*stuck).min(STUCK_MAX);
    let rows: Vec<Planned> = ports.book.plan(shards, read_at.plus(settings.staging_window), limit).await?;
    if rows.is_empty() {
        *stuck = 0;
        return Ok(Step::Idle);
    }
    let live: u64 = ports.ledger.live_by_state().await?.values().sum();
    if live.saturating_mul(LIVE_BYTES_EACH) >= settings.max_live_bytes {
        return Ok(Step::Full);
    }
    let count = rows.len();
    for planned in &rows {
        ports.pauses.at(Point::BeforeStaging, &planned.row.job.key).await;
    }
    let staged = curfew_courier::stage(&*ports.ledger, &*ports.book, &*ports.review, &ports.rulebook, rows, read_at).await?;
    *stuck = u32::try_from(staged.left).unwrap_or(u32::MAX);
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
