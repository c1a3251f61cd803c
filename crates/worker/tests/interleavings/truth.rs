//! What a provider and the people know, beside the stores: which token made a mail, which doubts a person accepted, what callers were told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use curfew_book::{BookState, Row};
use curfew_domain::verb::Verb;
use curfew_domain::{Key, Moment, Record, Token};

/// What became of a token at the provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// A mail.
    Accepted,
    /// Recognised by its key: the mail that was there already.
    Duplicate,
    /// Refused, and the worker heard it.
    Refused,
    /// Not accepted, and nobody on our side heard it.
    Lost,
}

/// One job's truth.
#[derive(Clone, Default, Debug)]
pub struct Truth {
    pub tokens: Vec<(Token, Moment, Fate)>,
    /// Doubts over which an operator replayed, knowing the risk.
    pub accepted_risk: BTreeSet<Token>,
    /// Cancels and suppressions that were answered as applied.
    pub ended: bool,
    /// The last move that was answered as applied, with its generation.
    pub moved: Option<(u32, Moment, Moment)>,
    /// Moves that were asked for.
    pub moves_begun: u32,
    /// Verbs whose answer is unknown, or was "applied".
    pub may_have_ended: bool,
    /// A person ended the job or closed its item over whatever was in doubt.
    pub closed_by_person: bool,
}

/// All jobs' truths.
#[derive(Default)]
pub struct Truths(Mutex<BTreeMap<Key, Truth>>);

impl Truths {
    pub fn of(&self, key: &Key) -> Truth {
        self.0.lock().expect("a test").get(key).cloned().unwrap_or_default()
    }

    pub fn with(&self, key: &Key, change: impl FnOnce(&mut Truth)) {
        change(self.0.lock().expect("a test").entry(key.clone()).or_default());
    }

    /// A replay was committed.
    pub fn replayed(&self, row: &Row) {
        self.with(&row.job.key, |truth| {
            truth.accepted_risk.extend(row.doubts.iter().chain(&row.window_doubts).chain(&row.doubt));
            truth.moved = None;
        });
    }

    /// The end marker leaves: what must hold at this very moment (I1, I2, I5, I6); then what the provider makes of it.
    pub fn marker(&self, record: &Record, row: &Row, token: Token, fate: Fate, window: Option<Duration>, now: Moment) -> Result<Fate, String> {
        let mut truth = self.of(&record.key);
        let open = |f: Fate| matches!(f, Fate::Accepted | Fate::Duplicate | Fate::Lost);
        let remembers = |at: &Moment| window.is_some_and(|window| now < at.plus(window));
        for (other, at, fate) in truth.tokens.iter().filter(|(_, _, f)| open(*f)) {
            if !remembers(at) && !truth.accepted_risk.contains(other) {
                return Err(format!("I1: a second handoff while {other:?} is {fate:?}"));
            }
            if *other == token {
                return Err("I1: one token twice".to_owned());
            }
        }
        if now >= record.deadline_at {
            return Err("I2: late".to_owned());
        }
        if now < record.release_at {
            return Err("I2: early".to_owned());
        }
        if truth.ended {
            return Err("I5: a cancel was answered as applied".to_owned());
        }
        if let Some((_, release, deadline)) = truth.moved.filter(|(generation, _, _)| *generation == record.generation)
            && (now < release || now >= deadline)
        {
            return Err("I5: a move was answered as applied".to_owned());
        }
        if matches!(row.state, BookState::Sent | BookState::Cancelled | BookState::Suppressed) {
            return Err(format!("I6: the book says {}", row.state.word()));
        }
        let there = truth.tokens.iter().any(|(_, at, f)| *f == Fate::Accepted && remembers(at));
        let fate = if fate == Fate::Accepted && there { Fate::Duplicate } else { fate };
        truth.tokens.push((token, now, fate));
        self.0.lock().expect("a test").insert(record.key.clone(), truth);
        Ok(fate)
    }

    /// A verb was answered.
    pub fn answered(&self, key: &Key, verb: &Verb, generation: u32) {
        self.with(key, |truth| match verb {
            Verb::Cancel | Verb::Suppress => truth.ended = true,
            Verb::Move { release_at, deadline_at } => truth.moved = Some((generation, *release_at, *deadline_at)),
        });
    }
}

impl Truth {
    /// The provider told what became of the job.
    pub fn provider_spoke(&mut self) {
        for (_, _, fate) in self.tokens.iter_mut().filter(|(_, _, fate)| *fate == Fate::Lost) {
            *fate = Fate::Refused;
        }
    }

    /// How many mails were made.
    pub fn mails(&self) -> usize {
        self.tokens.iter().filter(|(_, _, fate)| *fate == Fate::Accepted).count()
    }
}
