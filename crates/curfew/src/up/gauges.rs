//! Gauges that somebody must keep: jobs by state, the oldest eligible jobs, open review items, circuits, deadlines near.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use curfew_courier::{held, in_force};
use curfew_domain::record::WaitingFor;
use curfew_domain::{Moment, Reason, State};
use curfew_ledger::{Hold, Holds};
use curfew_telemetry::metrics::{self, Durability, Exposition, Store, Within};

use crate::wire::Parts;

const EVERY: Duration = Duration::from_secs(2);
/// Deadlines are counted once in so many rounds: they are far from the second.
const ROUNDS_PER_COUNT: u32 = 5;
/// Tenants of a shard whose oldest job is looked at.
const TENANTS_MAX: usize = 200;

const NEAR: [(Within, Duration); 3] = [
    (Within::OneMinute, Duration::from_secs(60)),
    (Within::FiveMinutes, Duration::from_secs(5 * 60)),
    (Within::FifteenMinutes, Duration::from_secs(15 * 60)),
];

type Looked = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Keeps them until `stop`. `counts`: the fleet's figures too, which schedulers keep: from every process they would cost the stores more than they tell.
pub async fn keep(parts: Arc<Parts>, required: Durability, exposition: Exposition, counts: bool, stop: tokio_util::sync::CancellationToken) {
    metrics::zone_data(parts.zones.version());
    for (store, level) in parts.durability {
        metrics::durability_level(store, level);
    }
    metrics::durability_required(Store::Book, Durability::Fsync);
    metrics::durability_required(Store::Ledger, required);
    metrics::durability_required(Store::Broker, Durability::None);
    let mut ticks = tokio::time::interval(EVERY);
    let mut round = 0_u32;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        exposition.upkeep();
        if !counts {
            continue;
        }
        let mut looked = look(&parts).await;
        if looked.is_ok() && round.is_multiple_of(ROUNDS_PER_COUNT) {
            looked = deadlines(&parts).await;
        }
        round = round.wrapping_add(1);
        if let Err(error) = looked {
            tracing::warn!(error_class = "store", "the gauges stand still: {error}");
        }
    }
}

async fn look(parts: &Parts) -> Looked {
    let live = parts.ledger.live_by_state().await?;
    for state in State::ALL {
        metrics::jobs(state.word(), live.get(state).copied().unwrap_or(0));
    }
    let (now, holds) = (parts.ledger.now().await?, parts.ledger.holds().await?);
    eligible(parts, &holds, now).await?;
    for transport in parts.lanes.keys() {
        let by = in_force(&holds, &Hold::Transport(transport.clone()), now);
        metrics::circuit_open(transport, by.is_some_and(|(by, _)| by == WaitingFor::Circuit));
    }
    let open = parts.review.open_by_reason().await?;
    // All of them each time: the last item of a reason closes too.
    for reason in Reason::ALL {
        metrics::review_open(*reason, open.get(reason.word()).copied().unwrap_or(0));
    }
    metrics::in_doubt_oldest_age(parts.review.oldest_in_doubt().await?.map(|at| now.since(at)).unwrap_or_default());
    // Last, for it may take its time: a broker that is away is named by the probes; the figures that were seen last stand.
    if let Ok(depths) = parts.broker.depths().await {
        metrics::stray_messages("curfew.v1.unrouted", depths.unrouted);
        metrics::stray_messages("curfew.v1.parked", depths.parked);
    }
    Ok(())
}

/// The jobs that are past their time and that nothing holds: the oldest of all, and of each tenant.
async fn eligible(parts: &Parts, holds: &Holds, now: Moment) -> Looked {
    let mut oldest: Option<Moment> = None;
    let mut tenants: HashMap<String, Moment> = HashMap::new();
    for shard in &parts.shards {
        for entry in parts.ledger.lines(*shard, now, 1, TENANTS_MAX, &[]).await? {
            let (record, due) = (&entry.record, entry.record.due());
            let limited = matches!(record.waiting_for, Some(WaitingFor::TenantInFlight | WaitingFor::TenantRate | WaitingFor::TenantCredit));
            if due <= now && !limited && held(holds, record, now).is_none() {
                let since = tenants.entry(record.tenant().to_owned()).or_insert(due);
                *since = due.min(*since);
            }
        }
        // What is queued stands in no line; where something is held, nobody can tell by the moment alone what that is.
        if holds.is_empty() {
            oldest = [oldest, parts.ledger.oldest_due(*shard, now).await?].into_iter().flatten().min();
        }
    }
    let oldest = oldest.into_iter().chain(tenants.values().copied()).min();
    metrics::oldest_eligible_age(oldest.map(|due| now.since(due)).unwrap_or_default());
    metrics::tenants_waiting(tenants.into_iter().map(|(tenant, due)| (tenant, now.since(due))).collect());
    Ok(())
}

/// Live jobs whose deadline is near: counted in the ledger, however many there are.
async fn deadlines(parts: &Parts) -> Looked {
    let now = parts.ledger.now().await?;
    let before = NEAR.map(|(_, within)| now.plus(within));
    let mut sums = [0_u64; NEAR.len()];
    for shard in &parts.shards {
        for (sum, count) in sums.iter_mut().zip(parts.ledger.deadlines(*shard, &before).await?) {
            *sum += count;
        }
    }
    for ((within, _), sum) in NEAR.iter().zip(sums) {
        metrics::deadline_at_risk(*within, sum);
    }
    Ok(())
}
