//! The simulated broker: its port's promises, then its faults.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curfew_broker::conformance::{self, Bench, Time};
use curfew_broker::topology::DELIVERY_LIMIT;
use curfew_broker::{Broker, BrokerError, Consumer, Delivery, Published, Rung};
use curfew_domain::Shard;
use tokio::time::{Instant, timeout};

use super::{BrokerFaults, Process, QueueKind, SimBroker, SimBrokerServer, Survives, World};

struct House {
    server: SimBrokerServer,
    process: Arc<Process>,
    broker: Arc<SimBroker>,
}

impl House {
    fn new(seed: u64) -> Self {
        let server = SimBrokerServer::start(&World::new(seed, false), 2);
        let process = Process::start("worker");
        let broker = Arc::new(server.client(&process));
        Self { server, process, broker }
    }

    /// A process of its own.
    fn other(&self, name: &str) -> (Arc<Process>, SimBroker) {
        let process = Process::start(name);
        let broker = self.server.client(&process);
        (process, broker)
    }

    async fn publish(&self, rung: Rung, bodies: &[&str]) -> Vec<Published> {
        let messages = bodies.iter().map(|body| (rung, body.as_bytes().to_vec())).collect();
        self.broker.publish(Shard(0), messages).await.expect("it is open")
    }

    async fn consume(&self) -> Box<dyn Consumer> {
        self.broker.consume(Shard(0), 32).await.expect("it is open")
    }
}

async fn next(consumer: &dyn Consumer) -> Delivery {
    timeout(Duration::from_secs(200), consumer.next()).await.expect("in time").expect("no end").expect("no cancel")
}

async fn all(consumer: &dyn Consumer) -> Vec<String> {
    let mut found = Vec::new();
    while let Ok(Ok(Some(delivery))) = timeout(Duration::from_secs(90), consumer.next()).await {
        consumer.ack(delivery.id).await.expect("in hand");
        found.push(String::from_utf8(delivery.body).expect("text"));
    }
    found
}

#[async_trait]
impl Bench for House {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker) as Arc<dyn Broker>
    }

    fn time(&self) -> Time {
        Time::Virtual
    }

    async fn end_consumers(&self) {
        self.server.end_consumers();
    }
}

macro_rules! conforms {
    ($($promise:ident),+ $(,)?) => {
        $(#[tokio::test(start_paused = true)]
        async fn $promise() {
            let house = House::new(1);
            // The suite's slack is less than the ways of three answers.
            house.server.service().weather().latency = (Duration::ZERO, Duration::from_millis(1));
            conformance::$promise(&house).await;
        })+
    };
}

conforms!(
    b1_a_delayed_message_arrives_at_its_moment_and_never_earlier,
    b2_nothing_waits_behind_a_longer_delay,
    b3_what_a_consumer_leaves_is_delivered_again,
    b3_a_consumer_has_at_most_its_prefetch_in_hand,
    b4_a_rejected_delivery_reaches_the_dead_letter_queue,
    b5_a_stream_that_ends_uncancelled_is_a_failure,
    b5_a_cancelled_stream_ends_quietly_and_answers_what_it_holds,
    a_shard_is_its_own_queue,
);

#[tokio::test(start_paused = true)]
async fn b1_a_message_without_delay_arrives_at_once_and_in_order() {
    let house = House::new(1);
    house.server.service().weather().latency = (Duration::ZERO, Duration::ZERO);
    conformance::b1_a_message_without_delay_arrives_at_once_and_in_order(&house).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_confirm_was_published_and_a_lost_publish_was_not_and_both_look_alike() {
    let house = House::new(2);
    house.server.faults().confirms_lost = 100.0;
    assert_eq!(house.publish(Rung::Now, &["confirm"]).await, [Published::Unanswered]);
    *house.server.faults() = BrokerFaults { publishes_lost: 100.0, ..BrokerFaults::default() };
    assert_eq!(house.publish(Rung::Now, &["publish"]).await, [Published::Unanswered]);
    *house.server.faults() = BrokerFaults { refused: 100.0, ..BrokerFaults::default() };
    assert_eq!(house.publish(Rung::Now, &["refused"]).await, [Published::Refused]);
    *house.server.faults() = BrokerFaults { duplicated: 100.0, ..BrokerFaults::default() };
    assert_eq!(house.publish(Rung::Now, &["twice"]).await, [Published::Confirmed]);
    assert_eq!(all(&*house.consume().await).await, ["confirm", "twice", "twice"]);
}

#[tokio::test(start_paused = true)]
async fn messages_are_reordered_but_none_is_lost() {
    let house = House::new(3);
    house.server.faults().reordered = 100.0;
    let bodies: Vec<String> = (10..40).map(|n| n.to_string()).collect();
    house.publish(Rung::Now, &bodies.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut found = all(&*house.consume().await).await;
    assert_ne!(found, bodies);
    found.sort();
    assert_eq!(found, bodies);
}

#[tokio::test(start_paused = true)]
async fn a_rung_is_early_or_late_by_no_more_than_it_is_told() {
    let (mut earliest, mut latest) = (Duration::MAX, Duration::ZERO);
    for seed in 0..20 {
        let house = House::new(seed);
        let max = Duration::from_secs(2);
        *house.server.faults() = BrokerFaults { early: 50.0, early_max: max, late: 50.0, late_max: max, ..BrokerFaults::default() };
        let consumer = house.consume().await;
        let began = Instant::now();
        house.publish(Rung::Delay(2), &["a"]).await;
        next(&*consumer).await;
        earliest = earliest.min(began.elapsed());
        latest = latest.max(began.elapsed());
    }
    assert!(earliest >= Duration::from_secs(2) && earliest < Duration::from_secs(4), "{earliest:?}");
    assert!(latest > Duration::from_secs(4) && latest < Duration::from_millis(6_020), "{latest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_purge_a_lost_disk_and_deleted_queues_lose_what_they_held() {
    let house = House::new(4);
    let fill = async || {
        house.publish(Rung::Now, &["ready"]).await;
        house.publish(Rung::Delay(3), &["delayed"]).await;
    };
    fill().await;
    house.server.purge();
    assert_eq!(house.server.held(), 0);
    fill().await;
    house.server.restart(Survives::Nothing);
    assert_eq!(house.server.held(), 0);
    fill().await;
    house.server.delete_queues(QueueKind::Delay);
    assert_eq!(house.server.held(), 1);
    assert_eq!(house.publish(Rung::Delay(3), &["returned"]).await, [Published::Refused]);
    assert_eq!(house.publish(Rung::Delay(3), &["again"]).await, [Published::Confirmed]);
    let consumer = house.consume().await;
    house.server.delete_queues(QueueKind::Ready);
    assert!(matches!(consumer.next().await, Err(BrokerError::ConsumerEnded)));
    assert_eq!(house.publish(Rung::Now, &["nobody's"]).await, [Published::Confirmed]);
    assert_eq!(house.broker.depths().await.expect("open").unrouted, 1);
    assert_eq!(all(&*house.consume().await).await, ["again"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_ends_consumers_and_gives_back_what_they_held() {
    let house = House::new(5);
    house.publish(Rung::Now, &["a"]).await;
    let consumer = house.consume().await;
    let held = next(&*consumer).await;
    house.server.restart(Survives::All);
    assert!(matches!(consumer.next().await, Err(BrokerError::ConsumerEnded)));
    assert!(consumer.ack(held.id).await.is_err());
    assert_eq!(next(&*house.consume().await).await.redelivered, 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_held_comes_again_after_a_while_and_a_frozen_one_keeps_it() {
    let house = House::new(6);
    let (frozen, broker) = house.other("frozen");
    let froze = broker.consume(Shard(0), 1).await.expect("open");
    house.publish(Rung::Now, &["frozen's", "dead's"]).await;
    let kept = next(&*froze).await;
    frozen.freeze();
    let consumer = house.consume().await;
    assert_eq!(next(&*consumer).await.body, b"dead's");
    house.process.kill();
    drop(consumer);
    let (_process, broker) = house.other("heir");
    let heir = broker.consume(Shard(0), 2).await.expect("open");
    let began = Instant::now();
    let again = next(&*heir).await;
    assert_eq!((again.body.as_slice(), again.redelivered), (&b"dead's"[..], 1));
    assert!((1..=22).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert!(timeout(Duration::from_secs(90), heir.next()).await.is_err(), "the frozen process keeps its delivery");
    frozen.thaw();
    froze.ack(kept.id).await.expect("still in hand");
    assert!(timeout(Duration::from_secs(90), house.broker.depths()).await.is_err(), "a dead process is never answered");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_cut_off_loses_its_consumers() {
    let house = House::new(7);
    house.publish(Rung::Now, &["a"]).await;
    let consumer = house.consume().await;
    let held = next(&*consumer).await;
    house.server.service().weather().cut_off.insert("worker".to_owned());
    assert!(!house.broker.is_open());
    assert!(matches!(consumer.ack(held.id).await, Err(BrokerError::Unreachable(_))));
    assert!(matches!(consumer.next().await, Err(BrokerError::ConsumerEnded)));
    let (_process, broker) = house.other("other");
    let other = broker.consume(Shard(0), 1).await.expect("open");
    assert_eq!(next(&*other).await.redelivered, 1);
    house.server.service().weather().cut_off.clear();
    assert!(house.broker.is_open());
}

#[tokio::test(start_paused = true)]
async fn an_alarm_is_told_at_the_first_publish_and_what_that_held_arrives_when_it_ends() {
    let house = House::new(8);
    let consumer = house.consume().await;
    house.server.block();
    assert!(house.broker.is_open(), "nobody told it yet");
    assert_eq!(house.publish(Rung::Now, &["held"]).await, [Published::Unanswered]);
    assert!(!house.broker.is_open());
    assert!(matches!(house.broker.publish(Shard(0), vec![(Rung::Now, Vec::new())]).await, Err(BrokerError::Blocked(_))));
    assert!(timeout(Duration::from_secs(90), consumer.next()).await.is_err());
    house.server.unblock();
    assert!(house.broker.is_open());
    assert_eq!(next(&*consumer).await.body, b"held");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_breaks_every_consumer_is_given_up_at_the_limit() {
    let house = House::new(9);
    house.publish(Rung::Now, &["poison"]).await;
    for n in 0..=DELIVERY_LIMIT {
        assert_eq!(next(&*house.consume().await).await.redelivered, n);
    }
    let dead = house.broker.consume_dead(1).await.expect("open");
    let given_up = next(&*dead).await;
    assert!(given_up.gave_up);
    dead.reject(given_up.id).await.expect("in hand");
    assert_eq!(house.server.parked(), [b"poison"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_breaks_the_connection_of_its_client_alone() {
    let house = House::new(10);
    let (_process, other) = house.other("other");
    let untouched = other.consume(Shard(1), 1).await.expect("open");
    house.publish(Rung::Now, &["a"]).await;
    let consumer = house.consume().await;
    let held = next(&*consumer).await;
    house.server.service().weather().lost_calls = 100.0;
    assert!(consumer.ack(held.id).await.is_err());
    house.server.service().weather().lost_calls = 0.0;
    assert!(matches!(consumer.next().await, Err(BrokerError::ConsumerEnded)));
    assert!(timeout(Duration::from_secs(90), untouched.next()).await.is_err(), "it goes on waiting");
}

#[test]
fn two_runs_of_one_seed_have_one_trace() {
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let house = House::new(seed);
            *house.server.faults() = BrokerFaults { duplicated: 20.0, reordered: 20.0, confirms_lost: 10.0, ..BrokerFaults::default() };
            let (one, two) = (house.consume().await, house.consume().await);
            let publish = async {
                for round in 0..10 {
                    house.publish(Rung::Delay(round % 3), &["a", "b", "c"]).await;
                }
            };
            let (one, two, ()) = tokio::join!(all(&*one), all(&*two), publish);
            (one, two, house.server.world().trace())
        })
    };
    for seed in 1..=20 {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1).2, run(2).2);
}
