//! Whether this process can do its work: what each of its roles rests on is asked every second, so that a probe is answered at once.
//!
//! A role names what it can't work without, and no more: while the broker is away the API takes jobs, and while the book is away workers send.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use curfew_api::Ready;
use tokio_util::sync::CancellationToken;

use super::Roles;
use super::clocks::Distrust;
use crate::wire::Parts;

const EVERY: Duration = Duration::from_secs(1);
/// A service that takes longer is missing: nothing would go on with it either.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// What is missing as last seen, in words; `None` until everything was asked once.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    missing: Arc<Mutex<Option<Vec<String>>>>,
}

impl Readiness {
    /// What a probe is told. A process that drains is ready no more, so that nothing new is sent to one that goes.
    pub fn told(&self, stop: &CancellationToken) -> Ready {
        let missing = self.missing.lock().expect("nobody panics while holding it").clone();
        let mut waiting_for = missing.unwrap_or_else(|| vec!["its start: nothing was asked yet".to_owned()]);
        if stop.is_cancelled() {
            waiting_for.push("the end: it drains".to_owned());
        }
        Ready { ready: waiting_for.is_empty(), waiting_for }
    }

    /// Asks until `stop`.
    pub async fn watch(self, parts: Arc<Parts>, has: Roles, distrust: Distrust, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let found = missing(&parts, has, &distrust).await;
            let mut known = self.missing.lock().expect("nobody panics while holding it");
            if known.as_ref().is_some_and(|known| *known != found) {
                match found.is_empty() {
                    true => tracing::info!("ready again"),
                    false => tracing::warn!(error_class = "store", "not ready: {}", found.join("; ")),
                }
            }
            *known = Some(found);
        }
    }
}

async fn missing(parts: &Parts, has: Roles, distrust: &Distrust) -> Vec<String> {
    let (book, ledger, broker) =
        tokio::join!(answered("book", book(parts, has)), answered("ledger", ledger(parts, has)), answered("broker", broker(parts, has)));
    // The door takes jobs meanwhile; who moves them stands still.
    let halted = if has.scheduler || has.worker { distrust.words() } else { Vec::new() };
    let halted = halted.into_iter().map(|why| format!("ledger: {why}"));
    [book, ledger, broker].into_iter().flatten().chain(halted).collect()
}

async fn answered(what: &str, asked: impl Future<Output = Result<(), String>>) -> Option<String> {
    match tokio::time::timeout(ANSWER_MAX, asked).await {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(format!("{what}: {why}")),
        Err(_late) => Some(format!("{what}: no answer in {} s", ANSWER_MAX.as_secs())),
    }
}

async fn book(parts: &Parts, has: Roles) -> Result<(), String> {
    if has.scheduler || has.deadletter || has.api {
        parts.book.constants(&[]).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The API needs the ledger's clock alone; who moves jobs must be let past the barrier too (DESIGN 8).
async fn ledger(parts: &Parts, has: Roles) -> Result<(), String> {
    let now = parts.ledger.now().await.map_err(|error| error.to_string())?;
    if has.scheduler || has.worker || has.deadletter {
        let first = &parts.shards[..parts.shards.len().min(1)];
        parts.ledger.agenda(first, now).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Who publishes needs a broker that takes it; who consumes, its queue.
async fn broker(parts: &Parts, has: Roles) -> Result<(), String> {
    if has.scheduler && !parts.broker.is_open() {
        return Err("it takes nothing at the moment".to_owned());
    }
    if (has.worker || has.deadletter)
        && let Some(shard) = parts.shards.first()
    {
        parts.broker.ready_state(*shard).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_once_nothing_is_missing_and_until_it_drains() {
        let (readiness, stop) = (Readiness::default(), CancellationToken::new());
        let told = readiness.told(&stop);
        assert!(!told.ready && told.waiting_for[0].contains("nothing was asked yet"), "{told:?}");
        *readiness.missing.lock().expect("nobody panics") = Some(vec!["ledger: away".to_owned()]);
        let told = readiness.told(&stop);
        assert!(!told.ready && told.waiting_for == ["ledger: away"], "{told:?}");
        *readiness.missing.lock().expect("nobody panics") = Some(Vec::new());
        assert!(readiness.told(&stop).ready);
        stop.cancel();
        let told = readiness.told(&stop);
        assert!(!told.ready && told.waiting_for[0].contains("drains"), "{told:?}");
    }

    #[tokio::test]
    async fn a_service_that_is_missing_is_named() {
        assert_eq!(answered("book", async { Ok(()) }).await, None);
        assert_eq!(answered("book", async { Err("broken".to_owned()) }).await.as_deref(), Some("book: broken"));
    }
}
