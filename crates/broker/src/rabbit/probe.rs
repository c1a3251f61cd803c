//! One message through every rung, at the start of a connection and now and then: is any of them early, or lost?
//!
//! A policy with a TTL on `.*` shortens every delay in silence (the smallest of argument and policy rules), one with `expires` or `max-length`
//! loses messages; AMQP shows neither. What is measured is what counts. A policy that comes later is met by the next round; until then the
//! workers' count of early wake-ups shows it. A publish also makes the server tell of an alarm, which a connection that is quiet never hears of.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curfew_domain::rung::{RUNG_MAX, Rung};
use futures::StreamExt as _;
use lapin::{Confirmation, Connection};
use tokio::time::{Instant, timeout_at};

use super::calls::{self, Answers, Failed, Outgoing};
use super::supervisor::Shared;
use crate::BrokerError;

/// Both ends read clocks in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(5);
/// Erlang keeps its clock with the system's and runs up to 1 % faster for it (ERTS User's Guide, "Time and Time Correction").
const SLEWED: f64 = 0.01;
/// Later than this, it is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// What a probe found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// It arrived, so long after its publish and not early.
    InTime(Duration),
    /// It arrived before its moment: something shortens this rung's TTL.
    Early(Duration),
    /// It didn't arrive: something drops or holds what this rung carries.
    Lost,
}

/// What the newest connection's probes found so far, by rung.
pub(super) type Rungs = Arc<Mutex<BTreeMap<u8, Found>>>;

/// When a message may come at the earliest after a delay of RabbitMQ's: where the system's clock is slewed, its delays end early by up to 1 % on
/// anybody else's monotonic clock, 0.64 s on the longest rung. Who takes a wake-up waits for its moment.
#[must_use]
pub fn earliest(delay: Duration) -> Duration {
    delay.mul_f64(1.0 - SLEWED).saturating_sub(ROUNDING)
}

/// Probes every rung, round after round until it is aborted; a round takes a little more than the longest delay. Where it gets no answer (the
/// server is blocked) the next one comes sooner.
pub(super) async fn run(shared: Arc<Shared>, connection: Arc<Connection>, rungs: Rungs) {
    rungs.lock().expect("no holder panics").clear();
    loop {
        let Err(failed) = probe(&shared, &connection, &rungs).await else {
            tokio::time::sleep(shared.settings.times.probe_again).await;
            continue;
        };
        let why = BrokerError::from(failed);
        tracing::warn!(error_class = "broker", "the rungs can't be probed; early wake-ups would show in the workers' counts: {why}");
        if matches!(why, BrokerError::Topology(_)) {
            // It may not: that doesn't change by asking.
            return;
        }
        tokio::time::sleep(shared.settings.times.look_after).await;
    }
}

async fn probe(shared: &Shared, connection: &Connection, rungs: &Rungs) -> Result<(), Failed> {
    let (names, times) = (&shared.settings.names, &shared.settings.times);
    // Deliveries on a publishing connection are fine where nothing waits for an ack.
    let channel = calls::confirming_channel(connection, times).await?;
    let queue = names.probe(&uuid::Uuid::new_v4().simple().to_string());
    calls::declare_probe_queue(&channel, &queue, &names.ready(), times).await?;
    let mut arrivals = calls::consume(&channel, &queue, Answers::None, times).await?;
    let mut sent = BTreeMap::new();
    for n in 0..=RUNG_MAX {
        let message = Outgoing {
            exchange: names.exchange_of(Rung::Delay(n)).into(),
            routing_key: queue.as_str().into(),
            message_id: format!("probe.{n}"),
            body: vec![n],
        };
        let before = Instant::now();
        match calls::bounded(times.confirm, "a probe", calls::publish(channel.clone(), message)).await? {
            Confirmation::Ack(None) => {
                sent.insert(n, before);
            }
            Confirmation::Ack(Some(_)) | Confirmation::Nack(_) | Confirmation::NotRequested => note(rungs, n, Found::Lost),
        }
    }
    while let Some((next, before)) = sent.first_key_value().map(|(n, before)| (*n, *before)) {
        let rung = Rung::Delay(next);
        match timeout_at(before + rung.delay() + LOST_AFTER, arrivals.next()).await {
            Ok(Some(Ok(arrival))) => {
                let Some(n) = arrival.data.first().copied() else { continue };
                let Some(before) = sent.remove(&n) else { continue };
                let took = before.elapsed();
                let early = took < earliest(Rung::Delay(n).delay());
                note(rungs, n, if early { Found::Early(took) } else { Found::InTime(took) });
            }
            Err(_late) => {
                sent.remove(&next);
                note(rungs, next, Found::Lost);
            }
            // The connection is gone; the next one probes anew.
            Ok(Some(Err(_)) | None) => return Ok(()),
        }
    }
    calls::close_channel(&channel, times).await
}

fn note(rungs: &Rungs, n: u8, found: Found) {
    match found {
        Found::InTime(took) => tracing::debug!(rung = n, "the rung took {took:?}"),
        Found::Early(took) => {
            tracing::error!(
                rung = n,
                error_class = "broker",
                "a rung delivers after {took:?}: a policy shortens its TTL; its wake-ups come early and are repeated late"
            );
        }
        Found::Lost => tracing::error!(rung = n, error_class = "broker", "a rung delivers nothing: see its queue and the policies on it"),
    }
    rungs.lock().expect("no holder panics").insert(n, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that was slewed by half a percent made every rung of 2 s and more an error in the log, and `check` fail.
    #[test]
    fn a_slewed_clock_is_no_policy_and_a_shortened_delay_is() {
        for n in 0..=RUNG_MAX {
            let delay = Rung::Delay(n).delay();
            assert!(delay.mul_f64(0.992) >= earliest(delay), "{delay:?}");
            assert!(delay.mul_f64(0.97) < earliest(delay), "{delay:?}");
            assert!(delay.saturating_sub(earliest(delay)) < Duration::from_secs(1), "a worker waits a second at most: {delay:?}");
        }
    }
}
