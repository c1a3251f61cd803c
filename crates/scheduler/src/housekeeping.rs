//! What is done now and then: open verbs finished, holds and suppressions copied from the book, tombstones expired, heartbeats written.

use std::collections::BTreeSet;

use curfew_courier::CourierError;
use curfew_domain::limits::VERB_OPEN_MAX;
use curfew_domain::record::WaitingFor;
use curfew_ledger::{Hold, Suppression};

use crate::Ports;

const VERBS_MAX: u32 = 100;
const TOMBSTONES_MAX: usize = 2_000;

/// Finishes verbs whose rows stay open for 5 s.
pub(crate) async fn verbs(ports: &Ports) -> Result<usize, CourierError> {
    let now = ports.ledger.now().await?;
    let open = ports.book.open_verbs(now.minus(VERB_OPEN_MAX), VERBS_MAX).await?;
    for verb in &open {
        let applied = curfew_courier::finish(&*ports.ledger, &*ports.book, &*ports.review, &ports.rulebook, &verb.key, &verb.verb).await?;
        tracing::warn!(key = %verb.key, "verb #{} was left open and is now {}", verb.verb.number, if applied { "applied" } else { "refused" });
    }
    Ok(open.len())
}

/// Copies pauses, cool-downs, circuits and suppressions from the book to the ledger.
pub(crate) async fn copy(ports: &Ports) -> Result<(), CourierError> {
    let rows = ports.book.holds().await?;
    let mut wanted = BTreeSet::new();
    for row in &rows {
        let (Some(hold), Some(by)) = (hold(&row.kind, &row.name), WaitingFor::from_word(&row.by)) else { continue };
        ports.ledger.set_hold(hold.clone(), Some((by, row.until))).await?;
        wanted.insert(hold);
    }
    for hold in ports.ledger.holds().await?.into_keys() {
        if !wanted.contains(&hold) {
            ports.ledger.set_hold(hold, None).await?;
        }
    }
    let all = ports.book.suppressions().await?.into_iter().map(|row| Suppression { tenant: row.tenant, recipient_ref: row.recipient_ref }).collect();
    ports.ledger.set_suppressions(all).await?;
    Ok(())
}

/// The hold that a row of the book names.
fn hold(kind: &str, name: &str) -> Option<Hold> {
    match kind {
        "transport" => Some(Hold::Transport(name.to_owned())),
        "tenant" => Some(Hold::Tenant(name.to_owned())),
        "shard" => name.parse().ok().map(Hold::Shard),
        "fleet" => Some(Hold::Fleet),
        _unknown => None,
    }
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
