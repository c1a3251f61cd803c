//! Who may ask, and what every refusal looks like.

use curfew_api::Operator;
use serde_json::json;

use std::sync::Arc;

use crate::house::{house, house_of, house_with};
use crate::support::job;

#[tokio::test]
async fn without_operators_another_host_is_refused() {
    let house = house().await;
    for host in ["evil.example", "evil.example:7420", "localhost.evil.example"] {
        let refused = house.ask("GET", "/v1/fleet", &[("host", host)], b"").await;
        assert_eq!(refused.status, 403, "{host}");
        assert_eq!(refused.json()["type"], "/problems/forbidden");
    }
    for host in ["localhost:7420", "127.0.0.1", "[::1]:7420"] {
        assert_eq!(house.ask("GET", "/v1/fleet", &[("host", host)], b"").await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_writes_nothing() {
    let house = house().await;
    let body = job().to_string();
    let host = house.addr.to_string();
    for origin in ["https://evil.example", "null", "http://localhost:1", "http://evil.example"] {
        let refused = house.ask("POST", "/v1/jobs", &[("origin", origin)], body.as_bytes()).await;
        assert_eq!(refused.status, 403, "{origin}");
    }
    assert_eq!(house.get("/v1/jobs").await.json()["items"], json!([]));
    assert_eq!(house.ask("POST", "/v1/jobs", &[("origin", &format!("http://{host}"))], body.as_bytes()).await.status, 201);
}

#[tokio::test]
async fn with_operators_a_token_is_needed_and_names_the_actor() {
    let hash = |token: &str| <[u8; 32]>::try_from(hex_sha256(token).as_slice()).expect("32 bytes");
    let operator = |name: &str, token: &str| Operator { name: name.into(), token_hash: hash(token), roles: vec![], tenants: vec![] };
    let house = house_of(vec![operator("alice", "a-token"), operator("bob", "b-token")]).await;
    for given in [None, Some("Bearer wrong"), Some("Basic a-token"), Some("a-token"), Some("Bearer ")] {
        let headers: Vec<_> = given.iter().map(|g| ("authorization", *g)).collect();
        let refused = house.ask("POST", "/v1/jobs", &headers, job().to_string().as_bytes()).await;
        assert_eq!((refused.status, refused.headers.get("www-authenticate").map(String::as_str)), (401, Some("Bearer")), "{given:?}");
        assert_eq!(refused.headers["content-type"], "application/problem+json");
    }
    let bob = [("authorization", "Bearer b-token"), ("host", "curfew.example")];
    let made = house.ask("POST", "/v1/jobs", &bob, job().to_string().as_bytes()).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let cancelled = house.ask("POST", &format!("/v1/jobs/{id}/cancel"), &bob, b"{\"reason\":\"a test\"}").await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    let audit = house.ask("GET", "/v1/audit", &bob, b"").await.json();
    assert_eq!((&audit["items"][0]["actor"], &audit["items"][0]["action"]), (&json!("bob"), &json!("cancel")));
    assert_eq!(house.ask("GET", "/healthz", &[], b"").await.status, 200);
}

fn hex_sha256(text: &str) -> Vec<u8> {
    use sha2::Digest;
    sha2::Sha256::digest(text.as_bytes()).to_vec()
}

#[tokio::test]
async fn every_refusal_is_a_problem() {
    let house = house().await;
    let long = format!("{{\"reason\":\"{}\"}}", "x".repeat(1_100_000));
    let rows: Vec<(&str, &str, &[u8], u16, &str)> = vec![
        ("GET", "/nothing", b"", 404, "/problems/not-found"),
        ("GET", "/v1/jobs/acme%2Fx%2F1%2F2026-12-01", b"", 404, "/problems/not-found"),
        ("GET", "/v1/jobs/%FF", b"", 400, "/problems/http"),
        ("DELETE", "/v1/jobs", b"", 405, "/problems/http"),
        ("POST", "/v1/jobs", b"{", 422, "/problems/invalid"),
        ("POST", "/v1/jobs", long.as_bytes(), 422, "/problems/invalid"),
        ("POST", "/v1/jobs/x/cancel", long.as_bytes(), 413, "/problems/http"),
        ("GET", "/v1/jobs?limit=501", b"", 422, "/problems/invalid"),
        ("GET", "/v1/jobs?limit=0", b"", 422, "/problems/invalid"),
        ("GET", "/v1/jobs?colour=red", b"", 422, "/problems/invalid"),
        ("GET", "/v1/jobs?state=gone", b"", 422, "/problems/invalid"),
        ("GET", "/v1/review?reason=bad_luck", b"", 422, "/problems/invalid"),
        ("GET", "/v1/review/x", b"", 404, "/problems/not-found"),
        ("GET", "/v1/days/yesterday", b"", 422, "/problems/invalid"),
        ("POST", "/v1/jobs/import?zone=Nowhere", b"", 422, "/problems/invalid"),
        ("POST", "/v1/jobs/import?first_line=0", b"", 422, "/problems/invalid"),
        ("POST", "/v1/fleet/pause", b"{}", 422, "/problems/invalid"),
        ("POST", "/v1/fleet/pause", b"{\"reason\":\"r\",\"shard\":16}", 422, "/problems/invalid"),
    ];
    for (method, path, body, status, kind) in rows {
        let answered = house.ask(method, path, &[], body).await;
        assert_eq!(answered.status, status, "{method} {path}: {}", answered.body);
        assert_eq!(answered.headers["content-type"], "application/problem+json", "{method} {path}");
        let problem = answered.json();
        assert_eq!(problem["type"], kind, "{method} {path}");
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string() && problem["detail"].is_string() && problem["errors"].is_array(), "{problem}");
        assert_eq!(answered.headers["x-content-type-options"], "nosniff");
    }
}

#[tokio::test]
async fn probes_metrics_and_the_console_answer() {
    let house = house().await;
    assert_eq!(house.get("/healthz").await.status, 200);
    let ready = house.get("/readyz").await;
    assert_eq!((ready.status, &ready.json()["waiting_for"]), (503, &json!(["the broker"])));
    assert_eq!(house.get("/metrics").await.body, "curfew_up 1\n");
    assert_eq!(house.get("/openapi.json").await.json()["openapi"], "3.1.0");
    assert_eq!(house.post("/v1/jobs", &job()).await.status, 201);
    let page = house.get("/").await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.headers["content-security-policy"].starts_with("default-src 'none'"));
    assert!(page.body.contains("acme/renewal-reminder/R-1042/2026-12-01") && !page.body.contains("lovelace"));
    assert_eq!(house.get("/console.css").await.status, 200);
}

#[tokio::test]
async fn a_panic_becomes_a_problem_and_the_next_request_is_served() {
    let house = house_with(Vec::new(), Arc::new(|| panic!("a test's panic"))).await;
    let answered = house.get("/metrics").await;
    assert_eq!((answered.status, &answered.json()["type"]), (500, &json!("/problems/internal")));
    assert!(!answered.body.contains("a test's panic"));
    assert_eq!(house.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_a_503_and_repeating_is_invited() {
    let house = house().await;
    house.store.close().await.expect("closed");
    let answered = house.post("/v1/jobs", &job()).await;
    assert_eq!((answered.status, &answered.json()["type"]), (503, &json!("/problems/unavailable")), "{}", answered.body);
    assert_eq!(answered.headers["retry-after"], "1");
    let import = house.ask("POST", "/v1/jobs/import", &[], job().to_string().as_bytes()).await;
    assert!(
        import.status == 503 && import.json()["detail"].as_str().is_some_and(|d| d.contains("sending all of it again is safe")),
        "{}",
        import.body
    );
}
