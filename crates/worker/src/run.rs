//! A worker's loops: one consumer per shard, one task per delivery, probes, the clock, and the drain.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use curfew_book::HoldRow;
use curfew_broker::{Consumer, Delivery};
use curfew_domain::outcome::Outcome;
use curfew_domain::record::WaitingFor;
use curfew_domain::{Shard, WorkerId};
use curfew_ledger::{Hold, LedgerError};
use curfew_telemetry::metrics;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempt::Progress;
use crate::circuit::Probe;
use crate::clock::LedgerClock;
use crate::lane::{Consequence, Lane};
use crate::ports::{Ports, Settings};
use crate::steps::{self, Answer};
use crate::verdicts::Verdicts;

const CLOCK_EVERY: Duration = Duration::from_secs(1);
const PROBE_LOOK: Duration = Duration::from_secs(1);
const CONSUME_AGAIN: Duration = Duration::from_millis(500);

/// A worker: stateless but for its verdicts; any number of them may run side by side.
pub struct Worker {
    /// Drawn at the start, so that a restart is another worker.
    pub id: WorkerId,
    pub(crate) ports: Ports,
    pub(crate) settings: Settings,
    pub(crate) clock: LedgerClock,
    pub(crate) verdicts: Verdicts,
    /// What isn't in handoff is given back from here on.
    pub(crate) give_back: CancellationToken,
    /// Everything ends now; what is owed, timers find.
    pub(crate) kill: CancellationToken,
    slots: Arc<Semaphore>,
    waiting: Mutex<HashMap<(String, Shard), Arc<AtomicUsize>>>,
    tally: Arc<Tally>,
}

/// What it did since its start.
#[derive(Debug, Default)]
pub struct Tally {
    /// Deliveries answered.
    pub answered: AtomicU64,
    /// Deliveries in hand.
    pub in_hand: AtomicU64,
}

impl Worker {
    /// A worker that doesn't consume yet.
    ///
    /// # Errors
    /// `LedgerError`: it doesn't start without the ledger's time.
    pub async fn new(ports: Ports, settings: Settings) -> Result<Arc<Self>, LedgerError> {
        let clock = LedgerClock::start(&*ports.ledger).await?;
        Ok(Arc::new(Self {
            id: WorkerId(uuid::Uuid::new_v4()),
            slots: Arc::new(Semaphore::new(settings.concurrency as usize)),
            ports,
            settings,
            clock,
            verdicts: Verdicts::default(),
            give_back: CancellationToken::new(),
            kill: CancellationToken::new(),
            waiting: Mutex::new(HashMap::new()),
            tally: Arc::default(),
        }))
    }

    /// What it did since its start.
    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    /// Consumes until `stop`; then cancels its consumers, finishes what is in handoff, gives the rest back, answers, and returns.
    /// What isn't done within the drain's time is left to the timers. A dropped future is the same as a kill.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let deliveries = TaskTracker::new();
        let helpers = CancellationToken::new();
        let side = tokio::spawn(Arc::clone(&self).beside(helpers.clone()));
        let consumers: Vec<_> =
            self.settings.shards.iter().map(|shard| tokio::spawn(Arc::clone(&self).consume(*shard, stop.clone(), deliveries.clone()))).collect();
        stop.cancelled().await;
        self.give_back.cancel();
        for consumer in consumers {
            let _ended = consumer.await;
        }
        deliveries.close();
        if tokio::time::timeout(self.settings.drain, deliveries.wait()).await.is_err() {
            tracing::warn!("the drain's time is over; what is in hand is left to the timers");
            self.kill.cancel();
        }
        helpers.cancel();
        let _ended = side.await;
        for lane in self.ports.lanes.values() {
            lane.transport.close().await;
        }
    }

    async fn consume(self: Arc<Self>, shard: Shard, stop: CancellationToken, deliveries: TaskTracker) {
        while !stop.is_cancelled() {
            match self.ports.broker.consume(shard, self.settings.prefetch()).await {
                Ok(consumer) => self.deliver_from(Arc::from(consumer), &stop, &deliveries).await,
                Err(error) => tracing::warn!(shard = %shard, error_class = "broker", "can't consume: {error}"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(CONSUME_AGAIN) => {}
            }
        }
    }

    /// Takes deliveries until the stream ends or the worker stops.
    async fn deliver_from(self: &Arc<Self>, consumer: Arc<dyn Consumer>, stop: &CancellationToken, deliveries: &TaskTracker) {
        loop {
            let delivery = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    let _cancelled = consumer.cancel().await;
                    return;
                }
                delivery = consumer.next() => delivery,
            };
            match delivery {
                Ok(Some(delivery)) => {
                    deliveries.spawn(Arc::clone(self).deliver(Arc::clone(&consumer), delivery));
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(error_class = "broker", "{error}");
                    return;
                }
            }
        }
    }

    async fn deliver(self: Arc<Self>, consumer: Arc<dyn Consumer>, delivery: Delivery) {
        self.tally.in_hand.fetch_add(1, Ordering::Relaxed);
        let progress = Progress::default();
        let task = {
            let (worker, delivery, progress) = (Arc::clone(&self), delivery.clone(), progress.clone());
            tokio::spawn(async move { steps::handle(&worker, &delivery, &progress).await })
        };
        let answer = match task.await {
            Ok(answer) => answer,
            Err(broken) if broken.is_panic() => steps::panicked(&self, &delivery, &progress).await,
            Err(_aborted) => Answer::None,
        };
        let answered = match answer {
            Answer::Ack => consumer.ack(delivery.id).await,
            Answer::Reject => consumer.reject(delivery.id).await,
            Answer::None => Ok(()),
        };
        if let Err(error) = answered {
            tracing::debug!(error_class = "broker", "a delivery comes again: {error}");
        }
        self.tally.in_hand.fetch_sub(1, Ordering::Relaxed);
        self.tally.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// A slot of the worker and one of the lane, before the claim; `None` where the lane has its part of this shard's prefetch already
    /// while other transports may have work: one relay that hangs must not stand in front of the others.
    pub(crate) async fn slot(&self, lane: &Arc<Lane>, shard: Shard) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit, Waiting)> {
        let waiting = self.waiting(&lane.settings.name, shard);
        if self.ports.lanes.len() > 1 && waiting.count() > usize::from(self.settings.prefetch()) * 3 / 4 {
            return None;
        }
        let of_lane = Arc::clone(&lane.slots).acquire_owned().await.expect("the lane's slots are never closed");
        let of_worker = Arc::clone(&self.slots).acquire_owned().await.expect("the worker's slots are never closed");
        Some((of_worker, of_lane, waiting))
    }

    fn waiting(&self, lane: &str, shard: Shard) -> Waiting {
        let mut all = self.waiting.lock().expect("no holder panics");
        let count = all.entry((lane.to_owned(), shard)).or_default();
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(Arc::clone(count))
    }

    /// The clock's samples, the memory of verdicts, and the probes of open circuits.
    async fn beside(self: Arc<Self>, stop: CancellationToken) {
        let (mut clock, mut probes) = (tokio::time::interval(CLOCK_EVERY), tokio::time::interval(PROBE_LOOK));
        let mut silent = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = clock.tick() => silent = self.keep_time(silent).await,
                _ = probes.tick() => self.probe().await,
            }
        }
    }

    /// Samples the ledger's clock; after an outage everything known is asserted again. Whether the ledger is silent.
    async fn keep_time(&self, was_silent: bool) -> bool {
        self.verdicts.forget_old();
        if self.clock.refresh(&*self.ports.ledger).await.is_err() {
            return true;
        }
        if was_silent {
            match self.verdicts.assert_again(&self.ports).await {
                Ok(count) => tracing::info!("the ledger answers again; {count} verdicts asserted"),
                Err(_still_away) => return true,
            }
        }
        false
    }

    async fn probe(&self) {
        for lane in self.ports.lanes.values() {
            self.hear_resume(lane).await;
            match lane.probe_due(Instant::now()) {
                None => {}
                Some(Probe::OneJob) => {
                    lane.try_one();
                    self.lift(lane, WaitingFor::Circuit).await;
                    tracing::info!("transport {}: one job tries the circuit", lane.settings.name);
                }
                Some(Probe::Login) => {
                    let good = lane.transport.probe().await.is_ok();
                    match lane.probed(good, Instant::now()) {
                        Consequence::Closed => self.circuit_closed(lane).await,
                        Consequence::Opened(wait) => self.hold(lane, WaitingFor::Circuit, wait, "the probe failed").await,
                        Consequence::None | Consequence::CoolDown(_) => {}
                    }
                }
            }
        }
    }

    /// An operator who resumes a transport lifts the circuit's hold; an open circuit without its hold was resumed.
    async fn hear_resume(&self, lane: &Lane) {
        if !lane.is_open() {
            return;
        }
        if let Ok(rows) = self.ports.book.holds().await
            && !rows.iter().any(|row| row.kind == "transport" && row.name == lane.settings.name && row.by == WaitingFor::Circuit.word())
        {
            lane.resume();
            metrics::circuit_open(&lane.settings.name, false);
            tracing::info!("transport {}: resumed", lane.settings.name);
        }
    }

    pub(crate) async fn cool_down(&self, lane: &Lane, wait: Duration, why: &str) {
        tracing::warn!("transport {}: throttled, cools down for {} s ({why})", lane.settings.name, wait.as_secs());
        self.hold(lane, WaitingFor::CoolDown, wait, why).await;
    }

    pub(crate) async fn circuit_opened(&self, lane: &Lane, wait: Duration, outcome: &Outcome) {
        metrics::circuit_open(&lane.settings.name, true);
        tracing::error!(
            error_class = "transport",
            "transport {}: the circuit is open ({} at {}: {})",
            lane.settings.name,
            outcome.class,
            outcome.stage,
            outcome.rule
        );
        self.hold(lane, WaitingFor::Circuit, wait, outcome.rule).await;
    }

    pub(crate) async fn circuit_closed(&self, lane: &Lane) {
        metrics::circuit_open(&lane.settings.name, false);
        tracing::info!("transport {}: the circuit is closed", lane.settings.name);
        self.lift(lane, WaitingFor::Circuit).await;
    }

    /// Holds live in the book and are copied to the ledger; written to both here, so that the next claim sees them.
    async fn hold(&self, lane: &Lane, by: WaitingFor, wait: Duration, why: &str) {
        let now = self.clock.now();
        let until = (by == WaitingFor::CoolDown).then(|| now.plus(wait));
        let row = HoldRow {
            kind: "transport".to_owned(),
            name: lane.settings.name.clone(),
            by: by.word().to_owned(),
            until,
            reason: why.to_owned(),
            actor: "curfew".to_owned(),
            since: now,
        };
        if let Err(error) = self.ports.book.hold(row).await {
            tracing::warn!(error_class = "book", "a hold isn't written: {error}");
        }
        let place = Hold::Transport(lane.settings.name.clone());
        let paused = self.ports.ledger.holds().await.ok().and_then(|holds| holds.get(&place).copied()).is_some_and(|(by, _)| by == WaitingFor::Pause);
        if !paused && let Err(error) = self.ports.ledger.set_hold(place, Some((by, until))).await {
            tracing::warn!(error_class = "ledger", "a hold isn't copied: {error}");
        }
    }

    async fn lift(&self, lane: &Lane, by: WaitingFor) {
        let now = self.clock.now();
        let lifted = self.ports.book.lift("transport", &lane.settings.name, by.word(), "curfew", "", now).await;
        let place = Hold::Transport(lane.settings.name.clone());
        let ours = self.ports.ledger.holds().await.ok().and_then(|holds| holds.get(&place).copied()).is_some_and(|(standing, _)| standing == by);
        if ours && let Err(error) = self.ports.ledger.set_hold(place, None).await {
            tracing::warn!(error_class = "ledger", "a hold isn't lifted: {error}");
        }
        if let Err(error) = lifted {
            tracing::warn!(error_class = "book", "a hold isn't lifted: {error}");
        }
    }
}

/// A delivery that waits for or uses a lane, counted while it lives.
pub(crate) struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
