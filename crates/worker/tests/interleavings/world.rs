//! A world: the real embedded stores on a clock set by hand, some jobs, and the truth beside them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use curfew_book::sql::SqlBook;
use curfew_book::{Book, Door};
use curfew_courier::{Rulebook, TransportRules};
use curfew_domain::job::Job;
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::{JobId, Key, Moment, Record, Shard};
use curfew_ledger::Ledger;
use curfew_ledger::sql::{Options, SqlLedger};
use curfew_review::Review;
use curfew_review::sql::SqlReview;
use curfew_store::{OpenOptions, Sqlite};
use uuid::Uuid;

use crate::gate::{Gate, Gated};
use crate::truth::Truths;

pub const LEASE: Duration = Duration::from_secs(10);
pub const WINDOW: Duration = Duration::from_secs(300);
pub const STAGING_WINDOW: Duration = Duration::from_secs(600);
pub const DATE: &str = "2026-12-01";
pub const SHARD: Shard = Shard(0);

/// Numbers that a seed alone decides (SplitMix64).
pub struct Dice(AtomicU64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03))
    }

    pub fn below(&self, n: u64) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }

    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn of<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        all.get(usize::try_from(self.below(all.len() as u64)).expect("small"))
    }

    pub fn unit(&self) -> f64 {
        self.below(1_000) as f64 / 1_000.0
    }
}

pub struct World {
    pub dice: Dice,
    pub ledger: Arc<SqlLedger>,
    pub book: Arc<SqlBook>,
    pub review: Arc<SqlReview>,
    pub rulebook: Arc<Rulebook>,
    pub truths: Arc<Truths>,
    pub keys: Vec<Key>,
    /// The provider recognises a key for so long.
    pub window: Option<Duration>,
    clock: Arc<AtomicI64>,
    _folder: tempfile::TempDir,
}

/// The stores as one actor has them.
pub struct Stores {
    pub ledger: Arc<dyn Ledger>,
    pub book: Arc<dyn Book>,
    pub review: Arc<dyn Review>,
}

impl World {
    pub async fn new(seed: u64) -> Self {
        let dice = Dice::new(seed);
        let folder = tempfile::tempdir().expect("a temporary folder is made");
        let store = Sqlite::open(OpenOptions::new(folder.path())).await.expect("the store opens");
        let clock = Arc::new(AtomicI64::new(1_796_100_000_000));
        let shown = Arc::clone(&clock);
        let options = Options { clock: Arc::new(move || Moment::from_millis(shown.load(Ordering::SeqCst))), ..Options::default() };
        let ledger = Arc::new(SqlLedger::open(store.clone(), options).await.expect("the ledger opens"));
        let book = Arc::new(SqlBook::open(store).await.expect("the book opens"));
        let review = Arc::new(SqlReview::open(Arc::clone(&book)).await.expect("review opens"));
        let window = dice.one_in(4).then_some(WINDOW);
        let rulebook = Arc::new(rulebook(window, dice.one_in(3)));
        let mut world = Self { dice, ledger, book, review, rulebook, truths: Arc::default(), keys: Vec::new(), window, clock, _folder: folder };
        world.accept().await;
        world
    }

    async fn accept(&mut self) {
        let jobs: Vec<Job> = (0..2 + self.dice.below(2)).map(|n| self.job(n)).collect();
        self.keys = jobs.iter().map(|job| job.key.clone()).collect();
        let door = Door { at: self.now(), actor: "local".to_owned() };
        self.book.accept(jobs, &door).await.expect("the book answers");
    }

    fn job(&self, n: u64) -> Job {
        let release_at = self.now().plus(Duration::from_millis(self.dice.below(4) * 7_000));
        Job {
            id: JobId(Uuid::from_u128(u128::from(n) + 1)),
            key: Key::from_parts("acme", "renewal", &format!("R-{n}"), DATE).expect("well formed"),
            tenant: "acme".to_owned(),
            purpose: "renewal".to_owned(),
            subject_ref: format!("R-{n}"),
            business_date: DATE.to_owned(),
            shard: SHARD,
            recipient_ref: RecipientRef(format!("r-{n}")),
            recipient_masked: "a…@e…".to_owned(),
            letter: Sealed::from_bytes(vec![1, 2, 3]),
            content_revision: 1,
            fingerprints: BTreeMap::new(),
            release_at,
            deadline_at: release_at.plus(Duration::from_secs(20 + 90 * self.dice.below(3))),
            local: None,
            policy: "default".to_owned(),
            transport: "smtp".to_owned(),
            labels: BTreeMap::new(),
            accepted_at: self.now(),
            trace: None,
        }
    }

    pub fn now(&self) -> Moment {
        Moment::from_millis(self.clock.load(Ordering::SeqCst))
    }

    pub fn advance(&self, by: Duration) {
        self.clock.fetch_add(i64::try_from(by.as_millis()).expect("small"), Ordering::SeqCst);
    }

    pub fn stores(&self, gate: &Gate) -> Stores {
        let truths = || Arc::clone(&self.truths);
        Stores {
            ledger: Arc::new(Gated { inner: Arc::clone(&self.ledger) as Arc<dyn Ledger>, gate: gate.clone(), truths: truths() }),
            book: Arc::new(Gated { inner: Arc::clone(&self.book) as Arc<dyn Book>, gate: gate.clone(), truths: truths() }),
            review: Arc::new(Gated { inner: Arc::clone(&self.review) as Arc<dyn Review>, gate: gate.clone(), truths: truths() }),
        }
    }

    pub async fn record(&self, key: &Key) -> Option<Record> {
        self.ledger.records(std::slice::from_ref(key)).await.expect("the ledger answers").pop().flatten()
    }
}

fn rulebook(window: Option<Duration>, suppress_at_deadline: bool) -> Rulebook {
    let policy = Policy {
        name: "default".to_owned(),
        version: 1,
        backoff: Backoff::Delays(vec![Duration::from_secs(1), Duration::from_secs(4)]),
        max_attempts: None,
        jitter: Jitter { lo_ms: 0, hi_ms: 500, percent: None },
        at_deadline: if suppress_at_deadline { AtDeadline::Suppress } else { AtDeadline::Review },
    };
    let rules = TransportRules { idempotency_window: window, attempt_max: Duration::from_secs(15) };
    Rulebook::new(BTreeMap::from([("default".to_owned(), policy)]), BTreeMap::from([("smtp".to_owned(), rules)]))
}
