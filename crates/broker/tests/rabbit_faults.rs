//! What goes wrong on the way, or is much at once: cut and half-open connections, an alarm, a restart, a kill, a drain, a burst.
//!
//! Tests that hurt the server itself have one of their own.

#[expect(dead_code, reason = "each test binary uses its part of the bench")]
mod bench;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bench::{PATIENCE, consume_again, drain_all, fleet, next, publish, publish_again, settings, until_ended};
use curfew_broker::conformance::Time;
use curfew_broker::rabbit::{Found, Rabbit, Settings};
use curfew_broker::topology::QueueType;
use curfew_broker::{Broker, BrokerError, Consumer, Published, Rung};
use curfew_domain::Shard;
use curfew_testkit::eventually;
use curfew_testkit::tcp_proxy::Passage;
use curfew_testservers::rabbit::Rabbit as Server;
use tokio::time::Instant;

/// Longer than a delivery takes on a busy machine.
const QUIET: Duration = Duration::from_secs(1);
const BURST: usize = 20_000;
const BURST_BATCH: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_ends_consumers_and_both_directions_come_back() {
    let fleet = fleet("cut", QueueType::Quorum).await;
    let consumer = fleet.broker.consume(Shard(0), 4).await.unwrap();
    publish(&*fleet.broker, 0, Rung::Now, &["held"]).await.unwrap();
    let held = next(&*consumer).await;
    fleet.proxy.cut();
    assert_eq!(until_ended(&*consumer).await, BrokerError::ConsumerEnded);
    assert!(consumer.ack(held.id).await.is_err(), "nobody hears that answer");
    drop(consumer);
    let consumer = consume_again(&*fleet.broker, 0, 4).await;
    let again = next(&*consumer).await;
    assert_eq!((again.body.as_slice(), again.redelivered), (&b"held"[..], 1));
    consumer.ack(again.id).await.unwrap();
    publish_again(&*fleet.broker, 0, Rung::Delay(0), "after").await;
    assert_eq!(next(&*consumer).await.body, b"after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_died_half_way_is_noticed_by_its_heartbeat() {
    let (mut settings, proxy) = settings("half-open", QueueType::Classic).await;
    settings.times.heartbeat = Duration::from_secs(1);
    settings.times.connect = Duration::from_secs(2);
    settings.times.confirm = Duration::from_secs(3);
    let broker = bench::connected(settings).await;
    let consumer = broker.consume(Shard(0), 1).await.unwrap();
    proxy.set(Passage::HalfOpen);
    let begun = Instant::now();
    let (ended, answers) = tokio::join!(until_ended(&*consumer), publish(&*broker, 0, Rung::Now, &["into silence"]));
    assert_eq!(ended, BrokerError::ConsumerEnded);
    assert_eq!(answers.unwrap(), [Published::Unanswered]);
    assert!(begun.elapsed() < Duration::from_secs(10), "it took {:?}", begun.elapsed());
    eventually(PATIENCE, "it knows that it isn't open", || async { (!broker.is_open()).then_some(()) }).await;
    assert!(matches!(publish(&*broker, 0, Rung::Now, &["nowhere"]).await, Err(BrokerError::Unreachable(_))));
    proxy.set(Passage::Open);
    let consumer = consume_again(&*broker, 0, 1).await;
    publish_again(&*broker, 0, Rung::Now, "heard").await;
    assert_eq!(next(&*consumer).await.body, b"heard");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_publishers_and_two_consumers_side_by_side_lose_and_repeat_nothing() {
    let one = fleet("beside", QueueType::Quorum).await;
    let (settings, _proxy) = settings("beside", QueueType::Quorum).await;
    let two = bench::connected(settings).await;
    let of_one = one.broker.consume(Shard(0), 16).await.unwrap();
    let of_two = two.consume(Shard(0), 16).await.unwrap();
    let send = async |broker: Arc<Rabbit>, who: &'static str| {
        for batch in 0..10 {
            let bodies = (0..50).map(|n| (Rung::Now, format!("{who}.{batch}.{n}").into_bytes())).collect();
            assert!(broker.publish(Shard(0), bodies).await.unwrap().iter().all(|answer| *answer == Published::Confirmed));
        }
    };
    let (_, _, a, b) =
        tokio::join!(send(Arc::clone(&one.broker), "one"), send(Arc::clone(&two), "two"), drain_all(&*of_one, QUIET), drain_all(&*of_two, QUIET));
    assert!(a.values().chain(b.values()).all(|times| *times == 1));
    assert_eq!(a.keys().chain(b.keys()).collect::<HashSet<_>>().len(), 1_000);
    assert!(!a.is_empty() && !b.is_empty(), "both had their part: {} and {}", a.len(), b.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_loses_no_ack_and_gives_the_rest_back() {
    for round in 0..3 {
        let fleet = fleet(&format!("drain-{round}"), QueueType::Quorum).await;
        let bodies: Vec<_> = (0..400).map(|n| n.to_string()).collect();
        publish(&*fleet.broker, 0, Rung::Now, &bodies.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
        let consumer = fleet.broker.consume(Shard(0), 100).await.unwrap();
        let mut done = HashSet::new();
        for _ in 0..200 {
            let delivery = next(&*consumer).await;
            done.insert(String::from_utf8(delivery.body).unwrap());
            consumer.ack(delivery.id).await.unwrap();
        }
        // In hand when the drain begins, answered after the cancel.
        let mut in_hand = Vec::new();
        for _ in 0..50 {
            in_hand.push(next(&*consumer).await);
        }
        consumer.cancel().await.unwrap();
        for delivery in in_hand {
            done.insert(String::from_utf8(delivery.body).unwrap());
            consumer.ack(delivery.id).await.unwrap();
        }
        drop(consumer);
        fleet.broker.close().await;
        let (settings, _proxy) = settings(&format!("drain-{round}"), QueueType::Quorum).await;
        let later = bench::connected(settings).await;
        let rest = drain_all(&*later.consume(Shard(0), 100).await.unwrap(), QUIET).await;
        let repeated: Vec<_> = rest.keys().filter(|body| done.contains(*body)).collect();
        assert!(repeated.is_empty(), "round {round}: acked and delivered again: {repeated:?}");
        assert_eq!(done.len() + rest.len(), 400, "round {round}: nothing is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_thousand_due_at_one_instant_none_is_early_and_none_is_lost() {
    let fleet = fleet("burst", QueueType::Quorum).await;
    let rung = Rung::Delay(3);
    let mut starts = Vec::new();
    let publishing = Instant::now();
    for batch in 0..BURST / BURST_BATCH {
        let bodies = (0..BURST_BATCH).map(|n| (rung, format!("{batch}.{n}").into_bytes())).collect();
        starts.push(Instant::now());
        let answers = fleet.broker.publish(Shard((batch % 2) as u8), bodies).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == Published::Confirmed));
    }
    assert!(publishing.elapsed() < rung.delay(), "all of it is on its rung together");
    println!("published {BURST} in {:?}", publishing.elapsed());
    let (zero, one) = (fleet.broker.consume(Shard(0), 500).await.unwrap(), fleet.broker.consume(Shard(1), 500).await.unwrap());
    tokio::join!(take_half(&*zero, &starts, rung), take_half(&*one, &starts, rung));
}

async fn take_half(consumer: &dyn Consumer, starts: &[Instant], rung: Rung) {
    let mut seen = HashSet::new();
    let mut latest = Duration::ZERO;
    while seen.len() < BURST / 2 {
        let delivery = next(consumer).await;
        let body = String::from_utf8(delivery.body).expect("as published");
        let batch: usize = body.split('.').next().and_then(|batch| batch.parse().ok()).expect("as published");
        assert!(starts[batch].elapsed() >= Time::Real.earliest(rung.delay()), "{body} was early: {:?}", starts[batch].elapsed());
        latest = latest.max(starts[batch].elapsed() - rung.delay());
        consumer.ack(delivery.id).await.expect("in hand");
        assert!(seen.insert(body), "each comes once");
    }
    println!("{} messages, the latest {latest:?} after its batch was due", seen.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_or_killed_is_found_again() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let broker = bench::connected(Settings::new(server.url(), 1)).await;
    let consumer = broker.consume(Shard(0), 4).await.unwrap();
    let server = hurt(server, Server::stop).await;
    assert_eq!(until_ended(&*consumer).await, BrokerError::ConsumerEnded);
    eventually(PATIENCE, "it isn't open", || async { (!broker.is_open()).then_some(()) }).await;
    assert!(matches!(publish(&*broker, 0, Rung::Now, &["nowhere"]).await, Err(BrokerError::Unreachable(_))));
    let server = hurt(server, Server::start_again).await;
    let consumer = consume_again(&*broker, 0, 4).await;
    publish_again(&*broker, 0, Rung::Now, "held").await;
    let held = next(&*consumer).await;
    assert_eq!(held.body, b"held");
    // Longer than a start takes: what expires while the server starts finds no ready queue bound yet, and ends in `unrouted`.
    publish_again(&*broker, 0, Rung::Delay(5), "on its rung").await;
    let server = hurt(server, Server::kill9).await;
    assert_eq!(until_ended(&*consumer).await, BrokerError::ConsumerEnded);
    let _server = hurt(server, Server::start_again).await;
    let consumer = consume_again(&*broker, 0, 4).await;
    let bodies: HashSet<_> = [next(&*consumer).await.body, next(&*consumer).await.body].into();
    assert_eq!(bodies, HashSet::from([b"held".to_vec(), b"on its rung".to_vec()]), "a confirmed message outlives the kill");
}

async fn hurt(mut server: Server, how: fn(&mut Server)) -> Server {
    tokio::task::spawn_blocking(move || {
        how(&mut server);
        server
    })
    .await
    .expect("the server obeys")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_memory_alarm_blocks_publishes_acks_go_on_and_nothing_is_taken() {
    let server = Arc::new(tokio::task::spawn_blocking(Server::start).await.unwrap());
    let mut settings = Settings::new(server.url(), 1);
    settings.times.heartbeat = Duration::from_secs(1);
    settings.times.confirm = Duration::from_secs(2);
    let broker = bench::connected(settings).await;
    publish(&*broker, 0, Rung::Now, &["before", "next"]).await.unwrap();
    let consumer = broker.consume(Shard(0), 1).await.unwrap();
    let before = next(&*consumer).await;
    run(&server, Server::raise_memory_alarm).await;
    // The server tells a connection that it is blocked when that one publishes again.
    let first = publish(&*broker, 0, Rung::Now, &["unheard"]).await;
    assert!(matches!(first.as_deref(), Ok([Published::Unanswered]) | Err(BrokerError::Blocked(_))), "{first:?}");
    eventually(PATIENCE, "it knows that it is blocked", || async { (!broker.is_open()).then_some(()) }).await;
    let asked = Instant::now();
    assert!(matches!(publish(&*broker, 0, Rung::Now, &["refused"]).await, Err(BrokerError::Blocked(_))));
    assert!(asked.elapsed() < Duration::from_secs(1), "it answers at once");
    consumer.ack(before.id).await.unwrap();
    let after = next(&*consumer).await;
    assert_eq!(after.body, b"next", "acks are read and deliveries go on");
    consumer.ack(after.id).await.unwrap();
    // A process that starts under the alarm is told by its first probe.
    let late = bench::connected(Settings::new(server.url(), 1)).await;
    eventually(PATIENCE, "a new process knows that it is blocked", || async { (!late.is_open()).then_some(()) }).await;
    run(&server, Server::clear_memory_alarm).await;
    publish_again(&*broker, 0, Rung::Now, "after").await;
    let heard = drain_all(&*consumer, QUIET).await;
    assert!(heard.contains_key("after") && !heard.contains_key("refused"), "{heard:?}");
    assert!(!late.rungs().values().any(|found| *found == Found::Lost), "an alarm is no fault of the rungs: {:?}", late.rungs());
}

async fn run(server: &Arc<Server>, what: fn(&Server)) {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || what(&server)).await.expect("the server obeys");
}
