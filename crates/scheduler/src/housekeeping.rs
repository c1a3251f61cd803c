//! What is done now and then: open verbs finished, holds and suppressions copied from the book, tombstones expired, heartbeats written.

use std::time::Duration;

use curfew_courier::CourierError;
use curfew_domain::limits::VERB_OPEN_MAX;
use curfew_domain::record::WaitingFor;
use curfew_ledger::Suppression;

use crate::Ports;

/// How long a cool-down that is over stays in the book.
const COOL_DOWN_KEPT: Duration = Duration::from_secs(60);
const VERBS_MAX: u32 = 100;
const TOMBSTONES_MAX: usize = 2_000;

/// Finishes verbs whose rows stay open for 5 s. One that can't be finished doesn't stand in front of the others.
pub(crate) async fn verbs(ports: &Ports) -> Result<usize, CourierError> {
    let now = ports.ledger.now().await?;
    let open = ports.book.open_verbs(now.minus(VERB_OPEN_MAX), VERBS_MAX).await?;
    for verb in &open {
        let ended = curfew_courier::finish(&*ports.ledger, &*ports.book, &*ports.review, &ports.rulebook, &verb.key, &verb.verb, "operator").await;
        match ended {
            Ok(applied) => {
                tracing::warn!(key = %verb.key, "verb #{} was left open and is now {}", verb.verb.number, if applied { "applied" } else { "refused" });
            }
            Err(error) => {
                tracing::warn!(key = %verb.key, error_class = "store", "verb #{} stays open: {error}", verb.verb.number);
            }
        }
    }
    Ok(open.len())
}

/// Copies pauses, cool-downs, circuits and suppressions from the book to the ledger; cool-downs that are long over leave the book.
pub(crate) async fn copy(ports: &Ports) -> Result<(), CourierError> {
    // Holds are on one of the ledger's nodes, suppressions on each: neither waits for the other.
    let copied = curfew_courier::copy_holds(&*ports.ledger, &*ports.book).await;
    let now = ports.ledger.now().await?;
    for row in ports.book.holds().await? {
        // Long over: a lift names no moment, and must not meet a cool-down that was just set anew.
        let over = row.until.is_some_and(|until| now >= until.plus(COOL_DOWN_KEPT));
        if over && row.by == WaitingFor::CoolDown.word() {
            ports.book.lift(&row.kind, &row.name, &row.by, "curfew", "", now).await?;
        }
    }
    let all = ports.book.suppressions().await?.into_iter().map(|row| Suppression { tenant: row.tenant, recipient_ref: row.recipient_ref }).collect();
    ports.ledger.set_suppressions(all).await?;
    copied
}

/// Deletes tombstones whose time is over.
pub(crate) async fn expire(ports: &Ports) -> Result<u64, CourierError> {
    let now = ports.ledger.now().await?;
    Ok(ports.ledger.expire(now, TOMBSTONES_MAX).await?)
}

/// Writes both heartbeats: each store keeps the other's counter, so that neither goes back in time unnoticed.
pub(crate) async fn beat(ports: &Ports) -> Result<(), CourierError> {
    let now = ports.ledger.now().await?;
    let ledger = ports.ledger.last_beat().await?.map_or(0, |b| b.count);
    let book = ports.book.last_beat().await?.map_or(0, |(count, _)| count);
    let next = ledger.max(book) + 1;
    ports.ledger.beat(next).await?;
    ports.book.beat(next, now).await?;
    Ok(())
}
