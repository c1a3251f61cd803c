//! `curfew submit` against a door that the test holds.

mod fake_api;

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use fake_api::{Asked, FakeApi, curfew};
use serde_json::{Value, json};

fn job(n: usize) -> String {
    json!({"tenant": "acme", "purpose": "renewal", "subject_ref": format!("R-{n}"), "business_date": "2026-12-01"}).to_string()
}

fn accepted(asked: &Asked) -> (u16, String) {
    (200, json!({"accepted": asked.body.lines().count(), "duplicates": 0, "rejected": 0, "errors": []}).to_string())
}

fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("written");
    (dir, path.to_str().expect("UTF-8").to_owned())
}

fn summary(stdout: &[u8]) -> Value {
    let text = std::str::from_utf8(stdout).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "one object: {text}");
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_file_goes_in_chunks_of_500_and_its_errors_have_the_files_lines() {
    let api = FakeApi::start(|asked| {
        let at = asked.body.lines().position(|l| l.contains("\"R-700\""));
        match at {
            Some(at) => {
                let errors = json!([{"line": at + 1, "field": "to.address", "error": "is required"}]);
                (200, json!({"accepted": asked.body.lines().count() - 1, "duplicates": 0, "rejected": 1, "errors": errors}).to_string())
            }
            None => accepted(asked),
        }
    });
    let lines: Vec<String> = (1..=1200).map(job).collect();
    let (_dir, path) = file("jobs.ndjson", &format!("\n{}\n", lines.join("\n\n")));
    let out = api.curfew(&["submit", &path, "--zone", "Europe/Berlin"]);
    let expected =
        json!({"accepted": 1199, "duplicates": 0, "rejected": 1, "errors": [{"line": 1400, "field": "to.address", "error": "is required"}]});
    assert_eq!((summary(&out.stdout), out.status.code()), (expected, Some(1)), "{}", String::from_utf8_lossy(&out.stderr));
    let asked = api.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|a| a.body.lines().count() <= 500 && a.line == "POST /v1/jobs/import?zone=Europe%2FBerlin"), "{:?}", asked[0].line);
    assert!(asked.iter().all(|a| a.authorization.as_deref() == Some("Bearer sesame")));
}

#[test]
fn of_two_lines_with_one_key_the_earlier_is_answered_first() {
    static BUSY: Mutex<()> = Mutex::new(());
    static OTHERS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());
    let api = FakeApi::start(|asked| {
        if asked.body.contains("\"R-1\"") {
            let _busy = BUSY.try_lock().expect("the other lines of this key are not handed in before the answer");
            let others = OTHERS.0.lock().expect("not poisoned");
            drop(OTHERS.1.wait_timeout_while(others, Duration::from_secs(10), |n| *n < 2).expect("not poisoned"));
        } else {
            *OTHERS.0.lock().expect("not poisoned") += 1;
            OTHERS.1.notify_all();
        }
        accepted(asked)
    });
    let mut lines: Vec<String> = (1..=1500).map(job).collect();
    lines.extend((0..3).map(|_| job(1)));
    let (_dir, path) = file("jobs.ndjson", &lines.join("\n"));
    let out = api.curfew(&["submit", &path]);
    assert_eq!((summary(&out.stdout)["accepted"].as_u64(), out.status.code()), (Some(1503), Some(0)));
}

#[test]
fn csv_rows_become_nested_jobs_and_an_unknown_column_sends_nothing() {
    let api = FakeApi::start(accepted);
    let (_dir, path) = file("jobs.csv", "tenant,to.address,content.params.plan\nacme,ada@example.com,Gold\nacme,bob@example.com\n");
    let out = api.curfew(&["submit", &path]);
    let expected =
        json!({"accepted": 1, "duplicates": 0, "rejected": 1, "errors": [{"line": 3, "field": "line", "error": "has 2 cells; the header has 3"}]});
    assert_eq!((summary(&out.stdout), out.status.code()), (expected, Some(1)));
    assert_eq!(api.asked()[0].body, "{\"content\":{\"params\":{\"plan\":\"Gold\"}},\"tenant\":\"acme\",\"to\":{\"address\":\"ada@example.com\"}}\n");
    let (_dir, path) = file("jobs.csv", "tenant,to.adress\nacme,x\n");
    let out = api.curfew(&["submit", &path]);
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(summary(&out.stdout)["accepted"], 0);
    assert!(String::from_utf8_lossy(&out.stderr).contains("did you mean \"to.address\"?"));
    assert_eq!(api.asked().len(), 1);
}

#[test]
fn without_an_answer_the_object_is_printed_and_the_code_is_69() {
    let (_dir, path) = file("jobs.ndjson", &job(1));
    let out = curfew("http://127.0.0.1:1", &["submit", &path]);
    assert_eq!(summary(&out.stdout), json!({"accepted": 0, "duplicates": 0, "rejected": 0, "errors": []}));
    assert_eq!(out.status.code(), Some(69));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("refuses the connection") && said.contains("handing in the file again is safe"), "{said}");
    let busy = FakeApi::start(|_| (503, json!({"type": "/problems/unavailable", "detail": "the book doesn't answer"}).to_string()));
    let out = busy.curfew(&["submit", &path]);
    assert_eq!((out.status.code(), busy.asked().len()), (Some(75), 1), "nothing is repeated");
    let out = busy.curfew(&["submit", "/nonexistent.csv"]);
    assert_eq!((out.status.code(), busy.asked().len()), (Some(2), 1));
    let (_dir, path) = file("jobs.txt", &job(1));
    let out = busy.curfew(&["submit", &path]);
    assert_eq!((out.status.code(), busy.asked().len()), (Some(2), 1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("--format ndjson"));
}
