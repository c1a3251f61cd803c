//! The rehearsal on a fleet's servers: in a part of its own, beside a fleet at work, and nothing of it is left.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use curfew_testkit::{Config, MailServer};
use curfew_tests::fleet::{Servers, WHOLE};
use curfew_tests::jobs::{in_time, job, key};
use curfew_tests::process::{self, binary};
use curfew_tests::{Fleet, Settings, until};
use curfew_testservers::redis::Resp;
use serde_json::Value;
use tokio::sync::Mutex;

/// One at a time: each judges what is left on the servers.
static TURN: Mutex<()> = Mutex::const_new(());

fn settings(server: &MailServer) -> Settings {
    Settings::smtp(server.addr()).set("ledger.shards", "4").text("worker.lease", "10s")
}

/// What has a rehearsal's name on the three servers.
async fn traces(fleet: &Fleet) -> Vec<String> {
    let schemas = fleet.servers.postgres.run("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'curfew_rehearsal%'");
    let mut found: Vec<String> = schemas.lines().map(str::to_owned).collect();
    found.extend(keys(fleet, "curfew:rehearsal*").await);
    let rabbit = fleet.servers.rabbit();
    for list in ["list_queues", "list_exchanges"] {
        let names = rabbit.ctl(&[list, "-p", fleet.vhost(), "name"]);
        found.extend(names.lines().filter(|name| name.starts_with("curfew.rehearsal")).map(str::to_owned));
    }
    found
}

/// In every database of the Redis that the fleets of this test share: a rehearsal must use the fleet's.
async fn keys(fleet: &Fleet, pattern: &str) -> BTreeSet<String> {
    let url = fs::read_to_string(fleet.config()).expect("the configuration is there");
    let database = url.split("redis://").nth(1).and_then(|rest| rest.split('/').nth(1)?.split('"').next()).expect("the ledger's database");
    let script = "redis.call('SELECT', ARGV[1]) return redis.call('KEYS', ARGV[2])";
    let Resp::List(keys) = fleet.servers.redis.ask(&["EVAL", script, "0", database, pattern]).await else { panic!("KEYS gives a list") };
    keys.iter().map(Resp::text).map(|key| key.to_owned()).collect()
}

fn played(told: &Value) {
    let rows = told["rows"].as_array().expect("rows are a list");
    assert_eq!(rows.len(), 13, "{told:#}");
    assert!(rows.iter().all(|row| row["ok"] == true), "{told:#}");
    assert_eq!((&told["ok"], &told["accepted_at_server"], &told["duplicates_suppressed"]), (&true.into(), &9.into(), &1.into()), "{told:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_plays_beside_a_fleet_at_work_and_leaves_nothing() {
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::default()).await;
    let fleet = Fleet::start(settings(&server), &WHOLE);
    let mut later = job("later", "later@example.com");
    later["release_at"] = in_time(Duration::from_secs(300)).into();
    fleet.submit(&later);
    fleet.submit(&job("sent", "sent@example.com"));
    fleet.job_in(&key("sent"), "sent");
    fleet.job_in(&key("later"), "scheduled");
    let (jobs, records) = (fleet.all_jobs(""), keys(&fleet, "curfew:*:job:*").await);
    assert!(records.len() == 2, "{records:?}");

    let config = fleet.config().display().to_string();
    for provider in [["--json"].as_slice(), &["--json", "--idempotent"]] {
        let ran = process::run(&[&["rehearse", "--config", &config], provider].concat(), b"").expect(0);
        assert!(ran.stderr.contains("rehearsing in schema curfew_rehearsal_"), "{}", ran.stderr);
        played(&ran.json());
        assert_eq!(traces(&fleet).await, [""; 0]);
    }
    assert_eq!((fleet.all_jobs(""), keys(&fleet, "curfew:*:job:*").await), (jobs, records), "the fleet's jobs are as they were");
    assert_eq!((fleet.all_items("").len(), server.accepted_count()), (0, 1), "it knows nothing of the rehearsal's");
    fleet.submit(&job("after", "after@example.com"));
    fleet.job_in(&key("after"), "sent");
}

/// SIGTERM removes what was made; after SIGKILL nobody is left who could, but its processes are gone, and it has said where to look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_interrupted_leaves_nothing_and_one_that_is_killed_leaves_no_process() {
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::default()).await;
    let fleet = Fleet::prepare(settings(&server));
    for signal in ["TERM", "KILL"] {
        let mut verb = Command::new(binary());
        verb.args(["rehearse", "--config"]).arg(fleet.config()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut rehearsal = verb.spawn().expect("the binary starts");
        let mut said = BufReader::new(rehearsal.stderr.take().expect("it is piped"));
        let mut place = String::new();
        said.read_line(&mut place).expect("it says where it plays");
        let id =
            place.trim().split("curfew.rehearsal.").nth(1).and_then(|rest| rest.split('.').next()).unwrap_or_else(|| panic!("{place}")).to_owned();
        until("its processes", || (processes_with(&id) > 0).then_some(()));
        let sent = Command::new("kill").args([&format!("-{signal}"), &rehearsal.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        let status = rehearsal.wait().expect("it is our child");
        until("the end of its processes", || (processes_with(&id) == 0).then_some(()));
        let left = traces(&fleet).await;
        match signal {
            "TERM" => assert_eq!((status.code(), left), (Some(1), vec![]), "{place}"),
            _killed => assert!(left.iter().all(|name| name.contains(&id)) && !left.is_empty(), "{left:?}"),
        }
    }
    // What the killed one left is this test's to remove.
    let schema = fleet.servers.postgres.run("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'curfew_rehearsal%'");
    fleet.servers.postgres.run(&format!("DROP SCHEMA \"{schema}\" CASCADE"));
    fleet.servers.redis.ask(&["FLUSHALL"]).await;
}

/// Processes with this in their command line.
fn processes_with(id: &str) -> usize {
    let all = fs::read_dir("/proc").expect("Linux has /proc").flatten();
    all.filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.split(|b| *b == 0).any(|word| word == id.as_bytes()))).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_permits_no_part_of_its_own_is_named_and_nothing_is_left() {
    let (servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = MailServer::start(Config::default()).await;
    let fleet = Fleet::prepare(settings(&server));
    let refused = |from: &str, to: &str| {
        let config = fleet.config_with(from, to).display().to_string();
        let ran = process::run(&["rehearse", "--config", &config], b"").expect(1);
        assert!(ran.stdout.is_empty() && ran.stderr.trim().lines().count() == 1, "{}\n{}", ran.stdout, ran.stderr);
        ran.stderr
    };
    servers.postgres.run("CREATE ROLE humble LOGIN");
    let said = refused("postgres://curfew@", "postgres://humble@");
    assert!(said.contains("[book]") && said.contains("GRANT CREATE ON DATABASE"), "{said}");

    servers.rabbit().ctl(&["add_user", "humble", "humble-password"]);
    servers.rabbit().ctl(&["set_permissions", "-p", fleet.vhost(), "humble", "^curfew\\.v1\\.", ".*", ".*"]);
    let said = refused("amqp://guest:guest@", "amqp://humble:humble-password@");
    assert!(said.contains("[broker]") && !said.contains("humble-password"), "{said}");

    let said = refused(&format!("redis://{}", servers.redis.addr()), "redis://127.0.0.1:1");
    assert!(said.contains("[ledger]"), "{said}");
    assert_eq!(traces(&fleet).await, [""; 0]);
}
