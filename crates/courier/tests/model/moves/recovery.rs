//! A ledger that lost its tail, once, and its recovery (DESIGN 8): barrier, incarnation, reports or silence of each worker, then the driver's
//! rules (`recover::rule`), each carried out by the product's own event.

use curfew_book::{BookState, VerbSeen};
use curfew_courier::first_version;
use curfew_courier::recover::{Facts, Ruling, lacking, rule};
use curfew_domain::transition::BookStory;
use curfew_domain::{Record, State};
use curfew_ledger::Survivor;

use super::Moves;
use crate::ask::Ask;
use crate::book::{Entry, VerbRow};
use crate::config::{Plant, Said};
use crate::real::{at, tick_of};
use crate::world::{Phase, Step, TOKENS, World};

/// The job that a rollback is explored with.
const J: usize = 0;

impl Moves<'_> {
    pub(super) fn recovery(&mut self) {
        match self.from.phase {
            Phase::Normal => {
                let world = World { phase: Phase::Saved, saved: self.from.jobs[J].rec, ..self.from };
                self.step(world, |real| format!("(what will survive: {})", real.say(world.saved)));
            }
            Phase::Saved => self.rolls_back(),
            Phase::Down => {
                let world = World { phase: Phase::Recovering, incarnation: 1, ..self.from };
                self.step(world, |_| "recovery: the incarnation is raised, claims and intents are refused".to_owned());
            }
            Phase::Recovering => {
                (0..self.config.workers).for_each(|w| self.reports(w));
                if (0..self.config.workers).all(|w| self.from.workers[w].reported != 0) {
                    self.recovers();
                }
            }
            Phase::Recovered => (0..self.config.workers).for_each(|w| self.asserts_again(w)),
        }
    }

    fn rolls_back(&mut self) {
        let mut world = self.from;
        let survives = world.saved;
        let verbs = self.real.standing(survives).map_or(0, |r| r.verbs.iter().fold(0, |all, n| all | 1 << n));
        world.jobs[J].rec = survives;
        world.jobs[J].effects &= verbs;
        world.jobs[J].wake = false;
        world.saved = 0;
        world.phase = if self.config.has(Plant::NoBarrier) { Phase::Recovered } else { Phase::Down };
        self.fault(world, |real| format!("fault: the ledger is back at {}", real.say(survives)));
    }

    /// What a worker says of the tokens it remembers; or nothing, for 30 s.
    fn reports(&mut self, w: usize) {
        let me = self.from.workers[w];
        if me.reported != 0 {
            return;
        }
        let mut world = self.from;
        world.workers[w].reported = 1;
        for token in 0..TOKENS as u8 {
            let generation = world.jobs[J].generation_of(token);
            let bit = 1 << token;
            if me.receipts & bit != 0 {
                self.asserts(&mut world, generation, Ask::Receipt(generation, token));
            } else if me.open & bit != 0 && me.step == Step::Handing && me.token == token {
                self.asserts(&mut world, generation, Ask::Held(me.rec, token));
            } else if me.open & bit != 0 {
                self.asserts(&mut world, generation, Ask::Doubt(generation, token));
            }
        }
        self.step(world, |real| format!("recovery: worker {w} reports -> {}", real.say(world.jobs[J].rec)));
        let mut world = self.from;
        world.workers[w].reported = 2;
        world.worker_missing = true;
        self.fault(world, |_| format!("recovery: worker {w} is silent for 30 s"));
    }

    /// One assertion: to the record of its generation or a later one; where the job has its end in the book, to the book; else on a record made for it.
    fn asserts(&mut self, world: &mut World, generation: u8, ask: Ask) {
        let stands = world.jobs[J].rec;
        if self.real.standing(stands).is_some_and(|r| r.generation >= u32::from(generation)) {
            self.told(world, ask);
            return;
        }
        let row = &self.real.books.get(world.jobs[J].book).row;
        match (row.state, ask) {
            (BookState::Planned | BookState::Staged, _) => {}
            (BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed, Ask::Receipt(_, token)) => {
                self.enter(world, J, Entry::Evidence(generation, token, Said::Accepted));
                return;
            }
            (BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed, _) => return,
        }
        let made = self.made(world, generation.into());
        if let Some((after, _)) = self.asked(made, ask) {
            self.put(world, J, after);
        }
    }

    /// The first version of a generation's record, in recovery's hands: it carries what an earlier record left open.
    fn made(&mut self, world: &World, generation: u32) -> u32 {
        let mut row = self.real.books.get(world.jobs[J].book).row.clone();
        row.generation = generation;
        let mut first = first_version(&row, &self.real.rulebook, 1, at(world.tick)).record;
        if let Some(earlier) = self.real.standing(world.jobs[J].rec) {
            let open = earlier.doubts.iter().chain(&earlier.window_doubts).chain(&earlier.token).copied();
            let open: Vec<_> = open.filter(|token| !first.doubts.contains(token)).collect();
            first.doubts.extend(open);
        }
        self.real.number(first, at(world.tick))
    }

    /// One event in recovery's hands; whether it changed the record.
    fn told(&mut self, world: &mut World, ask: Ask) -> bool {
        let Some((after, _)) = self.asked(world.jobs[J].rec, ask) else { return false };
        let after = self.real.read_in(after, 1);
        self.put(world, J, after);
        true
    }

    /// Steps 4 to 8: the product rules on what survived, its ruling is carried out.
    fn recovers(&mut self) {
        let mut world = self.from;
        let rec = world.jobs[J].rec;
        let book = self.real.books.get(world.jobs[J].book).clone();
        let survivor = self.real.standing(rec).map(|record| Survivor { record: record.clone(), written_in: record.incarnation });
        let survivor = survivor.map(|s| Survivor { record: Record { incarnation: 1, ..s.record }, ..s });
        let verbs: Vec<VerbSeen> = book.verbs.iter().filter(|v| v.applied != Some(false)).map(seen).collect();
        let lost_worker = world.worker_missing && !self.config.has(Plant::RecoveryForgetsDoubts);
        let facts = Facts { survivor: survivor.as_ref(), row: Some(&book.row), verbs: &verbs, incarnation: 1, lost_worker, until: at(world.tick) };
        let ruling = rule(facts);
        self.real.seen.note(crate::seen::ruling(&ruling));
        self.carry_out(&mut world, &ruling, book.row.generation);
        if world.jobs[J].rec != 0 {
            world.jobs[J].rec = self.real.read_in(world.jobs[J].rec, 1);
        }
        if !matches!(ruling, Ruling::Missing | Ruling::TakeBack(_)) && !self.config.has(Plant::RecoveryForgetsTheBook) {
            self.verbs_again(&mut world);
        }
        world.phase = Phase::Recovered;
        world.workers.iter_mut().filter(|w| w.reported == 1).for_each(|w| w.reported = 0);
        self.step(world, |real| format!("recovery ends: {} -> {}", crate::seen::ruling(&ruling), real.say(world.jobs[J].rec)));
    }

    fn carry_out(&mut self, world: &mut World, ruling: &Ruling, generation: u32) {
        let waits = world.worker_missing && !self.config.has(Plant::RecoveryForgetsLeases);
        match ruling {
            Ruling::Stands => {}
            Ruling::BookWins(_) | Ruling::Moved(..) if self.config.has(Plant::RecoveryForgetsTheBook) => {}
            Ruling::BookWins(story) => self.book_wins(world, story),
            Ruling::Moved(release_at, deadline_at) => {
                self.told(world, Ask::MovedInBook(tick_of(*release_at), tick_of(*deadline_at)));
            }
            Ruling::SentIn(generation) => {
                self.told(world, Ask::SentIn(u8::try_from(*generation).expect("few generations")));
            }
            Ruling::TakeBack(earlier) => {
                earlier.iter().for_each(|story| self.book_wins(world, story));
                self.enter(world, J, Entry::TakeBack(u8::try_from(generation).expect("few generations")));
            }
            Ruling::Missing => {
                let made = self.made(world, generation);
                if let Some((after, _)) = self.asked(made, Ask::RolledBack(waits)) {
                    self.put(world, J, after);
                }
            }
            Ruling::Doubt => {
                self.told(world, Ask::RolledBack(waits));
            }
            Ruling::ClaimDropped => {
                self.told(world, Ask::ClaimDropped);
            }
        }
    }

    fn book_wins(&mut self, world: &mut World, story: &BookStory) {
        let story = self.real.story(story.clone());
        self.told(world, Ask::BookWins(story));
    }

    /// Verbs of the book that the record lacks, open or applied, in their order.
    fn verbs_again(&mut self, world: &mut World) {
        let all: Vec<VerbSeen> = self.real.books.get(world.jobs[J].book).verbs.iter().filter(|v| v.applied != Some(false)).map(seen).collect();
        let Some(record) = self.real.standing(world.jobs[J].rec).cloned() else { return };
        let facts = Facts { survivor: None, row: None, verbs: &all, incarnation: 1, lost_worker: false, until: at(world.tick) };
        for verb in lacking(&facts, &Survivor { record, written_in: 1 }) {
            let waits = matches!(self.real.state(world.jobs[J].rec), State::Scheduled | State::Queued | State::Claimed);
            let number = u8::try_from(verb.number).expect("few verbs");
            if waits && self.told(world, self.verb_ask(J, number)) {
                world.jobs[J].effects |= 1 << number;
            }
        }
    }

    /// A worker that was silent comes back, and asserts what it remembers once more.
    fn asserts_again(&mut self, w: usize) {
        let me = self.from.workers[w];
        if me.reported != 2 || me.step != Step::Idle || me.receipts == 0 {
            return;
        }
        let token = me.receipts.trailing_zeros() as u8;
        let mut world = self.from;
        let generation = world.jobs[J].generation_of(token);
        let again = &mut world.workers[w];
        (again.step, again.job, again.token, again.generation, again.said) = (Step::Verdict, J as u8, token, generation, Said::Accepted as u8);
        again.receipts &= !(1 << token);
        self.step(world, |_| format!("worker {w} is back, and asserts the receipt of token {token} again"));
    }
}

fn seen(row: &VerbRow) -> VerbSeen {
    VerbSeen { verb: row.verb.clone(), actor: "ada".to_owned(), applied: row.applied == Some(true) }
}
