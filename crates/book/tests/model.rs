//! The judge against the abstract model: random lives of one row, told to both, end in the same book.
//!
//! `Model` is the book's part of the protocol's explicit-state model in its own small words (`story`, `W_EVID`, `X_LOOK`, `X_APPLY`), with
//! two clauses that the page has and the model leaves out: `sent` is final whatever comes, and an acceptance that was in doubt makes a
//! cancelled job `sent`.

use curfew_book::conformance::given::{ask, job, minutes, now, receipt, record, token};
use curfew_book::judge::{self, Closing, Opening};
use curfew_book::{BookState, Evidence, EvidenceSource, EvidenceTaken, Fate, Row, Story, VerbEnd};
use curfew_domain::outcome::Stage;
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Outcome, OutcomeClass, Record, State};

/// The model's row: state, generation, the story seen, the token in doubt and the earlier ones.
#[derive(Clone, PartialEq, Debug)]
struct Model {
    state: BookState,
    generation: u32,
    seen: (u32, u32, u64),
    doubt: Option<u128>,
    doubts: Vec<u128>,
}

impl Model {
    fn story(&mut self, told: &Record, doubt: Option<u128>) {
        let heard = (told.generation, told.incarnation, told.version);
        let ended = matches!(self.state, BookState::Sent | BookState::Cancelled);
        if self.state == BookState::Sent || ended && told.state != State::Sent {
            return;
        }
        let newer = heard > self.seen;
        let withdraw = told.state == State::Sent && told.generation < self.generation && self.state == BookState::Planned;
        if !newer && !withdraw {
            return;
        }
        if newer {
            self.seen = heard;
        }
        self.doubt = doubt;
        self.state = match told.state {
            State::Sent => BookState::Sent,
            State::Cancelled => BookState::Cancelled,
            State::DeadLetter => BookState::DeadLetter,
            State::Scheduled | State::Queued | State::Claimed | State::Handoff | State::Suppressed => panic!("not told here"),
        };
    }

    fn replay(&mut self) {
        self.doubts.extend(self.doubt.take());
        self.generation += 1;
        self.state = BookState::Planned;
        self.seen = (self.generation, 0, 0);
    }

    fn evidence(&mut self, generation: u32, about: u128, accepted: bool) -> EvidenceTaken {
        let (present, known) = (self.doubt == Some(about), self.doubts.contains(&about));
        match (self.state, accepted) {
            (BookState::DeadLetter | BookState::Cancelled, true) if present || known => {
                self.state = BookState::Sent;
                let front = self.doubt.take();
                self.doubts.extend(front);
                EvidenceTaken::Sent
            }
            (BookState::DeadLetter, false) if present => {
                self.doubt = None;
                EvidenceTaken::DoubtEnded
            }
            (BookState::DeadLetter, false) if known => {
                self.doubts.retain(|t| *t != about);
                EvidenceTaken::DoubtEnded
            }
            (BookState::Planned, true) if self.generation > generation || known => EvidenceTaken::AskLedger,
            (BookState::Staged, _either) => EvidenceTaken::AskLedger,
            (BookState::DeadLetter | BookState::Cancelled, true) => EvidenceTaken::Conflicting,
            _known => EvidenceTaken::Known,
        }
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn fresh() -> (Row, Model) {
    let row = Row {
        job: job("acme", 1),
        state: BookState::Planned,
        generation: 1,
        seen: (1, 0, 0),
        ever_staged: false,
        replays: 0,
        attempts: 0,
        last: None,
        reason: None,
        receipt: None,
        doubt: None,
        window_doubts: Vec::new(),
        doubts: Vec::new(),
        pins: Vec::new(),
        open_verb: None,
        history: Vec::new(),
    };
    let model = Model { state: row.state, generation: 1, seen: row.seen, doubt: None, doubts: Vec::new() };
    (row, model)
}

/// A story that a ledger could tell in some order: its generation was staged once, its version and token are its own.
fn told(dice: &mut Dice, model: &Model) -> (Record, Option<u128>) {
    let states = [State::Sent, State::DeadLetter, State::DeadLetter, State::Cancelled];
    let state = states[dice.below(4) as usize];
    let generation = 1 + dice.below(u64::from(model.generation)) as u32;
    let doubt = (state == State::DeadLetter && dice.below(2) == 0).then(|| u128::from(generation));
    let mut record = record(&job("acme", 1), generation, 1 + dice.below(6), state);
    record.incarnation = dice.below(2) as u32;
    record.token = doubt.map(token);
    (record, doubt)
}

fn step(dice: &mut Dice, row: &mut Row, model: &mut Model) -> String {
    match dice.below(6) {
        0 if row.state == BookState::Planned => {
            (row.state, row.ever_staged, model.state) = (BookState::Staged, true, BookState::Staged);
            "staged".to_owned()
        }
        1 if row.state == BookState::DeadLetter && row.generation < 4 => {
            row.doubts.extend(row.doubt.take());
            (row.generation, row.state) = (row.generation + 1, BookState::Planned);
            row.seen = (row.generation, 0, 0);
            model.replay();
            "replayed".to_owned()
        }
        2 => {
            let (generation, accepted) = (1 + dice.below(u64::from(row.generation)) as u32, dice.below(2) == 0);
            let about = u128::from(generation);
            let refused = Fate::NotAccepted(Box::new(Outcome::new(OutcomeClass::Permanent, Stage::Dot, "dot-refused", "554")));
            let fate = if accepted { Fate::Accepted(receipt()) } else { refused };
            let evidence = Evidence {
                key: row.job.key.clone(),
                generation,
                token: Some(token(about)),
                fate,
                source: EvidenceSource::LateVerdict,
                at: minutes(9),
            };
            let weighed = judge::weigh(row, row.doubt.is_some(), &evidence);
            assert_eq!(weighed.taken, model.evidence(generation, about, accepted), "evidence {generation} {accepted} on {model:?}");
            format!("evidence about {about}: {accepted}")
        }
        3 if matches!(row.state, BookState::DeadLetter | BookState::Sent | BookState::Cancelled) => {
            let opening = judge::ask(row, &ask(&row.job.key.clone(), Verb::Cancel));
            assert_eq!(matches!(opening, Opening::Applied(_)), model.state != BookState::Sent);
            if model.state == BookState::DeadLetter {
                model.state = BookState::Cancelled;
            }
            "cancelled in the book".to_owned()
        }
        4 if row.state == BookState::Staged => {
            let verb = NumberedVerb { number: 1, generation: row.generation, verb: Verb::Cancel };
            let record = record(&row.job.clone(), row.generation, 1 + dice.below(6), State::Cancelled);
            let closing = judge::close(row, &verb, None, &VerbEnd::Applied(Box::new(record.clone())), ("alice", now()));
            assert!(matches!(closing, Ok(Closing::Applied(..))));
            if (record.generation, record.incarnation, record.version) > model.seen {
                (model.state, model.seen) = (BookState::Cancelled, (record.generation, record.incarnation, record.version));
            }
            "cancelled in the ledger".to_owned()
        }
        _story => {
            let (record, doubt) = told(dice, model);
            let said = format!("{} g{} i{} v{}", record.state, record.generation, record.incarnation, record.version);
            model.story(&record, doubt);
            judge::tell(row, &Story { record, history: Vec::new() });
            said
        }
    }
}

#[test]
fn random_lives_end_as_the_model_says() {
    for seed in 0..20_000 {
        let mut dice = Dice(seed);
        let (mut row, mut model) = fresh();
        let mut life = Vec::new();
        for _step in 0..12 {
            life.push(step(&mut dice, &mut row, &mut model));
            let (mut doubts, mut expected): (Vec<_>, Vec<_>) = (row.doubts.clone(), model.doubts.iter().copied().map(token).collect());
            doubts.sort_unstable();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!((row.state, row.generation, row.seen), (model.state, model.generation, model.seen), "seed {seed}: {life:?}");
            assert_eq!((row.doubt, doubts), (model.doubt.map(token), expected), "seed {seed}: {life:?}");
        }
    }
}

/// Left open, it would keep the job from ever being staged.
#[test]
fn a_verb_of_an_earlier_generation_is_refused_where_the_job_is_planned_again() {
    let (mut row, _model) = fresh();
    (row.generation, row.seen) = (2, (2, 0, 0));
    let verb = |generation| NumberedVerb { number: 1, generation, verb: Verb::Cancel };
    assert_eq!(judge::close(&mut row, &verb(1), None, &VerbEnd::InTheBook, ("alice", now())).ok(), Some(Closing::Refused));
    assert!(judge::close(&mut row, &verb(2), None, &VerbEnd::InTheBook, ("alice", now())).is_err(), "this one is the ledger's");
}
