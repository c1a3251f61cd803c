//! A primary, two replicas and three Sentinels.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::guard::Guarded;
use super::{Options, Redis, Resp, ask, free_port, reached};

/// The name that the Sentinels know the primary by.
const MASTER: &str = "curfew";

/// Six processes. Dropping it ends them all.
pub struct SentinelTrio {
    /// The first one begins as the primary.
    pub servers: Vec<Redis>,
    sentinels: Vec<Sentinel>,
}

struct Sentinel {
    addr: SocketAddr,
    _process: Guarded,
    _folder: TempDir,
}

impl SentinelTrio {
    /// Starts all six, and waits until each Sentinel knows the primary, both replicas and the other two.
    ///
    /// # Panics
    /// Where one of them doesn't come up in time.
    pub async fn start(options: Options) -> Self {
        let primary = Redis::start(options.clone()).await;
        let port = primary.addr().port().to_string();
        let mut servers = vec![primary];
        for _ in 0..2 {
            servers.push(Redis::start(options.clone().with(&["--replicaof", "127.0.0.1", &port])).await);
        }
        for replica in &servers[1..] {
            let addr = replica.addr();
            reached("a replica in step", || async move { replication(addr).await.contains("master_link_status:up") }).await;
        }
        let sentinels: Vec<Sentinel> = (0..3).map(|_| sentinel(&port)).collect();
        let trio = Self { servers, sentinels };
        for sentinel in &trio.sentinels {
            let addr = sentinel.addr;
            reached("a Sentinel that knows all", || async move {
                let known = ask(addr, &["SENTINEL", "MASTER", MASTER]).await.map(Resp::list).unwrap_or_default();
                let field = |name: &str| known.iter().position(|part| part.text() == name).and_then(|at| known.get(at + 1)).map(Resp::text);
                field("num-slaves").as_deref() == Some("2") && field("num-other-sentinels").as_deref() == Some("2")
            })
            .await;
        }
        trio
    }

    /// As a client takes it.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|sentinel| sentinel.addr.to_string()).collect();
        format!("redis+sentinel://{}/{MASTER}", hosts.join(","))
    }

    /// Which server the first Sentinel takes for the primary.
    ///
    /// # Panics
    /// Where it doesn't answer, or names none of ours.
    pub async fn primary(&self) -> usize {
        let named = ask(self.sentinels[0].addr, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]).await.expect("a Sentinel answers").list();
        let port = named.get(1).map(Resp::text).unwrap_or_default();
        self.servers.iter().position(|server| server.addr().port().to_string() == port).expect("one of ours")
    }

    /// Waits until every Sentinel names another primary than `old`, and that one says so itself.
    ///
    /// # Panics
    /// Where that doesn't come to be in time.
    pub async fn failed_over(&self, old: usize) -> usize {
        let old = self.servers[old].addr().port().to_string();
        for sentinel in &self.sentinels {
            let (addr, old) = (sentinel.addr, old.as_str());
            reached("a Sentinel that names another primary", || async move {
                let named = ask(addr, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]).await.map(Resp::list).unwrap_or_default();
                named.get(1).is_some_and(|port| port.text() != old)
            })
            .await;
        }
        let new = self.primary().await;
        let addr = self.servers[new].addr();
        reached("a primary that says so", || async move { replication(addr).await.contains("role:master") }).await;
        new
    }
}

impl SentinelTrio {
    /// Cuts every replica off from its primary, as a partition does; each keeps what it has. For less than 10 s: after that no Sentinel would
    /// promote one.
    ///
    /// # Panics
    /// Where one goes on following.
    pub async fn cut_replication(&self) {
        let primary = self.primary().await;
        // One that can't log in is refused at every try.
        self.log_in_as("nobody", primary).await;
        self.servers[primary].ask(&["CLIENT", "KILL", "TYPE", "replica"]).await;
        for (_, replica) in self.servers.iter().enumerate().filter(|(n, _)| *n != primary) {
            let addr = replica.addr();
            reached("a replica that is cut off", || async move { replication(addr).await.contains("master_link_status:down") }).await;
        }
    }

    /// Lets every server but `down` follow its primary again.
    ///
    /// # Panics
    /// Where one doesn't answer.
    pub async fn mend_replication(&self, down: usize) {
        self.log_in_as("", down).await;
    }

    async fn log_in_as(&self, user: &str, but: usize) {
        for (_, server) in self.servers.iter().enumerate().filter(|(n, _)| *n != but) {
            server.ask(&["CONFIG", "SET", "masteruser", user, "masterauth", user]).await;
        }
    }

    /// How far a server has come in the stream of writes, in bytes.
    ///
    /// # Panics
    /// Where it doesn't answer.
    pub async fn offset(&self, server: usize) -> u64 {
        let info = replication(self.servers[server].addr()).await;
        let offset = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:")?.trim().parse().ok());
        offset.expect("a server says how far it has come")
    }
}

async fn replication(addr: SocketAddr) -> String {
    ask(addr, &["INFO", "replication"]).await.map(|info| info.text()).unwrap_or_default()
}

fn sentinel(primary_port: &str) -> Sentinel {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let addr = SocketAddr::from(([127, 0, 0, 1], free_port()));
    // A Sentinel keeps its state in its configuration, so the file must be writable.
    let config = format!(
        "bind 127.0.0.1\nport {}\ndir {}\nsentinel monitor {MASTER} 127.0.0.1 {primary_port} 2\nsentinel down-after-milliseconds {MASTER} 1000\n\
         sentinel failover-timeout {MASTER} 5000\nsentinel parallel-syncs {MASTER} 2\n",
        addr.port(),
        folder.path().display()
    );
    let file = folder.path().join("sentinel.conf");
    std::fs::write(&file, config).expect("the folder is ours");
    let log = std::fs::File::create(folder.path().join("log")).expect("the folder is ours");
    let mut command = Command::new("redis-sentinel");
    command.arg(&file).stdin(Stdio::null()).stderr(log.try_clone().expect("a file")).stdout(log);
    let process = Guarded::spawn("redis-sentinel", &mut command, folder.path());
    Sentinel { addr, _process: process, _folder: folder }
}
