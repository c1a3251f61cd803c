//! Release: heads of lines become wake-ups. Publish, await the confirm, then swap to `queued`.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_broker::{BrokerError, Published};
use curfew_courier::{CourierError, TenantLimits, held, in_force};
use curfew_domain::rung::Rung;
use curfew_domain::transition::{Event, transition};
use curfew_domain::wake_up::WakeUp;
use curfew_domain::{Key, Moment, Record, Shard, State};
use curfew_ledger::{Hold, Holds, LineEntry, Swap, Swapped};
use curfew_telemetry::traces;
use tokio::time::Instant;

use crate::credit::Room;
use crate::tick::{Place, place};
use crate::{Ports, Settings};

/// Heads per round.
const HEADS_MAX: usize = 512;
/// Heads of one tenant per round, so that a round serves several.
const HEADS_PER_TENANT: usize = 256;
/// How soon a held head is looked at again: half of what it has waited, at most a quarter of what is left to it, between these. A backlog of twenty
/// thousand under a hold of ten minutes must not be rewritten every ten seconds; nor may it stand for long once the hold is lifted.
const HELD_LOOK: Duration = Duration::from_secs(10);
const HELD_LOOK_MAX: Duration = Duration::from_secs(60);
/// How soon a refused publish is tried again.
const REFUSED_LOOK: Duration = Duration::from_secs(1);

/// How often a round looks behind tenants that are all at a limit.
const FULL_ROUNDS_MAX: u32 = 8;

/// What a round did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Released {
    /// Now queued.
    pub queued: usize,
    /// One of those that were due already: where its wake-up stands in the queue, the others' do.
    pub mark: Option<Key>,
    /// Heads that went back in their line, so that they don't stand in front of the others.
    pub moved: usize,
    /// Whether more heads may be waiting.
    pub more: bool,
}

/// Releases what has come in one shard, as far as `room` goes.
pub(crate) async fn step(ports: &Ports, settings: &Settings, shard: Shard, holds: &Holds, mut room: Room) -> Result<Released, CourierError> {
    let now = ports.ledger.now().await?;
    let shard_held = [Hold::Fleet, Hold::Shard(shard.0)].iter().any(|place| in_force(holds, place, now).is_some());
    if room.is_full() || shard_held || !ports.broker.is_open() {
        return Ok(Released::default());
    }
    let mut skip: Vec<String> = holds
        .iter()
        .filter_map(|(place, (_, until))| match place {
            Hold::Tenant(tenant) if until.is_none_or(|until| now < until) => Some(tenant.clone()),
            Hold::Tenant(_) | Hold::Transport(_) | Hold::Shard(_) | Hold::Domain(_) | Hold::Fleet => None,
        })
        .collect();
    let mut released = Released::default();
    for _ in 0..FULL_ROUNDS_MAX {
        let heads = ports.ledger.lines(shard, now, HEADS_PER_TENANT, HEADS_MAX, &skip).await?;
        released.more = heads.len() >= HEADS_PER_TENANT;
        let Within { heads, later, full } = within_tenants(ports, settings, shard, heads, now).await?;
        let nobody = heads.is_empty() && later.is_empty() && !full.is_empty();
        let (publish, mut moves) = sort(heads, holds, settings, now, &mut room);
        moves.extend(later);
        released.moved += moves.len();
        released.mark = publish.iter().rev().find(|(rung, _)| *rung == Rung::Now).map(|(_, record)| record.key.clone());
        ports.ledger.move_in_line(moves).await?;
        released.queued += publish_then_swap(ports, settings, shard, publish, now).await?;
        if !nobody {
            break;
        }
        // Everybody met stands at a limit: whoever stands behind them is looked for.
        skip.extend(full);
    }
    Ok(released)
}

/// What a round may do for each tenant.
struct Within {
    /// These may be released.
    heads: Vec<LineEntry>,
    /// These follow at their moment.
    later: Moves,
    /// These tenants have no room.
    full: Vec<String>,
}

/// What a tenant has room for.
#[derive(Clone, Copy)]
struct Share {
    free: u64,
    /// Of them, on a rung: half of what it may have at all. With all of it there, a mail that is due now waited for the herd of nine o'clock.
    ahead: u64,
}

impl Share {
    /// Of a tenant with so many queued and in flight.
    fn of(limits: TenantLimits, queued: u64, flying: u64) -> Self {
        let most = limits.may_queue(flying);
        Self { free: most.saturating_sub(queued), ahead: (most / 2).saturating_sub(queued) }
    }

    /// Takes a place, if there is one.
    fn take(&mut self, is_due: bool) -> bool {
        let fits = self.free > 0 && (is_due || self.ahead > 0);
        self.free -= u64::from(fits);
        self.ahead = self.ahead.saturating_sub(u64::from(fits));
        fits
    }
}

/// Leaves out what a tenant's credit or its jobs in flight forbid, and names those tenants. Such heads keep their place: their tenant alone waits.
async fn within_tenants(ports: &Ports, settings: &Settings, shard: Shard, heads: Vec<LineEntry>, now: Moment) -> Result<Within, CourierError> {
    let mut room: BTreeMap<String, Share> = BTreeMap::new();
    for head in &heads {
        let tenant = head.record.tenant();
        let limits = settings.tenants.limits(tenant);
        if room.contains_key(tenant) || !limits.bound_its_queue() {
            continue;
        }
        let counts = ports.ledger.counts(shard, &TenantLimits::counters(tenant)).await?;
        let [queued, flying] = counts[..] else { continue };
        room.insert(tenant.to_owned(), Share::of(limits, queued, flying));
    }
    let full = room.iter().filter(|(_, share)| share.free == 0).map(|(tenant, _)| tenant.clone()).collect();
    let mut within = Within { heads: Vec::with_capacity(heads.len()), later: Vec::new(), full };
    for head in heads {
        let Some(share) = room.get_mut(head.record.tenant()) else {
            within.heads.push(head);
            continue;
        };
        let is_due = head.record.due() <= now.plus(settings.tick);
        if share.take(is_due) {
            within.heads.push(head);
        } else if !is_due {
            within.later.push((head.record.key.clone(), head.record.version, head.record.due()));
        }
    }
    Ok(within)
}

type Moves = Vec<(Key, u64, Moment)>;

fn sort(heads: Vec<LineEntry>, holds: &Holds, settings: &Settings, now: Moment, room: &mut Room) -> (Vec<(Rung, Record)>, Moves) {
    let mut publish = Vec::with_capacity(heads.len());
    let mut moves = Vec::new();
    for LineEntry { record, .. } in heads {
        if let Some((_, until)) = held(holds, &record, now) {
            let look = held_look(&record, now);
            moves.push((record.key.clone(), record.version, until.map_or(look, |until| until.min(look))));
            continue;
        }
        match place(record.due(), now, settings.tick, settings.horizon) {
            Place::Publish(rung) if room.take(record.due()) => publish.push((rung, record)),
            // Its second has what the shard drains in 5 s: it follows at its moment, as room comes, and stands in nobody's way until then.
            Place::Publish(_) if record.due() > now => moves.push((record.key.clone(), record.version, record.due())),
            Place::Publish(_) => {}
            Place::MoveTo(at) => moves.push((record.key.clone(), record.version, at)),
        }
    }
    (publish, moves)
}

/// When a held head is looked at again; spread by the key, so that a crowd doesn't come back as one.
fn held_look(record: &Record, now: Moment) -> Moment {
    let (waited, left) = (now.since(record.due()), record.stops_at().since(now));
    let wait = (waited / 2).min(left / 4).clamp(HELD_LOOK, HELD_LOOK_MAX);
    let spread = record.key.as_str().bytes().fold(0_u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b))) % 256;
    now.plus(wait - wait / 4 + wait * spread / 1024)
}

/// Publishes wake-ups for version + 1, then swaps what the broker confirmed, or didn't answer for. A refused one keeps its state.
pub(crate) async fn publish_then_swap(
    ports: &Ports,
    settings: &Settings,
    shard: Shard,
    publish: Vec<(Rung, Record)>,
    now: Moment,
) -> Result<usize, CourierError> {
    // Judged before it is published: what may not be released (its deadline has come) would be published again at every look.
    let publish: Vec<_> = publish
        .into_iter()
        .filter_map(|(rung, record)| {
            let change = transition(&record, &Event::Release { claim_grace: settings.claim_grace }, now).ok()?;
            Some((rung, record, change))
        })
        .collect();
    if publish.is_empty() {
        return Ok(0);
    }
    let began = Instant::now();
    let messages = publish.iter().map(|(rung, record, _)| (*rung, WakeUp::of(record).encode())).collect();
    let answers = match ports.broker.publish(shard, messages).await {
        Ok(answers) => answers,
        Err(BrokerError::Unreachable(_) | BrokerError::Blocked(_)) => return Ok(0),
        Err(other) => {
            tracing::warn!(error_class = "broker", shard = %shard, "a publish failed: {other}");
            return Ok(0);
        }
    };
    let mut swaps = Vec::with_capacity(publish.len());
    let (mut moves, mut postpone) = (Vec::new(), Vec::new());
    for ((_, record, change), answer) in publish.into_iter().zip(answers) {
        match answer {
            Published::Confirmed | Published::Unanswered => {
                tell_release(&change.record, now, now.plus(began.elapsed()));
                swaps.push(Swap::of(&record, change));
            }
            // A repetition stands in no line: its timer moves on.
            Published::Refused if record.state == State::Queued => postpone.push((record.key.clone(), record.version, now.plus(REFUSED_LOOK))),
            Published::Refused => moves.push((record.key.clone(), record.version, now.plus(REFUSED_LOOK))),
        }
    }
    ports.ledger.move_in_line(moves).await?;
    ports.ledger.postpone(postpone).await?;
    let answers = ports.ledger.swap_all(swaps).await?;
    Ok(answers.iter().filter(|a| matches!(a, Swapped::Swapped)).count())
}

/// One line for each wake-up, at a lower level, and its span. The swap that follows may find that a worker was faster.
fn tell_release(record: &Record, from: Moment, to: Moment) {
    traces::released(record, from, to);
    tracing::debug!(
        role = "scheduler",
        shard = %record.shard,
        job_id = %record.id,
        key = %record.key,
        tenant = record.tenant(),
        generation = record.generation,
        version = record.version,
        to = %record.state,
        "released for {}", record.due()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(max_in_flight: Option<u64>, credit: Option<u64>) -> TenantLimits {
        TenantLimits { max_in_flight, rate_per_s: None, credit }
    }

    /// With eight in flight nothing was released until a look met fewer: of each burst eight ran, and the others came back after a second.
    #[test]
    fn a_tenant_at_its_limit_has_as_many_waiting_as_it_lets_run() {
        let free = |queued, flying| Share::of(limits(Some(8), None), queued, flying).free;
        assert_eq!([free(0, 8), free(8, 8), free(0, 0), free(8, 4), free(30, 0), free(0, 9)], [8, 0, 16, 4, 0, 8]);
        assert_eq!(Share::of(limits(Some(0), Some(100)), 0, 0).free, 0, "a limit of nothing lets nothing run");
        assert_eq!(Share::of(limits(Some(8), Some(3)), 1, 0).free, 2, "the smaller of the two");
        assert_eq!(Share::of(limits(None, Some(100)), 40, 1_000).free, 60);
    }

    /// A herd for nine o'clock took a tenant's whole credit half a minute before, and its mail that was due at once waited for it.
    #[test]
    fn half_of_a_tenants_part_is_kept_for_what_is_due() {
        let mut share = Share::of(limits(None, Some(4)), 0, 0);
        assert_eq!((0..5).filter(|_| share.take(false)).count(), 2, "on a rung");
        assert_eq!((0..5).filter(|_| share.take(true)).count(), 2, "due");
        assert_eq!(share.free, 0);
    }
}
