//! A whole API on a SQLite store in a temporary folder, a clock set by hand, and a client that speaks HTTP by the letter.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use curfew_api::{Api, FleetInfo, Operator, Ready};
use curfew_book::sql::SqlBook;
use curfew_book::{Book, Schedules};
use curfew_courier::{Rulebook, TenantLimits, Tenants};
use curfew_domain::{Key, Moment};
use curfew_ledger::Ledger;
use curfew_ledger::redis::{self, RedisLedger};
use curfew_ledger::sql::{Options, SqlLedger};
use curfew_review::Review;
use curfew_review::sql::SqlReview;
use curfew_store::{OpenOptions, Sqlite};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{NOON, SECRET, door};

/// A running API.
pub struct House {
    pub api: Arc<Api>,
    pub ledger: Arc<dyn Ledger>,
    pub book: Arc<SqlBook>,
    pub review: Arc<SqlReview>,
    pub addr: SocketAddr,
    pub nudges: Arc<AtomicU64>,
    clock: Arc<AtomicI64>,
    pub store: Sqlite,
    _folder: tempfile::TempDir,
}

pub async fn house() -> House {
    house_of(Vec::new()).await
}

pub async fn house_of(operators: Vec<Operator>) -> House {
    house_with(operators, Arc::new(|| "curfew_up 1\n".to_owned())).await
}

pub async fn house_with(operators: Vec<Operator>, exposition: Arc<dyn Fn() -> String + Send + Sync>) -> House {
    house_over(operators, exposition, None).await
}

/// The same over a Redis at a URL, as a fleet has it.
pub async fn house_on_redis(url: &str) -> House {
    house_over(Vec::new(), Arc::new(String::new), Some(url)).await
}

async fn house_over(operators: Vec<Operator>, exposition: Arc<dyn Fn() -> String + Send + Sync>, redis: Option<&str>) -> House {
    let folder = tempfile::tempdir().expect("a test's set-up works");
    let clock = Arc::new(AtomicI64::new(NOON));
    let shown = Arc::clone(&clock);
    let store = Sqlite::open(OpenOptions::new(folder.path().join("data"))).await.expect("a test's set-up works");
    let by_hand: redis::Clock = Arc::new(move || Moment::from_millis(shown.load(Ordering::SeqCst)));
    let ledger: Arc<dyn Ledger> = match redis {
        None => {
            let options = Options { clock: by_hand, ..Options::default() };
            Arc::new(SqlLedger::open(store.clone(), options).await.expect("a test's set-up works"))
        }
        Some(url) => {
            let options = redis::Options { clock: Some(by_hand), ..redis::Options::default() };
            let ledger = RedisLedger::open(url, options).expect("a test's set-up works");
            ledger.initialise().await.expect("a test's set-up works");
            Arc::new(ledger)
        }
    };
    let book = Arc::new(SqlBook::open(store.clone()).await.expect("a test's set-up works"));
    let review = Arc::new(SqlReview::open(Arc::clone(&book)).await.expect("a test's set-up works"));
    let nudges = Arc::new(AtomicU64::new(0));
    let nudged = Arc::clone(&nudges);
    let nothing_in_flight = TenantLimits { max_in_flight: Some(0), ..TenantLimits::default() };
    let no_credit = TenantLimits { credit: Some(0), ..TenantLimits::default() };
    let api = Arc::new(Api {
        ledger: Arc::clone(&ledger),
        book: Arc::clone(&book) as Arc<dyn Book>,
        schedules: Arc::clone(&book) as Arc<dyn Schedules>,
        review: Arc::clone(&review) as Arc<dyn Review>,
        rulebook: Rulebook::new(BTreeMap::new(), BTreeMap::new()),
        door: door(folder.path()),
        operators,
        escalation_owner: "platform".to_owned(),
        event_secrets: BTreeMap::from([("default".to_owned(), SECRET.to_vec()), ("bulk".to_owned(), b"other".to_vec())]),
        staging_window: Duration::from_secs(600),
        tenants: Tenants::from([("full".to_owned(), nothing_in_flight), ("lent".to_owned(), no_credit)]),
        message_id_of: Arc::new(|key: &Key, revision, _transport| format!("{}.{revision}@curfew.invalid", key.as_str().replace('/', "."))),
        on_accepted: Arc::new(move || {
            nudged.fetch_add(1, Ordering::SeqCst);
        }),
        on_drain: Arc::new(|| {}),
        readiness: Arc::new(|| Ready { ready: false, waiting_for: vec!["the broker".to_owned()] }),
        exposition,
        fleet_info: Arc::new(|| FleetInfo {
            roles: vec!["api".into()],
            version: "0.1.0".into(),
            transports: vec!["default".into()],
            shards: 16,
            ..FleetInfo::default()
        }),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a test's set-up works");
    let addr = listener.local_addr().expect("a test's set-up works");
    let served = Arc::clone(&api);
    tokio::spawn(async move { curfew_api::serve(listener, served, std::future::pending()).await });
    House { api, ledger, book, review, addr, nudges, clock, store, _folder: folder }
}

/// What a server answered.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {} {}", self.status, self.body))
    }
}

impl House {
    pub fn now(&self) -> Moment {
        Moment::from_millis(self.clock.load(Ordering::SeqCst))
    }

    pub fn advance(&self, by: Duration) {
        self.clock.fetch_add(i64::try_from(by.as_millis()).expect("a test's set-up works"), Ordering::SeqCst);
    }

    pub async fn get(&self, path: &str) -> Answered {
        self.ask("GET", path, &[], b"").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answered {
        self.ask("POST", path, &[], body.to_string().as_bytes()).await
    }

    /// One request on a connection of its own; a `host` among the headers replaces the usual one.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answered {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.addr));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut stream = TcpStream::connect(self.addr).await.expect("a test's set-up works");
        stream.write_all(&[head.as_bytes(), body].concat()).await.expect("a test's set-up works");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("a test's set-up works");
        let answer = String::from_utf8(answer).expect("a test's set-up works");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a test's set-up works");
        let mut lines = head.lines();
        let status =
            lines.next().expect("a test's set-up works").split(' ').nth(1).expect("a test's set-up works").parse().expect("a test's set-up works");
        let headers = lines.filter_map(|l| l.split_once(": ")).map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned())).collect();
        Answered { status, headers, body: body.to_owned() }
    }
}
