//! Connections between their uses. One that is in use belongs to its lease: it comes back only by `give_back`, after a whole reply that was
//! in step; in every other case it is destroyed.
//!
//! No connection is made while an idle one stands, and a lease's permit outlives its connection: so there are never more than the most.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::connect::{Connection, SetUp};
use super::dialogue::Unasked;
use super::judge;
use crate::classify::queue_id;
use crate::{Desync, OnDesync};

/// The rule's name where no connection became free in time.
pub const POOL_FULL: &str = "pool-full";

/// Between two looks at the idle ones, whatever their bound.
const SWEEP_PAUSE_MIN: Duration = Duration::from_millis(20);

pub(super) struct Pool {
    set_up: SetUp,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    sweeping: AtomicBool,
    on_desync: Option<OnDesync>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// Whether a connection has served before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Used {
    Fresh,
    Before,
}

/// Where a connection may come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    Any,
    Fresh,
}

/// A connection in use. Dropped, it is destroyed.
pub(super) struct Lease {
    /// Present until given back, discarded or dropped.
    connection: Option<Connection>,
    pool: Arc<Pool>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Pool {
    pub(super) fn new(set_up: SetUp, on_desync: Option<OnDesync>) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(set_up.config.max_connections));
        Arc::new(Self { set_up, permits, idle: Mutex::default(), sweeping: AtomicBool::new(false), on_desync })
    }

    pub(super) fn set_up(&self) -> &SetUp {
        &self.set_up
    }

    /// A permit to have a connection. Waits while all are in use.
    pub(super) async fn permit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, Box<Outcome>> {
        let until = self.set_up.until(self.set_up.config.timeouts.connect, deadline);
        let refused = |why| judge::own(OutcomeClass::Transient, Stage::Connect, POOL_FULL, why);
        match timeout_at(until, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(refused("the transport is closing")),
            Err(_elapsed) => Err(refused("all connections are in use")),
        }
    }

    /// A connection that is ready for mail: an idle one that proves to be alive, else a new one.
    pub(super) async fn check_out(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        wanted: Wanted,
        deadline: Instant,
    ) -> Result<(Lease, Used), Box<Outcome>> {
        let mut lease = Lease { connection: None, pool: Arc::clone(self), permit: Some(permit) };
        if wanted == Wanted::Fresh {
            // A new one takes an idle one's place, so that there are never more than the most.
            drop(self.take_idle());
        } else {
            while let Some(idle) = self.take_idle() {
                let since = idle.since;
                lease.connection = Some(idle.connection);
                if self.is_alive(lease.connection(), since, deadline).await {
                    return Ok((lease, Used::Before));
                }
                lease.connection = None;
            }
        }
        lease.connection = Some(self.set_up.connect(deadline).await?);
        Ok((lease, Used::Fresh))
    }

    /// Whether an idle connection can be used. What it has said unasked is a farewell or a desync; a silent one that idled long is asked.
    async fn is_alive(&self, connection: &mut Connection, since: Instant, deadline: Instant) -> bool {
        match connection.dialogue.unasked().await {
            Unasked::Gone(_) => return false,
            Unasked::Words if self.set_up.config.reuses_dirty() => return true,
            Unasked::Words => {
                self.report_unless_farewell(connection);
                return false;
            }
            Unasked::Nothing => {}
        }
        if since.elapsed() < self.set_up.config.keep.unasked || self.set_up.config.reuses_dirty() {
            return true;
        }
        let until = self.set_up.until(self.set_up.config.timeouts.noop, deadline);
        let answered = match connection.dialogue.say(b"NOOP\r\n", until).await {
            Ok(()) => connection.dialogue.reply(until).await.ok(),
            Err(_) => None,
        };
        let named = answered.as_ref().is_some_and(|reply| queue_id(&reply.text()).is_some());
        let surplus = answered.is_some() && connection.dialogue.unread();
        if named || surplus {
            // The answer to NOOP is another question's (DESIGN 6).
            self.report(connection, judge::OUT_OF_STEP);
            return false;
        }
        let alive = answered.is_some_and(|reply| reply.code == 250);
        if !alive {
            self.forget_older_than(since);
        }
        alive
    }

    /// An idle connection has said something: a farewell, or a reply that belongs to an earlier question.
    fn report_unless_farewell(&self, connection: &Connection) {
        let farewell = connection.dialogue.whole_reply().is_some_and(|reply| matches!(reply.code, 221 | 421));
        if !farewell {
            self.report(connection, judge::OUT_OF_STEP);
        }
    }

    /// Tells whose verdict has become doubtful.
    pub(super) fn report(&self, connection: &Connection, rule: &'static str) {
        if let (Some(tell), Some(last)) = (&self.on_desync, connection.last) {
            tell(Desync { job_id: last.job_id, generation: last.generation, accepted: last.accepted, rule });
        }
    }

    /// One dead connection condemns all that have idled as long: asking each would cost the next jobs a timeout apiece.
    pub(super) fn forget_older_than(&self, since: Instant) {
        self.idle().retain(|idle| idle.since > since);
    }

    /// The youngest one: the old ones get the chance to end.
    fn take_idle(&self) -> Option<Idle> {
        self.idle().pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().expect("nobody panics while moving a connection")
    }

    /// Ends what is idle, all at once, within the bound of QUIT.
    pub(super) async fn close(self: &Arc<Self>) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle());
        let farewells: Vec<_> = idle.into_iter().map(|idle| tokio::spawn(Arc::clone(self).end(idle.connection))).collect();
        for farewell in farewells {
            // It holds a bound of its own; a panic in it has nothing left to harm.
            let _ended = farewell.await;
        }
    }

    /// Ends a connection by QUIT, for politeness: whatever becomes of that changes nothing. A late reply that stands there is told.
    async fn end(self: Arc<Self>, mut connection: Connection) {
        let bound = self.set_up.config.timeouts.quit;
        match connection.dialogue.unasked().await {
            Unasked::Gone(_) => return,
            Unasked::Words => return self.report_unless_farewell(&connection),
            Unasked::Nothing => {}
        }
        let polite = async {
            let until = Instant::now() + bound;
            if connection.dialogue.say(b"QUIT\r\n", until).await.is_ok() {
                let _whatever = connection.dialogue.reply(until).await;
            }
        };
        let _elapsed = timeout(bound, polite).await;
    }

    /// Starts the sweeper, once; it ends with the pool.
    fn keep_sweeping(self: &Arc<Self>) {
        if self.sweeping.swap(true, Ordering::SeqCst) {
            return;
        }
        let pool = Arc::downgrade(self);
        let idle_max = self.set_up.config.keep.idle;
        let pause = (idle_max / 4).max(SWEEP_PAUSE_MIN);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                let Some(pool) = pool.upgrade() else { return };
                let old: Vec<_> = pool.idle().extract_if(.., |idle| idle.since.elapsed() >= idle_max).collect();
                for idle in old {
                    tokio::spawn(Arc::clone(&pool).end(idle.connection));
                }
            }
        });
    }
}

impl Lease {
    pub(super) fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a lease holds its connection until it is consumed")
    }

    pub(super) fn set_up(&self) -> &SetUp {
        &self.pool.set_up
    }

    /// Back to the pool: the last reply was whole and in step.
    pub(super) fn give_back(mut self) {
        let Some(connection) = self.connection.take() else { return };
        let worn = connection.transactions >= self.pool.set_up.config.keep.messages;
        if worn || self.pool.permits.is_closed() {
            let (pool, permit) = (Arc::clone(&self.pool), self.permit.take());
            tokio::spawn(async move {
                pool.end(connection).await;
                drop(permit);
            });
            return;
        }
        self.pool.keep_sweeping();
        // The permit is freed after this, by the drop of `self`: whoever waits for it finds the connection.
        self.pool.idle().push(Idle { connection, since: Instant::now() });
    }

    /// Destroys the connection so that nothing the kernel still holds leaves.
    pub(super) fn discard(mut self) {
        if self.pool.set_up.config.reuses_dirty() {
            return;
        }
        if let Some(connection) = self.connection.take() {
            connection.dialogue.wire().discard();
        }
    }

    /// Destroys the connection and keeps the permit, for another one.
    pub(super) fn replace(mut self) -> Option<OwnedSemaphorePermit> {
        self.connection = None;
        self.permit.take()
    }
}

#[cfg(feature = "planted-bugs")]
impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(|_| self.pool.set_up.config.reuse_dirty) {
            self.pool.idle().push(Idle { connection, since: Instant::now() });
        }
    }
}
