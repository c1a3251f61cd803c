//! A process: it runs, stands still, or is dead. What it does outside of itself passes its gate.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// How a process stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It runs.
    Runs,
    /// SIGSTOP: its next call waits until it thaws. Its own arithmetic goes on meanwhile, which nobody sees.
    Frozen,
    /// SIGKILL: no call of it is made or answered any more. Its tasks are left where they wait.
    Dead,
}

/// One process of a fleet.
pub struct Process {
    name: String,
    standing: Mutex<Standing>,
    changed: Notify,
}

impl Process {
    /// One that runs.
    pub fn start(name: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), standing: Mutex::new(Standing::Runs), changed: Notify::new() })
    }

    /// For the trace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        *self.standing.lock().expect("nobody panics while holding it")
    }

    /// Stops it for a while; a dead one stays dead.
    pub fn freeze(&self) {
        self.turn(Standing::Frozen);
    }

    /// Lets it go on; a dead one stays dead.
    pub fn thaw(&self) {
        self.turn(Standing::Runs);
    }

    /// Ends it, for good.
    pub fn kill(&self) {
        self.turn(Standing::Dead);
    }

    fn turn(&self, to: Standing) {
        let mut standing = self.standing.lock().expect("nobody panics while holding it");
        if *standing != Standing::Dead {
            *standing = to;
        }
        drop(standing);
        self.changed.notify_waiters();
    }

    /// Returns once it is dead: for what a kernel does with a dead process's sockets.
    pub async fn died(&self) {
        loop {
            let changed = self.changed.notified();
            if self.standing() == Standing::Dead {
                return;
            }
            changed.await;
        }
    }

    /// Does it when the process may act: now while it runs, after the thaw where it is frozen, never once it is dead. For what a drop does.
    pub(super) fn when_it_runs(self: &Arc<Self>, act: impl FnOnce() + Send + 'static) {
        match self.standing() {
            Standing::Runs => act(),
            Standing::Dead => {}
            Standing::Frozen => {
                // A run that is over has no thaw to wait for.
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    let process = Arc::clone(self);
                    runtime.spawn(async move {
                        process.gate().await;
                        act();
                    });
                }
            }
        }
    }

    /// Returns when the process may act: at once while it runs, never once it is dead.
    pub async fn gate(&self) {
        loop {
            let changed = self.changed.notified();
            match self.standing() {
                Standing::Runs => return,
                Standing::Frozen => changed.await,
                Standing::Dead => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_frozen_waits_and_who_is_dead_waits_for_ever() {
        let process = Process::start("one");
        process.gate().await;
        process.freeze();
        let waiting = Arc::clone(&process);
        let waits = tokio::spawn(async move { waiting.gate().await });
        assert!(timeout(Duration::from_secs(3600), process.gate()).await.is_err());
        process.thaw();
        waits.await.expect("it goes on");
        process.kill();
        process.thaw();
        assert_eq!(process.standing(), Standing::Dead);
        assert!(timeout(Duration::from_secs(3600), process.gate()).await.is_err());
    }
}
