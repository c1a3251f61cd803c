//! `deploy/grafana`: what its panels ask.

use std::collections::BTreeSet;
use std::fs;

use curfew_telemetry::metrics::catalogue::ALL;
use serde_json::Value;

use crate::promql::names;
use crate::{names as catalogue, read, root, rules};

/// A panel's query.
pub struct Asked {
    pub place: String,
    pub query: String,
}

/// The dashboards, by file.
const BOARDS: [&str; 4] = ["fleet", "review", "tenant", "transport"];

fn board(name: &str) -> Value {
    serde_json::from_str(&read(&format!("deploy/grafana/{name}.json"))).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Every query, with Grafana's variables as they stand for a scrape each second and for all transports.
pub fn queries() -> Vec<Asked> {
    let mut all = Vec::new();
    for name in BOARDS {
        let board = board(name);
        for panel in board["panels"].as_array().expect("a dashboard has panels") {
            let targets = panel["targets"].as_array().expect("a panel has targets");
            assert!(!targets.is_empty(), "{name}: {} asks nothing", panel["title"]);
            all.extend(targets.iter().map(|target| Asked {
                place: format!("{name}: {}", panel["title"]),
                query: target["expr"].as_str().expect("a query").replace("$__rate_interval", "1m").replace("$transport", ".*"),
            }));
        }
    }
    all
}

#[test]
fn the_four_dashboards_use_the_catalogues_names_labels_and_words() {
    let found: BTreeSet<String> = fs::read_dir(root().join("deploy/grafana"))
        .expect("the folder is there")
        .filter_map(|entry| entry.expect("readable").file_name().to_string_lossy().strip_suffix(".json").map(str::to_owned))
        .collect();
    assert_eq!(found, BOARDS.map(str::to_owned).into());
    let recorded = catalogue::recorded();
    for Asked { place, query } in queries() {
        assert!(!names(&query).selectors.is_empty(), "{place}: {query}");
        // The variable stands for any transport.
        assert_eq!(catalogue::faults(&query, &recorded), Vec::<String>::new(), "{place}: {query}");
    }
    for name in BOARDS {
        for panel in board(name)["panels"].as_array().expect("panels") {
            assert!(panel["description"].as_str().is_some_and(|text| text.contains("Healthy:")), "{name}: {}", panel["title"]);
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name}: {}", panel["title"]);
        }
    }
    let templating = &board("transport")["templating"]["list"][1];
    let asked = templating["query"].as_str().and_then(|query| query.strip_prefix("label_values(")).unwrap_or_default();
    assert_eq!(asked, "curfew_circuit_open, transport)", "the variable's values are a metric's label");
}

#[test]
fn every_metric_of_the_catalogue_is_on_a_dashboard() {
    let queries = queries().into_iter().map(|asked| asked.query).chain(rules::rules().into_iter().filter(|r| !r.is_alert).map(|r| r.query));
    let shown: BTreeSet<&str> = queries
        .flat_map(|query| names(&query).selectors)
        .filter_map(|selector| catalogue::metric(&selector.metric).map(|metric| metric.name))
        .collect();
    let missing: Vec<&str> = ALL.iter().map(|metric| metric.name).filter(|name| !shown.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
