//! The jobs of a rehearsal, and what should become of each.

use std::fmt::Write as _;

use curfew_testkit::mail_server::MailServer;
use serde_json::{Value, json};

use super::child::{End, until};
use super::report::{Report, Row};
use super::server::{REFUSED, SOFT};
use super::{Provider, signature};
use crate::cli::client::{Client, Path};
use crate::exit::Failure;

/// Signs the provider's event; lives as long as the rehearsal.
pub const EVENTS_SECRET: &str = "rehearsal";
/// Loses its worker after the server's 250 and before the receipt is stored.
pub const TENTH: &str = "lost-worker";
/// Apart from the ten.
pub const BEFORE: &str = "kill-before-intent";
/// Apart from the ten.
pub const AFTER: &str = "kill-after-intent";
/// Of the ten.
const ACCEPTED: u64 = 9;
const TENANT: &str = "rehearsal";
const PURPOSE: &str = "rehearsal";

/// Asks about the jobs over an API, until an end.
pub struct Cast<'a> {
    /// The API's.
    pub client: &'a Client,
    /// Whose log is the count.
    pub server: &'a MailServer,
    /// Whether it knows keys.
    pub provider: Provider,
    /// When waiting is over.
    pub end: &'a End,
}

/// The nine that need no kill: eight get 451 once, one is refused.
pub fn nine() -> Vec<String> {
    (1..=8).map(|n| format!("{SOFT}-{n}")).chain([REFUSED.to_owned()]).collect()
}

impl Cast<'_> {
    /// Hands jobs in; they run at once and may run for an hour.
    ///
    /// # Errors
    /// `Failure`, where one isn't accepted.
    pub fn submit(&self, subjects: &[String]) -> Result<(), Failure> {
        let lines = subjects.iter().fold(String::new(), |mut lines, subject| {
            let line = json!({
                "tenant": TENANT, "purpose": PURPOSE, "subject_ref": subject, "business_date": "2026-01-01",
                "to": {"address": format!("{subject}@rehearsal.example")},
                "content": {"subject": "Rehearsal", "text": "A rehearsal of Curfew. Nobody gets this."},
                "deadline_at": moment(now() + 3600),
            });
            let _infallible = writeln!(lines, "{line}");
            lines
        });
        let summary = self.client.import(&Path::of("/v1/jobs/import"), lines.into_bytes())?;
        if summary.get("accepted").and_then(Value::as_u64) == Some(subjects.len() as u64) {
            Ok(())
        } else {
            Err(Failure::refused(format!("the rehearsal's jobs are refused: {summary}")))
        }
    }

    /// Waits until each has ended, one way or the other.
    ///
    /// # Errors
    /// `Failure`, where nobody answers.
    pub fn await_ends(&self, subjects: &[String]) -> Result<(), Failure> {
        for subject in subjects {
            until(self.end, || Ok(matches!(word(&self.job(subject)?, "state"), "sent" | "dead_letter").then_some(())))?;
        }
        Ok(())
    }

    /// Waits for a state; where it doesn't come, the row shows what stands instead.
    ///
    /// # Errors
    /// `Failure`, where nobody answers.
    pub fn await_state(&self, subject: &str, state: &str) -> Result<(), Failure> {
        until(self.end, || Ok((word(&self.job(subject)?, "state") == state).then_some(())))?;
        Ok(())
    }

    /// Waits until the tenth is sent: by an event that answers the doubt from the server's own log, or by the key that the server knows.
    /// How many second submissions were avoided, or answered as duplicates.
    ///
    /// # Errors
    /// `Failure`, where nobody answers.
    pub fn settle_the_tenth(&self) -> Result<u64, Failure> {
        match self.provider {
            Provider::Forgets => {
                self.await_state(TENTH, "dead_letter")?;
                let suppressed = self.provider_says_accepted()?;
                self.await_state(TENTH, "sent")?;
                Ok(suppressed)
            }
            Provider::KnowsKeys => {
                self.await_state(TENTH, "sent")?;
                Ok(self.server.duplicates())
            }
        }
    }

    fn provider_says_accepted(&self) -> Result<u64, Failure> {
        let id = word(&self.job(TENTH)?, "id").to_owned();
        if self.server.accepted_per_job().get(&id).copied() != Some(1) {
            return Ok(0);
        }
        let now = now();
        let body = json!({"events": [{"type": "accepted", "job_id": id, "at": moment(now), "detail": "250 in the server's own log"}]}).to_string();
        let signed = signature::sign(EVENTS_SECRET.as_bytes(), now, &body);
        let answer = self.client.post_signed(&Path::of("/v1/provider-events").part("default"), body, &signed)?;
        Ok(answer.get("applied").and_then(Value::as_u64).unwrap_or(0))
    }

    /// The rows of the ten.
    ///
    /// # Errors
    /// `Failure`, where nobody answers.
    pub fn rows_of_the_ten(&self) -> Result<Vec<Row>, Failure> {
        let ten = nine().into_iter().chain([TENTH.to_owned()]);
        ten.map(|subject| {
            let (expected, job) = match (subject.as_str(), self.provider) {
                (REFUSED, _) => ("dead_letter permanent_failure, 1 attempt", "refused for good (550 5.1.1)".to_owned()),
                (TENTH, Provider::Forgets) => ("sent accepted, 1 attempt", "worker killed after the 250".to_owned()),
                (TENTH, Provider::KnowsKeys) => ("sent accepted, 2 attempts", "worker killed after the 250".to_owned()),
                (_soft, _) => ("sent accepted, 2 attempts", format!("451 once ({subject})")),
            };
            Ok(Row { job, expected: expected.to_owned(), found: self.found(&subject)? })
        })
        .collect()
    }

    /// Waits for the end of the job whose worker was killed before its intent: it costs an attempt, the next one sends it. Its row.
    ///
    /// # Errors
    /// `Failure`, where nobody answers.
    pub fn row_before(&self) -> Result<Row, Failure> {
        self.await_state(BEFORE, "sent")?;
        let job = "apart from the ten: killed before the intent".into();
        Ok(Row { job, expected: "sent accepted, 2 attempts".into(), found: self.found(BEFORE)? })
    }

    /// The same for a kill after the intent, which leaves a doubt: to a person, or to a provider that knows keys.
    ///
    /// # Errors
    /// `Failure`, where nobody answers.
    pub fn row_after(&self) -> Result<Row, Failure> {
        let (state, expected) = match self.provider {
            Provider::Forgets => ("dead_letter", "dead_letter reconciliation_required, 1 attempt"),
            Provider::KnowsKeys => ("sent", "sent accepted, 2 attempts"),
        };
        self.await_state(AFTER, state)?;
        Ok(Row { job: "apart from the ten: killed after the intent".into(), expected: expected.into(), found: self.found(AFTER)? })
    }

    /// Messages that the server accepted of the ten.
    ///
    /// # Errors
    /// `Failure`, where nobody answers.
    pub fn accepted_of_the_ten(&self) -> Result<u64, Failure> {
        let accepted = self.server.accepted_per_job();
        let mut sum = 0;
        for subject in nine().iter().map(String::as_str).chain([TENTH]) {
            sum += accepted.get(word(&self.job(subject)?, "id")).copied().map_or(0, u64::from);
        }
        Ok(sum)
    }

    fn job(&self, subject: &str) -> Result<Value, Failure> {
        self.client.get(Path::of("/v1/jobs").part(&format!("{TENANT}/{PURPOSE}/{subject}/2026-01-01")))
    }

    fn found(&self, subject: &str) -> Result<String, Failure> {
        let job = self.job(subject)?;
        let attempts = job.get("attempts").and_then(Value::as_u64).unwrap_or(0);
        Ok(format!("{} {}, {attempts} attempt{}", word(&job, "state"), word(&job, "reason"), if attempts == 1 { "" } else { "s" }))
    }
}

/// The table's last row, and whether all is as it should be.
pub fn judged(server: &MailServer, mut rows: Vec<Row>, accepted: u64, suppressed: u64) -> Report {
    let twice = server.accepted_per_job().values().filter(|n| **n > 1).count();
    rows.push(Row { job: "messages accepted twice".into(), expected: "0".into(), found: twice.to_string() });
    let ok = accepted == ACCEPTED && suppressed == 1 && rows.iter().all(|r| r.expected == r.found);
    Report { rows, accepted_at_server: accepted, duplicates_suppressed: suppressed, ok }
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn moment(seconds: u64) -> String {
    curfew_domain::Moment::from_millis(i64::try_from(seconds).unwrap_or(0).saturating_mul(1000)).rfc3339()
}

fn word<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}
