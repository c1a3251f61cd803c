//! Jobs that flow while faults happen: some fail for a while, some for good, of some the reply is lost. Judged by the mail server's own count.

use std::time::Duration;

use curfew_testkit::mail_server::Event;
use curfew_testkit::{Action, Config, MailServer, Stage};
use serde_json::Value;

use crate::fleet::Fleet;
use crate::jobs::{DATE, in_time, is_terminal, job, ndjson};
use crate::settings::Settings;
use crate::wait::{PATIENCE, until_showing};

/// How many jobs flow in a test; 5,000 is the long form.
pub const COUNT_VARIABLE: &str = "CURFEW_FAULT_JOBS";
/// Enough to meet every fate some thirty times.
const COUNT: usize = 600;
const SHARDS: u8 = 4;
/// Few replies are lost: five in a row would open the transport's circuit, and that takes its own time.
const FATES: [&str; 20] =
    ["ok", "late", "ok", "gone", "ok", "ok", "late", "ok", "lost", "ok", "ok", "late", "ok", "gone", "ok", "ok", "late", "ok", "gone", "ok"];

/// Jobs that a test hands in part by part.
pub struct Flow {
    fed: usize,
    /// Of them those whose replies are lost.
    lost: usize,
    count: usize,
}

impl Flow {
    /// None is handed in yet.
    ///
    /// # Panics
    /// Where `CURFEW_FAULT_JOBS` is no whole number.
    #[expect(clippy::new_without_default, reason = "it reads the environment")]
    pub fn new() -> Self {
        let count = std::env::var(COUNT_VARIABLE).map_or(COUNT, |text| text.parse().expect("CURFEW_FAULT_JOBS is a whole number"));
        Self { fed: 0, lost: 0, count }
    }

    /// How many a test hands in, all together.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many were handed in.
    pub fn fed(&self) -> u64 {
        self.fed as u64
    }

    /// Hands in a part of them, `1/parts`, until the API says that it has them all; they are due one after the other during `spread`.
    ///
    /// # Panics
    /// Where it doesn't take them within the patience.
    pub fn feed(&mut self, fleet: &Fleet, parts: usize, spread: Duration) {
        let size = self.count.div_ceil(parts);
        let jobs: Vec<Value> = (0..size).map(|n| one(self.fed + n, spread.mul_f64(n as f64 / size as f64))).collect();
        until_showing(PATIENCE, &format!("{size} accepted jobs"), || {
            let answer = fleet.post_bytes("/v1/jobs/import", "application/x-ndjson", &[], &ndjson(&jobs));
            let counted = |name: &str| answer.json[name].as_u64().unwrap_or_default();
            // An answer may be lost after the book has committed.
            let taken = answer.status == 200 && counted("accepted") + counted("duplicates") == size as u64;
            if taken { Ok(()) } else { Err(answer.text) }
        });
        self.lost += (self.fed..self.fed + size).filter(|n| FATES[n % FATES.len()] == "lost").count();
        self.fed += size;
    }

    /// Counts jobs that the test handed in by itself.
    pub fn also(&mut self, more: usize) {
        self.fed += more;
    }

    /// Waits until everything that was handed in has ended, with nobody's help; the day.
    ///
    /// # Panics
    /// Past a time that leaves room for leases, for two loaded cores and for half-open connections.
    pub fn ends(&self, fleet: &Fleet) -> Value {
        let patience = Duration::from_secs(100 + self.fed() / 20);
        until_showing(patience, &format!("the end of {} jobs", self.fed()), || {
            // The API may look for a book that is just back.
            let answer = fleet.get(&format!("/v1/days/{DATE}"));
            let day = &answer.json;
            let ended = answer.status == 200 && day["accepted"] == self.fed() && day["planned"] == 0 && day["live"] == 0;
            if ended { Ok(answer.json) } else { Err(answer.text) }
        })
    }

    /// The server's log against what the fleet says: each accepted at most once, none lost, a difference of 0; how many are in doubt.
    ///
    /// # Panics
    /// Where they disagree.
    pub fn judge(&self, fleet: &Fleet, server: &MailServer) -> usize {
        let accepted = server.accepted_per_job();
        let twice: Vec<_> = accepted.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "accepted twice: {twice:?}");
        let (jobs, items) = (fleet.all_jobs(""), fleet.all_items(""));
        assert_eq!(jobs.len(), self.fed, "every job that was accepted at the door is there");
        let mut in_doubt = 0;
        for job in &jobs {
            let text = |name: &str| job[name].as_str().unwrap_or_default();
            let times = accepted.get(text("id")).copied().unwrap_or_default();
            assert!(is_terminal(text("state")), "{job:#}");
            match text("state") {
                "sent" => assert_eq!(times, 1, "sent, and the server knows nothing of it: {job:#}"),
                "cancelled" => assert_eq!(times, 0, "{job:#}"),
                _ => in_doubt += usize::from(judge_dead_letter(job, &items, times)),
            }
        }
        assert!(server.violations().is_empty(), "{:?}", server.violations());
        let day = fleet.cli(&["day", "2026-12-01", "--json"]).expect(0).json();
        assert_eq!((&day["difference"], &day["accepted"]), (&0.into(), &self.fed.into()), "{day}");
        assert!(in_doubt >= self.lost, "every lost reply is in doubt: {in_doubt} of {}", self.lost);
        println!("{} jobs: {} accepted by the server, {in_doubt} in doubt, {day}", self.fed, server.accepted_count());
        in_doubt
    }
}

/// It has a record that explains itself, and where Curfew is sure the server agrees; whether it is in doubt.
fn judge_dead_letter(job: &Value, items: &[Value], times: u32) -> bool {
    let own = items.iter().filter(|item| item["job_id"] == job["id"]).count();
    assert_eq!(own, 1, "a review record that explains itself: {job:#}");
    let in_doubt = job["reason"] == "reconciliation_required";
    assert!(in_doubt || (job["reason"] == "permanent_failure" && times == 0), "accepted {times} times: {job:#}");
    in_doubt
}

fn one(n: usize, from_now: Duration) -> Value {
    let subject = format!("{n:05}-{}", FATES[n % FATES.len()]);
    let mut job = job(&subject, &format!("{subject}@example.com"));
    job["policy"] = "patient".into();
    job["release_at"] = in_time(from_now).into();
    job
}

/// A mail server that does what is written in the address.
pub async fn mail_server() -> MailServer {
    MailServer::start(Config::scripted(fate)).await
}

/// What it does; for a test that lets it do something else for a while.
pub fn fate(event: &Event<'_>) -> Action {
    let fate = event.recipient.and_then(|r| r.split_once('@')?.0.split_once('-')).map_or("", |(_, fate)| fate);
    match (fate, event.stage) {
        ("late", Stage::Rcpt) if event.attempt == 1 => Action::reply("451 4.3.0 Mailbox busy, try again later"),
        ("once", Stage::Rcpt) if event.attempt == 1 => Action::reply("550 5.1.1 No such user here"),
        ("gone", Stage::Rcpt) => Action::reply("550 5.1.1 No such user here"),
        ("lost", Stage::Dot) => Action::AcceptThenReset,
        _ => Action::Default,
    }
}

/// A fleet whose times are short; its jobs outlive many faults, for each lease that is lost uses up an attempt.
pub fn settings(server: &MailServer) -> Settings {
    Settings::smtp(server.addr())
        .set("ledger.shards", &SHARDS.to_string())
        .set("worker.concurrency", "4")
        .text("worker.lease", "10s")
        .text("scheduler.claim_grace", "2s")
        .text("policies.patient.base", "1s")
        .set("policies.patient.factor", "1.0")
        .text("policies.patient.cap", "1s")
        .set("policies.patient.max_attempts", "500")
        .text("policies.patient.jitter", "0s")
}
