//! Settle: what ended as sent, cancelled or suppressed is told to the book, then closed.

use curfew_courier::CourierError;
use curfew_domain::transition::Index;
use curfew_domain::{Reason, Record, Shard, State};
use curfew_telemetry::metrics;
use tokio::sync::Mutex;

use crate::Ports;
use crate::served::Served;

/// Stories per round and shard.
const STORIES_MAX: usize = 200;

/// One round in one shard; whether more wait. What was sent tells what the shard's queue has served.
pub(crate) async fn step(ports: &Ports, shard: Shard, served: &Mutex<Served>) -> Result<bool, CourierError> {
    let now = ports.ledger.now().await?;
    let records: Vec<Record> = ports.ledger.overdue(shard, Index::Settle, now, STORIES_MAX).await?.into_iter().map(|t| t.record).collect();
    let more = records.len() == STORIES_MAX;
    {
        let mut served = served.lock().await;
        records.iter().filter(|r| was_served(r)).for_each(|r| served.ended(shard, &r.key, r.due()));
    }
    let ended: Vec<_> =
        records.iter().map(|r| (r.state, r.reason, r.deadline_at, r.receipt.as_ref().map(|receipt| receipt.at), r.generation)).collect();
    let closed = curfew_courier::settle(&*ports.ledger, &*ports.book, records, now).await?;
    for (state, reason, deadline_at, accepted_at, generation) in ended {
        metrics::job_settled(state.word(), reason.unwrap_or(Reason::Accepted));
        // A person's or a list's decision is no missed deadline; a policy's, at the deadline, is one.
        if state == State::Sent || reason == Some(Reason::Policy) || reason == Some(Reason::BusinessDeadlineReached) {
            metrics::deadline_outcome(state == State::Sent && accepted_at.is_some_and(|at| at < deadline_at));
        }
        if state == State::Sent && generation > 1 {
            metrics::replay(metrics::ReplayResult::Sent);
        }
    }
    if closed.kept > 0 {
        tracing::error!(shard = %shard, error_class = "book", "{} ended jobs can't be told to the book; they stay in the ledger", closed.kept);
    }
    Ok(more && closed.closed + closed.kept > 0)
}

/// Whether a sent job's wake-up was served at its next time. A late verdict ends a job that waits for a retry or a replay: of a time to come
/// no queue has served anything.
fn was_served(record: &Record) -> bool {
    record.state == State::Sent && record.receipt.as_ref().is_some_and(|receipt| record.due() <= receipt.at)
}
