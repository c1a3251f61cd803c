//! P2 at a process's own end: SIGTERM finishes what is in hand and gives back the rest; a second one stops at once, and nothing is lost.

use std::time::Duration;

use curfew_testkit::mail_server::scripts::first_times_at;
use curfew_testkit::{Action, Config, MailServer, Stage};
use curfew_tests::jobs::{job, key};
use curfew_tests::{Curfew, Settings, process, until};
use serde_json::Value;

const JOBS: usize = 6;

/// A server that holds the first reply to an end marker, and a Curfew whose one delivery stands there while the rest wait.
async fn one_in_hand() -> (MailServer, Curfew) {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenHold))).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()).set("worker.concurrency", "1").text("worker.lease", "10s"));
    let jobs: Vec<Value> = (0..JOBS).map(|n| job(&format!("R-{n}"), &format!("r-{n}@example.com"))).collect();
    assert_eq!(curfew.import(&jobs)["accepted"], JOBS);
    server.held(Stage::Dot).await;
    (server, curfew)
}

fn in_state<'a>(jobs: &'a [Value], state: &str) -> Vec<&'a Value> {
    jobs.iter().filter(|job| job["state"] == state).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_finishes_what_is_in_hand_and_gives_back_the_rest() {
    let (server, mut curfew) = one_in_hand().await;
    curfew.signal("TERM");
    until("a drain in the log", || curfew.log().contains("draining").then_some(()));
    assert_eq!(server.accepted_count(), 1, "nothing new is begun");
    server.release();
    assert_eq!(curfew.ended().code(), Some(0), "{}", curfew.log());
    assert_eq!(server.accepted_count(), 1, "nothing new is begun");

    curfew.restart();
    let day = curfew.all_ended(JOBS as u64, Duration::from_secs(60));
    assert_eq!((&day["sent"], &day["difference"]), (&JOBS.into(), &0.into()), "{day}");
    for job in curfew.all_jobs("") {
        assert_eq!(job["attempts"], 1, "what was given back used no attempt: {job:#}");
    }
    assert!(server.accepted_per_job().values().all(|times| *times == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_stops_at_once_and_nothing_is_lost() {
    let (server, mut curfew) = one_in_hand().await;
    curfew.signal("TERM");
    until("a drain in the log", || curfew.log().contains("draining").then_some(()));
    curfew.signal("TERM");
    curfew.ended();
    server.release();

    curfew.restart();
    let day = curfew.all_ended(JOBS as u64, Duration::from_secs(60));
    assert_eq!(day["difference"], 0, "{day}");
    let jobs = curfew.all_jobs("");
    assert_eq!(in_state(&jobs, "sent").len(), JOBS - 1);
    let doubt = in_state(&jobs, "dead_letter");
    assert_eq!((doubt.len(), doubt[0]["reason"].as_str()), (1, Some("reconciliation_required")), "{doubt:#?}");
    assert!(server.accepted_per_job().values().all(|times| *times == 1), "{:?}", server.accepted_per_job());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleet_drain_does_what_sigterm_does() {
    let (server, mut curfew) = one_in_hand().await;
    curfew.cli(&["fleet", "drain"]).expect(0);
    server.release();
    assert_eq!(curfew.ended().code(), Some(0), "{}", curfew.log());
    assert_eq!(server.accepted_count(), 1);
}

#[test]
fn a_second_process_on_the_same_folder_is_refused() {
    let mut curfew = Curfew::start(Settings::capture());
    let (config, data) = (curfew.folder().join("curfew.toml").display().to_string(), curfew.data().display().to_string());
    let second = process::run(&["up", "--config", &config, "--data", &data, "--http", "127.0.0.1:0"], b"").expect(75);
    assert!(!second.stderr.is_empty(), "one line says why");
    curfew.submit(&job("R-1", "r-1@example.com"));
    curfew.job_in(&key("R-1"), "sent");
    assert_eq!(curfew.terminate(), Some(0));
}
