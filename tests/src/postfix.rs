//! Debian's Postfix with a configuration, a queue and a data folder of its own, on a private port of loopback.
//!
//! The system's instance is neither needed nor touched. Every recipient of every domain ends in one Maildir (virtual(8) writes the
//! envelope's recipient on top, as `X-Original-To`). It is stopped by its own `postfix -c FOLDER stop`.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::wait::until;

const MAIN_CF: &str = include_str!("postfix/main.cf");
const MASTER_CF: &str = include_str!("postfix/master.cf");
/// Whoever owns the mailbox: virtual(8) delivers to nobody under 100 (`virtual_minimum_uid`).
const OWNER: &str = "65534:65534";

/// A running Postfix.
pub struct Postfix {
    folder: TempDir,
    addr: SocketAddr,
}

impl Postfix {
    /// Starts one, and waits until it greets.
    ///
    /// # Panics
    /// Where Postfix isn't installed, or this isn't root: `tests/run` installs it, and only root may start its master.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("curfew-postfix-").tempdir().expect("a folder can be made");
        // Its daemons run as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a folder's mode can be set");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let addr = listener.local_addr().expect("a listener has an address");
        drop(listener);
        let postfix = Self { folder, addr };
        postfix.configure();
        postfix.command("start");
        until("Postfix on its port", || TcpStream::connect(addr).ok());
        postfix
    }

    fn configure(&self) {
        for name in ["etc", "queue", "data", "mail"] {
            fs::create_dir(self.path(name)).expect("a folder can be made");
        }
        let fill = |text: &str| text.replace("@FOLDER@", &self.folder.path().display().to_string()).replace("@PORT@", &self.addr.port().to_string());
        fs::write(self.path("etc/main.cf"), fill(MAIN_CF)).expect("main.cf can be written");
        fs::write(self.path("etc/master.cf"), fill(MASTER_CF)).expect("master.cf can be written");
        run("chown", &["postfix", &self.path("data").display().to_string()]);
        run("chown", &[OWNER, &self.path("mail").display().to_string()]);
    }

    fn command(&self, verb: &str) {
        run("/usr/sbin/postfix", &["-c", &self.path("etc").display().to_string(), verb]);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Every mail that was delivered.
    pub fn mails(&self) -> Vec<Vec<u8>> {
        let read = |path: PathBuf| fs::read(path).expect("a delivered mail can be read");
        let Ok(entries) = fs::read_dir(self.path("mail/inbox/new")) else { return Vec::new() };
        entries.map(|entry| read(entry.expect("a Maildir can be read").path())).collect()
    }

    /// How many mails were delivered.
    pub fn delivered(&self) -> usize {
        fs::read_dir(self.path("mail/inbox/new")).map_or(0, Iterator::count)
    }

    /// Its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("postfix.log")).unwrap_or_default()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the log of Postfix, its end:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
        }
        let stopped = Command::new("/usr/sbin/postfix").args(["-c", &self.path("etc").display().to_string(), "stop"]).output();
        // `stop` returns before the last daemon has left its queue; the folder can only be removed then.
        let pid = self.path("queue/pid/master.pid");
        if stopped.is_ok() {
            until("the end of Postfix", || (!running(&pid)).then_some(()));
        }
    }
}

fn running(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap_or_default();
    !pid.trim().is_empty() && Path::new("/proc").join(pid.trim()).exists()
}

fn run(program: &str, args: &[&str]) {
    let ran = Command::new(program).args(args).output().unwrap_or_else(|e| panic!("{program}: {e}; run tests/run, which installs what tests need"));
    assert!(ran.status.success(), "{program} {args:?}: {}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
}
