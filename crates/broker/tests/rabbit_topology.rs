//! What becomes of messages when the topology has holes, other arguments, or a policy that nobody asked for; and what RabbitMQ 4 would deny.

#[expect(dead_code, reason = "each test binary uses its part of the bench")]
mod bench;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bench::{PATIENCE, ctl, fleet, next, publish, publish_again, settings, until_ended};
use curfew_broker::rabbit::{Found, Management, Rabbit, Settings};
use curfew_broker::topology::{DELIVERY_LIMIT, DeadLettering, Names, QueueType};
use curfew_broker::{Broker, BrokerError, Depths, Published, Rung};
use curfew_domain::Shard;
use curfew_testkit::eventually;

const CONFIRMED: [Published; 1] = [Published::Confirmed];

#[tokio::test]
async fn a_wake_up_whose_ready_queue_was_deleted_waits_in_unrouted_and_the_queue_comes_back() {
    let fleet = fleet("unrouted", QueueType::Quorum).await;
    ctl(&["delete_queue", &fleet.names.ready_queue(Shard(1))]).await;
    assert_eq!(publish(&*fleet.broker, 1, Rung::Now, &["lost way"]).await.unwrap(), CONFIRMED);
    let there = Depths { unrouted: 1, dead_letters: 0, parked: 0 };
    eventually(PATIENCE, "one unrouted message", || async { (fleet.broker.depths().await == Ok(there)).then_some(()) }).await;
    assert_eq!(fleet.broker.ready_state(Shard(1)).await.unwrap().ready, 0, "asking for its state declares it anew");
    assert_eq!(publish(&*fleet.broker, 1, Rung::Now, &["on its way"]).await.unwrap(), CONFIRMED);
    let consumer = fleet.broker.consume(Shard(1), 1).await.unwrap();
    assert_eq!(next(&*consumer).await.body, b"on its way");
}

#[tokio::test]
async fn a_wake_up_whose_rung_has_no_queue_is_refused_until_the_rung_is_back() {
    let fleet = fleet("returned", QueueType::Quorum).await;
    ctl(&["delete_queue", &fleet.names.exchange_of(Rung::Delay(0))]).await;
    let mixed = vec![(Rung::Now, b"a".to_vec()), (Rung::Delay(0), b"b".to_vec()), (Rung::Now, b"c".to_vec())];
    let answers = fleet.broker.publish(Shard(0), mixed).await.unwrap();
    assert_eq!(answers, [Published::Confirmed, Published::Refused, Published::Confirmed], "the returned one is known by its id");
    publish_again(&*fleet.broker, 0, Rung::Delay(0), "later").await;
}

#[tokio::test]
async fn a_deleted_ready_queue_ends_its_consumer_and_the_next_one_brings_it_back() {
    let fleet = fleet("deleted", QueueType::Quorum).await;
    let consumer = fleet.broker.consume(Shard(0), 4).await.unwrap();
    ctl(&["delete_queue", &fleet.names.ready_queue(Shard(0))]).await;
    assert_eq!(until_ended(&*consumer).await, BrokerError::ConsumerEnded);
    let consumer = fleet.broker.consume(Shard(0), 4).await.unwrap();
    assert_eq!(publish(&*fleet.broker, 0, Rung::Delay(0), &["again"]).await.unwrap(), CONFIRMED);
    assert_eq!(next(&*consumer).await.body, b"again");
}

#[tokio::test]
async fn a_purge_empties_a_queue_and_leaves_its_consumer_alone() {
    let fleet = fleet("purged", QueueType::Quorum).await;
    assert_eq!(publish(&*fleet.broker, 0, Rung::Now, &["held", "waiting"]).await.unwrap().len(), 2);
    let consumer = fleet.broker.consume(Shard(0), 1).await.unwrap();
    let held = next(&*consumer).await;
    ctl(&["purge_queue", &fleet.names.ready_queue(Shard(0))]).await;
    assert_eq!(fleet.broker.ready_state(Shard(0)).await.unwrap().ready, 0);
    consumer.ack(held.id).await.unwrap();
    assert_eq!(publish(&*fleet.broker, 0, Rung::Now, &["fresh"]).await.unwrap(), CONFIRMED);
    assert_eq!(next(&*consumer).await.body, b"fresh");
}

#[tokio::test]
async fn what_breaks_every_consumer_is_given_up_at_the_shipped_limit() {
    let fleet = fleet("given-up", QueueType::Quorum).await;
    publish(&*fleet.broker, 0, Rung::Now, &["poison"]).await.unwrap();
    for n in 0..=DELIVERY_LIMIT {
        let consumer = fleet.broker.consume(Shard(0), 1).await.unwrap();
        assert_eq!(next(&*consumer).await.redelivered, n);
    }
    let dead = fleet.broker.consume_dead(1).await.unwrap();
    let delivery = next(&*dead).await;
    assert_eq!((delivery.body.as_slice(), delivery.gave_up, delivery.redelivered), (&b"poison"[..], true, 0));
    dead.reject(delivery.id).await.unwrap();
    let there = Depths { unrouted: 0, dead_letters: 0, parked: 1 };
    eventually(PATIENCE, "it is parked", || async { (fleet.broker.depths().await == Ok(there)).then_some(()) }).await;
}

#[tokio::test]
async fn queues_with_other_arguments_are_an_error_that_names_one() {
    let _classic = fleet("arguments", QueueType::Classic).await;
    let (settings, _proxy) = settings("arguments", QueueType::Quorum).await;
    let quorum = Rabbit::start(settings).unwrap();
    let error = eventually(PATIENCE, "a refusal", || async {
        match quorum.ready(Duration::from_millis(100)).await {
            Err(BrokerError::Topology(error)) => Some(error),
            Ok(()) | Err(_) => None,
        }
    });
    let error = error.await;
    assert!(error.contains("curfew.rehearsal.arguments.unrouted") && error.contains("x-queue-type"), "{error}");
}

#[tokio::test]
async fn an_application_that_may_not_declare_verifies_the_shipped_definitions() {
    let (mut settings, proxy) = settings("unused", QueueType::Quorum).await;
    ctl(&["add_user", "modest", "secret"]).await;
    ctl(&["set_permissions", "modest", "^curfew\\.v1\\.probe\\.", "^curfew\\.", "^curfew\\."]).await;
    settings.url = format!("amqp://modest:secret@{}/%2f", proxy.addr());
    settings.names = Names::default();
    settings.shards = 16;
    settings.management = Management::Verify;
    let broker = bench::connected(settings.clone()).await;
    assert_eq!(publish(&*broker, 15, Rung::Now, &["verified"]).await.unwrap(), CONFIRMED);
    let consumer = broker.consume(Shard(15), 1).await.unwrap();
    let delivery = next(&*consumer).await;
    assert_eq!(delivery.body, b"verified");
    consumer.ack(delivery.id).await.unwrap();
    eventually(PATIENCE, "the first rung's probe", || async { broker.rungs().contains_key(&0).then_some(()) }).await;
    settings.shards = 17;
    let wider = Rabbit::start(settings).unwrap();
    let missing = eventually(PATIENCE, "a refusal", || async { wider.ready(Duration::from_millis(100)).await.err().filter(is_topology) }).await;
    assert!(missing.to_string().contains("curfew.v1.ready.16"), "{missing}");
}

fn is_topology(error: &BrokerError) -> bool {
    matches!(error, BrokerError::Topology(_))
}

#[tokio::test]
async fn a_policy_that_shortens_every_ttl_is_noticed_at_the_start() {
    let vhost = "short";
    let url = tokio::task::spawn_blocking(move || bench::server().vhost(vhost)).await.unwrap();
    ctl(&["set_policy", "-p", vhost, "tidy", ".*", r#"{"message-ttl":300}"#]).await;
    let broker = bench::connected(Settings::new(url, 1)).await;
    eventually(PATIENCE, "seven early rungs", || async {
        (broker.rungs().values().filter(|found| matches!(found, Found::Early(_))).count() == 7).then_some(())
    })
    .await;
}

#[tokio::test]
async fn honest_rungs_are_found_in_time() {
    let fleet = fleet("honest", QueueType::Quorum).await;
    let found = eventually(PATIENCE, "the first three rungs", || async { Some(fleet.broker.rungs()).filter(|rungs| rungs.len() >= 3) }).await;
    assert!(found.values().all(|found| matches!(found, Found::InTime(_))), "{found:?}");
}

#[tokio::test]
async fn a_rehearsal_removes_all_it_made_and_the_fleets_queues_are_nothing_to_remove() {
    let rehearsal = fleet("removed", QueueType::Quorum).await;
    publish(&*rehearsal.broker, 0, Rung::Now, &["left behind"]).await.unwrap();
    rehearsal.broker.remove().await.unwrap();
    rehearsal.broker.close().await;
    let there = ctl(&["list_queues", "name"]).await;
    let left: Vec<_> = there.lines().filter(|name| name.starts_with("curfew.rehearsal.removed.") && !name.contains(".probe.")).collect();
    assert!(left.is_empty(), "{left:?}");
    let (mut settings, _proxy) = settings("unused", QueueType::Quorum).await;
    settings.names = Names::default();
    settings.shards = 16;
    assert!(matches!(bench::connected(settings).await.remove().await, Err(BrokerError::Settings(_))));
}

#[tokio::test]
async fn a_body_that_is_no_wake_up_is_refused_and_a_shard_outside_the_topology_too() {
    let fleet = fleet("bounds", QueueType::Classic).await;
    let answers = fleet.broker.publish(Shard(0), vec![(Rung::Now, vec![0; 513]), (Rung::Delay(7), vec![1]), (Rung::Now, vec![2])]).await.unwrap();
    assert_eq!(answers, [Published::Refused, Published::Refused, Published::Confirmed]);
    assert!(matches!(fleet.broker.publish(Shard(2), vec![(Rung::Now, vec![1])]).await, Err(BrokerError::Topology(_))));
    assert!(matches!(fleet.broker.ready_state(Shard(2)).await, Err(BrokerError::Topology(_))));
}

#[tokio::test]
async fn at_least_once_is_a_switch_for_quorum_queues_alone() {
    let (mut settings, _proxy) = settings("at-least-once", QueueType::Quorum).await;
    settings.dead_lettering = DeadLettering::AtLeastOnce;
    let broker = bench::connected(settings.clone()).await;
    let consumer = broker.consume(Shard(1), 1).await.unwrap();
    assert_eq!(publish(&*broker, 1, Rung::Delay(0), &["hop by hop"]).await.unwrap(), CONFIRMED);
    assert_eq!(next(&*consumer).await.body, b"hop by hop");
    settings.queue_type = QueueType::Classic;
    assert!(matches!(Rabbit::start(settings), Err(BrokerError::Settings(_))));
}

/// The client numbers confirms under one lock and writes frames under another: with two tasks on a channel a nack could land on the wrong job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nack_lands_on_the_message_it_is_for_however_many_publish_at_once() {
    let fleet = fleet("nacked", QueueType::Classic).await;
    let full = format!("^{}$", fleet.names.ready_queue(Shard(0)).replace('.', "\\."));
    ctl(&["set_policy", "--priority", "20", "full", &full, r#"{"max-length":0,"overflow":"reject-publish"}"#]).await;
    let all = (0..8_u8).map(|task| {
        let broker = Arc::clone(&fleet.broker);
        tokio::spawn(async move {
            let (shard, expected) = if task % 2 == 0 { (0, Published::Refused) } else { (1, Published::Confirmed) };
            for _ in 0..50 {
                let answers = publish(&*broker, shard, Rung::Now, &["a", "b", "c"]).await.unwrap();
                assert_eq!(answers, [expected; 3], "shard {shard}");
            }
        })
    });
    for publishing in all.collect::<Vec<_>>() {
        publishing.await.unwrap();
    }
    assert_eq!(fleet.broker.ready_state(Shard(1)).await.unwrap().ready, 600);
}

/// The client hangs a returned message on whichever confirm it completes next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_messages_exactly_the_returned_ones_are_refused() {
    let declares = fleet("mixed", QueueType::Quorum).await;
    declares.broker.close().await;
    // This one leaves the hole open.
    let (mut settings, _proxy) = settings("mixed", QueueType::Quorum).await;
    settings.management = Management::Verify;
    let broker = bench::connected(settings).await;
    ctl(&["delete_queue", &declares.names.exchange_of(Rung::Delay(3))]).await;
    let rung = |n: u32| if n.is_multiple_of(3) { Rung::Delay(3) } else { Rung::Now };
    let answers = broker.publish(Shard(0), (0..600).map(|n| (rung(n), n.to_string().into_bytes())).collect()).await.unwrap();
    let expected = |n: u32| if n.is_multiple_of(3) { Published::Refused } else { Published::Confirmed };
    assert_eq!(answers, (0..600).map(expected).collect::<Vec<_>>());
    eventually(PATIENCE, "400 messages", || async { (broker.ready_state(Shard(0)).await.unwrap().ready == 400).then_some(()) }).await;
}

/// A client of an earlier version never answered where the virtual host was refused.
#[tokio::test]
async fn a_virtual_host_or_password_that_is_refused_is_an_answer_and_no_hang() {
    let (settings, proxy) = settings("unused", QueueType::Quorum).await;
    let urls = [
        ("NOT_ALLOWED", format!("amqp://guest:guest@{}/nowhere", proxy.addr())),
        ("ACCESS_REFUSED", format!("amqp://guest:wrong@{}/%2f", proxy.addr())),
    ];
    for (word, url) in urls {
        let refused = Rabbit::start(Settings { url, ..settings.clone() }).unwrap();
        let answered = || async {
            let error = refused.ready(Duration::from_millis(50)).await.expect_err("it is refused");
            (matches!(error, BrokerError::Unreachable(_)) && error.to_string().contains(word)).then_some(())
        };
        eventually(PATIENCE, word, answered).await;
        refused.close().await;
    }
}

#[tokio::test]
async fn no_error_repeats_the_password() {
    for url in ["amqp://curfew:hush@127.0.0.1:1/%2f", "amqp://curfew:hush@nowhere.invalid:5672/%2f", "http://curfew:hush@127.0.0.1/", "hush"] {
        let error = match Rabbit::start(Settings::new(url, 1)) {
            Ok(broker) => broker.ready(Duration::from_millis(500)).await.unwrap_err(),
            Err(error) => error,
        };
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}

/// A global prefetch, a transient shared queue and `x-queue-mode` are denied by RabbitMQ 4.3; a call elsewhere would escape the review of `calls.rs`.
#[test]
fn every_amqp_method_stands_in_one_file_and_none_is_one_that_rabbitmq_4_denies() {
    let methods = [
        ".basic_qos(",
        ".basic_consume(",
        ".basic_get(",
        ".basic_publish(",
        ".basic_cancel(",
        ".basic_recover",
        ".queue_declare(",
        ".queue_bind(",
        ".queue_delete(",
        ".queue_purge(",
        ".exchange_declare(",
        ".exchange_bind(",
        ".exchange_delete(",
        ".confirm_select(",
        ".tx_select(",
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rabbit");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        if path.ends_with("calls.rs") {
            assert!(!code.contains("global: true") && !code.contains("x-queue-mode") && !code.contains("tx_select"), "denied by RabbitMQ 4");
            let shared = code.matches("QueueDeclareOptions {").count();
            let durable_or_exclusive =
                code.matches("durable: true, exclusive: false").count() + code.matches("durable: false, exclusive: true").count();
            assert_eq!(shared, durable_or_exclusive, "a queue is durable, or exclusive to its connection");
        } else {
            let calls: Vec<_> = methods.iter().filter(|method| code.contains(**method)).collect();
            assert!(calls.is_empty(), "{}: {calls:?}", path.display());
        }
    }
}
