//! What an operator watches a fleet with: alerts, runbooks and dashboards, held against the catalogue, against promtool, and against a Prometheus
//! that scrapes a running fleet.
//!
//! Promises
//! - W1  `promtool` takes the rules; each alert fires on its fault and is silent on a healthy fleet (`deploy/prometheus/tests*.yml`).
//! - W2  Rules, their tests and dashboards use names, labels and words of the catalogue, and no others.
//! - W3  Each alert has its runbook and each runbook its alert; every command in one runs on a running fleet and ends as is written there.
//! - W4  On a Prometheus that scraped a fleet every query of a dashboard and of a rule is answered, with data but for a named list.
//! - W5  A fleet whose workers stand still makes that Prometheus fire the alert on the oldest job.
//!
//! Not promised: thresholds. They are an operator's to move, and `tests*.yml` say what each does today.
//!
//! Needs Debian's `prometheus` (`tests/run` installs it). Read `promql.rs` first: how names are found in a query.

mod names;
mod promql;
mod promtool;
mod rules;

use std::fs;
use std::path::{Path, PathBuf};

/// The tree's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}
