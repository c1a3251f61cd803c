//! Days, the fleet, suppressions.

use std::time::Duration;

use curfew_book::{Enrolment, Registry};
use curfew_domain::{Moment, Token, WorkerId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::house::house;
use crate::life::{claim, close, due, due_of, refused, sent, show};
use crate::support::{job, with};

#[tokio::test]
async fn a_day_is_counted_and_its_difference_is_zero() {
    let house = house().await;
    assert_eq!(house.post("/v1/jobs", &job()).await.status, 201);
    let first = due(&house, "R-1").await;
    sent(&house, &first, Token(Uuid::from_u128(1))).await;
    let second = due(&house, "R-2").await;
    refused(&house, &second).await;
    let third = due(&house, "R-3").await;
    claim(&house, &third).await;
    let day = house.get("/v1/days/2026-12-01").await.json();
    let figure = |name: &str| day[name].as_i64().expect("a figure");
    let figures = ["accepted", "sent", "dead_letter", "cancelled", "suppressed", "planned", "live", "difference"].map(figure);
    assert_eq!(figures, [4, 1, 1, 0, 0, 1, 1, 0], "{day}");
    assert_eq!((&day["date"], &day["zone"], &day["tenant"], &day["differences"]), (&json!("2026-12-01"), &json!("UTC"), &Value::Null, &json!([])));
    assert_eq!(house.get("/v1/days/2026-12-01?tenant=other").await.json()["accepted"], 0);
    assert_eq!(house.get("/v1/days/today").await.json()["date"], "2026-11-30");
    let active = house.get("/v1/jobs?state=active").await.json();
    assert_eq!((active["items"].as_array().map(Vec::len), &active["items"][0]["state"]), (Some(1), &json!("claimed")), "{active}");
    assert_eq!(house.get("/v1/jobs?state=claimed").await.json()["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(house.get("/v1/jobs?state=queued").await.json()["items"], json!([]));
    assert_eq!(house.get("/v1/jobs?state=sent").await.json()["items"].as_array().map(Vec::len), Some(1));
    let refused_now = house.post("/v1/jobs/acme%2Frenewal-reminder%2FR-2%2F2026-12-01/cancel", &json!({"reason": "r"})).await;
    assert!(matches!(refused_now.status, 200 | 409), "{}", refused_now.body);
}

#[tokio::test]
async fn a_pause_is_what_a_due_job_waits_for_until_it_is_resumed() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    assert_eq!(house.post("/v1/fleet/pause", &json!({"transport": "nosuch", "reason": "r"})).await.status, 422);
    let paused = house.post("/v1/fleet/pause", &json!({"transport": "default", "reason": "maintenance"})).await;
    assert_eq!(paused.status, 200, "{}", paused.body);
    let hold = &paused.json()["holds"][0];
    assert_eq!(
        (&hold["kind"], &hold["name"], &hold["by"], &hold["reason"], &hold["actor"]),
        (&json!("transport"), &json!("default"), &json!("pause"), &json!("maintenance"), &json!("local"))
    );
    assert!(hold["since"].is_string() && house.get("/").await.body.contains("<td>maintenance</td>"), "{hold}");
    let view = show(&house, &key).await;
    assert_eq!(view["waiting_for"], "pause", "{view}");
    assert!(view["explanation"].as_str().is_some_and(|e| e.contains("resumes")), "{view}");
    let resumed = house.post("/v1/fleet/resume", &json!({"transport": "default", "reason": "done"})).await;
    assert_eq!(resumed.json()["holds"], json!([]));
    assert!(house.get("/").await.body.contains("Nothing is held"));
    assert_ne!(show(&house, &key).await["waiting_for"], "pause");
    let fleet = house.get("/v1/fleet").await.json();
    assert_eq!((&fleet["jobs"]["scheduled"], &fleet["shards"], &fleet["circuits"]), (&json!(1), &json!(16), &json!([])), "{fleet}");
    assert_eq!(house.post("/v1/fleet/pause", &json!({"reason": "all"})).await.json()["holds"][0]["kind"], "fleet");
    assert_eq!(house.post("/v1/fleet/resume", &json!({"reason": "all"})).await.json()["holds"], json!([]));
    assert_eq!(house.post("/v1/fleet/drain", &json!({})).await.status, 202);
}

/// A due job that its tenant's limits kept in its line waited for nothing, as far as anybody could see.
#[tokio::test]
async fn a_due_job_in_its_line_names_the_limit_that_keeps_it_there() {
    let house = house().await;
    for (tenant, by) in [("acme", Value::Null), ("full", json!("tenant_in_flight")), ("lent", json!("tenant_credit"))] {
        let key = due_of(&house, tenant, "R-1").await;
        let view = show(&house, &key).await;
        assert_eq!((&view["state"], &view["waiting_for"]), (&json!("scheduled"), &by), "{view}");
        let listed = house.get(&format!("/v1/jobs?tenant={tenant}")).await.json();
        assert_eq!(listed["items"][0]["waiting_for"], by, "{listed}");
    }
}

#[tokio::test]
async fn a_suppressed_recipient_is_kept_as_a_reference_and_gets_nothing() {
    let house = house().await;
    let body = json!({"address": "ada.lovelace@customer.example", "reason": "asked us to stop"});
    let added = house.post("/v1/suppressions", &body).await;
    assert_eq!(added.status, 201, "{}", added.body);
    assert_eq!(house.post("/v1/suppressions", &body).await.status, 200);
    assert_eq!(house.post("/v1/suppressions", &json!({"address": "nobody"})).await.json()["errors"][0]["field"], "address");
    let listed = house.get("/v1/suppressions").await;
    assert_eq!(listed.json()["items"].as_array().map(Vec::len), Some(1));
    assert!(!listed.body.contains("lovelace"));
    let made = house.post("/v1/jobs", &job()).await.json();
    assert_eq!((&made["state"], &made["reason"]), (&json!("suppressed"), &json!("suppression_list")), "{made}");
    let removed = house.ask("DELETE", "/v1/suppressions", &[], body.to_string().as_bytes()).await;
    assert_eq!((removed.status, &removed.json()["items"]), (200, &json!([])), "{}", removed.body);
    assert_eq!(house.ask("DELETE", "/v1/suppressions", &[], body.to_string().as_bytes()).await.status, 404);
    assert_eq!(house.post("/v1/jobs", &with(job(), "subject_ref", json!("R-2"))).await.json()["state"], "planned");
}

#[tokio::test]
async fn the_fleet_names_its_processes_and_a_drain_asks_those_that_run() {
    let house = house().await;
    let now = house.ledger.now().await.expect("the ledger answers");
    let process = |n: u128, at: Moment| Enrolment {
        id: WorkerId(Uuid::from_u128(n)),
        roles: vec!["worker".to_owned()],
        name: format!("host-{n}:7"),
        version: "1.0.0".to_owned(),
        reads_format: 1,
        at,
    };
    let starts = [now.minus(Duration::from_secs(7200)), now.minus(Duration::from_secs(60)), now, now];
    for (n, at) in starts.into_iter().enumerate() {
        house.book.enrol(&process(n as u128, at)).await.expect("the book answers");
    }
    house.book.leave(WorkerId(Uuid::from_u128(0)), starts[0]).await.expect("the book answers");
    house.book.leave(WorkerId(Uuid::from_u128(3)), now).await.expect("the book answers");
    let shown = async || {
        let fleet = house.get("/v1/fleet").await.json();
        let of = |p: &Value| ["name", "state", "since", "draining"].map(|field| p[field].clone());
        fleet["processes"].as_array().expect("processes").iter().map(of).collect::<Vec<_>>()
    };
    let since = |n: usize| json!(starts[n].rfc3339());
    let silent = [json!("host-1:7"), json!("silent"), since(1), json!(false)];
    let running = [json!("host-2:7"), json!("running"), since(2), json!(false)];
    let stopped = [json!("host-3:7"), json!("stopped"), since(3), json!(false)];
    assert_eq!(shown().await, [silent, running, stopped], "one that stopped two hours ago isn't shown");
    let drained = house.post("/v1/fleet/drain", &json!({"reason": "an upgrade"})).await;
    assert_eq!((drained.status, drained.json()), (202, json!({"draining": true, "processes": 1})));
    assert_eq!(shown().await.iter().map(|p| p[3] == json!(true)).collect::<Vec<_>>(), [true, true, false]);
    let audit = house.get("/v1/audit").await.json();
    assert_eq!((&audit["items"][0]["action"], &audit["items"][0]["reason"]), (&json!("drain"), &json!("an upgrade")), "{audit}");
}

/// A verb on a staged job left a job without a story: the row was told the end, and the story that settled it counted as known.
#[tokio::test]
async fn what_an_operator_ends_in_the_ledger_keeps_its_story() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    let path = format!("/v1/jobs/{}/suppress", key.as_str().replace('/', "%2F"));
    let ended = house.post(&path, &json!({"reason": "not wanted"})).await.json();
    assert_eq!((&ended["state"], &ended["reason"]), (&json!("suppressed"), &json!("operator")), "{ended}");
    for settled in [false, true] {
        if settled {
            close(&house, &key).await;
        }
        let story = show(&house, &key).await["history"].clone();
        let states: Vec<&str> = story.as_array().into_iter().flatten().filter_map(|e| e["to"].as_str()).collect();
        assert_eq!(states, ["scheduled", "suppressed"], "{settled}: {story}");
        assert_eq!((&story[1]["reason"], &story[1]["actor"]), (&json!("operator"), &json!("local")), "{story}");
    }
}

/// `Bob@Example.com` asked for silence, and a file that spelt `bob@example.com` reached the mailbox.
#[tokio::test]
async fn a_suppressed_recipient_is_known_however_a_file_spells_the_address() {
    let house = house().await;
    assert_eq!(house.post("/v1/suppressions", &json!({"address": "Bob@Example.com", "reason": "asked"})).await.status, 201);
    assert_eq!(house.post("/v1/suppressions", &json!({"address": "bob@example.COM", "reason": "asked"})).await.status, 200, "it stood there");
    let made = house.post("/v1/jobs", &with(job(), "to.address", json!("BOB@example.com"))).await.json();
    assert_eq!((&made["state"], &made["reason"]), (&json!("suppressed"), &json!("suppression_list")), "{made}");
    let found = house.get("/v1/jobs?recipient=bOb%40example.com").await.json();
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
}
