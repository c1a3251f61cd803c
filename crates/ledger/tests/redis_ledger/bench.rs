//! The suite's bench over Redis: a clock set by hand, keys under a prefix of their own, and a death of the server where it is the test's alone.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use curfew_domain::{Key, Moment, Shard};
use curfew_ledger::conformance::Bench;
use curfew_ledger::redis::{Adopted, Clock, Options, RedisLedger};
use curfew_ledger::{Ledger, Recoverable};
use curfew_testservers::redis::{Redis, ask};

use super::jobs::adopt;

/// Shards of the suite; all its records stand in one of them, whatever their tenant.
const SHARDS: u8 = 3;
const SHARD: Shard = Shard(1);

pub struct RedisBench {
    /// The test's own server, which dies with the process.
    server: Option<tokio::sync::Mutex<Redis>>,
    addrs: Vec<SocketAddr>,
    url: String,
    options: Options,
    clock: Arc<AtomicI64>,
    ledger: Mutex<RedisLedger>,
}

impl RedisBench {
    /// On a server of its own.
    pub async fn own() -> Self {
        let server = Redis::start(curfew_testservers::redis::Options::default()).await;
        let (url, addrs) = (server.url(), vec![server.addr()]);
        Self { server: Some(tokio::sync::Mutex::new(server)), ..Self::on(url, addrs).await }
    }

    /// On servers that others use too.
    pub async fn on(url: String, addrs: Vec<SocketAddr>) -> Self {
        static BENCHES: AtomicU32 = AtomicU32::new(0);
        // From the real time on, so that the servers' own expiry of tombstones comes later than the hand's.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970");
        let clock = Arc::new(AtomicI64::new(since.as_millis() as i64));
        let by_hand: Clock = {
            let clock = Arc::clone(&clock);
            Arc::new(move || Moment::from_millis(clock.load(Ordering::Relaxed)))
        };
        let prefix = format!("suite-{}", BENCHES.fetch_add(1, Ordering::Relaxed));
        let options = Options { prefix, shards: SHARDS, shard_of: |_, _| SHARD, clock: Some(by_hand), ..Options::default() };
        let ledger = RedisLedger::open(&url, options.clone()).expect("well formed");
        ledger.initialise().await.expect("the servers answer");
        Self { server: None, addrs, url, options, clock, ledger: Mutex::new(ledger) }
    }
}

#[async_trait]
impl Bench for RedisBench {
    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.ledger.lock().expect("no test panics in between").clone())
    }

    async fn advance(&self, by: Duration) {
        self.clock.fetch_add(i64::try_from(by.as_millis()).expect("a test's time"), Ordering::Relaxed);
    }

    async fn kill_and_reopen(&self) {
        let ledger = RedisLedger::open(&self.url, self.options.clone()).expect("well formed");
        if let Some(server) = &self.server {
            let mut server = server.lock().await;
            server.kill9();
            server.restart().await;
            // What recovery does of itself where every process is alive and nothing is lost; the suite's records are of incarnation 0.
            for shard in (0..SHARDS).map(Shard) {
                server.ask(&["DEL", &format!("{}:{{{shard}}}:meta", self.options.prefix)]).await;
                assert_eq!(adopt(&ledger, shard, 0).await, Adopted::Adopted);
                ledger.recovered(shard, 0).await.expect("the server answers");
            }
        }
        *self.ledger.lock().expect("no test panics in between") = ledger;
    }

    async fn lose_timer(&self, key: &Key) {
        let prefix = format!("{}:{{{SHARD}}}", self.options.prefix);
        for (index, member) in [("watch", key.as_str()), ("tenants", key.tenant()), (&format!("line:{}", key.tenant()), key.as_str())] {
            for addr in &self.addrs {
                // Only the server that holds the key takes it; the others say where it is.
                ask(*addr, &["ZREM", &format!("{prefix}:{index}"), member]).await.expect("the servers answer");
            }
        }
    }
}
