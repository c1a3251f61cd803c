//! Moves jobs through the ledger as the roles would.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_book::{Book, Planned};
use curfew_courier::{begin, record_dead_letters, settle, stage};
use curfew_domain::outcome::{Outcome, OutcomeClass, Receipt, Stage};
use curfew_domain::transition::{Event, Verdict, transition};
use curfew_domain::{Key, Record, Token, WorkerId};
use curfew_ledger::{Swap, Swapped};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::house::House;
use crate::support::{job, with};

const LEASE: Duration = Duration::from_secs(60);
const WORKER: WorkerId = WorkerId(Uuid::from_u128(1));

/// Submits a job that is due at once, and stages it.
pub async fn due(house: &House, subject_ref: &str) -> Key {
    due_of(house, "acme", subject_ref).await
}

/// The same for a tenant.
pub async fn due_of(house: &House, tenant: &str, subject_ref: &str) -> Key {
    let job = with(job(), "tenant", json!(tenant));
    let due = with(with(job, "release_at", Value::Null), "subject_ref", json!(subject_ref));
    let made = house.post("/v1/jobs", &due).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let key = Key::parse(made.json()["key"].as_str().expect("a key")).expect("a key");
    stage_planned(house).await;
    key
}

/// Stages whatever is planned.
pub async fn stage_planned(house: &House) {
    let shards: Vec<_> = (0..16).map(curfew_domain::Shard).collect();
    let begun = begin(house.ledger.as_ref(), &shards).await.expect("an errand");
    let rows: Vec<Planned> = house.book.plan(&shards, begun.at, 100).await.expect("a plan");
    stage(house.ledger.as_ref(), house.book.as_ref(), house.review.as_ref(), &house.api.rulebook, rows, &begun).await.expect("staged");
}

pub async fn record(house: &House, key: &Key) -> Record {
    house.ledger.records(std::slice::from_ref(key)).await.expect("read").pop().flatten().expect("a record")
}

async fn happen(house: &House, key: &Key, event: Event<'_>) {
    let before = record(house, key).await;
    let change = transition(&before, &event, house.now()).expect("it may happen");
    assert_eq!(house.ledger.swap(Swap::of(&before, change)).await.expect("swapped"), Swapped::Swapped);
}

pub async fn claim(house: &House, key: &Key) {
    happen(house, key, Event::Claim { worker: WORKER, lease: LEASE }).await;
}

/// Claims and begins a handoff.
pub async fn handoff(house: &House, key: &Key, token: Token) {
    claim(house, key).await;
    happen(house, key, Event::Intent { worker: WORKER, token, lease: LEASE, pins: Vec::new() }).await;
}

/// The provider refuses for good; the dead letter is recorded.
pub async fn refused(house: &House, key: &Key) {
    claim(house, key).await;
    let outcome = Outcome::new(OutcomeClass::Permanent, Stage::Rcpt, "test", "550 5.1.1 no such user");
    let before = record(house, key).await;
    let rules = house.api.rulebook.rules(&before, 0.0);
    happen(house, key, Event::Prepared { worker: WORKER, outcome: &outcome, rules, pins: Vec::new() }).await;
    close(house, key).await;
}

/// The handoff's answer never comes; the dead letter in doubt is recorded.
pub async fn in_doubt(house: &House, key: &Key, token: Token) {
    handoff(house, key, token).await;
    let outcome = Outcome::new(OutcomeClass::Ambiguous, Stage::Dot, "test", "no answer after the end marker");
    let before = record(house, key).await;
    let rules = house.api.rulebook.rules(&before, 0.0);
    happen(house, key, Event::Verdict { token, verdict: Verdict::Unknown(&outcome), rules }).await;
    close(house, key).await;
}

/// The provider accepts; the outcome is settled.
pub async fn sent(house: &House, key: &Key, token: Token) {
    handoff(house, key, token).await;
    let receipt = Receipt { at: house.now(), code: 250, text: "2.0.0 Ok".into(), queue_id: Some("4F1".into()) };
    let before = record(house, key).await;
    let rules = house.api.rulebook.rules(&before, 0.0);
    happen(house, key, Event::Verdict { token, verdict: Verdict::Accepted(&receipt), rules }).await;
    close(house, key).await;
}

/// What settle and the dead-letter consumer do.
pub async fn close(house: &House, key: &Key) {
    let ended = record(house, key).await;
    if ended.state == curfew_domain::State::DeadLetter {
        let owners = BTreeMap::from([("permanent_failure".to_owned(), "support".to_owned())]);
        record_dead_letters(house.ledger.as_ref(), house.review.as_ref(), vec![ended], &owners, house.now()).await.expect("recorded");
    } else {
        settle(house.ledger.as_ref(), house.book.as_ref(), vec![ended], house.now()).await.expect("settled");
    }
}

/// The only open item's id.
pub async fn open_item(house: &House) -> String {
    let items = house.get("/v1/review?status=open").await.json();
    let all = items["items"].as_array().expect("items");
    assert_eq!(all.len(), 1, "{items}");
    all[0]["id"].as_str().expect("an id").to_owned()
}

/// A job's view.
pub async fn show(house: &House, key: &Key) -> Value {
    house.get(&format!("/v1/jobs/{}", key.as_str().replace('/', "%2F"))).await.json()
}
