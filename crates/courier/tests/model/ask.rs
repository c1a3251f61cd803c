//! The model's own moves of a record, each one event of the product's; asked once, remembered.

use std::time::Duration;

use curfew_domain::outcome::{Outcome, Receipt, Stage};
use curfew_domain::record::WaitingFor;
use curfew_domain::transition::{Assertion, BookStory, Change, Event, Index, Letter, Verdict, counters, timer, transition};
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Moment, OutcomeClass, Reason, Record, Refusal, State};

use crate::config::{Plant, Said};
use crate::real::{Answer, Real, at, worker};
use crate::seen;
use crate::world::{Kind, token};

pub const LEASE: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(10);

/// What is asked of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    Release,
    Claim(usize),
    Limited,
    Renew(usize),
    Intent(usize, u8),
    Prepared(usize, Said),
    Verdict(u8, Said),
    GiveBack(usize),
    LeaseOver,
    Deadline,
    Strike,
    /// Number, generation, kind, and for a move the ticks of release and deadline.
    Verb(u8, u8, Kind, u8, u8),
    Suppressed,
    Closed,
    /// Generation and token.
    Receipt(u8, u8),
    /// The worker's record and its token.
    Held(u32, u8),
    Doubt(u8, u8),
    /// Whether somebody's lease may run.
    RolledBack(bool),
    /// A story of the book's, by number.
    BookWins(u32),
    MovedInBook(u8, u8),
    SentIn(u8),
    ClaimDropped,
}

impl Ask {
    fn code(self) -> u64 {
        let pack = |kind: u64, a: u64, b: u64, c: u64| kind << 56 | a << 48 | b << 40 | c;
        match self {
            Ask::Release => pack(1, 0, 0, 0),
            Ask::Claim(w) => pack(2, w as u64, 0, 0),
            Ask::Limited => pack(3, 0, 0, 0),
            Ask::Renew(w) => pack(4, w as u64, 0, 0),
            Ask::Intent(w, token) => pack(5, w as u64, token.into(), 0),
            Ask::Prepared(w, said) => pack(6, w as u64, said as u64, 0),
            Ask::Verdict(token, said) => pack(7, token.into(), said as u64, 0),
            Ask::GiveBack(w) => pack(8, w as u64, 0, 0),
            Ask::LeaseOver => pack(9, 0, 0, 0),
            Ask::Deadline => pack(10, 0, 0, 0),
            Ask::Strike => pack(11, 0, 0, 0),
            Ask::Verb(n, g, kind, release, deadline) => {
                pack(12, n.into(), g.into(), kind as u64 | u64::from(release) << 8 | u64::from(deadline) << 16)
            }
            Ask::Suppressed => pack(13, 0, 0, 0),
            Ask::Closed => pack(14, 0, 0, 0),
            Ask::Receipt(g, token) => pack(15, g.into(), token.into(), 0),
            Ask::Held(rec, token) => pack(16, token.into(), 0, rec.into()),
            Ask::Doubt(g, token) => pack(17, g.into(), token.into(), 0),
            Ask::RolledBack(waits) => pack(18, waits.into(), 0, 0),
            Ask::BookWins(story) => pack(19, 0, 0, story.into()),
            Ask::MovedInBook(release, deadline) => pack(20, release.into(), deadline.into(), 0),
            Ask::SentIn(g) => pack(21, g.into(), 0, 0),
            Ask::ClaimDropped => pack(22, 0, 0, 0),
        }
    }
}

/// The verb of a kind.
pub fn verb_of(kind: Kind, release: u8, deadline: u8) -> Verb {
    match kind {
        Kind::Cancel => Verb::Cancel,
        Kind::Suppress => Verb::Suppress,
        Kind::Move => Verb::Move { release_at: at(release), deadline_at: at(deadline) },
        Kind::None => unreachable!("no verb is asked for"),
    }
}

/// What an attempt, or a provider, says.
pub fn outcome(said: Said) -> Outcome {
    let of = |class, stage, rule| Outcome::new(class, stage, rule, "");
    match said {
        Said::Accepted => Outcome { receipt: Some(receipt(at(0))), ..of(OutcomeClass::Accepted, Stage::Dot, "accepted") },
        Said::Transient => of(OutcomeClass::Transient, Stage::Rcpt, "rcpt-transient"),
        Said::Throttled => of(OutcomeClass::Throttled, Stage::Mail, "mail-throttled"),
        Said::Permanent => of(OutcomeClass::Permanent, Stage::Rcpt, "rcpt-unknown-user"),
        Said::Listed => of(OutcomeClass::Suppressed, Stage::Rcpt, "rcpt-listed"),
        Said::Configuration => of(OutcomeClass::Configuration, Stage::Auth, "auth-refused"),
        Said::ArtifactMissing => Outcome { cause: Some(Reason::ArtifactMissing), ..of(OutcomeClass::Transient, Stage::Artifact, "artifact-missing") },
        Said::NotHandedOff => of(OutcomeClass::Transient, Stage::Content, "last-look"),
        Said::Unknown => of(OutcomeClass::Ambiguous, Stage::Dot, "dot-lost"),
    }
}

pub fn receipt(now: Moment) -> Receipt {
    Receipt { at: now, code: 250, text: "ok".to_owned(), queue_id: None }
}

/// What `transition` says, and the names of what it was asked.
pub struct Asked {
    pub answer: Result<Change, Refusal>,
    event: &'static str,
    kind: Option<&'static str>,
}

impl Real {
    /// What `transition` answers, by the number of its answer.
    pub fn ask(&mut self, number: u32, ask: Ask, tick: u8) -> usize {
        let key = u128::from(ask.code()) << 64 | u128::from(number) << 8 | u128::from(tick);
        if let Some(answer) = self.answers.get(&key) {
            return *answer;
        }
        let record = self.rec(number).clone();
        let Asked { answer, event, kind } = self.asked(&record, ask, at(tick));
        match &answer {
            Ok(change) => {
                self.seen.note(event);
                self.seen.note(seen::state(&change.record.state));
                kind.into_iter().for_each(|kind| self.seen.note(kind));
            }
            Err(refusal) => self.seen.note(seen::refusal(refusal)),
        }
        let (malformed, guards) = match &answer {
            Ok(change) => (!well_formed(&record, change, ask, at(tick)), change.guards.clone()),
            Err(_refusal) => (false, Vec::new()),
        };
        let after = answer.map(|change| self.number(change.record, at(tick)));
        self.answered.push(Answer { after, guards, malformed });
        self.answers.insert(key, self.answered.len() - 1);
        self.answered.len() - 1
    }

    /// Asks the product.
    pub fn asked(&self, record: &Record, ask: Ask, now: Moment) -> Asked {
        let rules = self.rulebook.rules(record, 0.0);
        let (mut told, mut verb, mut held, mut story) = (outcome(Said::Transient), None, None, None);
        if let Ask::Prepared(_, said) | Ask::Verdict(_, said) = ask {
            told = outcome(said);
        }
        if let Ask::Verb(number, generation, kind, release, deadline) = ask {
            verb = Some(NumberedVerb { number: number.into(), generation: generation.into(), verb: verb_of(kind, release, deadline) });
        }
        if let Ask::Held(number, _) = ask {
            held = Some(self.rec(number).clone());
        }
        if let Ask::BookWins(number) = ask {
            story = Some(self.stories[number as usize].clone());
        }
        let receipt = receipt(now);
        let event = match ask {
            Ask::Release => Event::Release { claim_grace: GRACE },
            Ask::Claim(w) => Event::Claim { worker: worker(w), lease: LEASE },
            Ask::Limited => Event::Limited { by: WaitingFor::TenantInFlight, until: now },
            Ask::Renew(w) => Event::Renew { worker: worker(w), lease: LEASE },
            Ask::Intent(w, drawn) => Event::Intent { worker: worker(w), token: token(drawn), lease: LEASE, pins: Vec::new() },
            Ask::Prepared(w, _) => Event::Prepared { worker: worker(w), outcome: &told, rules, pins: Vec::new() },
            Ask::Verdict(drawn, said) => Event::Verdict { token: token(drawn), verdict: verdict(said, &told, &receipt), rules },
            Ask::GiveBack(w) => Event::GiveBack { worker: worker(w), waits_for: None, until: now },
            Ask::LeaseOver => Event::LeaseOver { rules },
            Ask::Deadline => Event::DeadlineReached,
            Ask::Strike => Event::Strike { until: now },
            Ask::Verb(..) => Event::Verb(verb.as_ref().expect("made above")),
            Ask::Suppressed => Event::RecipientSuppressed,
            Ask::Closed => Event::Closed,
            Ask::Receipt(g, drawn) => Event::Asserted { generation: g.into(), token: token(drawn), assertion: Assertion::Receipt(&receipt) },
            Ask::Held(_, drawn) => {
                let held = held.as_ref().expect("read above");
                Event::Asserted { generation: held.generation, token: token(drawn), assertion: Assertion::Handoff(held) }
            }
            Ask::Doubt(g, drawn) => Event::Asserted { generation: g.into(), token: token(drawn), assertion: Assertion::Unknown },
            Ask::RolledBack(waits) => Event::RolledBack { until: waits.then(|| now.plus(LEASE)) },
            Ask::BookWins(_) => Event::BookWins(story.as_ref().expect("read above")),
            Ask::MovedInBook(release, deadline) => Event::MovedInBook { release_at: at(release), deadline_at: at(deadline) },
            Ask::SentIn(g) => Event::SentInGeneration(g.into()),
            Ask::ClaimDropped => Event::ClaimDropped,
        };
        let kind = match &event {
            Event::Verdict { verdict, .. } => Some(seen::verdict(verdict)),
            Event::Asserted { assertion, .. } => Some(seen::assertion(assertion)),
            Event::Verb(numbered) => Some(seen::verb(&numbered.verb)),
            _no_kinds => None,
        };
        Asked { answer: transition(record, &event, now), event: seen::event(&event), kind }
    }

    /// A story by number.
    pub fn story(&mut self, story: BookStory) -> u32 {
        let known = self.stories.iter().position(|s| *s == story);
        let number = known.unwrap_or_else(|| {
            self.stories.push(story);
            self.stories.len() - 1
        });
        u32::try_from(number).expect("few stories")
    }

    /// The record that nobody's rules made: what a planted bug writes.
    pub fn planted(&mut self, number: u32, plant: Plant, tick: u8) -> u32 {
        self.edited(number, 5 << 32 | (plant as u64) << 8 | u64::from(tick), |r| {
            r.version += 1;
            (r.state, r.token, r.lease_until, r.worker, r.closed) = (State::Scheduled, None, None, None, false);
        })
    }
}

fn verdict<'a>(said: Said, told: &'a Outcome, receipt: &'a Receipt) -> Verdict<'a> {
    match said {
        Said::Accepted => Verdict::Accepted(receipt),
        Said::Unknown => Verdict::Unknown(told),
        Said::Transient | Said::Throttled | Said::Permanent | Said::Listed | Said::Configuration | Said::ArtifactMissing | Said::NotHandedOff => {
            Verdict::NotAccepted(told)
        }
    }
}

/// What D2 and P5 ask of every change: it owes something exactly where it has a timer, in the index of its errand, and says why it stands so.
fn well_formed(before: &Record, change: &Change, ask: Ask, now: Moment) -> bool {
    let record = &change.record;
    let owes = record.is_live();
    let index = match record.state {
        State::Scheduled | State::Queued | State::Claimed | State::Handoff => Index::Watch,
        State::DeadLetter => Index::Review,
        State::Sent | State::Cancelled | State::Suppressed => Index::Settle,
    };
    let timed = change.timer.map(|t| t.index) == owes.then_some(index) && owes == timer(record, Duration::ZERO, now).is_some();
    let lined = change.line.is_some() == (record.state == State::Scheduled);
    let expires = change.expires_at.is_some() == record.closed;
    let lettered = (change.letter == Letter::Delete) == record.state.is_terminal();
    let by_book = matches!(ask, Ask::BookWins(_));
    let explained = !record.state.is_terminal() || record.reason.is_some() || before.state.is_terminal() || by_book;
    let proven = record.state != State::Sent || record.receipt.is_some() || before.state.is_terminal() || by_book;
    let owned = matches!(record.state, State::Claimed | State::Handoff) == record.worker.is_some();
    let counted = counters(record).is_empty() == record.closed;
    let next = record.version > before.version && record.id == before.id && record.key == before.key;
    timed && lined && expires && lettered && explained && proven && owned && counted && next
}
