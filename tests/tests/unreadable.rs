//! A row of the book and a record of the ledger that nobody can read: counted, named by key and store, and in nobody's way.

use std::time::Duration;

use curfew_testkit::{Config, MailServer};
use curfew_tests::jobs::{in_time, job, key};
use curfew_tests::{Fleet, Settings, until};
use curfew_testservers::redis::{Options, Redis};
use serde_json::Value;

const NAMES: [(&str, &str); 2] = [("scheduler", "scheduler"), ("api", "api")];

/// Only the log of some process told of them, once a minute, while their jobs stood still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_counted_and_named_by_key_and_store_alone() {
    let (redis, server) = (Redis::start(Options::default()).await, MailServer::start(Config::default()).await);
    let mut fleet = Fleet::prepare_on(Settings::smtp(server.addr()).set("ledger.shards", "2"), Some(&redis.url()));
    fleet.run(&NAMES);
    let released = |subject: &str, from_now: u64| -> Value {
        let mut job = job(subject, "somebody@example.com");
        job["release_at"] = in_time(Duration::from_secs(from_now)).into();
        job["deadline_at"] = in_time(Duration::from_secs(from_now + 3_600)).into();
        job
    };
    let jobs = [released("RECORD", 300), released("GOOD", 300), released("ROW", 10_800), released("FAR", 86_400 * 40)];
    let imported = fleet.import(&jobs);
    assert_eq!(imported["accepted"], 4, "{imported}");
    until("two are staged", || (fleet.get("/v1/fleet").json["jobs"]["scheduled"] == 2).then_some(()));
    assert_eq!(fleet.metric("scheduler", "curfew_unreadable"), Some(0.0));
    fleet.terminate("scheduler");
    assert!(fleet.ended("scheduler").success());

    let spoil = format!(
        "local n = 0 for _, k in ipairs(redis.call('KEYS', '*job:{}')) do local s = redis.call('GET', k) redis.call('SET', k, s:sub(1, 15 + s:byte(14) * 256 + s:byte(15)) .. 'spoilt') n = n + 1 end return n",
        key("RECORD")
    );
    redis.ask(&["EVAL", &spoil, "0"]).await;
    let config = std::fs::read_to_string(fleet.config()).expect("the configuration can be read");
    let schema = config.split_once("search_path]=").and_then(|(_, rest)| rest.split_once('"')).expect("a schema of its own").0;
    for subject in ["ROW", "FAR"] {
        fleet.servers.postgres.run(&format!("UPDATE {schema}.jobs SET facts = '\\xc1' WHERE key = '{}'", key(subject)));
    }

    let found = fleet.cli(&["check", "--audit", "--config", fleet.config().to_str().expect("a path"), "--json"]);
    let told = found.stdout.clone() + &found.stderr;
    found.expect(1);
    for (subject, seen) in [("RECORD", "the ledger's record"), ("ROW", "the book's row"), ("FAR", "the book's row")] {
        assert!(told.contains(&format!("{}: {seen} can't be read", key(subject))), "{subject}: {told}");
    }
    assert!(!told.contains(&key("GOOD")) && !told.contains("somebody@") && !told.contains("spoilt"), "{told}");

    // What a scheduler counts is due within a day.
    fleet.spawn("scheduler");
    fleet.ready("scheduler");
    until("the auditor has looked", || (fleet.metric("scheduler", "curfew_unreadable") == Some(2.0)).then_some(()));
}
