//! An operator's verb, carried out by whoever opened it or found it open: stage where planned, swap, close its row, answer.

use curfew_book::BookState;
use curfew_domain::Refusal;

use super::courier::Who;
use super::{Moves, Swapped};
use crate::ask::Ask;
use crate::book::{Came, Entry};
use crate::config::Plant;
use crate::real::tick_of;
use crate::world::{Courier, Errand, Kind};

impl Moves<'_> {
    pub(super) fn look(&mut self, who: Who, me: Courier) {
        let (mut world, j) = (self.from, usize::from(me.job));
        let book = self.real.books.get(world.jobs[j].book);
        let (state, generation, of) = (book.row.state, book.row.generation, book.verb(me.verb).verb.generation);
        let errand = match state {
            BookState::Planned if generation == of => Errand::StageFirst,
            BookState::Staged => Errand::Swap,
            BookState::Planned | BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed => Errand::InBook,
        };
        let mut next = Courier { errand, ..me };
        if errand == Errand::StageFirst {
            let rec = self.real.first(world.jobs[j].book);
            (next.rec, next.generation) = (self.real.read_in(rec, world.incarnation), u8::try_from(generation).expect("few generations"));
        }
        *who.of(&mut world) = next;
        self.step(world, |_| format!("{} looks at the row for verb {}: {}", who.name(), me.verb, state.word()));
    }

    /// The verb as it is asked of a record.
    pub(super) fn verb_ask(&self, j: usize, number: u8) -> Ask {
        let verb = &self.real.books.get(self.from.jobs[j].book).verb(number).verb;
        let generation = u8::try_from(verb.generation).expect("few generations");
        match &verb.verb {
            curfew_domain::verb::Verb::Cancel => Ask::Verb(number, generation, Kind::Cancel, 0, 0),
            curfew_domain::verb::Verb::Suppress => Ask::Verb(number, generation, Kind::Suppress, 0, 0),
            curfew_domain::verb::Verb::Move { release_at, deadline_at } => {
                Ask::Verb(number, generation, Kind::Move, tick_of(*release_at), tick_of(*deadline_at))
            }
        }
    }

    pub(super) fn swap_verb(&mut self, who: Who, me: Courier) {
        if !self.works() {
            return;
        }
        let (mut world, j) = (self.from, usize::from(me.job));
        let rec = world.jobs[j].rec;
        let next = |errand, rec| Courier { errand, rec, ..me };
        let read = self.real.read_in(rec, world.incarnation);
        if rec == 0 {
            *who.of(&mut world) = next(Errand::Look, 0);
            self.step(world, |_| format!("{}: no record for verb {}, looks again", who.name(), me.verb));
            return;
        }
        let answer = self.real.ask(rec, self.verb_ask(j, me.verb), self.from.tick);
        let (courier, what) = match self.real.answered[answer].after {
            Ok(after) => {
                let swapped = self.swap(&mut world, j, rec, (after, answer));
                debug_assert!(swapped == Swapped::Written, "read and swapped in one step");
                self.real.verb_took_effect(&mut world, j, me.verb, after);
                if self.config.has(Plant::VerbsForgotten) {
                    world.jobs[j].rec = self.real.edited(after, 6 << 32, |r| r.verbs.clear());
                }
                (next(Errand::Apply, after), "swapped")
            }
            Err(Refusal::AppliedAlready) => (next(Errand::Apply, read), "applied already"),
            Err(Refusal::ForTheBook) => (next(Errand::InBook, 0), "the book owns it"),
            Err(
                Refusal::Superseded
                | Refusal::Conflict(_)
                | Refusal::WrongState
                | Refusal::NotOwner
                | Refusal::NotDue(_)
                | Refusal::TooLate
                | Refusal::LeaseEnded
                | Refusal::LeaseRuns(_)
                | Refusal::NothingToChange
                | Refusal::TooManyDoubts,
            ) => (next(Errand::Refuse, 0), "refused"),
        };
        *who.of(&mut world) = courier;
        self.step(world, |real| format!("{}: verb {} in the ledger, {}: {what}", who.name(), me.verb, real.say(rec)));
    }

    pub(super) fn close_verb(&mut self, who: Who, me: Courier, entry: Entry) {
        let (mut world, j) = (self.from, usize::from(me.job));
        let before = world.jobs[j].book;
        let came = self.enter(&mut world, j, entry);
        let (then, applied) = match came {
            Came::Closed(applied) => (if who == Who::Operator { Errand::Done } else { Errand::Idle }, applied),
            Came::NotYet | Came::No | Came::Done | Came::Open | Came::Told(_) | Came::Taken(_) => (Errand::Idle, false),
        };
        if entry == Entry::InTheBook(me.verb) && applied {
            self.excuse(&mut world, j, before);
        }
        *who.of(&mut world) = Courier { errand: then, applied, rec: 0, generation: 0, ..me };
        self.step(world, |_| format!("{}: closes verb {} ({entry:?}): {came:?}", who.name(), me.verb));
    }

    /// The caller hears how it ended.
    pub(super) fn answered(&mut self, who: Who, me: Courier) {
        let mut world = self.from;
        if me.applied {
            self.tell_caller(&mut world, usize::from(me.job), me.verb);
        }
        *who.of(&mut world) = Courier::default();
        self.step(world, |_| format!("{}: verb {} is answered: {}", who.name(), me.verb, if me.applied { "success" } else { "409" }));
    }
}
