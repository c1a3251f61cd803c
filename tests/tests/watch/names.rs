//! Names, labels and words against the catalogue.

use std::collections::BTreeSet;

use curfew_domain::{OutcomeClass, Reason, State};
use curfew_telemetry::metrics::catalogue::{ALL, Kind, Label, Metric, Values};

use crate::promql::{Matcher, Selector, names};
use crate::rules;

/// What a scrape adds to every series.
pub const OF_THE_SCRAPE: [&str; 2] = ["instance", "job"];

/// The metric that a series is of: a histogram has three sorts.
pub fn metric(series: &str) -> Option<&'static Metric> {
    ALL.iter().find(|metric| {
        let rest = series.strip_prefix(metric.name);
        if metric.kind == Kind::Histogram { matches!(rest, Some("_bucket" | "_sum" | "_count")) } else { rest == Some("") }
    })
}

/// What is wrong with a query's names; `recorded` are names that rules make.
pub fn faults(query: &str, recorded: &BTreeSet<String>) -> Vec<String> {
    let named = names(query);
    let mut faults = Vec::new();
    let mut labels: BTreeSet<&str> = BTreeSet::from(OF_THE_SCRAPE);
    for selector in named.selectors.iter().filter(|selector| !recorded.contains(&selector.metric)) {
        let Some(metric) = metric(&selector.metric) else {
            faults.push(format!("{} is not in the catalogue", selector.metric));
            continue;
        };
        labels.extend(metric.labels.iter().map(|label| label.name).chain((metric.kind == Kind::Histogram).then_some("le")));
        faults.extend(selector.matchers.iter().filter_map(|matcher| fault(metric, matcher)));
    }
    faults
        .extend(named.grouping.iter().filter(|label| !labels.contains(label.as_str())).map(|label| format!("no metric there has the label {label}")));
    faults
}

fn fault(metric: &Metric, matcher: &Matcher) -> Option<String> {
    if OF_THE_SCRAPE.contains(&matcher.label.as_str()) {
        return None;
    }
    let Some(label) = metric.labels.iter().find(|label| label.name == matcher.label) else {
        return Some(format!("{} has no label {}", metric.name, matcher.label));
    };
    let unknown: Vec<&String> = matcher.words.iter().filter(|word| !may_be(label, word)).collect();
    (!unknown.is_empty()).then(|| format!("{} is never {}={unknown:?}", metric.name, label.name))
}

fn may_be(label: &Label, word: &str) -> bool {
    match (label.values, label.name) {
        (Values::Closed(words), _) => words.contains(&word),
        (Values::Bounded(_), "reason") => Reason::from_word(word).is_some(),
        (Values::Bounded(_), "state") => State::ALL.iter().any(|state| state.word() == word),
        (Values::Bounded(_), "outcome") => OutcomeClass::from_word(word).is_some(),
        (Values::Bounded(_), _) => true,
    }
}

/// Names of the recording rules.
pub fn recorded() -> BTreeSet<String> {
    rules::rules().into_iter().filter(|rule| !rule.is_alert).map(|rule| rule.name).collect()
}

#[test]
fn rules_use_the_catalogues_names_labels_and_words() {
    let recorded = recorded();
    for rule in rules::rules() {
        assert!(!names(&rule.query).selectors.is_empty() || rule.name == "curfew:slo_budget", "{}: {}", rule.name, rule.query);
        assert_eq!(faults(&rule.query, &recorded), Vec::<String>::new(), "{}: {}", rule.name, rule.query);
    }
}

#[test]
fn series_of_the_rules_tests_have_the_catalogues_labels_and_words() {
    let series = rules::series_of_tests();
    assert!(series.len() > 40, "{}", series.len());
    for series in series {
        let named = names(&series);
        let selectors: Vec<&Selector> = named.selectors.iter().collect();
        let [selector] = selectors[..] else { panic!("{series} is one series") };
        assert_eq!(faults(&series, &BTreeSet::new()), Vec::<String>::new(), "{series}");
        let own: BTreeSet<&str> = metric(&selector.metric).expect("it is in the catalogue").labels.iter().map(|label| label.name).collect();
        let has: BTreeSet<&str> = selector.matchers.iter().map(|matcher| matcher.label.as_str()).collect();
        assert_eq!(has, own.into_iter().chain(OF_THE_SCRAPE).collect(), "{series}");
    }
}

#[test]
fn a_name_a_label_and_a_word_that_nobody_tells_are_faults() {
    let none = BTreeSet::new();
    assert_eq!(faults("curfew_retry_total", &none), ["curfew_retry_total is not in the catalogue"]);
    assert_eq!(faults("sum by (tenant) (curfew_review_open)", &none), ["no metric there has the label tenant"]);
    assert_eq!(faults(r#"curfew_deadline_at_risk_jobs{within="2m"}"#, &none), [r#"curfew_deadline_at_risk_jobs is never within=["2m"]"#]);
    assert_eq!(faults(r#"curfew_review_open{reason=~"operator|tired"}"#, &none), [r#"curfew_review_open is never reason=["tired"]"#]);
    assert_eq!(faults("sum by (le) (rate(curfew_handoff_seconds_bucket[5m]))", &none), Vec::<String>::new());
}
