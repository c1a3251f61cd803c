//! Recovery of the ledger (DESIGN 8): Redis is killed, emptied or stopped while jobs flow through seven processes, and nobody mends it by hand.
//!
//! P1: the mail server's own count. P2: each job ends, and the day adds up. `recovery_replicas.rs` does the same to more than one Redis.

use std::time::{Duration, Instant};

use curfew_tests::flow::Scene;
use curfew_tests::until;
use curfew_tests::wait::until_within;
use curfew_testservers::redis::{Options, Redis};

const COUNT: usize = 400;
/// For all but what is in doubt, two loaded cores, a recovery and a lease included.
const END: Duration = Duration::from_secs(200);

/// A planned restart with every worker alive sends nothing to review, and consumption goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_killed_and_started_again_costs_time_alone() {
    let mut redis = Redis::start(Options::default()).await;
    let mut scene = Scene::begin_on(&redis.url(), COUNT).await;
    scene.feed(1, Duration::ZERO);
    scene.flows(40);
    redis.kill9();
    redis.restart().await;
    let begun = Instant::now();
    scene.flows(40);
    println!("mails flow {:.1} s after the restart", begun.elapsed().as_secs_f64());
    scene.all_are_sent();
    scene.fleet.cli(&["check", "--config", &scene.fleet.config().display().to_string()]).expect(0);
}

/// Longer than a lease, with the server's own run going on: no barrier is met, and leases rest first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_stopped_for_longer_than_a_lease_sends_nothing_twice() {
    let mut redis = Redis::start(Options::default()).await;
    let mut scene = Scene::begin_on(&redis.url(), COUNT).await;
    scene.feed(1, Duration::ZERO);
    scene.flows(40);
    redis.kill9();
    let down = Instant::now();
    until("longer than a lease", || (down.elapsed() > Duration::from_secs(15)).then_some(()));
    redis.restart().await;
    scene.all_are_sent();
}

/// What could have been claimed meanwhile is in doubt until the longest lease is over; everything else goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_together_with_redis_leaves_doubts_and_no_second_mail() {
    let mut redis = Redis::start(Options::default()).await;
    let mut scene = Scene::begin_on(&redis.url(), COUNT).await;
    scene.feed(2, Duration::ZERO);
    scene.flow.feed_later(&scene.fleet, 2, Duration::from_secs(60), Duration::from_secs(5));
    scene.flowed(40);
    scene.fleet.kill9("worker-1");
    redis.kill9();
    redis.restart().await;
    // The later half flows, whoever is missing.
    let (sent, in_doubt) = until_within(END, "the end of all but what is in doubt", || {
        // What waits for the recovery is listed under every state, and says so.
        let listed = scene.asked("/v1/jobs?state=handoff&limit=500")?;
        let handed = listed["items"].as_array()?.iter().filter(|job| job["waiting_for"] != "recovery").count() as u64;
        let day = scene.asked("/v1/days/2026-12-01")?;
        let sent = day["sent"].as_u64()?;
        (sent + handed == COUNT as u64 && day["difference"] == 0).then_some((sent, handed))
    });
    println!("{sent} sent, {in_doubt} in doubt");
    assert!(sent >= COUNT as u64 / 2 && in_doubt > 0, "{sent} sent, {in_doubt} in doubt");
    scene.none_twice();
}

/// Nothing survives: what is ahead is staged again, what was due and isn't proven goes to review.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_sends_nothing_twice_and_loses_nothing() {
    let redis = Redis::start(Options::default()).await;
    let mut scene = Scene::begin_on(&redis.url(), COUNT).await;
    scene.feed(2, Duration::ZERO);
    scene.flow.feed_later(&scene.fleet, 2, Duration::from_secs(75), Duration::ZERO);
    scene.flowed(40);
    redis.ask(&["FLUSHALL"]).await;
    let day = scene.ends();
    let in_review = scene.judge_rolled_back() as u64;
    assert!(day["sent"].as_u64() >= Some(COUNT as u64 / 2), "what was ahead is sent: {day}");
    assert_eq!(day["dead_letter"].as_u64(), Some(in_review), "{day}");
}
