//! The operator: opens verbs, replays, corrects, suppresses and resolves items, until the acts are used up.

use curfew_domain::verb::Verb;

use super::Moves;
use crate::book::{Came, Entry};
use crate::config::Plant;
use crate::real::tick_of;
use crate::world::{Courier, Errand, Kind, Truth, World, bit};

impl Moves<'_> {
    pub(super) fn operator_begins(&mut self, j: usize) {
        let config = self.config;
        if config.listing && !self.from.jobs[j].listed {
            let mut world = self.from;
            world.jobs[j].listed = true;
            self.step(world, |_| format!("job {j}'s recipient comes onto a suppressions list"));
        }
        if self.from.acts >= config.acts {
            return;
        }
        for (kind, on) in [(Kind::Cancel, config.cancel), (Kind::Suppress, config.suppress), (Kind::Move, config.moves)] {
            if on {
                self.open(j, kind);
            }
        }
        let generation = self.real.books.get(self.from.jobs[j].book).row.generation;
        if config.replay && generation < u32::from(config.generations) && self.from.tick < config.end {
            self.replay(j);
        }
        if config.correct {
            self.act(j, Entry::Correct, "corrects the letter");
            self.act(j, Entry::SuppressItem, "suppresses the item");
            if self.accepted_in_doubt(j) {
                self.act(j, Entry::Resolve, "resolves the item by its receipt");
            }
        }
    }

    fn open(&mut self, j: usize, kind: Kind) {
        let mut world = self.from;
        let (before, number) = (world.jobs[j].book, world.verbs + 1);
        let release = (self.from.tick + 1).min(self.config.end.saturating_sub(1));
        let came = self.enter(&mut world, j, Entry::Open(number, kind, release, release + 1));
        (world.acts, world.verbs) = (world.acts + 1, number);
        match came {
            Came::Open => {
                if kind == Kind::Move {
                    world.jobs[j].told = (Kind::None, 0, 0);
                }
                if self.config.has(Plant::AnsweredEarly) {
                    self.tell_caller(&mut world, j, number);
                }
                world.operator = Courier { errand: Errand::Look, job: j as u8, verb: number, incarnation: world.incarnation, ..Courier::default() };
            }
            Came::Closed(_) => {
                self.excuse(&mut world, j, before);
                self.tell_caller(&mut world, j, number);
            }
            Came::Done | Came::No | Came::Told(_) | Came::Taken(_) | Came::NotYet => return,
        }
        self.step(world, |_| format!("the operator asks for {kind:?} of job {j}, verb {number}: {came:?}"));
    }

    fn replay(&mut self, j: usize) {
        for risk in [false, true] {
            let mut world = self.from;
            let before = world.jobs[j].book;
            if self.enter(&mut world, j, Entry::Replay(risk)) != Came::Done {
                continue;
            }
            let book = self.real.books.get(before);
            let (before, in_doubt) = (&book.row, book.row.doubt.is_some() || book.working().is_some_and(|i| i.in_doubt));
            if risk && in_doubt {
                let all = before.doubts.iter().chain(&before.window_doubts).chain(&before.doubt);
                let open = all.clone().fold(0, |all, token| all | bit(*token));
                let any = before.doubt == Some(curfew_domain::Token::ANY);
                world.jobs[j].covered |= if any { u16::MAX } else { open };
            }
            world.acts += 1;
            world.jobs[j].told = (Kind::None, 0, 0);
            self.step(world, |_| format!("the operator replays job {j}{}", if risk { ", the risk of a duplicate accepted" } else { "" }));
            if !in_doubt {
                break;
            }
        }
    }

    fn act(&mut self, j: usize, entry: Entry, what: &str) {
        let mut world = self.from;
        let before = world.jobs[j].book;
        if self.enter(&mut world, j, entry) == Came::No {
            return;
        }
        if entry == Entry::SuppressItem {
            self.excuse(&mut world, j, before);
        }
        world.acts += 1;
        self.step(world, |_| format!("the operator {what} of job {j}"));
    }

    /// The provider's own log shows the one token in doubt as accepted.
    fn accepted_in_doubt(&self, j: usize) -> bool {
        let job = &self.from.jobs[j];
        let doubt = self.real.books.get(job.book).row.doubt.map_or(0, bit);
        (0..job.drawn).any(|n| doubt >> n & 1 == 1 && job.truth[usize::from(n)] == Truth::Accepted)
    }

    /// A person ended a job over its doubts: they may have been accepted.
    pub(super) fn excuse(&self, world: &mut World, j: usize, before: u32) {
        let row = &self.real.books.get(before).row;
        world.jobs[j].excused |= row.doubts.iter().chain(&row.window_doubts).chain(&row.doubt).fold(0, |all, token| all | bit(*token));
    }

    /// Success, from here on the verb is in force.
    pub(super) fn tell_caller(&self, world: &mut World, j: usize, number: u8) {
        let verb = &self.real.books.get(world.jobs[j].book).verb(number).verb;
        let generation = u8::try_from(verb.generation).expect("few generations");
        let later = self.real.books.get(world.jobs[j].book).verbs.iter().any(|v| v.verb.number > number.into() && v.applied == Some(true));
        world.jobs[j].told = match &verb.verb {
            Verb::Cancel => (Kind::Cancel, 0, generation),
            Verb::Suppress => (Kind::Suppress, 0, generation),
            Verb::Move { .. } if later => return,
            Verb::Move { release_at, .. } => (Kind::Move, tick_of(*release_at), generation),
        };
    }
}
