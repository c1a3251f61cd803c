//! The invariants: those of DESIGN 1 as the abstract model names them (I1 to I6), and what owners, items and counters promise besides.

use curfew_book::BookState;
use curfew_domain::{Record, State};
use curfew_review::{Item, ItemStatus};

use crate::real::{Real, at, tick_of};
use crate::world::{Kind, Phase, Step, TOKENS, Truth, World, bit, token};

pub const TWICE: u32 = 0;
pub const LATE: u32 = 1;
pub const EARLY: u32 = 2;
pub const SENT_AND_OPEN: u32 = 3;
pub const SENT_FOR_NOTHING: u32 = 4;
pub const ACCEPTED_UNKNOWN: u32 = 5;
pub const ENDED_AGAIN: u32 = 6;
pub const AGAINST_VERB: u32 = 7;
pub const REFUSED_YET_DONE: u32 = 8;
pub const OTHER_GENERATION: u32 = 9;
pub const WITHDRAWN: u32 = 10;
pub const AFTER_END: u32 = 11;
pub const UNOWNED: u32 = 12;
pub const TWO_HOLD: u32 = 13;
pub const OVER_LIMIT: u32 = 14;
pub const OTHER_CONTENT: u32 = 15;
pub const MALFORMED: u32 = 16;
pub const ITEM_LOST: u32 = 17;

/// Each by its bit.
pub const BROKEN: [&str; 18] = [
    "I1 a second handoff while another is accepted or unknown",
    "I2 late: an end marker at or after the deadline",
    "I2 early: an end marker before the release",
    "I4 the book says sent, and its item is open",
    "I4 the book says sent, and nothing was accepted",
    "I4 accepted, and the book neither says so nor doubts it",
    "I4 what had ended in the book ended again",
    "I5 an end marker against a verb that was answered",
    "I5 a verb that was refused took effect",
    "I5 a verb took effect in another generation",
    "I6 a withdrawn replay sends",
    "I6 an end marker after the book said that the job ended",
    "O1 a staged row without a live record of its generation",
    "O2 two workers hold a handoff of one job, their leases running",
    "O3 more jobs in flight than their tenant may have",
    "O4 an end marker for another generation or content than the book's",
    "D2 what is owed and the timer differ, or a change doesn't explain itself",
    "R1 a review item was overwritten, or opened again",
];

/// Found by the way back from the ends.
pub const STUCK: &str = "I3 no end can be reached though nothing fails any more";

fn break_it(world: &mut World, rule: u32) {
    world.bad |= 1 << rule;
}

impl Real {
    /// The end marker of a token leaves a worker that holds this record.
    pub fn marker(&self, world: &mut World, j: usize, held: u32, me: u8) {
        let (held, job, book) = (self.rec(held), world.jobs[j], self.books.get(world.jobs[j].book));
        let generation = u8::try_from(held.generation).expect("few generations");
        let unsettled = |truth| matches!(truth, Truth::Accepted | Truth::Lost);
        for other in 0..TOKENS as u8 {
            let covered = job.covered & bit(token(other)) != 0 || self.knows_key(held, other, world.tick);
            if unsettled(job.truth[usize::from(other)]) && (other == me || !covered) {
                break_it(world, TWICE);
            }
        }
        // A ledger that lost its tail may stand before a move that the book has, open or applied: what the worker holds is later.
        let later = |r: &&Record| r.generation == held.generation && r.version >= held.version;
        let in_force = self.standing(job.rec).filter(later).unwrap_or(held);
        let now = at(world.tick);
        if now >= in_force.deadline_at {
            break_it(world, LATE);
        }
        if now < in_force.release_at {
            break_it(world, EARLY);
        }
        let (kind, tick, of) = job.told;
        let against = match kind {
            Kind::None => false,
            Kind::Cancel | Kind::Suppress => generation <= of,
            Kind::Move => generation == of && world.tick < tick,
        };
        if against {
            break_it(world, AGAINST_VERB);
        }
        if job.withdrawn == generation {
            break_it(world, WITHDRAWN);
        }
        if matches!(book.row.state, BookState::Sent | BookState::Cancelled | BookState::Suppressed) {
            break_it(world, AFTER_END);
        }
        if book.row.generation != held.generation || book.row.job.content_revision != held.content_revision {
            break_it(world, OTHER_CONTENT);
        }
    }

    /// Whether the provider still answers for its first handoff under this key: one delivery, whatever comes.
    fn knows_key(&self, held: &Record, other: u8, tick: u8) -> bool {
        let known = held.window_doubts.contains(&token(other));
        self.config.window && known && held.first_handoff_at.is_some_and(|first| tick <= tick_of(first) + 1)
    }

    /// What must hold in every state, and at rest.
    pub fn check(&self, world: &mut World) {
        let mut flying = 0;
        for j in 0..self.config.jobs {
            let job = world.jobs[j];
            let book = self.books.get(job.book);
            flying += usize::from(self.flies(job.rec));
            if book.row.state == BookState::Sent && book.items.iter().any(|i| i.status == ItemStatus::Open) {
                break_it(world, SENT_AND_OPEN);
            }
            let owned = self.standing(job.rec).is_some_and(|r| r.is_live() && r.generation == book.row.generation);
            if book.row.state == BookState::Staged && !owned && world.phase == Phase::Normal {
                break_it(world, UNOWNED);
            }
            let holds = |w: &&crate::world::Worker| w.step == Step::Handing && usize::from(w.job) == j && self.leased(w.rec);
            if world.workers.iter().filter(holds).count() > 1 {
                break_it(world, TWO_HOLD);
            }
        }
        if world.phase == Phase::Normal && self.config.in_flight.is_some_and(|most| flying > most) {
            break_it(world, OVER_LIMIT);
        }
        if self.ended(world) {
            (0..self.config.jobs).for_each(|j| self.check_end(world, j));
        }
    }

    fn check_end(&self, world: &mut World, j: usize) {
        let job = world.jobs[j];
        let book = self.books.get(job.book);
        let row = &book.row;
        for verb in book.verbs.iter().filter(|v| v.applied != Some(true)) {
            if job.effects >> verb.verb.number & 1 == 1 {
                break_it(world, REFUSED_YET_DONE);
            }
        }
        let accepted = (0..TOKENS as u8).filter(|n| job.truth[usize::from(*n)] == Truth::Accepted).fold(0, |all, n| all | bit(token(n)));
        if row.state == BookState::Sent && accepted == 0 {
            break_it(world, SENT_FOR_NOTHING);
        }
        let doubts = row.doubts.iter().chain(&row.window_doubts).chain(&row.doubt);
        let any = doubts.clone().any(|t| *t == curfew_domain::Token::ANY);
        let known = doubts.fold(job.covered | job.excused, |all, t| all | bit(*t));
        if row.state != BookState::Sent && accepted & !known != 0 && !any {
            break_it(world, ACCEPTED_UNKNOWN);
        }
    }

    /// The book moved on: what is final stays, `cancelled` and `suppressed` yield to `sent` alone.
    pub fn book_moved(&self, world: &mut World, before: u32, after: u32) {
        if before == after {
            return;
        }
        let (before, after) = (self.books.get(before), self.books.get(after));
        let done = |item: &Item| matches!(item.status, ItemStatus::Resolved | ItemStatus::Withdrawn);
        let stands = |(was, is): (&Item, &Item)| (was.generation, was.number) == (is.generation, is.number) && (!done(was) || done(is));
        if after.items.len() < before.items.len() || !before.items.iter().zip(&after.items).all(stands) {
            break_it(world, ITEM_LOST);
        }
        let (before, after) = (before.row.state, after.row.state);
        let good = match before {
            BookState::Planned | BookState::Staged | BookState::DeadLetter => true,
            BookState::Cancelled | BookState::Suppressed => after == before || after == BookState::Sent,
            BookState::Sent => after == before,
        };
        if !good {
            break_it(world, ENDED_AGAIN);
        }
    }

    /// A verb's swap was written.
    pub fn verb_took_effect(&self, world: &mut World, j: usize, number: u8, after: u32) {
        let verb = self.books.get(world.jobs[j].book).verb(number);
        if verb.verb.generation != self.rec(after).generation {
            break_it(world, OTHER_GENERATION);
        }
        if world.jobs[j].effects >> number & 1 == 1 && world.phase == Phase::Normal {
            break_it(world, REFUSED_YET_DONE);
        }
        world.jobs[j].effects |= 1 << number;
    }

    /// Everything is over: nobody has anything in hand, every job has ended where it is owned, every verb is answered.
    pub fn ended(&self, world: &World) -> bool {
        let idle = world.workers.iter().all(|w| w.step == Step::Idle) && world.couriers().all(|c| c.errand == crate::world::Errand::Idle);
        let over = |j: usize| {
            let book = self.books.get(world.jobs[j].book);
            let ended = !matches!(book.row.state, BookState::Planned | BookState::Staged);
            ended && !self.is_live(world.jobs[j].rec) && book.open_verbs().next().is_none()
        };
        idle && !matches!(world.phase, Phase::Down | Phase::Recovering) && (0..self.config.jobs).all(over)
    }

    /// One line for the end of a trace.
    pub fn describe(&self, world: &World) -> String {
        let jobs: Vec<String> = (0..self.config.jobs).map(|j| self.describe_job(world, j)).collect();
        format!("t={} {}", world.tick, jobs.join(" | "))
    }

    fn describe_job(&self, world: &World, j: usize) -> String {
        let job = world.jobs[j];
        let record = match self.standing(job.rec) {
            Some(r) => format!("{} g{} v{}{}", r.state, r.generation, r.version, if r.closed { " closed" } else { "" }),
            None => "no record".to_owned(),
        };
        let book = self.books.get(job.book);
        let items: Vec<_> =
            book.items.iter().map(|i| format!("{} g{}{}", i.status.word(), i.generation, if i.in_doubt { "?" } else { "" })).collect();
        let truth = &job.truth[..usize::from(job.drawn)];
        format!(
            "ledger: {record}; book: {} g{} seen {:?}, items {items:?}; provider: {truth:?}",
            book.row.state.word(),
            book.row.generation,
            book.row.seen
        )
    }

    pub fn say(&self, rec: u32) -> String {
        self.standing(rec).map_or("nothing".to_owned(), |r| format!("{} g{} v{}", r.state, r.generation, r.version))
    }

    /// The states that a claim leads out of.
    pub fn waits(&self, rec: u32) -> bool {
        self.is_live(rec) && matches!(self.state(rec), State::Scheduled | State::Queued)
    }
}

impl Real {
    /// Everything planned, nobody has begun.
    pub fn first_world(&mut self) -> World {
        World::default()
    }
}
