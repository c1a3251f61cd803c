//! One process's side of the simulated broker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use curfew_broker::{Broker, BrokerError, Consumer, Delivery, DeliveryId, Depths, Published, QueueState, Rung};
use curfew_domain::Shard;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::broker::{CONFIRM_MAX, Core};
use super::broker_queues::{Found, Place};
use super::{Link, Process};

/// How often a consumer looks whether its connection is back.
const AGAIN: Duration = Duration::from_millis(500);

/// One process's broker.
pub struct SimBroker {
    core: Arc<Core>,
    link: Link,
    /// Names its connection to the server.
    number: u64,
    /// The last alarm it was told of.
    told_of: AtomicU64,
}

impl SimBroker {
    pub(super) fn new(core: &Arc<Core>, process: &Arc<Process>, number: u64) -> Self {
        let link = Link::new(&core.world, process, &core.service);
        Self { core: Arc::clone(core), link, number, told_of: AtomicU64::new(0) }
    }

    /// Whether it knows that publishing is blocked.
    fn is_blocked(&self) -> bool {
        self.core.alarm_raised().is_some_and(|alarm| self.told_of.load(Ordering::SeqCst) >= alarm)
    }

    async fn call<T>(&self, operation: &str, serve: impl FnOnce() -> T) -> Result<T, BrokerError> {
        self.link.call(operation, serve).await.map_err(|_lost| BrokerError::Unreachable(format!("{operation}: no answer")))
    }

    /// A lost answer, or a dropped future, drops the hand, and so closes its channel.
    async fn open(&self, operation: &str, place: Place, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        let register = || {
            let (id, changed) = self.core.lock().register(self.number, &self.link.process, place, prefetch);
            Hand { core: Arc::clone(&self.core), link: self.link.clone(), client: self.number, id, changed, due: Mutex::default() }
        };
        Ok(Box::new(self.call(operation, register).await?))
    }
}

#[async_trait]
impl Broker for SimBroker {
    async fn publish(&self, shard: Shard, messages: Vec<(Rung, Vec<u8>)>) -> Result<Vec<Published>, BrokerError> {
        self.core.lock().check(shard)?;
        self.link.process.gate().await;
        if self.is_blocked() {
            return Err(BrokerError::Blocked("the alarm is raised".to_owned()));
        }
        let count = messages.len();
        let unanswered = || vec![Published::Unanswered; count];
        let (served, held) = (AtomicBool::new(false), AtomicBool::new(false));
        let answers = self
            .link
            .call("publish", || {
                served.store(true, Ordering::SeqCst);
                if self.core.hold(shard, &messages) {
                    held.store(true, Ordering::SeqCst);
                    self.told_of.store(self.core.alarm_raised().unwrap_or(0), Ordering::SeqCst);
                    return unanswered();
                }
                self.core.publish(shard, &messages)
            })
            .await;
        let answers = match answers {
            Ok(answers) => answers,
            // Written, and nothing more is known: the adapter says so. What wasn't written may look the same, or fail.
            Err(_lost) if served.load(Ordering::SeqCst) || self.core.world.happens(50.0) => return Ok(unanswered()),
            Err(_lost) => return Err(BrokerError::Unreachable("publish: the connection is gone".to_owned())),
        };
        if held.load(Ordering::SeqCst) || answers.contains(&Published::Unanswered) {
            sleep(CONFIRM_MAX).await;
            self.link.process.gate().await;
        }
        Ok(answers)
    }

    async fn consume(&self, shard: Shard, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        self.core.lock().check(shard)?;
        self.open("consume", Place::Ready(shard), prefetch).await
    }

    async fn consume_dead(&self, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        self.open("consume_dead", Place::Dead, prefetch).await
    }

    async fn ready_state(&self, shard: Shard) -> Result<QueueState, BrokerError> {
        self.core.lock().check(shard)?;
        self.call("ready_state", || self.core.lock().queue_state(shard)).await
    }

    async fn depths(&self) -> Result<Depths, BrokerError> {
        let (unrouted, dead_letters, parked) = self.call("depths", || self.core.lock().depths()).await?;
        Ok(Depths { unrouted, dead_letters, parked })
    }

    fn is_open(&self) -> bool {
        !self.core.is_away_from(&self.link.process) && !self.is_blocked()
    }
}

/// One consumer.
struct Hand {
    core: Arc<Core>,
    link: Link,
    client: u64,
    id: u64,
    /// The queue or one of its consumers changed.
    changed: Arc<Notify>,
    /// When the message that is on its way is there. Kept across calls: a `next` that is dropped and asked again waits no longer.
    due: Mutex<Option<Instant>>,
}

impl Hand {
    /// An answer that is lost breaks the connection, and so every consumer of this client.
    async fn answer(&self, operation: &str, answer: impl FnOnce() -> Result<(), BrokerError>) -> Result<(), BrokerError> {
        match self.link.call(operation, answer).await {
            Ok(answered) => answered,
            Err(_lost) => {
                self.core.lock().break_off(self.client);
                Err(BrokerError::Unreachable(format!("{operation}: the connection is gone")))
            }
        }
    }

    fn due(&self) -> Instant {
        let (from, to) = self.core.service.weather().latency;
        let mut due = self.due.lock().expect("nobody panics while holding it");
        *due.get_or_insert_with(|| Instant::now() + self.core.world.between(from, to))
    }

    /// The message is there; whoever takes it waits for nothing afterwards.
    fn take(&self) -> Option<Delivery> {
        *self.due.lock().expect("nobody panics while holding it") = None;
        let delivery = self.core.lock().take(self.id)?;
        self.core.world.note(&format!("broker -> {}: delivery {}", self.link.process.name(), delivery.id.0));
        Some(delivery)
    }
}

#[async_trait]
impl Consumer for Hand {
    async fn next(&self) -> Result<Option<Delivery>, BrokerError> {
        loop {
            self.link.process.gate().await;
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that a message that comes in between wakes us.
            changed.as_mut().enable();
            let found = self.core.lock().look(self.id);
            match found {
                Found::Cancelled => return Ok(None),
                Found::Ended => return Err(BrokerError::ConsumerEnded),
                Found::Delivery | Found::Nothing if self.core.is_away_from(&self.link.process) => sleep(AGAIN).await,
                Found::Nothing => changed.await,
                Found::Delivery => {
                    sleep_until(self.due()).await;
                    self.link.process.gate().await;
                    if !self.core.is_away_from(&self.link.process)
                        && let Some(delivery) = self.take()
                    {
                        return Ok(Some(delivery));
                    }
                }
            }
        }
    }

    async fn ack(&self, id: DeliveryId) -> Result<(), BrokerError> {
        self.answer("ack", || self.core.lock().ack(self.id, id)).await
    }

    async fn reject(&self, id: DeliveryId) -> Result<(), BrokerError> {
        self.answer("reject", || self.core.lock().reject(self.id, id)).await
    }

    async fn cancel(&self) -> Result<(), BrokerError> {
        self.answer("cancel", || self.core.lock().cancel(self.id)).await
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        let (core, process, id) = (Arc::clone(&self.core), Arc::clone(&self.link.process), self.id);
        // The server doesn't hear of a close while nothing passes; it gives the consumer up in its own time.
        self.link.process.when_it_runs(move || {
            if core.is_away_from(&process) {
                core.lock().leave(id);
            } else {
                core.lock().unregister(id);
            }
        });
    }
}
