//! `deploy/prometheus/rules.yml` and its tests, read as the lines that they are.

use std::collections::{BTreeMap, BTreeSet};

use crate::read;

pub const RULES: &str = "deploy/prometheus/rules.yml";
pub const TESTS: [&str; 2] = ["deploy/prometheus/tests.yml", "deploy/prometheus/tests-burn.yml"];

/// A rule.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    pub name: String,
    pub is_alert: bool,
    pub query: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// Every rule, in order.
pub fn rules() -> Vec<Rule> {
    let mut all: Vec<Rule> = Vec::new();
    let mut part = "";
    let text = read(RULES);
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let (indent, line) = (line.len() - line.trim_start().len(), line.trim());
        let begins = ["- record: ", "- alert: "].iter().find_map(|key| Some((*key, line.strip_prefix(key)?)));
        if let Some((key, name)) = begins {
            all.push(Rule { name: name.to_owned(), is_alert: key == "- alert: ", ..Rule::default() });
            part = "";
        }
        let Some(rule) = all.last_mut() else { continue };
        match (indent, part) {
            (8, _) => {
                part = line.split(':').next().unwrap_or_default();
                let value = line[part.len() + 1..].trim();
                match part {
                    "expr" => value.trim_end_matches('>').clone_into(&mut rule.query),
                    "labels" => rule.labels = value.trim_matches(['{', '}', ' ']).split(", ").filter_map(pair).collect(),
                    _other => {}
                }
            }
            (10.., "expr") => rule.query = format!("{} {line}", rule.query).trim().to_owned(),
            (10.., "annotations") => rule.annotations.extend(pair(line)),
            _else => {}
        }
    }
    all
}

/// Every alert.
pub fn alerts() -> Vec<Rule> {
    rules().into_iter().filter(|rule| rule.is_alert).collect()
}

fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once(": ")?;
    Some((key.to_owned(), value.trim_matches('\'').to_owned()))
}

/// Series that the tests of the rules are made of, as they are written.
pub fn series_of_tests() -> BTreeSet<String> {
    let text = TESTS.map(read).concat();
    text.lines().filter_map(|line| Some(line.trim().strip_prefix("- series: '")?.strip_suffix('\'')?.to_owned())).collect()
}

/// How often each alert is expected, and how often expected not to fire.
fn expectations() -> BTreeMap<String, (u32, u32)> {
    let text = TESTS.map(read).concat();
    let mut counted: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let mut alert = "";
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("alertname: ") {
            alert = name;
        } else if let Some(list) = line.strip_prefix("exp_alerts:") {
            let (fires, silent) = counted.entry(alert.to_owned()).or_default();
            *if list.trim() == "[]" { silent } else { fires } += 1;
        }
    }
    counted
}

#[test]
fn each_alert_is_tested_on_its_fault_and_on_a_healthy_fleet() {
    let counted = expectations();
    let names: BTreeSet<String> = alerts().into_iter().map(|alert| alert.name).collect();
    assert_eq!(counted.keys().cloned().collect::<BTreeSet<_>>(), names, "tests and rules name the same alerts");
    for (name, (fires, silent)) in counted {
        assert!(fires > 0 && silent > 0, "{name}: fires in {fires} tests, is silent in {silent}");
    }
}

/// A page wakes somebody: these four, and never for one failed attempt.
#[test]
fn four_alerts_page_and_the_rest_are_tickets_with_an_owner_and_a_reason() {
    let alerts = alerts();
    assert_eq!(alerts.len(), read(RULES).matches("- alert: ").count());
    let pages: BTreeSet<&str> = alerts.iter().filter(|a| a.labels["severity"] == "page").map(|a| a.name.as_str()).collect();
    assert_eq!(pages, BTreeSet::from(["CurfewDayDifference", "CurfewDeadlineImminent", "CurfewShardRecoveringLong", "CurfewSloBurnFast"]));
    for alert in &alerts {
        let severity = &alert.labels["severity"];
        assert!(["page", "ticket"].contains(&severity.as_str()), "{}: {severity}", alert.name);
        assert!(["platform", "support"].contains(&alert.labels["owner"].as_str()), "{}", alert.name);
        assert!(alert.labels.contains_key("reason") || alert.query.contains("by (reason)"), "{} has no reason to be grouped by", alert.name);
        for annotation in ["summary", "description", "runbook"] {
            assert!(alert.annotations.get(annotation).is_some_and(|text| !text.is_empty()), "{} has no {annotation}", alert.name);
        }
    }
}
