//! A provider's events: signed, or nothing changes.

use curfew_api::sign;
use curfew_domain::Token;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::house::{Answered, House, house};
use crate::life::{close, due, handoff, in_doubt, record, refused, sent, show};
use crate::support::{NOON, SECRET};

async fn send(house: &House, transport: &str, signature: &str, body: &str) -> Answered {
    house
        .ask("POST", &format!("/v1/provider-events/{transport}"), &[("curfew-signature", signature), ("host", "events.example")], body.as_bytes())
        .await
}

async fn event(house: &House, kind: &str, id: &Value) -> Value {
    let body = json!({"events": [{"type": kind, "job_id": id, "at": "2026-11-30T11:59:00Z", "detail": "to ada.lovelace@customer.example", "provider_field": 1}]}).to_string();
    let answered = send(house, "default", &sign(SECRET, NOON / 1000, body.as_bytes()), &body).await;
    assert_eq!(answered.status, 200, "{}", answered.body);
    answered.json()
}

#[tokio::test]
async fn without_a_valid_signature_nothing_changes() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    in_doubt(&house, &key, Token(Uuid::from_u128(5))).await;
    let id = show(&house, &key).await["id"].clone();
    let body = json!({"events": [{"type": "accepted", "job_id": id}]}).to_string();
    let t = NOON / 1000;
    let good = sign(SECRET, t, body.as_bytes());
    for (transport, signature) in [
        ("default", sign(b"wrong", t, body.as_bytes())),
        ("default", sign(SECRET, t - 301, body.as_bytes())),
        ("default", sign(SECRET, t, b"another body")),
        ("default", String::new()),
        ("bulk", good.clone()),
        ("nosuch", good.clone()),
    ] {
        let answered = send(&house, transport, &signature, &body).await;
        assert_eq!(answered.status, 401, "{transport} {signature}");
    }
    assert_eq!(house.ask("POST", "/v1/provider-events/default", &[], body.as_bytes()).await.status, 401);
    assert_eq!(show(&house, &key).await["state"], "dead_letter");
    let foreign = send(&house, "bulk", &sign(b"other", t, body.as_bytes()), &body).await;
    assert_eq!(foreign.json(), json!({"applied": 0, "unknown": 1, "conflicting": 0}), "another transport's secret speaks for its own jobs alone");
    assert_eq!(show(&house, &key).await["in_doubt"], true);
    assert_eq!(send(&house, "default", &good, &body).await.status, 200);
}

#[tokio::test]
async fn an_acceptance_turns_a_doubt_to_sent_without_a_second_submission() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    in_doubt(&house, &key, Token(Uuid::from_u128(5))).await;
    let id = show(&house, &key).await["id"].clone();
    assert_eq!(event(&house, "delivered", &id).await, json!({"applied": 1, "unknown": 0, "conflicting": 0}));
    // Whoever asks right after the answer is told so, before the book has heard of it and after.
    for settled in [false, true] {
        if settled && record(&house, &key).await.is_live() {
            close(&house, &key).await;
        }
        let view = show(&house, &key).await;
        let found = ["state", "in_doubt", "last_outcome", "last_attempt_at", "diagnostic"].map(|field| view[field].clone());
        assert_eq!(found, [json!("sent"), json!(false), json!("accepted"), json!("2026-11-30T11:59:00.000Z"), Value::Null], "{settled}: {view}");
        let who = view["history"].as_array().and_then(|h| h.last()).map(|e| e["actor"].clone());
        assert_eq!(who, Some(json!("provider")), "the story names who said so: {view}");
        assert_eq!((&view["receipt"]["code"], &view["reason"]), (&Value::Null, &json!("accepted")), "no server answered: {view}");
        assert!(view["explanation"].as_str().is_some_and(|e| e.starts_with("Sent") && !e.contains("doubt")), "{view}");
    }
    let view = show(&house, &key).await;
    assert!(!view.to_string().contains("lovelace"));
    assert_eq!(house.get("/v1/review?status=open").await.json()["items"], json!([]));
    assert_eq!(event(&house, "delivered", &id).await["applied"], 1, "known already");
    assert_eq!(event(&house, "refused", &id).await["conflicting"], 1);
}

#[tokio::test]
async fn a_refusal_ends_a_doubt_and_the_dead_letter_stays() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    in_doubt(&house, &key, Token(Uuid::from_u128(5))).await;
    let id = show(&house, &key).await["id"].clone();
    assert_eq!(event(&house, "refused", &id).await["applied"], 1);
    let view = show(&house, &key).await;
    assert_eq!((&view["state"], &view["in_doubt"]), (&json!("dead_letter"), &json!(false)), "{view}");
}

#[tokio::test]
async fn an_event_finds_its_job_by_message_id_and_a_handoff_under_way() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    in_doubt(&house, &key, Token(Uuid::from_u128(5))).await;
    let body = json!({"events": [{"type": "accepted", "message_id": "<acme.renewal-reminder.R-1.2026-12-01.1@curfew.invalid>"}, {"type": "accepted", "message_id": "<x@y>"}]}).to_string();
    let taken = send(&house, "default", &sign(SECRET, NOON / 1000, body.as_bytes()), &body).await;
    assert_eq!(taken.json(), json!({"applied": 1, "unknown": 1, "conflicting": 0}));
    let second = due(&house, "R-2").await;
    handoff(&house, &second, Token(Uuid::from_u128(6))).await;
    let id = show(&house, &second).await["id"].clone();
    // A refusal names no handoff: it may speak of an earlier one. The one under way is its worker's to judge.
    let body = json!({"events": [{"type": "refused", "job_id": id}]}).to_string();
    let refused = send(&house, "default", &sign(SECRET, NOON / 1000, body.as_bytes()), &body).await;
    assert_eq!((refused.status, &show(&house, &second).await["state"]), (503, &json!("handoff")), "send it again");
    assert_eq!(event(&house, "accepted", &id).await["applied"], 1);
    assert_eq!(show(&house, &second).await["state"], "sent");
}

#[tokio::test]
async fn events_are_read_whole_before_one_is_taken() {
    let house = house().await;
    let key = due(&house, "R-1").await;
    refused(&house, &key).await;
    let other = due(&house, "R-2").await;
    sent(&house, &other, Token(Uuid::from_u128(7))).await;
    let body = json!({"events": [{"type": "exploded", "job_id": "x"}, {"type": "accepted"}]}).to_string();
    let wrong = send(&house, "default", &sign(SECRET, NOON / 1000, body.as_bytes()), &body).await;
    assert_eq!((wrong.status, wrong.json()["errors"].as_array().map(Vec::len)), (422, Some(2)), "{}", wrong.body);
    let sent = show(&house, &other).await["id"].clone();
    assert_eq!(event(&house, "bounced", &sent).await["applied"], 1);
    assert_eq!(event(&house, "delivered", &json!("not-an-id")).await["unknown"], 1);
    let dead = show(&house, &key).await["id"].clone();
    assert_eq!(event(&house, "accepted", &dead).await["conflicting"], 1, "refused by the provider, says the record");
}
