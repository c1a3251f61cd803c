//! A worker: claim, prepare, intent, last look, end marker, verdict.

use curfew_domain::transition::Guard;

use super::{Moves, Swapped};
use crate::ask::Ask;
use crate::config::{Plant, Said};
use crate::real::at;
use crate::world::{Step, TOKENS, Truth, Worker, World, bit, token};

/// What may come of an end marker: what the provider did, what its worker knows.
const ENDS: [(Truth, Said, &str); 5] = [
    (Truth::Accepted, Said::Accepted, "accepted"),
    (Truth::Accepted, Said::Unknown, "accepted, the reply is lost"),
    (Truth::Refused, Said::Transient, "4yz"),
    (Truth::Refused, Said::Permanent, "5yz"),
    (Truth::Lost, Said::Unknown, "not accepted, the connection is lost"),
];

impl Moves<'_> {
    pub(super) fn worker(&mut self, w: usize) {
        let me = self.from.workers[w];
        if me.step != Step::Idle && self.config.crashes {
            self.crash(w);
        }
        match me.step {
            Step::Idle => (0..self.config.jobs).for_each(|j| self.claim(w, j)),
            Step::Claimed => self.claimed(w, me),
            Step::Handing => self.handing(w, me),
            Step::Verdict => self.report(w, me),
            Step::Evidence => self.evidence(w, me),
        }
    }

    /// Whoever starts in its place is another worker.
    fn crash(&mut self, w: usize) {
        let mut world = self.from;
        let in_recovery = matches!(world.phase, crate::world::Phase::Saved | crate::world::Phase::Down | crate::world::Phase::Recovering);
        world.worker_missing |= in_recovery;
        world.workers[w] = Worker { reported: if in_recovery { 2 } else { 0 }, ..Worker::default() };
        for j in 0..self.config.jobs {
            world.jobs[j].rec = self.real.worker_gone(world.jobs[j].rec, w);
        }
        world.saved = self.real.worker_gone(world.saved, w);
        self.fault(world, |_| format!("fault: worker {w} crashes"));
    }

    /// Lets go of what it has in hand.
    pub(super) fn idle(world: &mut World, w: usize) {
        world.workers[w].step = Step::Idle;
    }

    fn claim(&mut self, w: usize, j: usize) {
        let rec = self.from.jobs[j].rec;
        let called = !self.config.messages || self.from.jobs[j].wake;
        if !self.works() || !self.real.is_live(rec) || !called {
            return;
        }
        let Some((after, answer)) = self.asked(rec, Ask::Claim(w)) else { return self.claim_by_another_clock(w, j) };
        let mut world = self.from;
        world.jobs[j].wake = false;
        match self.refusing(j, answer) {
            Some(Guard::NotSuppressed(_)) => {
                let Some(ended) = self.asked(rec, Ask::Suppressed) else { return };
                if self.swap(&mut world, j, rec, ended) == Swapped::Written {
                    self.step(world, |real| format!("worker {w} finds job {j} on a suppressions list -> {}", real.say(ended.0)));
                }
                return;
            }
            Some(Guard::NotBefore(_) | Guard::Before(_)) => return,
            None => {}
        }
        let flying = (0..self.config.jobs).filter(|other| self.real.flies(world.jobs[*other].rec)).count();
        if self.config.in_flight.is_some_and(|most| flying >= most) && !self.config.has(Plant::NoCounter) {
            if self.from.frees < self.config.frees {
                self.free(j, Ask::Limited, "its tenant is at its limit");
            }
            return;
        }
        if self.swap(&mut world, j, rec, (after, answer)) == Swapped::Written {
            let incarnation = world.incarnation;
            let kept = world.workers[w];
            world.workers[w] = Worker { step: Step::Claimed, job: j as u8, rec: after, token: 0, generation: 0, said: 0, incarnation, ..kept };
            self.step(world, |real| format!("worker {w} claims job {j} -> {}", real.say(after)));
        }
    }

    /// A worker whose clock is a tick ahead: the ledger's own refuses.
    fn claim_by_another_clock(&mut self, w: usize, j: usize) {
        let answer = self.real.ask(self.from.jobs[j].rec, Ask::Claim(w), self.from.tick + 1);
        if self.real.answered[answer].after.is_ok() {
            let refused = self.refusing(j, answer);
            assert!(refused.is_some(), "the ledger takes a claim that its own clock forbids: {}", self.real.say(self.from.jobs[j].rec));
        }
    }

    fn claimed(&mut self, w: usize, me: Worker) {
        let j = usize::from(me.job);
        if self.from.incarnation != me.incarnation && !self.config.has(Plant::OldErrandsGoOn) && self.answers() {
            let mut world = self.from;
            Self::idle(&mut world, w);
            self.step(world, |_| format!("worker {w} drops a claim of an earlier incarnation"));
            return;
        }
        if !self.works() {
            return;
        }
        for said in self.config.before {
            self.own(w, me, Ask::Prepared(w, *said), Step::Idle, "before the content");
        }
        if self.from.frees < self.config.frees {
            self.own(w, me, Ask::GiveBack(w), Step::Idle, "gives it back");
            self.own(w, me, Ask::Renew(w), Step::Claimed, "renews");
            self.renewal_unheard(w, me);
        }
        self.intent(w, me, j);
    }

    /// A swap of its own record, whatever renewal of its own stands unheard.
    fn own(&mut self, w: usize, me: Worker, ask: Ask, then: Step, what: &'static str) {
        let j = usize::from(me.job);
        let mut world = self.from;
        let rec = self.adopted(me.rec, self.from.jobs[j].rec);
        let Some((after, answer)) = self.asked(rec, ask) else { return };
        let free = matches!(ask, Ask::GiveBack(_) | Ask::Renew(_));
        world.frees += u8::from(free);
        let written = self.swap(&mut world, j, rec, (after, answer)) == Swapped::Written;
        if written {
            world.workers[w] = Worker { step: then, rec: after, ..me };
        } else if free {
            return;
        } else {
            Self::idle(&mut world, w);
        }
        let name = |real: &crate::real::Real| {
            format!("worker {w}: {what}, {ask:?} -> {}", if written { real.say(after) } else { "somebody was first".to_owned() })
        };
        self.push(world, free, name);
    }

    /// The ledger has a renewal whose answer was lost.
    fn renewal_unheard(&mut self, w: usize, me: Worker) {
        let j = usize::from(me.job);
        let Some(answer) = self.asked(me.rec, Ask::Renew(w)) else { return };
        let mut world = self.from;
        world.frees += 1;
        if self.swap(&mut world, j, me.rec, answer) == Swapped::Written {
            self.fault(world, |_| format!("fault: worker {w} doesn't hear that its renewal is written"));
        }
    }

    /// What stands, where it is its own renewal, unheard; else what it holds.
    fn adopted(&self, own: u32, stands: u32) -> u32 {
        let Some(standing) = self.real.standing(stands) else { return own };
        let mine = self.real.rec(own);
        let next = standing.generation == mine.generation && standing.version == mine.version + 1;
        if next && standing.worker == mine.worker && standing.state == mine.state { stands } else { own }
    }

    fn intent(&mut self, w: usize, me: Worker, j: usize) {
        let mut world = self.from;
        let drawn = world.jobs[j].drawn;
        if usize::from(drawn) >= TOKENS {
            return;
        }
        if self.config.has(Plant::NoIntent) {
            world.jobs[j].draw(self.real.generation(me.rec));
            world.workers[w] = Worker { step: Step::Handing, token: drawn, ..me };
            self.step(world, |_| format!("worker {w} goes on, PLANTED: without an intent"));
            return;
        }
        let held = self.adopted(me.rec, world.jobs[j].rec);
        let swapped = match self.prepared_intent(w, held, drawn, j) {
            Some(intent) => {
                let over = if self.config.has(Plant::NoVersionCheck) { me.rec } else { held };
                (self.swap(&mut world, j, over, intent) == Swapped::Written).then_some(intent.0)
            }
            None => None,
        };
        match swapped {
            Some(after) => {
                world.jobs[j].draw(self.real.generation(after));
                world.workers[w] = Worker { step: Step::Handing, rec: after, token: drawn, ..me };
                if self.config.rollback {
                    world.workers[w].open |= bit(token(drawn));
                }
                self.step(world, |real| format!("worker {w}: intent, token {drawn} of job {j} -> {}", real.say(after)));
            }
            None => {
                Self::idle(&mut world, w);
                self.step(world, |_| format!("worker {w}: its intent is refused"));
            }
        }
    }

    /// The intent as a worker asks for it, now or when it froze a tick ago; the guards are asked now.
    fn prepared_intent(&mut self, w: usize, held: u32, drawn: u8, j: usize) -> Option<(u32, usize)> {
        let (tick, unguarded) = (self.from.tick, self.config.has(Plant::NoDeadlineCheck));
        for asked_at in [tick, tick.saturating_sub(1)] {
            let answer = self.real.ask(held, Ask::Intent(w, drawn), asked_at);
            if let Ok(after) = self.real.answered[answer].after
                && (self.refusing(j, answer).is_none() || unguarded)
            {
                return Some((after, answer));
            }
        }
        None
    }

    fn handing(&mut self, w: usize, me: Worker) {
        let (j, number) = (usize::from(me.job), usize::from(me.token));
        if self.from.frees < self.config.frees && self.works() {
            self.own(w, me, Ask::Renew(w), Step::Handing, "renews");
            self.renewal_unheard(w, me);
        }
        let in_time = at(self.from.tick) < self.real.rec(me.rec).stops_at() || self.config.has(Plant::NoDeadlineCheck);
        let leased = self.real.leased(me.rec) || self.config.has(Plant::LookForgetsLease);
        if in_time && leased || self.config.has(Plant::NoLastLook) {
            for (truth, said, what) in ENDS {
                let said = if self.config.has(Plant::LossIsRefusal) && said == Said::Unknown { Said::Transient } else { said };
                let mut world = self.from;
                self.real.marker(&mut world, j, me.rec, me.token);
                world.jobs[j].truth[number] = truth;
                self.knows(&mut world, w, said);
                self.step(world, |_| format!("worker {w}: last look, END MARKER of token {number} of job {j}: {what}"));
            }
        }
        let mut world = self.from;
        if world.jobs[j].truth[number] == Truth::Intent {
            world.jobs[j].truth[number] = Truth::Not;
        }
        self.knows(&mut world, w, Said::NotHandedOff);
        self.step(world, |_| format!("worker {w}: no end marker, token {number} of job {j} is proven not handed off"));
    }

    /// It has its verdict; what a recovery would ask of it, it remembers.
    fn knows(&mut self, world: &mut World, w: usize, said: Said) {
        let generation = self.real.generation(world.workers[w].rec);
        let worker = &mut world.workers[w];
        (worker.step, worker.said, worker.rec, worker.generation) = (Step::Verdict, said as u8, 0, generation);
        if self.config.rollback && said != Said::Unknown {
            worker.open &= !bit(token(worker.token));
            if said == Said::Accepted {
                worker.receipts |= bit(token(worker.token));
            }
        }
    }
}
