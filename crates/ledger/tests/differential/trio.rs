//! The three ledgers side by side, each empty, on one clock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curfew_domain::{Key, Moment, Record, Shard};
use curfew_ledger::redis::RedisLedger;
use curfew_ledger::sql::{self, SqlLedger};
use curfew_store::{Durability, OpenOptions, Queue, Sqlite, StoreError};
use curfew_testkit::sim::{EPOCH, LedgerBugs, Process, SimLedger, SimLedgerOptions, SimLedgerServer, Weather, World};
use curfew_testservers::redis::ask;
use futures::future::join_all;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::call::{Answer, Call};

/// Shards in which a story plays.
pub const SHARDS: u8 = 3;
/// The ledgers, by name, in the order of their answers.
pub const NAMES: [&str; 3] = ["SQLite", "Redis", "simulated"];

const LOSE: &str = "UPDATE ledger_records SET index_kind = CASE WHEN ?2 THEN NULL ELSE index_kind END,
  timer_at = CASE WHEN ?2 THEN NULL ELSE timer_at END, line_at = CASE WHEN ?3 THEN NULL ELSE line_at END WHERE key = ?1";

/// When every story begins: the next whole hour but one, so that no tombstone's time is over by the server's own clock.
pub fn begins() -> Moment {
    const HOUR_MS: i64 = 3_600_000;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970");
    Moment::from_millis((since.as_millis() as i64 / HOUR_MS + 2) * HOUR_MS)
}

/// In memory, where the machine has such a folder: what a disk loses is no part of a story.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_none| tempfile::tempdir()).expect("there is a folder for temporary files")
}

/// The runtimes: one whose time is real, for what does I/O, and one whose time is the story's.
pub struct Runtimes {
    pub real: Runtime,
    pub virtual_time: Runtime,
}

impl Runtimes {
    pub fn new() -> Self {
        let real = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let virtual_time = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        Self { real, virtual_time }
    }
}

/// What a story goes by.
pub trait Standing {
    /// What the ledgers' clocks say.
    fn now(&self) -> Moment;
    /// What stands under a key, as long as the ledgers agree.
    fn stands(&self, key: &Key) -> Option<Record>;
}

/// The shard of a key.
pub fn shard(key: &Key) -> Shard {
    Shard::of_tenant(key.tenant(), SHARDS)
}

impl Standing for Trio<'_> {
    fn now(&self) -> Moment {
        Moment::from_millis(self.clock.load(Ordering::Relaxed))
    }

    fn stands(&self, key: &Key) -> Option<Record> {
        self.sim_server.entry(key).map(|entry| entry.record)
    }
}

pub struct Trio<'a> {
    runtimes: &'a Runtimes,
    clock: Arc<AtomicI64>,
    sql: SqlLedger,
    store: Sqlite,
    redis: RedisLedger,
    redis_at: (SocketAddr, String),
    sim: SimLedger,
    sim_server: Arc<SimLedgerServer>,
    // Last, so that it goes when nobody writes into it any more.
    _folder: TempDir,
}

impl<'a> Trio<'a> {
    pub fn fresh(runtimes: &'a Runtimes, addr: SocketAddr, begins: Moment, bugs: LedgerBugs) -> Self {
        static STORIES: AtomicU32 = AtomicU32::new(0);
        let clock = Arc::new(AtomicI64::new(begins.as_millis()));
        let by_hand: curfew_ledger::redis::Clock = {
            let clock = Arc::clone(&clock);
            Arc::new(move || Moment::from_millis(clock.load(Ordering::Relaxed)))
        };
        let folder = folder();
        let prefix = format!("story-{}", STORIES.fetch_add(1, Ordering::Relaxed));
        let options = curfew_ledger::redis::Options {
            prefix: prefix.clone(),
            shards: SHARDS,
            connections: 1,
            response_timeout: Duration::from_secs(30),
            clock: Some(Arc::clone(&by_hand)),
            ..curfew_ledger::redis::Options::default()
        };
        let (store, sql, redis) = runtimes.real.block_on(async {
            let store = Sqlite::open(OpenOptions::new(folder.path())).await.expect("the folder is free");
            let sql = SqlLedger::open(store.clone(), sql::Options { clock: by_hand, ..sql::Options::default() }).await.expect("the tables are ours");
            let redis = RedisLedger::open(&format!("redis://{addr}/0"), options).expect("well formed");
            redis.initialise().await.expect("it answers");
            (store, sql, redis)
        });
        let (sim, sim_server) = runtimes.virtual_time.block_on(async {
            let server = SimLedgerServer::start(&World::new(0, false), SimLedgerOptions { shards: SHARDS, ..SimLedgerOptions::default() });
            for node in 0..server.nodes_len() {
                *server.service(node).weather() = Weather { latency: (Duration::ZERO, Duration::ZERO), ..Weather::default() };
                server.set_clock_offset(node, begins.as_millis() - EPOCH.as_millis());
            }
            let sim = SimLedger::new(&server, &Process::start("story"), bugs);
            sim.initialise().await.expect("it answers");
            (sim, server)
        });
        Self { runtimes, clock, sql, store, redis, redis_at: (addr, prefix), sim, sim_server, _folder: folder }
    }

    /// The same call to all; each one's answer, and what kinds of answers the first gave.
    pub fn send(&self, call: &Call) -> ([Answer; 3], Vec<&'static str>) {
        match call {
            Call::Pass(ms) => self.pass(*ms),
            Call::LoseTimer { key, timer, line } => self.lose(key, *timer, *line),
            call => return self.send_all(std::slice::from_ref(call)).pop().expect("a call has one answer"),
        }
        (std::array::from_fn(|_| Answer::Text(String::new())), Vec::new())
    }

    /// Several calls that change nothing, at once.
    pub fn send_all(&self, calls: &[Call]) -> Vec<([Answer; 3], Vec<&'static str>)> {
        let (sql, redis) = self.runtimes.real.block_on(async {
            let sql = join_all(calls.iter().map(|call| call.send(&self.sql)));
            tokio::join!(sql, join_all(calls.iter().map(|call| call.send(&self.redis))))
        });
        let sim = self.runtimes.virtual_time.block_on(join_all(calls.iter().map(|call| call.send(&self.sim))));
        sql.into_iter().zip(redis).zip(sim).map(|(((sql, kinds), (redis, _)), (sim, _))| ([sql, redis, sim], kinds)).collect()
    }

    fn pass(&self, ms: u64) {
        self.clock.fetch_add(ms as i64, Ordering::Relaxed);
        self.runtimes.virtual_time.block_on(tokio::time::advance(Duration::from_millis(ms)));
    }

    fn lose(&self, key: &Key, timer: bool, line: bool) {
        let (sql_key, (addr, prefix)) = (key.as_str().to_owned(), &self.redis_at);
        let prefix = format!("{prefix}:{{{}}}", shard(key));
        self.runtimes.real.block_on(async {
            let written = self.store.write(Queue::Ledger, Durability::Process, move |conn| {
                Box::pin(async move {
                    let query = sqlx::query(LOSE).bind(sql_key).bind(timer).bind(line);
                    query.execute(conn).await.map(drop).map_err(StoreError::during("test"))
                })
            });
            written.await.expect("the store accepts it");
            let line_key = format!("line:{}", key.tenant());
            let names: &[&str] = if timer { &["watch", "settle", "review"] } else { &[] };
            for name in names.iter().copied().chain(line.then_some(line_key.as_str())) {
                ask(*addr, &["ZREM", &format!("{prefix}:{name}"), key.as_str()]).await.expect("it answers");
            }
            if line {
                // The tenant stands by what is now the head of its line.
                let head = ask(*addr, &["ZRANGE", &format!("{prefix}:{line_key}"), "0", "0", "WITHSCORES"]).await.expect("it answers").list();
                let tenants = format!("{prefix}:tenants");
                match head.get(1) {
                    Some(at) => ask(*addr, &["ZADD", &tenants, &at.text(), key.tenant()]).await,
                    None => ask(*addr, &["ZREM", &tenants, key.tenant()]).await,
                }
                .expect("it answers");
            }
        });
        self.runtimes.virtual_time.block_on(async { self.sim_server.lose_timer(key, timer, line) });
    }
}
