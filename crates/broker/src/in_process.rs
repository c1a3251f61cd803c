//! The embedded broker: the same rungs, queues and answers in the memory of one process.
//!
//! Every rung has one delay, so each is a plain queue whose head is due first, and one timer task serves them all.
//! What it holds dies with the process: the ledger releases every `queued` job anew at the next start (DESIGN 7).
//!
//! Read `in_process/state.rs` for the queues themselves.

mod state;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use curfew_domain::Shard;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::{Broker, BrokerError, Consumer, Delivery, DeliveryId, Depths, Published, QueueState, Rung};
use state::{ConsumerId, Place, State, Taken};

/// A broker in this process. Dropping it ends every consumer.
pub struct InProcess {
    core: Arc<Core>,
    timer: JoinHandle<()>,
    open: AtomicBool,
}

struct Core {
    state: Mutex<State>,
    /// A delay queue got its first message: the timer looks again.
    timer_moved: Notify,
}

impl InProcess {
    /// A broker with ready queues 0 to `shards` - 1; its timer runs on the current tokio runtime.
    pub fn new(shards: u8) -> Self {
        let core = Arc::new(Core { state: Mutex::new(State::new(shards)), timer_moved: Notify::new() });
        let timer = tokio::spawn(run_timer(Arc::clone(&core)));
        Self { core, timer, open: AtomicBool::new(true) }
    }

    /// Takes no publishes from now on, like a broker that is short of memory.
    pub fn block(&self) {
        self.open.store(false, Ordering::Release);
    }

    /// Takes publishes again.
    pub fn unblock(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// Forgets every message, delayed, ready, in a hand or dead; consumers stay.
    pub fn purge(&self) {
        self.core.lock().purge();
    }

    /// Ends every consumer's stream without its asking; what they hadn't answered is delivered again.
    pub fn close_consumers(&self) {
        self.core.lock().end_consumers();
    }

    /// Messages that the dead-letter consumer rejected, oldest first; at most `PARKED_MAX` are kept.
    pub fn parked(&self) -> Vec<Vec<u8>> {
        self.core.lock().parked()
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.timer.abort();
        self.core.lock().end_consumers();
    }
}

impl Core {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the queues")
    }
}

/// Moves delayed messages at their moment, never before it. Its broker aborts it.
async fn run_timer(core: Arc<Core>) {
    loop {
        let next = core.lock().arrive(Instant::now());
        // The permit of `notify_one` is kept where nobody waits yet, so nothing is missed between the look and the wait.
        match next {
            Some(at) => tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = core.timer_moved.notified() => {}
            },
            None => core.timer_moved.notified().await,
        }
    }
}

#[async_trait]
impl Broker for InProcess {
    async fn publish(&self, shard: Shard, messages: Vec<(Rung, Vec<u8>)>) -> Result<Vec<Published>, BrokerError> {
        if !self.is_open() {
            return Err(BrokerError::Blocked("blocked by its owner".to_owned()));
        }
        let (published, timer_moved) = {
            let mut state = self.core.lock();
            state.check(shard)?;
            state.publish(shard, messages, Instant::now())
        };
        if timer_moved {
            self.core.timer_moved.notify_one();
        }
        Ok(published)
    }

    async fn consume(&self, shard: Shard, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        self.core.lock().check(shard)?;
        Ok(self.core.consumer(Place::Ready(shard), prefetch))
    }

    async fn consume_dead(&self, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        Ok(self.core.consumer(Place::Dead, prefetch))
    }

    async fn ready_state(&self, shard: Shard) -> Result<QueueState, BrokerError> {
        let state = self.core.lock();
        state.check(shard)?;
        Ok(state.queue_state(Place::Ready(shard)))
    }

    async fn depths(&self) -> Result<Depths, BrokerError> {
        let state = self.core.lock();
        // A shard without a queue is refused here, so nothing is unrouted.
        Ok(Depths { unrouted: 0, dead_letters: state.queue_state(Place::Dead).ready, parked: state.parked().len() as u64 })
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
}

impl Core {
    fn consumer(self: &Arc<Self>, place: Place, prefetch: u16) -> Box<dyn Consumer> {
        let (id, changed) = self.lock().register(place, prefetch);
        Box::new(Hand { core: Arc::clone(self), id, changed })
    }
}

/// One consumer.
struct Hand {
    core: Arc<Core>,
    id: ConsumerId,
    /// The queue or one of its consumers changed.
    changed: Arc<Notify>,
}

#[async_trait]
impl Consumer for Hand {
    async fn next(&self) -> Result<Option<Delivery>, BrokerError> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that a message that comes in between wakes us.
            changed.as_mut().enable();
            let taken = self.core.lock().take(self.id);
            match taken {
                Taken::Delivery(delivery) => return Ok(Some(delivery)),
                Taken::Cancelled => return Ok(None),
                Taken::Ended => return Err(BrokerError::ConsumerEnded),
                Taken::Nothing => changed.await,
            }
        }
    }

    async fn ack(&self, id: DeliveryId) -> Result<(), BrokerError> {
        self.core.lock().ack(self.id, id)
    }

    async fn reject(&self, id: DeliveryId) -> Result<(), BrokerError> {
        self.core.lock().reject(self.id, id)
    }

    async fn cancel(&self) -> Result<(), BrokerError> {
        self.core.lock().cancel(self.id)
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.core.lock().unregister(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::conformance::{self, Bench, Time};
    use crate::topology::DELIVERY_LIMIT;

    struct Fresh(Arc<InProcess>);

    impl Fresh {
        fn new() -> Self {
            Self(Arc::new(InProcess::new(2)))
        }
    }

    #[async_trait]
    impl Bench for Fresh {
        fn broker(&self) -> Arc<dyn Broker> {
            Arc::clone(&self.0) as Arc<dyn Broker>
        }

        fn time(&self) -> Time {
            Time::Virtual
        }

        async fn end_consumers(&self) {
            self.0.close_consumers();
        }
    }

    macro_rules! conforms {
        ($($promise:ident),+ $(,)?) => {
            $(#[tokio::test(start_paused = true)]
            async fn $promise() {
                conformance::$promise(&Fresh::new()).await;
            })+
        };
    }

    conforms!(
        b1_a_delayed_message_arrives_at_its_moment_and_never_earlier,
        b1_a_message_without_delay_arrives_at_once_and_in_order,
        b2_nothing_waits_behind_a_longer_delay,
        b3_what_a_consumer_leaves_is_delivered_again,
        b3_a_consumer_has_at_most_its_prefetch_in_hand,
        b4_a_rejected_delivery_reaches_the_dead_letter_queue,
        b5_a_stream_that_ends_uncancelled_is_a_failure,
        b5_a_cancelled_stream_ends_quietly_and_answers_what_it_holds,
        a_shard_is_its_own_queue,
    );

    #[tokio::test(start_paused = true)]
    async fn a_message_that_breaks_every_consumer_is_given_up_at_the_limit() {
        let broker = InProcess::new(1);
        broker.publish(Shard(0), vec![(Rung::Now, b"poison".to_vec())]).await.expect("open");
        for n in 0..=DELIVERY_LIMIT {
            let consumer = broker.consume(Shard(0), 1).await.expect("open");
            assert_eq!(consumer.next().await.expect("a delivery").expect("a delivery").redelivered, n);
        }
        assert_eq!(broker.ready_state(Shard(0)).await.expect("open"), QueueState { ready: 0, unacked: Some(0), consumers: 0 });
        let dead = broker.consume_dead(1).await.expect("open").next().await.expect("a delivery").expect("a delivery");
        assert!(dead.gave_up);
        assert_eq!(dead.body, b"poison");
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocked_broker_takes_nothing_and_a_purged_one_holds_nothing() {
        let broker = InProcess::new(1);
        let message = || vec![(Rung::Now, b"a".to_vec()), (Rung::Delay(0), b"b".to_vec())];
        broker.block();
        assert!(!broker.is_open());
        assert!(matches!(broker.publish(Shard(0), message()).await, Err(BrokerError::Blocked(_))));
        broker.unblock();
        broker.publish(Shard(0), message()).await.expect("open");
        let consumer = broker.consume(Shard(0), 1).await.expect("open");
        let held = consumer.next().await.expect("a delivery").expect("a delivery");
        broker.purge();
        consumer.ack(held.id).await.expect("a purge leaves consumers alone");
        assert_eq!(broker.ready_state(Shard(0)).await.expect("open"), QueueState { ready: 0, unacked: Some(0), consumers: 1 });
        assert!(tokio::time::timeout(Duration::from_secs(9), consumer.next()).await.is_err(), "nothing comes");
    }

    #[tokio::test(start_paused = true)]
    async fn above_its_bound_it_refuses_and_what_the_dead_letter_consumer_rejects_is_parked() {
        let broker = InProcess::new(1);
        let many = (0..state::MESSAGES_MAX).map(|_| (Rung::Now, Vec::new())).collect();
        assert!(broker.publish(Shard(0), many).await.expect("open").iter().all(|p| *p == Published::Confirmed));
        assert_eq!(broker.publish(Shard(0), vec![(Rung::Now, Vec::new())]).await.expect("open"), [Published::Refused]);
        let consumer = broker.consume(Shard(0), 1).await.expect("open");
        consumer.reject(consumer.next().await.expect("a delivery").expect("a delivery").id).await.expect("in hand");
        let dead = broker.consume_dead(1).await.expect("open");
        dead.reject(dead.next().await.expect("a delivery").expect("a delivery").id).await.expect("in hand");
        assert_eq!(broker.parked().len(), 1);
        assert_eq!(broker.publish(Shard(0), vec![(Rung::Now, Vec::new())]).await.expect("open"), [Published::Confirmed], "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_outside_the_topology_is_refused() {
        let broker = InProcess::new(1);
        assert!(matches!(broker.ready_state(Shard(1)).await, Err(BrokerError::Topology(_))));
        assert!(matches!(broker.publish(Shard(1), Vec::new()).await, Err(BrokerError::Topology(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_the_broker_ends_its_consumers() {
        let broker = InProcess::new(1);
        let consumer = broker.consume(Shard(0), 1).await.expect("open");
        drop(broker);
        assert!(matches!(consumer.next().await, Err(BrokerError::ConsumerEnded)));
    }
}
