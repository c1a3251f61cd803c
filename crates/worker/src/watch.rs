//! What a worker does beside its deliveries: it keeps the ledger's time, reports the verdicts that no delivery reports, and watches circuits.
//!
//! An open circuit stands in three places: in a lane's memory, as a hold in the book, as a copy in the ledger. The book's row is the one that
//! people and other workers see, so each look goes by it: a row without an open lane is adopted (its worker is gone, or another one), an
//! open lane without its row was resumed. A lane whose row isn't written yet writes it.

use std::sync::Arc;
use std::time::Duration;

use curfew_book::HoldRow;
use curfew_domain::outcome::Outcome;
use curfew_domain::record::WaitingFor;
use curfew_ledger::Hold;
use curfew_telemetry::metrics;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::circuit::Probe;
use crate::heard::{self, HEARD_EVERY};
use crate::held;
use crate::lane::{Consequence, Lane, OpenHold};
use crate::run::Worker;

const CLOCK_EVERY: Duration = Duration::from_secs(1);
const CIRCUIT_EVERY: Duration = Duration::from_secs(1);
const OWED_EVERY: Duration = Duration::from_secs(5);
const RECOVERIES_EVERY: Duration = Duration::from_millis(500);

/// Runs all of it until `stop`.
pub(crate) async fn beside(worker: Arc<Worker>, stop: CancellationToken) {
    let mut all = JoinSet::new();
    loop {
        if all.is_empty() {
            all.spawn(keep_time(Arc::clone(&worker)));
            all.spawn(report_owed(Arc::clone(&worker)));
            all.spawn(report_to_recoveries(Arc::clone(&worker)));
            all.spawn(be_heard(Arc::clone(&worker)));
            for lane in worker.ports.lanes.values() {
                all.spawn(watch(Arc::clone(&worker), Arc::clone(lane)));
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            _panicked = all.join_next() => {
                // None of them ends by itself; all begin anew.
                tracing::error!("what a worker does beside its deliveries panicked and begins anew");
                all.shutdown().await;
                tokio::time::sleep(CLOCK_EVERY).await;
            }
        }
    }
    all.shutdown().await;
}

/// Samples the ledger's clock; after an outage everything known is asserted again.
async fn keep_time(worker: Arc<Worker>) {
    let mut ticks = tokio::time::interval(CLOCK_EVERY);
    let mut silent = false;
    loop {
        ticks.tick().await;
        if worker.clock.refresh(&*worker.ports.ledger).await.is_err() {
            silent = true;
        } else if silent {
            match worker.verdicts.assert_again(&worker.ports).await {
                Ok(count) => {
                    tracing::info!("the ledger answers again; {count} verdicts asserted");
                    silent = false;
                }
                Err(_still_away) => {}
            }
        }
    }
}

/// A shard that recovers waits for this worker's report.
async fn report_to_recoveries(worker: Arc<Worker>) {
    let mut ticks = tokio::time::interval(RECOVERIES_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match held::look(&worker).await {
            Ok(true) => worker.verdicts.forget_old(),
            Ok(false) => {}
            Err(error) => tracing::debug!(role = "worker", error_class = "ledger", "whether a shard recovers can't be asked: {error}"),
        }
    }
}

/// Each shard that it consumes hears that it lives. A shard that recovers doesn't, and takes no claim.
async fn be_heard(worker: Arc<Worker>) {
    if worker.ports.ledger.recoverable().is_none() {
        return std::future::pending().await;
    }
    let mut ticks = tokio::time::interval(HEARD_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = heard::beat(&worker, &worker.settings.shards).await {
            tracing::debug!(role = "worker", error_class = "ledger", "a shard doesn't hear this worker: {error}");
        }
    }
}

async fn report_owed(worker: Arc<Worker>) {
    let mut ticks = tokio::time::interval(OWED_EVERY);
    loop {
        ticks.tick().await;
        if let Err(error) = worker.verdicts.report_owed(&worker.ports).await {
            tracing::warn!(error_class = "store", "verdicts wait to be written: {error}");
        }
    }
}

/// One lane's circuit. A probe may take minutes, so it runs beside: an operator's resume is heard meanwhile.
async fn watch(worker: Arc<Worker>, lane: Arc<Lane>) {
    let mut ticks = tokio::time::interval(CIRCUIT_EVERY);
    let mut probing: Option<JoinHandle<()>> = None;
    loop {
        ticks.tick().await;
        compare(&worker, &lane).await;
        if probing.as_ref().is_none_or(JoinHandle::is_finished)
            && let Some(probe) = lane.probe_due(Instant::now())
        {
            probing = Some(tokio::spawn(try_probe(Arc::clone(&worker), Arc::clone(&lane), probe)));
        }
    }
}

/// Brings the lane to what the book says, or the book to what the lane knows.
async fn compare(worker: &Worker, lane: &Lane) {
    let Ok(rows) = worker.ports.book.holds().await else { return };
    let name = &lane.settings.name;
    let stands = rows.iter().any(|row| row.kind == "transport" && row.name == *name && row.by == WaitingFor::Circuit.word());
    match (lane.is_open(), stands, lane.open_hold()) {
        (false, false, _) => {}
        (true, true, _) => lane.hold_written(),
        (false, true, _) => {
            lane.adopt(Instant::now());
            metrics::circuit_open(name, true);
            tracing::warn!("transport {name}: its circuit stands open in the book; probed from here, too");
        }
        (true, false, OpenHold::Owed) => hold_open(worker, lane, "open").await,
        (true, false, OpenHold::Written) => {
            lane.half_open();
            metrics::circuit_open(name, false);
            tracing::info!("transport {name}: resumed");
        }
    }
}

async fn try_probe(worker: Arc<Worker>, lane: Arc<Lane>, probe: Probe) {
    let good = lane.transport.probe().await.is_ok();
    match probe {
        // No job is spent on a relay that doesn't even let us in.
        Probe::OneJob if good && lane.is_open() => {
            lane.try_one();
            lift(&worker, &lane, WaitingFor::Circuit).await;
            tracing::info!("transport {}: one job tries the circuit", lane.settings.name);
        }
        Probe::OneJob if good => {}
        Probe::OneJob | Probe::Login => match lane.probed(good, Instant::now()) {
            Consequence::Closed => closed(&worker, &lane).await,
            Consequence::Opened | Consequence::None | Consequence::CoolDown(_) | Consequence::DomainCoolDown(_) => {}
        },
    }
}

/// What an outcome asks of the transport's holds.
pub(crate) async fn carry_out(worker: &Worker, lane: &Lane, consequence: Consequence, outcome: &Outcome, domain: Option<&str>) {
    let name = &lane.settings.name;
    match consequence {
        Consequence::None => {}
        Consequence::CoolDown(wait) => {
            tracing::warn!("transport {name}: throttled, cools down for {} s ({})", wait.as_secs(), outcome.rule);
            let until = worker.clock.now().plus(wait);
            hold(worker, lane.hold(), WaitingFor::CoolDown, Some(until), outcome.rule).await;
        }
        Consequence::DomainCoolDown(wait) => {
            let Some(domain) = domain else { return };
            // No line tells whom a customer writes to.
            tracing::warn!("transport {name}: mail to one domain is throttled and cools down for {} s ({})", wait.as_secs(), outcome.rule);
            let until = worker.clock.now().plus(wait);
            hold(worker, Hold::Domain(domain.to_owned()), WaitingFor::CoolDown, Some(until), outcome.rule).await;
        }
        Consequence::Opened => {
            metrics::circuit_open(name, true);
            let (class, stage, rule) = (outcome.class, outcome.stage, outcome.rule);
            tracing::error!(error_class = "transport", "transport {name}: the circuit is open ({class} at {stage}: {rule})");
            hold_open(worker, lane, rule).await;
        }
        Consequence::Closed => closed(worker, lane).await,
    }
}

async fn closed(worker: &Worker, lane: &Lane) {
    metrics::circuit_open(&lane.settings.name, false);
    tracing::info!("transport {}: the circuit is closed", lane.settings.name);
    lift(worker, lane, WaitingFor::Circuit).await;
}

async fn hold_open(worker: &Worker, lane: &Lane, why: &str) {
    if hold(worker, lane.hold(), WaitingFor::Circuit, None, why).await {
        lane.hold_written();
    }
}

/// Holds live in the book and are copied to the ledger; copied at once, so that the next claim sees them. Whether the book has it.
async fn hold(worker: &Worker, place: Hold, by: WaitingFor, until: Option<curfew_domain::Moment>, why: &str) -> bool {
    let (kind, name) = place.parts();
    let row = HoldRow {
        kind: kind.to_owned(),
        name,
        by: by.word().to_owned(),
        until,
        reason: why.to_owned(),
        actor: "curfew".to_owned(),
        since: worker.clock.now(),
    };
    match worker.ports.book.hold(row).await {
        Ok(()) => {
            copy(worker).await;
            true
        }
        Err(error) => {
            tracing::warn!(error_class = "book", "a hold isn't written: {error}");
            let standing = worker.ports.ledger.holds().await.is_ok_and(|holds| holds.contains_key(&place));
            if !standing && let Err(error) = worker.ports.ledger.set_hold(place, Some((by, until))).await {
                tracing::warn!(error_class = "ledger", "a hold isn't set: {error}");
            }
            false
        }
    }
}

async fn lift(worker: &Worker, lane: &Lane, by: WaitingFor) {
    match worker.ports.book.lift("transport", &lane.settings.name, by.word(), "curfew", "", worker.clock.now()).await {
        Ok(_stood) => copy(worker).await,
        Err(error) => tracing::warn!(error_class = "book", "a hold isn't lifted: {error}"),
    }
}

/// What fails here, the scheduler's own copying mends.
async fn copy(worker: &Worker) {
    if let Err(error) = curfew_courier::copy_holds(&*worker.ports.ledger, &*worker.ports.book).await {
        tracing::warn!(error_class = "ledger", "holds aren't copied: {error}");
    }
}
