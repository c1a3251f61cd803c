//! A worker's verdict: to the ledger as long as a record stands there, else to the book as evidence.

use curfew_book::EvidenceTaken;
use curfew_domain::{Refusal, State, Token};

use super::Moves;
use crate::ask::Ask;
use crate::book::{Came, Entry};
use crate::config::{Plant, Said};
use crate::world::{ANY, Phase, Step, Worker, World, token};

impl Moves<'_> {
    /// To the ledger, as long as a record stands there.
    pub(super) fn report(&mut self, w: usize, me: Worker) {
        if !self.answers() {
            return;
        }
        let (j, said) = (usize::from(me.job), Said::ALL[usize::from(me.said)]);
        let rec = self.from.jobs[j].rec;
        let mut world = self.from;
        if self.real.standing(rec).is_none_or(|r| r.generation < u32::from(me.generation)) {
            self.hand_to_the_book(world, w, said, "no record takes it");
            return;
        }
        let told_of = self.doubted(rec, me, said);
        let answer = self.real.ask(rec, Ask::Verdict(told_of, said), self.from.tick);
        match self.real.answered[answer].after {
            // While its shard recovers a report is taken of what its owner holds, and of what was accepted.
            Ok(after) if self.from.phase == Phase::Recovering && !self.owners_report(rec, after) => return,
            Ok(after) => {
                self.swap(&mut world, j, rec, (after, answer));
            }
            Err(Refusal::ForTheBook) => return self.hand_to_the_book(world, w, said, "it is for the book"),
            Err(Refusal::WrongState | Refusal::TooManyDoubts) => return,
            Err(
                Refusal::NothingToChange
                | Refusal::NotOwner
                | Refusal::NotDue(_)
                | Refusal::TooLate
                | Refusal::LeaseEnded
                | Refusal::LeaseRuns(_)
                | Refusal::AppliedAlready
                | Refusal::Superseded
                | Refusal::Conflict(_),
            ) => {}
        }
        if self.revives(rec, me, said) {
            world.jobs[j].rec = self.real.planted(rec, Plant::RefusalRevives, self.from.tick);
        }
        Self::idle(&mut world, w);
        let after = world.jobs[j].rec;
        self.step(world, |real| format!("worker {w} reports {said:?} of token {}: {} -> {}", me.token, real.say(rec), real.say(after)));
    }

    /// As the courier reports it: where the record doubts every token of its generation, any acceptance of it is the one.
    fn doubted(&self, rec: u32, me: Worker, said: Said) -> u8 {
        let (record, named) = (self.real.rec(rec), token(me.token));
        let known = record.token == Some(named) || record.window_doubts.contains(&named) || record.doubts.contains(&named);
        let all = match record.token {
            Some(Token::ANY) if record.generation == u32::from(me.generation) => true,
            _other => record.generation > u32::from(me.generation) && record.doubts.contains(&Token::ANY),
        };
        let hidden = record.state == State::Handoff && record.token == Some(Token::ANY);
        if all && (!known || hidden) && said == Said::Accepted { ANY } else { me.token }
    }

    fn owners_report(&self, before: u32, after: u32) -> bool {
        let (before, after) = (self.real.state(before), self.real.state(after));
        after == State::Sent || before == State::Handoff || before == State::DeadLetter && after == State::DeadLetter
    }

    fn revives(&self, rec: u32, me: Worker, said: Said) -> bool {
        let record = self.real.rec(rec);
        let refused = matches!(said, Said::Transient | Said::NotHandedOff);
        self.config.has(Plant::RefusalRevives) && record.state == State::DeadLetter && refused && record.token == Some(token(me.token))
    }

    fn hand_to_the_book(&mut self, mut world: World, w: usize, said: Said, why: &'static str) {
        world.workers[w].step = if said == Said::Unknown { Step::Idle } else { Step::Evidence };
        self.step(world, |_| format!("worker {w} reports {said:?}: {why}"));
    }

    pub(super) fn evidence(&mut self, w: usize, me: Worker) {
        let (j, said) = (usize::from(me.job), Said::ALL[usize::from(me.said)]);
        let mut world = self.from;
        let came = self.enter(&mut world, j, Entry::Evidence(me.generation, me.token, said));
        world.workers[w].step = if came == Came::Taken(EvidenceTaken::AskLedger) { Step::Verdict } else { Step::Idle };
        self.step(world, |_| format!("worker {w}: evidence {said:?} of token {}: {came:?}", me.token));
    }

    /// One transaction of the book.
    pub(super) fn enter(&mut self, world: &mut World, j: usize, entry: Entry) -> Came {
        let before = world.jobs[j].book;
        let (after, came) = self.real.enter(before, entry, self.from.tick);
        world.jobs[j].book = after;
        self.real.book_moved(world, before, after);
        came
    }
}
