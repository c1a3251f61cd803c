//! What an operator watches a fleet with: alerts, runbooks and dashboards, held against the catalogue and against promtool.
//!
//! Promises
//! - W1  `promtool` takes the rules; each alert fires on its fault and is silent on a healthy fleet (`deploy/prometheus/tests*.yml`).
//! - W2  Rules, their tests and dashboards use names, labels and words of the catalogue, and no others.
//! - W3  Each alert has its runbook and each runbook its alert, with its four sections and its commands in blocks.
//!
//! Not promised: that the commands run, nor that a fleet tells what is asked; thresholds. They are an operator's to move, and `tests*.yml` say what each does today.
//!
//! Needs Debian's `prometheus` (`tests/run` installs it). Read `promql.rs` first: how names are found in a query.

mod dashboards;
mod names;
mod promql;
mod promtool;
mod rules;
mod runbooks;

use std::fs;
use std::path::{Path, PathBuf};

/// The tree's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}
