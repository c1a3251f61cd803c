//! A process's place in the fleet's registry: it enrols before it works, beats, looks for its orders, and leaves once nothing is in its hands.
//!
//! A registry that doesn't answer holds nobody back: the book may be away while jobs are sent. Who is killed never leaves, and is silent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use curfew_book::{BEAT_EVERY, BookError, Enrolment, Orders, REMEMBERED};
use curfew_domain::form::{self, FORMAT};
use curfew_domain::{Moment, WorkerId};
use curfew_worker::Worker;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Roles;
use crate::cli::moments;
use crate::wire::{Parts, Stores, WireError};

/// How soon a process hears that it shall drain; one look by a primary key.
const ORDERS_EVERY: Duration = Duration::from_secs(2);
/// A registry that takes longer is away: the next look asks again.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// A process that is enrolled, and its heartbeat.
pub struct Place {
    registered: Arc<Registered>,
    until: CancellationToken,
    beating: JoinHandle<()>,
}

/// Enrols this process, and beats from then on. An order to drain cancels `stop`. A worker's id is the one that its leases name.
///
/// # Errors
/// `WireError`, where the book doesn't take it: who isn't enrolled doesn't work.
pub async fn enrol(parts: &Arc<Parts>, has: Roles, worker: Option<Arc<Worker>>, stop: CancellationToken) -> Result<Place, WireError> {
    let failed = |error: BookError| WireError::Other(format!("the registry: {error}"));
    let registered = Registered::new(Arc::clone(parts), has, worker).await;
    if let Stores::Embedded { .. } = parts.stores {
        registered.bury_the_dead().await.map_err(failed)?;
    }
    parts.book.enrol(&registered.process).await.map_err(failed)?;
    registered.choose_format().await.map_err(failed)?;
    let (registered, until) = (Arc::new(registered), CancellationToken::new());
    let beating = tokio::spawn(Arc::clone(&registered).beat_until(until.clone(), stop));
    Ok(Place { registered, until, beating })
}

impl Place {
    /// The process ends. With something left in hand it doesn't leave: to a recovery it is missing, as one that was killed.
    pub async fn leave(self, empty_handed: bool) {
        self.until.cancel();
        let _ended = self.beating.await;
        if !empty_handed {
            return;
        }
        let Registered { parts, process, .. } = &*self.registered;
        if !matches!(timeout(ANSWER_MAX, parts.book.leave(process.id, self.registered.now().await)).await, Ok(Ok(()))) {
            tracing::warn!(error_class = "store", "the registry didn't hear that this process ends; it is shown as silent");
        }
    }
}

struct Registered {
    parts: Arc<Parts>,
    process: Enrolment,
    /// What measures its drain, where it ends attempts.
    worker: Option<Arc<Worker>>,
    /// The ledger's clock as last read, and when that was.
    clock: Mutex<(Moment, Instant)>,
}

impl Registered {
    async fn new(parts: Arc<Parts>, has: Roles, worker: Option<Arc<Worker>>) -> Self {
        let id = worker.as_ref().map_or_else(|| WorkerId(Uuid::new_v4()), |worker| worker.id);
        // Without a ledger yet, this machine's clock has to do.
        let at = parts.ledger.now().await.unwrap_or_else(|_away| moments::now());
        let process = Enrolment { id, roles: has.names(), name: name(), version: env!("CARGO_PKG_VERSION").to_owned(), reads_format: FORMAT, at };
        Self { parts, process, worker, clock: Mutex::new((at, Instant::now())) }
    }

    /// The folder is this process's alone, and every lease in it has ended: whoever stands there as running is gone.
    async fn bury_the_dead(&self) -> Result<(), BookError> {
        for former in self.parts.book.enrolled(Moment::from_millis(0)).await? {
            if former.stopped_at.is_none() {
                self.parts.book.leave(former.enrolment.id, former.beat_at).await?;
            }
        }
        Ok(())
    }

    /// What every registered process reads is written: one that is silent may come back, so it counts until it is forgotten. A process that
    /// was just enrolled meets newer forms for a heartbeat at most, and leaves them alone.
    async fn choose_format(&self) -> Result<(), BookError> {
        if let Stores::Embedded { .. } = self.parts.stores {
            return Ok(()); // it reads what it writes
        }
        let known = self.parts.book.enrolled(self.now().await.minus(REMEMBERED)).await?;
        let readable = known.iter().filter(|p| p.stopped_at.is_none()).map(|p| p.enrolment.reads_format).min().unwrap_or(FORMAT);
        let before = form::written();
        let format = form::write_in(readable);
        if format != before {
            tracing::info!("writes format {format}: the newest that every process of the fleet reads");
        }
        Ok(())
    }

    /// The ledger's now; while it is away, its last one and the time since.
    async fn now(&self) -> Moment {
        let read = timeout(ANSWER_MAX, self.parts.ledger.now()).await;
        let mut clock = self.clock.lock().expect("nobody panics while holding it");
        match read {
            Ok(Ok(now)) => *clock = (now, Instant::now()),
            Ok(Err(_)) | Err(_) => *clock = (clock.0.plus(clock.1.elapsed()), Instant::now()),
        }
        clock.0
    }

    async fn beat_until(self: Arc<Self>, until: CancellationToken, stop: CancellationToken) {
        let mut looks = interval(ORDERS_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut beaten, mut heard) = (Instant::now(), true);
        loop {
            tokio::select! {
                () = until.cancelled() => return,
                _ = looks.tick() => {}
            }
            let beats = beaten.elapsed() >= BEAT_EVERY;
            let answer = timeout(ANSWER_MAX, self.look(beats)).await.unwrap_or(Err(BookError::Unavailable { operation: "look for orders" }));
            match &answer {
                Ok(orders) => {
                    if beats {
                        beaten = Instant::now();
                    }
                    if orders.drain && !stop.is_cancelled() {
                        tracing::info!("an operator asks the fleet to drain");
                        stop.cancel();
                    }
                }
                Err(error) if heard => tracing::warn!(error_class = "store", "the registry doesn't answer, the process goes on: {error}"),
                Err(_still) => {}
            }
            heard = answer.is_ok();
        }
    }

    /// A heartbeat or a look; whoever was forgotten (frozen for two days) enrols anew.
    async fn look(&self, beats: bool) -> Result<Orders, BookError> {
        let book = &self.parts.book;
        let orders = match beats {
            true => book.alive(self.process.id, self.now().await).await?,
            false => book.orders(self.process.id).await?,
        };
        if orders.unknown {
            book.enrol(&Enrolment { at: self.now().await, ..self.process.clone() }).await?;
        }
        if beats {
            self.choose_format().await?;
            if let Some(drain) = self.worker.as_ref().and_then(|worker| worker.drain()) {
                book.measured(self.process.id, drain).await?;
            }
        }
        Ok(orders)
    }
}

/// For people: the host's name and the process id.
fn name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}:{}", if host.is_empty() { "host" } else { host }, std::process::id())
}
