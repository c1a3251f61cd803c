//! `deploy/runbooks`: one for each alert, and commands that do what is written there.

use std::collections::BTreeSet;
use std::fs;

use crate::{read, root, rules};

const FOLDER: &str = "deploy/runbooks";
const SECTIONS: [&str; 4] = ["## What it means", "## What to look at", "## What to do", "## What not to do"];

/// A line of a `sh` block.
pub struct Line {
    pub place: String,
    pub command: String,
    /// `# ends with N`, else 0.
    pub ends_with: i32,
    /// `# ends with N where …`: it may.
    pub or: Option<i32>,
}

fn runbooks() -> BTreeSet<String> {
    let files = fs::read_dir(root().join(FOLDER)).expect("the folder is there");
    let names = files.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "README.md").map(|name| format!("{FOLDER}/{name}")).collect()
}

/// Every command of every runbook, in order.
pub fn lines() -> Vec<Line> {
    let mut all = Vec::new();
    for place in runbooks() {
        let text = read(&place);
        for block in text.split("```sh\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            all.extend(block.lines().map(|line| parse(&place, line)));
        }
    }
    all
}

fn parse(place: &str, line: &str) -> Line {
    let (command, comment) = line.split_once(" #").unwrap_or((line, ""));
    let code = comment.split_once("ends with ").and_then(|(_, rest)| {
        let (code, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        Some((code.parse::<i32>().ok()?, rest.starts_with(" where")))
    });
    let (ends_with, or) = match code {
        Some((code, true)) => (0, Some(code)),
        Some((code, false)) => (code, None),
        None => (0, None),
    };
    Line { place: place.to_owned(), command: command.trim().to_owned(), ends_with, or }
}

#[test]
fn each_alert_has_its_runbook_and_each_runbook_its_alert() {
    let of_alerts: BTreeSet<String> = rules::alerts().into_iter().map(|alert| alert.annotations["runbook"].clone()).collect();
    assert_eq!(of_alerts, runbooks());
    for alert in rules::alerts() {
        let text = read(&alert.annotations["runbook"]);
        assert!(text.contains(&format!("`{}` · {}", alert.name, alert.labels["severity"])), "{} names its alert", alert.annotations["runbook"]);
    }
}

#[test]
fn each_runbook_says_what_it_means_what_to_do_and_what_not_and_holds_commands_where_they_are_run() {
    let all = runbooks();
    for place in &all {
        let text = read(place);
        let places: Vec<Option<usize>> = SECTIONS.iter().map(|section| text.find(section)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{place}: {places:?}");
        // A command in a sentence would be run by nobody but a reader.
        let prose: String = text.split("```").step_by(2).collect();
        assert!(!prose.contains("`curfew "), "{place}: a command stands in a sentence");
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(all.contains(&format!("{FOLDER}/{link}")), "{place}: {link} is no runbook");
        }
    }
    for replays in lines().into_iter().filter(|line| line.command.contains("review replay")) {
        let warned = read(&replays.place).split("## What not to do").nth(1).is_some_and(|text| text.contains("Don't replay"));
        assert!(warned, "{}: it replays, and says nothing of what not to", replays.place);
    }
}

#[test]
fn what_a_line_must_end_with_stands_behind_it() {
    let parsed = |line: &str| {
        let line = parse("x", line);
        (line.command, line.ends_with, line.or)
    };
    assert_eq!(parsed("curfew day"), ("curfew day".to_owned(), 0, None));
    assert_eq!(parsed("curfew day   # the figures"), ("curfew day".to_owned(), 0, None));
    assert_eq!(parsed("curfew day # ends with 75"), ("curfew day".to_owned(), 75, None));
    assert_eq!(parsed("curfew day # the figures; ends with 1 where it isn't 0"), ("curfew day".to_owned(), 0, Some(1)));
}
