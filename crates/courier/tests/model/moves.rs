//! Every move from a state: time, timers, workers, couriers, the operator, and what fails. A frozen process is one that isn't chosen.

mod courier;
mod level;
mod operator;
mod recovery;
mod report;
mod verb;
mod worker;

use curfew_domain::transition::Guard;
use curfew_domain::{Moment, State};

use crate::ask::Ask;
use crate::config::{Config, Plant};
use crate::real::{Real, at};
use crate::rules::MALFORMED;
use crate::seen;
use crate::world::{Courier, Errand, Phase, Step, Worker, World};

/// The moves from one state.
pub struct Made {
    /// Where each leads, and whether it is a fault.
    pub out: Vec<(World, bool)>,
    /// What each is, where asked.
    pub names: Vec<String>,
}

pub struct Moves<'a> {
    real: &'a mut Real,
    config: Config,
    from: World,
    naming: bool,
    made: Made,
}

/// Where the ledger left a swap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Swapped {
    Written,
    Conflict,
    Missing,
}

impl Moves<'_> {
    /// All of them. A state in which something is broken has none.
    pub fn of(real: &mut Real, world: &World, naming: bool) -> Made {
        let config = real.config;
        let made = Made { out: Vec::with_capacity(32), names: Vec::new() };
        let mut moves = Moves { real, config, from: *world, naming, made };
        if world.bad == 0 {
            moves.time();
            (0..config.jobs).for_each(|j| moves.timers(j));
            (0..config.workers).for_each(|w| moves.worker(w));
            moves.couriers();
            if config.rollback {
                moves.recovery();
            }
        }
        moves.made
    }

    fn push(&mut self, mut world: World, fault: bool, name: impl FnOnce(&Real) -> String) {
        if self.naming {
            self.made.names.push(name(self.real));
        }
        self.level(&mut world);
        self.real.check(&mut world);
        self.made.out.push((world, fault));
    }

    fn step(&mut self, world: World, name: impl FnOnce(&Real) -> String) {
        self.push(world, false, name);
    }

    fn fault(&mut self, world: World, name: impl FnOnce(&Real) -> String) {
        self.push(world, true, name);
    }

    /// Whether the ledger's scripts run at all, and whether claims, intents, releases and timers do.
    fn answers(&self) -> bool {
        self.from.phase != Phase::Down
    }

    fn works(&self) -> bool {
        !matches!(self.from.phase, Phase::Down | Phase::Recovering)
    }

    /// What `transition` says to a record, if it isn't a refusal: the record after it and the guards.
    fn asked(&mut self, rec: u32, ask: Ask) -> Option<(u32, usize)> {
        let answer = self.real.ask(rec, ask, self.from.tick);
        self.real.answered[answer].after.ok().map(|after| (after, answer))
    }

    /// One compare-and-swap; `over` is the version that the caller read.
    fn swap(&mut self, world: &mut World, j: usize, over: u32, (after, answer): (u32, usize)) -> Swapped {
        let stands = world.jobs[j].rec;
        if stands == 0 {
            return Swapped::Missing;
        }
        let blind = self.config.has(Plant::NoVersionCheck) && self.real.is_live(stands);
        if !self.real.same_version(stands, over) && !blind {
            return if stands == after { Swapped::Written } else { Swapped::Conflict };
        }
        if self.real.answered[answer].malformed {
            world.bad |= 1 << MALFORMED;
        }
        self.put(world, j, after);
        Swapped::Written
    }

    /// A record stands there now. Who read its row before it ended will find its tombstone for 48 h.
    fn put(&mut self, world: &mut World, j: usize, after: u32) {
        let ended = self.real.rec(after).closed;
        world.jobs[j].rec = after;
        if ended {
            let reading = |c: &&mut Courier| matches!(c.errand, Errand::Create | Errand::StageFirst) && usize::from(c.job) == j;
            world.couriers_mut().filter(reading).for_each(|c| c.before_end = true);
        }
    }

    /// The first guard that the ledger's own clock and sets refuse.
    fn refusing(&mut self, j: usize, answer: usize) -> Option<Guard> {
        let (now, listed): (Moment, bool) = (at(self.from.tick), self.from.jobs[j].listed);
        let guard = self.real.answered[answer].guards.iter().find(|guard| match guard {
            Guard::NotBefore(moment) => now < *moment,
            Guard::Before(moment) => now >= *moment,
            Guard::NotSuppressed(_) => listed,
        });
        let guard = guard.cloned();
        if let Some(guard) = &guard {
            self.real.seen.note(seen::guard(guard));
        }
        guard
    }

    fn time(&mut self) {
        let from = self.from;
        if from.tick < self.config.end {
            let world = World { tick: from.tick + 1, ..from };
            self.step(world, |_| format!("time: t={}", world.tick));
        }
        for j in 0..self.config.jobs {
            let rec = from.jobs[j].rec;
            if self.real.leased(rec) {
                self.lease_ends(j);
            }
            if rec != 0 && self.real.rec(rec).closed && from.phase != Phase::Down {
                let mut world = from;
                world.jobs[j].rec = 0;
                world.couriers_mut().filter(|c| c.before_end && usize::from(c.job) == j).for_each(|c| c.old = true);
                self.step(world, |_| format!("time: 48 h, job {j}'s tombstone is gone"));
            }
        }
        if self.config.rollback {
            self.own_leases_end();
        }
    }

    /// For the ledger and for its owner; nobody counts on it longer than the ledger does.
    fn lease_ends(&mut self, j: usize) {
        let mut world = self.from;
        let rec = world.jobs[j].rec;
        let owner = self.real.rec(rec).worker;
        world.jobs[j].rec = self.real.lease_over(rec);
        for worker in world.workers.iter_mut().filter(|w| matches!(w.step, Step::Claimed | Step::Handing) && usize::from(w.job) == j) {
            if self.real.rec(worker.rec).worker == owner || owner == Some(curfew_domain::WorkerId::LOST) {
                worker.rec = self.real.lease_over(worker.rec);
            }
        }
        self.step(world, |_| format!("time: the lease on job {j} ends"));
    }

    /// Where the ledger forgot a lease, its worker's own clock ends it.
    fn own_leases_end(&mut self) {
        for w in 0..self.config.workers {
            let Worker { step, rec, job, .. } = self.from.workers[w];
            if matches!(step, Step::Claimed | Step::Handing) && self.real.leased(rec) && !self.real.leased(self.from.jobs[usize::from(job)].rec) {
                let mut world = self.from;
                world.workers[w].rec = self.real.lease_over(rec);
                self.step(world, |_| format!("time: worker {w}'s lease ends by its own clock"));
            }
        }
    }

    /// What whoever finds a timer overdue does; and what others may do at any time.
    fn timers(&mut self, j: usize) {
        let rec = self.from.jobs[j].rec;
        if !self.real.is_live(rec) || !self.works() {
            return;
        }
        let state = self.real.state(rec);
        let due = at(self.from.tick) >= self.real.rec(rec).due();
        if !self.config.messages && state == State::Scheduled && due {
            self.timer(j, Ask::Release, "release");
        }
        if !(self.config.has(Plant::NoTimer) && matches!(state, State::Scheduled | State::Queued | State::Claimed)) {
            self.timer(j, Ask::Deadline, "the deadline");
        }
        if !self.config.has(Plant::NoLeaseTimer) {
            self.lease_over(j);
        }
        if self.from.frees < self.config.frees && matches!(state, State::Scheduled | State::Queued | State::Claimed) {
            self.free(j, Ask::Strike, "a delivery of it broke");
            if due && self.config.in_flight.is_none() {
                self.free(j, Ask::Limited, "a limit gives it back");
            }
        }
    }

    fn lease_over(&mut self, j: usize) {
        let rec = self.from.jobs[j].rec;
        if self.config.has(Plant::ResendOnLeaseExpiry) && self.real.state(rec) == State::Handoff && !self.real.leased(rec) {
            let mut world = self.from;
            world.jobs[j].rec = self.real.planted(rec, Plant::ResendOnLeaseExpiry, self.from.tick);
            self.step(world, |_| format!("timer: the lease on job {j} is over, PLANTED: it runs again"));
            return;
        }
        self.timer(j, Ask::LeaseOver, "the lease is over");
    }

    fn timer(&mut self, j: usize, ask: Ask, what: &str) {
        let rec = self.from.jobs[j].rec;
        let Some(answer) = self.asked(rec, ask) else { return };
        let mut world = self.from;
        if self.swap(&mut world, j, rec, answer) == Swapped::Written {
            self.step(world, |real| format!("timer: {what}, job {j} -> {}", real.say(answer.0)));
        }
    }

    fn free(&mut self, j: usize, ask: Ask, what: &str) {
        let rec = self.from.jobs[j].rec;
        let Some(answer) = self.asked(rec, ask) else { return };
        let mut world = self.from;
        world.frees += 1;
        world.jobs[j].wake = false;
        if self.swap(&mut world, j, rec, answer) == Swapped::Written {
            self.fault(world, |real| format!("{what}, job {j} -> {}", real.say(answer.0)));
        }
    }
}
