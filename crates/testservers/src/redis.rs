//! Debian's Redis, for tests: one server, a primary with replicas and Sentinels, or a Cluster; on free loopback ports, with folders of their own.
//!
//! Read this file for one server; `sentinel.rs` and `cluster.rs` build on it.

mod clock;
mod cluster;
mod guard;
mod resp;
mod sentinel;
mod snapshot;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use cluster::Cluster;
use guard::Guarded;
pub use resp::{Resp, ask};
pub use sentinel::SentinelTrio;
pub use snapshot::Snapshot;

/// How long a server may take to start, and a level to be reached.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How a server is started. Snapshots are always off: what a test finds after a kill is what the log held.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keep a log of writes.
    pub appendonly: bool,
    /// `always`, `everysec` or `no`.
    pub appendfsync: &'static str,
    /// Bytes, or 0 for no bound.
    pub maxmemory: u64,
    /// What is forgotten above it.
    pub maxmemory_policy: &'static str,
    /// Whose clock it goes by.
    pub clock: Clock,
    /// Further arguments, as `--name`, `value`, …
    pub more: Vec<String>,
}

/// What a server takes for the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// The machine's.
    #[default]
    Machine,
    /// The machine's and what [`Redis::set_clock`] says.
    ByHand,
}

impl Default for Options {
    fn default() -> Self {
        let (appendonly, appendfsync, maxmemory_policy) = (true, "always", "noeviction");
        Self { appendonly, appendfsync, maxmemory: 0, maxmemory_policy, clock: Clock::Machine, more: Vec::new() }
    }
}

impl Options {
    /// The same with further arguments.
    pub fn with(mut self, more: &[&str]) -> Self {
        self.more.extend(more.iter().map(|word| (*word).to_owned()));
        self
    }
}

/// A running server. Dropping it kills it by its pid and removes its folder.
pub struct Redis {
    addr: SocketAddr,
    options: Options,
    // Before the folder, so that nobody writes into it any more when it goes.
    process: Guarded,
    folder: TempDir,
}

impl Redis {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// Where redis-server is missing, with what to install, or where it doesn't start within [`PATIENCE`].
    pub async fn start(options: Options) -> Self {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let process = spawn(addr, &options, folder.path());
        let mut server = Self { addr, options, process, folder };
        server.answers().await;
        server
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// As a client takes it.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.addr)
    }

    /// Its folder: the log of writes, snapshots, and what it says.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends one command on a connection of its own.
    ///
    /// # Panics
    /// Where the server doesn't answer.
    pub async fn ask(&self, command: &[&str]) -> Resp {
        ask(self.addr, command).await.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Starts it again on the same port and data; it must be down.
    ///
    /// # Panics
    /// As [`Redis::start`].
    pub async fn restart(&mut self) {
        self.process = spawn(self.addr, &self.options, self.folder.path());
        self.answers().await;
    }

    /// Sets its clock, by seconds ahead of the machine's. A restart keeps it.
    ///
    /// # Panics
    /// Where it goes by the machine's.
    pub fn set_clock(&self, ahead_s: i64) {
        assert_eq!(self.options.clock, Clock::ByHand, "a clock that isn't faked is the machine's");
        clock::set(self.folder.path(), ahead_s);
    }

    /// SIGSTOP or SIGCONT.
    ///
    /// # Panics
    /// Where it can't be signalled.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status().expect("kill is everywhere");
        assert!(sent.success(), "kill -{name}");
    }

    async fn answers(&mut self) {
        let start = Instant::now();
        loop {
            // One that asks for a password has started too.
            if ask(self.addr, &["PING"]).await.is_ok_and(|answer| answer.text() == "PONG" || answer.text().starts_with("NOAUTH")) {
                if self.options.clock == Clock::ByHand {
                    clock::leave_nothing(self.pid());
                }
                return;
            }
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(!self.process.ended(), "redis-server ended: {}", log());
            assert!(start.elapsed() < PATIENCE, "redis-server doesn't answer: {}", log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn spawn(addr: SocketAddr, options: &Options, folder: &Path) -> Guarded {
    let log = File::options().create(true).append(true).open(folder.join("log")).expect("the folder is ours");
    let (port, maxmemory) = (addr.port().to_string(), options.maxmemory.to_string());
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port, "--dir"]).arg(folder).args(["--save", "", "--daemonize", "no"]);
    command.args(["--appendonly", if options.appendonly { "yes" } else { "no" }, "--appendfsync", options.appendfsync]);
    command.args(["--maxmemory", &maxmemory, "--maxmemory-policy", options.maxmemory_policy, "--repl-diskless-sync-delay", "0"]);
    if options.clock == Clock::ByHand {
        clock::by_hand(&mut command, folder);
    }
    command.args(&options.more).stdin(Stdio::null()).stderr(log.try_clone().expect("a file")).stdout(log);
    Guarded::spawn("redis-server", &mut command, folder)
}

/// A port that nobody listens on. Somebody may take it before it is used; then the server says so and the test fails.
pub(crate) fn free_port() -> u16 {
    // Below the ephemeral range, so that no outgoing connection takes it, and with room for a Cluster's bus 10,000 above.
    loop {
        let seed = std::collections::hash_map::RandomState::new();
        let port = 12_000 + (std::hash::BuildHasher::hash_one(&seed, Instant::now()) % 10_000) as u16;
        let free = |port| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
}

/// Waits until `look` finds a level reached.
///
/// # Panics
/// When [`PATIENCE`] has passed, naming what was waited for.
pub(crate) async fn reached<Looking: Future<Output = bool>>(what: &str, mut look: impl FnMut() -> Looking) {
    let start = Instant::now();
    while !look().await {
        assert!(start.elapsed() < PATIENCE, "waited in vain for: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_written_is_there_after_a_kill_on_the_same_port() {
        let mut server = Redis::start(Options::default()).await;
        let addr = server.addr();
        assert_eq!(server.ask(&["SET", "a", "1"]).await, Resp::Text("OK".into()));
        server.kill9();
        assert!(ask(addr, &["PING"]).await.is_err());
        server.restart().await;
        assert_eq!((server.addr(), server.ask(&["GET", "a"]).await), (addr, Resp::Bulk(Some(b"1".to_vec()))));
    }

    /// Seconds since 1970, as the server says.
    async fn time(server: &Redis) -> i64 {
        server.ask(&["TIME"]).await.list()[0].text().parse().expect("seconds")
    }

    #[tokio::test]
    async fn a_clock_that_is_set_ahead_is_ahead_until_it_is_set_back() {
        let mut server = Redis::start(Options { clock: Clock::ByHand, ..Options::default() }).await;
        let before = time(&server).await;
        server.set_clock(600);
        assert!((600..660).contains(&(time(&server).await - before)));
        server.kill9();
        server.restart().await;
        assert!((600..720).contains(&(time(&server).await - before)), "a restart keeps it");
        server.set_clock(0);
        assert!((0..180).contains(&(time(&server).await - before)));
    }
}
