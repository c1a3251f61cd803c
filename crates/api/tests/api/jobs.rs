//! Jobs over HTTP: submit, import, list, show, verbs.

use serde_json::{Value, json};
use std::sync::atomic::Ordering;

use crate::house::{House, house};
use crate::support::{job, with};

/// CONTRACT, "A job reads as".
pub const FIELDS: &str = "key id tenant purpose subject_ref business_date state release_at deadline_at next_attempt_at waiting_for attempts replays generation \
    last_outcome last_attempt_at reason diagnostic in_doubt content_revision transport policy recipient_ref recipient_masked receipt explanation labels history";

fn numbered(n: u32) -> Value {
    with(job(), "subject_ref", json!(format!("R-{n}")))
}

async fn submitted(house: &House, job: &Value) -> Value {
    let made = house.post("/v1/jobs", job).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.json()
}

#[tokio::test]
async fn a_job_is_accepted_once_and_reads_with_every_field() {
    let house = house().await;
    let made = house.post("/v1/jobs", &job()).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let view = made.json();
    assert_eq!(made.headers["location"], format!("/v1/jobs/{}", view["id"].as_str().expect("an id")));
    for field in FIELDS.split_whitespace() {
        assert!(view.get(field).is_some(), "{field} is missing: {view}");
    }
    assert_eq!(view.as_object().map(|o| o.len()), Some(FIELDS.split_whitespace().count()));
    assert_eq!(
        (&view["state"], &view["waiting_for"], &view["attempts"], &view["generation"]),
        (&json!("planned"), &json!("release"), &json!(0), &json!(1))
    );
    assert_eq!(view["release_at"], "2026-12-01T08:30:00.000Z");
    assert_eq!(view["next_attempt_at"], "2026-12-01T08:30:00.000Z");
    assert_eq!((&view["receipt"], &view["reason"], &view["in_doubt"]), (&Value::Null, &Value::Null, &json!(false)));
    assert!(!made.body.contains("lovelace") && !made.body.contains("Lovelace"));
    assert!(view["explanation"].as_str().is_some_and(|e| e.starts_with("Planned")), "{view}");
    let again = house.post("/v1/jobs", &job()).await;
    assert_eq!((again.status, &again.json()["id"]), (200, &view["id"]));
    let by_key = house.get("/v1/jobs/acme%2Frenewal-reminder%2FR-1042%2F2026-12-01").await;
    let by_id = house.get(&format!("/v1/jobs/{}", view["id"].as_str().expect("an id"))).await;
    assert_eq!((by_key.status, &by_key.json()["id"]), (200, &view["id"]));
    assert_eq!(by_id.json(), by_key.json());
    assert_eq!(house.nudges.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_same_key_with_other_content_is_a_conflict_that_names_the_fields() {
    let house = house().await;
    let first = submitted(&house, &job()).await;
    let other = with(with(job(), "to.address", json!("bob@customer.example")), "content.params.plan", json!("Silver"));
    let refused = house.post("/v1/jobs", &other).await;
    let problem = refused.json();
    assert_eq!((refused.status, &problem["type"], &problem["job_id"]), (409, &json!("/problems/conflict"), &first["id"]));
    let fields: Vec<_> = problem["errors"].as_array().expect("errors").iter().map(|e| e["field"].as_str().expect("a field")).collect();
    assert_eq!(fields, ["content.params.plan", "to.address"]);
    assert!(!refused.body.contains("bob") && !refused.body.contains("Silver"));
}

#[tokio::test]
async fn a_refused_job_names_all_its_fields() {
    let house = house().await;
    let refused = house.post("/v1/jobs", &with(with(job(), "policy", json!("x")), "to.address", json!("nobody"))).await;
    assert_eq!(refused.status, 422);
    let problem = refused.json();
    let fields: Vec<_> = problem["errors"].as_array().expect("errors").iter().map(|e| e["field"].as_str().expect("a field")).collect();
    assert_eq!(fields, ["to.address", "policy"]);
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let house = house().await;
    let dry = house.post("/v1/jobs?dry_run=1", &job()).await;
    assert_eq!((dry.status, &dry.json()["state"]), (200, &json!("planned")));
    assert_eq!(house.get("/v1/jobs").await.json()["items"], json!([]));
    let first = submitted(&house, &job()).await;
    assert_eq!(house.post("/v1/jobs?dry_run=1", &job()).await.json()["id"], first["id"]);
    assert_eq!(house.post("/v1/jobs?dry_run=1", &with(job(), "labels.region", json!("west"))).await.status, 409);
}

#[tokio::test]
async fn one_bad_line_of_an_import_stops_no_other() {
    let house = house().await;
    let lines = [
        numbered(1).to_string(),
        "{not json".to_owned(),
        String::new(),
        with(numbered(2), "to.address", json!("nobody")).to_string(),
        numbered(1).to_string(),
        with(numbered(1), "labels.region", json!("west")).to_string(),
        with(with(numbered(3), "deadline_at", json!("2026-12-01T09:00:00")), "release_at", json!("2026-12-01T08:30:00")).to_string(),
        numbered(4).to_string(),
    ];
    let answered = house.ask("POST", "/v1/jobs/import?zone=Europe/Berlin&first_line=10", &[], lines.join("\n").as_bytes()).await;
    assert_eq!(answered.status, 200, "{}", answered.body);
    let sum = answered.json();
    assert_eq!((&sum["accepted"], &sum["duplicates"], &sum["rejected"]), (&json!(3), &json!(1), &json!(3)), "{sum}");
    let errors: Vec<_> = sum["errors"]
        .as_array()
        .expect("errors")
        .iter()
        .map(|e| (e["line"].as_u64().expect("a line"), e["field"].as_str().expect("a field")))
        .collect();
    assert_eq!(errors, [(11, "line"), (13, "to.address"), (15, "key")]);
    assert!(sum["errors"][2]["error"].as_str().is_some_and(|e| e.contains("labels.region")));
    assert!(!answered.body.contains("lovelace") && !answered.body.contains("nobody"));
}

#[tokio::test]
async fn a_large_import_is_counted_whole_and_lists_a_thousand_errors() {
    let house = house().await;
    let mut lines: Vec<String> = (0..1_300).map(|n| numbered(n).to_string()).collect();
    lines.extend((0..1_200).map(|_| "{}".to_owned()));
    let body = lines.join("\n");
    let sum = house.ask("POST", "/v1/jobs/import", &[], body.as_bytes()).await.json();
    assert_eq!((&sum["accepted"], &sum["rejected"], sum["errors"].as_array().map(Vec::len)), (&json!(1_300), &json!(1_200), Some(1_000)));
    let again = house.ask("POST", "/v1/jobs/import", &[], body.as_bytes()).await.json();
    assert_eq!((&again["accepted"], &again["duplicates"]), (&json!(0), &json!(1_300)));
    let dry = house.ask("POST", "/v1/jobs/import?dry_run=1", &[], numbered(5_000).to_string().as_bytes()).await.json();
    assert_eq!((&dry["accepted"], house.get("/v1/jobs/acme%2Frenewal-reminder%2FR-5000%2F2026-12-01").await.status), (&json!(1), 404));
}

#[tokio::test]
async fn a_list_follows_its_cursor_newest_first() {
    let house = house().await;
    for n in 0..5 {
        submitted(&house, &numbered(n)).await;
    }
    let (mut found, mut path) = (Vec::new(), "/v1/jobs?limit=2&tenant=acme".to_owned());
    loop {
        let page = house.get(&path).await.json();
        found.extend(page["items"].as_array().expect("items").iter().map(|j| j["subject_ref"].as_str().expect("a ref").to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/jobs?limit=2&tenant=acme&cursor={cursor}");
    }
    assert_eq!(found, ["R-4", "R-3", "R-2", "R-1", "R-0"]);
    assert_eq!(house.get("/v1/jobs?tenant=other").await.json()["items"], json!([]));
    assert_eq!(house.get("/v1/jobs?state=active").await.json()["items"], json!([]));
    assert_eq!(house.get("/v1/jobs?state=planned").await.json()["items"].as_array().map(Vec::len), Some(5));
    assert_eq!(house.get("/v1/jobs?recipient=ada.lovelace%40customer.example").await.json()["items"].as_array().map(Vec::len), Some(5));
    assert_eq!(house.get("/v1/jobs?recipient=bob%40customer.example").await.json()["items"], json!([]));
    assert_eq!(house.get("/v1/jobs?schedule=daily").await.json()["items"], json!([]));
}

#[tokio::test]
async fn a_verb_needs_a_reason_and_takes_effect_once() {
    let house = house().await;
    let id = submitted(&house, &job()).await["id"].as_str().expect("an id").to_owned();
    assert_eq!(house.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).await.json()["errors"][0]["field"], "reason");
    let moved = house
        .post(
            &format!("/v1/jobs/{id}/move"),
            &json!({"release_at": "2026-12-02T10:00:00Z", "deadline_at": "2026-12-02T11:00:00Z", "reason": "later"}),
        )
        .await;
    assert_eq!((moved.status, &moved.json()["release_at"]), (200, &json!("2026-12-02T10:00:00.000Z")));
    let wrong = house.post(&format!("/v1/jobs/{id}/move"), &json!({"release_at": "2026-12-02T12:00:00Z", "reason": "later"})).await;
    assert_eq!((wrong.status, &wrong.json()["errors"][0]["field"]), (422, &json!("deadline_at")));
    let key = "acme%2Frenewal-reminder%2FR-1042%2F2026-12-01";
    let cancelled = house.post(&format!("/v1/jobs/{key}/cancel"), &json!({"reason": "asked by ada.lovelace@customer.example"})).await;
    assert_eq!(
        (cancelled.status, &cancelled.json()["state"], &cancelled.json()["reason"]),
        (200, &json!("cancelled"), &json!("operator")),
        "{}",
        cancelled.body
    );
    let late = house.post(&format!("/v1/jobs/{id}/suppress"), &json!({"reason": "again"})).await;
    assert_eq!(late.status, 409, "{}", late.body);
    let audit = house.get("/v1/audit").await;
    assert!(!audit.body.contains("lovelace") && audit.body.contains("[address]"), "{}", audit.body);
    assert_eq!(house.get("/v1/audit/verify").await.json()["ok"], true);
    assert_eq!(house.post("/v1/jobs/acme%2Fno%2Fno%2F2026-12-01/cancel", &json!({"reason": "r"})).await.status, 404);
}
