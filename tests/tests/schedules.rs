//! Recurring schedules as the whole binary answers them: `curfew try schedule` on every case that it can be asked.

use std::path::Path;

use curfew_domain::Moment;
use curfew_tests::process;
use serde_json::{Value, json};

/// Kinds that `try` is not asked (CONTRACT): scenarios, which the book's tests own.
const SCENARIOS: [&str; 3] = ["catch_up", "schedule_edit", "run_overlap"];

fn cases() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/recurrence_cases.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).expect("the cases can be read")).expect("the cases are JSON");
    let all = file["cases"].as_array().expect("cases are a list").iter().cloned();
    all.filter(|case| !SCENARIOS.iter().any(|kind| case["kind"] == *kind) && case.get("given").is_none()).collect()
}

fn instants(list: &Value, field: Option<&str>) -> Vec<Option<Moment>> {
    let value = |entry: &Value| field.map_or_else(|| entry.clone(), |field| entry[field].clone());
    let entries = list.as_array().expect("a list").iter();
    entries.map(|entry| value(entry).as_str().map(|text| Moment::parse(text).expect("RFC 3339"))).collect()
}

#[test]
fn try_schedule_answers_every_must_case_as_it_should() {
    let cases = cases();
    let lines: Vec<String> = cases.iter().map(Value::to_string).collect();
    let answers = process::run(&["try", "schedule"], lines.join("\n").as_bytes()).expect(0).lines();
    assert_eq!(answers.len(), cases.len());
    let mut asked = 0;
    for (case, answer) in cases.iter().zip(&answers).filter(|(case, _)| case["hard"] == "must") {
        asked += 1;
        if case["expected_verdict"].is_string() {
            assert!(answer["refused"].is_string() && answer["occurrences"] == json!([]), "{case} is answered with {answer}");
            continue;
        }
        let found = &answer["occurrences"];
        let (releases, dates) = (instants(found, Some("release_at")), found.as_array().expect("a list").iter().map(|o| &o["business_date"]));
        match case.get("expected") {
            Some(windows) => {
                assert_eq!(releases, instants(windows, Some("release_utc")), "{case}");
                assert_eq!(instants(found, Some("deadline_at")), instants(windows, Some("deadline_utc")), "{case}");
                let verdicts = windows.as_array().expect("a list").iter().map(|w| &w["verdict"]);
                assert!(found.as_array().expect("a list").iter().map(|o| &o["verdict"]).eq(verdicts), "{case} is answered with {answer}");
            }
            None => assert_eq!(releases, instants(&case["expected_utc"], None), "{case}"),
        }
        assert!(dates.eq(case["expected_business_dates"].as_array().expect("a list")), "{case} is answered with {answer}");
    }
    assert_eq!(asked, 226, "the cases that `try` can be asked and must answer");
}

#[test]
fn try_schedule_answers_each_line_once_whatever_it_holds() {
    let lines = [
        r#"{"cron":"30 8 * * 1-5","timezone":"America/New_York","start_utc":"2027-03-12T00:00:00Z","count":"2","deadline_local":"09:00","colour":1}"#,
        "not json",
        r#"{"cron":"0 9 31 2 *","timezone":"UTC"}"#,
        "{}",
    ];
    let answers = process::run(&["try", "schedule"], lines.join("\n").as_bytes()).expect(1).lines();
    assert_eq!(answers.len(), 4);
    let second = json!({"release_at": "2027-03-15T12:30:00.000Z", "deadline_at": "2027-03-15T13:00:00.000Z", "business_date": "2027-03-15",
        "send_date": "2027-03-15", "verdict": "ok"});
    assert_eq!((&answers[0]["occurrences"][1], &answers[0]["refused"]), (&second, &Value::Null));
    assert!(answers[1]["error"].is_string() && answers[2]["refused"].is_string() && answers[3]["error"].is_string());
}
