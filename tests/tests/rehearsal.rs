//! The rehearsal that every operator can run: ten jobs, a built-in mail server, real kills. Its own log is the count.

use curfew_tests::process;
use serde_json::Value;

fn rehearsed(args: &[&str]) -> Value {
    let told = process::run(&[&["rehearse", "--json"], args].concat(), b"").expect(0).json();
    let rows = told["rows"].as_array().expect("rows are a list");
    assert!(rows.len() >= 12, "ten jobs and two kills: {told:#}");
    for row in rows {
        assert!(row["ok"] == true && row["job"].is_string() && row["expected"].is_string() && row["found"].is_string(), "{row}");
    }
    assert_eq!((&told["ok"], &told["accepted_at_server"], &told["duplicates_suppressed"]), (&true.into(), &9.into(), &1.into()), "{told:#}");
    told
}

fn ended(told: &Value, how: &str) -> usize {
    told["rows"].as_array().map_or(0, |rows| rows.iter().filter(|row| row["found"].as_str().is_some_and(|found| found.starts_with(how))).count())
}

#[test]
fn over_smtp_the_lost_receipt_is_found_by_an_event_and_nothing_is_sent_twice() {
    let told = rehearsed(&[]);
    assert!(ended(&told, "sent") >= 9, "eight retries and the one in doubt: {told:#}");
    assert_eq!(ended(&told, "dead_letter permanent_failure"), 1, "{told:#}");
}

#[test]
fn an_idempotent_transport_is_asked_again_under_the_same_key() {
    let told = rehearsed(&["--idempotent"]);
    assert_eq!(ended(&told, "dead_letter permanent_failure"), 1, "{told:#}");
}
