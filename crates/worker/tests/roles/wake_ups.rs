//! Wake-ups that are lost, repeated, unreadable or strange: the broker is never the truth.

use curfew_broker::{Broker, Rung};
use curfew_domain::form::FORMAT;
use curfew_domain::wake_up::WakeUp;
use curfew_domain::{Key, Reason, Record, State};
use curfew_review::{Review, ReviewFilter};
use curfew_testkit::mail_server::Config;
use curfew_testkit::{MailServer, eventually};

use crate::house::{House, PATIENCE, Plan, lane};

async fn queued(server: &MailServer, jobs: u32) -> (House, Vec<Key>, crate::house::Running<curfew_scheduler::Scheduler>) {
    let house = House::new(Plan::new(vec![lane("smtp", server, 4)])).await;
    let scheduler = house.scheduler();
    let keys = house.submit(&(1..=jobs).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    house.until_all(&keys, "queued").await;
    (house, keys, scheduler)
}

fn wake_up(record: &Record) -> Vec<u8> {
    WakeUp {
        format: FORMAT,
        shard: record.shard,
        key: record.key.clone(),
        generation: record.generation,
        version: record.version,
        due_ms: record.due().as_millis(),
    }
    .encode()
}

#[tokio::test]
async fn an_emptied_broker_costs_a_claim_grace_and_no_job() {
    let server = MailServer::start(Config::default()).await;
    let (house, keys, scheduler) = queued(&server, 30).await;
    house.broker.purge();
    let _worker = house.worker().await;
    house.until_all(&keys, "sent").await;
    assert_eq!(server.accepted_count(), 30);
    assert!(scheduler.role.tally().republished.load(std::sync::atomic::Ordering::Relaxed) >= 30);
}

#[tokio::test]
async fn repeated_wake_ups_make_one_claim() {
    let server = MailServer::start(Config::default()).await;
    let (house, keys, _scheduler) = queued(&server, 10).await;
    for key in &keys {
        let record = house.record(key).await.expect("it lives");
        let repeated = vec![(Rung::Now, wake_up(&record)); 5];
        house.broker.publish(record.shard, repeated).await.expect("open");
    }
    let _workers = (house.worker().await, house.worker().await);
    house.until_all(&keys, "sent").await;
    for key in &keys {
        assert_eq!(house.row(key).await.attempts, 1);
    }
    assert_eq!(server.accepted_count(), 10);
    assert_eq!(server.times_reached(curfew_testkit::Stage::Mail), 10, "nobody even began a second transaction");
}

#[tokio::test]
async fn an_undecodable_message_is_kept_for_review_and_stops_nobody() {
    let server = MailServer::start(Config::default()).await;
    let (house, keys, _scheduler) = queued(&server, 3).await;
    let shard = house.record(&keys[0]).await.expect("it lives").shard;
    house.broker.publish(shard, vec![(Rung::Now, b"\x00 noise".to_vec()), (Rung::Now, b"\x00 noise".to_vec())]).await.expect("open");
    let _roles = (house.worker().await, house.deadletter());
    house.until_all(&keys, "sent").await;
    let filter = ReviewFilter { reason: Some(Reason::MalformedMessage), limit: 10, ..ReviewFilter::default() };
    eventually(PATIENCE, "one review item", || async {
        let items = house.review.list(&filter).await.expect("review answers").items;
        (items.len() == 1).then_some(())
    })
    .await;
    assert_eq!(server.accepted_count(), 3);
}

#[tokio::test]
async fn a_wake_up_of_a_job_that_nobody_knows_is_a_review_item() {
    let server = MailServer::start(Config::default()).await;
    let (house, keys, _scheduler) = queued(&server, 1).await;
    let known = house.record(&keys[0]).await.expect("it lives");
    let stranger = Record { key: Key::from_parts("acme", "renewal", "nobody", "2026-12-01").expect("well formed"), ..known.clone() };
    let stale = Record { version: 1, generation: 9, ..known.clone() };
    house.broker.publish(known.shard, vec![(Rung::Now, wake_up(&stranger)), (Rung::Now, wake_up(&stale))]).await.expect("open");
    let _roles = (house.worker().await, house.deadletter());
    house.until(&keys[0], &["sent"]).await;
    let filter = ReviewFilter { reason: Some(Reason::LedgerRecordMissing), limit: 10, ..ReviewFilter::default() };
    eventually(PATIENCE, "one review item", || async { (house.review.list(&filter).await.expect("review answers").items.len() == 1).then_some(()) })
        .await;
}

#[tokio::test]
async fn a_dead_letter_whose_wake_up_is_lost_reaches_review_all_the_same() {
    let server =
        MailServer::start(Config::scripted(curfew_testkit::mail_server::scripts::refuse_recipient("r1@acme.example", "550 5.1.1 No such user")))
            .await;
    let (house, keys, _scheduler) = queued(&server, 1).await;
    let _worker = house.worker().await;
    eventually(PATIENCE, "it is dead-lettered", || async { (house.record(&keys[0]).await?.state == State::DeadLetter).then_some(()) }).await;
    house.broker.purge();
    let _deadletter = house.deadletter();
    house.item(&keys[0], Reason::PermanentFailure).await;
}

#[tokio::test]
async fn consumers_that_end_uncancelled_are_opened_again() {
    let server = MailServer::start(Config::default()).await;
    let (house, keys, _scheduler) = queued(&server, 1).await;
    let _roles = (house.worker().await, house.deadletter());
    house.until_all(&keys, "sent").await;
    house.broker.close_consumers();
    let later = house.submit(&(11..=20).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    house.until_all(&later, "sent").await;
    assert_eq!(server.accepted_count(), 11);
}
