//! The queues of the simulated broker, without any waiting: who holds which message.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use curfew_broker::topology::DELIVERY_LIMIT;
use curfew_broker::{BrokerError, Delivery, DeliveryId, Published, QueueState, Rung};
use curfew_domain::Shard;
use curfew_domain::limits::WAKE_UP_BYTES_MAX;
use curfew_domain::rung::RUNG_MAX;
use curfew_domain::wake_up::WakeUp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::broker::{BrokerFaults, QueueKind};
use super::{Process, World};

/// A queue that can be consumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Ready(Shard),
    Dead,
}

/// What a consumer finds when it looks.
pub(super) enum Found {
    Delivery,
    Nothing,
    Cancelled,
    Ended,
}

/// Messages of one publish.
pub(super) struct Batch {
    pub(super) shard: Shard,
    pub(super) messages: Vec<(Rung, Vec<u8>)>,
}

#[derive(Clone)]
struct Message {
    body: Vec<u8>,
    redelivered: u32,
    gave_up: bool,
}

impl Message {
    fn new(body: Vec<u8>) -> Self {
        Self { body, redelivered: 0, gave_up: false }
    }
}

/// A message on a rung.
struct Delayed {
    at: Instant,
    shard: Shard,
    body: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<Message>,
    deleted: bool,
    /// Whoever waits at it looks again, the one that waits longest first.
    changed: Arc<Notify>,
}

struct Registered {
    client: u64,
    process: Arc<Process>,
    place: Place,
    prefetch: usize,
    /// By delivery, so in the order of delivery.
    in_hand: BTreeMap<u64, Message>,
    stage: Stage,
    /// When the server gives it up, where it isn't heard of.
    given_up_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Cancelled,
    /// Its connection broke: the client knows, the server not yet.
    Broken,
    Ended,
}

pub(super) struct Queues {
    /// One per rung; `None` where it was deleted. The head goes first, whatever stands behind it.
    delays: [Option<VecDeque<Delayed>>; RUNG_MAX as usize + 1],
    ready: Vec<Queue>,
    dead: Queue,
    parked: Vec<Vec<u8>>,
    unrouted: u64,
    consumers: BTreeMap<u64, Registered>,
    /// Ids of consumers and deliveries.
    next_id: u64,
    /// Wake-ups that were published where one of the same job and generation waited already.
    multiplied: u64,
}

impl Queues {
    pub(super) fn new(shards: u8) -> Self {
        Self {
            delays: std::array::from_fn(|_| Some(VecDeque::new())),
            ready: (0..shards).map(|_| Queue::default()).collect(),
            dead: Queue::default(),
            parked: Vec::new(),
            unrouted: 0,
            consumers: BTreeMap::new(),
            next_id: 0,
            multiplied: 0,
        }
    }

    /// Wake-ups that were published into a ready queue where one of the same job and generation waited already.
    pub(super) fn multiplied(&self) -> u64 {
        self.multiplied
    }

    fn waits_already(&self, shard: Shard, body: &[u8]) -> bool {
        let of = |body: &[u8]| WakeUp::decode(body).ok().map(|wake| (wake.key, wake.generation));
        let wanted = of(body);
        let queue = self.ready.get(usize::from(shard.0));
        wanted.is_some() && queue.is_some_and(|queue| queue.ready.iter().any(|message| of(&message.body) == wanted))
    }

    pub(super) fn check(&self, shard: Shard) -> Result<(), BrokerError> {
        let known = usize::from(shard.0) < self.ready.len();
        known.then_some(()).ok_or_else(|| BrokerError::Topology(format!("there is no queue of shard {shard}")))
    }

    /// Answers each message. The shard is checked.
    pub(super) fn publish(&mut self, world: &World, faults: &BrokerFaults, shard: Shard, messages: &[(Rung, Vec<u8>)]) -> Vec<Published> {
        messages.iter().map(|(rung, body)| self.publish_one(world, faults, shard, *rung, body)).collect()
    }

    fn publish_one(&mut self, world: &World, faults: &BrokerFaults, shard: Shard, rung: Rung, body: &[u8]) -> Published {
        let known = match rung {
            Rung::Now => true,
            Rung::Delay(n) => n <= RUNG_MAX,
        };
        if !known || body.len() > WAKE_UP_BYTES_MAX {
            return Published::Refused;
        }
        if let Rung::Delay(n) = rung
            && self.delays[usize::from(n)].is_none()
        {
            // Returned as unroutable; that makes the adapter declare what is missing.
            self.delays[usize::from(n)] = Some(VecDeque::new());
            world.count("broker returned");
            return Published::Refused;
        }
        if world.happens(faults.refused) {
            world.count("broker refused");
            return Published::Refused;
        }
        if world.happens(faults.publishes_lost) {
            world.count("publish lost");
            return Published::Unanswered;
        }
        self.multiplied += u64::from(rung == Rung::Now && self.waits_already(shard, body));
        let copies = if world.happens(faults.duplicated) { 2 } else { 1 };
        if copies == 2 {
            world.count("message duplicated");
        }
        for _ in 0..copies {
            self.take_in(world, faults, shard, rung, body.to_vec());
        }
        if world.happens(faults.confirms_lost) {
            world.count("confirm lost");
            return Published::Unanswered;
        }
        Published::Confirmed
    }

    fn take_in(&mut self, world: &World, faults: &BrokerFaults, shard: Shard, rung: Rung, body: Vec<u8>) {
        let delay = match rung {
            Rung::Now => return self.arrived(world, faults, shard, body),
            Rung::Delay(_) if world.happens(faults.late) => {
                world.count("rung late");
                rung.delay() + world.between(Duration::ZERO, faults.late_max)
            }
            Rung::Delay(_) if world.happens(faults.early) => {
                world.count("rung early");
                rung.delay().saturating_sub(world.between(Duration::ZERO, faults.early_max))
            }
            Rung::Delay(_) => rung.delay(),
        };
        let Rung::Delay(n) = rung else { return };
        if let Some(queue) = &mut self.delays[usize::from(n)] {
            queue.push_back(Delayed { at: Instant::now() + delay, shard, body });
        }
    }

    /// Into its ready queue, or where nobody wants it.
    fn arrived(&mut self, world: &World, faults: &BrokerFaults, shard: Shard, body: Vec<u8>) {
        let queue = &mut self.ready[usize::from(shard.0)];
        if queue.deleted {
            self.unrouted += 1;
            world.count("broker unrouted");
            return;
        }
        let mut at = queue.ready.len();
        if world.happens(faults.reordered) {
            at = world.below(at as u64 + 1) as usize;
            world.count("message reordered");
        }
        queue.ready.insert(at, Message::new(body));
        queue.changed.notify_waiters();
    }

    /// Moves what is due to its ready queue; when the next one is due.
    pub(super) fn arrive(&mut self, world: &World, faults: &BrokerFaults, now: Instant) -> Option<Instant> {
        for n in 0..self.delays.len() {
            while let Some(due) = self.delays[n].as_mut().and_then(|queue| queue.pop_front_if(|head| head.at <= now)) {
                if world.happens(faults.lost_on_the_way) {
                    world.count("message lost on the way");
                } else {
                    self.arrived(world, faults, due.shard, due.body);
                }
            }
        }
        self.delays.iter().flatten().filter_map(|queue| queue.front()).map(|head| head.at).min()
    }

    pub(super) fn register(&mut self, client: u64, process: &Arc<Process>, place: Place, prefetch: u16) -> (u64, Arc<Notify>) {
        self.declare(place);
        self.next_id += 1;
        let registered = Registered {
            client,
            process: Arc::clone(process),
            place,
            prefetch: usize::from(prefetch.max(1)),
            in_hand: BTreeMap::new(),
            stage: Stage::Open,
            given_up_at: None,
        };
        self.consumers.insert(self.next_id, registered);
        (self.next_id, Arc::clone(&self.queue(place).changed))
    }

    pub(super) fn unregister(&mut self, consumer: u64) {
        if let Some(gone) = self.consumers.remove(&consumer) {
            self.give_back(gone.place, gone.in_hand);
        }
    }

    /// Its client left without a word that the server heard.
    pub(super) fn leave(&mut self, consumer: u64) {
        if let Some(consumer) = self.consumers.get_mut(&consumer).filter(|consumer| consumer.is_answerable()) {
            consumer.stage = Stage::Broken;
        }
    }

    /// What a `take` would find.
    pub(super) fn look(&mut self, consumer: u64) -> Found {
        let Some(consumer) = self.consumers.get(&consumer) else { return Found::Ended };
        match consumer.stage {
            Stage::Ended | Stage::Broken => Found::Ended,
            Stage::Cancelled => Found::Cancelled,
            Stage::Open if consumer.in_hand.len() >= consumer.prefetch => Found::Nothing,
            Stage::Open if self.queue(consumer.place).ready.is_empty() => Found::Nothing,
            Stage::Open => Found::Delivery,
        }
    }

    /// The next message, into the consumer's hand. `None` where somebody was quicker.
    pub(super) fn take(&mut self, id: u64) -> Option<Delivery> {
        if !matches!(self.look(id), Found::Delivery) {
            return None;
        }
        self.next_id += 1;
        let number = self.next_id;
        let consumer = self.consumers.get_mut(&id)?;
        let queue = match consumer.place {
            Place::Ready(shard) => &mut self.ready[usize::from(shard.0)],
            Place::Dead => &mut self.dead,
        };
        let message = queue.ready.pop_front()?;
        let delivery = Delivery { id: DeliveryId(number), body: message.body.clone(), redelivered: message.redelivered, gave_up: message.gave_up };
        consumer.in_hand.insert(number, message);
        Some(delivery)
    }

    pub(super) fn ack(&mut self, consumer: u64, id: DeliveryId) -> Result<(), BrokerError> {
        self.answered(consumer, id).map(|_| ())
    }

    pub(super) fn reject(&mut self, consumer: u64, id: DeliveryId) -> Result<(), BrokerError> {
        let (place, message) = self.answered(consumer, id)?;
        match (place, message) {
            (Place::Ready(_), Some(message)) => self.bury(Message::new(message.body)),
            (Place::Dead, Some(message)) => self.parked.push(message.body),
            (Place::Ready(_) | Place::Dead, None) => {}
        }
        Ok(())
    }

    pub(super) fn cancel(&mut self, consumer: u64) -> Result<(), BrokerError> {
        let consumer = self.consumers.get_mut(&consumer).filter(|c| c.is_answerable()).ok_or(BrokerError::ConsumerEnded)?;
        consumer.stage = Stage::Cancelled;
        let place = consumer.place;
        self.queue(place).changed.notify_waiters();
        Ok(())
    }

    /// A connection of this client broke, and with it all its consumers.
    pub(super) fn break_off(&mut self, client: u64) {
        let mut places = Vec::new();
        for consumer in self.consumers.values_mut().filter(|consumer| consumer.client == client && consumer.is_answerable()) {
            consumer.stage = Stage::Broken;
            places.push(consumer.place);
        }
        for place in places {
            self.queue(place).changed.notify_waiters();
        }
    }

    /// Gives up consumers that aren't heard of, each when its time is over; how many.
    pub(super) fn look_after(&mut self, now: Instant, unheard: impl Fn(&Process) -> bool, patience: impl Fn() -> Duration) -> usize {
        let mut given_up = Vec::new();
        for (id, consumer) in self.consumers.iter_mut().filter(|(_, consumer)| consumer.stage != Stage::Ended) {
            if consumer.stage != Stage::Broken && !unheard(&consumer.process) {
                consumer.given_up_at = None;
            } else if now >= *consumer.given_up_at.get_or_insert_with(|| now + patience()) {
                given_up.push(*id);
            }
        }
        given_up.iter().for_each(|id| self.end(*id));
        given_up.len()
    }

    pub(super) fn queue_state(&mut self, shard: Shard) -> QueueState {
        let place = Place::Ready(shard);
        self.declare(place);
        let consumers = self.consumers.values().filter(|c| c.place == place && matches!(c.stage, Stage::Open | Stage::Broken)).count() as u64;
        QueueState { ready: self.queue(place).ready.len() as u64, unacked: None, consumers }
    }

    /// Unrouted, dead letters, parked.
    pub(super) fn depths(&self) -> (u64, u64, u64) {
        (self.unrouted, self.dead.ready.len() as u64, self.parked.len() as u64)
    }

    pub(super) fn purge(&mut self) -> usize {
        let before = self.held();
        self.delays.iter_mut().flatten().for_each(VecDeque::clear);
        self.ready.iter_mut().for_each(|queue| queue.ready.clear());
        self.dead.ready.clear();
        before - self.held()
    }

    pub(super) fn delete(&mut self, kind: QueueKind) -> usize {
        let before = self.held();
        match kind {
            QueueKind::Delay => self.delays = std::array::from_fn(|_| None),
            QueueKind::Ready => {
                let consumers: Vec<u64> = self.consumers.iter().filter(|(_, c)| matches!(c.place, Place::Ready(_))).map(|(id, _)| *id).collect();
                for id in consumers {
                    if let Some(consumer) = self.consumers.get_mut(&id) {
                        consumer.in_hand.clear();
                    }
                    self.end(id);
                }
                for queue in &mut self.ready {
                    queue.ready.clear();
                    queue.deleted = true;
                }
            }
        }
        before - self.held()
    }

    pub(super) fn end_consumers(&mut self) {
        let all: Vec<u64> = self.consumers.keys().rev().copied().collect();
        all.into_iter().for_each(|id| self.end(id));
    }

    pub(super) fn parked(&self) -> &[Vec<u8>] {
        &self.parked
    }

    pub(super) fn held(&self) -> usize {
        let delayed: usize = self.delays.iter().flatten().map(VecDeque::len).sum();
        let ready: usize = self.ready.iter().map(|queue| queue.ready.len()).sum();
        let in_hand: usize = self.consumers.values().map(|consumer| consumer.in_hand.len()).sum();
        delayed + ready + in_hand + self.dead.ready.len()
    }

    /// Ends a consumer's stream without its asking; what it held goes back.
    fn end(&mut self, id: u64) {
        let Some(consumer) = self.consumers.get_mut(&id) else { return };
        consumer.stage = Stage::Ended;
        let (place, in_hand) = (consumer.place, std::mem::take(&mut consumer.in_hand));
        self.give_back(place, in_hand);
    }

    fn declare(&mut self, place: Place) {
        match place {
            Place::Ready(shard) => self.ready[usize::from(shard.0)].deleted = false,
            Place::Dead => {}
        }
    }

    /// Takes a delivery out of its consumer's hand, where it still is.
    fn answered(&mut self, consumer: u64, id: DeliveryId) -> Result<(Place, Option<Message>), BrokerError> {
        let consumer = self.consumers.get_mut(&consumer).filter(|c| c.is_answerable()).ok_or(BrokerError::ConsumerEnded)?;
        let place = consumer.place;
        let message = consumer.in_hand.remove(&id.0);
        // There is room in that hand again.
        self.queue(place).changed.notify_waiters();
        Ok((place, message))
    }

    /// Back to the head of their queue, in their order; what reached its limit is given up.
    fn give_back(&mut self, place: Place, in_hand: BTreeMap<u64, Message>) {
        for mut message in in_hand.into_values().rev() {
            message.redelivered += 1;
            match place {
                Place::Ready(_) if message.redelivered > DELIVERY_LIMIT => self.bury(Message { redelivered: 0, gave_up: true, ..message }),
                // The last queue gives nothing up: behind it is nobody.
                Place::Ready(shard) => self.ready[usize::from(shard.0)].ready.push_front(message),
                Place::Dead => self.dead.ready.push_front(message),
            }
        }
        self.queue(place).changed.notify_waiters();
    }

    fn bury(&mut self, message: Message) {
        self.dead.ready.push_back(message);
        self.dead.changed.notify_waiters();
    }

    fn queue(&self, place: Place) -> &Queue {
        match place {
            Place::Ready(shard) => &self.ready[usize::from(shard.0)],
            Place::Dead => &self.dead,
        }
    }
}

impl Registered {
    /// Whether the server still hears its answers.
    fn is_answerable(&self) -> bool {
        match self.stage {
            Stage::Open | Stage::Cancelled => true,
            Stage::Broken | Stage::Ended => false,
        }
    }
}
