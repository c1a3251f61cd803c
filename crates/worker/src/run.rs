//! A worker's loops: one consumer per shard, one task per delivery, and the drain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curfew_book::Drain;
use curfew_broker::{Consumer, Delivery};
use curfew_domain::{Key, Moment, Record, Shard, WorkerId};
use curfew_ledger::LedgerError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempt::{Progress, Seen};
use crate::clock::LedgerClock;
use crate::gate::Spacing;
use crate::heard::Heard;
use crate::held::Held;
use crate::lane::Lane;
use crate::meter::Meter;
use crate::ports::{Ports, Settings};
use crate::steps::{self, Answer};
use crate::turns::Turns;
use crate::verdicts::Verdicts;
use crate::watch;

const CONSUME_AGAIN: Duration = Duration::from_millis(500);
/// How often it looks whether a shard is halted.
const HALTED_AGAIN: Duration = Duration::from_millis(250);

/// A worker: stateless but for its verdicts; any number of them may run side by side.
pub struct Worker {
    /// Drawn at the start, so that a restart is another worker.
    pub id: WorkerId,
    pub(crate) ports: Ports,
    pub(crate) settings: Settings,
    pub(crate) clock: LedgerClock,
    pub(crate) verdicts: Verdicts,
    pub(crate) held: Held,
    pub(crate) heard: Heard,
    /// What isn't in handoff is given back from here on.
    pub(crate) give_back: CancellationToken,
    /// Everything ends now; what is owed, timers find.
    pub(crate) kill: CancellationToken,
    slots: Arc<Semaphore>,
    lane_slots: BTreeMap<String, Arc<Semaphore>>,
    pub(crate) spacing: Spacing,
    pub(crate) meter: Meter,
    pub(crate) turns: Turns,
    claims: Mutex<BTreeSet<Version>>,
    waiting: Mutex<BTreeMap<(String, Shard), Arc<AtomicUsize>>>,
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
        let clock = LedgerClock::start(&*ports.ledger, Arc::clone(&ports.machine)).await?;
        Ok(Arc::new(Self {
            id: WorkerId(ports.machine.uuid()),
            slots: Arc::new(Semaphore::new(settings.concurrency as usize)),
            lane_slots: lane_slots(&ports.lanes, settings.concurrency),
            spacing: Spacing::default(),
            meter: Meter::new(Instant::now()),
            turns: Turns::default(),
            claims: Mutex::default(),
            ports,
            settings,
            clock,
            verdicts: Verdicts::default(),
            held: Held::default(),
            heard: Heard::default(),
            give_back: CancellationToken::new(),
            kill: CancellationToken::new(),
            waiting: Mutex::new(BTreeMap::new()),
            tally: Arc::default(),
        }))
    }

    /// What it did since its start.
    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    /// How many attempts it ends in ten seconds, as measured; `None`: none in the last hour.
    pub fn drain(&self) -> Option<Drain> {
        self.meter.measured(Instant::now())
    }

    /// Whether nothing was left in hand; false once a drain's time was over.
    pub fn drained(&self) -> bool {
        !self.kill.is_cancelled()
    }

    /// The ledger's now, as this worker sees it.
    pub fn ledger_now(&self) -> Moment {
        self.clock.now()
    }

    /// Consumes until `stop`; then cancels its consumers, finishes what is in handoff, gives the rest back, answers, and returns.
    /// What isn't done within the drain's time is left to the timers. A dropped future is the same as a kill.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let deliveries = TaskTracker::new();
        let helpers = CancellationToken::new();
        let side = tokio::spawn(watch::beside(Arc::clone(&self), helpers.clone()));
        let consumers: Vec<_> = self
            .settings
            .shards
            .iter()
            .map(|shard| tokio::spawn(Arc::clone(&self).consume_always(*shard, stop.clone(), deliveries.clone())))
            .collect();
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

    /// A consumer that panics is opened again: nobody else takes its shard.
    async fn consume_always(self: Arc<Self>, shard: Shard, stop: CancellationToken, deliveries: TaskTracker) {
        while tokio::spawn(Arc::clone(&self).consume(shard, stop.clone(), deliveries.clone())).await.is_err() && !stop.is_cancelled() {
            tracing::error!(shard = %shard, "a consumer panicked and begins anew");
            tokio::time::sleep(CONSUME_AGAIN).await;
        }
    }

    async fn consume(self: Arc<Self>, shard: Shard, stop: CancellationToken, deliveries: TaskTracker) {
        while !stop.is_cancelled() {
            if self.ports.ledger.is_halted(shard) {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(HALTED_AGAIN) => {}
                }
                continue;
            }
            match self.ports.broker.consume(shard, self.settings.prefetch()).await {
                Ok(consumer) => self.deliver_from(shard, Arc::from(consumer), &stop, &deliveries).await,
                Err(error) => tracing::warn!(shard = %shard, error_class = "broker", "can't consume: {error}"),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(CONSUME_AGAIN) => {}
            }
        }
    }

    /// Takes deliveries until the stream ends, the worker stops, or the shard is halted: where this process alone distrusts the clock others can
    /// serve the queue, and who refuses each claim in a millisecond would eat their wake-ups. What isn't taken goes back once the last delivery
    /// in hand lets go of the consumer.
    async fn deliver_from(self: &Arc<Self>, shard: Shard, consumer: Arc<dyn Consumer>, stop: &CancellationToken, deliveries: &TaskTracker) {
        let mut looks = tokio::time::interval(HALTED_AGAIN);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let halted = CancellationToken::new();
        loop {
            let delivery = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    let _cancelled = consumer.cancel().await;
                    return;
                }
                () = halted.cancelled() => None,
                _ = looks.tick() => None,
                delivery = consumer.next() => Some(delivery),
            };
            if halted.is_cancelled() || self.ports.ledger.is_halted(shard) {
                tracing::warn!(shard = %shard, error_class = "clock", "the shard is halted here: its queue is left to others");
                let _cancelled = consumer.cancel().await;
                return;
            }
            let Some(delivery) = delivery else { continue };
            match delivery {
                Ok(Some(delivery)) => {
                    deliveries.spawn(Arc::clone(self).deliver(shard, Arc::clone(&consumer), delivery, halted.clone()));
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(error_class = "broker", "{error}");
                    return;
                }
            }
        }
    }

    async fn deliver(self: Arc<Self>, shard: Shard, consumer: Arc<dyn Consumer>, delivery: Delivery, halted: CancellationToken) {
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
            // Refused here alone, maybe: it goes back with the consumer, which ends even if the halt is over already.
            Answer::Ack if self.ports.ledger.is_halted(shard) && matches!(progress.get(), Seen::Unclaimed) => {
                halted.cancel();
                Ok(())
            }
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

    /// A slot of the worker and one of the lane, before the claim. `Crowded`: the lane has its part of this shard's prefetch already while
    /// other transports may have work; one relay that hangs must not stand in front of the others.
    pub(crate) async fn slot(&self, lane: &Arc<Lane>, shard: Shard) -> Slot {
        let waiting = self.waiting(&lane.settings.name, shard);
        if self.ports.lanes.len() > 1 && waiting.count() > (usize::from(self.settings.prefetch()) * 3 / 4).max(1) {
            return Slot::Crowded;
        }
        let slots = Arc::clone(&self.lane_slots[&lane.settings.name]);
        let both = async {
            let of_lane = slots.acquire_owned().await.expect("the lane's slots are never closed");
            let of_worker = Arc::clone(&self.slots).acquire_owned().await.expect("the worker's slots are never closed");
            (of_worker, of_lane)
        };
        tokio::select! {
            biased;
            () = self.give_back.cancelled() => Slot::Draining,
            (of_worker, of_lane) = both => Slot::Taken(Seat { _of_worker: of_worker, _of_lane: of_lane, _waiting: waiting }),
        }
    }

    fn waiting(&self, lane: &str, shard: Shard) -> Waiting {
        let mut all = self.waiting.lock().expect("no holder panics");
        let count = all.entry((lane.to_owned(), shard)).or_default();
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(Arc::clone(count))
    }

    /// Enters a version that is about to be claimed; `None`: another delivery of this very worker claims it. Without this two repeated
    /// wake-ups could write the same bytes, and both be told that they have it.
    pub(crate) fn claim_of(self: &Arc<Self>, record: &Record) -> Option<ClaimOf> {
        let version = (record.key.clone(), record.generation, record.version);
        let fresh = self.claims.lock().expect("no holder panics").insert(version.clone());
        fresh.then(|| ClaimOf { worker: Arc::clone(self), version })
    }
}

/// What a slot was asked for.
pub(crate) enum Slot {
    /// Until it is dropped.
    Taken(Seat),
    /// The lane has its part.
    Crowded,
    /// Nothing is begun any more.
    Draining,
}

/// A slot of the worker and one of the lane.
pub(crate) struct Seat {
    _of_worker: OwnedSemaphorePermit,
    _of_lane: OwnedSemaphorePermit,
    _waiting: Waiting,
}

type Version = (Key, u32, u64);

/// A version that this worker claims, or has in hand since.
pub(crate) struct ClaimOf {
    worker: Arc<Worker>,
    version: Version,
}

impl Drop for ClaimOf {
    fn drop(&mut self) {
        self.worker.claims.lock().expect("no holder panics").remove(&self.version);
    }
}

/// As many as the transport serves at once, and at most three quarters of the worker's where it has several transports.
fn lane_slots(lanes: &BTreeMap<String, Arc<Lane>>, concurrency: u32) -> BTreeMap<String, Arc<Semaphore>> {
    let part = if lanes.len() > 1 { concurrency as usize * 3 / 4 } else { concurrency as usize };
    let slots = |lane: &Lane| lane.transport.max_connections().min(part.max(1));
    lanes.iter().map(|(name, lane)| (name.clone(), Arc::new(Semaphore::new(slots(lane))))).collect()
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
