//! RabbitMQ for tests: Debian's rabbitmq-server on free loopback ports, with its own epmd, cookie, data and configuration.
//!
//! A guard process waits for the end of its standard input, which is the end of the test process, however it ends (kill -9 too): then it kills
//! the server and epmd by their pids and removes the folder. So a server that a whole test binary shares needs no destructor.
//! All calls block: start a server before the runtime, or in `spawn_blocking`.

use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest start that a busy two-core machine needed was 15 s.
const START_MAX: Duration = Duration::from_secs(90);
const STOP_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
/// Where Debian keeps the scripts behind its wrapper, which insists on a user of its own.
const LIB: &str = "/usr/lib/rabbitmq/lib";
/// The server says it in its log once the last listener stands.
const STARTED: &str = "Server startup complete";
const GUARD: &str = include_str!("rabbit/guard.sh");

/// A running server. Dropping it ends it.
pub struct Rabbit {
    folder: tempfile::TempDir,
    scripts: PathBuf,
    amqp: SocketAddr,
    tls: Option<SocketAddr>,
    dist_port: u16,
    epmd_port: u16,
    epmd: Child,
    server: Option<Child>,
    /// Its standard input closes with this process.
    guard: Child,
    /// How many times the server was started: each has a log of its own.
    starts: u32,
}

impl Rabbit {
    /// Starts a server and waits until it takes connections.
    ///
    /// # Panics
    /// Where RabbitMQ isn't installed, or doesn't start.
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// Starts one that listens for TLS too, with this certificate and key (PEM).
    ///
    /// # Panics
    /// As `start`.
    pub fn start_with_tls(certificate: &str, key: &str) -> Self {
        Self::start_with(Some((certificate, key)))
    }

    fn start_with(tls: Option<(&str, &str)>) -> Self {
        let scripts = scripts();
        let folder = tempfile::Builder::new().prefix("curfew-rabbit-").tempdir().expect("a temporary folder");
        prepare(folder.path());
        let guard = Command::new("sh").arg(folder.path().join("guard.sh")).arg(folder.path()).stdin(Stdio::piped()).spawn().expect("sh runs");
        let [amqp_port, dist_port, epmd_port, tls_port] = free_ports();
        if let Some((certificate, key)) = tls {
            listen_for_tls(folder.path(), tls_port, certificate, key);
        }
        let epmd = Command::new("epmd")
            .args(["-port", &epmd_port.to_string(), "-address", "127.0.0.1"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("epmd runs: install erlang-base");
        note_pid(folder.path(), "epmd", Some(epmd.id()));
        let amqp = SocketAddr::from((Ipv4Addr::LOCALHOST, amqp_port));
        let tls = tls.map(|_| SocketAddr::from((Ipv4Addr::LOCALHOST, tls_port)));
        let mut rabbit = Self { folder, scripts, amqp, tls, dist_port, epmd_port, epmd, server: None, guard, starts: 0 };
        rabbit.start_again();
        rabbit
    }

    /// Where it listens for AMQP.
    pub fn addr(&self) -> SocketAddr {
        self.amqp
    }

    /// The URL for TLS, by name.
    ///
    /// # Panics
    /// Where it was started without.
    pub fn tls_url(&self) -> String {
        format!("amqps://guest:guest@localhost:{}/%2f", self.tls.expect("it was started with TLS").port())
    }

    /// The URL of the default virtual host for the default user.
    pub fn url(&self) -> String {
        url_at(self.amqp, "%2f")
    }

    /// The URL of a virtual host of its own, made now: its objects, policies and limits meet no other test's.
    ///
    /// # Panics
    /// Where the server refuses.
    pub fn vhost(&self, name: &str) -> String {
        self.ctl(&["add_vhost", name]);
        self.ctl(&["set_permissions", "-p", name, "guest", ".*", ".*", ".*"]);
        url_at(self.amqp, name)
    }

    /// The server's data and logs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs `rabbitmqctl` and returns what it printed.
    ///
    /// # Panics
    /// Where it fails, with what it said.
    pub fn ctl(&self, args: &[&str]) -> String {
        let ran = self.command("rabbitmqctl").arg("-q").args(args).stdin(Stdio::null()).output().expect("rabbitmqctl runs");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success(), "rabbitmqctl {args:?}: {said}{}", String::from_utf8_lossy(&ran.stderr));
        said
    }

    /// Raises the memory alarm: connections that publish are blocked until `clear_memory_alarm`.
    ///
    /// # Panics
    /// As `ctl`.
    pub fn raise_memory_alarm(&self) {
        self.ctl(&["set_vm_memory_high_watermark", "0.0000001"]);
    }

    /// Ends the memory alarm.
    ///
    /// # Panics
    /// As `ctl`.
    pub fn clear_memory_alarm(&self) {
        self.ctl(&["set_vm_memory_high_watermark", "0.9"]);
    }

    /// Ends the server in good order (SIGTERM); what it holds on disk stays.
    ///
    /// # Panics
    /// Where it doesn't end in time.
    pub fn stop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        signal(server.id(), "TERM");
        let deadline = Instant::now() + STOP_MAX;
        while server.try_wait().expect("our child").is_none() {
            assert!(Instant::now() < deadline, "RabbitMQ doesn't end");
            std::thread::sleep(LOOK);
        }
        note_pid(self.folder.path(), "server", None);
    }

    /// Kills the server (-9).
    ///
    /// # Panics
    /// Where it can't be waited for.
    pub fn kill9(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        server.kill().expect("our child");
        server.wait().expect("our child");
        note_pid(self.folder.path(), "server", None);
    }

    /// Starts it on the same ports and data, where it doesn't run.
    ///
    /// # Panics
    /// Where it doesn't start; with the end of its log.
    pub fn start_again(&mut self) {
        if self.server.is_some() {
            return;
        }
        self.starts += 1;
        let output = fs::File::create(self.folder.path().join(format!("out-{}", self.starts))).expect("our folder");
        let errors = output.try_clone().expect("an open file");
        let mut command = self.command("rabbitmq-server");
        // Told that a service manager waits for it, the script becomes the server instead of staying before it: the child's pid is the server's.
        command.env("NOTIFY_SOCKET", self.folder.path().join("nobody"));
        let mut server = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn().expect("rabbitmq-server runs");
        note_pid(self.folder.path(), "server", Some(server.id()));
        let deadline = Instant::now() + START_MAX;
        while !self.has_started() {
            let ended = server.try_wait().expect("our child");
            assert!(ended.is_none() && Instant::now() < deadline, "RabbitMQ doesn't start ({ended:?}):\n{}", self.last_words());
            std::thread::sleep(LOOK);
        }
        self.server = Some(server);
    }

    fn has_started(&self) -> bool {
        fs::read_to_string(self.log()).is_ok_and(|log| log.contains(STARTED)) && TcpStream::connect(self.amqp).is_ok()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join(format!("log-{}", self.starts))
    }

    fn last_words(&self) -> String {
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let all = read(self.folder.path().join(format!("out-{}", self.starts))) + &read(self.log());
        let lines: Vec<_> = all.lines().rev().take(30).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn command(&self, script: &str) -> Command {
        let folder = self.folder.path();
        let mut command = Command::new(self.scripts.join(script));
        let loopback = "-kernel inet_dist_use_interface {127,0,0,1}";
        let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/sbin:/usr/bin:/sbin:/bin"));
        command.env_clear().env("PATH", path).env("LANG", "C.UTF-8").env("HOME", folder.join("home"));
        command.env("ERL_EPMD_PORT", self.epmd_port.to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
        // The name must be unique where another node's tools look at the same epmd; here it only has to be stable over restarts.
        command.env("RABBITMQ_NODENAME", format!("curfew-{}@localhost", self.amqp.port()));
        command.env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1").env("RABBITMQ_NODE_PORT", self.amqp.port().to_string());
        command.env("RABBITMQ_DIST_PORT", self.dist_port.to_string());
        command.env("RABBITMQ_MNESIA_BASE", folder.join("data")).env("RABBITMQ_LOG_BASE", folder).env("RABBITMQ_LOGS", self.log());
        command.env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"));
        command.env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq")).env("RABBITMQ_CONF_ENV_FILE", folder.join("none"));
        command.env("RABBITMQ_ADVANCED_CONFIG_FILE", folder.join("none.config")).env("RABBITMQ_CONFIG_FILES", folder.join("none.d"));
        command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", loopback).env("RABBITMQ_CTL_ERL_ARGS", loopback);
        command
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        // Nothing here may panic: a test that failed is ending. What this misses, the guard finds by the pid files.
        for child in self.server.iter_mut().chain([&mut self.epmd]) {
            let _gone = child.kill();
            let _gone = child.wait();
        }
        drop(self.guard.stdin.take());
        let _gone = self.guard.wait();
    }
}

/// The URL of a virtual host, as seen through `addr` (a proxy's, maybe).
pub fn url_at(addr: SocketAddr, vhost: &str) -> String {
    format!("amqp://guest:guest@{addr}/{vhost}")
}

fn scripts() -> PathBuf {
    let found = fs::read_dir(LIB).ok().and_then(|mut all| all.find_map(Result::ok));
    found.expect("RabbitMQ isn't installed: apt-get install rabbitmq-server").path().join("sbin")
}

fn prepare(folder: &Path) {
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("our folder");
    fs::create_dir(folder.join("home")).expect("our folder");
    let cookie = folder.join("home/.erlang.cookie");
    let mut random = [0_u8; 16];
    fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random)).expect("/dev/urandom");
    let letters: String = random.iter().map(|byte| char::from(b'A' + byte % 26)).collect();
    fs::write(&cookie, letters).expect("our folder");
    fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400)).expect("our file");
    write("enabled_plugins", "[].\n");
    write("rabbitmq.conf", include_str!("rabbit/rabbitmq.conf"));
    write("guard.sh", GUARD);
}

fn listen_for_tls(folder: &Path, port: u16, certificate: &str, key: &str) {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("our folder");
        path
    };
    let (certificate, key) = (file("certificate.pem", certificate), file("key.pem", key));
    let conf = folder.join("rabbitmq.conf");
    let plain = fs::read_to_string(&conf).expect("our file");
    let tls =
        format!("listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n", certificate.display(), key.display());
    fs::write(conf, plain + &tls).expect("our file");
}

/// Ports that are free at the moment; one could be taken before the server binds it, and then the server says so.
fn free_ports() -> [u16; 4] {
    let listeners = [(); 4].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("a bound port").port())
}

/// For the guard.
fn note_pid(folder: &Path, name: &str, pid: Option<u32>) {
    let file = folder.join(format!("{name}.pid"));
    match pid {
        Some(pid) => fs::write(file, pid.to_string()).expect("our folder"),
        None => fs::remove_file(file).expect("our file"),
    }
}

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill runs");
    assert!(sent.success(), "kill -{name} {pid}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_stops_is_killed_and_keeps_its_data() {
        let mut rabbit = Rabbit::start();
        rabbit.vhost("kept");
        rabbit.stop();
        assert!(TcpStream::connect(rabbit.addr()).is_err());
        rabbit.start_again();
        assert!(rabbit.ctl(&["list_vhosts"]).contains("kept"));
        rabbit.kill9();
        assert!(TcpStream::connect(rabbit.addr()).is_err());
        rabbit.start_again();
        assert!(rabbit.ctl(&["list_vhosts"]).contains("kept"));
        let (folder, server) = (rabbit.folder().to_owned(), rabbit.server.as_ref().map(Child::id).expect("it runs"));
        drop(rabbit);
        assert!(!folder.exists(), "its folder is gone");
        assert!(!Path::new(&format!("/proc/{server}")).exists(), "its process is gone");
    }
}
