//! Where the server is, so that a test waits for a place in the dialogue and never for a length of time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::script::Stage;

/// One thing that happened, in the order it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// Number of the connection, from 1.
    pub connection: u64,
    /// Number of the transaction on it, from 1; 0 before the first.
    pub message: u32,
    /// What happened.
    pub what: What,
}

/// What can happen on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The dialogue came to this stage.
    Reached(Stage),
    /// The dialogue is held at this stage until released.
    Held(Stage),
    /// It was held and goes on.
    Released(Stage),
    /// A reply with this code was written (not yet flushed, perhaps); 0 where it had none.
    Replied(Stage, u16),
    /// A message was accepted, with its number at this server.
    Accepted(u64),
    /// A message with a known idempotency key came again.
    Duplicate,
    /// The connection ended inside a content, before its end marker: nothing was handed over.
    CutOff,
    /// The client broke a rule of SMTP.
    Violation(&'static str),
    /// The connection is over.
    Closed,
}

#[derive(Default)]
struct Seen {
    reached: HashMap<Stage, u64>,
    held: HashMap<u64, Stage>,
    happenings: Vec<Happening>,
    violations: Vec<Happening>,
    cut_off: u64,
}

/// Shared by all connections of a server.
pub(super) struct Progress {
    seen: std::sync::Mutex<Seen>,
    changed: Notify,
    /// Releases so far; not a `watch`, whose waiters wake in no order.
    releases: AtomicU64,
    released: Notify,
    keep_happenings: bool,
    patience: Duration,
}

impl Progress {
    pub(super) fn new(keep_happenings: bool, patience: Duration) -> Self {
        let seen = std::sync::Mutex::default();
        Self { seen, changed: Notify::new(), releases: AtomicU64::new(0), released: Notify::new(), keep_happenings, patience }
    }

    /// Writes down what happened and wakes those who wait for it. Returns how often a stage was reached, this time included.
    pub(super) fn note(&self, connection: u64, message: u32, what: What) -> u64 {
        let mut seen = self.lock();
        let mut times = 0;
        match &what {
            What::Reached(stage) => {
                let count = seen.reached.entry(*stage).or_default();
                *count += 1;
                times = *count;
            }
            What::Held(stage) => {
                seen.held.insert(connection, *stage);
            }
            What::Released(_) | What::Closed => {
                seen.held.remove(&connection);
            }
            What::CutOff => seen.cut_off += 1,
            What::Violation(_) => seen.violations.push(Happening { connection, message, what: what.clone() }),
            What::Replied(..) | What::Accepted(_) | What::Duplicate => {}
        }
        if self.keep_happenings {
            seen.happenings.push(Happening { connection, message, what });
        }
        drop(seen);
        self.changed.notify_waiters();
        times
    }

    /// A ticket taken before holding: it is good for the next release and every later one.
    pub(super) fn ticket(&self) -> Ticket<'_> {
        Ticket { progress: self, releases: self.releases.load(Ordering::SeqCst) }
    }

    pub(super) fn release(&self) {
        self.releases.fetch_add(1, Ordering::SeqCst);
        self.released.notify_waiters();
    }

    pub(super) fn times_reached(&self, stage: Stage) -> u64 {
        self.lock().reached.get(&stage).copied().unwrap_or(0)
    }

    pub(super) fn held_at(&self, stage: Stage) -> Vec<u64> {
        self.lock().held.iter().filter(|(_, at)| **at == stage).map(|(connection, _)| *connection).collect()
    }

    pub(super) fn happenings(&self) -> Vec<Happening> {
        self.lock().happenings.clone()
    }

    pub(super) fn violations(&self) -> Vec<Happening> {
        self.lock().violations.clone()
    }

    pub(super) fn cut_off(&self) -> u64 {
        self.lock().cut_off
    }

    /// Looks at each change until `look` finds something; panics past the server's patience.
    pub(super) async fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let looking = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                // Enabled before the look, so that a change between look and wait isn't missed.
                changed.as_mut().enable();
                if let Some(found) = look() {
                    return found;
                }
                changed.await;
            }
        };
        match tokio::time::timeout(self.patience, looking).await {
            Ok(found) => found,
            Err(_) => panic!("the mail server waited {:?} in vain for: {what}", self.patience),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("nobody panics while noting progress")
    }
}

/// Good for every release after it was taken.
pub(super) struct Ticket<'a> {
    progress: &'a Progress,
    releases: u64,
}

impl Ticket<'_> {
    /// Waits for such a release.
    pub(super) async fn released(self) {
        loop {
            let released = self.progress.released.notified();
            tokio::pin!(released);
            // Enabled before the look, so that a release in between isn't missed.
            released.as_mut().enable();
            if self.progress.releases.load(Ordering::SeqCst) > self.releases {
                return;
            }
            released.await;
        }
    }
}
