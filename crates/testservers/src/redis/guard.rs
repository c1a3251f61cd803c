//! A process of our own, and a guard that ends it where the test process can't any more.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const GUARD: &str = include_str!("guard.sh");

/// A server's process. Dropping it kills it by its pid; so does its guard, should the test process be killed.
pub(crate) struct Guarded {
    child: Child,
    pid_file: PathBuf,
    guard: Child,
}

impl Guarded {
    /// Starts a program that keeps its data in `folder`.
    ///
    /// # Panics
    /// Where it can't be started, naming what to install.
    pub(crate) fn spawn(program: &str, command: &mut Command, folder: &Path) -> Self {
        let child =
            command.spawn().unwrap_or_else(|error| panic!("{program}: {error}; tests/run installs it (Debian: redis-server, redis-sentinel)"));
        let pid_file = folder.join("pid");
        std::fs::write(&pid_file, child.id().to_string()).expect("the folder is ours");
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(folder).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child, pid_file, guard: guard.spawn().expect("sh is everywhere") }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it ended by itself.
    pub(crate) fn ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our own child").is_some()
    }

    /// SIGKILL; returns when it is gone.
    pub(crate) fn kill9(&mut self) {
        // The guard must not meet somebody else's process under this pid. It may be down already, which is as good.
        let _no_longer = std::fs::remove_file(&self.pid_file);
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
        // Before it has seen its pipe close, or the folder would go from under a restart.
        let _unneeded = self.guard.kill();
        let _guard_reaped = self.guard.wait();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.kill9();
    }
}
