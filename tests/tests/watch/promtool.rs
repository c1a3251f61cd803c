//! W1: `promtool` on the files.

use std::process::Command;

use crate::root;

/// `promtool` in `deploy/prometheus`; what it said.
fn promtool(args: &[&str]) -> String {
    let ran = Command::new("promtool").args(args).current_dir(root().join("deploy/prometheus")).output();
    let ran = ran.expect("promtool runs: tests/run installs Debian's `prometheus`");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "promtool {args:?}: {said}");
    said
}

#[test]
fn promtool_takes_the_rules_and_the_scrape_configurations() {
    let said = promtool(&["check", "rules", "rules.yml"]);
    assert!(said.contains(&format!("SUCCESS: {} rules found", crate::rules::rules().len())), "{said}");
    promtool(&["check", "config", "prometheus.yml"]);
    // Its rules lie where Compose mounts them.
    promtool(&["check", "config", "--syntax-only", "../compose/prometheus.yml"]);
    assert!(crate::read("docker-compose.yml").contains("- ./deploy/prometheus/rules.yml:/etc/curfew/rules.yml:ro"));
    assert!(crate::read("deploy/compose/prometheus.yml").contains("rule_files: [/etc/curfew/rules.yml]"));
}

#[test]
fn each_alert_fires_on_its_fault_and_none_on_a_healthy_fleet() {
    for tests in crate::rules::TESTS {
        let said = promtool(&["test", "rules", tests.rsplit('/').next().unwrap_or_default()]);
        assert!(said.contains("SUCCESS"), "{said}");
    }
}
