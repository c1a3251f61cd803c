//! What an operator sees while a shard recovers: its jobs as the book knows them, the others' as ever.

use std::time::Duration;

use curfew_domain::{Key, Shard};
use curfew_ledger::Recoverable;
use curfew_testservers::redis::Redis;
use serde_json::{Value, json};

use crate::house::{House, house_on_redis};
use crate::life::{claim, due_of, show};
use crate::support::{job, with};

const SHARDS: u8 = 16;

async fn redis() -> Redis {
    Redis::start(curfew_testservers::redis::Options { appendonly: false, ..Default::default() }).await
}

fn recoverable(house: &House) -> &dyn Recoverable {
    house.ledger.recoverable().expect("it is Redis")
}

/// As the scheduler begins it, after a loss.
async fn recovers(house: &House, shard: Shard, incarnation: u32) {
    recoverable(house).adopt(shard, incarnation, house.now()).await.expect("the server answers");
}

/// `waiting_for` and state of each job in a list, by key.
async fn listed(house: &House, path: &str) -> Vec<(String, String, Value)> {
    let list = house.get(path).await;
    assert_eq!(list.status, 200, "{}", list.body);
    let list = list.json();
    let items = list["items"].as_array().expect("items").iter();
    let text = |item: &Value, name: &str| item[name].as_str().expect("a text").to_owned();
    let mut all: Vec<_> = items.map(|item| (text(item, "key"), text(item, "state"), item["waiting_for"].clone())).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

async fn planned(house: &House, subject_ref: &str, release: Duration) -> Key {
    let job = with(with(job(), "subject_ref", json!(subject_ref)), "release_at", json!(house.now().plus(release).rfc3339()));
    let made = house.post("/v1/jobs", &with(job, "deadline_at", json!(house.now().plus(release * 2).rfc3339()))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    Key::parse(made.json()["key"].as_str().expect("a key")).expect("a key")
}

/// One shard of sixteen recovered for a minute, and nobody could look at any job.
#[tokio::test]
async fn a_shard_that_recovers_shows_what_the_book_knows_and_hides_no_other() {
    let server = redis().await;
    let house = house_on_redis(&server.url()).await;
    let (ours, others) = (due_of(&house, "acme", "R-1").await, due_of(&house, "other", "R-2").await);
    let (shard, another) = (Shard::of_tenant("acme", SHARDS), Shard::of_tenant("other", SHARDS));
    assert_ne!(shard, another);
    claim(&house, &ours).await;
    claim(&house, &others).await;
    let (soon, late) = (planned(&house, "R-3", Duration::from_secs(60)).await, planned(&house, "R-4", Duration::from_secs(86_400)).await);
    assert_eq!(show(&house, &ours).await["state"], "claimed");

    recovers(&house, shard, 1).await;
    let one = show(&house, &ours).await;
    assert_eq!((&one["state"], &one["waiting_for"]), (&json!("scheduled"), &json!("recovery")), "{one}");
    assert!(one["explanation"].as_str().is_some_and(|e| e.contains("which recovers") && e.contains("what the book knows")), "{one}");
    assert_eq!(show(&house, &soon).await["waiting_for"], "recovery");
    assert_eq!(show(&house, &late).await["waiting_for"], "release", "its shard works again long before");
    assert_eq!(show(&house, &others).await["state"], "claimed", "another shard's");
    let row = |key: &Key, state: &str, waits: Value| (key.to_string(), state.to_owned(), waits);
    let active = [row(&ours, "scheduled", json!("recovery")), row(&others, "claimed", Value::Null)];
    assert_eq!(listed(&house, "/v1/jobs?state=active").await, active);
    assert_eq!(listed(&house, "/v1/jobs").await.len(), 4);
    // Whatever it is in: who asks what is in flight must not be told "nothing".
    assert_eq!(listed(&house, "/v1/jobs?state=handoff").await, [row(&ours, "scheduled", json!("recovery"))]);
    assert_eq!(listed(&house, "/v1/jobs?state=claimed").await, active);

    // Its record is lost: that may come back, and makes no difference.
    server.ask(&["DEL", &format!("curfew:{{{shard}}}:job:{ours}")]).await;
    assert_eq!(listed(&house, "/v1/jobs?state=active").await, active);
    let day = house.get("/v1/days/2026-12-01").await;
    assert_eq!(day.status, 200, "{}", day.body);
    let day = day.json();
    assert_eq!((&day["accepted"], &day["planned"], &day["live"], &day["difference"]), (&json!(4), &json!(2), &json!(2), &json!(0)), "{day}");

    recoverable(&house).recovered(shard, 1).await.expect("the server answers");
    assert_eq!(show(&house, &soon).await["waiting_for"], "release");
    assert_eq!(house.get("/v1/days/2026-12-01").await.json()["difference"], 1, "now it is missing");
}

/// Between the restart of a Redis and the first look of a scheduler.
#[tokio::test]
async fn a_server_that_nobody_has_recovered_yet_is_shown_as_one_that_recovers() {
    let mut server = redis().await;
    let house = house_on_redis(&server.url()).await;
    let ours = due_of(&house, "acme", "R-1").await;
    server.kill9();
    server.restart().await;
    let view = loop {
        // Until the lost connection is noticed.
        let shown = house.get(&format!("/v1/jobs/{}", ours.as_str().replace('/', "%2F"))).await;
        if shown.status == 200 {
            break shown.json();
        }
    };
    for list in ["/v1/fleet", "/v1/review", "/v1/jobs", "/v1/jobs?state=active", "/v1/days/2026-12-01", "/"] {
        // Each of its connections is lost once.
        let mut answer = house.get(list).await;
        while answer.status == 503 {
            answer = house.get(list).await;
        }
        assert_eq!(answer.status, 200, "{list}: {}", answer.body);
    }
    assert_eq!((&view["state"], &view["waiting_for"]), (&json!("scheduled"), &json!("recovery")), "{view}");
    assert_eq!(listed(&house, "/v1/jobs").await, [(ours.to_string(), "scheduled".to_owned(), json!("recovery"))]);
    assert_eq!(house.get("/v1/days/2026-12-01").await.json()["difference"], 0);
    for incarnation in 1..=2 {
        recovers(&house, Shard::of_tenant("acme", SHARDS), incarnation).await;
        recoverable(&house).recovered(Shard::of_tenant("acme", SHARDS), incarnation).await.expect("the server answers");
        let again = show(&house, &ours).await;
        assert!(again["waiting_for"] != "recovery", "{again}");
    }
}

/// One record of a page couldn't be read, or one shard's clock was distrusted, and the whole page failed.
#[tokio::test]
async fn neither_an_unreadable_record_nor_a_halted_shard_fails_a_list() {
    let server = redis().await;
    let house = house_on_redis(&server.url()).await;
    let (ours, others) = (due_of(&house, "acme", "R-1").await, due_of(&house, "other", "R-2").await);
    let (shard, another) = (Shard::of_tenant("acme", SHARDS), Shard::of_tenant("other", SHARDS));
    claim(&house, &others).await;
    let spoil =
        "local s = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], s:sub(1, 15 + s:byte(14) * 256 + s:byte(15)) .. 'spoilt') return 'ok'";
    server.ask(&["EVAL", spoil, "1", &format!("curfew:{{{shard}}}:job:{ours}")]).await;
    let keys = |list: Vec<(String, String, Value)>| list.into_iter().map(|(key, state, _)| (key, state)).collect::<Vec<_>>();
    let row = |key: &Key, state: &str| (key.to_string(), state.to_owned());
    let both = [row(&ours, "scheduled"), row(&others, "claimed")];
    assert_eq!(keys(listed(&house, "/v1/jobs").await), both);
    assert_eq!(keys(listed(&house, "/v1/jobs?state=active").await), both);
    assert_eq!(house.get("/v1/days/2026-12-01").await.json()["difference"], 0, "it stands there, whatever it says");

    // What is missing in a halted shard is unknown.
    server.ask(&["DEL", &format!("curfew:{{{another}}}:job:{others}")]).await;
    house.ledger.halt([another].into(), &[]);
    let waits = (others.to_string(), "scheduled".to_owned(), json!("recovery"));
    assert!(listed(&house, "/v1/jobs").await.contains(&waits));
    assert!(listed(&house, "/v1/jobs?state=handoff").await.contains(&waits));
    for list in ["/v1/fleet", "/v1/review", "/v1/days/2026-12-01", "/"] {
        let answer = house.get(list).await;
        assert_eq!(answer.status, 200, "{list}: {}", answer.body);
    }
    assert_eq!(house.get("/v1/days/2026-12-01").await.json()["difference"], 0);
}
