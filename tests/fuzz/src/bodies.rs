//! Requests to the API, over HTTP, to the routes as they stand.
//!
//! The first line is `METHOD /path`, the rest the body. In both `{job}` is a planned job's id, `{item}` an open review item, `{doubt}` a job
//! whose handoff is in doubt. A provider's events are signed for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use curfew_api::{Api, FleetInfo, Ready, serve, sign};
use curfew_book::sql::SqlBook;
use curfew_book::{Book, Planned, Schedules};
use curfew_courier::{Rulebook, begin, record_dead_letters, stage};
use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};
use curfew_domain::transition::{Event, Verdict, transition};
use curfew_domain::{Key, Moment, Record, Shard, Token, WorkerId};
use curfew_ledger::Ledger;
use curfew_ledger::Swap;
use curfew_ledger::sql::{Options, SqlLedger};
use curfew_review::sql::SqlReview;
use curfew_review::{Review, ReviewFilter};
use curfew_store::{OpenOptions, Sqlite};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::house::{NOON, door};
use super::told;

const SECRET: &[u8] = b"an events secret";
const LEASE: Duration = Duration::from_secs(60);
const WORKER: WorkerId = WorkerId(Uuid::from_u128(1));
/// After so many requests the house is built anew, so that its book stays small.
const REQUESTS_MAX: u32 = 20_000;
/// So many jobs are made at most for the names that verbs use up.
const JOBS_MAX: u32 = 500;

thread_local! {
    static HOUSE: RefCell<Option<House>> = const { RefCell::new(None) };
}

/// Whatever is asked, the answer is one of the contract's, and repeats no address of the body.
pub fn http_body(bytes: &[u8]) {
    let Some(end) = bytes.iter().position(|b| *b == b'\n') else { return };
    let Some((method, path)) = std::str::from_utf8(&bytes[..end]).ok().and_then(|line| line.split_once(' ')) else { return };
    // What HTTP itself refuses is the library's affair.
    let plain =
        path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/?&=%{}-._~:@!$'()*+,;".contains(&b)) && path.starts_with('/') && path.len() <= 400;
    if !plain || !matches!(method, "GET" | "POST" | "DELETE") {
        return;
    }
    HOUSE.with_borrow_mut(|held| {
        let spent = held.as_ref().is_some_and(|house| house.requests > REQUESTS_MAX || house.jobs > JOBS_MAX);
        if spent {
            *held = None;
        }
        held.get_or_insert_with(House::new).ask(method, path, &bytes[end + 1..]);
    });
}

struct House {
    runtime: Runtime,
    api: Arc<Api>,
    stream: TcpStream,
    requests: u32,
    jobs: u32,
    job: String,
    item: String,
    doubt: String,
    _folder: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let (api, stream) = runtime.block_on(async {
            let api = api(folder.path()).await;
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let addr = listener.local_addr().expect("an address");
            tokio::spawn(serve(listener, Arc::clone(&api), std::future::pending()));
            (api, TcpStream::connect(addr).await.expect("it listens"))
        });
        let mut house =
            Self { runtime, api, stream, requests: 0, jobs: 0, job: String::new(), item: String::new(), doubt: String::new(), _folder: folder };
        house.furnish();
        house
    }

    fn ask(&mut self, method: &str, path: &str, body: &[u8]) {
        self.requests += 1;
        let named = |text: &str| text.replace("{job}", &self.job).replace("{item}", &self.item).replace("{doubt}", &self.doubt);
        let used = [path.as_bytes(), body].iter().any(|part| ["{job}", "{item}", "{doubt}"].iter().any(|name| holds(part, name)));
        let path = named(path);
        let body = std::str::from_utf8(body).map_or_else(|_bytes| body.to_vec(), |text| named(text).into_bytes());
        let (status, answer) = self.runtime.block_on(exchange(&mut self.stream, method, &path, &body));
        judge(&path, status, &answer, &body);
        if used && method != "GET" && status == 200 {
            self.furnish();
        }
    }

    /// A planned job, an item and a handoff in doubt, where there is none any more.
    fn furnish(&mut self) {
        self.jobs += 3;
        let number = self.jobs;
        let api = Arc::clone(&self.api);
        let made = self.runtime.block_on(async {
            let job = submitted(&api, number, Value::from("2026-12-01T08:30:00Z")).await;
            let refused = submitted(&api, number + 1, Value::Null).await;
            let doubtful = submitted(&api, number + 2, Value::Null).await;
            stage_planned(&api).await;
            dead(&api, &refused.1, OutcomeClass::Permanent).await;
            dead(&api, &doubtful.1, OutcomeClass::Ambiguous).await;
            let filter = ReviewFilter { limit: 500, ..ReviewFilter::default() };
            let items = api.review.list(&filter).await.expect("items").items;
            let item = items.iter().find(|item| item.key.as_ref() == Some(&refused.1)).expect("an item");
            (job.0, item.id.to_string(), doubtful.0)
        });
        (self.job, self.item, self.doubt) = made;
    }
}

fn holds(part: &[u8], name: &str) -> bool {
    part.windows(name.len()).any(|window| window == name.as_bytes())
}

fn judge(path: &str, status: u16, answer: &[u8], body: &[u8]) {
    assert!(matches!(status, 200 | 201 | 202 | 400 | 401 | 403 | 404 | 405 | 409 | 413 | 422 | 503), "{path}: {status}");
    let said = std::str::from_utf8(answer).expect("an answer is text");
    let known = matches!(status, 503) && path.starts_with("/readyz");
    assert!(status != 503 || known || said.contains("send all of them again"), "{path}: {said}");
    if !path.contains("/preview") && !path.starts_with("/openapi.json") {
        let secrets = serde_json::from_slice(body).map(|value| told::addresses(&value)).unwrap_or_default();
        told::repeats_none(said, &secrets);
    }
    if status < 400 || known {
        return;
    }
    let problem: Value = serde_json::from_slice(answer).unwrap_or_else(|e| panic!("{path}: {status} is no problem: {e}"));
    assert!(problem["type"].as_str().is_some_and(|t| t.starts_with("/problems/")) && problem["status"] == status, "{problem}");
    assert!(problem["title"].is_string() && problem["detail"].as_str().is_some_and(|d| !d.is_empty()), "{problem}");
    let errors = problem["errors"].as_array().expect("a list");
    assert!(status != 422 || !errors.is_empty(), "{problem}");
    for error in errors {
        told::is_refusal(error["field"].as_str().unwrap_or_default(), error["error"].as_str().unwrap_or_default());
    }
}

async fn exchange(stream: &mut TcpStream, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n", body.len());
    if path.starts_with("/v1/provider-events/") {
        head.push_str(&format!("curfew-signature: {}\r\n", sign(SECRET, NOON / 1000, body)));
    }
    head.push_str("\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await.expect("the server reads");
    let mut answer = Vec::new();
    loop {
        let head = answer.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4);
        if let Some(at) = head {
            let text = String::from_utf8_lossy(&answer[..at]).to_ascii_lowercase();
            let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
            let length = text.split("content-length: ").nth(1).and_then(|s| s.lines().next()).map_or(0, |n| n.parse().expect("a length"));
            if answer.len() >= at + length {
                return (status, answer.split_off(at));
            }
        }
        assert!(stream.read_buf(&mut answer).await.expect("the server answers") > 0, "{method} {path}: the server closed");
    }
}

async fn api(folder: &std::path::Path) -> Arc<Api> {
    let store = Sqlite::open(OpenOptions::new(folder.join("data"))).await.expect("a store");
    let options = Options { clock: Arc::new(|| Moment::from_millis(NOON)), ..Options::default() };
    let ledger = Arc::new(SqlLedger::open(store.clone(), options).await.expect("a ledger"));
    let book = Arc::new(SqlBook::open(store).await.expect("a book"));
    let review = Arc::new(SqlReview::open(Arc::clone(&book)).await.expect("a review"));
    Arc::new(Api {
        ledger: ledger as Arc<dyn Ledger>,
        schedules: Arc::clone(&book) as Arc<dyn Schedules>,
        book: book as Arc<dyn Book>,
        review: review as Arc<dyn Review>,
        rulebook: Rulebook::new(BTreeMap::new(), BTreeMap::new()),
        door: door(folder),
        operators: Vec::new(),
        escalation_owner: "platform".to_owned(),
        event_secrets: BTreeMap::from([("default".to_owned(), SECRET.to_vec()), ("bulk".to_owned(), SECRET.to_vec())]),
        staging_window: Duration::from_secs(600),
        tenants: curfew_courier::Tenants::default(),
        message_id_of: Arc::new(|key: &Key, revision, _transport| format!("{}.{revision}@curfew.invalid", key.as_str().replace('/', "."))),
        on_accepted: Arc::new(|| {}),
        on_drain: Arc::new(|| {}),
        readiness: Arc::new(|| Ready { ready: false, waiting_for: vec!["the broker".to_owned()] }),
        exposition: Arc::new(|| "curfew_up 1\n".to_owned()),
        fleet_info: Arc::new(|| FleetInfo { roles: vec!["api".into()], shards: 16, ..FleetInfo::default() }),
    })
}

/// A job's id and key.
async fn submitted(api: &Api, number: u32, release_at: Value) -> (String, Key) {
    let line = json!({
        "tenant": "fuzz", "purpose": "renewal-reminder", "subject_ref": format!("R-{number}"), "business_date": "2026-12-01",
        "to": {"address": "ada.lovelace@customer.example", "name": "Ada Lovelace"}, "content": {"template": "renewal@1", "params": {"plan": "Gold"}},
        "release_at": release_at, "deadline_at": "2026-12-01T09:00:00Z",
    });
    let at = Moment::from_millis(NOON);
    let job = api.door.admit(line.to_string().as_bytes(), None, at).expect("the door takes it");
    let made = (job.id.to_string(), job.key.clone());
    api.book.accept(vec![job], &curfew_book::Door { at, actor: "local".into() }).await.expect("accepted");
    made
}

async fn stage_planned(api: &Api) {
    let shards: Vec<_> = (0..16).map(Shard).collect();
    let begun = begin(api.ledger.as_ref(), &shards).await.expect("an errand");
    let rows: Vec<Planned> = api.book.plan(&shards, begun.at, 100).await.expect("a plan");
    stage(api.ledger.as_ref(), api.book.as_ref(), api.review.as_ref(), &api.rulebook, rows, &begun).await.expect("staged");
}

/// Claims, begins a handoff, and ends it so.
async fn dead(api: &Api, key: &Key, class: OutcomeClass) {
    let token = Token(Uuid::from_u128(9));
    happen(api, key, |_| Event::Claim { worker: WORKER, lease: LEASE }).await;
    happen(api, key, |_| Event::Intent { worker: WORKER, token, lease: LEASE, pins: Vec::new() }).await;
    let outcome = Outcome::new(class, Stage::Dot, "test", "550 5.1.1 no such user");
    let verdict = if class == OutcomeClass::Ambiguous { Verdict::Unknown(&outcome) } else { Verdict::NotAccepted(&outcome) };
    happen(api, key, |record| Event::Verdict { token, verdict, rules: api.rulebook.rules(record, 0.0) }).await;
    let ended = standing(api, key).await;
    record_dead_letters(api.ledger.as_ref(), api.review.as_ref(), vec![ended], &BTreeMap::new(), Moment::from_millis(NOON)).await.expect("recorded");
}

async fn standing(api: &Api, key: &Key) -> Record {
    api.ledger.records(std::slice::from_ref(key)).await.expect("read").pop().flatten().expect("a record")
}

async fn happen<'a>(api: &'a Api, key: &Key, event: impl FnOnce(&Record) -> Event<'a>) {
    let before = standing(api, key).await;
    let change = transition(&before, &event(&before), Moment::from_millis(NOON)).expect("it may happen");
    api.ledger.swap(Swap::of(&before, change)).await.expect("swapped");
}
