//! Gauges that somebody must keep: jobs by state, the oldest eligible jobs, open review items, circuits, deadlines near.

mod day;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use curfew_book::SILENT_AFTER;
use curfew_courier::{held, in_force};
use curfew_domain::record::WaitingFor;
use curfew_domain::transition::{Counter, Index};
use curfew_domain::{Moment, Reason, Record, Shard, State};
use curfew_ledger::{Hold, Holds, LedgerError};
use curfew_telemetry::metrics::{self, Durability, Exposition, Store, Within};
use tokio::time::Instant;

use super::risk::{BOUNDS, at_risk, drain_per_s};
use crate::wire::Parts;

const EVERY: Duration = Duration::from_secs(2);
/// Deadlines are counted once in so many rounds: they are far from the second.
const ROUNDS_PER_COUNT: u32 = 5;
/// A day is counted, and what stores keep is asked, this long after the last time; a day that takes long, a twentieth of the time.
const RARELY: Duration = Duration::from_secs(30);
const REST_PER_COUNT: u32 = 20;
/// Tenants of a shard whose oldest job is looked at.
const TENANTS_MAX: usize = 200;

/// Queued jobs of a shard that are looked at while something is held, and how far off their timers may be.
const QUEUED_MAX: usize = 100;
const WATCHED_WITHIN: Duration = Duration::from_secs(15 * 60);

/// A job that waits longer than this says that the workers are busy.
const BACKLOG: Duration = Duration::from_secs(2);

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
    let mut known = Known::default();
    let mut rarely = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        exposition.upkeep();
        let is_time = rarely <= Instant::now();
        let began = Instant::now();
        if is_time {
            // A server that was set otherwise since the start keeps less from then on.
            for (store, level) in crate::wire::reached(&parts.stores).await {
                metrics::durability_level(store, level);
            }
            rarely = began + RARELY;
        }
        if !counts {
            continue;
        }
        let mut looked = look(&parts, &mut known).await;
        if looked.is_ok() && round.is_multiple_of(ROUNDS_PER_COUNT) {
            looked = deadlines(&parts, &mut known).await;
        }
        if looked.is_ok() && is_time {
            looked = the_day(&parts).await;
            rarely = rarely.max(Instant::now() + began.elapsed() * REST_PER_COUNT);
        }
        round = round.wrapping_add(1);
        // Whatever couldn't be read goes on waiting: an age that stood still would hide it.
        known.publish();
        if let Err(error) = looked {
            tracing::warn!(error_class = "store", "some gauges stand still: {error}");
        }
    }
}

/// What was read last of each shard, which stands while the shard can't be read.
#[derive(Default)]
struct Known {
    /// The ledger's clock, and when it said so.
    now: Option<(Moment, Instant)>,
    waiting: BTreeMap<Shard, Waiting>,
    near: BTreeMap<Shard, [u64; BOUNDS.len()]>,
}

/// Jobs of a shard that are past their time and that nothing holds.
#[derive(Default)]
struct Waiting {
    /// Since when the oldest job of each tenant has been due.
    tenants: HashMap<String, Moment>,
    /// The oldest of all, queued ones among them.
    oldest: Option<Moment>,
}

impl Known {
    fn saw(&mut self, now: Moment) {
        self.now = Some((now, Instant::now()));
    }

    /// Keeps what was read; of a shard that can't be read now, or whose node can't, what stood there before.
    fn keep<T>(kept: &mut BTreeMap<Shard, T>, shard: Shard, read: Result<T, LedgerError>) -> Result<(), LedgerError> {
        match read {
            Ok(read) => drop(kept.insert(shard, read)),
            Err(error) if error.may_be_of_one_shard() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Since when the oldest has been due, and the oldest of each tenant.
    fn oldest(&self) -> (Option<Moment>, HashMap<&str, Moment>) {
        let mut tenants: HashMap<&str, Moment> = HashMap::new();
        for (tenant, due) in self.waiting.values().flat_map(|waiting| &waiting.tenants) {
            let since = tenants.entry(tenant).or_insert(*due);
            *since = (*due).min(*since);
        }
        let all = self.waiting.values().filter_map(|waiting| waiting.oldest).chain(tenants.values().copied());
        (all.min(), tenants)
    }

    fn publish(&self) {
        let Some((now, since)) = self.now else { return };
        let now = now.plus(since.elapsed());
        let (oldest, tenants) = self.oldest();
        metrics::oldest_eligible_age(oldest.map(|due| now.since(due)).unwrap_or_default());
        metrics::tenants_waiting(tenants.into_iter().map(|(tenant, due)| (tenant.to_owned(), now.since(due))).collect());
    }
}

async fn look(parts: &Parts, known: &mut Known) -> Looked {
    let live = parts.ledger.live_by_state().await?;
    for state in State::ALL {
        metrics::jobs(state.word(), live.get(state).copied().unwrap_or(0));
    }
    let (now, holds) = (parts.ledger.now().await?, parts.ledger.holds().await?);
    known.saw(now);
    for shard in &parts.shards {
        Known::keep(&mut known.waiting, *shard, waiting(parts, *shard, &holds, now).await)?;
    }
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

async fn waiting(parts: &Parts, shard: Shard, holds: &Holds, now: Moment) -> Result<Waiting, LedgerError> {
    let mut waiting = Waiting::default();
    for entry in parts.ledger.lines(shard, now, 1, TENANTS_MAX, &[]).await? {
        let (record, due) = (&entry.record, entry.record.due());
        let limited = matches!(record.waiting_for, Some(WaitingFor::TenantInFlight | WaitingFor::TenantRate | WaitingFor::TenantCredit));
        if due <= now && !limited && held(holds, record, now).is_none() {
            let since = waiting.tenants.entry(record.tenant().to_owned()).or_insert(due);
            *since = due.min(*since);
        }
    }
    // What is queued stands in no line; where something is held, the moment alone doesn't tell what that is.
    waiting.oldest = if holds.is_empty() { parts.ledger.oldest_due(shard, now).await? } else { queued(parts, shard, holds, now).await? };
    Ok(waiting)
}

/// Since when a queued job that nothing holds has been due: the oldest of those looked at, so that a pause of one tenant hides no dead worker.
async fn queued(parts: &Parts, shard: Shard, holds: &Holds, now: Moment) -> Result<Option<Moment>, LedgerError> {
    if parts.ledger.counts(shard, &[Counter::State(State::Queued)]).await?.first().is_none_or(|count| *count == 0) {
        return Ok(None);
    }
    let looked = parts.ledger.overdue(shard, Index::Watch, now.plus(WATCHED_WITHIN), QUEUED_MAX).await?;
    let queued = looked.iter().map(|timer| &timer.record).filter(|record| record.state == State::Queued);
    Ok(queued.filter(|record| record.due() <= now && held(holds, record, now).is_none()).map(Record::due).min())
}

/// Live jobs whose deadline is near, counted in the ledger, however many there are; at risk is what the workers won't have ended by then.
async fn deadlines(parts: &Parts, known: &mut Known) -> Looked {
    let now = parts.ledger.now().await?;
    let before = BOUNDS.map(|bound| now.plus(bound));
    for shard in &parts.shards {
        let counted = parts.ledger.deadlines(*shard, &before).await.map(|counts| {
            let mut near = [0; BOUNDS.len()];
            near.iter_mut().zip(counts).for_each(|(near, count)| *near = count);
            near
        });
        Known::keep(&mut known.near, *shard, counted)?;
    }
    let mut all = [0; BOUNDS.len()];
    for near in known.near.values() {
        all.iter_mut().zip(near).for_each(|(all, near)| *all += near);
    }
    let backlog = known.oldest().0.is_some_and(|due| now.since(due) > BACKLOG);
    let per_second = drain_per_s(&parts.book.enrolled(now.minus(SILENT_AFTER)).await?, now, backlog);
    for (within, bound) in NEAR {
        metrics::deadline_at_risk(within, at_risk(&all, bound, per_second));
    }
    Ok(())
}

async fn the_day(parts: &Parts) -> Looked {
    let now = parts.ledger.now().await?;
    if let Some(difference) = day::difference(&*parts.book, &*parts.ledger, now).await? {
        metrics::day_difference(difference);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_cant_be_read_keeps_its_oldest_job() {
        let at = Moment::from_millis;
        let waits = |tenant: &str, due| Waiting { tenants: HashMap::from([(tenant.to_owned(), at(due))]), oldest: Some(at(due)) };
        let mut known = Known::default();
        for (shard, read) in [(0, waits("acme", 5_000)), (1, waits("acme", 3_000)), (2, waits("elm", 9_000))] {
            Known::keep(&mut known.waiting, Shard(shard), Ok(read)).expect("it was read");
        }
        for error in [LedgerError::Unavailable { operation: "lines" }, LedgerError::OtherServer, LedgerError::Recovering, LedgerError::Halted] {
            Known::keep(&mut known.waiting, Shard(1), Err(error)).expect("the others are read nevertheless");
        }
        assert_eq!(known.oldest(), (Some(at(3_000)), HashMap::from([("acme", at(3_000)), ("elm", at(9_000))])));
        Known::keep(&mut known.waiting, Shard(1), Ok(Waiting::default())).expect("it was read");
        assert_eq!(known.oldest(), (Some(at(5_000)), HashMap::from([("acme", at(5_000)), ("elm", at(9_000))])));
        let broken = Known::keep(&mut known.waiting, Shard(1), Err(LedgerError::Store("not Redis".to_owned())));
        assert!(broken.is_err(), "what is broken for good is told");
    }
}
