//! `try decision`: what follows from an outcome, under a policy that the line describes.

use std::time::Duration;

use curfew_domain::decide::{Decision, Latest, Provider, Question, Retry, decide};
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::{Moment, OutcomeClass, Reason};
use serde_json::{Value, json};

use super::try_lines::{Fields, whole};

/// Answers one line.
///
/// # Errors
/// The field that can't be read, and what is allowed.
pub fn answer(fields: &Fields) -> Result<Value, String> {
    let policy = policy(fields)?;
    let class = fields.read("outcome", "an outcome class", OutcomeClass::from_word)?.ok_or("outcome: is missing")?;
    let moment = |name| fields.read(name, "RFC 3339", Moment::parse);
    let question = Question {
        attempts_before: fields.read("attempt", "a whole number from 0", whole)?.unwrap_or(0),
        class,
        softened: false,
        retry_after: fields.read("retry_after_s", "seconds", seconds)?.filter(|s| *s > 0.0 && class == OutcomeClass::Throttled).map(duration),
        provider: if fields.truth("provider_idempotent")? { Provider::KnowsKeys } else { Provider::ForgetsKeys },
        configuration_met: 1,
        now: moment("now")?.ok_or("now: is missing")?,
        release_at: moment("release_at")?.unwrap_or(Moment::from_millis(i64::MIN)),
        deadline_at: moment("deadline_at")?,
        policy: &policy,
        jitter: 0.0,
    };
    Ok(match decide(&question) {
        Decision::Complete => ended("complete", Reason::Accepted),
        Decision::DeadLetter(reason) => ended("dead_letter", reason),
        Decision::AwaitSetUp => ended("retry", Reason::Configuration),
        Decision::Retry(retry) => again(&retry),
    })
}

fn ended(action: &str, reason: Reason) -> Value {
    json!({"action": action, "reason": reason.word(), "next_attempt_earliest": null, "next_attempt_latest": null, "latest_bound": null})
}

fn again(retry: &Retry) -> Value {
    let (latest, bound) = match retry.latest {
        Latest::Inclusive(at) => (at, "inclusive"),
        Latest::Exclusive(at) => (at, "exclusive"),
    };
    json!({
        "action": "retry",
        "reason": retry.reason.word(),
        "next_attempt_earliest": retry.earliest.rfc3339(),
        "next_attempt_latest": latest.rfc3339(),
        "latest_bound": bound,
    })
}

/// The line's policy; without a backoff the default's delays.
fn policy(fields: &Fields) -> Result<Policy, String> {
    let params = fields.text("backoff_params")?.unwrap_or_default();
    let backoff = match fields.text("backoff")?.as_deref() {
        None => Backoff::Delays(vec![Duration::from_secs(300), Duration::from_secs(600)]),
        Some("fixed") => Backoff::Delays(fixed(&params).ok_or("backoff_params: allowed: seconds with ; between them")?),
        Some("exponential") => exponential(&params).ok_or("backoff_params: allowed: base=…;cap=…;factor=… in seconds")?,
        Some(_) => return Err("backoff: allowed: fixed, exponential".into()),
    };
    let jitter_ms = |name| fields.read(name, "seconds", seconds).map(|s| (s.unwrap_or(0.0) * 1000.0).round() as i64);
    Ok(Policy {
        name: "try".into(),
        version: 1,
        backoff,
        max_attempts: fields.read("max_attempts", "a whole number from 1", |t| whole(t).filter(|n| *n > 0))?,
        jitter: Jitter { lo_ms: jitter_ms("jitter_lo_s")?, hi_ms: jitter_ms("jitter_hi_s")?, percent: None },
        at_deadline: AtDeadline::Review,
    })
}

fn fixed(params: &str) -> Option<Vec<Duration>> {
    params.split(';').map(str::trim).filter(|p| !p.is_empty()).map(|p| seconds(p).filter(|s| *s >= 0.0).map(duration)).collect()
}

fn exponential(params: &str) -> Option<Backoff> {
    let (mut base, mut factor, mut cap) = (None, None, None);
    for (name, value) in params.split(';').map(|p| p.split_once('=').unwrap_or((p, ""))) {
        let value = seconds(value.trim()).filter(|s| *s >= 0.0)?;
        match name.trim() {
            "base" => base = Some(duration(value)),
            "factor" => factor = Some(value),
            "cap" => cap = Some(duration(value)),
            _ => return None,
        }
    }
    Some(Backoff::Exponential { base: base?, factor: factor.unwrap_or(2.0), cap: cap.unwrap_or(Duration::MAX) })
}

fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|s: &f64| !s.is_nan())
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::try_lines::tests::{lines, rows, said};
    use crate::exit::Exit;

    #[test]
    fn every_row_of_the_policy_cases_is_decided_as_the_table_says() {
        let rows = rows(include_str!("../../../../tests/cases/policy_cases.csv"));
        let (answers, exit) = said(&lines(&rows), answer);
        assert_eq!((answers.len(), exit), (rows.len(), Exit::Done));
        for (row, said) in rows.iter().zip(&answers) {
            let id = &row["id"];
            assert_eq!(said["action"], row["expected_action"], "{id}");
            assert_eq!(said["reason"], row["expected_reason"], "{id}");
            for (answered, column) in [("next_attempt_earliest", "next_attempt_earliest"), ("next_attempt_latest", "next_attempt_latest")] {
                let expected = row[column].as_str().and_then(Moment::parse);
                assert_eq!(said[answered].as_str().and_then(Moment::parse), expected, "{id} {column}");
            }
            let bound = row["latest_bound"].as_str().filter(|b| !b.is_empty());
            assert_eq!(said["latest_bound"].as_str(), bound, "{id}");
        }
    }

    #[test]
    fn an_outcome_that_is_none_is_one_lines_error() {
        let (answers, exit) =
            said("{\"outcome\":\"lost\",\"now\":\"2027-01-05T13:30:00Z\"}\n{\"outcome\":\"accepted\",\"now\":\"2027-01-05T13:30:00Z\"}\n", answer);
        assert_eq!(answers[0], json!({"error": "outcome: allowed: an outcome class"}));
        assert_eq!((answers[1]["action"].as_str(), exit), (Some("complete"), Exit::Refused));
    }
}
