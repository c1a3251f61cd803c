//! Delays on the real broker, in real time, when it is idle: never early, at their moment, and never dropped as a cycle.
//!
//! By themselves in their binary: a burst beside them would be measured instead.

#[expect(dead_code, reason = "each test binary uses its part of the bench")]
mod bench;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use bench::{fleet, next};
use curfew_broker::conformance::Time;
use curfew_broker::topology::QueueType;
use curfew_broker::{Broker, Published, Rung};
use curfew_domain::Shard;
use tokio::time::Instant;

/// Messages per rung.
const SAMPLES: usize = 40;
/// How late 99 of 100 may be, when idle.
const LATE_P99: Duration = Duration::from_millis(250);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_delay_from_0_to_64_s_arrives_at_its_moment() {
    let fleet = fleet("rungs", QueueType::Quorum).await;
    let consumer = fleet.broker.consume(Shard(0), 256).await.unwrap();
    let rungs: Vec<_> = std::iter::once(Rung::Now).chain((0..=6).map(Rung::Delay)).collect();
    let sent = Mutex::new(HashMap::new());
    let publishing = async {
        for sample in 0..SAMPLES {
            for (n, rung) in rungs.iter().enumerate() {
                let body = format!("{n}.{sample}");
                sent.lock().unwrap().insert(body.clone(), (*rung, Instant::now()));
                assert_eq!(bench::publish(&*fleet.broker, 0, *rung, &[&body]).await.unwrap(), [Published::Confirmed]);
            }
        }
    };
    // Beside the publishing, or what needs no delay would wait for its end.
    let taking = async {
        let mut late = Vec::new();
        while late.len() < rungs.len() * SAMPLES {
            let delivery = next(&*consumer).await;
            let (rung, before) = sent.lock().unwrap().remove(std::str::from_utf8(&delivery.body).unwrap()).expect("each comes once");
            assert!(before.elapsed() >= Time::Real.earliest(rung.delay()), "{rung:?} was early: {:?}", before.elapsed());
            late.push((before.elapsed().saturating_sub(rung.delay()), rung));
            consumer.ack(delivery.id).await.unwrap();
        }
        late
    };
    let ((), mut late) = tokio::join!(publishing, taking);
    late.sort();
    let (p50, p99) = (late[late.len() / 2].0, late[late.len() * 99 / 100].0);
    println!("{} messages on 8 rungs: late p50 {p50:?}, p99 {p99:?}, the latest {:?}", late.len(), &late[late.len() - 4..]);
    assert!(p99 <= LATE_P99, "p99 {p99:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_retried_eight_times_is_never_dropped_as_a_cycle() {
    let fleet = fleet("cycle", QueueType::Quorum).await;
    let consumer = fleet.broker.consume(Shard(0), 1).await.unwrap();
    for n in 0..8 {
        assert_eq!(bench::publish(&*fleet.broker, 0, Rung::Delay(0), &["the same job"]).await.unwrap(), [Published::Confirmed]);
        let delivery = next(&*consumer).await;
        assert_eq!((delivery.body.as_slice(), delivery.redelivered), (&b"the same job"[..], 0), "try {n}");
        consumer.ack(delivery.id).await.unwrap();
    }
}
