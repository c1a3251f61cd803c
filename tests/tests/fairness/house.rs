//! A fleet of one scheduler, some workers and a dead-letter consumer, with as many relays as a test asks for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curfew_book::{BEAT_EVERY, Book, BookState, Door, Enrolment, HoldRow, Registry, Row};
use curfew_courier::pause::NoPauses;
use curfew_courier::{Rulebook, Tenants, TransportRules};
use curfew_deadletter::DeadLetter;
use curfew_domain::form::FORMAT;
use curfew_domain::job::{Job, Letter};
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::sealed::Keyring;
use curfew_domain::{JobId, Key, Moment, Shard, WorkerId, form};
use curfew_scheduler::Scheduler;
use curfew_testkit::Config;
use curfew_testkit::mail_server::{Keep, Script};
use curfew_testkit::sim::{
    LedgerBugs, Process, SimBrokerServer, SimLedger, SimLedgerOptions, SimLedgerServer, SimNet, SimRelay, SimStoreServer, StoreBugs, World,
};
use curfew_transport::Transport as _;
use curfew_transport::smtp::{SmtpConfig, SmtpTransport, TlsMode};
use curfew_worker::{Lane, LaneSettings, Worker};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Builder;

use crate::ports::{Hands, Ports, Role, SimMachine};

/// All jobs are of this day.
const DATE: &str = "2026-12-01";
const LEASE: Duration = Duration::from_secs(60);
const CLAIM_GRACE: Duration = Duration::from_secs(30);
/// Rows written by one acceptance.
const CHUNK: usize = 500;
/// What a way takes at the most; in whole milliseconds, from 0 on.
const WAY_MAX: Duration = Duration::from_millis(1);

/// A transport of the fleet. Its relay is a host of the same name.
#[derive(Clone)]
pub struct Relay {
    pub name: &'static str,
    pub rate_per_s: Option<f64>,
    pub max_connections: usize,
}

/// What a fleet is made of.
#[derive(Clone)]
pub struct Plan {
    pub shards: u8,
    pub workers: u8,
    pub concurrency: u32,
    pub relays: Vec<Relay>,
    pub tenants: Tenants,
    pub policy: (Backoff, Jitter),
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            shards: 1,
            workers: 1,
            concurrency: 64,
            relays: vec![Relay { name: "default", rate_per_s: None, max_connections: 20 }],
            tenants: Tenants::default(),
            policy: (Backoff::Delays(vec![Duration::from_secs(300), Duration::from_secs(600)]), Jitter { lo_ms: 0, hi_ms: 30_000, percent: None }),
        }
    }
}

/// A job to be.
#[derive(Clone, Debug)]
pub struct Wish {
    pub tenant: String,
    pub transport: &'static str,
    pub to: String,
    pub release_at: Moment,
    pub deadline_at: Moment,
}

impl Wish {
    /// Number `n` of many, of seven tenants in turn, over the default transport.
    pub fn of(n: usize, release_at: Moment, lasts: Duration) -> Self {
        let (tenant, to) = (format!("tenant-{}", n % 7), format!("{n}@example.com"));
        Self { tenant, transport: "default", to, release_at, deadline_at: release_at.plus(lasts) }
    }
}

/// A mail that a relay accepted.
#[derive(Clone, Debug)]
pub struct Mail {
    pub tenant: String,
    pub at: Moment,
    pub due: Moment,
}

/// Servers, and the processes on them.
pub struct House {
    pub world: World,
    pub plan: Plan,
    pub relays: BTreeMap<&'static str, Arc<SimRelay>>,
    pub ledger: Arc<SimLedgerServer>,
    pub store: Arc<SimStoreServer>,
    broker: Arc<SimBrokerServer>,
    pub keyring: Arc<Keyring>,
    rulebook: Arc<Rulebook>,
    door: Ports,
}

/// Runs a test on a runtime whose clock is virtual.
pub fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime is made").block_on(test)
}

/// Whether all the jobs of the promises are asked for.
pub fn full() -> bool {
    std::env::var("CURFEW_FAIRNESS_FULL").is_ok_and(|value| value == "1")
}

impl House {
    /// A fleet that runs.
    pub fn start(seed: u64, plan: Plan) -> Arc<Self> {
        let world = World::new(seed, false);
        let relay = |relay: &Relay| {
            let config = Config { keep: Keep::Envelopes, keep_happenings: false, ..Config::default() };
            (relay.name, SimRelay::new(&world, relay.name, config))
        };
        let relays: BTreeMap<_, _> = plan.relays.iter().map(relay).collect();
        let rules = |relay: &Relay| {
            let attempt_max = SmtpTransport::with_any_timeouts(smtp(relay), None).expect("the configuration is good").attempt_max();
            (relay.name.to_owned(), TransportRules { idempotency_window: None, attempt_max })
        };
        let (backoff, jitter) = plan.policy.clone();
        let policy = Policy { name: "default".to_owned(), version: 1, backoff, max_attempts: None, jitter, at_deadline: AtDeadline::Review };
        let ledger = SimLedgerServer::start(&world, SimLedgerOptions { shards: plan.shards, ..SimLedgerOptions::default() });
        let store = SimStoreServer::new(&world, StoreBugs::default());
        let broker = Arc::new(SimBrokerServer::start(&world, plan.shards));
        let process = Process::start("door");
        for service in [ledger.service(0), store.service(), broker.service()].into_iter().chain(relays.values().map(|relay| relay.service())) {
            service.weather().latency = (Duration::ZERO, WAY_MAX);
        }
        let door = ports(&ledger, &store, &broker, &process);
        let house = Arc::new(Self {
            keyring: Arc::new(Keyring::new(BTreeMap::from([("k1".to_owned(), [7; 32])]), "k1", [9; 32]).expect("a good key")),
            rulebook: Arc::new(Rulebook::new(BTreeMap::from([("default".to_owned(), policy)]), plan.relays.iter().map(rules).collect())),
            world,
            relays,
            ledger,
            store,
            broker,
            door,
            plan,
        });
        let workers = (1..=house.plan.workers).map(|number| (Role::Worker, number));
        for (role, number) in [(Role::Scheduler, 1), (Role::DeadLetter, 1)].into_iter().chain(workers) {
            tokio::spawn(Arc::clone(&house).live(role, number));
        }
        house
    }

    async fn live(self: Arc<Self>, role: Role, number: u8) {
        let process = Process::start(format!("{}-{number}", role.word()));
        let ports = ports(&self.ledger, &self.store, &self.broker, &process);
        let hands = self.hands();
        let stop = CancellationToken::new();
        let shards: Vec<_> = (0..self.plan.shards).map(Shard).collect();
        match role {
            Role::Scheduler => {
                self.enrol(&ports, WorkerId(self.world.uuid()), role).await;
                let scheduler = Scheduler::new(ports.scheduler(hands), self.scheduler_settings(shards), Arc::new(Notify::new()));
                Arc::new(scheduler).run(stop).await;
            }
            Role::Worker => {
                let tenants = self.plan.tenants.clone();
                let (concurrency, drain) = (self.plan.concurrency, Duration::from_secs(20));
                let settings = curfew_worker::Settings { shards, concurrency, lease: LEASE, drain, claim_grace: CLAIM_GRACE, tenants };
                let worker = Worker::new(ports.worker(hands, self.lanes(&process)), settings).await.expect("the stores answer");
                self.enrol(&ports, worker.id, role).await;
                worker.run(stop).await;
            }
            Role::DeadLetter => {
                self.enrol(&ports, WorkerId(self.world.uuid()), role).await;
                let settings = curfew_deadletter::Settings { shards, tick: Duration::from_secs(1) };
                Arc::new(DeadLetter::new(ports.deadletter(hands), settings)).run(stop).await;
            }
        }
    }

    /// A place in the registry, kept while the runtime lives.
    async fn enrol(&self, ports: &Ports, id: WorkerId, role: Role) {
        let at = self.world.now();
        let process =
            Enrolment { id, roles: vec![role.word().to_owned()], name: id.0.to_string(), version: "0".to_owned(), reads_format: FORMAT, at };
        ports.store.enrol(&process).await.expect("the book answers");
        let (store, world) = (Arc::clone(&ports.store), self.world.clone());
        tokio::spawn(async move {
            loop {
                sleep(BEAT_EVERY).await;
                store.alive(id, world.now()).await.expect("the book answers");
            }
        });
    }

    /// From now on the relay of that name answers by this script.
    pub fn script(&self, relay: &str, script: impl Script + 'static) {
        self.relays[relay].server().set_script(script);
    }

    /// Accepts jobs; their numbers begin at `first`.
    pub async fn submit(&self, first: usize, wishes: &[Wish]) {
        let jobs: Vec<_> = wishes.iter().enumerate().map(|(n, wish)| self.job(first + n, wish)).collect();
        for chunk in jobs.chunks(CHUNK) {
            let door = Door { at: self.world.now(), actor: "local".to_owned() };
            self.door.store.accept(chunk.to_vec(), &door).await.expect("the book answers");
        }
    }

    /// What the book holds back.
    pub async fn holds(&self) -> Vec<HoldRow> {
        self.door.store.holds().await.expect("the book answers")
    }

    /// Waits until every job has ended, and returns the rows.
    pub async fn ended(&self, within: Duration) -> Vec<Row> {
        let until = self.world.elapsed() + within;
        loop {
            sleep(Duration::from_secs(5)).await;
            let rows = self.store.rows();
            if rows.iter().all(|row| !matches!(row.state, BookState::Planned | BookState::Staged)) {
                return rows;
            }
            let open = rows.iter().filter(|row| matches!(row.state, BookState::Planned | BookState::Staged)).count();
            assert!(self.world.elapsed() < until, "{open} of {} jobs haven't ended within {within:?}", rows.len());
        }
    }

    /// What the relays accepted, by the time at which they did.
    pub fn mails(&self, relay: &str) -> Vec<Mail> {
        let rows: BTreeMap<_, _> = self.store.rows().into_iter().map(|row| (row.job.id, row)).collect();
        let mail = |accepted: &Arc<curfew_testkit::mail_server::Accepted>| {
            let id = accepted.job.as_deref().and_then(|id| id.parse().ok()).map(JobId).expect("a mail names its job");
            let job = &rows[&id].job;
            Mail { tenant: job.tenant.clone(), at: moment(accepted.at), due: job.release_at }
        };
        self.relays[relay].server().accepted().iter().map(mail).collect()
    }

    fn job(&self, n: usize, wish: &Wish) -> Job {
        let id = JobId(Builder::from_random_bytes(self.world.uuid().into_bytes()).into_uuid());
        let letter = Letter {
            to_address: wish.to.clone(),
            to_name: None,
            subject: format!("Report {n}"),
            text: Some("A line of the report.\n".to_owned()),
            html: None,
            list_unsubscribe: None,
            attachments: Vec::new(),
            template: None,
        };
        let mut nonce = [0; 24];
        nonce[..8].copy_from_slice(&(n as u64).to_be_bytes());
        Job {
            id,
            key: Key::parse(&format!("{}/report/{n}/{DATE}", wish.tenant)).expect("a key"),
            tenant: wish.tenant.clone(),
            purpose: "report".to_owned(),
            subject_ref: n.to_string(),
            business_date: DATE.to_owned(),
            shard: Shard::of_tenant(&wish.tenant, self.plan.shards),
            recipient_ref: self.keyring.recipient_ref(&wish.to),
            recipient_masked: "…@example.com".to_owned(),
            letter: self.keyring.seal(nonce, id.as_bytes(), &form::encode(&letter)),
            content_revision: 1,
            fingerprints: BTreeMap::new(),
            release_at: wish.release_at,
            deadline_at: wish.deadline_at,
            local: None,
            policy: "default".to_owned(),
            transport: wish.transport.to_owned(),
            labels: BTreeMap::new(),
            accepted_at: self.world.now(),
            trace: None,
        }
    }

    fn scheduler_settings(&self, shards: Vec<Shard>) -> curfew_scheduler::Settings {
        curfew_scheduler::Settings {
            shards,
            tick: Duration::from_millis(100),
            horizon: Duration::from_secs(32),
            staging_window: Duration::from_secs(600),
            claim_grace: CLAIM_GRACE,
            lease: LEASE,
            concurrency: self.plan.concurrency * u32::from(self.plan.workers),
            tenants: self.plan.tenants.clone(),
            max_live_bytes: u64::MAX,
        }
    }

    fn lanes(&self, process: &Arc<Process>) -> BTreeMap<String, Arc<Lane>> {
        self.plan.relays.iter().map(|relay| (relay.name.to_owned(), Arc::new(self.lane(process, relay)))).collect()
    }

    fn hands(&self) -> Hands {
        let machine = Arc::new(SimMachine { world: self.world.clone() });
        Hands { rulebook: Arc::clone(&self.rulebook), keyring: Arc::clone(&self.keyring), machine, pauses: Arc::new(NoPauses) }
    }

    fn lane(&self, process: &Arc<Process>, relay: &Relay) -> Lane {
        let dial = SimNet::new(&self.world, process, self.relays.values().cloned().collect());
        let transport = SmtpTransport::with_dial(smtp(relay), None, dial).expect("the configuration is good");
        let settings = LaneSettings {
            name: relay.name.to_owned(),
            from_address: "reports@sender.example".to_owned(),
            from_name: None,
            rate_per_s: relay.rate_per_s,
            idempotency_header: None,
        };
        Lane::new(settings, Arc::new(transport))
    }
}

fn ports(ledger: &Arc<SimLedgerServer>, store: &Arc<SimStoreServer>, broker: &SimBrokerServer, process: &Arc<Process>) -> Ports {
    Ports {
        ledger: Arc::new(SimLedger::new(ledger, process, LedgerBugs::default())),
        store: store.client(process),
        broker: Arc::new(broker.client(process)),
    }
}

fn smtp(relay: &Relay) -> SmtpConfig {
    let mut config = SmtpConfig::new(relay.name, 25);
    config.tls = TlsMode::None;
    config.max_connections = relay.max_connections;
    config
}

fn moment(at: SystemTime) -> Moment {
    Moment::from_millis(i64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(i64::MAX))
}

/// The value that 99 of 100 don't exceed.
pub fn p99(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[(all.len() * 99).div_ceil(100) - 1]
}

/// The most, and the least, that come in any stretch of so long, from the first moment to the last.
pub fn in_any(stretch: Duration, at: &[Moment]) -> (usize, usize) {
    let mut at = at.to_vec();
    at.sort_unstable();
    let last = at.last().copied().unwrap_or_default();
    let counts = at.iter().enumerate().map(|(n, from)| (*from, at[n..].partition_point(|moment| *moment < from.plus(stretch))));
    let counts: Vec<_> = counts.collect();
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let least = counts.iter().filter(|(from, _)| from.plus(stretch) <= last).map(|(_, count)| *count).min().unwrap_or(0);
    (most, least)
}
