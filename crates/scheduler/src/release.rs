//! Release: heads of lines become wake-ups. Publish, await the confirm, then swap to `queued`.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_broker::{BrokerError, Published};
use curfew_courier::{CourierError, held, in_force};
use curfew_domain::rung::Rung;
use curfew_domain::transition::{Counter, Event, transition};
use curfew_domain::wake_up::WakeUp;
use curfew_domain::{Key, Moment, Record, Shard, State};
use curfew_ledger::{Hold, Holds, LineEntry, Swap, Swapped};

use crate::credit::Room;
use crate::tick::{Place, place};
use crate::{Ports, Settings};

/// Heads per round.
const HEADS_MAX: usize = 512;
/// Heads of one tenant per round, so that a round serves several.
const HEADS_PER_TENANT: usize = 256;
/// How soon a held head is looked at again.
const HELD_LOOK: Duration = Duration::from_secs(10);
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
            Hold::Tenant(_) | Hold::Transport(_) | Hold::Shard(_) | Hold::Fleet => None,
        })
        .collect();
    let mut released = Released::default();
    for _ in 0..FULL_ROUNDS_MAX {
        let heads = ports.ledger.lines(shard, now, HEADS_PER_TENANT, HEADS_MAX, &skip).await?;
        released.more = heads.len() >= HEADS_PER_TENANT;
        let (heads, full) = within_tenants(ports, settings, shard, heads).await?;
        let nobody = heads.is_empty() && !full.is_empty();
        let (publish, moves) = sort(heads, holds, settings, now, &mut room);
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

/// Leaves out what a tenant's credit or its jobs in flight forbid, and names those tenants. Such heads keep their place: their tenant alone waits.
async fn within_tenants(
    ports: &Ports,
    settings: &Settings,
    shard: Shard,
    heads: Vec<LineEntry>,
) -> Result<(Vec<LineEntry>, Vec<String>), CourierError> {
    let mut room: BTreeMap<String, u64> = BTreeMap::new();
    for head in &heads {
        let tenant = head.record.tenant();
        if room.contains_key(tenant) {
            continue;
        }
        let limits = settings.limits(tenant);
        let (Some(credit), in_flight) = (limits.credit.or(limits.max_in_flight.map(|n| n * 4)), limits.max_in_flight) else { continue };
        let counts = ports.ledger.counts(shard, &[Counter::TenantQueued(tenant.to_owned()), Counter::TenantInFlight(tenant.to_owned())]).await?;
        let [queued, flying] = counts[..] else { continue };
        let free = if in_flight.is_some_and(|max| flying >= max) { 0 } else { credit.saturating_sub(queued) };
        room.insert(tenant.to_owned(), free);
    }
    let full = room.iter().filter(|(_, free)| **free == 0).map(|(tenant, _)| tenant.clone()).collect();
    let within = heads.into_iter().filter(|head| match room.get_mut(head.record.tenant()) {
        Some(0) => false,
        Some(left) => {
            *left -= 1;
            true
        }
        None => true,
    });
    Ok((within.collect(), full))
}

type Moves = Vec<(Key, u64, Moment)>;

fn sort(heads: Vec<LineEntry>, holds: &Holds, settings: &Settings, now: Moment, room: &mut Room) -> (Vec<(Rung, Record)>, Moves) {
    let mut publish = Vec::with_capacity(heads.len());
    let mut moves = Vec::new();
    for LineEntry { record, .. } in heads {
        if let Some((_, until)) = held(holds, &record, now) {
            let look = until.unwrap_or(now.plus(HELD_LOOK)).min(now.plus(HELD_LOOK));
            moves.push((record.key.clone(), record.version, look));
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
            Published::Confirmed | Published::Unanswered => swaps.push(Swap::of(&record, change)),
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
