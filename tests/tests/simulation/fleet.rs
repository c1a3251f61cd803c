//! The fleet of a run: simulated servers, and processes with the real roles in them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use curfew_courier::pause::Point;
use curfew_courier::{Rulebook, TenantLimits, Tenants, TransportRules};
use curfew_deadletter::DeadLetter;
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::sealed::Keyring;
use curfew_domain::{Shard, WorkerId};
use curfew_scheduler::Scheduler;
use curfew_testkit::Config;
use curfew_testkit::mail_server::Keep;
use curfew_testkit::sim::{Process, SimBrokerServer, SimLedger, SimLedgerOptions, SimLedgerServer, SimNet, SimRelay, SimStoreServer, World};
use curfew_transport::smtp::{SmtpConfig, SmtpTransport, TlsMode};
use curfew_worker::{Lane, LaneSettings, Worker};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::moments::{Befalls, Moments};
use crate::plant::Planted;
use crate::ports::{Hands, Ports, Role, SimMachine};
use crate::{SHARDS, beside, jobs};

pub const LEASE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(500);
pub const STAGING_WINDOW: Duration = Duration::from_secs(60);
pub const CLAIM_GRACE: Duration = Duration::from_secs(2);
const CONCURRENCY: u32 = 4;
const RELAY: &str = "relay.example";
/// Long enough for a create that is refused once its read is 60 s old, short enough to end in a run.
const TOMBSTONE: Duration = Duration::from_secs(75);
/// How long a drain takes at the most.
const DRAIN: Duration = Duration::from_secs(20);

/// A place in the fleet that a process fills: role, and which of the two.
pub type Place = (Role, u8);

/// Two of each role.
pub fn places() -> Vec<Place> {
    [Role::Scheduler, Role::Worker, Role::DeadLetter].into_iter().flat_map(|role| [(role, 1), (role, 2)]).collect()
}

struct Running {
    process: Arc<Process>,
    stop: CancellationToken,
    ended: Arc<Notify>,
}

/// The servers, and who runs.
pub struct Fleet {
    pub world: World,
    pub ledger: Arc<SimLedgerServer>,
    pub store: Arc<SimStoreServer>,
    pub broker: Arc<SimBrokerServer>,
    pub relay: Arc<SimRelay>,
    pub keyring: Arc<Keyring>,
    pub rulebook: Arc<Rulebook>,
    pub planted: Planted,
    running: Mutex<BTreeMap<Place, Running>>,
    lives: Mutex<u32>,
    /// Moments that shall be hit, by place.
    armed: Mutex<BTreeMap<Place, (Point, Befalls)>>,
}

impl Fleet {
    /// Servers that answer, and nobody who asks.
    pub fn new(world: &World, planted: Planted) -> Arc<Self> {
        let policies = [policy("default", Backoff::Delays(vec![Duration::from_secs(3), Duration::from_secs(6)]), AtDeadline::Review)]
            .into_iter()
            .chain([
                policy("patient", exponential(), AtDeadline::Escalate("support".to_owned())),
                policy("quiet", exponential(), AtDeadline::Suppress),
            ])
            .map(|policy| (policy.name.clone(), policy));
        let transports = BTreeMap::from([("default".to_owned(), TransportRules { idempotency_window: None, attempt_max: attempt_max() })]);
        Arc::new(Self {
            ledger: SimLedgerServer::start(world, SimLedgerOptions { shards: SHARDS, tombstone_max: TOMBSTONE, ..SimLedgerOptions::default() }),
            store: SimStoreServer::new(world, planted.store()),
            broker: Arc::new(SimBrokerServer::start(world, SHARDS)),
            relay: SimRelay::new(world, RELAY, Config { keep: Keep::Envelopes, ..Config::scripted(jobs::script(world.seed())) }),
            keyring: Arc::new(Keyring::new(BTreeMap::from([("k1".to_owned(), [7; 32])]), "k1", [9; 32]).expect("a good key")),
            rulebook: Arc::new(Rulebook::new(policies.collect(), transports)),
            world: world.clone(),
            planted,
            running: Mutex::default(),
            lives: Mutex::default(),
            armed: Mutex::default(),
        })
    }

    /// What a process of its own reaches the servers by.
    pub fn ports(&self, process: &Arc<Process>) -> Ports {
        Ports {
            ledger: Arc::new(SimLedger::new(&self.ledger, process, self.planted.ledger())),
            store: self.store.client(process),
            broker: Arc::new(self.broker.client(process)),
        }
    }

    /// Starts a process in a place that is empty.
    pub fn start(self: &Arc<Self>, place: Place) {
        let life = {
            let mut lives = self.lives.lock().expect("one thread");
            *lives += 1;
            *lives
        };
        let process = Process::start(format!("{}-{}.{life}", place.0.word(), place.1));
        let running = Running { process: Arc::clone(&process), stop: CancellationToken::new(), ended: Arc::new(Notify::new()) };
        let (stop, ended) = (running.stop.clone(), Arc::clone(&running.ended));
        let before = self.running().insert(place, running);
        assert!(before.is_none_or(|before| before.process.standing() == curfew_testkit::sim::Standing::Dead), "the place is empty");
        let fleet = Arc::clone(self);
        tokio::spawn(async move {
            fleet.live(place, process, stop).await;
            ended.notify_one();
        });
    }

    async fn live(self: &Arc<Self>, place: Place, process: Arc<Process>, stop: CancellationToken) {
        let (role, ports) = (place.0, self.ports(&process));
        let hands = Hands {
            rulebook: Arc::clone(&self.rulebook),
            keyring: Arc::clone(&self.keyring),
            machine: Arc::new(SimMachine { world: self.world.clone() }),
            pauses: Arc::new(Moments { fleet: Arc::clone(self), place, process: Arc::clone(&process) }),
        };
        let until = CancellationToken::new();
        let clocks = tokio::spawn(beside::watch_clocks(ports.clone(), Arc::clone(&hands.machine), until.clone()));
        let (id, empty_handed) = match role {
            Role::Scheduler => {
                let id = WorkerId(self.world.uuid());
                let place = beside::enrol(&ports, &self.world, id, role, until.clone()).await;
                Arc::new(Scheduler::new(ports.scheduler(hands), scheduler_settings(), Arc::new(Notify::new()))).run(stop).await;
                (place, true)
            }
            Role::Worker => {
                let lanes = BTreeMap::from([("default".to_owned(), Arc::new(self.lane(&process)))]);
                let worker = loop {
                    match Worker::new(ports.worker(hands.clone(), lanes.clone()), worker_settings()).await {
                        Ok(worker) => break worker,
                        Err(_away) => sleep(Duration::from_secs(1)).await,
                    }
                };
                let place = beside::enrol(&ports, &self.world, worker.id, role, until.clone()).await;
                Arc::clone(&worker).run(stop).await;
                (place, worker.drained())
            }
            Role::DeadLetter => {
                let id = WorkerId(self.world.uuid());
                let place = beside::enrol(&ports, &self.world, id, role, until.clone()).await;
                let settings = curfew_deadletter::Settings { shards: shards(), tick: TICK * 2 };
                Arc::new(DeadLetter::new(ports.deadletter(hands), settings)).run(stop).await;
                (place, true)
            }
        };
        until.cancel();
        let _ended = clocks.await;
        id.leave(empty_handed).await;
        process.kill();
    }

    /// kill -9, in the midst of whatever it does.
    pub fn kill(&self, place: Place) {
        if let Some(running) = self.running().get(&place) {
            running.process.kill();
            self.world.note(&format!("{} is killed", running.process.name()));
        }
    }

    /// SIGTERM; returns when it has ended. One that is frozen or dead doesn't hear it: nobody waits for it then.
    pub async fn drain(&self, place: Place) {
        let Some((stop, ended)) = self.running().get(&place).map(|r| (r.stop.clone(), Arc::clone(&r.ended))) else { return };
        stop.cancel();
        if tokio::time::timeout(DRAIN * 2, ended.notified()).await.is_err() {
            self.kill(place);
        }
    }

    /// The next process that comes to this moment in a place is hit.
    pub fn arm(&self, place: Place, point: Point, befalls: Befalls) {
        self.armed.lock().expect("one thread").insert(place, (point, befalls));
    }

    /// Nothing is hit any more.
    pub fn disarm(&self) {
        self.armed.lock().expect("one thread").clear();
    }

    /// What befalls a place that has come to a moment; once.
    pub fn hit(&self, place: Place, point: Point) -> Option<Befalls> {
        let mut armed = self.armed.lock().expect("one thread");
        if armed.get(&place).is_some_and(|(at, _)| *at == point) { armed.remove(&place).map(|(_, befalls)| befalls) } else { None }
    }

    /// The process of a place, dead or alive.
    pub fn process(&self, place: Place) -> Option<Arc<Process>> {
        self.running().get(&place).map(|running| Arc::clone(&running.process))
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Place, Running>> {
        self.running.lock().expect("one thread")
    }

    fn lane(&self, process: &Arc<Process>) -> Lane {
        let config = self.planted.transport(smtp_config());
        let transport = SmtpTransport::with_dial(config, None, SimNet::new(&self.world, process, vec![Arc::clone(&self.relay)]))
            .expect("the configuration is good");
        let settings = LaneSettings {
            name: "default".to_owned(),
            from_address: "reports@sender.example".to_owned(),
            from_name: None,
            rate_per_s: None,
            idempotency_header: None,
        };
        Lane::new(settings, Arc::new(transport))
    }
}

fn smtp_config() -> SmtpConfig {
    let mut config = SmtpConfig::new(RELAY, 25);
    config.tls = TlsMode::None;
    config.max_connections = 3;
    config.timeouts.connect = Duration::from_secs(5);
    config.timeouts.reply = Duration::from_secs(8);
    config.timeouts.block = Duration::from_secs(20);
    config.timeouts.end = Duration::from_secs(25);
    config
}

fn attempt_max() -> Duration {
    use curfew_transport::Transport as _;
    let nowhere = SmtpTransport::with_any_timeouts(smtp_config(), None).expect("the configuration is good");
    nowhere.attempt_max()
}

fn policy(name: &str, backoff: Backoff, at_deadline: AtDeadline) -> Policy {
    let jitter = Jitter { lo_ms: 0, hi_ms: 500, percent: None };
    Policy { name: name.to_owned(), version: 1, backoff, max_attempts: Some(8), jitter, at_deadline }
}

fn exponential() -> Backoff {
    Backoff::Exponential { base: Duration::from_secs(2), factor: 2.0, cap: Duration::from_secs(20) }
}

pub fn shards() -> Vec<Shard> {
    (0..SHARDS).map(Shard).collect()
}

fn scheduler_settings() -> curfew_scheduler::Settings {
    curfew_scheduler::Settings {
        shards: shards(),
        tick: TICK,
        horizon: Duration::from_secs(32),
        staging_window: STAGING_WINDOW,
        claim_grace: CLAIM_GRACE,
        lease: LEASE,
        concurrency: CONCURRENCY,
        tenants: Tenants::default(),
        max_live_bytes: u64::MAX,
    }
}

fn worker_settings() -> curfew_worker::Settings {
    let limits = TenantLimits { max_in_flight: Some(2), ..TenantLimits::default() };
    let tenants = Tenants::from([("acme".to_owned(), limits)]);
    curfew_worker::Settings { shards: shards(), concurrency: CONCURRENCY, lease: LEASE, drain: DRAIN, claim_grace: CLAIM_GRACE, tenants }
}
