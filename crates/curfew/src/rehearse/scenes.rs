//! The scenes: ten jobs and a killed worker, then a kill before an intent and a kill after one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use curfew_testkit::mail_server::MailServer;
use serde_json::{Value, json};

use super::child::{Up, until};
use super::report::{Report, Row};
use super::server::{REFUSED, SOFT};
use super::{Provider, signature};
use crate::cli::client::Path as Route;
use crate::exit::Failure;

/// Signs the provider's event; lives as long as the rehearsal.
pub const EVENTS_SECRET: &str = "rehearsal";
const TENANT: &str = "rehearsal";
const PURPOSE: &str = "rehearsal";
const TENTH: &str = "lost-worker";
const BEFORE: &str = "kill-before-intent";
const AFTER: &str = "kill-after-intent";

/// Plays everything; the server's log is the judge.
///
/// # Errors
/// `Failure`, where a process doesn't start or answer.
pub fn play(folder: &Path, server: &MailServer, provider: Provider, end: Instant) -> Result<Report, Failure> {
    let config = write_config(folder, server, provider)?;
    let mut rows = Vec::new();
    let stage = Stage { folder, config: &config, server, provider, end };
    let (accepted, suppressed) = stage.ten_jobs(&mut rows)?;
    stage.kill_before(&mut rows)?;
    stage.kill_after(&mut rows)?;
    let expected_accepted = 9;
    let twice = server.accepted_per_job().values().filter(|n| **n > 1).count();
    rows.push(Row { job: "messages accepted twice".into(), expected: "0".into(), found: twice.to_string() });
    let ok = accepted == expected_accepted && suppressed == 1 && rows.iter().all(|r| r.expected == r.found);
    Ok(Report { rows, accepted_at_server: accepted, duplicates_suppressed: suppressed, ok })
}

struct Stage<'a> {
    folder: &'a Path,
    config: &'a Path,
    server: &'a MailServer,
    provider: Provider,
    end: Instant,
}

impl Stage<'_> {
    fn up(&self, pauses: &[String]) -> Result<Up, Failure> {
        Up::start(self.folder, self.config, pauses, self.end)
    }

    /// Eight get 451 once, one is refused, one loses its worker after the server's 250 and before the receipt is stored.
    fn ten_jobs(&self, rows: &mut Vec<Row>) -> Result<(u64, u64), Failure> {
        let up = self.up(&[format!("after-verdict={TENTH}")])?;
        let mut subjects: Vec<String> = (1..=8).map(|n| format!("{SOFT}-{n}")).collect();
        subjects.extend([REFUSED.to_owned(), TENTH.to_owned()]);
        submit(&up, &subjects)?;
        up.paused(TENTH, self.end)?;
        self.await_states(&up, &subjects[..9])?;
        up.kill();

        let up = self.up(&[])?;
        let mut suppressed = 0;
        match self.provider {
            Provider::Forgets => {
                self.await_state(&up, TENTH, "dead_letter")?;
                suppressed = self.provider_says_accepted(&up)?;
                self.await_state(&up, TENTH, "sent")?;
            }
            Provider::KnowsKeys => {
                self.await_state(&up, TENTH, "sent")?;
                suppressed += self.server.duplicates();
            }
        }
        for subject in &subjects {
            let (expected, job) = match subject.as_str() {
                REFUSED => ("dead_letter permanent_failure, 1 attempt", "refused for good (550 5.1.1)".to_owned()),
                TENTH if self.provider == Provider::Forgets => ("sent accepted, 1 attempt", "worker killed after the 250".to_owned()),
                TENTH => ("sent accepted, 2 attempts", "worker killed after the 250".to_owned()),
                _soft => ("sent accepted, 2 attempts", format!("451 once ({subject})")),
            };
            rows.push(Row { job, expected: expected.to_owned(), found: found(&up, subject)? });
        }
        up.kill();
        Ok((self.server.accepted_count(), suppressed))
    }

    /// The kill before the intent costs an attempt; the job is sent by the next one.
    fn kill_before(&self, rows: &mut Vec<Row>) -> Result<(), Failure> {
        let up = self.up(&[format!("before-intent={BEFORE}")])?;
        submit(&up, &[BEFORE.to_owned()])?;
        up.paused(BEFORE, self.end)?;
        up.kill();
        let up = self.up(&[])?;
        self.await_state(&up, BEFORE, "sent")?;
        rows.push(Row {
            job: "apart from the ten: killed before the intent".into(),
            expected: "sent accepted, 2 attempts".into(),
            found: found(&up, BEFORE)?,
        });
        up.kill();
        Ok(())
    }

    /// The kill after the intent leaves a doubt: to a person, or to a provider that knows keys.
    fn kill_after(&self, rows: &mut Vec<Row>) -> Result<(), Failure> {
        let up = self.up(&[format!("after-intent={AFTER}")])?;
        submit(&up, &[AFTER.to_owned()])?;
        up.paused(AFTER, self.end)?;
        up.kill();
        let up = self.up(&[])?;
        let (state, expected) = match self.provider {
            Provider::Forgets => ("dead_letter", "dead_letter reconciliation_required, 1 attempt"),
            Provider::KnowsKeys => ("sent", "sent accepted, 2 attempts"),
        };
        self.await_state(&up, AFTER, state)?;
        rows.push(Row { job: "apart from the ten: killed after the intent".into(), expected: expected.into(), found: found(&up, AFTER)? });
        up.kill();
        Ok(())
    }

    fn await_states(&self, up: &Up, subjects: &[String]) -> Result<(), Failure> {
        for subject in subjects {
            until(self.end, || {
                let job = job(up, subject)?;
                Ok(matches!(word(&job, "state"), "sent" | "dead_letter").then_some(()))
            })?;
        }
        Ok(())
    }

    /// Waits for a state; where it doesn't come, the row shows what stands instead.
    fn await_state(&self, up: &Up, subject: &str, state: &str) -> Result<(), Failure> {
        until(self.end, || Ok((word(&job(up, subject)?, "state") == state).then_some(())))?;
        Ok(())
    }

    /// The server's log, given as a provider's event, answers the doubt without a second submission.
    fn provider_says_accepted(&self, up: &Up) -> Result<u64, Failure> {
        let doubted = job(up, TENTH)?;
        let id = word(&doubted, "id").to_owned();
        if self.server.accepted_per_job().get(&id).copied() != Some(1) {
            return Ok(0);
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
        let body = json!({"events": [{"type": "accepted", "job_id": id, "at": moment(now), "detail": "250 in the server's own log"}]}).to_string();
        let signed = signature::sign(EVENTS_SECRET.as_bytes(), now, &body);
        let answer = up.client.post_signed(&Route::of("/v1/provider-events").part("default"), body, &signed)?;
        Ok(answer.get("applied").and_then(Value::as_u64).unwrap_or(0))
    }
}

fn moment(seconds: u64) -> String {
    curfew_domain::Moment::from_millis(i64::try_from(seconds).unwrap_or(0).saturating_mul(1000)).rfc3339()
}

fn key(subject: &str) -> String {
    format!("{TENANT}/{PURPOSE}/{subject}/2026-01-01")
}

fn job(up: &Up, subject: &str) -> Result<Value, Failure> {
    up.client.get(Route::of("/v1/jobs").part(&key(subject)))
}

fn word<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

fn found(up: &Up, subject: &str) -> Result<String, Failure> {
    let job = job(up, subject)?;
    let attempts = job.get("attempts").and_then(Value::as_u64).unwrap_or(0);
    Ok(format!("{} {}, {attempts} attempt{}", word(&job, "state"), word(&job, "reason"), if attempts == 1 { "" } else { "s" }))
}

fn submit(up: &Up, subjects: &[String]) -> Result<(), Failure> {
    let deadline = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs() + 3600;
    let lines = subjects.iter().fold(String::new(), |mut lines, subject| {
        let line = json!({
            "tenant": TENANT, "purpose": PURPOSE, "subject_ref": subject, "business_date": "2026-01-01",
            "to": {"address": format!("{subject}@rehearsal.example")},
            "content": {"subject": "Rehearsal", "text": "A rehearsal of Curfew. Nobody gets this."},
            "deadline_at": moment(deadline),
        });
        let _infallible = writeln!(lines, "{line}");
        lines
    });
    let summary = up.client.import(&Route::of("/v1/jobs/import"), lines.into_bytes())?;
    if summary.get("accepted").and_then(Value::as_u64) == Some(subjects.len() as u64) {
        Ok(())
    } else {
        Err(Failure::refused(format!("the rehearsal's jobs are refused: {summary}")))
    }
}

fn write_config(folder: &Path, server: &MailServer, provider: Provider) -> Result<PathBuf, Failure> {
    let secret = folder.join("events-secret");
    let path = folder.join("rehearsal.toml");
    let mut tables: BTreeMap<&str, String> = BTreeMap::new();
    tables.insert("[worker]", "lease = \"10s\"".into());
    tables.insert("[policies.default]", "delays = [\"1s\"]\njitter = \"0ms\"".into());
    let window = match provider {
        Provider::Forgets => "",
        Provider::KnowsKeys => "idempotency_window = \"24h\"\nidempotency_header = \"Curfew-Idempotency-Key\"\n",
    };
    let transport = format!(
        "kind = \"smtp\"\nurl = \"smtp://{}\"\ntls = \"none\"\nfrom = \"Rehearsal <rehearsal@rehearsal.example>\"\nevents_secret_file = {:?}\n{window}",
        server.addr(),
        secret.display().to_string()
    );
    tables.insert("[transports.default]", transport);
    let text = tables.into_iter().fold(String::new(), |all, (head, body)| format!("{all}{head}\n{body}\n\n"));
    let unwritable = |e: std::io::Error| Failure::usage(format!("the rehearsal's folder can't be written: {e}"));
    std::fs::write(&secret, EVENTS_SECRET).map_err(unwritable)?;
    std::fs::write(&path, text).map_err(unwritable)?;
    Ok(path)
}
