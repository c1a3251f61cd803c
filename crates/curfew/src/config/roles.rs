//! The tables of the roles: `[http] [metrics] [scheduler] [worker] [templates] [artifacts] [retention] [slo] [traces] [review]`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use curfew_domain::Reason;
use curfew_domain::limits::{LEASE_MAX, LEASE_MIN};

use super::reader::{self, Reader};
use super::settings::{Artifacts, Http, Metrics, Retention, Review, Scheduler, Slo, Templates, Traces, Worker};
use super::units;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// A shorter tick would busy the ledger; a longer one is lateness.
const TICK: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(5);
/// Staged before the longest rung could carry it (64 s), and not so early that the ledger holds the day.
const STAGING_WINDOW: RangeInclusive<Duration> = Duration::from_secs(2 * 60)..=Duration::from_secs(24 * 3600);
/// Shorter than any broker's hiccup would publish twice for nothing.
const CLAIM_GRACE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// More deliveries at a time than a process has file descriptors for helps nobody.
const CONCURRENCY_MAX: u32 = 4096;

/// `[http]`.
pub fn http(reader: &mut Reader, without_operators: bool) -> Http {
    let path = ["http", "listen"];
    let listen = reader.or(&path, &reader::listen(), ([127, 0, 0, 1], 7420).into());
    if without_operators && !listen.ip().is_loopback() {
        reader.refuse(
            &path,
            "without [operators.NAME] the API listens on loopback only; allowed: 127.0.0.1 or [::1], or name an operator (`curfew operators new`)",
        );
    }
    Http { listen }
}

/// `[metrics]`.
pub fn metrics(reader: &mut Reader) -> Metrics {
    Metrics { listen: reader.or(&["metrics", "listen"], &reader::listen(), ([127, 0, 0, 1], 9464).into()) }
}

/// `[scheduler]`.
pub fn scheduler(reader: &mut Reader) -> Scheduler {
    let horizon = |t: &str| units::duration(t).filter(|d| d.subsec_nanos() == 0 && d.as_secs().is_power_of_two() && d.as_secs() <= 64);
    let horizon = reader::parsed("1s, 2s, 4s, 8s, 16s, 32s or 64s", horizon, |d| format!("{}s", d.as_secs()));
    Scheduler {
        tick: reader.or(&["scheduler", "tick"], &reader::duration(TICK), Duration::from_millis(100)),
        horizon: reader.or(&["scheduler", "horizon"], &horizon, 32 * SECOND),
        staging_window: reader.or(&["scheduler", "staging_window"], &reader::duration(STAGING_WINDOW), 10 * MINUTE),
        claim_grace: reader.or(&["scheduler", "claim_grace"], &reader::duration(CLAIM_GRACE), 30 * SECOND),
    }
}

/// `[worker]`.
pub fn worker(reader: &mut Reader) -> Worker {
    Worker {
        concurrency: reader.or(&["worker", "concurrency"], &reader::integer(1..=CONCURRENCY_MAX), 64),
        lease: reader.or(&["worker", "lease"], &reader::duration(LEASE_MIN..=LEASE_MAX), MINUTE),
    }
}

/// `[templates]`: a folder that somebody names must be there; the default may be missing.
pub fn templates(reader: &mut Reader) -> Templates {
    let path = ["templates", "dir"];
    let dir = reader.or(&path, &reader::text(), "templates".into());
    if reader.entry(&path).is_some_and(|entry| !reader::place(&entry, &dir).is_dir()) {
        reader.refuse(&path, "is not a folder that can be read");
    }
    Templates { dir: PathBuf::from(dir) }
}

/// `[artifacts]`.
pub fn artifacts(reader: &mut Reader) -> Artifacts {
    let root = |t: &str| t.strip_prefix("file:").filter(|path| !path.is_empty()).map(|_| t.to_owned());
    let kind = reader::list("a list of folders, each as \"file:FOLDER/\"", root, |roots| roots.join(", "));
    Artifacts { roots: reader.or(&["artifacts", "roots"], &kind, vec!["file:reports/".into()]) }
}

/// `[retention]`.
pub fn retention(reader: &mut Reader) -> Retention {
    let mut kept = |key, least, default| reader.or(&["retention", key], &reader::duration(least..=100 * YEAR), default);
    Retention {
        content: kept("content", HOUR, 30 * DAY),
        settled: kept("settled", DAY, 400 * DAY),
        review: kept("review", DAY, 400 * DAY),
        audit: kept("audit", DAY, 7 * YEAR),
    }
}

/// `[slo]`.
pub fn slo(reader: &mut Reader) -> Slo {
    let target = |t: &str| units::percent(t).filter(|n| *n > 0.0 && *n < 100.0);
    let target = reader::parsed("a percentage above 0% and below 100%, for instance \"99.9%\"", target, |n| format!("{n}%"));
    Slo {
        target_percent: reader.or(&["slo", "target"], &target, 99.9),
        window: reader.or(&["slo", "window"], &reader::duration(DAY..=YEAR), 30 * DAY),
        lead: reader.or(&["slo", "lead"], &reader::duration(Duration::ZERO..=DAY), 5 * MINUTE),
    }
}

/// `[traces]`; `None` without an endpoint.
pub fn traces(reader: &mut Reader) -> Option<Traces> {
    let url = |t: &str| {
        let rest = t.strip_prefix("http://").or_else(|| t.strip_prefix("https://"))?;
        let host = rest.split('/').next().unwrap_or_default();
        let readable = !host.is_empty() && !host.contains('@') && !t.contains(|c: char| c.is_whitespace() || c.is_control());
        (readable && rest.contains('/')).then(|| t.to_owned())
    };
    let says = "the whole URL of a collector's traces, for instance \"http://127.0.0.1:4318/v1/traces\"; a password goes into `authorization`";
    let endpoint = reader.optional(&["traces", "endpoint"], &reader::parsed(says, url, Clone::clone));
    let share = |t: &str| t.strip_suffix('%').and_then(|n| n.parse::<u8>().ok()).filter(|n| *n <= 100);
    let sample_percent = reader.or(&["traces", "sample"], &reader::parsed("whole percent from \"0%\" to \"100%\"", share, |n| format!("{n}%")), 100);
    let authorization = reader.secret(&["traces", "authorization"]).map(|(secret, _)| secret);
    if authorization.as_ref().is_some_and(|secret| secret.expose().bytes().any(|b| b.is_ascii_control())) {
        reader.refuse(&["traces", "authorization"], "must be one line");
    }
    Some(Traces { endpoint: endpoint?, sample_percent, authorization })
}

/// `[review.owners]`.
pub fn review(reader: &mut Reader) -> Review {
    let defaults = [(Reason::PermanentFailure, "support"), (Reason::RetryBudgetExhausted, "platform"), (Reason::ReconciliationRequired, "support")];
    let mut owners = BTreeMap::new();
    for (reason, owner) in defaults {
        let read = reader.or(&["review", "owners", reason.word()], &reader::text(), owner.into());
        owners.insert(reason, read);
    }
    let given: Vec<String> = reader.given.entries.keys().filter(|p| p.len() == 3 && p[0] == "review").map(|p| p[2].clone()).collect();
    for word in given {
        let path = ["review", "owners", word.as_str()];
        match Reason::from_word(&word) {
            Some(reason) if owners.contains_key(&reason) => {}
            Some(reason) => {
                if let Some(owner) = reader.optional(&path, &reader::text()) {
                    owners.insert(reason, owner);
                }
            }
            None => reader.refuse(&path, "is no reason; allowed: the reasons of a dead letter, for instance permanent_failure"),
        }
    }
    Review { owners }
}
