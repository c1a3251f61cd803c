//! One process's ledger: a connection to each node, identified before its first script, and the calls over it.
//!
//! Nothing is repeated and no connection is mended behind the caller's back: what isn't known is told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use curfew_domain::{Moment, Shard};
use curfew_ledger::LedgerError;

use super::super::{Link, Lost, Process};
use super::clock::Clocks;
use super::server::{Node, SimLedgerServer};
use super::shard::{Asked, Barred, Hands};
use super::write::Terms;

/// How long a connection's identity counts as fresh: a shard that waits for its recovery refuses every call.
const IDENTITY_FRESH: Duration = Duration::from_secs(1);

/// LedgerBugs that a simulation plants into the ledger, to see that it finds them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LedgerBugs {
    /// A swap writes whatever version it names.
    pub no_version_check: bool,
    /// A create is never refused for a stale book read.
    pub create_without_read_at: bool,
}

/// The simulated ledger, as one process holds it. Cloning shares its connections.
#[derive(Clone)]
pub struct SimLedger {
    pub(super) client: Arc<Client>,
    pub(super) recovers: bool,
}

/// What the clones share.
pub(super) struct Client {
    pub server: Arc<SimLedgerServer>,
    pub process: Arc<Process>,
    pub clocks: Clocks,
    links: Vec<Link>,
    /// By node.
    connections: Mutex<Vec<Option<Connection>>>,
    own_ahead_ms: AtomicI64,
    bugs: LedgerBugs,
}

/// What a connection saw of its server.
#[derive(Clone)]
pub(super) struct Connection {
    starts: u64,
    pub run_id: String,
    pub replication_id: String,
    identified_at: Duration,
    /// Each shard's incarnation as first read here; `None` where it had no meta.
    incarnations: BTreeMap<Shard, Option<u32>>,
}

/// One script's run on a shard.
pub(super) struct Run<'a> {
    pub node: &'a mut Node,
    pub shard: Shard,
    pub asked: &'a Asked,
    pub terms: Terms,
    pub elapsed: Duration,
}

impl SimLedger {
    /// A process's ledger; it connects when it is used.
    pub fn new(server: &Arc<SimLedgerServer>, process: &Arc<Process>, bugs: LedgerBugs) -> Self {
        let links: Vec<_> = (0..server.nodes_len()).map(|node| Link::new(&server.world, process, server.service(node))).collect();
        let connections = Mutex::new(vec![None; links.len()]);
        let (server, process) = (Arc::clone(server), Arc::clone(process));
        let client = Client { server, process, clocks: Clocks::default(), links, connections, own_ahead_ms: AtomicI64::new(0), bugs };
        Self { client: Arc::new(client), recovers: false }
    }

    /// Sets the process's own clock, by milliseconds ahead of the true time: what the witness compares the nodes' with.
    pub fn set_own_clock_offset(&self, ahead_ms: i64) {
        self.client.own_ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }

    /// In whose name a shard's scripts are called.
    pub(super) fn hands(&self, shard: Shard) -> Hands {
        match self.recovers {
            true => Hands::Recovery,
            false if self.client.is_shard_halted(shard) => Hands::Halted,
            false => Hands::Roles,
        }
    }

    /// Runs one script on a shard; the answer, and the incarnation in which it was given. `named`: in which the errand began.
    pub(super) async fn script<T>(
        &self,
        shard: Shard,
        operation: &'static str,
        named: Option<u32>,
        run: impl Fn(&mut Run<'_>) -> Result<T, Barred>,
    ) -> Result<(T, Option<u32>), LedgerError> {
        let mut answers = self.scripts(shard, operation, vec![(named, ())], |one, ()| run(one)).await?;
        answers.pop().expect("a call has one answer")
    }

    /// Runs a script for each of some things of one shard, at one moment; answers in order.
    pub(super) async fn scripts<I, T>(
        &self,
        shard: Shard,
        operation: &'static str,
        items: Vec<(Option<u32>, I)>,
        run: impl Fn(&mut Run<'_>, I) -> Result<T, Barred>,
    ) -> Result<Vec<Result<(T, Option<u32>), LedgerError>>, LedgerError> {
        let client = &*self.client;
        let node = client.server.node_of(shard);
        let conn = client.connection(node).await?;
        let first_seen = client.incarnation(node, shard).await?;
        let hands = self.hands(shard);
        let called = client.call(node, &conn, operation, |server| {
            // Where answers get lost, the connection may break in the middle of a batch.
            let served = client.served_of(node, items.len());
            let (elapsed, true_now, mut nodes) = (server.world.elapsed(), server.world.now(), server.nodes());
            let whole = served == items.len();
            let terms = Terms {
                now: nodes[node].clock(true_now),
                horizon: server.options.horizon,
                tombstone_max: server.options.tombstone_max,
                bugs: client.bugs,
            };
            let answers = items.into_iter().take(served).map(|(named, item)| {
                let asked =
                    Asked { hands, incarnation: named.or(first_seen), run_id: conn.run_id.clone(), replication_id: conn.replication_id.clone() };
                let answer = run(&mut Run { node: &mut nodes[node], shard, asked: &asked, terms, elapsed }, item);
                answer.map(|answer| (answer, asked.incarnation))
            });
            let answers: Vec<_> = answers.collect();
            whole.then_some(answers)
        });
        let Some(answers) = called.await? else {
            client.drop_connection(node, &conn);
            return Err(LedgerError::Unavailable { operation });
        };
        Ok(answers.into_iter().map(|answer| answer.map_err(|barred| client.told(barred, (node, shard), &conn, first_seen, hands))).collect())
    }
}

impl Client {
    pub fn elapsed(&self) -> Duration {
        self.server.world.elapsed()
    }

    /// What the process's own clock says.
    pub fn own_clock(&self) -> Moment {
        Moment::from_millis(self.server.world.now().as_millis() + self.own_ahead_ms.load(Ordering::Relaxed))
    }

    /// What a caller is told that was barred, and what its connection makes of it.
    fn told(&self, barred: Barred, (node, shard): (usize, Shard), conn: &Connection, first_seen: Option<u32>, hands: Hands) -> LedgerError {
        let (error, word) = match barred {
            Barred::OtherServer => {
                self.refused(node, conn);
                (LedgerError::OtherServer, "other server")
            }
            Barred::OtherIncarnation => {
                self.forget_incarnation(node, shard, first_seen);
                (LedgerError::OtherServer, "other incarnation")
            }
            Barred::Recovering if hands == Hands::Halted => (LedgerError::Halted, "halted"),
            Barred::Recovering => (LedgerError::Recovering, "recovering"),
        };
        self.server.world.count(&format!("ledger refused: {word}"));
        error
    }

    /// Something that doesn't look at who asks.
    pub async fn plain<T>(&self, node: usize, operation: &'static str, serve: impl FnOnce(&SimLedgerServer) -> T) -> Result<T, LedgerError> {
        let conn = self.connection(node).await?;
        self.call(node, &conn, operation, serve).await
    }

    /// One call over a connection. Where no answer comes, nobody uses the connection again.
    async fn call<T>(
        &self,
        node: usize,
        conn: &Connection,
        operation: &'static str,
        serve: impl FnOnce(&SimLedgerServer) -> T,
    ) -> Result<T, LedgerError> {
        let server = &*self.server;
        let serve = || server.is_of(node, conn.starts).then(|| serve(server));
        let answer = match self.links[node].call(operation, serve).await {
            // An answer of before a restart never came.
            Ok(answer) => answer.filter(|_| server.is_of(node, conn.starts)),
            Err(Lost) => None,
        };
        if answer.is_none() {
            self.drop_connection(node, conn);
        }
        answer.ok_or(LedgerError::Unavailable { operation })
    }

    /// The connection to a node; a new one is identified before anything else.
    pub async fn connection(&self, node: usize) -> Result<Connection, LedgerError> {
        if let Some(conn) = self.connected(node) {
            return Ok(conn);
        }
        let server = &*self.server;
        let identify = || {
            let nodes = server.nodes();
            (nodes[node].starts, nodes[node].run_id.clone(), nodes[node].replication_id.clone())
        };
        let told = self.links[node].call("connect", identify).await;
        let (starts, run_id, replication_id) = told.map_err(|Lost| LedgerError::Unavailable { operation: "connect" })?;
        let conn = Connection { starts, run_id, replication_id, identified_at: self.elapsed(), incarnations: BTreeMap::new() };
        self.connections()[node] = Some(conn.clone());
        Ok(conn)
    }

    /// The connection to a node, where there is one.
    pub fn connected(&self, node: usize) -> Option<Connection> {
        self.connections()[node].clone()
    }

    /// The shard's incarnation as this connection first saw it.
    pub async fn incarnation(&self, node: usize, shard: Shard) -> Result<Option<u32>, LedgerError> {
        let conn = self.connection(node).await?;
        if let Some(known) = conn.incarnations.get(&shard) {
            return Ok(*known);
        }
        let read = |server: &SimLedgerServer| server.nodes()[node].read(shard).meta.as_ref().map(|meta| meta.incarnation);
        let read = self.call(node, &conn, "read the incarnation", read).await?;
        Ok(match self.connections()[node].as_mut() {
            Some(now) if now.is(&conn) => *now.incarnations.entry(shard).or_insert(read),
            Some(_) | None => read,
        })
    }

    /// Reads the incarnation again at the next use, if it is still the one named.
    fn forget_incarnation(&self, node: usize, shard: Shard, named: Option<u32>) {
        if let Some(conn) = self.connections()[node].as_mut()
            && conn.incarnations.get(&shard) == Some(&named)
        {
            conn.incarnations.remove(&shard);
        }
    }

    /// Reads every incarnation again at its next use.
    pub fn forget_incarnations(&self, node: usize) {
        if let Some(conn) = self.connections()[node].as_mut() {
            conn.incarnations.clear();
        }
    }

    /// The shard names another server: whoever asks later identifies anew.
    pub fn refused(&self, node: usize, conn: &Connection) {
        if self.elapsed().saturating_sub(conn.identified_at) >= IDENTITY_FRESH {
            self.drop_connection(node, conn);
        }
    }

    fn drop_connection(&self, node: usize, conn: &Connection) {
        let mut all = self.connections();
        if all[node].as_ref().is_some_and(|now| now.is(conn)) {
            all[node] = None;
        }
    }

    /// How many of a batch are served.
    fn served_of(&self, node: usize, items: usize) -> usize {
        let lost = self.server.service(node).weather().lost_answers;
        if items > 1 && self.server.world.happens(lost) { self.server.world.below(items as u64) as usize } else { items }
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Option<Connection>>> {
        self.connections.lock().expect("nobody panics while holding it")
    }
}

impl Connection {
    /// Whether it is the same connection.
    fn is(&self, other: &Connection) -> bool {
        (self.starts, self.identified_at) == (other.starts, other.identified_at)
    }
}

impl SimLedgerServer {
    /// Whether a node is still in that start.
    fn is_of(&self, node: usize, starts: u64) -> bool {
        self.nodes()[node].starts == starts
    }
}
