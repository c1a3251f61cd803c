//! Jobs that flow while faults happen, and the frame of tests that do such: some jobs fail for a while, some for good, of some the reply is lost.
//!
//! A [`Scene`] is what each of those tests begins with; the mail server's own count judges them. Read `judge.rs` for what it holds.

use std::sync::Arc;
use std::time::Duration;

use curfew_testkit::mail_server::Event;
use curfew_testkit::{Action, Config, MailServer, Stage};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

use crate::fleet::{Fleet, Servers, WHOLE};
use crate::jobs::{DATE, TENANT, in_time, job, ndjson};
use crate::judge::{BY_A_RECOVERY, BY_ITS_ATTEMPT, judge, none_twice};
use crate::settings::Settings;
use crate::wait::{PATIENCE, until, until_showing};

/// How many jobs flow in a test; 5,000 is the long form.
pub const COUNT_VARIABLE: &str = "CURFEW_FAULT_JOBS";
/// Enough to meet every fate some thirty times.
const COUNT: usize = 600;
/// Few replies are lost: five in a row would open the transport's circuit, and that takes its own time.
pub const FATES: [&str; 20] =
    ["ok", "late", "ok", "gone", "ok", "ok", "late", "ok", "lost", "ok", "ok", "late", "ok", "gone", "ok", "ok", "late", "ok", "gone", "ok"];
/// Of these all are sent, and nothing of them is in doubt unless a fault makes it so.
pub const SURE: [&str; 3] = ["late", "ok", "ok"];
/// Those who publish wake-ups.
pub const SCHEDULERS: [&str; 2] = ["scheduler-1", "scheduler-2"];

/// One at a time: they share servers, which they hurt, and two cores.
static TURN: Mutex<()> = Mutex::const_new(());

/// What a test of faults begins with: a mail server that counts, a fleet on real servers, and jobs to flow through it.
pub struct Scene {
    /// Its processes, ended first.
    pub fleet: Fleet,
    /// The judge.
    pub server: MailServer,
    /// What was handed in so far.
    pub flow: Flow,
    _turn: MutexGuard<'static, ()>,
}

impl Scene {
    /// The whole fleet, ready.
    ///
    /// # Panics
    /// Where something doesn't start.
    pub async fn begin() -> Self {
        let mut scene = Self::prepare().await;
        scene.fleet.run(&WHOLE);
        scene
    }

    /// Without a process yet.
    ///
    /// # Panics
    /// As [`Scene::begin`].
    pub async fn prepare() -> Self {
        Self::prepare_with(Flow::new(), None).await
    }

    /// The whole fleet, ready, with its ledger on servers of its own, and jobs of which nothing is in doubt by themselves.
    ///
    /// # Panics
    /// As [`Scene::begin`].
    pub async fn begin_on(ledger_url: &str, count: usize) -> Self {
        let mut scene = Self::prepare_with(Flow::of(&SURE, count), Some(ledger_url)).await;
        scene.fleet.run(&WHOLE);
        scene
    }

    async fn prepare_with(flow: Flow, ledger_url: Option<&str>) -> Self {
        // Before the turn: the servers live on from one test to the next.
        let servers = Servers::shared();
        let turn = TURN.lock().await;
        let server = mail_server().await;
        let fleet = Fleet::prepare_on(settings(&server), ledger_url);
        assert!(Arc::ptr_eq(&servers, &fleet.servers), "the fleet is on them");
        Self { fleet, server, flow, _turn: turn }
    }

    /// The servers that all fleets share.
    pub fn servers(&self) -> &Servers {
        &self.fleet.servers
    }

    /// A spread that leaves room to be ahead of the clock in the long form too: as given for as many jobs as flow by default, longer for more.
    #[must_use]
    pub fn unhurried(&self, spread: Duration) -> Duration {
        spread.mul_f64((self.flow.count as f64 / COUNT as f64).max(1.0))
    }

    /// See [`Flow::feed`].
    ///
    /// # Panics
    /// As there.
    pub fn feed(&mut self, parts: usize, spread: Duration) {
        self.flow.feed(&self.fleet, parts, spread);
    }

    /// Waits until the server has accepted so many more.
    ///
    /// # Panics
    /// Past the patience.
    pub fn flows(&self, more: u64) {
        self.flowed(self.server.accepted_count() + more);
    }

    /// Waits until the server has accepted so many in all.
    ///
    /// # Panics
    /// Past the patience.
    pub fn flowed(&self, mails: u64) {
        until(&format!("{mails} accepted mails"), || (self.server.accepted_count() >= mails).then_some(()));
    }

    /// See [`Flow::ends`].
    ///
    /// # Panics
    /// As there.
    pub fn ends(&self) -> Value {
        self.flow.ends(&self.fleet)
    }

    /// See [`judge`]; every lost reply is in doubt. How many are.
    ///
    /// # Panics
    /// Where server and fleet disagree.
    pub fn judge(&self) -> usize {
        let in_doubt = judge(&self.fleet, &self.server, self.flow.fed, &[BY_ITS_ATTEMPT]);
        assert!(in_doubt >= self.flow.lost, "every lost reply is in doubt: {in_doubt} of {}", self.flow.lost);
        in_doubt
    }

    /// The end of a recovery that lost something: what isn't proven is in review, by that reason. How many are.
    ///
    /// # Panics
    /// As [`Scene::judge`].
    pub fn judge_rolled_back(&self) -> usize {
        judge(&self.fleet, &self.server, self.flow.fed, &[BY_A_RECOVERY])
    }

    /// The end of what lost nothing: every job is sent, and nothing is in review.
    ///
    /// # Panics
    /// As [`Scene::judge`].
    pub fn all_are_sent(&self) {
        let day = self.ends();
        assert_eq!(judge(&self.fleet, &self.server, self.flow.fed, &[]), 0);
        assert_eq!((&day["sent"], self.server.accepted_count()), (&self.flow.fed.into(), self.flow.fed()), "{day}");
    }

    /// What its API says; nothing while a shard recovers, for then nobody can say how its jobs stand.
    pub fn asked(&self, path: &str) -> Option<Value> {
        let answer = self.fleet.try_get(path).ok().filter(|answer| answer.status == 200)?;
        Some(answer.json)
    }

    /// No mail went twice so far.
    ///
    /// # Panics
    /// Where one did.
    pub fn none_twice(&self) {
        none_twice(&self.server);
    }

    /// Wake-ups that both schedulers published again.
    ///
    /// # Panics
    /// Where one doesn't answer.
    pub fn republished(&self) -> f64 {
        SCHEDULERS.map(|name| self.fleet.metric(name, "curfew_republished_total").expect("the metric is in the catalogue")).iter().sum()
    }

    /// The end, as after every fault: judged, repetitions bounded by what there was to lose, every process drained.
    ///
    /// # Panics
    /// Where something of it isn't so.
    pub fn ends_well(mut self) {
        self.ends();
        self.judge();
        let (republished, fed) = (self.republished(), self.flow.fed());
        println!("{republished} wake-ups published again");
        assert!(republished <= fed as f64, "{republished} repetitions of {fed} jobs");
        self.fleet.drains(&WHOLE);
    }
}

/// Jobs that a test hands in part by part.
pub struct Flow {
    fed: usize,
    /// Of them those whose replies are lost.
    lost: usize,
    count: usize,
    fates: &'static [&'static str],
    tenants: Vec<String>,
}

impl Flow {
    /// None is handed in yet.
    ///
    /// # Panics
    /// Where `CURFEW_FAULT_JOBS` is no whole number.
    #[expect(clippy::new_without_default, reason = "it reads the environment")]
    pub fn new() -> Self {
        let count = std::env::var(COUNT_VARIABLE).map_or(COUNT, |text| text.parse().expect("CURFEW_FAULT_JOBS is a whole number"));
        Self::of(&FATES, count)
    }

    /// So many, with these fates over and over.
    pub fn of(fates: &'static [&'static str], count: usize) -> Self {
        Self { fed: 0, lost: 0, count, fates, tenants: vec![TENANT.to_owned()] }
    }

    /// From now on the jobs of these tenants, by turns.
    pub fn tenants(&mut self, tenants: Vec<String>) {
        self.tenants = tenants;
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
        self.feed_later(fleet, parts, Duration::ZERO, spread);
    }

    /// The same of jobs that aren't due before some time has passed.
    ///
    /// # Panics
    /// As [`Flow::feed`].
    pub fn feed_later(&mut self, fleet: &Fleet, parts: usize, after: Duration, spread: Duration) {
        let size = self.count.div_ceil(parts);
        let mut jobs: Vec<Value> = (self.fed..self.fed + size).map(|n| one(n, self.fates)).collect();
        for (n, job) in jobs.iter_mut().enumerate() {
            job["tenant"] = self.tenants[n % self.tenants.len()].as_str().into();
            job["release_at"] = in_time(after + spread.mul_f64(n as f64 / size as f64)).into();
        }
        until_showing(PATIENCE, &format!("{size} accepted jobs"), || {
            let answer = fleet.post_bytes("/v1/jobs/import", "application/x-ndjson", &[], &ndjson(&jobs));
            let counted = |name: &str| answer.json[name].as_u64().unwrap_or_default();
            // An answer may be lost after the book has committed.
            let taken = answer.status == 200 && counted("accepted") + counted("duplicates") == size as u64;
            if taken { Ok(()) } else { Err(answer.text) }
        });
        self.lost += (self.fed..self.fed + size).filter(|n| self.fates[n % self.fates.len()] == "lost").count();
        self.fed += size;
    }

    /// Counts jobs that the test handed in by itself.
    pub fn also(&mut self, more: usize) {
        self.fed += more;
    }

    /// Waits until everything that was handed in has ended, with nobody's help; the day.
    ///
    /// # Panics
    /// Past a time that leaves room for leases, for a recovery, for two loaded cores and for half-open connections.
    pub fn ends(&self, fleet: &Fleet) -> Value {
        let patience = Duration::from_secs(150 + self.fed() / 20);
        until_showing(patience, &format!("the end of {} jobs", self.fed()), || {
            // The API may look for a book that is just back, and says nothing of a shard that recovers.
            let answer = fleet.get(&format!("/v1/days/{DATE}"));
            let day = &answer.json;
            let ended = answer.status == 200 && day["accepted"] == self.fed() && day["planned"] == 0 && day["live"] == 0;
            if ended { Ok(answer.json) } else { Err(answer.text) }
        })
    }
}

/// Jobs with these fates, over and over, due at once; what is due at one moment runs in the order of its keys, which is that of their numbers.
/// They end in an hour, so that no deadline has a part in it.
pub fn jobs(fates: &[&str], count: usize) -> Vec<Value> {
    (0..count).map(|n| one(n, fates)).collect()
}

fn one(n: usize, fates: &[&str]) -> Value {
    let subject = format!("{n:05}-{}", fates[n % fates.len()]);
    let mut job = job(&subject, &format!("{subject}@example.com"));
    job["policy"] = "patient".into();
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

/// A fleet whose times are short; its jobs outlive many faults.
pub fn settings(server: &MailServer) -> Settings {
    Settings::smtp(server.addr()).short().patient()
}
