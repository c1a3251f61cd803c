//! Verbs over HTTP, and local ones: what they ask, what they print, how they end.

mod fake_api;

use fake_api::{FakeApi, curfew};
use serde_json::{Value, json};

const ID: &str = "01936f00-0000-7000-8000-000000000001";

#[test]
fn a_list_follows_pages_up_to_its_limit() {
    let api = FakeApi::start(|asked| {
        let page = |from: u32, next: Option<&str>| json!({"items": [{"key": format!("acme/{from}")}, {"key": format!("acme/{}", from + 1)}], "next_cursor": next});
        let page = if asked.line.contains("cursor=b") { page(3, None) } else { page(1, Some("b")) };
        (200, page.to_string())
    });
    let out = api.curfew(&["jobs", "list", "--tenant", "a&b", "--limit", "3", "--json"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "{\"key\":\"acme/1\"}\n{\"key\":\"acme/2\"}\n{\"key\":\"acme/3\"}\n");
    let asked: Vec<String> = api.asked().into_iter().map(|a| a.line).collect();
    assert_eq!(asked, ["GET /v1/jobs?tenant=a%26b&limit=3", "GET /v1/jobs?tenant=a%26b&limit=1&cursor=b"]);
    let all = api.curfew(&["jobs", "list", "--limit", "0"]);
    assert_eq!(String::from_utf8_lossy(&all.stdout).lines().count(), 5, "a header and four");
    assert!(all.stderr.is_empty() && out.stderr.is_empty());
    let cut = api.curfew(&["jobs", "list", "--limit", "2"]);
    assert_eq!(String::from_utf8_lossy(&cut.stderr), "2 shown; --limit 0 for all\n");
    let empty = FakeApi::start(|_| (200, json!({"items": [], "next_cursor": null}).to_string()));
    assert_eq!(String::from_utf8_lossy(&empty.curfew(&["review", "list"]).stderr), "nothing to review\n");
    assert!(empty.curfew(&["review", "list", "--json"]).stderr.is_empty());
}

#[test]
fn a_review_item_is_shown_with_its_jobs_explanation_where_there_is_one() {
    let api = FakeApi::start(|asked| match asked.line.as_str() {
        "GET /v1/review/a" => (200, json!({"attempts": 1, "id": "a", "job_id": ID, "status": "open"}).to_string()),
        "GET /v1/review/b" => (200, json!({"id": "b", "job_id": "gone", "status": "open"}).to_string()),
        line if line.ends_with(ID) => (200, json!({"id": ID, "explanation": "It waits for a person."}).to_string()),
        _ => (404, "{}".into()),
    });
    let shown = |id: &str| String::from_utf8_lossy(&api.curfew(&["review", "show", id]).stdout).into_owned();
    assert_eq!(shown("a"), format!("id: a\njob_id: {ID}\nstatus: open\nexplanation: It waits for a person.\nattempts: 1\n"));
    assert_eq!(shown("b"), "id: b\njob_id: gone\nstatus: open\n");
}

#[test]
fn a_key_is_asked_for_its_id_before_a_change() {
    let api = FakeApi::start(|_| (200, json!({"id": ID, "state": "cancelled"}).to_string()));
    let out = api.curfew(&["jobs", "cancel", "acme/renewal/R-1/2026-12-01", "--reason", "wrong plan", "--json"]);
    assert_eq!((out.status.code(), serde_json::from_slice::<Value>(&out.stdout).expect("JSON")["state"].clone()), (Some(0), "cancelled".into()));
    let asked = api.asked();
    assert!(asked.iter().all(|a| a.authorization.as_deref() == Some("Bearer sesame")));
    assert_eq!(asked[0].line, "GET /v1/jobs/acme%2Frenewal%2FR-1%2F2026-12-01");
    assert_eq!((asked[1].line.clone(), asked[1].body.as_str()), (format!("POST /v1/jobs/{ID}/cancel"), "{\"reason\":\"wrong plan\"}"));
}

#[test]
fn problems_are_one_line_and_the_contracts_exit_code() {
    let api = FakeApi::start(|asked| {
        let problem = |status: u16, word: &str, detail: &str| {
            (status, json!({"type": format!("/problems/{word}"), "title": "T", "detail": detail}).to_string())
        };
        match asked.line.as_str() {
            line if line.contains("/replay") => problem(409, "not-yet", "the doubt rests until 10:15"),
            line if line.contains("/jobs/") => problem(404, "not-found", "there is no such job\u{1b}[2J"),
            _ => problem(409, "conflict", "it is being handed over"),
        }
    });
    let run = |args: &[&str]| {
        let out = api.curfew(args);
        assert!(out.stdout.is_empty());
        (out.status.code(), String::from_utf8_lossy(&out.stderr).trim_end().to_owned())
    };
    assert_eq!(run(&["review", "replay", ID, "--deadline", "+2h", "--reason", "x"]), (Some(75), "curfew: the doubt rests until 10:15 (409)".into()));
    assert_eq!(run(&["jobs", "show", "acme/x"]), (Some(1), "curfew: there is no such job\\u{1b}[2J (404)".into()));
    assert_eq!(run(&["review", "note", ID, "hm"]).0, Some(1));
    assert_eq!(run(&["jobs", "move", ID, "--release", "tomorrow", "--reason", "x"]).0, Some(2));
    assert_eq!(curfew("http://127.0.0.1:1", &["fleet", "status"]).status.code(), Some(69));
    assert_eq!(curfew("nonsense", &["fleet", "status"]).status.code(), Some(2));
    assert_eq!(curfew("x", &["no-such-verb"]).status.code(), Some(2));
}

#[test]
fn a_day_ends_with_1_unless_its_difference_is_0() {
    let day = |difference: i64| {
        move |_: &fake_api::Asked| {
            (200, json!({"date": "2026-12-01", "zone": "UTC", "accepted": 5, "sent": 5 - difference, "difference": difference}).to_string())
        }
    };
    let even = FakeApi::start(day(0));
    assert_eq!(even.curfew(&["day", "2026-12-01", "--tenant", "acme"]).status.code(), Some(0));
    assert_eq!(even.asked()[0].line, "GET /v1/days/2026-12-01?tenant=acme");
    assert_eq!(FakeApi::start(day(1)).curfew(&["day", "--json"]).status.code(), Some(1));
}

#[test]
fn several_replays_answer_with_one_object() {
    let api = FakeApi::start(|asked| if asked.line.contains("/b/") { (404, "{}".into()) } else { (200, json!({"generation": 2}).to_string()) });
    let out = api.curfew(&["review", "replay", "a", "b", "--deadline", "2026-12-01T09:00:00Z", "--reason", "x", "--dry-run", "--json"]);
    let answer: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!((answer["replayed"].as_u64(), answer["refused"].as_u64(), out.status.code()), (Some(1), Some(1), Some(1)));
    let body: Value = serde_json::from_str(&api.asked()[0].body).expect("JSON");
    assert_eq!(body, json!({"deadline_at": "2026-12-01T09:00:00.000Z", "reason": "x", "dry_run": true}));
}

#[test]
fn what_operators_and_keys_print_is_a_configuration_that_loads() {
    let out = curfew("http://127.0.0.1:1", &["operators", "new", "alice", "--roles", "view,review", "--tenants", "acme", "--json"]);
    let answer: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let keys = curfew("http://127.0.0.1:1", &["keys", "new"]);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("curfew.toml");
    let text = format!("{}{}", answer["config"].as_str().expect("lines"), String::from_utf8_lossy(&keys.stdout));
    std::fs::write(&path, &text).expect("written");
    let shown = curfew("http://127.0.0.1:1", &["config", "show", "--config", path.to_str().expect("UTF-8"), "--json"]);
    assert_eq!(shown.status.code(), Some(0), "{}", String::from_utf8_lossy(&shown.stderr));
    let said = String::from_utf8_lossy(&shown.stdout);
    assert!(said.contains("operators.alice.roles") && said.contains("view, review"), "{said}");
    for secret in text.lines().filter_map(|l| l.split('"').nth(1)).filter(|v| v.len() >= 40) {
        assert!(!said.contains(secret), "a secret is shown");
    }
    assert_eq!(curfew("x", &["operators", "new", "a@b"]).status.code(), Some(2));
}

#[test]
fn a_wrong_configuration_is_one_line_a_fault_and_ends_with_2() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("curfew.toml");
    std::fs::write(&path, "[worker]\nlease = \"1s\"\nconcurency = 4\n").expect("written");
    let out = curfew("x", &["config", "show", "--config", path.to_str().expect("UTF-8")]);
    let says = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), says.lines().count(), out.stdout.len()), (Some(2), 2, 0), "{says}");
    assert!(says.contains("curfew.toml:3: worker.concurency: unknown key; did you mean worker.concurrency?"), "{says}");
}

#[test]
fn try_answers_a_file_and_an_unreadable_one_ends_with_2() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("lines");
    std::fs::write(&path, "{\"address\":\"ada@example.com\"}\nnonsense\n").expect("written");
    let out = curfew("x", &["try", "address", path.to_str().expect("UTF-8")]);
    let lines: Vec<Value> = String::from_utf8_lossy(&out.stdout).lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!((lines[0]["accepted"].clone(), lines[1].get("error").is_some(), out.status.code()), (true.into(), true, Some(1)));
    assert_eq!(curfew("x", &["try", "address", "/nonexistent"]).status.code(), Some(2));
}
