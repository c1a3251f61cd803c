//! PostgreSQL for tests: a cluster of its own in a temporary folder, on a free loopback port, killed and started again at will.
//!
//! It ends with its value, and with the test's process however that ends: a shell waits for the end of its own input, which the process
//! holds, and then stops the server and removes the folder. So one server may stand in a `static` and serve a whole test binary, a
//! fresh schema for each test.

use std::fs::File;
use std::io::{Error, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long the server may take to answer after a start: the log of a killed one is read again.
const START_MAX: Duration = Duration::from_secs(60);
/// How often a state outside is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Ports are chosen before they are taken: somebody may be quicker.
const START_TRIES: u32 = 5;
/// The role that owns everything.
const ROLE: &str = "curfew";

/// How the server is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a commit waits for the disk. A killed server loses nothing either way: the system has its pages.
    pub fsync: bool,
    /// The server's `max_connections`.
    pub connections: u32,
    /// More settings, `name=value`.
    pub settings: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { fsync: true, connections: 200, settings: Vec::new() }
    }
}

impl Options {
    /// Nothing waits for the disk: for suites.
    #[must_use]
    pub fn fast() -> Self {
        let settings = ["full_page_writes=off", "autovacuum=off", "max_wal_size=4GB"].map(str::to_owned).to_vec();
        Self { fsync: false, settings, ..Self::default() }
    }
}

/// A running server. Blocking: it is started once, and killed where a test means to wait for it.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    folder: PathBuf,
    user: Option<(u32, u32)>,
    options: Options,
    port: u16,
    postmaster: Mutex<Option<Child>>,
    watchdog: Child,
    schemas: AtomicU32,
}

impl Postgres {
    /// Makes a cluster and starts it; as root everything of it runs as the user `postgres`.
    ///
    /// # Panics
    /// Where PostgreSQL isn't installed or doesn't start: the text says what to do.
    #[must_use]
    pub fn start(options: &Options) -> Self {
        let bin = bin();
        let user = is_root().then(|| user_id("postgres"));
        let folder = tempfile::Builder::new().prefix("curfew-postgres-").tempdir().expect("a temporary folder is made").keep();
        if let Some((uid, gid)) = user {
            std::os::unix::fs::chown(&folder, Some(uid), Some(gid)).expect("root gives folders away");
        }
        let watchdog = watchdog(&folder);
        let data = folder.join("data");
        let mut initdb = command(&bin.join("initdb"), user, &folder);
        initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username", ROLE, "--pgdata"]).arg(&data);
        succeeded("initdb", &initdb.output().expect("initdb is run"));
        let mut server =
            Self { bin, folder, user, options: options.clone(), port: 0, postmaster: Mutex::new(None), watchdog, schemas: AtomicU32::new(0) };
        for _attempt in 0..START_TRIES {
            server.port = free_port();
            if server.launch() {
                return server;
            }
        }
        panic!("PostgreSQL doesn't start: {}", server.log());
    }

    /// The database's URL, schema `public`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{ROLE}@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// The URL of a fresh, empty schema.
    ///
    /// # Panics
    /// Where the server doesn't answer.
    #[must_use]
    pub fn schema(&self) -> String {
        let name = format!("s{}", self.schemas.fetch_add(1, Ordering::Relaxed));
        self.run(&format!("CREATE SCHEMA {name}"));
        format!("{}&options[search_path]={name}", self.url())
    }

    /// The port on 127.0.0.1, for a proxy.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The data folder, for a look at what rests on the disk.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Runs statements as the owner, over the server's socket; what they print, unaligned.
    ///
    /// # Panics
    /// Where they fail.
    pub fn run(&self, sql: &str) -> String {
        let mut psql = self.client("psql");
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "-v", "ON_ERROR_STOP=1", "--command", sql]);
        let output = psql.output().expect("psql is run");
        succeeded("psql", &output);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Kills the server and all its processes (-9), and waits until they are gone.
    ///
    /// # Panics
    /// Where it doesn't run.
    pub fn kill9(&self) {
        let mut postmaster = self.postmaster.lock().expect("nobody panics while holding it").take().expect("it runs");
        let mut processes = children(postmaster.id());
        processes.insert(0, postmaster.id());
        signal("-KILL", &processes);
        postmaster.wait().expect("it was ours");
        until("its processes are gone", || processes.iter().all(|pid| is_gone(*pid)));
    }

    /// Starts it again after `kill9` or `stop`, on the same port, and waits until it answers.
    ///
    /// # Panics
    /// Where it doesn't start.
    pub fn restart(&self) {
        assert!(self.launch(), "PostgreSQL doesn't start again: {}", self.log());
    }

    /// Stops it in order: sessions are ended, a checkpoint is written.
    ///
    /// # Panics
    /// Where it doesn't run.
    pub fn stop(&self) {
        let mut postmaster = self.postmaster.lock().expect("nobody panics while holding it").take().expect("it runs");
        signal("-INT", &[postmaster.id()]);
        postmaster.wait().expect("it was ours");
    }

    /// Whether it answered before the bound; `false` where it ended, for instance because the port was taken.
    fn launch(&self) -> bool {
        let log = File::options().create(true).append(true).open(self.folder.join("log")).expect("the log opens");
        let mut postgres = command(&self.bin.join("postgres"), self.user, &self.folder);
        postgres.arg("-D").arg(self.data()).arg("-k").arg(&self.folder).args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        let fsync = if self.options.fsync { "fsync=on" } else { "fsync=off" };
        postgres.args(["-c", fsync, "-c", &format!("max_connections={}", self.options.connections)]);
        for setting in &self.options.settings {
            postgres.args(["-c", setting]);
        }
        postgres.stdout(log.try_clone().expect("a file is cloned")).stderr(log);
        let mut child = postgres.spawn().expect("postgres is run");
        let begun = Instant::now();
        loop {
            if child.try_wait().expect("it is ours").is_some() {
                return false;
            }
            if self.client("pg_isready").stdout(Stdio::null()).status().expect("pg_isready is run").success() {
                *self.postmaster.lock().expect("nobody panics while holding it") = Some(child);
                return true;
            }
            assert!(begun.elapsed() < START_MAX, "PostgreSQL doesn't answer: {}", self.log());
            std::thread::sleep(LOOK);
        }
    }

    /// A client program, connected over the socket.
    fn client(&self, program: &str) -> Command {
        let mut client = command(&self.bin.join(program), self.user, &self.folder);
        client.arg("-h").arg(&self.folder).args(["-p", &self.port.to_string(), "-U", ROLE, "-d", "postgres"]);
        client
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let postmaster = self.postmaster.get_mut().map(Option::take);
        if let Ok(Some(mut postmaster)) = postmaster {
            signal("-QUIT", &[postmaster.id()]);
            let _status = postmaster.wait();
        }
        // The end of its input: it finds nothing to stop any more, and removes the folder.
        drop(self.watchdog.stdin.take());
        let _status = self.watchdog.wait();
    }
}

/// The newest installed PostgreSQL's programs.
fn bin() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).max();
    let version = newest.expect("these tests need PostgreSQL in /usr/lib/postgresql: apt-get install postgresql");
    Path::new("/usr/lib/postgresql").join(version.to_string()).join("bin")
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// (uid, gid) of a user.
fn user_id(name: &str) -> (u32, u32) {
    let id = |of: &str| {
        let output = Command::new("id").args([of, name]).output().expect("id is run");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("as root these tests need the user `postgres`, which the package makes")
    };
    (id("-u"), id("-g"))
}

/// A program as the server's user, in the server's folder.
fn command(program: &Path, user: Option<(u32, u32)>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).env_remove("PGOPTIONS").env_remove("PGDATABASE").env("LC_ALL", "C.UTF-8");
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    // A group of its own: an interrupt at the terminal is for the test's process.
    command.process_group(0);
    command
}

/// Stops the server and removes the folder once this process is gone, killed or not.
fn watchdog(folder: &Path) -> Child {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(include_str!("postgres_watchdog.sh")).arg("watchdog").arg(folder).current_dir("/").process_group(0);
    let mut watchdog = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a shell is run");
    watchdog.stdin.as_mut().expect("it is piped").flush().expect("nothing is written yet");
    watchdog
}

fn succeeded(program: &str, output: &Output) {
    assert!(output.status.success(), "{program} failed: {}", String::from_utf8_lossy(&output.stderr));
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    listener.local_addr().expect("it is bound").port()
}

/// The processes that a process started.
fn children(pid: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Ended, though perhaps nobody has asked for its status yet.
fn is_gone(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}

fn signal(signal: &str, processes: &[u32]) {
    let pids = processes.iter().map(u32::to_string);
    // A backend may have ended by itself meanwhile: `kill` says so and signals the others.
    let _status: Result<_, Error> = Command::new("kill").arg(signal).args(pids).stderr(Stdio::null()).status();
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < START_MAX, "waited in vain until {what}");
        std::thread::sleep(LOOK);
    }
}
