//! P1 and P2 under `kill -9` and SIGSTOP: of each process of a fleet, of all at once, and between two steps that must not be torn apart.
//!
//! Moments are announced by `--pause-at`; the process is frozen there by SIGSTOP and goes on from there at SIGCONT. The only time that passes by
//! itself is that of leases and of the 60 s after which a create refuses what was read. `CURFEW_FAULT_JOBS=5000` is the long form.

use std::time::{Duration, Instant};

use curfew_tests::fleet::WHOLE;
use curfew_tests::flow::Scene;
use curfew_tests::jobs::{job, key};
use curfew_tests::until;
use curfew_tests::wait::let_pass;

/// The shortest that there is.
const LEASE: Duration = Duration::from_secs(10);

/// Hands in one job, whose fate is in its name.
fn submit(scene: &mut Scene, subject: &str) {
    scene.fleet.submit(&job(subject, &format!("{subject}@example.com")));
    scene.flow.also(1);
}

/// How often the server accepted it.
fn accepted(scene: &Scene, subject: &str) -> u32 {
    let id = scene.fleet.job(&key(subject))["id"].as_str().expect("a job has an id").to_owned();
    scene.server.accepted_per_job().get(&id).copied().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_process_and_all_at_once_may_be_killed() {
    let mut scene = Scene::begin().await;
    for name in ["worker-1", "scheduler-1", "scheduler-2", "deadletter", "api"] {
        scene.feed(6, Duration::from_secs(3));
        scene.flows(20);
        scene.fleet.kill9(name);
        scene.fleet.spawn(name);
        scene.flows(20);
        scene.fleet.ready(name);
    }
    scene.feed(6, Duration::from_secs(3));
    scene.flows(20);
    for (name, _) in WHOLE {
        scene.fleet.kill9(name);
    }
    for (name, _) in WHOLE {
        scene.fleet.spawn(name);
    }
    for (name, _) in WHOLE {
        scene.fleet.ready(name);
    }
    scene.ends();
    scene.judge();
}

/// Two jobs of one worker: of one the end marker isn't written yet, of the other the provider has answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_frozen_past_its_leases_sends_nothing_more_and_its_late_verdict_counts() {
    let mut scene = Scene::prepare().await;
    scene.fleet.arguments("worker-1", &["--pause-at", "last-look=unsent", "--pause-at", "after-verdict=answered"]);
    scene.fleet.run(&WHOLE.into_iter().filter(|(name, _)| !matches!(*name, "worker-2" | "worker-3")).collect::<Vec<_>>());
    for subject in ["unsent", "answered"] {
        submit(&mut scene, subject);
    }
    assert_eq!(scene.fleet.paused("worker-1", "last-look"), key("unsent"));
    assert_eq!(scene.fleet.paused("worker-1", "after-verdict"), key("answered"));
    scene.fleet.stop("worker-1");
    let frozen = Instant::now();
    scene.fleet.run(&[("worker-2", "worker"), ("worker-3", "worker")]);
    scene.feed(2, Duration::from_secs(5));
    for subject in ["unsent", "answered"] {
        let doubt = scene.fleet.job_in(&key(subject), "dead_letter");
        assert_eq!((doubt["reason"].as_str(), doubt["in_doubt"].as_bool()), (Some("reconciliation_required"), Some(true)), "{doubt:#}");
        assert_eq!(scene.fleet.item_of(&key(subject))["status"], "open");
    }
    assert!(frozen.elapsed() > LEASE / 2, "its lease had to end first: {:?}", frozen.elapsed());

    scene.fleet.cont("worker-1");
    let sent = scene.fleet.job_in(&key("answered"), "sent");
    assert_eq!((sent["receipt"]["code"].as_u64(), sent["in_doubt"].as_bool()), (Some(250), Some(false)), "{sent:#}");
    until("the resolved item", || (scene.fleet.item_of(&key("answered"))["status"] == "resolved").then_some(()));
    let sure = until("the end of the doubt", || Some(scene.fleet.job(&key("unsent"))).filter(|job| job["in_doubt"] == false));
    assert_eq!(sure["state"], "dead_letter", "{sure:#}");
    assert_eq!((accepted(&scene, "unsent"), scene.server.cut_off()), (0, 1), "the end marker was never written");
    scene.feed(2, Duration::from_secs(2));
    scene.ends();
    scene.judge();
}

/// Freezes a scheduler that has read a row and not staged it, and a dead-letter consumer that has read a record and not written its item.
/// Others do their work meanwhile, and an operator replays the dead letter and cancels a job that was read with the other. With `forgotten` the record of the job is gone from the ledger when
/// the scheduler goes on, as after its 48 h: only the age of what it read keeps it from beginning the job anew.
async fn frozen_between_reading_and_writing(frozen: Duration, forgotten: bool) {
    let mut scene = Scene::prepare().await;
    scene.fleet.arguments("deadletter", &["--pause-at", "before-record=1-once"]);
    scene.fleet.arguments("scheduler-1", &["--pause-at", "before-staging=2-read"]);
    scene.fleet.run(&[("scheduler-1", "scheduler"), ("worker-1", "worker"), ("deadletter", "deadletter"), ("api", "api")]);
    submit(&mut scene, "1-once");
    assert_eq!(scene.fleet.paused("deadletter", "before-record"), key("1-once"));
    scene.fleet.stop("deadletter");
    scene.fleet.import(&["2-read", "2-cancelled"].map(|subject| job(subject, &format!("{subject}@example.com"))));
    scene.flow.also(2);
    assert_eq!(scene.fleet.paused("scheduler-1", "before-staging"), key("2-read"));
    scene.fleet.stop("scheduler-1");
    let begun = Instant::now();
    scene.fleet.cli(&["jobs", "cancel", &key("2-cancelled"), "--reason", "no longer wanted"]).expect(0);

    scene.fleet.run(&[("scheduler-2", "scheduler"), ("deadletter-2", "deadletter")]);
    let item = scene.fleet.item_of(&key("1-once"))["id"].as_str().expect("an item has an id").to_owned();
    scene.fleet.cli(&["review", "replay", &item, "--deadline", "+1h", "--reason", "the mailbox is there now"]).expect(0);
    assert_eq!(scene.fleet.job_in(&key("1-once"), "sent")["generation"], 2);
    scene.fleet.job_in(&key("2-read"), "sent");
    scene.feed(2, Duration::from_secs(5));
    scene.ends();
    let_pass(frozen.saturating_sub(begun.elapsed()));
    if forgotten {
        let database = scene.fleet.vhost().trim_start_matches("fleet-").to_owned();
        let forget = "redis.call('select', ARGV[1]); return redis.call('del', unpack(redis.call('keys', '*' .. ARGV[2] .. '*')))";
        let deleted = scene.servers().redis.ask(&["EVAL", forget, "0", &database, &key("2-read")]).await;
        assert!(deleted.text().parse::<u64>().is_ok_and(|keys| keys > 0), "{deleted:?}");
    }

    // From here on the frozen ones are alone: what is done now is done by them, after what they had in hand.
    scene.fleet.kill9("scheduler-2");
    scene.fleet.kill9("deadletter-2");
    scene.fleet.cont("scheduler-1");
    scene.fleet.cont("deadletter");
    scene.feed(2, Duration::from_secs(2));
    submit(&mut scene, "3-gone");
    scene.fleet.item_of(&key("3-gone"));
    scene.ends();
    assert_eq!(scene.fleet.all_items("").iter().filter(|item| item["key"] == key("1-once")).count(), 1, "the replayed dead letter isn't told again");
    for (subject, state, times) in [("1-once", "sent", 1), ("2-read", "sent", 1), ("2-cancelled", "cancelled", 0)] {
        assert_eq!((scene.fleet.job(&key(subject))["state"].as_str(), accepted(&scene, subject)), (Some(state), times), "{subject}");
    }
    scene.judge();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_freezes_between_reading_and_writing_finds_it_done() {
    frozen_between_reading_and_writing(Duration::from_secs(10), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_frozen_for_over_a_minute_begins_no_job_anew() {
    frozen_between_reading_and_writing(Duration::from_secs(65), true).await;
}
