//! Review over HTTP: items, preview, replay, correction, and the human verbs.

use std::time::Duration;

use curfew_domain::Token;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::house::house;
use crate::life::{due, in_doubt, open_item, refused, sent, show, stage_planned};
use crate::support::{job, with};

/// CONTRACT, "A review item reads as".
const FIELDS: &str = "id job_id key tenant recipient_ref recipient_masked release_at deadline_at attempts last_outcome last_attempt_at reason diagnostic owner due_at status \
    number replay_of notes history";

#[tokio::test]
async fn a_dead_letter_explains_itself_and_is_replayed_under_a_new_deadline() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    refused(&house, &key).await;
    let id = open_item(&house).await;
    let item = house.get(&format!("/v1/review/{id}")).await.json();
    for field in FIELDS.split_whitespace() {
        assert!(item.get(field).is_some(), "{field} is missing: {item}");
    }
    assert_eq!(
        (&item["reason"], &item["owner"], &item["status"], &item["number"]),
        (&json!("permanent_failure"), &json!("support"), &json!("open"), &json!(1)),
        "{item}"
    );
    assert!(item["history"].as_array().is_some_and(|h| h.len() >= 2), "{item}");
    let view = show(&house, &key).await;
    assert_eq!(
        (&view["state"], &view["attempts"], &view["last_outcome"], &view["waiting_for"]),
        (&json!("dead_letter"), &json!(1), &json!("permanent"), &Value::Null),
        "{view}"
    );
    for (body, field) in [
        (json!({"reason": "r"}), "deadline_at"),
        (json!({"deadline_at": "2026-12-02T09:00:00Z"}), "reason"),
        (json!({"deadline_at": "2026-11-30T11:00:00Z", "reason": "r"}), "deadline_at"),
        (json!({"deadline_at": "soon", "reason": "r"}), "deadline_at"),
    ] {
        let wrong = house.post(&format!("/v1/review/{id}/replay"), &body).await;
        assert_eq!((wrong.status, &wrong.json()["errors"][0]["field"]), (422, &json!(field)), "{body}");
    }
    let body = json!({"deadline_at": "2026-12-02T09:00:00Z", "reason": "mailbox mended"});
    let dry = house.post(&format!("/v1/review/{id}/replay"), &with(body.clone(), "dry_run", json!(true))).await;
    assert_eq!((dry.status, &dry.json()["generation"]), (200, &json!(2)), "{}", dry.body);
    assert_eq!(open_item(&house).await, id);
    let replayed = house.post(&format!("/v1/review/{id}/replay"), &body).await;
    assert_eq!(replayed.status, 200, "{}", replayed.body);
    assert_eq!((&replayed.json()["job"]["state"], &replayed.json()["job"]["replays"]), (&json!("planned"), &json!(1)));
    assert_eq!(house.post(&format!("/v1/review/{id}/replay"), &body).await.status, 409);
    stage_planned(&house).await;
    sent(&house, &key, Token(Uuid::from_u128(9))).await;
    let view = show(&house, &key).await;
    assert_eq!((&view["state"], &view["generation"], &view["receipt"]["queue_id"]), (&json!("sent"), &json!(2), &json!("4F1")), "{view}");
    let audit = house.get("/v1/audit").await.json();
    assert!(
        audit["items"]
            .as_array()
            .is_some_and(|a| a.iter().any(|e| e["action"] == "replay" && e["reason"] == "mailbox mended" && e["actor"] == "local")),
        "{audit}"
    );
}

#[tokio::test]
async fn an_item_in_doubt_needs_the_risk_accepted_and_its_rest() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    in_doubt(&house, &key, Token(Uuid::from_u128(5))).await;
    let id = open_item(&house).await;
    let view = show(&house, &key).await;
    assert!(view["explanation"].as_str().is_some_and(|e| e.contains("in doubt") && e.contains("12:16:00")), "the rest is explained: {view}");
    let body = json!({"deadline_at": "2026-12-02T09:00:00Z", "reason": "asked the provider"});
    let refused = house.post(&format!("/v1/review/{id}/replay"), &body).await;
    assert!(matches!(refused.status, 409 | 422), "{}", refused.body);
    let risky = with(body, "accept_duplicate_risk", json!(true));
    let early = house.post(&format!("/v1/review/{id}/replay"), &risky).await;
    assert_eq!((early.status, &early.json()["type"]), (409, &json!("/problems/not-yet")), "{}", early.body);
    house.advance(Duration::from_secs(17 * 60));
    assert_eq!(house.post(&format!("/v1/review/{id}/replay"), &risky).await.status, 200);
}

#[tokio::test]
async fn only_a_preview_shows_the_letter_and_it_is_audited() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    refused(&house, &key).await;
    let id = open_item(&house).await;
    let preview = house.ask("POST", &format!("/v1/review/{id}/preview"), &[], b"").await;
    assert_eq!(preview.status, 200, "{}", preview.body);
    let letter = preview.json();
    assert_eq!((&letter["to"]["address"], &letter["subject"]), (&json!("ada.lovelace@customer.example"), &json!("Your Gold plan")));
    for path in ["/v1/review".to_owned(), format!("/v1/review/{id}"), "/v1/jobs".into(), "/v1/audit".into(), "/v1/fleet".into(), "/".into()] {
        let body = house.get(&path).await.body;
        assert!(!body.contains("lovelace") && !body.contains("Gold plan"), "{path}");
    }
    let audit = house.get("/v1/audit?limit=1").await.json();
    assert_eq!((&audit["items"][0]["action"], &audit["items"][0]["object"]), (&json!("preview"), &json!(id)));
}

#[tokio::test]
async fn a_correction_makes_a_new_revision_of_the_letter() {
    let house = house().await;
    let with_file = with(with(job(), "release_at", Value::Null), "attachments", json!([{"uri": "file:reports/old.pdf", "name": "report.pdf"}]));
    assert_eq!(house.post("/v1/jobs", &with_file).await.status, 201);
    stage_planned(&house).await;
    let key = curfew_domain::Key::parse("acme/renewal-reminder/R-1042/2026-12-01").expect("a key");
    refused(&house, &key).await;
    let id = open_item(&house).await;
    let path = format!("/v1/review/{id}/correct");
    for (body, field) in [
        (json!({"reason": "r"}), "to"),
        (json!({"reason": "r", "to": "nobody"}), "to.address"),
        (json!({"reason": "r", "params": {"plam": "x"}}), "params.plam"),
        (json!({"reason": "r", "artifacts": {"other.pdf": "file:reports/x.pdf"}}), "artifacts.other.pdf"),
        (json!({"reason": "r", "artifacts": {"report.pdf": "file:secret/x.pdf"}}), "artifacts.report.pdf.uri"),
        (json!({"to": "bob@customer.example"}), "reason"),
    ] {
        let wrong = house.post(&path, &body).await;
        assert_eq!((wrong.status, &wrong.json()["errors"][0]["field"]), (422, &json!(field)), "{body}: {}", wrong.body);
    }
    let body = json!({"reason": "typo", "to": {"address": "bob@customer.example", "name": "Bob"}, "params": {"plan": "Silver"}, "artifacts": {"report.pdf": "file:reports/new.pdf"}});
    let corrected = house.post(&path, &body).await;
    assert_eq!(corrected.status, 200, "{}", corrected.body);
    let letter = house.ask("POST", &format!("/v1/review/{id}/preview"), &[], b"").await.json();
    assert_eq!(
        (&letter["to"]["address"], &letter["to"]["name"], &letter["subject"]),
        (&json!("bob@customer.example"), &json!("Bob"), &json!("Your Silver plan"))
    );
    assert_eq!((&letter["attachments"][0]["uri"], &letter["content_revision"]), (&json!("file:reports/new.pdf"), &json!(2)));
}

#[tokio::test]
async fn the_human_verbs_change_an_item() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    refused(&house, &key).await;
    let id = open_item(&house).await;
    let post = |verb: &str, body: Value| {
        let path = format!("/v1/review/{id}/{verb}");
        let house = &house;
        async move { house.post(&path, &body).await }
    };
    assert_eq!(post("assign", json!({"owner": "carol"})).await.json()["owner"], "carol");
    let noted = post("note", json!({"text": "spoke with ada.lovelace@customer.example"})).await;
    assert_eq!(noted.json()["notes"][0]["text"], "spoke with [address]", "{}", noted.body);
    let escalated = post("escalate", json!({"reason": "stuck"})).await.json();
    assert_eq!((&escalated["owner"], &escalated["due_at"]), (&json!("platform"), &json!("2026-11-30T13:00:00.000Z")));
    assert_eq!(post("approve", json!({})).await.status, 409);
    let resolved = post("resolve", json!({"reason": "phoned instead"})).await;
    assert_eq!((resolved.status, &resolved.json()["status"]), (200, &json!("resolved")), "{}", resolved.body);
    assert_eq!(post("suppress", json!({"reason": "r"})).await.status, 409);
    assert_eq!(house.get("/v1/review?reason=permanent_failure&status=resolved&tenant=acme").await.json()["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(house.post(&format!("/v1/review/{}/note", Uuid::from_u128(77)), &json!({"text": "x"})).await.status, 404);
}

#[tokio::test]
async fn a_receipt_ends_the_doubt_in_every_view() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    in_doubt(&house, &key, Token(Uuid::from_u128(5))).await;
    let id = open_item(&house).await;
    let resolved = house.post(&format!("/v1/review/{id}/resolve"), &json!({"reason": "seen", "receipt": "4F1 in the provider's log"})).await.json();
    assert_eq!((&resolved["status"], &resolved["in_doubt"]), (&json!("resolved"), &json!(false)), "{resolved}");
    let view = show(&house, &key).await;
    assert_eq!((&view["state"], &view["in_doubt"], &view["last_outcome"]), (&json!("sent"), &json!(false), &json!("accepted")), "{view}");
    assert!(view["explanation"].as_str().is_some_and(|e| !e.contains("in doubt")), "nothing else was handed over: {view}");
}
