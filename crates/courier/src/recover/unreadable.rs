//! Records and rows that can't be read: each is left as it stands and told; it keeps neither a shard from its recovery nor a worker from its report.

use std::sync::Mutex;
use std::time::Duration;

use curfew_book::BookError;
use curfew_domain::Key;
use curfew_ledger::{LedgerError, Recoverable, Survivor};
use tokio::time::Instant;

use crate::CourierError;

/// A shard that recovers is looked at twice a second; a person doesn't look so often.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What stands under a key.
pub(super) enum Stands {
    Nothing,
    Survivor(Box<Survivor>),
    /// A newer process may read it, or nobody.
    Unreadable,
}

/// What stands under each key. All at once, and one by one where one of them can't be read.
pub(super) async fn survivors(recoverable: &dyn Recoverable, keys: &[Key]) -> Result<Vec<Stands>, CourierError> {
    let stands = |found: Option<Survivor>| found.map_or(Stands::Nothing, |survivor| Stands::Survivor(Box::new(survivor)));
    match recoverable.survivors(keys).await {
        Ok(found) => return Ok(found.into_iter().map(stands).collect()),
        Err(LedgerError::Unreadable(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let mut all = Vec::with_capacity(keys.len());
    for key in keys {
        match recoverable.survivors(std::slice::from_ref(key)).await {
            Ok(found) => all.push(stands(found.into_iter().next().flatten())),
            Err(error @ LedgerError::Unreadable(_)) => {
                tell(key, &error.into());
                all.push(Stands::Unreadable);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

/// `otherwise` where the job's record or row can't be read, which is told.
pub(super) fn left<T>(key: &Key, done: Result<T, CourierError>, otherwise: T) -> Result<T, CourierError> {
    match done {
        Err(error @ (CourierError::Ledger(LedgerError::Unreadable(_)) | CourierError::Book(BookError::Unreadable(_)))) => {
            tell(key, &error);
            Ok(otherwise)
        }
        done => done,
    }
}

fn tell(key: &Key, error: &CourierError) {
    static TOLD: Mutex<Option<Instant>> = Mutex::new(None);
    let mut told = TOLD.lock().expect("no holder panics");
    if told.is_none_or(|at| at.elapsed() >= TOLD_EVERY) {
        *told = Some(Instant::now());
        tracing::error!(key = %key, error_class = "store", "what can't be read is left as it stands, this one among it: {error}");
    }
}
