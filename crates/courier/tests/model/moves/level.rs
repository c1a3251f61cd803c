//! Equal situations become one state: nothing in idle hands, like jobs and processes in order, versions counted from one.

use super::Moves;
use crate::config::Plant;
use crate::real::Real;
use crate::world::{Courier, Errand, Step, Worker, World};

impl Moves<'_> {
    pub(super) fn level(&mut self, world: &mut World) {
        for worker in world.workers.iter_mut().filter(|w| w.step == Step::Idle) {
            *worker = Worker { reported: worker.reported, receipts: worker.receipts, open: worker.open, ..Worker::default() };
        }
        world.couriers_mut().filter(|c| c.errand == Errand::Idle).for_each(|c| *c = Courier::default());
        for j in 0..self.config.jobs {
            if world.jobs[j].wake && !self.real.waits(world.jobs[j].rec) {
                world.jobs[j].wake = false;
            }
            if !self.config.rollback {
                self.level_versions(world, j);
            }
        }
        if world.workers[0].order() > world.workers[1].order() {
            self.exchange_workers(world);
        }
        if self.config.jobs == 2 && world.jobs[0].words() > world.jobs[1].words() {
            world.jobs.swap(0, 1);
            world.workers.iter_mut().filter(|w| w.step != Step::Idle).for_each(|w| w.job ^= 1);
            world.couriers_mut().filter(|c| c.errand != Errand::Idle).for_each(|c| c.job ^= 1);
        }
        world.schedulers[..self.config.schedulers].sort_unstable_by_key(Courier::words);
        world.consumers[..self.config.consumers].sort_unstable_by_key(Courier::words);
    }

    /// Two workers are alike: which slot is whose says nothing.
    fn exchange_workers(&mut self, world: &mut World) {
        world.workers.swap(0, 1);
        for job in &mut world.jobs {
            job.rec = self.real.exchanged(job.rec);
        }
        world.saved = self.real.exchanged(world.saved);
        for worker in &mut world.workers {
            worker.rec = self.real.exchanged(worker.rec);
        }
        for courier in world.couriers_mut() {
            courier.rec = self.real.exchanged(courier.rec);
        }
    }

    /// Versions of the generation that stands: who holds which, and who is one ahead, is all that matters.
    fn level_versions(&mut self, world: &mut World, j: usize) {
        let rec = world.jobs[j].rec;
        if rec == 0 || self.config.has(Plant::NoVersionCheck) {
            return;
        }
        let generation = self.real.rec(rec).generation;
        let mut versions = [0_u64; 12];
        let mut count = 0;
        let mut hold = |version: u64| {
            if version != 0 && !versions[..count].contains(&version) {
                versions[count] = version;
                count += 1;
            }
        };
        hold(self.real.rec(rec).version);
        let held = |real: &Real, number: u32| real.standing(number).filter(|r| r.generation == generation).map_or(0, |r| r.version);
        let mine = |job: u8| usize::from(job) == j;
        world.workers.iter().filter(|w| mine(w.job)).for_each(|w| hold(held(self.real, w.rec)));
        world.couriers().filter(|c| mine(c.job) && !creates(c)).for_each(|c| hold(held(self.real, c.rec)));
        let seen = self.real.books.get(world.jobs[j].book).row.seen;
        if seen.0 == generation {
            hold(seen.2);
        }
        versions[..count].sort_unstable();
        // Neighbours stay neighbours, everything else is two apart.
        let mut levelled = [0_u64; 12];
        for n in 0..count {
            let last = if n == 0 { 0 } else { levelled[n - 1] };
            levelled[n] = last + if n > 0 && versions[n] == versions[n - 1] + 1 { 1 } else { 2 };
        }
        let to = |version: u64| versions[..count].iter().position(|v| *v == version).map_or(version, |n| levelled[n]);
        world.jobs[j].rec = self.real.under_version(rec, to(self.real.rec(rec).version));
        for worker in world.workers.iter_mut().filter(|w| mine(w.job)) {
            if let version @ 1.. = held(self.real, worker.rec) {
                worker.rec = self.real.under_version(worker.rec, to(version));
            }
        }
        for courier in world.couriers_mut().filter(|c| mine(c.job) && !creates(c)) {
            if let version @ 1.. = held(self.real, courier.rec) {
                courier.rec = self.real.under_version(courier.rec, to(version));
            }
        }
        if seen.0 == generation && seen.2 != 0 {
            world.jobs[j].book = self.real.books.having_seen(world.jobs[j].book, to(seen.2));
        }
    }
}

/// Whether what it holds is yet to be created.
fn creates(courier: &Courier) -> bool {
    matches!(courier.errand, Errand::Create | Errand::StageFirst)
}
