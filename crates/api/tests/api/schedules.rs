//! Schedules over HTTP: what is refused and by which field, whose change wins, and what an answer shows.

use serde_json::{Value, json};

use crate::house::{Answered, House, house};
use crate::support::with;

const PATH: &str = "/v1/schedules/acme/daily-report";

fn schedule() -> Value {
    json!({
        "purpose": "daily-report", "cron": "30 8 * * 1-5", "zone": "America/New_York", "deadline": "09:00",
        "content": {"template": "renewal@1", "params": {"plan": "Gold"}},
        "recipients": [
            {"subject_ref": "R-1", "address": "ada.lovelace@customer.example", "name": "Ada Lovelace"},
            {"subject_ref": "R-2", "address": "bob@customer.example", "params": {"plan": "Silver"}},
        ],
    })
}

async fn put(house: &House, body: &Value, if_match: Option<&str>) -> Answered {
    let headers: Vec<(&str, &str)> = if_match.into_iter().map(|tag| ("if-match", tag)).collect();
    house.ask("PUT", PATH, &headers, body.to_string().as_bytes()).await
}

#[tokio::test]
async fn a_refusal_names_its_field_and_repeats_no_address() {
    let house = house().await;
    let without = |field: &str| with(schedule(), field, Value::Null);
    let one = |field: &str, value: Value| with(schedule(), field, value);
    let mut wrong = Vec::new();
    let recipient = |value: Value| one("recipients", json!([value]));
    for (body, field, says) in [
        (without("purpose"), "purpose", "is required"),
        (without("cron"), "cron", "or rrule"),
        (without("zone"), "zone", "is required"),
        (without("deadline"), "deadline", "is required"),
        (without("content"), "content", "is required"),
        (without("recipients"), "recipients", "at least one"),
        (one("cron", json!("0 24 * * *")), "cron", "hour: \"24\""),
        (one("cron", json!("0 9 31 2 *")), "cron", "never fires"),
        (one("rrule", json!("FREQ=DAILY")), "cron", "give one of"),
        (one("zone", json!("America/New_Yrok")), "zone", "America/New_York"),
        (one("deadline", json!("24:00")), "deadline", "HH:MM"),
        (one("deadline", json!("08:00")), "deadline", "2026-12-01"),
        (one("deadline_days", json!("one")), "deadline_days", "whole number"),
        (one("calendar", json!({"weeks": []})), "calendar.weeks", "unknown field"),
        (one("roll", json!("up")), "roll", "allowed"),
        (one("spread", json!("10 minutes")), "spread", "ms, s, m or h"),
        (one("catch_up", json!("all")), "catch_up", "one, each, none"),
        (one("policy", json!("patent")), "policy", "patient"),
        (one("transport", json!("pigeon")), "transport", "unknown"),
        (one("content", json!({"template": "renewal@1"})), "content.params.plan", ""),
        (one("content", json!({"template": "gone@1"})), "content.template", ""),
        (one("attachments", json!([{"uri": "file:../{date}.pdf"}])), "attachments.0.uri", ""),
        (one("recipients_file", json!("r.csv")), "recipients_file", "curfew schedules apply"),
        (one("recipients_url", json!("https://x.example")), "recipients_url", "not read by this build"),
        (one("dedline", json!("09:00")), "dedline", "the nearest is `deadline`"),
        (one("name", json!("other")), "name", "the path's"),
        (recipient(json!({"address": "ada@x.example"})), "recipients.0.subject_ref", "is required"),
        (recipient(json!({"subject_ref": "R-1", "address": "ada at x"})), "recipients.0.address", ""),
        (recipient(json!({"subject_ref": "R 1", "address": "ada@x.example"})), "recipients.0.subject_ref", ""),
    ] {
        let answered = put(&house, &body, None).await;
        let errors = answered.json()["errors"].as_array().cloned().unwrap_or_default();
        let told = errors.iter().any(|e| e["field"] == field && e["error"].as_str().is_some_and(|e| e.contains(says)));
        if answered.status != 422 || !told || answered.body.contains("ada") {
            wrong.push(format!("{field}: {} {}", answered.status, answered.body));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(house.get(PATH).await.status, 404);
}

#[tokio::test]
async fn a_window_that_collapses_is_refused_with_its_dates_or_allowed_and_told() {
    let house = house().await;
    let collapsing = with(with(schedule(), "cron", json!("15 2 * * *")), "deadline", json!("02:45"));
    let refused = put(&house, &collapsing, None).await;
    assert!(refused.status == 422 && refused.body.contains("2027-03-14"), "{}", refused.body);
    let made = put(&house, &with(collapsing, "allow_invalid_windows", json!(true)), None).await;
    assert_eq!((made.status, &made.json()["without_window"][0]), (201, &json!("2027-03-14")), "{}", made.body);
}

#[tokio::test]
async fn of_two_changes_of_one_revision_the_second_is_told() {
    let house = house().await;
    let dry = house.ask("PUT", &format!("{PATH}?dry_run=1"), &[], schedule().to_string().as_bytes()).await;
    assert_eq!((dry.status, &dry.json()["action"], house.get(PATH).await.status), (200, &json!("make"), 404), "{}", dry.body);
    let made = put(&house, &schedule(), None).await;
    assert_eq!((made.status, made.headers["etag"].as_str(), &made.json()["action"]), (201, "\"1\"", &json!("make")), "{}", made.body);
    let same = put(&house, &schedule(), None).await;
    assert_eq!((same.status, &same.json()["action"]), (200, &json!("same")), "{}", same.body);

    let later = with(schedule(), "deadline", json!("10:00"));
    assert_eq!(put(&house, &later, None).await.status, 412, "a change names the revision that it changes");
    let changed = put(&house, &later, Some("\"1\"")).await;
    assert_eq!((changed.status, changed.headers["etag"].as_str()), (200, "\"2\""), "{}", changed.body);
    assert_eq!(changed.json()["changed"], json!([{"field": "deadline", "before": "09:00", "after": "10:00"}]));
    let lost = put(&house, &with(schedule(), "deadline", json!("11:00")), Some("\"1\"")).await;
    assert!(lost.status == 412 && lost.json()["detail"].as_str().is_some_and(|d| d.contains("revision 2 stands")), "{}", lost.body);
    let fewer = with(later, "recipients", json!([{"subject_ref": "R-1", "address": "ada.lovelace@customer.example"}]));
    let dry = house.ask("PUT", &format!("{PATH}?dry_run=1"), &[("if-match", "\"2\"")], fewer.to_string().as_bytes()).await;
    assert_eq!(dry.json()["changed"], json!([{"field": "recipients", "before": 2, "after": 1}]), "{}", dry.body);
}

#[tokio::test]
async fn a_schedule_is_shown_paused_resumed_and_deleted_without_an_address() {
    let house = house().await;
    put(&house, &schedule(), None).await;
    let reason = json!({"reason": "the customer asked"});
    let shown = house.get(PATH).await;
    let found = shown.json();
    assert_eq!((shown.headers["etag"].as_str(), &found["state"], &found["cron"]), ("\"1\"", &json!("active"), &json!("30 8 * * 1-5")));
    assert_eq!((&found["recipients"], &found["template"], &found["catch_up"]), (&json!(2), &json!("renewal@1"), &json!("one")));
    assert_eq!(house.post(&format!("{PATH}/pause"), &json!({})).await.status, 422, "a reason is required");
    let paused = house.post(&format!("{PATH}/pause"), &reason).await;
    assert_eq!((&paused.json()["action"], &paused.json()["schedule"]["state"]), (&json!("pause"), &json!("paused")), "{}", paused.body);
    assert_eq!(house.post(&format!("{PATH}/pause"), &reason).await.json()["action"], "same");
    let lost = house.ask("POST", &format!("{PATH}/resume"), &[("if-match", "\"1\"")], reason.to_string().as_bytes()).await;
    assert_eq!(lost.status, 412, "{}", lost.body);
    assert_eq!(house.post(&format!("{PATH}/resume"), &reason).await.json()["schedule"]["state"], "active");
    let listed = house.get("/v1/schedules?tenant=acme").await;
    assert_eq!(
        (listed.json()["items"].as_array().map(Vec::len), house.get("/v1/schedules?tenant=x").await.json()["items"].clone()),
        (Some(1), json!([]))
    );
    for answered in [&shown, &paused, &listed] {
        assert!(!answered.body.contains("customer.example") && !answered.body.contains("Lovelace"), "{}", answered.body);
    }
    let deleted = house.ask("DELETE", PATH, &[], reason.to_string().as_bytes()).await;
    assert_eq!((deleted.status, &deleted.json()["schedule"]["state"]), (200, &json!("deleted")), "{}", deleted.body);
    assert_eq!((house.get(PATH).await.status, house.post(&format!("{PATH}/pause"), &reason).await.status), (404, 404));
    assert_eq!(put(&house, &schedule(), None).await.status, 201, "its name may be used again");
}

#[tokio::test]
async fn a_preview_marks_what_clocks_and_calendars_do() {
    let house = house().await;
    let rolling = json!({"week": ["MON", "TUE", "WED", "THU", "FRI"], "holidays": ["2026-12-25"]});
    let body = with(with(with(schedule(), "cron", json!("30 8 * * *")), "calendar", rolling), "roll", json!("skip"));
    put(&house, &body, None).await;
    let preview = house.get(&format!("{PATH}/preview?count=26")).await.json();
    let items = preview["items"].as_array().expect("items");
    assert_eq!(items.len(), 26);
    let first = json!({"business_date": "2026-11-30", "slot": "2026-11-30", "release_local": "2026-11-30T08:30", "deadline_local": "2026-11-30T09:00",
        "release_at": "2026-11-30T13:30:00.000Z", "deadline_at": "2026-11-30T14:00:00.000Z", "verdict": "ok", "mark": null});
    assert_eq!(items[0], first);
    for date in ["2026-12-05", "2026-12-25"] {
        let found = items.iter().find(|item| item["business_date"] == date).expect("it is shown");
        assert_eq!((&found["verdict"], &found["mark"], &found["release_at"]), (&json!("no_job"), &json!("not_a_business_day"), &Value::Null));
    }
    assert_eq!(house.get(&format!("{PATH}/preview?count=0")).await.status, 422);
    let gap = with(with(schedule(), "cron", json!("30 2 14 3 *")), "deadline", json!("09:00"));
    put(&house, &gap, Some("\"1\"")).await;
    let preview = house.get(&format!("{PATH}/preview?count=1")).await.json();
    assert_eq!((&preview["items"][0]["mark"], &preview["items"][0]["release_local"]), (&json!("gap"), &json!("2027-03-14T03:00")), "{preview}");
    let board = house.get(&format!("{PATH}/runs?date=2026-12-01")).await;
    assert_eq!((board.status, &board.json()["runs"]), (200, &json!([])), "{}", board.body);
    assert_eq!(house.get(&format!("{PATH}/runs?date=tomorrow")).await.status, 422);
}
