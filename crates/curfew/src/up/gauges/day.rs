//! The day's difference, as `curfew day` counts it (`api::routes::days`): the door's log less everything else, rows and records each on their own.

use curfew_book::{Book, BookState, Day};
use curfew_domain::{Key, Moment};
use curfew_ledger::{Ledger, LedgerError};

use std::time::Duration;

/// Staged rows compared at once.
const PAGE: u32 = 500;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Of today and yesterday (UTC, by the ledger's clock), the difference that is furthest from zero; `None` while a shard recovers, for what is
/// missing there may come back.
///
/// # Errors
/// Of the book, and of the ledger: where one shard can't be read, nobody can say that its jobs are missing.
pub(super) async fn difference(book: &dyn Book, ledger: &dyn Ledger, now: Moment) -> Result<Option<i64>, Failed> {
    let mut furthest = 0_i64;
    for date in [now.minus(DAY).date(), now.date()] {
        let day = book.day(&date, None).await?;
        let missing = missing(book, ledger, &date).await?;
        let found = of(&day, missing);
        if found.unsigned_abs() > furthest.unsigned_abs() {
            furthest = found;
        }
    }
    // After the reads: a recovery that began among them has hidden records.
    Ok(if works(ledger).await? { Some(furthest) } else { None })
}

fn of(day: &Day, missing: u64) -> i64 {
    let live = day.staged.saturating_sub(missing);
    let others = day.sent + day.dead_letter + day.cancelled + day.suppressed + day.planned + live;
    i64::try_from(day.accepted).unwrap_or(i64::MAX) - i64::try_from(others).unwrap_or(i64::MAX)
}

async fn works(ledger: &dyn Ledger) -> Result<bool, LedgerError> {
    let Some(recoverable) = ledger.recoverable() else { return Ok(true) };
    for shard in recoverable.all_shards() {
        if recoverable.meta(shard).await?.is_none_or(|meta| meta.recovering || !meta.of_this_server) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Staged rows of the date that the ledger holds no record of, read again before they count: a job may settle meanwhile.
async fn missing(book: &dyn Book, ledger: &dyn Ledger, date: &str) -> Result<u64, Failed> {
    let mut count = 0;
    let mut after: Option<Key> = None;
    loop {
        let keys = book.day_staged(date, None, after.as_ref(), PAGE).await?;
        let absent = absent(ledger, &keys).await?;
        if !absent.is_empty() {
            let rows = book.rows(&absent).await?;
            let still: Vec<Key> = rows.into_iter().flatten().filter(|v| v.row.state == BookState::Staged).map(|v| v.row.job.key).collect();
            count += self::absent(ledger, &still).await?.len() as u64;
        }
        match keys.last() {
            Some(last) if keys.len() == PAGE as usize => after = Some(last.clone()),
            Some(_) | None => return Ok(count),
        }
    }
}

/// Keys without a record. One that can't be read is one.
async fn absent(ledger: &dyn Ledger, keys: &[Key]) -> Result<Vec<Key>, LedgerError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    match ledger.records(keys).await {
        Ok(found) => Ok(keys.iter().zip(found).filter(|(_, record)| record.is_none()).map(|(key, _)| key.clone()).collect()),
        Err(LedgerError::Unreadable(_)) => {
            let mut absent = Vec::new();
            for key in keys {
                match ledger.records(std::slice::from_ref(key)).await {
                    Ok(found) if found.iter().all(Option::is_none) => absent.push(key.clone()),
                    Ok(_) | Err(LedgerError::Unreadable(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(absent)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_what_was_accepted_less_everything_else() {
        let day = Day { accepted: 10, sent: 4, dead_letter: 1, cancelled: 1, suppressed: 1, planned: 1, staged: 2 };
        assert_eq!(of(&day, 0), 0);
        assert_eq!(of(&day, 1), 1, "a staged row without a record");
        assert_eq!(of(&Day { accepted: 11, ..day.clone() }, 0), 1, "a line of the door's log without a row");
        assert_eq!(of(&Day { accepted: 9, ..day }, 0), -1, "a row that no door let in");
    }
}
