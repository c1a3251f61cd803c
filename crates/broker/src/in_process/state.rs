//! The queues of the in-process broker, without any waiting: who holds which message.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use curfew_domain::Shard;
use curfew_domain::rung::RUNG_MAX;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::topology::{DELIVERY_LIMIT, Names};
use crate::{BrokerError, Delivery, DeliveryId, Published, QueueState, Rung};

/// Messages held at most, all queues together: some 30 MB of wake-ups. The scheduler keeps far fewer under way (DESIGN 3.6).
pub(super) const MESSAGES_MAX: usize = 100_000;
/// Parked messages kept at most; the oldest makes room.
pub(super) const PARKED_MAX: usize = 1_000;

/// A queue that can be consumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Ready(Shard),
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ConsumerId(u64);

/// What a consumer finds when it looks.
pub(super) enum Taken {
    Delivery(Delivery),
    Nothing,
    Cancelled,
    Ended,
}

struct Message {
    body: Vec<u8>,
    redelivered: u32,
    gave_up: bool,
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
    /// Everybody who waits at this queue looks again. Few do: a process has one consumer per queue.
    changed: Arc<Notify>,
}

struct Registered {
    place: Place,
    prefetch: usize,
    /// By delivery, so in the order of delivery.
    in_hand: BTreeMap<u64, Message>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Cancelled,
    Ended,
}

pub(super) struct State {
    /// One per rung; equal delays keep each in the order of arrival.
    delays: [VecDeque<Delayed>; RUNG_MAX as usize + 1],
    ready: Vec<Queue>,
    dead: Queue,
    parked: VecDeque<Vec<u8>>,
    consumers: HashMap<ConsumerId, Registered>,
    /// Messages anywhere but parked.
    held: usize,
    /// Ids of consumers and deliveries.
    next_id: u64,
}

impl State {
    pub(super) fn new(shards: u8) -> Self {
        Self {
            delays: Default::default(),
            ready: (0..shards).map(|_| Queue::default()).collect(),
            dead: Queue::default(),
            parked: VecDeque::new(),
            consumers: HashMap::new(),
            held: 0,
            next_id: 0,
        }
    }

    pub(super) fn check(&self, shard: Shard) -> Result<(), BrokerError> {
        let known = usize::from(shard.0) < self.ready.len();
        known.then_some(()).ok_or_else(|| BrokerError::Topology(format!("there is no queue {}", Names::default().ready_queue(shard))))
    }

    /// Answers each message, and whether the timer has to look again. The shard is checked.
    pub(super) fn publish(&mut self, shard: Shard, messages: Vec<(Rung, Vec<u8>)>, now: Instant) -> (Vec<Published>, bool) {
        let mut timer_moved = false;
        let mut arrived = false;
        let mut answers = Vec::with_capacity(messages.len());
        for (rung, body) in messages {
            let rungs = match rung {
                Rung::Now => None,
                Rung::Delay(n) => Some(self.delays.get_mut(usize::from(n))),
            };
            if self.held >= MESSAGES_MAX || matches!(rungs, Some(None)) {
                answers.push(Published::Refused);
                continue;
            }
            self.held += 1;
            answers.push(Published::Confirmed);
            match rungs.flatten() {
                Some(queue) => {
                    timer_moved |= queue.is_empty();
                    queue.push_back(Delayed { at: now + rung.delay(), shard, body });
                }
                None => {
                    arrived = true;
                    self.ready[usize::from(shard.0)].ready.push_back(Message { body, redelivered: 0, gave_up: false });
                }
            }
        }
        if arrived {
            self.ready[usize::from(shard.0)].changed.notify_waiters();
        }
        (answers, timer_moved)
    }

    /// Moves what is due to its ready queue; when the next one is due.
    pub(super) fn arrive(&mut self, now: Instant) -> Option<Instant> {
        let mut arrived = vec![false; self.ready.len()];
        for delay in &mut self.delays {
            while let Some(due) = delay.pop_front_if(|head| head.at <= now) {
                let shard = usize::from(due.shard.0);
                arrived[shard] = true;
                self.ready[shard].ready.push_back(Message { body: due.body, redelivered: 0, gave_up: false });
            }
        }
        self.ready.iter().zip(arrived).filter(|(_, arrived)| *arrived).for_each(|(queue, _)| queue.changed.notify_waiters());
        self.delays.iter().filter_map(|delay| delay.front()).map(|head| head.at).min()
    }

    pub(super) fn register(&mut self, place: Place, prefetch: u16) -> (ConsumerId, Arc<Notify>) {
        self.next_id += 1;
        let id = ConsumerId(self.next_id);
        let prefetch = usize::from(prefetch.max(1));
        self.consumers.insert(id, Registered { place, prefetch, in_hand: BTreeMap::new(), stage: Stage::Open });
        (id, Arc::clone(&self.queue(place).changed))
    }

    pub(super) fn unregister(&mut self, id: ConsumerId) {
        if let Some(gone) = self.consumers.remove(&id) {
            self.give_back(gone.place, gone.in_hand);
        }
    }

    pub(super) fn take(&mut self, id: ConsumerId) -> Taken {
        let Some(consumer) = self.consumers.get_mut(&id) else { return Taken::Ended };
        match consumer.stage {
            Stage::Ended => return Taken::Ended,
            Stage::Cancelled => return Taken::Cancelled,
            Stage::Open if consumer.in_hand.len() >= consumer.prefetch => return Taken::Nothing,
            Stage::Open => {}
        }
        let queue = match consumer.place {
            Place::Ready(shard) => &mut self.ready[usize::from(shard.0)],
            Place::Dead => &mut self.dead,
        };
        let Some(message) = queue.ready.pop_front() else { return Taken::Nothing };
        self.next_id += 1;
        let delivery =
            Delivery { id: DeliveryId(self.next_id), body: message.body.clone(), redelivered: message.redelivered, gave_up: message.gave_up };
        consumer.in_hand.insert(self.next_id, message);
        Taken::Delivery(delivery)
    }

    pub(super) fn ack(&mut self, consumer: ConsumerId, id: DeliveryId) -> Result<(), BrokerError> {
        self.answered(consumer, id).map(|(_, message)| self.held -= usize::from(message.is_some()))
    }

    pub(super) fn reject(&mut self, consumer: ConsumerId, id: DeliveryId) -> Result<(), BrokerError> {
        let (place, message) = self.answered(consumer, id)?;
        let Some(message) = message else { return Ok(()) };
        match place {
            Place::Ready(_) => self.bury(Message { redelivered: 0, gave_up: false, ..message }),
            Place::Dead => {
                self.held -= 1;
                self.parked.push_back(message.body);
                if self.parked.len() > PARKED_MAX {
                    self.parked.pop_front();
                }
            }
        }
        Ok(())
    }

    pub(super) fn cancel(&mut self, id: ConsumerId) -> Result<(), BrokerError> {
        let consumer = self.consumers.get_mut(&id).filter(|consumer| consumer.stage != Stage::Ended).ok_or(BrokerError::ConsumerEnded)?;
        consumer.stage = Stage::Cancelled;
        let place = consumer.place;
        self.queue(place).changed.notify_waiters();
        Ok(())
    }

    pub(super) fn queue_state(&self, place: Place) -> QueueState {
        let here = || self.consumers.values().filter(|consumer| consumer.place == place);
        let consumers = here().filter(|consumer| consumer.stage == Stage::Open).count() as u64;
        let unacked = here().map(|consumer| consumer.in_hand.len() as u64).sum();
        QueueState { ready: self.queue(place).ready.len() as u64, unacked: Some(unacked), consumers }
    }

    pub(super) fn purge(&mut self) {
        self.delays.iter_mut().for_each(VecDeque::clear);
        self.ready.iter_mut().for_each(|queue| queue.ready.clear());
        self.dead.ready.clear();
        self.consumers.values_mut().for_each(|consumer| consumer.in_hand.clear());
        self.held = 0;
        self.ready.iter().for_each(|queue| queue.changed.notify_waiters());
        self.dead.changed.notify_waiters();
    }

    pub(super) fn end_consumers(&mut self) {
        let mut left: Vec<_> = Vec::new();
        for consumer in self.consumers.values_mut() {
            consumer.stage = Stage::Ended;
            left.push((consumer.place, std::mem::take(&mut consumer.in_hand)));
        }
        left.into_iter().for_each(|(place, in_hand)| self.give_back(place, in_hand));
    }

    pub(super) fn parked(&self) -> Vec<Vec<u8>> {
        self.parked.iter().cloned().collect()
    }

    /// Takes a delivery out of its consumer's hand, where a purge hasn't.
    fn answered(&mut self, consumer: ConsumerId, id: DeliveryId) -> Result<(Place, Option<Message>), BrokerError> {
        let consumer = self.consumers.get_mut(&consumer).filter(|consumer| consumer.stage != Stage::Ended).ok_or(BrokerError::ConsumerEnded)?;
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
                Place::Ready(_) | Place::Dead => self.queue_mut(place).ready.push_front(message),
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

    fn queue_mut(&mut self, place: Place) -> &mut Queue {
        match place {
            Place::Ready(shard) => &mut self.ready[usize::from(shard.0)],
            Place::Dead => &mut self.dead,
        }
    }
}
