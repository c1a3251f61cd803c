//! A house with everything in it: stores, broker, keys, lanes, and the roles that a test starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curfew_book::sql::SqlBook;
use curfew_book::{Accepted, Book, Door, Row, VerbRequest};
use curfew_broker::in_process::InProcess;
use curfew_content::Artifacts;
use curfew_courier::{Rulebook, Tenants, TransportRules, VerbOutcome};
use curfew_deadletter::DeadLetter;
use curfew_domain::job::{Attachment, Job, Letter};
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::sealed::Keyring;
use curfew_domain::verb::Verb;
use curfew_domain::{JobId, Key, Moment, Reason, Record, Shard, form};
use curfew_ledger::Ledger;
use curfew_ledger::sql::{Options, SqlLedger};
use curfew_review::sql::SqlReview;
use curfew_review::{Item, Review};
use curfew_scheduler::Scheduler;
use curfew_store::{OpenOptions, Sqlite};
use curfew_testkit::{MailServer, eventually};
use curfew_transport::smtp::{SmtpConfig, SmtpTransport, TlsMode};
use curfew_worker::pause::{NoPauses, Pauses};
use curfew_worker::{Lane, LaneSettings, Worker};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How long a test waits for a state.
pub const PATIENCE: Duration = Duration::from_secs(30);
pub const SHARDS: u8 = 2;
const STAGING_WINDOW: Duration = Duration::from_secs(600);
const CLAIM_GRACE: Duration = Duration::from_millis(500);

/// What differs from test to test.
pub struct Plan {
    pub lanes: Vec<Lane>,
    pub delays: Vec<Duration>,
    pub at_deadline: AtDeadline,
    pub pauses: Arc<dyn Pauses>,
    pub worker_tenants: Tenants,
    pub concurrency: u32,
    pub lease: Duration,
    pub drain: Duration,
}

impl Plan {
    pub fn new(lanes: Vec<Lane>) -> Self {
        Self {
            lanes,
            delays: vec![Duration::from_millis(20); 2],
            at_deadline: AtDeadline::Review,
            pauses: Arc::new(NoPauses),
            worker_tenants: Tenants::default(),
            concurrency: 16,
            lease: Duration::from_secs(10),
            drain: Duration::from_secs(20),
        }
    }
}

/// An SMTP lane to a server, with so many connections.
pub fn lane(name: &str, server: &MailServer, connections: usize) -> Lane {
    lane_with(name, server, connections, None, |_| {})
}

pub fn lane_with(name: &str, server: &MailServer, connections: usize, rate_per_s: Option<f64>, change: impl FnOnce(&mut SmtpConfig)) -> Lane {
    let mut config = SmtpConfig::new(server.addr().ip().to_string(), server.addr().port());
    config.tls = TlsMode::None;
    config.max_connections = connections;
    change(&mut config);
    let transport = SmtpTransport::with_any_timeouts(config, None).expect("the configuration is good");
    let settings = LaneSettings {
        name: name.to_owned(),
        from_address: "reports@sender.example".to_owned(),
        from_name: None,
        rate_per_s,
        idempotency_header: None,
    };
    Lane::new(settings, Arc::new(transport))
}

pub struct House {
    pub ledger: Arc<dyn Ledger>,
    pub book: Arc<SqlBook>,
    pub review: Arc<SqlReview>,
    pub broker: Arc<InProcess>,
    pub folder: tempfile::TempDir,
    pub rulebook: Arc<Rulebook>,
    keyring: Arc<Keyring>,
    artifacts: Arc<Artifacts>,
    lanes: Arc<BTreeMap<String, Arc<Lane>>>,
    pauses: Arc<dyn Pauses>,
    ahead: Arc<AtomicI64>,
    worker_settings: curfew_worker::Settings,
}

impl House {
    pub async fn new(plan: Plan) -> Self {
        Self::over(plan, |ledger| ledger).await
    }

    /// With something between the roles and the ledger.
    pub async fn over(plan: Plan, between: impl FnOnce(Arc<dyn Ledger>) -> Arc<dyn Ledger>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder is made");
        let store = Sqlite::open(OpenOptions::new(folder.path())).await.expect("the store opens");
        let ahead = Arc::new(AtomicI64::new(0));
        let shown = Arc::clone(&ahead);
        let clock = Arc::new(move || Moment::from_millis(system_ms() + shown.load(Ordering::SeqCst)));
        let ledger = SqlLedger::open(store.clone(), Options { clock, ..Options::default() }).await.expect("the ledger opens");
        let book = Arc::new(SqlBook::open(store).await.expect("the book opens"));
        let review = Arc::new(SqlReview::open(Arc::clone(&book)).await.expect("review opens"));
        let policy = Policy {
            name: "default".to_owned(),
            version: 1,
            backoff: Backoff::Delays(plan.delays),
            max_attempts: None,
            jitter: Jitter::default(),
            at_deadline: plan.at_deadline,
        };
        let rules = |lane: &Lane| TransportRules { idempotency_window: None, attempt_max: lane.transport.attempt_max() };
        let transports = plan.lanes.iter().map(|lane| (lane.settings.name.clone(), rules(lane))).collect();
        std::fs::create_dir(folder.path().join("reports")).expect("a folder is made");
        Self {
            ledger: between(Arc::new(ledger)),
            review,
            broker: Arc::new(InProcess::new(SHARDS)),
            rulebook: Arc::new(Rulebook::new(BTreeMap::from([("default".to_owned(), policy)]), transports)),
            keyring: Arc::new(Keyring::new(BTreeMap::from([("k1".to_owned(), [7; 32])]), "k1", [9; 32]).expect("a good key")),
            artifacts: Arc::new(Artifacts::new(folder.path(), &["file:reports/".to_owned()]).expect("a good root")),
            lanes: Arc::new(plan.lanes.into_iter().map(|lane| (lane.settings.name.clone(), Arc::new(lane))).collect()),
            pauses: plan.pauses,
            ahead,
            worker_settings: curfew_worker::Settings {
                shards: shards(),
                concurrency: plan.concurrency,
                lease: plan.lease,
                drain: plan.drain,
                claim_grace: CLAIM_GRACE,
                tenants: plan.worker_tenants,
            },
            book,
            folder,
        }
    }

    pub fn now(&self) -> Moment {
        Moment::from_millis(system_ms() + self.ahead.load(Ordering::SeqCst))
    }

    /// Time passes for the ledger, and for everybody who asks it.
    pub fn advance(&self, by: Duration) {
        self.ahead.fetch_add(i64::try_from(by.as_millis()).expect("a test's time"), Ordering::SeqCst);
    }

    pub fn scheduler_parts(&self) -> (curfew_scheduler::Ports, curfew_scheduler::Settings) {
        let ports = curfew_scheduler::Ports {
            ledger: Arc::clone(&self.ledger),
            book: Arc::clone(&self.book) as Arc<dyn Book>,
            review: Arc::clone(&self.review) as Arc<dyn Review>,
            broker: Arc::clone(&self.broker) as Arc<_>,
            rulebook: Arc::clone(&self.rulebook),
            machine: Arc::new(curfew_courier::ThisMachine),
            pauses: Arc::clone(&self.pauses),
        };
        let settings = curfew_scheduler::Settings {
            shards: shards(),
            tick: Duration::from_millis(20),
            horizon: Duration::from_secs(32),
            staging_window: STAGING_WINDOW,
            claim_grace: CLAIM_GRACE,
            lease: self.worker_settings.lease,
            concurrency: self.worker_settings.concurrency,
            tenants: self.worker_settings.tenants.clone(),
            max_live_bytes: u64::MAX,
        };
        (ports, settings)
    }

    pub fn scheduler(&self) -> Running<Scheduler> {
        let (ports, settings) = self.scheduler_parts();
        let scheduler = Arc::new(Scheduler::new(ports, settings, Arc::new(Notify::new())));
        let stop = CancellationToken::new();
        Running { task: tokio::spawn(Arc::clone(&scheduler).run(stop.clone())), role: scheduler, stop }
    }

    pub async fn worker(&self) -> Running<Worker> {
        let ports = curfew_worker::Ports {
            ledger: Arc::clone(&self.ledger),
            book: Arc::clone(&self.book) as Arc<dyn Book>,
            broker: Arc::clone(&self.broker) as Arc<_>,
            rulebook: Arc::clone(&self.rulebook),
            keyring: Arc::clone(&self.keyring),
            artifacts: Arc::clone(&self.artifacts),
            lanes: Arc::clone(&self.lanes),
            machine: Arc::new(curfew_courier::ThisMachine),
            pauses: Arc::clone(&self.pauses),
        };
        let worker = Worker::new(ports, self.worker_settings.clone()).await.expect("the ledger answers");
        let stop = CancellationToken::new();
        Running { task: tokio::spawn(Arc::clone(&worker).run(stop.clone())), role: worker, stop }
    }

    pub fn deadletter(&self) -> Running<DeadLetter> {
        let ports = curfew_deadletter::Ports {
            ledger: Arc::clone(&self.ledger),
            book: Arc::clone(&self.book) as Arc<dyn Book>,
            review: Arc::clone(&self.review) as Arc<dyn Review>,
            broker: Arc::clone(&self.broker) as Arc<_>,
            keyring: Arc::clone(&self.keyring),
            owners: Arc::new(BTreeMap::from([("permanent_failure".to_owned(), "crm".to_owned())])),
            pauses: Arc::clone(&self.pauses),
        };
        let role = Arc::new(DeadLetter::new(ports, curfew_deadletter::Settings { shards: shards(), tick: Duration::from_millis(20) }));
        let stop = CancellationToken::new();
        Running { task: tokio::spawn(Arc::clone(&role).run(stop.clone())), role, stop }
    }

    /// Another process over the same stores: its lanes know nothing of what the former one's knew.
    pub fn with_lanes(self, lanes: Vec<Lane>) -> Self {
        let lanes = lanes.into_iter().map(|lane| (lane.settings.name.clone(), Arc::new(lane))).collect();
        Self { lanes: Arc::new(lanes), ..self }
    }

    pub fn lane(&self, name: &str) -> &Lane {
        &self.lanes[name]
    }

    /// All three.
    pub async fn all(&self) -> (Running<Scheduler>, Running<Worker>, Running<DeadLetter>) {
        (self.scheduler(), self.worker().await, self.deadletter())
    }

    /// A job for `recipient`, due now, its deadline in an hour.
    pub fn mail(&self, tenant: &str, n: u32) -> Mail {
        Mail {
            tenant: tenant.to_owned(),
            n,
            transport: "smtp".to_owned(),
            release_at: self.now(),
            deadline_at: self.now().plus(Duration::from_secs(3_600)),
            attachments: Vec::new(),
        }
    }

    pub async fn submit(&self, mails: &[Mail]) -> Vec<Key> {
        let jobs: Vec<Job> = mails.iter().map(|mail| self.job(mail)).collect();
        let keys = jobs.iter().map(|job| job.key.clone()).collect();
        let door = Door { at: self.now(), actor: "local".to_owned() };
        for answer in self.book.accept(jobs, &door).await.expect("the book answers") {
            assert!(matches!(answer, Accepted::New(_)), "a new job: {answer:?}");
        }
        keys
    }

    pub async fn submit_one(&self, mail: &Mail) -> Key {
        self.submit(std::slice::from_ref(mail)).await.remove(0)
    }

    fn job(&self, mail: &Mail) -> Job {
        let id = JobId(Uuid::now_v7());
        Job {
            id,
            key: Key::from_parts(&mail.tenant, "renewal", &format!("R-{}", mail.n), "2026-12-01").expect("well formed"),
            tenant: mail.tenant.clone(),
            purpose: "renewal".to_owned(),
            subject_ref: format!("R-{}", mail.n),
            business_date: "2026-12-01".to_owned(),
            shard: Shard::of_tenant(&mail.tenant, SHARDS),
            recipient_ref: self.keyring.recipient_ref(&mail.to()),
            recipient_masked: "a…@e…".to_owned(),
            letter: self.keyring.seal(
                Uuid::new_v4().as_bytes().repeat(2)[..24].try_into().expect("24 bytes"),
                id.as_bytes(),
                &form::encode(&mail.letter()),
            ),
            content_revision: 1,
            fingerprints: BTreeMap::new(),
            release_at: mail.release_at,
            deadline_at: mail.deadline_at,
            local: None,
            policy: "default".to_owned(),
            transport: mail.transport.clone(),
            labels: BTreeMap::new(),
            accepted_at: self.now(),
            trace: None,
        }
    }

    pub fn seal(&self, id: JobId, letter: &Letter) -> curfew_domain::sealed::Sealed {
        self.keyring.seal(Uuid::new_v4().as_bytes().repeat(2)[..24].try_into().expect("24 bytes"), id.as_bytes(), &form::encode(letter))
    }

    pub async fn row(&self, key: &Key) -> Row {
        self.book.by_key(key).await.expect("the book answers").expect("the job is known")
    }

    pub async fn record(&self, key: &Key) -> Option<Record> {
        self.ledger.records(std::slice::from_ref(key)).await.expect("the ledger answers").pop().flatten()
    }

    /// The state as people see it: the record's while it is live, else the row's.
    pub async fn shown(&self, key: &Key) -> String {
        match self.record(key).await {
            Some(record) if record.is_live() => record.state.word().to_owned(),
            Some(_) | None => self.row(key).await.state.word().to_owned(),
        }
    }

    /// Waits until a job shows one of these states; live ones in the ledger, ended ones in the book.
    pub async fn until(&self, key: &Key, states: &[&str]) {
        let seen = std::sync::Mutex::new(String::new());
        eventually(PATIENCE, &format!("{key} is {states:?}"), || async {
            let shown = self.shown(key).await;
            *seen.lock().expect("a test") = shown.clone();
            let ended = ["sent", "dead_letter", "cancelled", "suppressed"].contains(&shown.as_str());
            let in_the_book = !ended || self.row(key).await.state.word() == shown;
            (states.contains(&shown.as_str()) && in_the_book).then_some(())
        })
        .await;
    }

    pub async fn until_all(&self, keys: &[Key], state: &str) {
        for key in keys {
            self.until(key, &[state]).await;
        }
    }

    /// Waits for a job's open review item.
    pub async fn item(&self, key: &Key, reason: Reason) -> Item {
        self.until(key, &["dead_letter"]).await;
        let item = eventually(PATIENCE, "an open item", || async { self.review.open_item_of(key).await.expect("review answers") }).await;
        assert_eq!(item.reason, reason);
        item
    }

    pub async fn verb(&self, key: &Key, verb: Verb) -> VerbOutcome {
        let request = VerbRequest {
            key: key.clone(),
            verb,
            actor: "alice".to_owned(),
            reason: "asked by the customer".to_owned(),
            at: self.now(),
            book_alone_from: self.now().plus(STAGING_WINDOW + Duration::from_secs(120)),
        };
        curfew_courier::carry_out(&*self.ledger, &*self.book, &*self.review, &self.rulebook, request).await.expect("the stores answer")
    }

    /// An operator's `fleet resume`.
    pub async fn resume(&self, transport: &str, by: &str) {
        let stood = self.book.lift("transport", transport, by, "alice", "mended", self.now()).await.expect("the book answers");
        assert!(stood, "there was a hold to lift");
    }

    /// Waits until the book shows a hold.
    pub async fn until_held(&self, transport: &str, by: &str) {
        eventually(PATIENCE, &format!("{transport} is held by {by}"), || async {
            let rows = self.book.holds().await.expect("the book answers");
            rows.iter().any(|row| row.name == transport && row.by == by).then_some(())
        })
        .await;
    }
}

fn shards() -> Vec<Shard> {
    (0..SHARDS).map(Shard).collect()
}

fn system_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()).expect("before the year 300 million")
}

/// A job as a test wants it.
#[derive(Clone)]
pub struct Mail {
    pub tenant: String,
    pub n: u32,
    pub transport: String,
    pub release_at: Moment,
    pub deadline_at: Moment,
    pub attachments: Vec<Attachment>,
}

impl Mail {
    pub fn to(&self) -> String {
        format!("r{}@{}.example", self.n, self.tenant)
    }

    pub fn letter(&self) -> Letter {
        Letter {
            to_address: self.to(),
            to_name: None,
            subject: format!("Renewal {}", self.n),
            text: Some("Please renew.\r\n".to_owned()),
            html: None,
            list_unsubscribe: None,
            attachments: self.attachments.clone(),
            template: None,
        }
    }

    pub fn over(self, transport: &str) -> Self {
        Self { transport: transport.to_owned(), ..self }
    }

    pub fn released_in(self, by: Duration) -> Self {
        let (release_at, deadline_at) = (self.release_at.plus(by), self.deadline_at.plus(by));
        Self { release_at, deadline_at, ..self }
    }
}

/// A role that runs. Dropped, it is killed.
pub struct Running<R> {
    pub role: Arc<R>,
    pub stop: CancellationToken,
    task: JoinHandle<()>,
}

impl<R> Running<R> {
    /// Stops it and waits until it is done.
    pub async fn finish(mut self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, &mut self.task).await.expect("it ends in time").expect("it doesn't panic");
    }
}

impl<R> Drop for Running<R> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
