//! A child process of this binary, killed by its pid. It ends with the rehearsal, however that ends: its standard input closes then.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cli::client::Client;
use crate::exit::Failure;

/// How often something is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// When waiting is over; a signal moves it to now.
#[derive(Clone, Debug)]
pub struct End(Arc<Mutex<Instant>>);

impl End {
    /// After so long.
    pub fn within(limit: Duration) -> Self {
        Self(Arc::new(Mutex::new(Instant::now() + limit)))
    }

    /// Now.
    pub fn come(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_over(&self) -> bool {
        Instant::now() >= *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running child; killed when dropped.
pub struct Child {
    process: process::Child,
    client: Option<Client>,
    announced: Receiver<String>,
}

impl Child {
    /// Starts one and waits until it is up. `pauses`: moments that it announces and holds; `variables`: of its environment.
    ///
    /// # Errors
    /// `Failure`, where it doesn't start in time; what it said is part of it.
    pub fn start(args: &[&str], pauses: &[String], variables: &[(&str, String)], end: &End) -> Result<Self, Failure> {
        let broken = |what: String| Failure::refused(format!("the rehearsal's process {what}"));
        let exe = std::env::current_exe().map_err(|e| broken(format!("has no program: {e}")))?;
        let mut command = Command::new(exe);
        command.args(args).arg("--tethered").args(pauses.iter().flat_map(|pause| ["--pause-at", pause.as_str()]));
        // Its own variables only: a CURFEW_… of the caller must not change the rehearsal.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CURFEW_")) {
            command.env_remove(name);
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        // A group of its own: an interrupt at the terminal is for the rehearsal, which kills it and removes what it made.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|e| broken(format!("can't be started: {e}")))?;
        let announced = lines(process.stdout.take().expect("piped"));
        let said = lines(process.stderr.take().expect("piped"));
        let mut child = Self { process, client: None, announced };
        let mut heard = Vec::new();
        loop {
            match next(&said, end) {
                Some(line) if line.starts_with("curfew runs ") => break,
                Some(line) => match line.strip_prefix("curfew is up at ").and_then(|rest| rest.split(',').next()) {
                    Some(address) => {
                        child.client = Some(Client::new(Some(address))?);
                        break;
                    }
                    None => heard.push(line),
                },
                None => return Err(broken(format!("doesn't come up: {}", heard.join(" / ")))),
            }
        }
        std::thread::spawn(move || for _line in said {});
        Ok(child)
    }

    /// Speaks to its API.
    ///
    /// # Errors
    /// `Failure`, where it has none.
    pub fn client(&self) -> Result<&Client, Failure> {
        self.client.as_ref().ok_or_else(|| Failure::refused("the rehearsal's process has no API"))
    }

    /// Waits until it announces a moment.
    ///
    /// # Errors
    /// `Failure`, where it doesn't in time.
    pub fn paused(&self, what: &str, end: &End) -> Result<(), Failure> {
        while let Some(line) = next(&self.announced, end) {
            if line.contains(what) {
                return Ok(());
            }
        }
        Err(Failure::refused(format!("the rehearsal never came to the moment {what:?}")))
    }

    /// SIGKILL, by pid.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The next line, before the pipe's and the rehearsal's end.
fn next(lines: &Receiver<String>, end: &End) -> Option<String> {
    while !end.is_over() {
        match lines.recv_timeout(LOOK) {
            Ok(line) => return Some(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
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
pub fn until<T>(end: &End, mut look: impl FnMut() -> Result<Option<T>, Failure>) -> Result<Option<T>, Failure> {
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if end.is_over() {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}
