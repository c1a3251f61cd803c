//! Starts the sink and the binary, hands the jobs in, and waits for them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use chrono::Utc;
use curfew_testkit::mail_server::{Config, MailServer};

use crate::Speed;
use crate::measure::{Found, Growth, memory_mb, rate};
use crate::plan::{self, When};

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(300);
/// From the end of the hand-in to the burst's instant.
const BURST_IN: chrono::Duration = chrono::Duration::seconds(3);

/// A running `curfew up`, killed with this value.
struct Up {
    child: Child,
    api: String,
}

impl Drop for Up {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Everything that `speed` measures.
pub async fn speed(speed: &Speed) -> anyhow::Result<Found> {
    let binary = binary(speed)?;
    let folder = tempfile::tempdir()?;
    let sink = MailServer::start(Config::sink()).await;
    let up = start(&binary, folder.path(), &sink)?;
    let pid = up.child.id();
    let mut found = Found { waiting_jobs: speed.waiting, burst_jobs: speed.burst, ..Found::default() };

    let waiting = folder.path().join("waiting.ndjson");
    let far = Utc::now() + chrono::Duration::days(2);
    plan::write(&waiting, "waiting", speed.waiting, speed.tenants, When { release_at: far, deadline_at: far + chrono::Duration::hours(1) })?;
    let began = Instant::now();
    submit(&binary, &up.api, &waiting)?;
    (found.accept_s, found.accepted_per_s) = rate(speed.waiting, began.elapsed());
    tokio::time::sleep(Duration::from_secs(2)).await;
    found.rss_waiting_mb = memory_mb(pid, "VmRSS");

    let burst = folder.path().join("burst.ndjson");
    let hand_in = chrono::Duration::milliseconds((f64::from(speed.burst) / found.accepted_per_s * 1500.0) as i64);
    let release_at = Utc::now() + hand_in + BURST_IN;
    plan::write(&burst, "burst", speed.burst, speed.tenants, When { release_at, deadline_at: release_at + chrono::Duration::hours(1) })?;
    submit(&binary, &up.api, &burst)?;
    let early = sink.accepted_count();
    if Utc::now() >= release_at || early > 0 {
        bail!("the hand-in took longer than planned, or {early} mails came early: measure again");
    }
    tokio::time::sleep((release_at - Utc::now()).to_std().unwrap_or_default()).await;
    let (due, mut growth) = (Instant::now(), Growth::default());
    while growth.done.is_none() {
        growth.sample(sink.accepted_count(), speed.burst);
        if due.elapsed() > PATIENCE {
            bail!("{} of {} mails after {PATIENCE:?}", sink.accepted_count(), speed.burst);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = growth.done.map(|done| done.duration_since(due)).unwrap_or_default();
    (found.burst_s, found.delivered_per_s) = rate(speed.burst, took);
    found.middle_per_s = growth.middle_per_s(speed.burst);
    found.rss_peak_mb = memory_mb(pid, "VmHWM");
    found.mails_accepted = sink.accepted_count();
    found.accepted_twice = sink.accepted_per_job().values().filter(|n| **n > 1).count();
    Ok(found)
}

fn binary(speed: &Speed) -> anyhow::Result<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.join("curfew"));
    let path = speed.curfew.clone().or_else(beside).context("no binary")?;
    if !path.is_file() {
        bail!("{} isn't there: build it first (cargo build --release -p curfew)", path.display());
    }
    Ok(path)
}

fn start(binary: &Path, folder: &Path, sink: &MailServer) -> anyhow::Result<Up> {
    let config = folder.join("curfew.toml");
    let text = format!(
        "[transports.default]\nkind = \"smtp\"\nurl = \"smtp://{}\"\ntls = \"none\"\nfrom = \"Reports <reports@load.example>\"\n",
        sink.addr()
    );
    std::fs::write(&config, text)?;
    let said = folder.join("up.log");
    let child = Command::new(binary)
        .args(["up", "--http", "127.0.0.1:0", "--config"])
        .arg(&config)
        .arg("--data")
        .arg(folder.join("data"))
        .env("CURFEW_LOG", "warn")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&said)?)
        .spawn()?;
    let mut up = Up { child, api: String::new() };
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let text = std::fs::read_to_string(&said)?;
        if let Some(api) = text.lines().find_map(|l| l.strip_prefix("curfew is up at ")?.split(',').next()) {
            api.clone_into(&mut up.api);
            return Ok(up);
        }
        if let Some(status) = up.child.try_wait()? {
            bail!("curfew up ended with {status}: {text}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("curfew up doesn't come up")
}

/// `curfew submit`, as a user runs it.
fn submit(binary: &Path, api: &str, file: &Path) -> anyhow::Result<()> {
    let done = Command::new(binary).args(["--api", api, "submit"]).arg(file).stderr(Stdio::null()).output()?;
    if !done.status.success() {
        bail!("submit ended with {}: {}", done.status, String::from_utf8_lossy(&done.stdout));
    }
    Ok(())
}
