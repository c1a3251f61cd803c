//! What each transaction does: the product judges, what the adapters do with its word stands here.

use curfew_book::judge::{self, Closing, ItemFate, Opening};
use curfew_book::{BookState, Evidence, EvidenceSource, EvidenceTaken, Fate, Row, Story, VerbEnd, VerbRequest};
use curfew_domain::verb::NumberedVerb;
use curfew_domain::{Moment, Record, State};
use curfew_review::{ItemStatus, Replay, judge as review};

use super::rows::item;
use super::{BookJob, Came, Entry, VerbRow};
use crate::ask::{outcome, receipt, verb_of};
use crate::config::{Config, Plant, Said};
use crate::real::{Real, at};
use crate::seen;
use crate::world::{Kind, token};

impl Real {
    pub(super) fn entered(&mut self, book: &mut BookJob, entry: Entry, now: Moment) -> Came {
        match entry {
            Entry::Mark(generation) => {
                let mine = book.row.state == BookState::Planned && book.row.generation == u32::from(generation);
                if mine || self.config.has(Plant::MarkUnguarded) {
                    (book.row.state, book.row.ever_staged) = (BookState::Staged, true);
                }
                Came::Done
            }
            Entry::Tell(rec) => {
                let record = self.rec(rec).clone();
                self.tell(book, record)
            }
            Entry::Evidence(generation, drawn, said) => {
                let fate = if said == Said::Accepted { Fate::Accepted(receipt(now)) } else { Fate::NotAccepted(Box::new(outcome(said))) };
                let named = Some(token(drawn));
                let key = book.row.job.key.clone();
                let evidence = Evidence { key, generation: generation.into(), token: named, fate, source: EvidenceSource::LateVerdict, at: now };
                self.weigh(book, &evidence)
            }
            Entry::Open(number, kind, release, deadline) => self.open(book, number, kind, (release, deadline), now),
            Entry::Applied(number, rec) => {
                let record = self.rec(rec).clone();
                self.close(book, number, &VerbEnd::Applied(Box::new(record)), now)
            }
            Entry::Refused(number) => self.close(book, number, &VerbEnd::Refused(State::Handoff), now),
            Entry::InTheBook(number) => self.close(book, number, &VerbEnd::InTheBook, now),
            Entry::Replay(risk) => self.replay(book, risk, now),
            Entry::Correct => {
                if !open_dead_letter(book) {
                    return Came::No;
                }
                book.row.job.content_revision += 1;
                Came::Done
            }
            Entry::SuppressItem => {
                if !open_dead_letter(book) {
                    return Came::No;
                }
                let request = request(&book.row, Kind::Suppress, (0, 0), now, now);
                match judge::ask(&mut book.row, &request) {
                    Opening::Applied(item) => {
                        carry_out(book, &item, None, self.config);
                        Came::Done
                    }
                    Opening::Open | Opening::Refused => Came::No,
                }
            }
            Entry::Resolve => {
                let Some(item) = book.working().filter(|i| i.status == ItemStatus::Open) else { return Came::No };
                let (in_doubt, key) = (item.in_doubt, book.row.job.key.clone());
                let source = EvidenceSource::Operator("ada".to_owned());
                let evidence = Evidence { key, generation: book.row.generation, token: None, fate: Fate::Accepted(receipt(now)), source, at: now };
                let weighed = judge::weigh(&mut book.row, in_doubt, &evidence);
                if weighed.taken != EvidenceTaken::Sent {
                    return Came::No;
                }
                carry_out(book, &weighed.item, None, self.config);
                Came::Taken(EvidenceTaken::Sent)
            }
            Entry::TakeBack(generation) => {
                if book.row.state != BookState::Staged || book.row.generation != u32::from(generation) {
                    return Came::No;
                }
                book.row.generation += 1;
                (book.row.state, book.row.seen) = (BookState::Planned, (book.row.generation, 0, 0));
                Came::Done
            }
        }
    }

    fn tell(&mut self, book: &mut BookJob, record: Record) -> Came {
        for verb in book.verbs.iter_mut().filter(|v| record.verbs.contains(&v.verb.number)) {
            verb.applied = Some(true);
        }
        if self.config.has(Plant::StoryUnguarded) {
            (book.row.seen, book.row.state) = ((0, 0, 0), BookState::Staged);
        }
        let telling = judge::tell(&mut book.row, &Story { record: record.clone(), history: Vec::new() });
        carry_out(book, &telling.item, Some(&record), self.config);
        self.seen.note(seen::told(&telling.told));
        Came::Told(telling.told)
    }

    fn weigh(&mut self, book: &mut BookJob, evidence: &Evidence) -> Came {
        let in_doubt = book.working().is_some_and(|item| item.in_doubt);
        let weighed = judge::weigh(&mut book.row, in_doubt, evidence);
        if weighed.changed {
            carry_out(book, &weighed.item, None, self.config);
        }
        self.seen.note(seen::taken(&weighed.taken));
        Came::Taken(weighed.taken)
    }

    fn open(&mut self, book: &mut BookJob, number: u8, kind: Kind, ticks: (u8, u8), now: Moment) -> Came {
        // Without `far` every row is near: the ledger decides.
        let alone_from = if self.config.far { now } else { Moment::from_millis(i64::MAX) };
        let request = request(&book.row, kind, ticks, now, alone_from);
        let opening = judge::ask(&mut book.row, &request);
        self.seen.note(seen::opening(&opening));
        let verb = NumberedVerb { number: number.into(), generation: book.row.generation, verb: request.verb };
        match opening {
            Opening::Refused => Came::No,
            Opening::Open => {
                book.verbs.push(VerbRow { verb, applied: None });
                Came::Open
            }
            Opening::Applied(item) => {
                book.verbs.push(VerbRow { verb, applied: Some(true) });
                carry_out(book, &item, None, self.config);
                Came::Closed(true)
            }
        }
    }

    fn close(&mut self, book: &mut BookJob, number: u8, end: &VerbEnd, now: Moment) -> Came {
        let VerbRow { verb, applied } = book.verb(number).clone();
        let closing = match judge::close(&mut book.row, &verb, applied, end, ("ada", now)) {
            Ok(closing) => closing,
            Err(_not_yet) => return Came::NotYet,
        };
        self.seen.note(seen::closing(&closing));
        let outcome = match closing {
            Closing::Closed => return Came::Closed(applied == Some(true)),
            Closing::Refused => false,
            Closing::Applied(changed, item) => {
                if changed {
                    carry_out(book, &item, None, self.config);
                }
                true
            }
        };
        book.verbs.iter_mut().filter(|v| v.verb.number == u64::from(number)).for_each(|v| v.applied = Some(outcome));
        Came::Closed(outcome)
    }

    fn replay(&mut self, book: &mut BookJob, risk: bool, now: Moment) -> Came {
        let Some(item) = book.working().cloned() else { return Came::No };
        let replay = Replay {
            item: item.id,
            deadline_at: at(self.config.end),
            actor: "ada".to_owned(),
            reason: "asked".to_owned(),
            accept_duplicate_risk: risk,
            dry_run: false,
            at: now,
        };
        if review::open(&item, "replay").is_err() || review::check(&item, &book.row, &replay).is_err() {
            return Came::No;
        }
        let generation = book.row.generation + 1;
        review::raise(&mut book.row, &replay, generation);
        book.working_mut().expect("it was there").status = ItemStatus::Replaying;
        Came::Done
    }
}

/// Whether the job is the dead letter that its open item stands for.
fn open_dead_letter(book: &BookJob) -> bool {
    let open = book.working().filter(|item| review::open(item, "an act").is_ok());
    open.is_some_and(|item| book.row.state == BookState::DeadLetter && book.row.generation == item.generation)
}

fn request(row: &Row, kind: Kind, (release, deadline): (u8, u8), now: Moment, alone_from: Moment) -> VerbRequest {
    let (actor, reason) = ("ada".to_owned(), "asked".to_owned());
    VerbRequest { key: row.job.key.clone(), verb: verb_of(kind, release, deadline), actor, reason, at: now, book_alone_from: alone_from }
}

/// The item's part of a transaction: inserted once for each generation, told again, resolved, withdrawn.
fn carry_out(book: &mut BookJob, fate: &ItemFate, record: Option<&Record>, config: Config) {
    match fate {
        ItemFate::Record => {
            let in_doubt = book.row.doubt.is_some();
            if config.has(Plant::UpsertedItems)
                && let Some(item) = book.items.last_mut()
            {
                (item.status, item.generation, item.in_doubt) = (ItemStatus::Open, book.row.generation, in_doubt);
                return;
            }
            if let Some(stands) = book.items.iter_mut().rev().find(|item| item.generation == book.row.generation) {
                stands.in_doubt = in_doubt;
                return;
            }
            if let Some(item) = book.working_mut() {
                item.status = ItemStatus::Resolved;
            }
            let number = u32::try_from(book.items.len() + 1).expect("few items");
            book.items.push(item(&book.row, number, in_doubt, record));
        }
        ItemFate::Resolve(_) => book.working_mut().into_iter().for_each(|item| item.status = ItemStatus::Resolved),
        ItemFate::Withdraw => book.working_mut().into_iter().for_each(|item| item.status = ItemStatus::Withdrawn),
        ItemFate::EndDoubt(_) => book.working_mut().into_iter().for_each(|item| item.in_doubt = false),
        ItemFate::Keep | ItemFate::Note(_) => {}
    }
}
