//! One Curfew as a child process: started, killed, frozen, drained and started again on the same folder.

use std::fs::{self, File};
use std::io::Write as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::http::{Answer, Http};
use crate::settings::Settings;
use crate::wait::{until, until_within};

/// What a command line came to.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// Data.
    pub stdout: String,
    /// Talk.
    pub stderr: String,
}

impl Ran {
    /// This, where it ended with `code`.
    ///
    /// # Panics
    /// With any other code, showing what it said.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// The one object on stdout.
    ///
    /// # Panics
    /// Where stdout is anything else.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e} in stdout: {}\nstderr: {}", self.stdout, self.stderr))
    }

    /// The objects on stdout, one a line.
    ///
    /// # Panics
    /// Where a line is none.
    pub fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in: {line}"))).collect()
    }
}

/// The binary that `tests/run` built beside this test.
///
/// # Panics
/// Where there is none.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder =
        test.ancestors().find(|f| f.file_name().is_some_and(|n| n == "deps")).and_then(Path::parent).expect("a test lies in target/PROFILE/deps");
    let binary = folder.join("curfew");
    assert!(binary.is_file(), "{} is missing: run tests/run, which builds it", binary.display());
    binary
}

/// The same program in the format after this one (`--features next-format`), which `tests/run` builds beside it.
///
/// # Panics
/// Where there is none.
pub fn next_binary() -> PathBuf {
    let binary = binary().with_file_name("curfew-next");
    assert!(binary.is_file(), "{} is missing: run tests/run, which builds it", binary.display());
    binary
}

/// Runs the binary without a Curfew, for instance `try` and `config`.
///
/// # Panics
/// Where it can't be started.
pub fn run(args: &[&str], stdin: &[u8]) -> Ran {
    finish(&mut command(&binary(), args, None), stdin)
}

pub(crate) fn command(binary: &Path, args: &[&str], api: Option<&str>) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CURFEW_")) {
        command.env_remove(name);
    }
    command.args(args);
    if let Some(api) = api {
        command.args(["--api", api]);
    }
    command
}

pub(crate) fn finish(command: &mut Command, stdin: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut input = child.stdin.take().expect("stdin is piped");
    let stdin = stdin.to_vec();
    let feeding = std::thread::spawn(move || {
        // Who ends before it has read everything is judged by its exit code.
        let _closed = input.write_all(&stdin);
    });
    let output = child.wait_with_output().expect("the child can be waited for");
    feeding.join().expect("feeding doesn't panic");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the binary writes UTF-8");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A Curfew with a folder of its own. Dropping it kills the process and removes the folder.
pub struct Curfew {
    folder: TempDir,
    settings: Settings,
    variables: Vec<(&'static str, String)>,
    runs: u32,
    child: Option<Child>,
    /// Closed when the test dies, however it does: then the process ends too.
    tether: Option<ChildStdin>,
    http: Option<Http>,
}

impl Curfew {
    /// Starts `curfew up` on a new folder and waits until it is ready.
    ///
    /// # Panics
    /// Where it doesn't become ready.
    pub fn start(settings: Settings) -> Self {
        let mut curfew = Self::prepare(settings);
        curfew.restart();
        curfew
    }

    /// The folder and the configuration, without a process yet.
    ///
    /// # Panics
    /// Where no folder can be made.
    pub fn prepare(settings: Settings) -> Self {
        let folder = tempfile::Builder::new().prefix("curfew-test-").tempdir().expect("a folder can be made");
        Self { folder, settings, variables: Vec::new(), runs: 0, child: None, tether: None, http: None }
    }

    /// Starts the process again, on the same folder, and waits until it is ready.
    ///
    /// # Panics
    /// Where it doesn't become ready.
    pub fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// The same with further arguments of `up`.
    ///
    /// # Panics
    /// Where it doesn't become ready.
    pub fn restart_with(&mut self, args: &[String]) {
        self.spawn(args);
        let base = until("the address in the log of `curfew up`", || {
            self.assert_alive();
            let log = self.log();
            let rest = log.split_once("up at ")?.1;
            rest.split_once(',').map(|(base, _)| base.to_owned())
        });
        self.http = Some(Http::new(&base));
        until("readyz", || {
            self.assert_alive();
            self.http().try_get("/readyz").ok().filter(|answer| answer.status == 200)
        });
    }

    /// Starts the process and waits for nothing.
    ///
    /// # Panics
    /// Where one runs already.
    pub fn spawn(&mut self, args: &[String]) {
        assert!(self.child.is_none(), "a Curfew runs once at a time");
        self.runs += 1;
        self.http = None;
        let config = self.folder().join("curfew.toml");
        fs::write(&config, self.settings.toml()).expect("the configuration can be written");
        let file = |kind: &str| File::create(self.file_of(kind)).expect("a log can be made");
        let (config, data) = (config.display().to_string(), self.data().display().to_string());
        let mut command = command(&binary(), &["up", "--config", &config, "--data", &data, "--http", "127.0.0.1:0", "--tethered"], None);
        command.args(args).current_dir(self.folder()).stdin(Stdio::piped()).stdout(file("out")).stderr(file("log"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut child = command.spawn().expect("the binary starts");
        self.tether = child.stdin.take();
        self.child = Some(child);
    }

    /// A variable of the environment, from the next start on.
    pub fn variable(&mut self, name: &'static str, value: &str) {
        self.variables.push((name, value.to_owned()));
    }

    /// What the next start is configured with.
    pub fn configure(&mut self, change: impl FnOnce(Settings) -> Settings) {
        self.settings = change(std::mem::take(&mut self.settings));
    }

    fn assert_alive(&mut self) {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().expect("the child can be waited for"));
        assert!(ended.is_none(), "`curfew up` ended with {ended:?}:\n{}", self.log());
    }

    fn file_of(&self, kind: &str) -> PathBuf {
        self.folder().join(format!("up-{}.{kind}", self.runs))
    }

    /// Its folder: configuration, logs, `data/`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// What the process wrote to stderr since its start.
    pub fn log(&self) -> String {
        fs::read(self.file_of("log")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// What it wrote to stdout since its start.
    pub fn out(&self) -> String {
        fs::read(self.file_of("out")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Waits until a delivery is held at this moment (`--pause-at`); the key of its job.
    ///
    /// # Panics
    /// Past the patience.
    pub fn paused(&self, point: &str) -> String {
        let prefix = format!("paused {point} ");
        until(&format!("a delivery paused {point}"), || {
            let out = self.out();
            out.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
        })
    }

    /// Its process id.
    ///
    /// # Panics
    /// Where none runs.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a process runs").id()
    }

    /// SIGKILL. What it had in hand is whatever it was.
    ///
    /// # Panics
    /// Where none runs.
    pub fn kill9(&mut self) {
        let mut child = self.child.take().expect("a process runs");
        child.kill().expect("SIGKILL can be sent");
        child.wait().expect("the child can be waited for");
    }

    /// SIGSTOP, and waits until the kernel says that it stands still.
    ///
    /// # Panics
    /// Where none runs.
    pub fn stop(&self) {
        self.signal("STOP");
        until("a stopped process", || (state_of(self.pid()) == Some('T')).then_some(()));
    }

    /// SIGCONT.
    ///
    /// # Panics
    /// Where none runs.
    pub fn cont(&self) {
        self.signal("CONT");
    }

    /// Sends a signal by its name.
    ///
    /// # Panics
    /// Where it can't be sent.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.pid())]).status().expect("a shell runs");
        assert!(sent.success(), "SIG{name} can't be sent");
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Panics
    /// Where it goes on.
    pub fn ended(&mut self) -> ExitStatus {
        let log = self.file_of("log");
        let child = self.child.as_mut().expect("a process runs");
        let status = until_within(Duration::from_secs(90), &format!("the end of `curfew up`, whose log is {}", log.display()), || {
            child.try_wait().expect("the child can be waited for")
        });
        self.child = None;
        status
    }

    /// SIGTERM, and the exit code.
    ///
    /// # Panics
    /// Where it goes on.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal("TERM");
        self.ended().code()
    }

    /// The client of its API.
    ///
    /// # Panics
    /// Where it isn't up.
    pub fn http(&self) -> &Http {
        self.http.as_ref().expect("it is up")
    }

    /// GET.
    ///
    /// # Panics
    /// Where nobody answers.
    pub fn get(&self, path: &str) -> Answer {
        self.http().get(path)
    }

    /// POST with a JSON body.
    ///
    /// # Panics
    /// Where nobody answers.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.http().post(path, body)
    }

    /// A verb over its API.
    ///
    /// # Panics
    /// Where the binary doesn't start.
    pub fn cli(&self, args: &[&str]) -> Ran {
        self.cli_with(args, b"")
    }

    /// A verb over its API, with stdin.
    ///
    /// # Panics
    /// Where the binary doesn't start.
    pub fn cli_with(&self, args: &[&str], stdin: &[u8]) -> Ran {
        finish(command(&binary(), args, Some(self.http().base())).current_dir(self.folder()), stdin)
    }

    /// A verb over its API, with a token.
    ///
    /// # Panics
    /// Where the binary doesn't start.
    pub fn cli_as(&self, token: &str, args: &[&str]) -> Ran {
        finish(command(&binary(), args, Some(self.http().base())).current_dir(self.folder()).env("CURFEW_TOKEN", token), b"")
    }
}

/// What is asked of its API (`jobs.rs`) is asked of it.
impl Deref for Curfew {
    type Target = Http;

    fn deref(&self) -> &Http {
        self.http()
    }
}

impl Drop for Curfew {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A frozen process dies of SIGKILL too.
            let _gone = child.kill();
            let _reaped = child.wait();
            if std::thread::panicking() {
                eprintln!("the log of `curfew up`, its end:\n{}", tail(&self.log()));
            }
        }
    }
}

pub(crate) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// The kernel's letter for a process: `T` is stopped (proc(5)).
pub(crate) fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}
