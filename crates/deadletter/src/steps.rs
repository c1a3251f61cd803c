//! What becomes of one message of the dead-letter queue.

use std::time::Duration;

use curfew_book::BookState;
use curfew_broker::Delivery;
use curfew_courier::pause::Point;
use curfew_courier::{Closed, CourierError};
use curfew_domain::form::FormError;
use curfew_domain::transition::{Event, transition};
use curfew_domain::wake_up::WakeUp;
use curfew_domain::{Key, Moment, Reason, Record, State};
use curfew_ledger::Swap;
use curfew_review::Quarantined;
use curfew_telemetry::metrics;
use sha2::{Digest, Sha256};

use crate::Ports;

/// How much of an unreadable body is kept.
const BODY_BYTES_MAX: usize = 4 * 1024;
/// A struck job rests this long.
const STRIKE_REST: Duration = Duration::from_secs(5);

/// Handles one message; when it returns, the message may be acked.
pub(crate) async fn handle(ports: &Ports, delivery: &Delivery) -> Result<(), CourierError> {
    let wake = match WakeUp::decode(&delivery.body) {
        Ok(wake) => wake,
        Err(FormError::Newer(_)) => return Ok(()),
        Err(_malformed) => return malformed(ports, delivery).await,
    };
    let now = ports.ledger.now().await?;
    let Some(record) = ports.ledger.records(std::slice::from_ref(&wake.key)).await?.pop().flatten() else {
        return missing(ports, &wake.key, now).await;
    };
    match record.state {
        _ if record.closed => Ok(()),
        State::DeadLetter => record_all(ports, vec![record], now).await.map(drop),
        State::Scheduled | State::Queued | State::Claimed if delivery.gave_up && record.generation == wake.generation => {
            strike(ports, &record, now).await
        }
        State::Scheduled | State::Queued | State::Claimed | State::Handoff | State::Sent | State::Cancelled | State::Suppressed => Ok(()),
    }
}

/// Records dead letters and counts them as ended.
pub(crate) async fn record_all(ports: &Ports, records: Vec<Record>, now: Moment) -> Result<Closed, CourierError> {
    let ended: Vec<(Reason, bool)> = records.iter().map(|r| (r.reason.unwrap_or(Reason::ReconciliationRequired), r.generation > 1)).collect();
    for record in &records {
        ports.pauses.at(Point::BeforeRecord, &record.key).await;
    }
    let closed = curfew_courier::record_dead_letters(&*ports.ledger, &*ports.review, records, &ports.owners, now).await?;
    // Of two that record the same, one closes it: that one counts.
    for (reason, replayed) in ended.into_iter().take(closed.closed) {
        metrics::job_settled(State::DeadLetter.word(), reason);
        metrics::deadline_outcome(false);
        if replayed {
            metrics::replay(metrics::ReplayResult::DeadLetter);
        }
    }
    Ok(closed)
}

/// Bytes that nobody can read: kept sealed, with a fingerprint so that a repetition makes no second item.
async fn malformed(ports: &Ports, delivery: &Delivery) -> Result<(), CourierError> {
    let at = ports.ledger.now().await?;
    let digest = Sha256::digest(&delivery.body);
    let kept = &delivery.body[..delivery.body.len().min(BODY_BYTES_MAX)];
    let body = ports.keyring.seal(rand::random(), &digest, kept);
    let message = Quarantined {
        reason: Reason::MalformedMessage,
        key: None,
        body: Some(body),
        fingerprint: hex::encode(digest),
        diagnostic: format!("a message of {} bytes is no wake-up that Curfew writes", delivery.body.len()),
        at,
    };
    let id = ports.review.quarantine(message).await?;
    metrics::dead_letter(Reason::MalformedMessage);
    tracing::error!(reason = "malformed_message", "an undecodable message is kept as review item {id}");
    Ok(())
}

/// The broker gave it up. A live job goes on, counted; the third time it is poison.
async fn strike(ports: &Ports, record: &Record, now: Moment) -> Result<(), CourierError> {
    if let Ok(change) = transition(record, &Event::Strike { until: now.plus(STRIKE_REST) }, now) {
        ports.ledger.swap(Swap::of(record, change)).await?;
    }
    Ok(())
}

/// A wake-up whose record is missing. Ended or planned in the book: nothing is owed. Staged: the auditor's case, kept for review.
async fn missing(ports: &Ports, key: &Key, at: Moment) -> Result<(), CourierError> {
    let Some(row) = ports.book.by_key(key).await? else {
        return quarantine_missing(ports, key, at, "a wake-up names a job that the book doesn't know").await;
    };
    match row.state {
        BookState::Planned | BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed => Ok(()),
        BookState::Staged => quarantine_missing(ports, key, at, "a wake-up's record is missing in the ledger").await,
    }
}

async fn quarantine_missing(ports: &Ports, key: &Key, at: Moment, diagnostic: &str) -> Result<(), CourierError> {
    let fingerprint = hex::encode(Sha256::digest(key.as_str()));
    ports
        .review
        .quarantine(Quarantined {
            reason: Reason::LedgerRecordMissing,
            key: Some(key.clone()),
            body: None,
            fingerprint,
            diagnostic: diagnostic.to_owned(),
            at,
        })
        .await?;
    metrics::dead_letter(Reason::LedgerRecordMissing);
    tracing::error!(key = %key, reason = "ledger_record_missing", "{diagnostic}");
    Ok(())
}
