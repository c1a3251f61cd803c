//! T1 and T2: the catalogue as a golden file, and its exposition.

use std::fmt::Write;
use std::time::Duration;

use curfew_domain::{OutcomeClass, Reason};
use curfew_telemetry::metrics::catalogue::{ALL, Kind};
use curfew_telemetry::metrics::{self, Within};

#[test]
fn names_types_and_labels_are_those_of_the_golden_file() {
    let mut found = String::new();
    for metric in ALL {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels: Vec<&str> = metric.labels.iter().map(|l| l.name).collect();
        writeln!(found, "{} {kind} {{{}}}", metric.name, labels.join(",")).expect("a String takes all");
    }
    assert_eq!(found, include_str!("golden/metrics.txt"), "a metric's name is a promise to dashboards and alerts");
}

#[test]
fn every_metric_says_what_healthy_looks_like() {
    for metric in ALL {
        assert!(metric.help.contains("Healthy:"), "{}", metric.name);
        assert!(metric.name.starts_with("curfew_"), "{}", metric.name);
        assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
    }
}

#[test]
fn the_exposition_has_what_was_counted_and_zeros_for_closed_labels() {
    let exposition = metrics::install().expect("no other recorder");
    metrics::attempt(OutcomeClass::Accepted, "default");
    metrics::retry(Reason::Throttled);
    metrics::deadline_at_risk(Within::FiveMinutes, 3);
    metrics::release_lateness(Duration::from_millis(70));
    metrics::tenants_waiting((0..25).map(|n| (format!("t{n:02}"), Duration::from_secs(n))).collect());
    exposition.upkeep();
    let text = exposition.render();
    for line in [
        "curfew_attempts_total{outcome=\"accepted\",transport=\"default\"} 1",
        "curfew_retries_total{reason=\"throttled\"} 1",
        "curfew_deadline_at_risk_jobs{within=\"5m\"} 3",
        "curfew_release_lateness_seconds_bucket{le=\"0.05\"} 0",
        "curfew_release_lateness_seconds_bucket{le=\"0.1\"} 1",
        "curfew_wakeups_total{result=\"undecodable\"} 0",
        "curfew_republished_total 0",
        "curfew_dead_letters_total{reason=\"worker_lost\"} 0",
        "curfew_tenant_oldest_eligible_age_seconds{tenant=\"t24\"} 24",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    assert_eq!(text.lines().filter(|l| l.starts_with("curfew_tenant_oldest")).count(), 20);
    let again = metrics::install().expect("the same recorder");
    assert!(again.render().contains("curfew_retries_total{reason=\"throttled\"} 1"));
}
