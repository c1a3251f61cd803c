//! Incidents that people reported about other systems with a queue and a cache beside them, replayed on a fleet. Each test's first line says
//! what they saw. `incidents.rs` holds those that one process can show.

use std::fs;
use std::time::Duration;

use curfew_testkit::mail_server::Event;
use curfew_testkit::mail_server::scripts::{first_times_at, obedient};
use curfew_testkit::{Action, Config, MailServer, Stage};
use curfew_tests::fleet::{Servers, WHOLE};
use curfew_tests::http::Http;
use curfew_tests::jobs::{DATE, in_time, job, key, now};
use curfew_tests::wait::until_within;
use curfew_tests::{Fleet, Settings, process, until};
use curfew_testservers::redis::{Options, Redis};
use serde_json::{Value, json};
use tokio::sync::Mutex;

const SHARDS: u8 = 2;
/// For the end of what a test began, two loaded cores and a lease included.
const END: Duration = Duration::from_secs(100);
/// Without the second and the third worker.
const ONE_WORKER: [(&str, &str); 4] = [("scheduler-1", "scheduler"), ("worker-1", "worker"), ("deadletter", "deadletter"), ("api", "api")];
const OTHER_WORKERS: [(&str, &str); 2] = [("worker-2", "worker"), ("worker-3", "worker")];
const WORKERS: [&str; 3] = ["worker-1", "worker-2", "worker-3"];

/// One at a time: they share servers and two cores.
static TURN: Mutex<()> = Mutex::const_new(());

fn settings(server: &MailServer) -> Settings {
    Settings::smtp(server.addr()).short().set("ledger.shards", &SHARDS.to_string())
}

fn many(name: &str, count: usize) -> Vec<Value> {
    (0..count).map(|n| job(&format!("{name}-{n:04}"), &format!("{name}-{n:04}@example.com"))).collect()
}

/// Every wake-up comes twice from here on: a copy of it expires at once, and is dead-lettered to where it came from.
fn doubled(fleet: &Fleet) {
    let (vhost, copy) = (fleet.vhost(), "test.copy");
    let arguments = json!({"x-message-ttl": 0, "x-dead-letter-exchange": "curfew.v1.ready"});
    let binding = |shard: u8| {
        json!({"source": "curfew.v1.ready", "vhost": vhost, "destination": copy, "destination_type": "queue", "routing_key": format!("{shard:02}"),
            "arguments": {}})
    };
    let definitions = json!({
        "queues": [{"name": copy, "vhost": vhost, "durable": true, "auto_delete": false, "arguments": arguments}],
        "bindings": (0..SHARDS).map(binding).collect::<Vec<_>>(),
    });
    let file = fleet.folder().join("definitions.json");
    fs::write(&file, definitions.to_string()).expect("a file can be written");
    fleet.servers.rabbit().ctl(&["import_definitions", &file.display().to_string()]);
}

/// Wake-ups in the ready queues, those in hand included. What stands on the rungs may be a probe.
fn ready(fleet: &Fleet) -> u64 {
    let listed = fleet.servers.rabbit().ctl(&["list_queues", "-p", fleet.vhost(), "name", "messages"]);
    let ready = listed.lines().filter_map(|line| line.trim().strip_prefix("curfew.v1.ready.")?.split_whitespace().nth(1)?.parse::<u64>().ok());
    ready.sum()
}

fn wakeups(fleet: &Fleet) -> f64 {
    WORKERS.iter().filter_map(|worker| fleet.metric(worker, "curfew_wakeups_total")).sum()
}

/// Waits until a scheduler has ticked for so long.
fn ticks_for(fleet: &Fleet, time: Duration) {
    let tick = || fleet.metric("scheduler-1", "curfew_scheduler_last_tick_timestamp_seconds");
    let first = until("a tick", tick);
    until("ticks", || tick().filter(|now| *now >= first + time.as_secs_f64()));
}

fn accepted_once(server: &MailServer, count: usize) {
    let accepted = server.accepted_per_job();
    assert_eq!(accepted.len(), count);
    assert!(accepted.values().all(|times| *times == 1), "accepted twice: {accepted:?}");
}

/// Incident 28 (mautic#2215): "a cron run longer than its interval, both read the spool, the same Message-ID twice". Here every wake-up
/// comes twice, to three workers at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_workers_that_are_woken_for_one_job_at_once_one_claims_it() {
    const COUNT: usize = 200;
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::default()).await;
    let fleet = Fleet::start(settings(&server), &WHOLE);
    doubled(&fleet);
    assert_eq!(fleet.import(&many("letter", COUNT))["accepted"], COUNT);
    let day = fleet.all_ended(COUNT as u64, END);
    assert_eq!((&day["sent"], &day["difference"]), (&COUNT.into(), &0.into()), "{day}");
    until("both wake-ups of each", || (wakeups(&fleet) >= 2.0 * COUNT as f64).then_some(()));
    accepted_once(&server, COUNT);
    assert!(fleet.all_jobs("").iter().all(|job| job["attempts"] == 1), "no attempt is begun for the second");
}

/// Incident 29 (mautic#9880): "the same contact twice within 3 s". A burst of one job at two doors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_the_same_job_at_two_doors_is_one_job() {
    const CALLERS: usize = 16;
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::default()).await;
    let fleet = Fleet::start(settings(&server), &[&ONE_WORKER[..], &[("api-2", "api")]].concat());
    let doors: Vec<Http> = ["api", "api-2"].iter().map(|name| Http::new(&door(&fleet, name))).collect();
    let one = job("R-1", "r-1@example.com");
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..CALLERS)
            .map(|n| {
                scope.spawn({
                    let (door, one) = (&doors[n % doors.len()], &one);
                    move || door.post("/v1/jobs", one).status
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().expect("nobody panics")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 201)), "{statuses:?}");
    let summary = fleet.import(&vec![one.clone(); 50]);
    assert_eq!((&summary["accepted"], &summary["duplicates"]), (&0.into(), &50.into()), "{summary}");
    let day = fleet.all_ended(1, END);
    assert_eq!((&day["accepted"], &day["sent"], &day["difference"]), (&1.into(), &1.into(), &0.into()), "{day}");
    accepted_once(&server, 1);
}

/// Where a process's API listens, as it said itself.
fn door(fleet: &Fleet, name: &str) -> String {
    let log = fleet.log(name);
    log.split_once("up at ").and_then(|(_, rest)| rest.split_once(',')).map(|(base, _)| base.to_owned()).unwrap_or_else(|| panic!("{log}"))
}

/// Incident 31 (odoo#275696): "the flag was set only after sending". Whoever dies while the server takes the mail has said so before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_marked_before_it_is_handed_over_so_nobody_takes_it_after_a_kill() {
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenHold))).await;
    let mut fleet = Fleet::start(settings(&server), &WHOLE);
    doubled(&fleet);
    fleet.submit(&job("R-1", "r-1@example.com"));
    server.held(Stage::Dot).await;
    assert_eq!(fleet.job(&key("R-1"))["state"], "handoff", "the server has it, and has answered nothing");
    for worker in WORKERS {
        fleet.kill9(worker);
        fleet.spawn(worker);
    }
    let doubt = fleet.job_in(&key("R-1"), "dead_letter");
    assert_eq!((doubt["reason"].as_str(), doubt["attempts"].as_u64()), (Some("reconciliation_required"), Some(1)), "{doubt:#}");
    for worker in WORKERS {
        fleet.ready(worker);
    }
    fleet.submit(&job("R-2", "r-2@example.com"));
    fleet.job_in(&key("R-2"), "sent");
    accepted_once(&server, 2);
}

/// Incident 32 (celery#2481, #7009, kombu#337): "an ETA longer than the visibility timeout made many copies". What is due in 26 hours stands
/// in no queue at all; and when its time comes, a wake-up that comes again is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_due_tomorrow_waits_in_no_queue_and_is_sent_once() {
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::default()).await;
    let fleet = Fleet::start(settings(&server), &WHOLE);
    doubled(&fleet);
    let mut tomorrow = job("R-1", "r-1@example.com");
    tomorrow["release_at"] = in_time(Duration::from_secs(26 * 3600)).into();
    tomorrow["deadline_at"] = in_time(Duration::from_secs(27 * 3600)).into();
    fleet.submit(&tomorrow);
    ticks_for(&fleet, Duration::from_secs(3));
    assert_eq!((fleet.job(&key("R-1"))["state"].as_str(), ready(&fleet), wakeups(&fleet)), (Some("planned"), 0, 0.0));
    // It takes a rung, and comes out of it twice.
    fleet.cli(&["jobs", "move", &key("R-1"), "--release", "+5s", "--reason", "tomorrow is today"]).expect(0);
    let sent = fleet.job_in(&key("R-1"), "sent");
    assert_eq!((&sent["attempts"], &sent["generation"]), (&1.into(), &1.into()), "{sent:#}");
    until("both wake-ups", || (wakeups(&fleet) >= 2.0).then_some(()));
    accepted_once(&server, 1);
}

/// Incident 34 (bullmq#439, #3056): "the lock was not renewed, the job ran twice". A frozen worker outlives its lease; the fence is the token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_comes_back_after_its_lease_finds_the_job_taken_out_of_its_hands() {
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenHold))).await;
    let mut fleet = Fleet::start(settings(&server), &ONE_WORKER);
    fleet.submit(&job("R-1", "r-1@example.com"));
    server.held(Stage::Dot).await;
    fleet.stop("worker-1");
    fleet.run(&OTHER_WORKERS);
    let doubt = fleet.job_in(&key("R-1"), "dead_letter");
    assert_eq!((doubt["reason"].as_str(), doubt["in_doubt"].as_bool()), (Some("reconciliation_required"), Some(true)), "{doubt:#}");
    // The others go on, and leave it alone.
    fleet.submit(&job("R-2", "r-2@example.com"));
    fleet.job_in(&key("R-2"), "sent");
    server.release();
    fleet.cont("worker-1");
    let sent = fleet.job_in(&key("R-1"), "sent");
    assert_eq!((&sent["attempts"], &sent["generation"]), (&1.into(), &1.into()), "its late verdict counts: {sent:#}");
    // The ledger knows first; the book had the dead letter recorded, and is told next.
    let day = until("both in the book as sent", || Some(fleet.all_ended(2, END)).filter(|day| day["sent"] == 2));
    assert_eq!((&day["sent"], &day["difference"]), (&2.into(), &0.into()), "{day}");
    accepted_once(&server, 2);
}

/// Incident 36 (frappe#19385): "the flush job enqueued the same rows again while SMTP hung". Nobody answers for several claim graces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_relay_hangs_the_queues_hold_no_more_than_the_jobs() {
    const COUNT: usize = 60;
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let hung = |event: &Event<'_>| if event.stage == Stage::Dot { Action::AcceptThenHold } else { Action::Default };
    let server = MailServer::start(Config::scripted(hung)).await;
    let fleet = Fleet::start(settings(&server), &WHOLE);
    assert_eq!(fleet.import(&many("letter", COUNT))["accepted"], COUNT);
    // One transport gets three quarters of a worker's slots.
    server.held_connections(Stage::Dot, 3 * WORKERS.len()).await;
    for _grace in 0..4 {
        ticks_for(&fleet, Duration::from_secs(3));
        let waiting = ready(&fleet);
        assert!(waiting <= COUNT as u64, "{waiting} messages for {COUNT} jobs");
    }
    let again: f64 = ["scheduler-1", "scheduler-2"].iter().filter_map(|name| fleet.metric(name, "curfew_republished_total")).sum();
    assert_eq!(again, 0.0, "a queue that isn't empty is no silence");
    server.set_script(obedient());
    server.release();
    let day = fleet.all_ended(COUNT as u64, END);
    assert_eq!((&day["sent"], &day["difference"]), (&COUNT.into(), &0.into()), "{day}");
    accepted_once(&server, COUNT);
}

/// Incident 37 (listmonk#2070, #2313): "a resume after a pause started from the first subscriber". Every process is another one meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_in_the_middle_and_a_resume_reach_everybody_once() {
    const COUNT: usize = 1200;
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::default()).await;
    let mut fleet = Fleet::start(settings(&server).text("transports.default.rate", "100/s"), &WHOLE);
    assert_eq!(fleet.import(&many("reader", COUNT))["accepted"], COUNT);
    server.accepted_at_least(COUNT as u64 / 3).await;
    fleet.cli(&["fleet", "pause", "--reason", "a typo in the letter"]).expect(0);
    let mut before = 0;
    until("nothing that goes out any more", || {
        ticks_for(&fleet, Duration::from_secs(1));
        (std::mem::replace(&mut before, server.accepted_count()) == before).then_some(())
    });
    assert!(before < COUNT as u64, "the pause came in the middle: {before}");
    for (name, _) in WHOLE {
        fleet.kill9(name);
        fleet.spawn(name);
    }
    for (name, _) in WHOLE {
        fleet.ready(name);
    }
    ticks_for(&fleet, Duration::from_secs(2));
    assert_eq!(server.accepted_count(), before, "a pause outlives every process");
    fleet.cli(&["fleet", "resume", "--reason", "it is mended"]).expect(0);
    let day = fleet.all_ended(COUNT as u64, END);
    assert_eq!((&day["sent"], &day["difference"]), (&COUNT.into(), &0.into()), "{day}");
    accepted_once(&server, COUNT);
    assert_eq!(server.accepted_per_recipient().len(), COUNT);
}

/// Incident 38 (rabbitmq-server#1418, postal#2716): "unacked too long, the channel was closed, the message given to others". The final reply
/// comes after the consumer timeout, and the other workers get the wake-up meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_up_that_the_broker_gives_to_another_worker_sends_nothing_again() {
    let (servers, _turn) = (Servers::shared(), TURN.lock().await);
    let set = |timeout: &str, tick: &str| {
        let set = |name: &str, value: &str| servers.rabbit().ctl(&["eval", &format!("application:set_env(rabbit, {name}, {value}).")]);
        set("consumer_timeout", timeout);
        set("channel_tick_interval", tick);
    };
    set("3000", "500");
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenHold))).await;
    let mut fleet = Fleet::start(settings(&server), &ONE_WORKER);
    fleet.submit(&job("R-1", "r-1@example.com"));
    server.held(Stage::Dot).await;
    fleet.run(&OTHER_WORKERS);
    let others = || OTHER_WORKERS.iter().filter_map(|(name, _)| fleet.metric(name, "curfew_wakeups_total")).sum::<f64>();
    until("another worker is given the wake-up", || (others() >= 1.0).then_some(()));
    assert_eq!(fleet.job(&key("R-1"))["state"], "handoff");
    server.release();
    let sent = fleet.job_in(&key("R-1"), "sent");
    assert_eq!(sent["attempts"], 1, "{sent:#}");
    set("1800000", "60000");
    let checked = process::run(&["check", "--config", &fleet.config().display().to_string()], b"").expect(0);
    let named = "ok    broker's consumer timeout: a worker holds a wake-up for up to ";
    assert!(checked.stdout.lines().any(|line| line.starts_with(named) && line.contains("`consumer_timeout = ")), "{}", checked.stdout);
    // Whose channel was closed consumes anew.
    assert_eq!(fleet.import(&many("letter", 40))["accepted"], 40);
    fleet.all_ended(41, END);
    accepted_once(&server, 41);
}

/// Incident 39 (listmonk#1801): "a server restored from a snapshot sent the old campaign again". The ledger comes back as it stood before
/// anything was sent, with every job in its line; what was handed in later it never heard of. The book knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_put_back_to_an_old_snapshot_sends_the_old_campaign_to_nobody_again() {
    const CAMPAIGN: usize = 60;
    const FEW: usize = 20;
    const DAY: usize = CAMPAIGN + 2 * FEW;
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::default()).await;
    let mut redis = Redis::start(Options::default()).await;
    let mut fleet = Fleet::prepare_on(settings(&server), Some(&redis.url()));
    fleet.run(&WHOLE);
    let at = |mut jobs: Vec<Value>, release: u64, deadline: u64| {
        for job in &mut jobs {
            job["release_at"] = in_time(Duration::from_secs(release)).into();
            job["deadline_at"] = in_time(Duration::from_secs(deadline)).into();
        }
        jobs
    };
    let closing_over = now().plus(Duration::from_secs(62));
    let old = [at(many("campaign", CAMPAIGN), 12, 3600), at(many("closing", FEW), 58, 60)].concat();
    assert_eq!(fleet.import(&old)["accepted"], CAMPAIGN + FEW);
    until("everything is staged", || (fleet.day()["planned"] == 0).then_some(()));
    assert_eq!(server.accepted_count(), 0, "the snapshot is older than the campaign");
    let snapshot = redis.snapshot();
    assert_eq!(fleet.import(&at(many("later", FEW), 100, 3600))["accepted"], FEW);
    until("the book has the end of the campaign", || {
        let day = fleet.day();
        (day["sent"] == CAMPAIGN && day["planned"] == 0).then_some(())
    });

    redis.kill9();
    until_within(END, "the last deadline of those that close meanwhile", || (now() > closing_over).then_some(()));
    redis.put_back(&snapshot);
    redis.restart().await;

    // Nobody can say how a shard's jobs stand while it recovers.
    let day = until_within(END, "the end of every job", || {
        let answer = fleet.try_get(&format!("/v1/days/{DATE}")).ok().filter(|answer| answer.status == 200)?;
        (answer.json["accepted"] == DAY && answer.json["planned"] == 0 && answer.json["live"] == 0).then_some(answer.json)
    });
    accepted_once(&server, CAMPAIGN + FEW);
    assert_eq!((&day["sent"], &day["dead_letter"], &day["difference"]), (&(CAMPAIGN + FEW).into(), &FEW.into(), &0.into()), "{day}");
    assert!(fleet.all_jobs("&state=sent").iter().all(|job| job["attempts"] == 1), "no attempt is begun for what was sent");
    let items = fleet.all_items("");
    let explains = |item: &Value| {
        let closing = item["key"].as_str().is_some_and(|key| key.contains("closing"));
        closing && matches!(item["reason"].as_str(), Some("business_deadline_reached" | "ledger_rolled_back"))
    };
    assert!(items.len() == FEW && items.iter().all(explains), "{items:#?}");
}
