//! One connection: plain, identified before its first script, and never another one behind the caller's back.
//!
//! A connection that breaks, times out or meets another server is dropped; the next caller's is made and identified anew (DESIGN 8).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use curfew_domain::Shard;
use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, FromRedisValue};

use super::address::{Address, At, Node};
use super::failure::judged;
use super::scripts::Script;
use crate::LedgerError;

/// The oldest server whose scripts do what ours ask (PXAT, effects replicated, ZRANGE by lex).
const VERSION_OLDEST: u32 = 7;

/// How long a connection's identity counts as fresh. A shard that waits for its recovery refuses every call; without this each would cost a connect.
const IDENTITY_FRESH: Duration = Duration::from_secs(1);

/// Bounds on waiting for a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub connect: Duration,
    pub response: Duration,
}

/// A connection with what it saw of its server.
pub(super) struct Connected {
    conn: MultiplexedConnection,
    patience: Patience,
    /// Changes with each start of the server.
    pub run_id: String,
    /// Changes with each promotion.
    pub replication_id: String,
    identified_at: Instant,
    broken: AtomicBool,
    /// Each shard's incarnation as first read here; empty where the shard has no meta.
    incarnations: Mutex<HashMap<Shard, String>>,
}

impl Connected {
    async fn open(info: ConnectionInfo, patience: Patience) -> Result<Self, LedgerError> {
        let mut conn = connect(info, patience).await?;
        let server: String = ask(&mut conn, patience, redis::cmd("INFO").arg("server")).await?;
        let replication: String = ask(&mut conn, patience, redis::cmd("INFO").arg("replication")).await?;
        let version = field(&server, "redis_version").unwrap_or_default();
        if version.split('.').next().and_then(|major| major.parse().ok()).is_none_or(|major: u32| major < VERSION_OLDEST) {
            return Err(LedgerError::Store(format!("the server is Redis {version}; 7 or later is asked for")));
        }
        if field(&replication, "role") != Some("master") {
            return Err(LedgerError::Unavailable { operation: "connect: not a primary" });
        }
        let id = |info: &str, name| field(info, name).map(str::to_owned).ok_or(LedgerError::Unavailable { operation: "connect: identify" });
        let (run_id, replication_id) = (id(&server, "run_id")?, id(&replication, "master_replid")?);
        let (identified_at, broken) = (Instant::now(), AtomicBool::new(false));
        let connected = Self { conn, patience, run_id, replication_id, identified_at, broken, incarnations: Mutex::default() };
        connected.load_scripts().await?;
        Ok(connected)
    }

    /// Sends one command and waits for its answer, at most the response timeout: then nothing is known, and the connection is dropped.
    pub(super) async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> redis::RedisResult<T> {
        let mut conn = self.conn.clone();
        match tokio::time::timeout(self.patience.response, cmd.query_async(&mut conn)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }

    /// Makes the server keep our scripts: at the connect, and after it said NOSCRIPT.
    pub(super) async fn load_scripts(&self) -> Result<(), LedgerError> {
        let loads = Script::ALL.iter().map(|script| async move {
            let hash: String = self.query(redis::cmd("SCRIPT").arg("LOAD").arg(script.text())).await?;
            debug_assert_eq!(hash, script.hash());
            Ok(())
        });
        futures::future::try_join_all(loads).await.map_err(|error: redis::RedisError| judged(&error, "load scripts").0).map(drop)
    }

    /// The shard's incarnation as this connection first saw it.
    pub(super) async fn incarnation(&self, shard: Shard, meta: &str) -> Result<String, LedgerError> {
        if let Some(known) = self.incarnations().get(&shard) {
            return Ok(known.clone());
        }
        let read: redis::RedisResult<Option<String>> = self.query(redis::cmd("HGET").arg(meta).arg("incarnation")).await;
        let read = read.map_err(|error| self.failed(&error, "read the incarnation"))?.unwrap_or_default();
        Ok(self.incarnations().entry(shard).or_insert(read).clone())
    }

    /// Reads the incarnation again at the next use, if it is still the one named.
    pub(super) fn forget_incarnation(&self, shard: Shard, named: &str) {
        let mut all = self.incarnations();
        if all.get(&shard).is_some_and(|known| known == named) {
            all.remove(&shard);
        }
    }

    /// Reads every incarnation again at its next use.
    pub(super) fn forget_incarnations(&self) {
        self.incarnations().clear();
    }

    fn incarnations(&self) -> std::sync::MutexGuard<'_, HashMap<Shard, String>> {
        self.incarnations.lock().expect("no code panics while it holds the incarnations")
    }

    /// What a caller is told of a failure; where it says that this connection is of no more use, nobody uses it again.
    pub(super) fn failed(&self, error: &redis::RedisError, operation: &'static str) -> LedgerError {
        let (told, dropped) = judged(error, operation);
        if dropped {
            self.drop_it();
        }
        told
    }

    /// Nobody uses it again.
    pub(super) fn drop_it(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }

    /// The shard names another server than this one was when it was identified: whoever asks later identifies anew. Keeping it meanwhile is safe,
    /// for every script is told who was seen, and refuses.
    pub(super) fn refused(&self) {
        if self.identified_at.elapsed() >= IDENTITY_FRESH {
            self.drop_it();
        }
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }
}

async fn connect(info: ConnectionInfo, patience: Patience) -> Result<MultiplexedConnection, LedgerError> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(patience.connect)).set_response_timeout(Some(patience.response));
    let client = Client::open(info).map_err(|error| judged(&error, "connect").0)?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    match tokio::time::timeout(patience.connect + patience.response, connecting).await {
        Ok(connected) => connected.map_err(|error| judged(&error, "connect").0),
        Err(_elapsed) => Err(LedgerError::Unavailable { operation: "connect" }),
    }
}

async fn ask<T: FromRedisValue>(conn: &mut MultiplexedConnection, patience: Patience, cmd: &Cmd) -> Result<T, LedgerError> {
    match tokio::time::timeout(patience.response, cmd.query_async(conn)).await {
        Ok(answer) => answer.map_err(|error| judged(&error, "connect").0),
        Err(_elapsed) => Err(LedgerError::Unavailable { operation: "connect" }),
    }
}

/// A field of INFO's answer.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

/// Makes connections to one node, or to whoever is the master when it is asked.
pub(super) struct Connector {
    pub address: Arc<Address>,
    /// A Cluster's node; `None`: where the address says.
    pub node: Option<Node>,
    pub patience: Patience,
    /// Where the next round of questions begins, so that one Sentinel that is cut off isn't always believed first.
    pub turn: AtomicUsize,
}

impl Connector {
    async fn connect(&self) -> Result<Connected, LedgerError> {
        match (&self.node, &self.address.at) {
            (Some(node), _) | (None, At::Single(node)) => Connected::open(self.address.node(node), self.patience).await,
            (None, At::Sentinel { sentinels, master }) => self.master(sentinels, master).await,
            (None, At::Cluster(_)) => unreachable!("a Cluster's connections are made to a node"),
        }
    }

    /// The master by the first Sentinel that names one which says so itself.
    async fn master(&self, sentinels: &[Node], master: &str) -> Result<Connected, LedgerError> {
        let mut last = LedgerError::Unavailable { operation: "ask the Sentinels" };
        for sentinel in in_turn(sentinels, &self.turn) {
            let named = async {
                let mut conn = connect(self.address.sentinel(sentinel), self.patience).await?;
                let mut question = redis::cmd("SENTINEL");
                question.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
                let named: Option<(String, u16)> = ask(&mut conn, self.patience, &question).await?;
                let (host, port) = named.ok_or(LedgerError::Unavailable { operation: "ask the Sentinels: no such master" })?;
                Connected::open(self.address.node(&Node { host, port }), self.patience).await
            };
            match named.await {
                Ok(connected) => return Ok(connected),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// A Cluster's primaries by their slots, as the first node that answers knows them.
    pub(super) async fn slots(&self, known: &[Node]) -> Result<Vec<(u16, u16, Node)>, LedgerError> {
        let mut last = LedgerError::Unavailable { operation: "ask the Cluster" };
        for node in in_turn(known, &self.turn) {
            let told = async {
                let mut conn = connect(self.address.node(node), self.patience).await?;
                ask::<Vec<redis::Value>>(&mut conn, self.patience, redis::cmd("CLUSTER").arg("SLOTS")).await
            };
            match told.await {
                Ok(ranges) => {
                    let read: Vec<_> = ranges.iter().filter_map(|range| slot_range(range, node)).collect();
                    if !read.is_empty() {
                        return Ok(read);
                    }
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn in_turn<'a>(nodes: &'a [Node], turn: &AtomicUsize) -> impl Iterator<Item = &'a Node> {
    let first = turn.fetch_add(1, Ordering::Relaxed);
    (0..nodes.len()).map(move |n| &nodes[(first + n) % nodes.len()])
}

/// First slot, last slot, primary. An endpoint without a name is the node that was asked.
fn slot_range(range: &redis::Value, asked: &Node) -> Option<(u16, u16, Node)> {
    let parts: Vec<redis::Value> = redis::from_redis_value_ref(range).ok()?;
    let primary: Vec<redis::Value> = redis::from_redis_value_ref(parts.get(2)?).ok()?;
    let number = |value: Option<&redis::Value>| redis::from_redis_value_ref::<u16>(value?).ok();
    let host: Option<String> = redis::from_redis_value_ref(primary.first()?).ok()?;
    let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.host.clone());
    Some((number(parts.first())?, number(parts.get(1))?, Node { host, port: number(primary.get(1))? }))
}

impl Manager for Connector {
    type Type = Arc<Connected>;
    type Error = LedgerError;

    async fn create(&self) -> Result<Arc<Connected>, LedgerError> {
        self.connect().await.map(Arc::new)
    }

    /// What is dropped isn't mended: another one is made, and identified.
    async fn recycle(&self, connected: &mut Arc<Connected>, _metrics: &Metrics) -> RecycleResult<LedgerError> {
        if connected.is_dropped() { Err(RecycleError::message("dropped")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_info_are_found_by_their_whole_name() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nx_run_id:no\r\n";
        assert_eq!((field(info, "run_id"), field(info, "redis_version"), field(info, "run")), (Some("abc"), Some("7.0.15"), None));
    }
}
