//! A child process of this binary: `curfew up` on the rehearsal's folder, killed by its pid.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::cli::client::Client;
use crate::exit::Failure;

/// A running child; killed when dropped.
pub struct Up {
    child: Child,
    /// Speaks to its API.
    pub client: Client,
    announced: Receiver<String>,
}

impl Up {
    /// Starts one and waits until its API answers. `pauses`: moments that it announces and holds.
    ///
    /// # Errors
    /// `Failure`, where it doesn't start in time; what it said is part of it.
    pub fn start(folder: &Path, config: &Path, pauses: &[String], until: Instant) -> Result<Self, Failure> {
        let broken = |what: String| Failure::refused(format!("the rehearsal's process {what}"));
        let exe = std::env::current_exe().map_err(|e| broken(format!("has no program: {e}")))?;
        let mut command = Command::new(exe);
        command.arg("up").arg("--config").arg(config).arg("--data").arg(folder.join("data")).args(["--http", "127.0.0.1:0"]);
        for pause in pauses {
            command.arg("--pause-at").arg(pause);
        }
        // Its own variables only: a CURFEW_… of the caller must not change the rehearsal.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CURFEW_")) {
            command.env_remove(name);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| broken(format!("can't be started: {e}")))?;
        let announced = lines(child.stdout.take().expect("piped"));
        let said = lines(child.stderr.take().expect("piped"));
        let mut heard = Vec::new();
        let address = loop {
            match said.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => match line.strip_prefix("curfew is up at ").and_then(|rest| rest.split(',').next()) {
                    Some(address) => break address.to_owned(),
                    None => heard.push(line),
                },
                Err(_gone_or_late) => {
                    let _killed = child.kill().and_then(|()| child.wait());
                    return Err(broken(format!("doesn't come up: {}", heard.join(" / "))));
                }
            }
        };
        std::thread::spawn(move || for _line in said {});
        let client = Client::new(Some(&address))?;
        Ok(Self { child, client, announced })
    }

    /// Waits until it announces a moment.
    ///
    /// # Errors
    /// `Failure`, where it doesn't in time.
    pub fn paused(&self, what: &str, until: Instant) -> Result<(), Failure> {
        loop {
            match self.announced.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(what) => return Ok(()),
                Ok(_other) => {}
                Err(_gone_or_late) => return Err(Failure::refused(format!("the rehearsal never came to the moment {what:?}"))),
            }
        }
    }

    /// SIGKILL, by pid.
    pub fn kill(mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A pipe's lines, read to its end by a thread of their own, so that the child never blocks on it.
fn lines(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _nobody_listens = send.send(line);
        }
    });
    receive
}

/// Polls until `look` has something.
///
/// # Errors
/// `look`'s own, or `None` for too long.
pub fn until<T>(end: Instant, mut look: impl FnMut() -> Result<Option<T>, Failure>) -> Result<Option<T>, Failure> {
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
