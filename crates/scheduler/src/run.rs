//! The scheduler's loops: one for staging, one for each shard's lines and timers, one for settling, one for housekeeping.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use curfew_courier::{CourierError, Portion};
use curfew_domain::{Shard, WorkerId};
use curfew_ledger::LedgerError;
use curfew_telemetry::metrics;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::credit::{Drain, Room};
use crate::leads::Leads;
use crate::recover::{self, Recoveries};
use crate::served::Served;
use crate::stage::{Filling, Step};
use crate::tick::Leases;
use crate::{Ports, Settings, heal, housekeeping, release, settle, stage};

/// Tombstones, holds and suppressions.
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(2);
/// Open verbs.
const VERBS_EVERY: Duration = Duration::from_secs(1);
/// Whether a shard must be recovered.
const RECOVER_EVERY: Duration = Duration::from_millis(500);
/// Heartbeats.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// The auditor.
const AUDIT_EVERY: Duration = Duration::from_secs(600);
/// Findings of one audit that are logged one by one.
const FINDINGS_TOLD: usize = 50;
/// Repetitions per second elsewhere than into silence, at least.
const BUDGET_PER_S: usize = 100;

/// A scheduler: any number of them may run side by side.
pub struct Scheduler {
    ports: Ports,
    settings: Settings,
    nudge: Arc<Notify>,
    answering: Mutex<Option<Instant>>,
    drains: Mutex<BTreeMap<Shard, Drain>>,
    served: Mutex<Served>,
    stories: Portion,
    leads: Leads,
    tally: Arc<Tally>,
}

/// What it did since its start; for `fleet status`, and for a test that waits.
#[derive(Debug, Default)]
pub struct Tally {
    /// Jobs released.
    pub released: AtomicU64,
    /// Wake-ups published again.
    pub republished: AtomicU64,
    /// Rounds of the main loop.
    pub ticks: AtomicU64,
}

impl Scheduler {
    /// A scheduler that doesn't run yet. `nudge`: somebody accepted a job that is due, stage at once.
    pub fn new(ports: Ports, settings: Settings, nudge: Arc<Notify>) -> Self {
        let leads = Leads::new(WorkerId(ports.machine.uuid()), settings.tick);
        Self {
            ports,
            settings,
            nudge,
            answering: Mutex::new(None),
            drains: Mutex::new(BTreeMap::new()),
            served: Mutex::default(),
            stories: Portion::new(settle::STORIES_MAX),
            leads,
            tally: Arc::default(),
        }
    }

    /// What it did since its start.
    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    /// Runs until `stop`; then finishes the round in hand. A dropped future leaves nothing half done that another scheduler can't finish.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        tokio::join!(
            kept("stage", &stop, || self.stage_loop(&stop).boxed()),
            kept("tick", &stop, || self.tick_loop(&stop).boxed()),
            kept("settle", &stop, || self.settle_loop(&stop).boxed()),
            kept("recover", &stop, || self.recover_loop(&stop).boxed()),
            kept("now and then", &stop, || self.now_and_then(&stop).boxed()),
        );
        self.leads.leave(&*self.ports.ledger, &self.settings.shards).await;
    }

    async fn stage_loop(&self, stop: &CancellationToken) {
        let mut ticks = ticks(self.settings.tick);
        let mut filling = Filling::default();
        while next(&mut ticks, &self.nudge, stop).await {
            loop {
                match self.stage(&mut filling).await {
                    Ok(Step::More) if !stop.is_cancelled() => {}
                    Ok(Step::Full) => {
                        tracing::warn!("the ledger holds max_live_bytes: staging waits");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        break;
                    }
                    Ok(Step::More | Step::Idle) => break,
                    Err(error) => {
                        failed("stage", &error).await;
                        break;
                    }
                }
            }
        }
    }

    async fn stage(&self, filling: &mut Filling) -> Result<Step, CourierError> {
        let led = self.led().await?;
        if led.is_empty() { Ok(Step::Idle) } else { stage::step(&self.ports, &self.settings, &led, filling).await }
    }

    /// The shards that it works now: those that it leads, but for those whose clock is distrusted.
    async fn led(&self) -> Result<Vec<Shard>, LedgerError> {
        let newer = self.ports.ledger.met_newer().into_iter().chain(self.ports.book.met_newer()).collect();
        let mut led = self.leads.shards(&*self.ports.ledger, &self.settings.shards, newer).await?;
        led.retain(|shard| !self.ports.ledger.is_halted(*shard));
        Ok(led)
    }

    async fn tick_loop(&self, stop: &CancellationToken) {
        let mut ticks = ticks(self.settings.tick);
        let unheard = Notify::new();
        while next(&mut ticks, &unheard, stop).await {
            loop {
                match self.tick().await {
                    Ok(true) if !stop.is_cancelled() => {}
                    Ok(_done) => break,
                    Err(error) => {
                        *self.answering.lock().await = None;
                        failed("tick", &error).await;
                        break;
                    }
                }
            }
        }
    }

    /// One round over all shards; whether there is more to do at once.
    async fn tick(&self) -> Result<bool, CourierError> {
        let now = self.ports.ledger.now().await?;
        let holds = self.ports.ledger.holds().await?;
        let leases = self.leases().await;
        let ahead = now.plus(self.settings.tick / 2);
        let mut more = false;
        let mut broken = Ok(());
        let led = self.led().await?;
        for agenda in self.ports.ledger.agenda(&led, ahead).await? {
            if agenda.lines || agenda.watch {
                // A shard that fails holds up itself alone.
                match self.shard(agenda.shard, &holds, leases).await {
                    Ok(has_more) => more |= has_more,
                    Err(error) => broken = Err(error),
                }
            }
        }
        broken?;
        self.tally.ticks.fetch_add(1, Ordering::Relaxed);
        metrics::scheduler_ticked(now.as_millis() as f64 / 1000.0);
        Ok(more)
    }

    async fn shard(&self, shard: Shard, holds: &curfew_ledger::Holds, leases: Leases) -> Result<bool, CourierError> {
        let now = self.ports.ledger.now().await?;
        let counts = self.ports.ledger.counts(shard, &Room::counters(now, self.settings.horizon)).await?;
        let room = Room::new(now, &counts);
        let queued = counts.first().copied().unwrap_or(0);
        let seen = Instant::now();
        let mut drains = self.drains.lock().await;
        let depth = drains.entry(shard).or_insert_with(|| Drain::new(queued, seen)).depth(queued, room.due(), self.settings.concurrency, seen);
        drop(drains);
        let room = room.with_depth(depth);
        // What can't be healed must not hold up what can be released.
        let allowed = heal::Allowed { budget: self.budget(), depth, served: self.served.lock().await.latest(shard) };
        let healed = heal::step(&self.ports, &self.settings, shard, leases, allowed).await;
        let released = release::step(&self.ports, &self.settings, shard, holds, room).await?;
        if let Some(mark) = &released.mark {
            self.served.lock().await.released(shard, mark, now);
        }
        if let Some(drain) = self.drains.lock().await.get_mut(&shard) {
            drain.returned(healed.as_ref().map_or(0, |healed| healed.returned as u64));
            drain.released(released.queued as u64);
        }
        self.tally.released.fetch_add(released.queued as u64, Ordering::Relaxed);
        let healed = healed?;
        self.tally.republished.fetch_add(healed.republished as u64, Ordering::Relaxed);
        Ok(healed.more || released.more && released.queued + released.moved > 0)
    }

    fn budget(&self) -> usize {
        let per_tick = |per_s: usize| (per_s as f64 * self.settings.tick.as_secs_f64()).ceil() as usize;
        per_tick(BUDGET_PER_S).max(1)
    }

    /// After an outage, or at the start, leases rest until the ledger has answered for half a lease.
    async fn leases(&self) -> Leases {
        if self.ports.ledger.leases_die_with_process() {
            return Leases::Trusted;
        }
        let since = *self.answering.lock().await.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.settings.lease / 2 { Leases::Trusted } else { Leases::Resting }
    }

    async fn settle_loop(&self, stop: &CancellationToken) {
        let mut ticks = ticks(self.settings.tick);
        let unheard = Notify::new();
        while next(&mut ticks, &unheard, stop).await {
            loop {
                match self.settle_all().await {
                    Ok(true) if !stop.is_cancelled() => {}
                    Ok(_done) => break,
                    Err(error) => {
                        failed("settle", &error).await;
                        break;
                    }
                }
            }
        }
    }

    async fn settle_all(&self) -> Result<bool, CourierError> {
        let now = self.ports.ledger.now().await?;
        let mut more = false;
        let mut broken = Ok(());
        let led = self.led().await?;
        for agenda in self.ports.ledger.agenda(&led, now).await? {
            if agenda.settle {
                match settle::step(&self.ports, agenda.shard, &self.served, &self.stories).await {
                    Ok(has_more) => more |= has_more,
                    Err(error) => broken = Err(error),
                }
            }
        }
        broken.map(|()| more)
    }

    async fn recover_loop(&self, stop: &CancellationToken) {
        let mut ticks = ticks(RECOVER_EVERY);
        let unheard = Notify::new();
        let mut recoveries = Recoveries::default();
        while next(&mut ticks, &unheard, stop).await {
            if let Err(error) = recover::step(&self.ports, &self.settings, &mut recoveries).await {
                failed("recover", &error).await;
            }
        }
    }

    async fn now_and_then(&self, stop: &CancellationToken) {
        tokio::join!(
            self.chore(Chore::Verbs, stop),
            self.chore(Chore::Copy, stop),
            self.chore(Chore::Expire, stop),
            self.chore(Chore::Beat, stop),
            self.chore(Chore::Audit, stop),
        );
    }

    async fn chore(&self, chore: Chore, stop: &CancellationToken) {
        let mut ticks = ticks(chore.every());
        let unheard = Notify::new();
        while next(&mut ticks, &unheard, stop).await {
            let done = match chore {
                Chore::Verbs => housekeeping::verbs(&self.ports).await.map(drop),
                Chore::Copy => housekeeping::copy(&self.ports).await,
                Chore::Expire => housekeeping::expire(&self.ports).await.map(drop),
                Chore::Beat => housekeeping::beat(&self.ports).await,
                Chore::Audit => self.audit().await,
            };
            if let Err(error) = done {
                failed("housekeeping", &error).await;
            }
        }
    }

    async fn audit(&self) -> Result<(), CourierError> {
        let audited = crate::audit(&self.ports, &self.settings).await?;
        for finding in audited.findings.iter().take(FINDINGS_TOLD) {
            tracing::error!(key = %finding.key, "the auditor found: {}", finding.seen);
        }
        let untold = audited.findings.len().saturating_sub(FINDINGS_TOLD);
        if untold > 0 {
            tracing::error!("the auditor found {untold} more: `curfew check --audit` names them all");
        }
        Ok(())
    }
}

pub(crate) fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The next round; false once stopped.
pub(crate) async fn next(ticks: &mut tokio::time::Interval, nudge: &Notify, stop: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = stop.cancelled() => false,
        () = nudge.notified() => true,
        _ = ticks.tick() => true,
    }
}

/// What is done now and then.
#[derive(Clone, Copy)]
enum Chore {
    Verbs,
    Copy,
    Expire,
    Beat,
    Audit,
}

impl Chore {
    const fn every(self) -> Duration {
        match self {
            Chore::Verbs => VERBS_EVERY,
            Chore::Copy | Chore::Expire => HOUSEKEEPING_EVERY,
            Chore::Beat => BEAT_EVERY,
            Chore::Audit => AUDIT_EVERY,
        }
    }
}

/// A round that failed is begun anew; the errand stays overdue meanwhile.
pub(crate) async fn failed(what: &'static str, error: &CourierError) {
    tracing::warn!(role = "scheduler", error_class = "store", "{what}: {error}");
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// Runs a loop until it ends by itself. A panic means that we are wrong: said aloud, and the loop begins anew, for nobody else does its work.
pub(crate) async fn kept<'a>(what: &'static str, stop: &CancellationToken, work: impl Fn() -> BoxFuture<'a, ()>) {
    while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
        tracing::error!(role = "scheduler", "{what} panicked and begins anew");
        if stop.is_cancelled() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
