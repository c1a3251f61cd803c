//! The recorder and its text: installed once per process, served by whoever has an HTTP listener.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ::metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge};
use curfew_domain::Reason;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use super::catalogue::{ALL, Kind, Metric, TENANT_OLDEST_ELIGIBLE_AGE, Values};

/// Tenants in `tenant_oldest_eligible_age_seconds` (CONTRACT).
pub const TENANTS_WAITING_MAX: usize = 20;

static TENANTS_WAITING: Mutex<Vec<(String, Duration)>> = Mutex::new(Vec::new());

/// The metrics as text, for `GET /metrics`.
#[derive(Clone)]
pub struct Exposition(PrometheusHandle);

/// Why the recorder can't be installed.
#[derive(Debug, thiserror::Error)]
#[error("the metrics recorder can't be installed: {0}")]
pub struct InstallError(String);

/// Installs the recorder for this process; a second call gives the same exposition.
///
/// # Errors
/// Where another recorder was installed before.
pub fn install() -> Result<Exposition, InstallError> {
    static INSTALLED: OnceLock<Result<Exposition, String>> = OnceLock::new();
    INSTALLED.get_or_init(|| build().map_err(|e| e.to_string())).clone().map_err(InstallError)
}

fn build() -> Result<Exposition, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for metric in ALL.iter().filter(|m| m.kind == Kind::Histogram) {
        builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), metric.buckets)?;
    }
    let exposition = Exposition(builder.install_recorder()?);
    ALL.iter().for_each(describe);
    Ok(exposition)
}

/// Describes a metric, and begins it at zero where its labels are closed: an alert on a rate sees the first event only then.
fn describe(metric: &Metric) {
    match metric.kind {
        Kind::Counter => describe_counter!(metric.name, metric.help),
        Kind::Gauge => describe_gauge!(metric.name, metric.help),
        Kind::Histogram => describe_histogram!(metric.name, metric.help),
    }
    match (metric.kind, metric.labels) {
        (Kind::Counter, []) => counter!(metric.name).increment(0),
        (Kind::Gauge, []) => gauge!(metric.name).set(0.0),
        (Kind::Counter, [only]) => match only.values {
            Values::Closed(words) => words.iter().for_each(|word| counter!(metric.name, only.name => *word).increment(0)),
            // The domain's reasons are as closed, and a first dead letter is what an alert waits for.
            Values::Bounded(_) if only.name == "reason" => Reason::ALL.iter().for_each(|r| counter!(metric.name, "reason" => r.word()).increment(0)),
            Values::Bounded(_) => {}
        },
        (Kind::Counter | Kind::Gauge | Kind::Histogram, _) => {}
    }
}

/// Keeps the longest-waiting tenants; the exporter itself never forgets a label, so these lines are ours.
pub(super) fn set_tenants_waiting(mut ages: Vec<(String, Duration)>) {
    ages.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    ages.truncate(TENANTS_WAITING_MAX);
    *TENANTS_WAITING.lock().unwrap_or_else(PoisonError::into_inner) = ages;
}

impl Exposition {
    /// The text format, version 0.0.4.
    pub fn render(&self) -> String {
        let mut text = self.0.render();
        let waiting = TENANTS_WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let Metric { name, help, .. } = TENANT_OLDEST_ELIGIBLE_AGE;
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
        for (tenant, age) in waiting.iter() {
            let tenant = tenant.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            text.push_str(&format!("{name}{{tenant=\"{tenant}\"}} {}\n", age.as_secs_f64()));
        }
        text
    }

    /// Moves recorded histogram values into their buckets. To be called every few seconds: unscraped values take memory.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}
