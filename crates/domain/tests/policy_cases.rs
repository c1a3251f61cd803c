//! Every row of `tests/cases/policy_cases.csv`, and rows of our own for the classes it doesn't have.

use std::time::Duration;

use curfew_domain::decide::{Decision, Provider, Question, Retry, decide};
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::{Moment, OutcomeClass};

const CASES: &str = include_str!("../../../tests/cases/policy_cases.csv");

/// Columns as in the file, less `profile`, `documented_alternative`, `hand_written` and `why`; with the configuration outcomes met at the end.
const OWN: &str = "\
id,attempt,outcome,provider_idempotent,retry_after_s,backoff,backoff_params,jitter_lo_s,jitter_hi_s,now,release_at,deadline_at,max_attempts,configuration_met,expected_action,expected_reason,next_attempt_earliest,next_attempt_latest,latest_bound
S1,0,suppressed,false,,fixed,300;600,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,,0,dead_letter,recipient_suppressed,,,
S2,7,suppressed,true,,fixed,300;600,0,30,2027-01-05T14:30:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,,0,dead_letter,recipient_suppressed,,,
S3,0,suppressed,false,60,exponential,base=60;factor=2;cap=900,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,,6,0,dead_letter,recipient_suppressed,,,
C1,0,configuration,false,,fixed,300;600,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,,1,retry,configuration,,,
C2,0,configuration,false,,fixed,300;600,0,0,2027-01-05T13:59:59.999Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,,2,retry,configuration,,,
C3,0,configuration,false,,fixed,300;600,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,,3,dead_letter,configuration,,,
C4,0,configuration,false,,fixed,300;600,0,0,2027-01-05T14:00:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,,1,dead_letter,business_deadline_reached,,,
C5,9,configuration,false,,fixed,300;600,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,,1,retry,configuration,,,
C6,0,configuration,true,,fixed,300;600,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,,,1,retry,configuration,,,
N1,0,transient,false,,fixed,1,0,0,2027-01-05T13:29:00Z,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,,0,dead_letter,business_deadline_reached,,,
N2,0,transient,false,,fixed,1,3600,3600,2027-01-05T13:29:00Z,2027-01-05T13:29:30Z,2027-01-05T13:30:00Z,,0,retry,transient_failure,2027-01-05T13:29:30Z,2027-01-05T13:30:00Z,exclusive
N3,500,transient,false,,exponential,base=60;factor=2;cap=900,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,,0,retry,transient_failure,2027-01-05T13:45:00Z,2027-01-05T13:45:00Z,inclusive
N4,5000,transient,false,,exponential,base=0;factor=2;cap=900,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,9999,0,retry,transient_failure,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,inclusive
N5,0,transient,false,,exponential,base=60;factor=2;cap=900,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,0,0,dead_letter,retry_budget_exhausted,,,
N6,0,ambiguous,true,600,fixed,300,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,,0,retry,transient_failure,2027-01-05T13:35:00Z,2027-01-05T13:35:00Z,inclusive
N7,1,ambiguous,true,,fixed,300,0,0,2027-01-05T13:30:00Z,2027-01-05T13:30:00Z,2027-01-05T14:00:00Z,,0,dead_letter,reconciliation_required,,,
";

struct Row {
    names: csv::StringRecord,
    cells: csv::StringRecord,
}

impl Row {
    fn cell(&self, name: &str) -> &str {
        self.names.iter().position(|n| n == name).map_or("", |at| &self.cells[at])
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.cell(name).parse().ok()
    }

    fn moment(&self, name: &str) -> Option<Moment> {
        Moment::parse(self.cell(name))
    }

    fn policy(&self) -> Policy {
        let params = self.cell("backoff_params");
        let named =
            |name: &str| params.split(';').find_map(|p| p.strip_prefix(name)?.strip_prefix('=')?.parse::<f64>().ok()).expect("a named parameter");
        let backoff = match self.cell("backoff") {
            "fixed" => Backoff::Delays(params.split(';').map(|p| Duration::from_secs_f64(p.parse().expect("seconds"))).collect()),
            "exponential" => Backoff::Exponential {
                base: Duration::from_secs_f64(named("base")),
                factor: named("factor"),
                cap: Duration::from_secs_f64(named("cap")),
            },
            other => panic!("unknown backoff {other}"),
        };
        let ms = |name: &str| (self.number::<f64>(name).expect("seconds") * 1000.0) as i64;
        let jitter = Jitter { lo_ms: ms("jitter_lo_s"), hi_ms: ms("jitter_hi_s"), percent: None };
        Policy { name: "case".into(), version: 1, backoff, max_attempts: self.number("max_attempts"), jitter, at_deadline: AtDeadline::Review }
    }

    fn answer(&self, jitter: f64) -> Decision {
        decide(&Question {
            attempts_before: self.number("attempt").expect("a count"),
            class: OutcomeClass::from_word(self.cell("outcome")).expect("a class"),
            softened: false,
            retry_after: self.number::<i64>("retry_after_s").and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs),
            provider: if self.cell("provider_idempotent") == "true" { Provider::KnowsKeys } else { Provider::ForgetsKeys },
            configuration_met: self.number("configuration_met").unwrap_or(0),
            now: self.moment("now").expect("a moment"),
            release_at: self.moment("release_at").expect("a moment"),
            deadline_at: self.moment("deadline_at"),
            policy: &self.policy(),
            jitter,
        })
    }

    fn fault(&self, jitter: f64) -> Option<String> {
        let answer = self.answer(jitter);
        let as_expected = answer.action() == self.cell("expected_action")
            && answer.reason().word() == self.cell("expected_reason")
            && match &answer {
                Decision::Retry(retry) => self.times_hold(retry),
                Decision::Complete | Decision::AwaitSetUp | Decision::DeadLetter(_) => self.cell("next_attempt_earliest").is_empty(),
            };
        (!as_expected).then(|| format!("{} at jitter {jitter}: {answer:?}", self.cell("id")))
    }

    fn times_hold(&self, retry: &Retry) -> bool {
        let latest = self.moment("next_attempt_latest").expect("a moment");
        let in_bounds = retry.at >= retry.earliest && if retry.latest.bound() == "exclusive" { retry.at < latest } else { retry.at <= latest };
        Some(retry.earliest) == self.moment("next_attempt_earliest")
            && retry.latest.moment() == latest
            && retry.latest.bound() == self.cell("latest_bound")
            && in_bounds
    }
}

fn check(table: &str, rows_min: usize) {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let names = reader.headers().expect("a header").clone();
    let rows: Vec<Row> = reader.records().map(|r| Row { names: names.clone(), cells: r.expect("a row") }).collect();
    assert!(rows.len() >= rows_min, "{} rows", rows.len());
    let wrong: Vec<String> = rows.iter().flat_map(|row| [0.0, 0.5, 1.0].into_iter().filter_map(|jitter| row.fault(jitter))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_row_of_the_policy_cases_is_decided_as_written() {
    check(CASES, 100);
}

#[test]
fn suppressed_and_configuration_and_our_own_corners_are_decided_as_written() {
    check(OWN, 16);
}
