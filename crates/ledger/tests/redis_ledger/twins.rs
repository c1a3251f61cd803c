//! The two adapters side by side: the same chance walk over both, the same answers and the same standing after every step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curfew_domain::outcome::{Outcome, OutcomeClass, Receipt, Stage};
use curfew_domain::sealed::RecipientRef;
use curfew_domain::transition::{Counter, Index, Rules, Verdict};
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Event, Key, Moment, Record, Shard, State, Token, transition};
use curfew_ledger::redis::RedisLedger;
use curfew_ledger::sql::{self, SqlLedger};
use curfew_ledger::{Ledger, Suppression, Swap, Swapped};
use curfew_store::{OpenOptions, Sqlite};
use curfew_testkit::{Dice, seed};
use curfew_testservers::redis::{Options, Redis};
use uuid::Uuid;

use super::jobs::{CLAIM, RELEASE, SHARDS, WORKER, create_of, intent, key, options, policy, record};

const STEPS: u32 = 3_000;
const TENANTS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Steps until the next job comes into play, and the oldest goes out.
const STEPS_PER_JOB: u32 = 40;
const JOBS_AT_A_TIME: u32 = 8;

/// How often each answer was given, by the state that was asked for.
type Met = BTreeMap<(&'static str, State), u32>;

struct Twins {
    sql: SqlLedger,
    redis: RedisLedger,
    clock: Arc<AtomicI64>,
    dice: Dice,
    step: u32,
}

impl Twins {
    fn now(&self) -> Moment {
        Moment::from_millis(self.clock.load(Ordering::Relaxed))
    }

    /// A number below `below`, of this step.
    fn throw(&self, label: &str, below: u64) -> u64 {
        self.dice.number(label, b"twins", self.step) % below
    }

    /// The jobs in play: new ones come, or all would end and nothing would be left to move.
    fn names(&self) -> Vec<Key> {
        let first = self.step / STEPS_PER_JOB;
        (first..first + JOBS_AT_A_TIME).map(|n| key(&format!("{}/{n}", TENANTS[n as usize % TENANTS.len()]))).collect()
    }

    fn name(&self) -> Key {
        self.names().swap_remove(self.throw("name", u64::from(JOBS_AT_A_TIME)) as usize)
    }

    /// The same call on both; their answers, which must be the same.
    async fn create(&self) {
        let (generation, back) = (1 + self.throw("generation", 3) as u32, self.throw("age", 70) * 1000);
        let mut record = record(self.name().as_str(), 1, self.now().plus(Duration::from_secs(self.throw("release", 90))));
        record.generation = generation;
        let mut create = create_of(record, self.now());
        create.read_at = self.now().minus(Duration::from_millis(back));
        let (a, b) = tokio::join!(self.sql.create(vec![create.clone()]), self.redis.create(vec![create]));
        assert_eq!(a.expect("SQLite answers"), b.expect("Redis answers"), "step {}", self.step);
    }

    async fn swap(&self, last: &mut Vec<Swap>, met: &mut Met) {
        let Some(stands) = self.sql.records(&[self.name()]).await.expect("SQLite answers").pop().flatten() else { return };
        let Some(mut swap) = self.event(&stands) else { return };
        match self.throw("how", 12) {
            0 => swap.version = swap.version.wrapping_sub(1),
            1 => swap.generation += 1,
            2 if !last.is_empty() => swap = last[self.throw("which", last.len() as u64) as usize].clone(),
            3 => swap = swap.below(Counter::TenantInFlight(stands.tenant().to_owned()), self.throw("bound", 3)),
            _plain => {}
        }
        // Some made for an earlier moment: the ledgers' clock judges.
        let (a, b) = tokio::join!(self.sql.swap(swap.clone()), self.redis.swap(swap.clone()));
        let answer = a.expect("SQLite answers");
        assert_eq!(answer, b.expect("Redis answers"), "step {}: {swap:?}", self.step);
        let word = match answer {
            Swapped::Swapped => "swapped",
            Swapped::Conflict(_) => "conflict",
            Swapped::Missing => "missing",
            Swapped::Refused(_) => "refused",
            Swapped::Full => "full",
        };
        *met.entry((word, swap.change.record.state)).or_default() += 1;
        last.push(swap);
        if last.len() > 20 {
            last.remove(0);
        }
    }

    /// A transition that chance picks, at a moment a little off the ledgers' now.
    fn event(&self, stands: &Record) -> Option<Swap> {
        let now = self.now().plus(Duration::from_secs(self.throw("ahead", 20))).minus(Duration::from_secs(10));
        let policy = policy();
        let rules = Rules { policy: &policy, jitter: 0.0, idempotency_window: None, attempt_max: Duration::from_secs(60) };
        let failed = Outcome::new(OutcomeClass::Transient, Stage::Connect, "test", "451");
        let unknown = Outcome::new(OutcomeClass::Ambiguous, Stage::Dot, "test", "silence");
        let receipt = Receipt { at: now, code: 250, text: "ok".into(), queue_id: None };
        let token = stands.token.unwrap_or(Token(Uuid::from_u128(u128::from(self.step))));
        let cancel = NumberedVerb { number: u64::from(self.step), generation: stands.generation, verb: Verb::Cancel };
        let events = [
            CLAIM,
            Event::Verdict { token, verdict: Verdict::Accepted(&receipt), rules },
            intent(u128::from(self.step)),
            Event::Prepared { worker: WORKER, outcome: &failed, rules, pins: Vec::new() },
            Event::Verdict { token, verdict: Verdict::Unknown(&unknown), rules },
            CLAIM,
            intent(u128::from(self.step)),
            Event::GiveBack { worker: WORKER, waits_for: None, until: now },
            Event::LeaseOver { rules },
            RELEASE,
            Event::Verdict { token, verdict: Verdict::NotAccepted(&failed), rules },
            Event::Renew { worker: WORKER, lease: Duration::from_secs(60) },
            Event::DeadlineReached,
            Event::Closed,
            Event::RecipientSuppressed,
            Event::Verb(&cancel),
        ];
        // The last two end a job wherever it stands: seldom, or no job would come far.
        let choice = events.len() - if self.throw("seldom", 8) == 0 { 0 } else { 2 };
        let first = self.throw("event", choice as u64) as usize;
        let change = (0..choice).find_map(|n| transition(stands, &events[(first + n) % choice], now).ok())?;
        Some(Swap::of(stands, change))
    }

    async fn step(&self, last: &mut Vec<Swap>, met: &mut Met) {
        let (some, version) = (self.name(), 1 + self.throw("version", 4));
        match self.throw("what", 20) {
            0..=3 => self.create().await,
            4 => {
                let moves = vec![(some, version, self.now().plus(Duration::from_secs(self.throw("later", 60))))];
                let (a, b) = tokio::join!(self.sql.postpone(moves.clone()), self.redis.postpone(moves));
                a.and(b).expect("both answer");
            }
            5 => {
                let moves = vec![(some, version, self.now().plus(Duration::from_secs(self.throw("later", 60))))];
                let (a, b) = tokio::join!(self.sql.move_in_line(moves.clone()), self.redis.move_in_line(moves));
                a.and(b).expect("both answer");
            }
            6 => {
                // Mostly seconds; now and then so far that deadlines pass and tombstones expire.
                let seconds = [1, 5, 5, 30, 30, 30, 30, 30, 30, 90, 90, 90, 90, 300, 3_600, 100_000][self.throw("advance", 16) as usize];
                self.clock.fetch_add(seconds * 1000, Ordering::Relaxed);
            }
            7 => {
                let (a, b) = tokio::join!(self.sql.expire(self.now(), 100), self.redis.expire(self.now(), 100));
                assert_eq!(a.expect("SQLite answers"), b.expect("Redis answers"), "step {}", self.step);
            }
            8 if self.throw("list", 4) == 0 => {
                let recipient_ref = RecipientRef("00112233445566778899aabbccddeeff".to_owned());
                let list = [Vec::new(), vec![Suppression { tenant: Some("a".to_owned()), recipient_ref }]];
                let list = list[self.throw("listed", 2) as usize].clone();
                let (a, b) = tokio::join!(self.sql.set_suppressions(list.clone()), self.redis.set_suppressions(list));
                a.and(b).expect("both answer");
            }
            _swaps => self.swap(last, met).await,
        }
    }

    async fn compare(&self) {
        let far = self.now().plus(Duration::from_secs(1_000_000));
        for shard in (0..SHARDS).map(Shard) {
            let (a, b) = (seen(&self.sql, shard, far).await, seen(&self.redis, shard, far).await);
            assert_eq!(a, b, "step {}, shard {shard}", self.step);
        }
        for name in self.names() {
            let (a, b) = tokio::join!(self.sql.get(&name), self.redis.get(&name));
            assert_eq!(a.expect("SQLite answers"), b.expect("Redis answers"), "step {}", self.step);
        }
    }
}

/// All that a shard shows, in an order of its own: what is equally overdue comes in any.
async fn seen(ledger: &dyn Ledger, shard: Shard, far: Moment) -> Vec<String> {
    let mut all = Vec::new();
    for walked in ledger.walk(shard, None, 1_000).await.expect("it answers") {
        all.push(format!("{walked:?}"));
    }
    for index in Index::ALL {
        let mut found = ledger.overdue(shard, *index, far, 1_000).await.expect("it answers");
        assert!(found.is_sorted_by_key(|entry| entry.at), "the longest overdue first");
        found.sort_by(|a, b| (a.at, &a.record.key).cmp(&(b.at, &b.record.key)));
        all.push(format!("{index:?} {found:?}"));
    }
    let mut lines = ledger.lines(shard, far, 1_000, 1_000, &[]).await.expect("it answers");
    lines.sort_by(|a, b| a.record.key.cmp(&b.record.key));
    all.push(format!("{lines:?}"));
    let counters: Vec<_> = State::ALL.iter().map(|state| Counter::State(*state)).chain(tenants()).collect();
    all.push(format!("{:?}", ledger.counts(shard, &counters).await.expect("it answers")));
    all.push(format!("{:?}", ledger.oldest_due(shard, far).await.expect("it answers")));
    assert_eq!(ledger.recount(shard).await.expect("it answers"), 0, "counters follow their records");
    all
}

fn tenants() -> impl Iterator<Item = Counter> {
    TENANTS.into_iter().flat_map(|tenant| [Counter::TenantInFlight(tenant.into()), Counter::TenantQueued(tenant.into())])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_adapters_answer_the_same_to_the_same_story() {
    let server = Redis::start(Options { appendfsync: "no", ..Options::default() }).await;
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970");
    let clock = Arc::new(AtomicI64::new(since.as_millis() as i64));
    let by_hand: curfew_ledger::redis::Clock = {
        let clock = Arc::clone(&clock);
        Arc::new(move || Moment::from_millis(clock.load(Ordering::Relaxed)))
    };
    let store = Sqlite::open(OpenOptions::new(folder.path())).await.expect("the folder is free");
    let sql = SqlLedger::open(store, sql::Options { clock: Arc::clone(&by_hand), ..sql::Options::default() }).await.expect("the tables are ours");
    let redis = curfew_ledger::redis::Options { clock: Some(by_hand), ..options() };
    let redis = RedisLedger::open(&server.url(), redis).expect("well formed");
    redis.initialise().await.expect("it answers");
    let mut twins = Twins { sql, redis, clock, dice: Dice::new(seed()), step: 0 };
    let (mut last, mut met) = (Vec::new(), Met::new());
    for step in 1..=STEPS {
        twins.step = step;
        twins.step(&mut last, &mut met).await;
        if step % 50 == 0 {
            twins.compare().await;
        }
    }
    println!("{met:#?}");
    let swapped: u32 = met.iter().filter(|((answer, _), _)| *answer == "swapped").map(|(_, times)| times).sum();
    assert!(swapped > 100, "chance that moves nothing proves nothing");
}
