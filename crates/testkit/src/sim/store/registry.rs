//! Which processes work here, and in which incarnation each shard is.

use std::collections::BTreeSet;

use curfew_book::{Drain, Enrolled, Enrolment, Orders, REMEMBERED, SILENT_AFTER};
use curfew_domain::{Moment, Shard, WorkerId};

use super::server::Tx;
use super::tables::Tables;

impl Tx<'_> {
    pub(super) fn enrol(&mut self, process: Enrolment) {
        let forgotten = process.at.minus(REMEMBERED);
        self.tables.workers.retain(|_id, worker| worker.beat_at >= forgotten);
        let beat_at = process.at;
        self.tables.workers.insert(process.id, Enrolled { enrolment: process, beat_at, stopped_at: None, drain_asked_at: None, drain: None });
    }

    pub(super) fn measured(&mut self, id: WorkerId, drain: Drain) {
        if let Some(process) = self.tables.workers.get_mut(&id) {
            process.drain = Some(drain);
        }
    }

    pub(super) fn alive(&mut self, id: WorkerId, at: Moment) -> Orders {
        if let Some(worker) = self.tables.workers.get_mut(&id) {
            worker.beat_at = worker.beat_at.max(at);
        }
        orders(self.tables, id)
    }

    pub(super) fn leave(&mut self, id: WorkerId, at: Moment) {
        if let Some(worker) = self.tables.workers.get_mut(&id).filter(|worker| worker.stopped_at.is_none()) {
            (worker.stopped_at, worker.beat_at) = (Some(at), worker.beat_at.max(at));
        }
    }

    /// How many of those that are asked run.
    pub(super) fn ask_to_drain(&mut self, at: Moment) -> u64 {
        let asked: Vec<WorkerId> = self.tables.workers.iter().filter(|(_id, worker)| worker.stopped_at.is_none()).map(|(id, _)| *id).collect();
        let mut run = 0;
        for worker in asked {
            if let Some(worker) = self.tables.workers.get_mut(&worker) {
                worker.drain_asked_at = worker.drain_asked_at.or(Some(at));
                run += u64::from(worker.beat_at >= at.minus(SILENT_AFTER));
            }
        }
        run
    }

    pub(super) fn raise(&mut self, shard: Shard, from: u32) -> u32 {
        let mut stands = self.tables.shards.get(&shard).copied().unwrap_or(0);
        if stands == from {
            stands += 1;
            self.world.count("book: an incarnation was raised");
            self.tables.shards.put(shard, stands);
        }
        self.tables.reports.retain(|(of, incarnation, _worker), ()| *of != shard || *incarnation >= stands);
        stands
    }
}

pub(super) fn orders(tables: &Tables, id: WorkerId) -> Orders {
    match tables.workers.get(&id) {
        Some(worker) => Orders { drain: worker.drain_asked_at.is_some(), unknown: false },
        None => Orders { drain: false, unknown: true },
    }
}

/// By start.
pub(super) fn enrolled(tables: &Tables, since: Moment) -> Vec<Enrolled> {
    let mut found: Vec<Enrolled> = tables.workers.values().filter(|worker| worker.beat_at >= since).cloned().collect();
    found.sort_by_key(|worker| (worker.enrolment.at, worker.enrolment.id));
    found
}

pub(super) fn reports(tables: &Tables, shard: Shard, incarnation: u32) -> BTreeSet<WorkerId> {
    let of_it = tables.reports.iter().filter(|((of, at, _worker), ())| (*of, *at) == (shard, incarnation));
    of_it.map(|((_of, _at, worker), ())| *worker).collect()
}
