//! The fleet: scheduler ×2, worker ×3, dead-letter consumer and API as separate processes, on Redis, PostgreSQL and RabbitMQ.
//!
//! P1 and P2 hold while any of them is killed and while RabbitMQ is emptied and restarted; the mail server lives in the test, and its log is the count.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use curfew_testkit::mail_server::scripts::obedient;
use curfew_testkit::{Config, MailServer};
use curfew_tests::fleet::{Servers, WHOLE};
use curfew_tests::flow::{self, FATES, jobs};
use curfew_tests::jobs::{in_time, job, key};
use curfew_tests::judge::{BY_ITS_ATTEMPT, judge};
use curfew_tests::{Fleet, Settings, process, until};
use tokio::sync::Mutex;

/// For the end of what a test began, two loaded cores and a lease included.
const END: Duration = Duration::from_secs(100);

/// One at a time: they share servers, which one of them restarts, and two cores.
static TURN: Mutex<()> = Mutex::const_new(());

fn settings(server: &MailServer) -> Settings {
    flow::settings(server).set("worker.concurrency", "8")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_reminders_are_each_accepted_once() {
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::sink()).await;
    // Paths are relative to the configuration: the example is copied beside it.
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/renewals");
    let mut fleet = Fleet::prepare(settings(&server).set("artifacts.roots", "[\"file:reports/\"]"));
    let copied = Command::new("cp").arg("-r").arg(example.join(".")).arg(fleet.folder().join("example")).status().expect("cp runs");
    assert!(copied.success(), "the example is there");
    for name in ["templates", "reports", "renewals.csv"] {
        fs::rename(fleet.folder().join("example").join(name), fleet.folder().join(name)).expect("a part of the example");
    }
    fleet.run(&WHOLE);
    let summary = fleet.cli(&["submit", "renewals.csv"]).expect(0).json();
    assert_eq!(summary["accepted"], 1000, "{summary}");
    let day = fleet.all_ended(1000, END);
    assert_eq!((&day["sent"], &day["difference"]), (&1000.into(), &0.into()), "{day}");
    assert_eq!((server.accepted_count(), judge(&fleet, &server, 1000, &[])), (1000, 0));
    let again = fleet.cli(&["submit", "renewals.csv"]).expect(0).json();
    assert_eq!(again["duplicates"], 1000, "{again}");

    let config = fleet.config().display().to_string();
    let checked = process::run(&["check", "--config", &config, "--json"], b"").expect(0).json();
    assert_eq!(
        (&checked["ok"], &checked["durability"]["ledger"], &checked["durability"]["book"]),
        (&true.into(), &"fsync".into(), &"fsync".into()),
        "{checked}"
    );
    fleet.drains(&WHOLE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transient_failures_are_sent_on_the_second_attempt_and_operators_do_the_rest() {
    const COUNT: usize = 200;
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = flow::mail_server().await;
    let mut fleet = Fleet::start(settings(&server), &WHOLE);
    let mut all = jobs(&["late", "ok", "gone", "ok"], COUNT);
    for subject in ["cancelled", "moved"] {
        let mut planned = job(subject, &format!("{subject}@example.com"));
        planned["release_at"] = in_time(Duration::from_secs(1800)).into();
        all.push(planned);
    }
    assert_eq!(fleet.import(&all)["accepted"], COUNT + 2);
    fleet.cli(&["jobs", "cancel", &key("cancelled"), "--reason", "no longer wanted"]).expect(0);
    assert_eq!(fleet.job(&key("cancelled"))["state"], "cancelled");
    fleet.cli(&["jobs", "move", &key("moved"), "--release", "+0s", "--reason", "ready early"]).expect(0);

    let day = fleet.all_ended(COUNT as u64 + 2, END);
    assert_eq!((&day["sent"], &day["cancelled"], &day["difference"]), (&151.into(), &1.into(), &0.into()), "{day}");
    for job in fleet.all_jobs("") {
        let subject = job["subject_ref"].as_str().unwrap_or_default();
        let expected = match subject.split_once('-').map_or(subject, |(_, fate)| fate) {
            "late" => ("sent", 2),
            "gone" => ("dead_letter", 1),
            "cancelled" => ("cancelled", 0),
            _ => ("sent", 1),
        };
        assert_eq!((job["state"].as_str(), job["attempts"].as_u64()), (Some(expected.0), Some(expected.1)), "{job:#}");
    }
    let items = fleet.all_items("");
    assert!(items.len() == COUNT / 4 && items.iter().all(|item| item["reason"] == "permanent_failure"), "{} items", items.len());

    server.set_script(obedient());
    let item = fleet.item_of(&key("00002-gone"))["id"].as_str().expect("an item has an id").to_owned();
    fleet.cli(&["review", "replay", &item, "--deadline", "+1h", "--reason", "the mailbox is there now"]).expect(0);
    let sent = fleet.job_in(&key("00002-gone"), "sent");
    assert_eq!(sent["generation"], 2, "{sent:#}");
    assert!(server.accepted_per_job().values().all(|times| *times == 1));
    fleet.cli(&["day", "2026-12-01"]).expect(0);
    fleet.cli(&["audit", "verify"]).expect(0);
    fleet.drains(&WHOLE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_process_is_killed_no_job_is_sent_twice_or_lost() {
    const COUNT: usize = 1000;
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = flow::mail_server().await;
    let mut fleet = Fleet::start(settings(&server).set("worker.concurrency", "4"), &WHOLE);
    let all = jobs(&FATES, COUNT);
    assert_eq!(fleet.import(&all)["accepted"], COUNT);
    for (n, name) in ["worker-1", "scheduler-1", "deadletter", "api", "worker-2", "scheduler-2"].into_iter().enumerate() {
        let flowing = 50 + 100 * n as u64;
        until("mails that flow", || (server.accepted_count() >= flowing).then_some(()));
        fleet.kill9(name);
        fleet.spawn(name);
    }
    for (name, _) in WHOLE {
        fleet.ready(name);
    }
    let day = fleet.all_ended(COUNT as u64, END);
    assert!(server.accepted_count() >= 800, "consumption went on: {day}");
    let in_doubt = judge(&fleet, &server, COUNT, &[BY_ITS_ATTEMPT]);
    assert!(in_doubt >= COUNT / FATES.len(), "every lost reply is in doubt: {in_doubt}");
    fleet.drains(&WHOLE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_and_restarted_broker_costs_time_alone() {
    const COUNT: usize = 600;
    let (servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = flow::mail_server().await;
    let mut fleet = Fleet::start(settings(&server).set("worker.concurrency", "2"), &WHOLE);
    // Some wait on the rungs.
    let mut all = jobs(&FATES, COUNT);
    for job in all.iter_mut().skip(1).step_by(3) {
        job["release_at"] = in_time(Duration::from_secs(4)).into();
    }
    assert_eq!(fleet.import(&all)["accepted"], COUNT);
    until("mails that flow", || (server.accepted_count() > 20).then_some(()));
    fleet.purge();
    servers.rabbit().stop();
    for name in ["scheduler-1", "worker-1", "deadletter"] {
        let told = until(&format!("{name} names the broker"), || Some(fleet.probes(name).get("/readyz")).filter(|answer| answer.status == 503));
        assert!(told.text.contains("broker"), "{name}: {}", told.text);
    }
    assert_eq!(fleet.get("/readyz").status, 200, "jobs are taken meanwhile");
    servers.rabbit().start_again();
    let day = fleet.all_ended(COUNT as u64, END);
    let in_doubt = judge(&fleet, &server, COUNT, &[BY_ITS_ATTEMPT]);
    assert_eq!((in_doubt, day["sent"].as_u64()), (COUNT / 20, Some(COUNT as u64 * 16 / 20)), "{day}");
    fleet.drains(&WHOLE);
}

/// A process with other shards would look for a tenant's jobs in the wrong place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_configured_otherwise_stops_with_one_line() {
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let fleet = Fleet::start(Settings::capture().set("ledger.shards", "4"), &[("deadletter", "deadletter")]);
    let others = fleet.config_with("shards = 4", "shards = 8").display().to_string();
    for verb in [["run", "worker", "--config", &others].as_slice(), &["run", "api", "scheduler", "--config", &others]] {
        let refused = process::run(verb, b"").expect(2);
        assert_eq!(refused.stderr.trim().lines().count(), 1, "{}", refused.stderr);
        assert!(refused.stderr.contains("[ledger] shards = 8: this book was begun with 4"), "{}", refused.stderr);
    }
    let checked = process::run(&["check", "--config", &others], b"").expect(1);
    assert!(checked.stdout.contains("FAIL") && checked.stdout.contains("begun with 4"), "{}", checked.stdout);
    let nobody = fleet.config_with(&format!("redis://{}", fleet.servers.redis.addr()), "redis://127.0.0.1:1").display().to_string();
    let checked = process::run(&["check", "--config", &nobody], b"").expect(1);
    assert!(checked.stdout.lines().any(|line| line.starts_with("FAIL  ledger")), "{}", checked.stdout);
}
