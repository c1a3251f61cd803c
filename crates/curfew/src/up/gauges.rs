//! Gauges that somebody must keep: jobs by state, the oldest eligible job, open review items, deadlines near.

use std::sync::Arc;
use std::time::Duration;

use curfew_domain::{Reason, State};
use curfew_telemetry::metrics::{self, Durability, Exposition, Store};
use tokio_util::sync::CancellationToken;

use crate::wire::Parts;

const EVERY: Duration = Duration::from_secs(2);

/// Keeps them until `stop`.
pub async fn keep(parts: Arc<Parts>, exposition: Exposition, stop: CancellationToken) {
    metrics::zone_data(parts.zones.version());
    for store in [Store::Book, Store::Ledger] {
        metrics::durability_level(store, Durability::Fsync);
        metrics::durability_required(store, Durability::Fsync);
    }
    metrics::durability_level(Store::Broker, Durability::None);
    metrics::durability_required(Store::Broker, Durability::None);
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        exposition.upkeep();
        if let Err(error) = look(&parts).await {
            tracing::warn!(error_class = "store", "the gauges stand still: {error}");
        }
    }
}

async fn look(parts: &Parts) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let live = parts.ledger.live_by_state().await?;
    for state in State::ALL {
        metrics::jobs(state.word(), live.get(state).copied().unwrap_or(0));
    }
    let now = parts.ledger.now().await?;
    let mut oldest = None;
    for shard in &parts.shards {
        let due = parts.ledger.oldest_due(*shard, now).await?;
        oldest = [oldest, due].into_iter().flatten().min();
    }
    metrics::oldest_eligible_age(oldest.map(|due| now.since(due)).unwrap_or_default());
    let open = parts.review.open_by_reason().await?;
    for reason in Reason::ALL {
        let items = open.get(reason.word()).copied().unwrap_or(0);
        if items > 0 || open.is_empty() {
            metrics::review_open(*reason, items);
        }
    }
    metrics::in_doubt_oldest_age(parts.review.oldest_in_doubt().await?.map(|at| now.since(at)).unwrap_or_default());
    Ok(())
}
