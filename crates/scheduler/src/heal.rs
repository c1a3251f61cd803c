//! Heal: overdue watch timers. Deadlines end jobs, ended leases are judged, lost wake-ups are published again into silence only.

use std::time::Duration;

use curfew_courier::CourierError;
use curfew_domain::Reason;
use curfew_domain::record::WaitingFor;
use curfew_domain::rung::Rung;
use curfew_domain::transition::{Event, Index, transition};
use curfew_domain::{Key, Moment, Record, Shard, State};
use curfew_ledger::{Swap, Swapped, TimerEntry};
use curfew_telemetry::metrics::{self, Phase};

use crate::release::publish_then_swap;
use crate::tick::{self, Leases, Overdue, Ready, View, overdue};
use crate::{Ports, Settings};

/// Timers per look.
const TIMERS_MAX: usize = 256;
/// A broker that takes longer over how long its queue is says nothing: one shard is served after the other, and a connection that died half-way
/// must not hold up what can be released over the other one.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Looks per round, into silence.
const LOOKS_MAX: usize = 64;

/// How far a round may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// Repetitions elsewhere than into silence.
    pub budget: usize,
    /// How much may stand in a ready queue.
    pub depth: usize,
    /// When the latest wake-up arrived of those that the queue is known to have served.
    pub served: Option<Moment>,
}

/// What a round did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Healed {
    /// Wake-ups published again.
    pub republished: usize,
    /// Queued jobs whose wake-ups are lost and for which there is no room: back in their lines.
    pub returned: usize,
    /// Whether more may be overdue.
    pub more: bool,
}

/// Acts on what is overdue in one shard.
///
/// Silence is judged once a round: our own repetitions must not pass for a backlog, behind which the rest would wait for their claim grace.
pub(crate) async fn step(
    ports: &Ports,
    settings: &Settings,
    shard: Shard,
    leases: Leases,
    Allowed { budget, depth, served }: Allowed,
) -> Result<Healed, CourierError> {
    let now = ports.ledger.now().await?;
    let mut healed = Healed::default();
    let mut asked = None;
    for _ in 0..LOOKS_MAX {
        let timers = ports.ledger.overdue(shard, Index::Watch, now, TIMERS_MAX).await?;
        healed.more = timers.len() == TIMERS_MAX;
        let ready = match asked {
            Some(ready) => ready,
            None => ready(ports, shard, &timers, served, settings.claim_grace, now).await,
        };
        let view = View { now, leases, ready, claim_grace: settings.claim_grace };
        let allowed = if ready == Ready::Silent { depth.saturating_sub(healed.republished) } else { budget };
        let sorted = sort(ports, timers, view, allowed);
        let returned = sorted.give_back.len();
        let moved = sorted.postpone.len() + sorted.swaps.len() + returned;
        ports.ledger.postpone(sorted.postpone).await?;
        carry_out(ports, sorted.swaps).await?;
        carry_out(ports, sorted.give_back).await?;
        let republished = publish_then_swap(ports, settings, shard, sorted.repeat, now).await?;
        for _ in 0..republished {
            metrics::republished();
        }
        healed.republished += republished;
        healed.returned += returned;
        // A broker that takes nothing moves nothing: the next look waits for the next tick.
        healed.more &= moved + republished > 0;
        if ready != Ready::Silent || !healed.more || republished + returned == 0 {
            break;
        }
        asked = Some(ready);
    }
    Ok(healed)
}

/// What a look comes to.
#[derive(Default)]
struct Sorted {
    repeat: Vec<(Rung, Record)>,
    swaps: Vec<(State, Swap)>,
    give_back: Vec<(State, Swap)>,
    postpone: Vec<(Key, u64, Moment)>,
}

fn sort(ports: &Ports, timers: Vec<TimerEntry>, view: View, allowed: usize) -> Sorted {
    let mut sorted = Sorted::default();
    for TimerEntry { record, postponed, .. } in timers {
        match overdue(&record, postponed, view) {
            Overdue::Deadline => sorted.swaps.extend(swap(&record, &Event::DeadlineReached, view.now)),
            Overdue::LeaseOver => sorted.swaps.extend(lease_over(ports, &record, view.now)),
            Overdue::Republish if sorted.repeat.len() < allowed => sorted.repeat.push((Rung::Now, record)),
            // Lost, and no room: it waits in its line, where it is served at the pace of releases.
            Overdue::Republish if view.ready == Ready::Silent => {
                sorted.give_back.extend(swap(&record, &Event::Limited { by: WaitingFor::Broker, until: record.due() }, view.now));
            }
            Overdue::Republish => {
                sorted.postpone.push((record.key.clone(), record.version, view.now.plus(Duration::from_secs(1)).min(record.stops_at())))
            }
            Overdue::Postpone(at) => sorted.postpone.push((record.key.clone(), record.version, at)),
        }
    }
    sorted
}

/// Only a queued job's silence needs the broker's answer.
async fn ready(ports: &Ports, shard: Shard, timers: &[TimerEntry], served: Option<Moment>, claim_grace: Duration, now: Moment) -> Ready {
    if !timers.iter().any(|t| t.record.state == State::Queued) {
        return Ready::Backlog;
    }
    if !ports.broker.is_open() {
        return Ready::Away;
    }
    match tokio::time::timeout(ANSWER_MAX, ports.broker.ready_state(shard)).await {
        Ok(Ok(state)) => tick::ready(state.ready, served, now, claim_grace),
        Ok(Err(_)) | Err(_) => Ready::Away,
    }
}

fn swap(record: &Record, event: &Event<'_>, now: Moment) -> Option<(State, Swap)> {
    transition(record, event, now).ok().map(|change| (record.state, Swap::of(record, change)))
}

fn lease_over(ports: &Ports, record: &Record, now: Moment) -> Option<(State, Swap)> {
    let rules = ports.rulebook.rules(record, ports.machine.fraction());
    swap(record, &Event::LeaseOver { rules }, now)
}

async fn carry_out(ports: &Ports, swaps: Vec<(State, Swap)>) -> Result<(), CourierError> {
    let made: Vec<_> = swaps.iter().map(|(from, s)| (*from, s.change.record.clone())).collect();
    let answers = ports.ledger.swap_all(swaps.into_iter().map(|(_, s)| s).collect()).await?;
    for ((from, record), answer) in made.into_iter().zip(answers) {
        if matches!(answer, Swapped::Swapped) {
            tell(from, &record);
        }
    }
    Ok(())
}

fn tell(from: State, record: &Record) {
    if matches!(from, State::Claimed | State::Handoff) && record.reason != Some(Reason::BusinessDeadlineReached) {
        metrics::lease_expired(if from == State::Handoff { Phase::Handoff } else { Phase::Claimed });
        tracing::warn!(job_id = %record.id, key = %record.key, shard = %record.shard, from = %from, to = %record.state, reason = record.reason.map(Reason::word), "a lease ended without a verdict");
    }
    if record.state == State::DeadLetter {
        metrics::dead_letter(record.reason.unwrap_or(Reason::BusinessDeadlineReached));
    }
}
