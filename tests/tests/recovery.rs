//! Recovery of the ledger (DESIGN 8): Redis is killed, emptied or stopped while jobs flow through seven processes, and nobody mends it by hand.
//!
//! P1: the mail server's own count. P2: each job ends, and the day adds up.

use std::time::{Duration, Instant};

use curfew_testkit::mail_server::Event;
use curfew_testkit::{Action, Config, MailServer, Stage};
use curfew_tests::fleet::WHOLE;
use curfew_tests::jobs::{in_time, job};
use curfew_tests::wait::until_within;
use curfew_tests::{Fleet, Settings, until};
use curfew_testservers::redis::{Options, Redis};
use serde_json::Value;
use tokio::sync::Mutex;

const COUNT: usize = 400;
/// For the end of what a test began, two loaded cores, a recovery and a lease included.
const END: Duration = Duration::from_secs(200);

/// One at a time: they share two cores.
static TURN: Mutex<()> = Mutex::const_new(());

fn settings(server: &MailServer) -> Settings {
    Settings::smtp(server.addr())
        .set("ledger.shards", "4")
        .set("worker.concurrency", "4")
        .text("worker.lease", "10s")
        .text("scheduler.claim_grace", "2s")
        .text("policies.patient.base", "1s")
        .set("policies.patient.factor", "1.0")
        .text("policies.patient.cap", "1s")
        .set("policies.patient.max_attempts", "500")
        .text("policies.patient.jitter", "0s")
}

/// Some are refused for now, so that records are in every state.
fn fate(event: &Event<'_>) -> Action {
    let late = event.recipient.is_some_and(|recipient| recipient.contains("-late@"));
    match event.stage {
        Stage::Rcpt if late && event.attempt == 1 => Action::reply("451 4.3.0 Mailbox busy, try again later"),
        _ => Action::Default,
    }
}

fn jobs(count: usize) -> Vec<Value> {
    let one = |n: usize| {
        let subject = format!("{n:04}-{}", if n.is_multiple_of(3) { "late" } else { "ok" });
        let mut job = job(&subject, &format!("{subject}@example.com"));
        job["policy"] = "patient".into();
        job
    };
    (0..count).map(one).collect()
}

fn flows(server: &MailServer, more: u64) {
    let reached = server.accepted_count() + more;
    until("mails that flow", || (server.accepted_count() >= reached).then_some(()));
}

/// What the API says; nothing while a shard recovers, for then nobody can say how its jobs stand.
fn asked(fleet: &Fleet, path: &str) -> Option<Value> {
    let answer = fleet.try_get(path).ok().filter(|answer| answer.status == 200)?;
    serde_json::from_str(&answer.text).ok()
}

/// The day, once every job has ended.
fn all_ended(fleet: &Fleet) -> Value {
    until_within(END, "the end of every job", || {
        let day = asked(fleet, "/v1/days/2026-12-01")?;
        (day["accepted"] == COUNT && day["planned"] == 0 && day["live"] == 0).then_some(day)
    })
}

fn none_twice(server: &MailServer) {
    let accepted = server.accepted_per_job();
    assert!(accepted.values().all(|times| *times == 1), "accepted twice: {accepted:?}");
}

fn nothing_in_review(fleet: &Fleet) {
    let items = fleet.all_items("");
    assert!(items.is_empty(), "{} items: {:#}", items.len(), items[0]);
}

/// A planned restart with every worker alive sends nothing to review, and consumption goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_killed_and_started_again_costs_time_alone() {
    let _turn = TURN.lock().await;
    let server = MailServer::start(Config::scripted(fate)).await;
    let mut redis = Redis::start(Options::default()).await;
    let mut fleet = Fleet::prepare_on(settings(&server), Some(&redis));
    fleet.run(&WHOLE);
    assert_eq!(fleet.import(&jobs(COUNT))["accepted"], COUNT);
    flows(&server, 40);
    redis.kill9();
    redis.restart().await;
    let begun = Instant::now();
    flows(&server, 40);
    println!("mails flow {:.1} s after the restart", begun.elapsed().as_secs_f64());
    let day = all_ended(&fleet);
    none_twice(&server);
    nothing_in_review(&fleet);
    assert_eq!((&day["sent"], &day["difference"]), (&COUNT.into(), &0.into()), "{day}");
    assert_eq!(server.accepted_count(), COUNT as u64);
    fleet.cli(&["check", "--config", &fleet.config().display().to_string()]).expect(0);
}

/// Longer than a lease, with the server's own run going on: no barrier is met, and leases rest first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_stopped_for_longer_than_a_lease_sends_nothing_twice() {
    let _turn = TURN.lock().await;
    let server = MailServer::start(Config::scripted(fate)).await;
    let mut redis = Redis::start(Options::default()).await;
    let mut fleet = Fleet::prepare_on(settings(&server), Some(&redis));
    fleet.run(&WHOLE);
    assert_eq!(fleet.import(&jobs(COUNT))["accepted"], COUNT);
    flows(&server, 40);
    redis.kill9();
    let down = Instant::now();
    until("longer than a lease", || (down.elapsed() > Duration::from_secs(15)).then_some(()));
    redis.restart().await;
    let day = all_ended(&fleet);
    none_twice(&server);
    nothing_in_review(&fleet);
    assert_eq!((&day["sent"], &day["difference"]), (&COUNT.into(), &0.into()), "{day}");
}

/// What could have been claimed meanwhile is in doubt until the longest lease is over; everything else goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_together_with_redis_leaves_doubts_and_no_second_mail() {
    let _turn = TURN.lock().await;
    let server = MailServer::start(Config::scripted(fate)).await;
    let mut redis = Redis::start(Options::default()).await;
    let mut fleet = Fleet::prepare_on(settings(&server), Some(&redis));
    fleet.run(&WHOLE);
    let mut all = jobs(COUNT);
    for (n, later) in all.iter_mut().enumerate().skip(COUNT / 2) {
        later["release_at"] = in_time(Duration::from_secs(60 + n as u64 % 5)).into();
    }
    assert_eq!(fleet.import(&all)["accepted"], COUNT);
    flows(&server, 40);
    fleet.kill9("worker-1");
    redis.kill9();
    redis.restart().await;
    // The later half flows, whoever is missing.
    let half = (COUNT / 2) as u64;
    let (sent, in_doubt) = until_within(END, "the end of all but what is in doubt", || {
        let handed = asked(&fleet, "/v1/jobs?state=handoff&limit=500")?["items"].as_array()?.len() as u64;
        let day = asked(&fleet, "/v1/days/2026-12-01")?;
        let sent = day["sent"].as_u64()?;
        (sent + handed == COUNT as u64 && day["difference"] == 0).then_some((sent, handed))
    });
    println!("{sent} sent, {in_doubt} in doubt");
    assert!(sent >= half && in_doubt > 0, "{sent} sent, {in_doubt} in doubt");
    none_twice(&server);
}

/// Nothing survives: what is ahead is staged again, what was due and isn't proven goes to review.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_sends_nothing_twice_and_loses_nothing() {
    let _turn = TURN.lock().await;
    let server = MailServer::start(Config::scripted(fate)).await;
    let redis = Redis::start(Options::default()).await;
    let mut fleet = Fleet::prepare_on(settings(&server), Some(&redis));
    fleet.run(&WHOLE);
    let mut all = jobs(COUNT);
    for later in all.iter_mut().skip(COUNT / 2) {
        later["release_at"] = in_time(Duration::from_secs(45)).into();
    }
    assert_eq!(fleet.import(&all)["accepted"], COUNT);
    flows(&server, 40);
    redis.ask(&["FLUSHALL"]).await;
    let day = all_ended(&fleet);
    none_twice(&server);
    let items = fleet.all_items("");
    assert!(items.iter().all(|item| item["reason"] == "ledger_rolled_back"), "{items:#?}");
    assert_eq!(day["difference"], 0, "{day}");
    assert!(day["sent"].as_u64() >= Some((COUNT / 2) as u64), "what was ahead is sent: {day}");
    assert_eq!(day["dead_letter"].as_u64(), Some(items.len() as u64), "{day}");
}
