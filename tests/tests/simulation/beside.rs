//! What the binary does beside a role: its place in the registry, and the comparison of clocks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use curfew_book::{BEAT_EVERY, Book, Enrolment, Registry};
use curfew_courier::Machine;
use curfew_courier::witness::{Witnesses, Word};
use curfew_domain::form::FORMAT;
use curfew_domain::{Moment, WorkerId};
use curfew_ledger::Ledger;
use curfew_testkit::sim::World;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::ports::{Ports, Role};

const CLOCKS_EVERY: Duration = Duration::from_secs(1);

/// A place in the registry.
pub struct Enrolled {
    ports: Ports,
    id: WorkerId,
    until: CancellationToken,
    beating: JoinHandle<()>,
}

/// Enrols, trying until the book takes it: who isn't enrolled doesn't work.
pub async fn enrol(ports: &Ports, world: &World, id: WorkerId, role: Role, until: CancellationToken) -> Enrolled {
    let mut process =
        Enrolment { id, roles: vec![role.word().to_owned()], name: id.0.to_string(), version: "0".to_owned(), reads_format: FORMAT, at: world.now() };
    while ports.store.enrol(&process).await.is_err() {
        sleep(Duration::from_secs(1)).await;
        process.at = now(ports, process.at).await;
    }
    let beating = tokio::spawn(beat(ports.clone(), process, until.clone()));
    Enrolled { ports: ports.clone(), id, until, beating }
}

async fn now(ports: &Ports, last: Moment) -> Moment {
    ports.ledger.now().await.unwrap_or(last)
}

async fn beat(ports: Ports, process: Enrolment, until: CancellationToken) {
    let mut last = process.at;
    loop {
        tokio::select! {
            biased;
            () = until.cancelled() => return,
            () = sleep(BEAT_EVERY) => {}
        }
        last = now(&ports, last.plus(BEAT_EVERY)).await;
        if let Ok(orders) = ports.store.alive(process.id, last).await
            && orders.unknown
        {
            let _away = ports.store.enrol(&Enrolment { at: last, ..process.clone() }).await;
        }
    }
}

impl Enrolled {
    /// A clean stop; with something left in hand it doesn't leave.
    pub async fn leave(self, empty_handed: bool) {
        self.until.cancel();
        let _ended = self.beating.await;
        if empty_handed {
            let at = now(&self.ports, Moment::from_millis(0)).await;
            let _unheard = self.ports.store.leave(self.id, at).await;
        }
    }
}

/// Compares the clocks every second, and halts the shards whose clock is distrusted.
pub async fn watch_clocks(ports: Ports, machine: Arc<dyn Machine>, until: CancellationToken) {
    let (began, mut witnesses) = (Instant::now(), Witnesses::default());
    loop {
        if let Ok(clocks) = ports.ledger.node_clocks().await {
            let book_ms = ahead_of_ours(ports.store.clock().await.ok().flatten(), machine.system_time());
            let looked = witnesses.look(began.elapsed(), &clocks, book_ms);
            let distrusted: BTreeSet<_> =
                looked.iter().filter(|looked| looked.word != Word::Trusted).flat_map(|looked| looked.clock.shards.iter().copied()).collect();
            ports.ledger.halt(distrusted, &clocks);
        }
        tokio::select! {
            biased;
            () = until.cancelled() => return,
            () = sleep(CLOCKS_EVERY) => {}
        }
    }
}

fn ahead_of_ours(book: Option<Moment>, ours: SystemTime) -> Option<i64> {
    let ours = i64::try_from(ours.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis()).ok()?;
    Some(book?.as_millis() - ours)
}
