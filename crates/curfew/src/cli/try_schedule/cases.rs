//! Every case of `recurrence_cases.json` through the verb itself, and the alternates that a schedule may choose.

use std::collections::BTreeMap;

use curfew_domain::Moment;
use serde_json::{Map, Value, json};

use super::answer;
use crate::cli::try_lines::tests::{lines, said};
use crate::exit::Exit;

/// Kinds that need a schedule with a past: `content/tests/schedule_scenarios.rs` owns them.
const SCENARIOS: [&str; 3] = ["catch_up", "schedule_edit", "run_overlap"];
/// What an answer is, and never goes in.
const ANSWERS: [&str; 12] = [
    "expected",
    "expected_utc",
    "expected_local",
    "expected_business_dates",
    "expected_send_dates",
    "expected_verdict",
    "expected_action_when_invalid",
    "known_bad_if_deadline_is_release_plus_duration",
    "alternates",
    "also_expected_under",
    "materialised_utc",
    "changed_business_dates",
];

fn cases() -> Vec<Map<String, Value>> {
    let file: Value = serde_json::from_str(include_str!("../../../../../tests/cases/recurrence_cases.json")).expect("JSON");
    file["cases"].as_array().expect("cases").iter().map(|c| c.as_object().expect("an object").clone()).collect()
}

fn is_scenario(case: &Map<String, Value>) -> bool {
    SCENARIOS.iter().any(|kind| case["kind"] == *kind) || case.contains_key("given")
}

fn question(case: &Map<String, Value>) -> Map<String, Value> {
    case.iter().filter(|(name, _)| !ANSWERS.contains(&name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn instant(value: &Value) -> Option<Moment> {
    value.as_str().map(|text| Moment::parse(text).expect("RFC 3339"))
}

fn instants(list: &Value) -> Vec<Option<Moment>> {
    list.as_array().expect("a list").iter().map(instant).collect()
}

fn column(said: &Value, name: &str) -> Vec<Value> {
    said["occurrences"].as_array().expect("a list").iter().map(|o| o[name].clone()).collect()
}

/// What is wrong with an answer; nothing where it is the one expected.
fn wrong(expected: &Map<String, Value>, said: &Value) -> Option<String> {
    if let Some(verdict) = expected.get("expected_verdict") {
        let good = said["refused"].is_string() && said["occurrences"] == json!([]);
        return (!good).then(|| format!("{verdict} is expected"));
    }
    if !said["refused"].is_null() {
        return Some("it is refused".into());
    }
    if let Some(windows) = expected.get("expected") {
        let windows = windows.as_array().expect("a list");
        let same = |name: &str, found: &str| column(said, found).iter().map(instant).eq(windows.iter().map(|w| instant(&w[name])));
        let text = |name: &str| column(said, name).iter().eq(windows.iter().map(|w| &w[name]));
        let good = same("release_utc", "release_at") && same("deadline_utc", "deadline_at") && text("verdict") && text("business_date");
        return (!good).then(|| "another window".into());
    }
    let releases: Vec<_> = column(said, "release_at").iter().map(instant).collect();
    let dates = |name: &str, found: &str| expected.get(name).is_none_or(|list| list.as_array().expect("a list") == &column(said, found));
    let ok = column(said, "verdict").iter().all(|v| v == "ok");
    let good = releases == instants(&expected["expected_utc"]) && dates("expected_business_dates", "business_date");
    (!(good && ok && dates("expected_send_dates", "send_date"))).then(|| "other occurrences".into())
}

#[test]
fn every_case_that_is_no_scenario_is_answered_as_the_file_says() {
    let (asked, left): (Vec<_>, Vec<_>) = cases().into_iter().partition(|c| !is_scenario(c));
    let (answers, exit) = said(&lines(&asked.iter().map(question).collect::<Vec<_>>()), answer);
    assert_eq!((answers.len(), exit), (asked.len(), Exit::Done));
    let mut counted: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let mut failed = Vec::new();
    for (case, said) in asked.iter().zip(&answers) {
        let kind = format!("{} ({})", case["kind"].as_str().expect("a kind"), case["hard"].as_str().expect("must or probe"));
        let fault = wrong(case, said);
        let count = counted.entry(kind).or_default();
        *if fault.is_none() { &mut count.0 } else { &mut count.1 } += 1;
        // W is not of our dialect: the file asks which dialect a product speaks, and ours refuses it.
        if let Some(fault) = fault
            && case["kind"] != "cron_ext_W"
        {
            failed.push(format!("{}: {fault}: {said}", case["id"]));
        }
    }
    let mut scenarios: BTreeMap<&str, u32> = BTreeMap::new();
    left.iter().for_each(|c| *scenarios.entry(c["kind"].as_str().expect("a kind")).or_default() += 1);
    println!("as expected, otherwise: {counted:#?}\nleft to the scenarios' tests: {scenarios:#?}");
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(left.len(), 17, "a scenario is left to its own tests, and to no one else's");
}

/// The file lists what another choice in gaps and overlaps gives; a schedule may make that choice.
#[test]
fn every_alternate_of_a_choice_that_a_schedule_has_is_answered_as_the_file_says() {
    let (mut asked, mut expected) = (Vec::new(), Vec::new());
    for case in cases().iter().filter(|c| !is_scenario(c)) {
        let own = case.get("also_expected_under").and_then(Value::as_array).into_iter().flatten().map(|policy| (policy, case));
        let alternates = case.get("alternates").and_then(Value::as_array).into_iter().flatten();
        let alternates =
            alternates.flat_map(|a| a["policies"].as_array().expect("a list").iter().map(move |p| (p, a.as_object().expect("an object"))));
        for (policy, answer) in own.chain(alternates) {
            if policy.get("gap").is_none() || policy["overlap"] == "both" {
                continue;
            }
            let mut line = question(case);
            line.insert("gap_policy".into(), policy["gap"].clone());
            line.insert("overlap_policy".into(), policy["overlap"].clone());
            asked.push(line);
            expected.push(answer.clone());
        }
    }
    let (answers, exit) = said(&lines(&asked), answer);
    assert_eq!((answers.len(), exit), (asked.len(), Exit::Done));
    assert!(asked.len() > 200, "{} alternates", asked.len());
    let faults = asked.iter().zip(&expected).zip(&answers).filter_map(|((line, expected), said)| {
        wrong(expected, said).map(|fault| format!("{} {} {}: {fault}: {said}", line["id"], line["gap_policy"], line["overlap_policy"]))
    });
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{faults:#?}");
}
