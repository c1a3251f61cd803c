//! One function per promise; every adapter runs all of them, each on a fresh broker with at least two shards.
//!
//! Differences between adapters are values of the bench, never a question which adapter it is.
//!
//! # Panics
//! All of them, where the promise is broken.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::Shard;
use tokio::time::{Instant, timeout};

use crate::{Broker, BrokerError, Consumer, Delivery, Published, Rung};

/// Longer than any rung: what hasn't come by then never comes.
const NEVER: Duration = Duration::from_secs(90);

/// Which time the adapter lives in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Time {
    /// Tokio's paused clock.
    Virtual,
    /// The wall's.
    Real,
}

impl Time {
    /// When a message may come at the earliest, after a delay.
    #[must_use]
    pub fn earliest(self, delay: Duration) -> Duration {
        match self {
            Time::Virtual => delay,
            Time::Real => crate::rabbit::earliest(delay),
        }
    }

    /// How much later than its moment a message may come.
    fn slack(self) -> Duration {
        match self {
            Time::Virtual => Duration::from_millis(5),
            Time::Real => Duration::from_millis(500),
        }
    }

    /// The highest rung worth waiting for.
    fn rung_max(self) -> u8 {
        match self {
            Time::Virtual => 6,
            Time::Real => 2,
        }
    }

    /// How long a test waits to be sure that nothing comes.
    fn silence(self) -> Duration {
        match self {
            Time::Virtual => NEVER,
            Time::Real => Duration::from_millis(300),
        }
    }
}

/// A fresh broker, and what a test needs besides.
#[async_trait]
pub trait Bench: Send + Sync {
    /// The broker.
    fn broker(&self) -> Arc<dyn Broker>;

    /// Which time it lives in.
    fn time(&self) -> Time;

    /// Ends every consumer's stream from the broker's side.
    async fn end_consumers(&self);
}

async fn publish(broker: &dyn Broker, shard: u8, messages: &[(Rung, &str)]) {
    let messages: Vec<_> = messages.iter().map(|(rung, body)| (*rung, body.as_bytes().to_vec())).collect();
    let count = messages.len();
    let published = broker.publish(Shard(shard), messages).await.expect("the broker is open");
    assert_eq!(published, vec![Published::Confirmed; count]);
}

async fn consume(broker: &dyn Broker, prefetch: u16) -> Box<dyn Consumer> {
    broker.consume(Shard(0), prefetch).await.expect("the broker is open")
}

async fn next(consumer: &dyn Consumer) -> Delivery {
    let next = timeout(NEVER, consumer.next()).await.expect("a delivery comes in time");
    next.expect("the stream goes on").expect("the stream isn't cancelled")
}

fn body(delivery: &Delivery) -> &str {
    std::str::from_utf8(&delivery.body).expect("the body is as published")
}

async fn nothing_comes(bench: &dyn Bench, consumer: &dyn Consumer) {
    let next = timeout(bench.time().silence(), consumer.next()).await;
    assert!(next.is_err(), "nothing is to be delivered, but {next:?} was");
}

/// Waits for a count of ready messages, and of unanswered ones where the broker tells it.
async fn settled_state(broker: &dyn Broker, expected: (u64, u64)) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let state = broker.ready_state(Shard(0)).await.expect("the broker is open");
        if state.ready == expected.0 && state.unacked.is_none_or(|unacked| unacked == expected.1) {
            return;
        }
        assert!(Instant::now() < deadline, "the queue stays at {state:?}, expected {expected:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// B1, for every rung.
pub async fn b1_a_delayed_message_arrives_at_its_moment_and_never_earlier(bench: &dyn Bench) {
    let broker = bench.broker();
    let consumer = consume(&*broker, 1).await;
    for n in 0..=bench.time().rung_max() {
        let before = Instant::now();
        publish(&*broker, 0, &[(Rung::Delay(n), "delayed")]).await;
        let confirmed = Instant::now();
        let delivery = next(&*consumer).await;
        assert!(before.elapsed() >= bench.time().earliest(Rung::Delay(n).delay()), "rung {n} was early: {:?}", before.elapsed());
        assert!(confirmed.elapsed() <= Rung::Delay(n).delay() + bench.time().slack(), "rung {n} was late: {:?}", confirmed.elapsed());
        consumer.ack(delivery.id).await.expect("in hand");
    }
}

/// B1, for `Now`.
pub async fn b1_a_message_without_delay_arrives_at_once_and_in_order(bench: &dyn Bench) {
    let broker = bench.broker();
    let consumer = consume(&*broker, 3).await;
    publish(&*broker, 0, &[(Rung::Now, "a"), (Rung::Now, "b"), (Rung::Now, "c")]).await;
    let published = Instant::now();
    for expected in ["a", "b", "c"] {
        let delivery = next(&*consumer).await;
        assert_eq!((body(&delivery), delivery.redelivered, delivery.gave_up), (expected, 0, false));
        consumer.ack(delivery.id).await.expect("in hand");
    }
    assert!(published.elapsed() <= bench.time().slack());
    settled_state(&*broker, (0, 0)).await;
}

/// B2.
pub async fn b2_nothing_waits_behind_a_longer_delay(bench: &dyn Bench) {
    let broker = bench.broker();
    let consumer = consume(&*broker, 8).await;
    let before = Instant::now();
    publish(&*broker, 0, &[(Rung::Delay(6), "64"), (Rung::Delay(2), "4"), (Rung::Delay(0), "1"), (Rung::Delay(1), "2")]).await;
    for (expected, delay) in [("1", 1), ("2", 2), ("4", 4)] {
        let delivery = next(&*consumer).await;
        assert_eq!(body(&delivery), expected);
        assert!(before.elapsed() <= Duration::from_secs(delay) + bench.time().slack() * 2, "{expected} s took {:?}", before.elapsed());
    }
}

/// B3.
pub async fn b3_what_a_consumer_leaves_is_delivered_again(bench: &dyn Bench) {
    let broker = bench.broker();
    publish(&*broker, 0, &[(Rung::Now, "a"), (Rung::Now, "b"), (Rung::Now, "c")]).await;
    let first = consume(&*broker, 3).await;
    let answered = next(&*first).await;
    let (b, c) = (next(&*first).await, next(&*first).await);
    assert_eq!((body(&b), body(&c)), ("b", "c"));
    first.ack(answered.id).await.expect("in hand");
    settled_state(&*broker, (0, 2)).await;
    let second = consume(&*broker, 3).await;
    drop(first);
    for expected in ["b", "c"] {
        let delivery = next(&*second).await;
        assert_eq!((body(&delivery), delivery.redelivered, delivery.gave_up), (expected, 1, false));
        second.ack(delivery.id).await.expect("in hand");
    }
    settled_state(&*broker, (0, 0)).await;
}

/// B3: what is in nobody's hand goes to whoever has room.
pub async fn b3_a_consumer_has_at_most_its_prefetch_in_hand(bench: &dyn Bench) {
    let broker = bench.broker();
    publish(&*broker, 0, &[(Rung::Now, "a"), (Rung::Now, "b"), (Rung::Now, "c")]).await;
    let consumer = consume(&*broker, 2).await;
    let first = next(&*consumer).await;
    let _second = next(&*consumer).await;
    nothing_comes(bench, &*consumer).await;
    settled_state(&*broker, (1, 2)).await;
    consumer.ack(first.id).await.expect("in hand");
    assert_eq!(body(&next(&*consumer).await), "c");
}

/// B4.
pub async fn b4_a_rejected_delivery_reaches_the_dead_letter_queue(bench: &dyn Bench) {
    let broker = bench.broker();
    publish(&*broker, 0, &[(Rung::Now, "bad")]).await;
    let consumer = consume(&*broker, 1).await;
    consumer.reject(next(&*consumer).await.id).await.expect("in hand");
    let dead = broker.consume_dead(1).await.expect("the broker is open");
    let delivery = next(&*dead).await;
    assert_eq!((body(&delivery), delivery.gave_up), ("bad", false));
    drop(dead);
    let dead = broker.consume_dead(1).await.expect("the broker is open");
    let again = next(&*dead).await;
    assert_eq!((body(&again), again.redelivered), ("bad", 1), "the dead-letter consumer's own death loses nothing");
    dead.ack(again.id).await.expect("in hand");
    nothing_comes(bench, &*dead).await;
    settled_state(&*broker, (0, 0)).await;
}

/// B5.
pub async fn b5_a_stream_that_ends_uncancelled_is_a_failure(bench: &dyn Bench) {
    let broker = bench.broker();
    publish(&*broker, 0, &[(Rung::Now, "a")]).await;
    let consumer = consume(&*broker, 2).await;
    let held = next(&*consumer).await;
    let (ended, ()) = tokio::join!(timeout(NEVER, consumer.next()), bench.end_consumers());
    assert!(matches!(ended, Ok(Err(BrokerError::ConsumerEnded))), "{ended:?}");
    assert!(matches!(consumer.next().await, Err(BrokerError::ConsumerEnded)), "and it stays ended");
    assert!(consumer.ack(held.id).await.is_err(), "nobody hears that answer");
    let second = consume(&*broker, 1).await;
    let again = next(&*second).await;
    assert_eq!((body(&again), again.redelivered), ("a", 1));
}

/// B5: an end that was asked for is none.
pub async fn b5_a_cancelled_stream_ends_quietly_and_answers_what_it_holds(bench: &dyn Bench) {
    let broker = bench.broker();
    publish(&*broker, 0, &[(Rung::Now, "held"), (Rung::Now, "waiting")]).await;
    let consumer = consume(&*broker, 1).await;
    let held = next(&*consumer).await;
    let (ended, cancelled) = tokio::join!(timeout(NEVER, consumer.next()), consumer.cancel());
    cancelled.expect("the broker is open");
    assert!(matches!(ended, Ok(Ok(None))), "{ended:?}");
    consumer.ack(held.id).await.expect("what is in hand can still be answered");
    assert!(matches!(consumer.next().await, Ok(None)));
    let second = consume(&*broker, 1).await;
    assert_eq!(body(&next(&*second).await), "waiting");
    settled_state(&*broker, (0, 1)).await;
}

/// Shards don't mix, however a message came.
pub async fn a_shard_is_its_own_queue(bench: &dyn Bench) {
    let broker = bench.broker();
    let (zero, one) = (consume(&*broker, 4).await, broker.consume(Shard(1), 4).await.expect("the broker is open"));
    publish(&*broker, 1, &[(Rung::Now, "now"), (Rung::Delay(0), "later")]).await;
    assert_eq!(body(&next(&*one).await), "now");
    assert_eq!(body(&next(&*one).await), "later");
    nothing_comes(bench, &*zero).await;
}
