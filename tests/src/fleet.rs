//! A fleet: roles as separate processes of the built binary, on a Redis, a PostgreSQL and a RabbitMQ of the tests' own.
//!
//! The servers are shared by the tests of one binary and end with the last of them; each fleet has its own database, schema and virtual host.

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use curfew_testservers::postgres::{self, Postgres};
use curfew_testservers::rabbit::Rabbit;
use curfew_testservers::redis::{self, Redis};
use tempfile::TempDir;

use crate::http::Http;
use crate::process::{Ran, binary, command, finish, run, state_of, tail};
use crate::settings::Settings;
use crate::wait::{until, until_within};

/// Redis has so many databases, unless it is told otherwise.
const DATABASES: usize = 16;

/// Scheduler ×2, worker ×3, dead-letter consumer and API, by the names that tests call them.
pub const WHOLE: [(&str, &str); 7] = [
    ("scheduler-1", "scheduler"),
    ("scheduler-2", "scheduler"),
    ("worker-1", "worker"),
    ("worker-2", "worker"),
    ("worker-3", "worker"),
    ("deadletter", "deadletter"),
    ("api", "api"),
];

/// The three servers.
pub struct Servers {
    /// The ledger's, which syncs every write.
    pub redis: Redis,
    /// The book's.
    pub postgres: Postgres,
    rabbit: Mutex<Rabbit>,
    fleets: AtomicUsize,
}

static SHARED: Mutex<Weak<Servers>> = Mutex::new(Weak::new());

impl Servers {
    /// Those that run already, or new ones.
    ///
    /// # Panics
    /// Where one doesn't start.
    pub fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let servers = Arc::new(Self::start());
            *shared = Arc::downgrade(&servers);
            servers
        })
    }

    fn start() -> Self {
        let rabbit = std::thread::spawn(Rabbit::start);
        let redis = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
            runtime.block_on(Redis::start(redis::Options::default()))
        });
        let postgres = Postgres::start(&postgres::Options::default());
        let redis = redis.join().expect("Redis starts");
        let rabbit = rabbit.join().expect("RabbitMQ starts");
        Self { redis, postgres, rabbit: Mutex::new(rabbit), fleets: AtomicUsize::new(0) }
    }

    /// RabbitMQ, to be stopped and started; whoever holds it has it alone.
    pub fn rabbit(&self) -> MutexGuard<'_, Rabbit> {
        self.rabbit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Processes that work on the same stores. Dropping it kills them.
pub struct Fleet {
    processes: Vec<Process>,
    http: Option<Http>,
    folder: TempDir,
    vhost: String,
    /// Of processes that don't start with the fleet's.
    configs: HashMap<&'static str, PathBuf>,
    /// Further ones of processes that have some.
    arguments: HashMap<&'static str, Vec<String>>,
    /// Of processes that are another program than this one.
    programs: HashMap<&'static str, PathBuf>,
    /// Its servers.
    pub servers: Arc<Servers>,
}

struct Process {
    name: &'static str,
    role: &'static str,
    runs: u32,
    child: Option<Child>,
    /// Closed when the test dies, however it does: then the process ends too.
    tether: Option<ChildStdin>,
    probes: Option<Http>,
}

impl Fleet {
    /// Writes a configuration with keys of its own and stores that nobody used, and starts every process of `names` at once.
    ///
    /// # Panics
    /// Where one doesn't become ready.
    pub fn start(settings: Settings, names: &[(&'static str, &'static str)]) -> Self {
        let mut fleet = Self::prepare(settings);
        fleet.run(names);
        fleet
    }

    /// Starts every process of `names` at once, and waits until each is ready.
    ///
    /// # Panics
    /// Where one doesn't become ready.
    pub fn run(&mut self, names: &[(&'static str, &'static str)]) {
        for (name, role) in names {
            self.processes.push(Process { name, role, runs: 0, child: None, tether: None, probes: None });
            self.spawn(name);
        }
        for (name, _) in names {
            self.ready(name);
        }
    }

    /// The folder, the stores and the configuration, without a process yet.
    ///
    /// # Panics
    /// Where the servers don't start.
    pub fn prepare(settings: Settings) -> Self {
        Self::prepare_on(settings, None)
    }

    /// The same with its ledger on servers of its own, for a test that stops or empties them.
    ///
    /// # Panics
    /// Where the servers don't start.
    pub fn prepare_on(settings: Settings, ledger_url: Option<&str>) -> Self {
        let servers = Servers::shared();
        let number = servers.fleets.fetch_add(1, Ordering::Relaxed);
        assert!(number < DATABASES, "a Redis has {DATABASES} databases");
        let vhost = format!("fleet-{number}");
        let settings = settings
            .text("book.url", &servers.postgres.schema())
            .text("ledger.url", &ledger_url.map_or_else(|| format!("redis://{}/{number}", servers.redis.addr()), str::to_owned))
            .text("broker.url", &servers.rabbit().vhost(&vhost))
            .text("http.listen", "127.0.0.1:0")
            .text("metrics.listen", "127.0.0.1:0");
        let folder = tempfile::Builder::new().prefix("curfew-fleet-").tempdir().expect("a folder can be made");
        let keys = run(&["keys", "new"], b"").expect(0).stdout;
        fs::write(folder.path().join("curfew.toml"), format!("{}\n{keys}", settings.toml())).expect("the configuration can be written");
        Self {
            processes: Vec::new(),
            http: None,
            folder,
            vhost,
            configs: HashMap::new(),
            arguments: HashMap::new(),
            programs: HashMap::new(),
            servers,
        }
    }

    /// Its configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("curfew.toml")
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its configuration with one text in place of another, beside it.
    ///
    /// # Panics
    /// Where the text isn't in it.
    pub fn config_with(&self, from: &str, to: &str) -> PathBuf {
        let text = fs::read_to_string(self.config()).expect("the configuration can be read");
        assert!(text.contains(from), "{from} stands in the configuration");
        let file = self.folder.path().join("other.toml");
        fs::write(&file, text.replace(from, to)).expect("the configuration can be written");
        file
    }

    /// Lets a process start with another configuration from now on, which reaches the same stores another way.
    pub fn configure(&mut self, name: &'static str, config: PathBuf) {
        self.configs.insert(name, config);
    }

    /// Its virtual host.
    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// A metric's value in one process, over all its labels; `None` where the process doesn't tell it.
    ///
    /// # Panics
    /// Where the process isn't ready yet, or doesn't answer.
    pub fn metric(&self, process: &str, name: &str) -> Option<f64> {
        let told = self.probes(process).get("/metrics");
        assert_eq!(told.status, 200, "{}", told.text);
        let values = told.text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            (series == name || series.strip_prefix(name)?.starts_with('{')).then(|| value.parse::<f64>().ok())?
        });
        values.reduce(|sum, value| sum + value)
    }

    /// Lets a process start with these further arguments from now on, for instance `--pause-at`.
    pub fn arguments(&mut self, name: &'static str, arguments: &[&str]) {
        self.arguments.insert(name, arguments.iter().map(|argument| (*argument).to_owned()).collect());
    }

    /// Lets a process be another build from now on.
    pub fn program(&mut self, name: &'static str, program: PathBuf) {
        self.programs.insert(name, program);
    }

    /// Empties every queue, at once.
    ///
    /// # Panics
    /// Where RabbitMQ refuses.
    pub fn purge(&self) {
        let purge = format!("[catch rabbit_amqqueue:purge(Q) || Q <- rabbit_amqqueue:list(<<\"{}\">>)], ok.", self.vhost);
        self.servers.rabbit().ctl(&["eval", &purge]);
    }

    fn process(&mut self, name: &str) -> &mut Process {
        self.processes.iter_mut().find(|process| process.name == name).expect("a process of this name")
    }

    /// Starts a process, and waits for nothing.
    ///
    /// # Panics
    /// Where it runs already.
    pub fn spawn(&mut self, name: &str) {
        let config = self.configs.get(name).cloned().unwrap_or_else(|| self.config()).display().to_string();
        let (folder, arguments) = (self.folder.path().to_owned(), self.arguments.get(name).cloned().unwrap_or_default());
        let program = self.programs.get(name).cloned().unwrap_or_else(binary);
        let process = self.process(name);
        assert!(process.child.is_none(), "{name} runs once at a time");
        process.runs += 1;
        process.probes = None;
        let file = |path| File::create(path).expect("a log can be made");
        let (out, log) = (file(process.out_file(&folder)), file(process.log_file(&folder)));
        let mut command = command(&program, &["run", process.role, "--config", &config, "--tethered"], None);
        command.args(arguments).current_dir(&folder).stdin(Stdio::piped()).stdout(out).stderr(log);
        let mut child = command.spawn().expect("the binary starts");
        process.tether = child.stdin.take();
        process.child = Some(child);
        if process.role == "api" {
            self.http = None;
        }
    }

    /// Waits until a process says that it is ready.
    ///
    /// # Panics
    /// Where it ends instead, or past the patience.
    pub fn ready(&mut self, name: &str) {
        let folder = self.folder.path().to_owned();
        let process = self.process(name);
        let probes = until(&format!("the probes of {name}"), || process.said(&folder, "metrics and probes at ", "\n"));
        let probes = Http::new(&format!("http://{probes}"));
        until(&format!("{name} is ready"), || {
            process.assert_alive(&folder);
            probes.try_get("/readyz").ok().filter(|answer| answer.status == 200)
        });
        process.probes = Some(probes);
        if process.role == "api" {
            let base = until("the address of the API", || process.said(&folder, "up at ", ","));
            self.http = Some(Http::new(&base));
        }
    }

    /// The probes of a process.
    ///
    /// # Panics
    /// Where it isn't ready yet.
    pub fn probes(&self, name: &str) -> &Http {
        let process = self.processes.iter().find(|process| process.name == name).expect("a process of this name");
        process.probes.as_ref().expect("it is up")
    }

    /// SIGKILL.
    ///
    /// # Panics
    /// Where it doesn't run.
    pub fn kill9(&mut self, name: &str) {
        let mut child = self.process(name).child.take().expect("it runs");
        child.kill().expect("SIGKILL can be sent");
        child.wait().expect("the child can be waited for");
    }

    /// Waits until a process holds a job at this moment (`--pause-at`); the job's key.
    ///
    /// # Panics
    /// Past the patience.
    pub fn paused(&mut self, name: &str, point: &str) -> String {
        let (folder, prefix) = (self.folder.path().to_owned(), format!("paused {point} "));
        let process = self.process(name);
        until(&format!("{name} paused {point}"), || {
            process.assert_alive(&folder);
            let out = fs::read_to_string(process.out_file(&folder)).unwrap_or_default();
            out.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
        })
    }

    /// SIGSTOP, and waits until the kernel says that it stands still.
    ///
    /// # Panics
    /// Where it doesn't run.
    pub fn stop(&mut self, name: &str) {
        let pid = self.signal(name, "STOP");
        until(&format!("a stopped {name}"), || (state_of(pid) == Some('T')).then_some(()));
    }

    /// SIGCONT; it also lets go what `--pause-at` holds.
    ///
    /// # Panics
    /// Where it doesn't run.
    pub fn cont(&mut self, name: &str) {
        self.signal(name, "CONT");
    }

    fn signal(&mut self, name: &str, signal: &str) -> u32 {
        let pid = self.process(name).child.as_ref().expect("it runs").id();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().expect("kill runs");
        assert!(sent.success(), "SIG{signal} can be sent to {name}");
        pid
    }

    /// SIGTERM.
    ///
    /// # Panics
    /// Where it can't be sent.
    pub fn terminate(&mut self, name: &str) {
        self.signal(name, "TERM");
    }

    /// Waits until a process has ended by itself.
    ///
    /// # Panics
    /// Where it goes on.
    pub fn ended(&mut self, name: &str) -> ExitStatus {
        let process = self.process(name);
        let child = process.child.as_mut().expect("it runs");
        let status = until_within(Duration::from_secs(60), &format!("the end of {name}"), || child.try_wait().expect("the child can be waited for"));
        process.child = None;
        status
    }

    /// A drain of these processes: what they had in hand is finished, and each exits with 0.
    ///
    /// # Panics
    /// Where one doesn't.
    pub fn drains(&mut self, names: &[(&str, &str)]) {
        for (name, _) in names {
            self.terminate(name);
        }
        for (name, _) in names {
            assert_eq!(self.ended(name).code(), Some(0), "{name}: {}", self.log(name));
        }
    }

    /// What a process wrote since its start.
    pub fn log(&self, name: &str) -> String {
        let process = self.processes.iter().find(|process| process.name == name).expect("a process of this name");
        process.log(self.folder.path())
    }

    /// A verb over its API.
    ///
    /// # Panics
    /// Where the binary doesn't start.
    pub fn cli(&self, args: &[&str]) -> Ran {
        finish(command(&binary(), args, Some(self.base())).current_dir(self.folder.path()), b"")
    }
}

/// What is asked of its API (`jobs.rs`) is asked of it.
impl Deref for Fleet {
    type Target = Http;

    fn deref(&self) -> &Http {
        self.http.as_ref().expect("its API is up")
    }
}

impl Process {
    fn log_file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}-{}.log", self.name, self.runs))
    }

    fn out_file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}-{}.out", self.name, self.runs))
    }

    fn log(&self, folder: &Path) -> String {
        fs::read(self.log_file(folder)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// What stands in its log between two texts.
    fn said(&mut self, folder: &Path, before: &str, after: &str) -> Option<String> {
        self.assert_alive(folder);
        let log = self.log(folder);
        log.split_once(before)?.1.split_once(after).map(|(said, _)| said.to_owned())
    }

    fn assert_alive(&mut self, folder: &Path) {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().expect("the child can be waited for"));
        assert!(ended.is_none(), "{} ended with {ended:?}:\n{}", self.name, self.log(folder));
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in &mut self.processes {
            if let Some(mut child) = process.child.take() {
                let _gone = child.kill();
                let _reaped = child.wait();
            }
            if std::thread::panicking() {
                let log = process.log(self.folder.path());
                let told: Vec<&str> = log.lines().filter(|line| !line.contains(r#""msg":"sent""#)).collect();
                eprintln!("the log of {} without what was sent, its end:\n{}", process.name, tail(&told.join("\n")));
            }
        }
    }
}
