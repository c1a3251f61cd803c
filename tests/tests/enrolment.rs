//! The fleet's registry as operators see it: `fleet status` names every process, and `fleet drain` ends them all with nothing in hand.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_testkit::mail_server::scripts::obedient;
use curfew_testkit::{Config, MailServer};
use curfew_tests::fleet::WHOLE;
use curfew_tests::jobs::job;
use curfew_tests::{Fleet, Settings, until};
use serde_json::Value;

fn processes(fleet: &Fleet) -> Vec<Value> {
    fleet.get("/v1/fleet").json["processes"].as_array().expect("processes").clone()
}

/// How many processes there are of each role and state.
fn counts(processes: &[Value]) -> BTreeMap<(String, String), usize> {
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    processes.iter().fold(BTreeMap::new(), |mut all, process| {
        *all.entry((word(&process["roles"][0]), word(&process["state"]))).or_default() += 1;
        all
    })
}

fn expected(of: &[(&str, &str, usize)]) -> BTreeMap<(String, String), usize> {
    of.iter().map(|(role, state, n)| (((*role).to_owned(), (*state).to_owned()), *n)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_process_is_named_and_a_drain_ends_all_that_run() {
    const COUNT: usize = 300;
    let server = MailServer::start(Config::scripted(obedient())).await;
    let mut fleet = Fleet::start(Settings::smtp(server.addr()).set("ledger.shards", "4"), &WHOLE);
    let status = fleet.cli(&["fleet", "status", "--json"]).expect(0).json();
    let all = status["processes"].as_array().expect("processes").clone();
    let running = [("scheduler", "running", 2), ("worker", "running", 3), ("deadletter", "running", 1), ("api", "running", 1)];
    assert_eq!(counts(&all), expected(&running), "{all:?}");
    assert!(all.iter().all(|p| p["version"] == env!("CARGO_PKG_VERSION") && p["draining"] == false), "{all:?}");
    let people = fleet.cli(&["fleet", "status"]).expect(0).stdout;
    assert_eq!(people.lines().filter(|line| line.contains("  running  ")).count(), 7, "{people}");

    fleet.kill9("worker-2");
    fleet.terminate("scheduler-1");
    assert!(fleet.ended("scheduler-1").success());
    let stopped = [("scheduler", "stopped", 1), ("scheduler", "running", 1), ("worker", "running", 2), ("worker", "silent", 1)];
    let stopped = [&stopped[..], &running[2..]].concat();
    until("who was killed falls silent, and who ended has stopped", || (counts(&processes(&fleet)) == expected(&stopped)).then_some(()));

    let jobs: Vec<Value> = (0..COUNT).map(|n| job(&format!("E-{n}"), &format!("{n}@example.com"))).collect();
    assert_eq!(fleet.import(&jobs)["accepted"], COUNT);
    until("mails that flow", || (server.accepted_count() > 20).then_some(()));
    let asked = fleet.cli(&["fleet", "drain", "--json"]).expect(0).json();
    assert_eq!((&asked["draining"], &asked["processes"]), (&true.into(), &5.into()), "{asked}");
    for name in ["scheduler-2", "worker-1", "worker-3", "deadletter", "api"] {
        assert!(fleet.ended(name).success(), "{name}: {}", fleet.log(name));
    }
    let sent = server.accepted_count();
    assert!(server.accepted_per_job().values().all(|times| *times == 1), "nothing was sent twice");

    // Whoever starts after the drain works: the order was for those that ran.
    fleet.run(&[("api-again", "api"), ("scheduler-3", "scheduler"), ("worker-4", "worker")]);
    let day = fleet.all_ended(COUNT as u64, Duration::from_secs(100));
    assert_eq!((day["sent"].as_u64(), day["difference"].as_i64()), (Some(COUNT as u64), Some(0)), "after {sent}: {day}");
    let last = processes(&fleet);
    let clean = last.iter().filter(|p| p["state"] == "stopped").count();
    assert_eq!((last.len(), clean), (10, 6), "all but the one that was killed left with nothing in hand: {last:?}");
    let trail = fleet.cli(&["audit", "list", "--json"]).expect(0).lines();
    assert!(trail.iter().any(|entry| entry["action"] == "drain" && entry["object"] == "fleet"), "{trail:?}");
}
