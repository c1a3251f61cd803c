//! Random lives, told to two adapters: what each answers, and what both end with, is the same.
//!
//! What the rows must be is the judge's and proved against the model (`book/tests/model.rs`); here it is proved that no adapter loses,
//! mixes up or adds anything on the way in and out.

use std::collections::BTreeMap;

use curfew_book::conformance::given::{DATE, accepted, ask, door, in_doubt, job, mark, minutes, now, receipt, record, shards, story, token};
use curfew_book::{BookError, BookState, Evidence, EvidenceSource, Fate, Filter, OpenedVerb, Row, Story, VerbEnd};
use curfew_domain::job::Job;
use curfew_domain::outcome::Stage;
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::verb::Verb;
use curfew_domain::{JobId, Outcome, OutcomeClass, State};
use uuid::Uuid;

use super::Pair;
use crate::{Correction, Item, Replay, ReviewFilter};

const JOBS: u64 = 4;
const STEPS: u32 = 25;
/// Fewer times than this over all lives, and a kind of step proves little.
const EACH_AT_LEAST: u32 = 5;
/// Of them all.
const KINDS: usize = 11;

/// How often each kind of step took effect.
#[derive(Default, Debug)]
pub struct TookEffect(BTreeMap<String, u32>);

impl TookEffect {
    /// Asserts that every kind of step did something.
    pub fn check(&self) {
        assert!(self.0.len() == KINDS && self.0.values().all(|times| *times >= EACH_AT_LEAST), "every kind of step does something: {:?}", self.0);
    }
}

/// One seed's life, step by step the same in both, and all that can be read at its end.
pub async fn a_life_ends_the_same(a: &Pair, b: &Pair, seed: u64, took_effect: &mut TookEffect) {
    for pair in [a, b] {
        for n in 0..JOBS - 1 {
            accepted(&*pair.book, &one(n)).await;
        }
    }
    let mut dice = Dice(seed);
    let mut life = Vec::new();
    for _step in 0..STEPS {
        let step = step(&mut dice);
        let (one, two) = (take(a, &step).await, take(b, &step).await);
        assert_eq!(one, two, "seed {seed}, {step:?} after {life:?}");
        let kind = format!("{step:?}").split('(').next().unwrap_or_default().to_owned();
        *took_effect.0.entry(kind).or_default() += u32::from(!one.starts_with("error"));
        life.push(step);
    }
    assert_eq!(rows(a).await, rows(b).await, "seed {seed}: {life:?}");
    assert_eq!(items(a).await, items(b).await, "seed {seed}: {life:?}");
    for (what, one, two) in read(a).await.into_iter().zip(read(b).await).map(|((what, one), (_what, two))| (what, one, two)) {
        assert_eq!(one, two, "seed {seed}, {what}: {life:?}");
    }
}

/// One seed's life in one store, whatever it answers; `between` is called after each step, for faults.
pub async fn a_life(pair: &Pair, seed: u64, mut between: impl FnMut()) {
    let mut dice = Dice(seed);
    for n in 0..JOBS {
        take(pair, &Step::Accept(n)).await;
    }
    for _step in 0..STEPS {
        take(pair, &step(&mut dice)).await;
        between();
    }
}

/// What lists, gauges and walks answer.
async fn read(pair: &Pair) -> Vec<(&'static str, String)> {
    let (book, review) = (&pair.book, &pair.review);
    let trail = book.audit_list(None, 500).await.map(|page| page.items.into_iter().map(|e| (e.number, e.action, e.detail)).collect::<Vec<_>>());
    let keys: Vec<_> = (0..JOBS).map(|n| one(n).key).collect();
    vec![
        ("the day", words(book.day(DATE, None).await)),
        ("the day's staged rows", words(book.day_staged(DATE, None, None, 99).await)),
        ("open verbs", words(book.open_verbs(minutes(999), 99).await)),
        ("verbs", words(book.verbs_of(&keys).await)),
        ("open items", words(review.open_by_reason().await)),
        ("the oldest doubt", words(review.oldest_in_doubt().await)),
        ("the list", words(book.list(&Filter { limit: 99, ..Filter::default() }).await)),
        ("staged rows", words(book.staged_after(None, 99).await)),
        ("a shard's rows", words(book.rows_of(one(0).shard, BookState::Staged, minutes(999), None, 99).await)),
        ("the next release", words(book.next_release().await)),
        ("the plan", words(book.plan(&shards(), minutes(999), 99).await)),
        ("the trail", words(trail)),
    ]
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Job `n`, the same in both books.
fn one(n: u64) -> Job {
    let ms = 1_790_000_000_000 + u128::from(n);
    let id = JobId(Uuid::from_u128(ms << 80 | 7 << 76 | 8 << 60 | u128::from(n)));
    Job { id, ..job("acme", n) }
}

/// One thing that happens to a job, the same in both books.
#[derive(Clone, Debug)]
enum Step {
    Accept(u64),
    Mark(u64, u32),
    Settle(Vec<(u64, u32, u64, State, bool)>),
    Record(u64, u32, u64),
    Evidence(u64, u32, Option<u128>, bool),
    Verb(u64, Verb, Option<State>),
    Replay(u64),
    Correct(u64),
    Suppress(u64),
    Resolve(u64, bool),
    Note(u64),
}

/// Mostly the first: what comes of a later one ends the story of the earlier.
fn some_generation(dice: &mut Dice) -> u32 {
    [1, 1, 1, 1, 2, 3][dice.below(6) as usize]
}

fn step(dice: &mut Dice) -> Step {
    let (n, generation) = (dice.below(JOBS), some_generation(dice));
    let states = [State::Sent, State::DeadLetter, State::DeadLetter, State::Cancelled, State::Suppressed];
    match dice.below(18) {
        0 => Step::Accept(n),
        1 | 2 => Step::Mark(n, generation),
        3 => {
            let story = |dice: &mut Dice| {
                let state = states[dice.below(5) as usize];
                (dice.below(JOBS), some_generation(dice), 1 + dice.below(9), state, dice.below(2) == 0)
            };
            Step::Settle((0..=dice.below(3)).map(|_| story(dice)).collect())
        }
        4..=6 => Step::Record(n, generation, 1 + dice.below(9)),
        7 => Step::Evidence(n, generation, (dice.below(3) > 0).then(|| u128::from(generation)), dice.below(2) == 0),
        8 => {
            let verbs = [Verb::Cancel, Verb::Suppress, Verb::Move { release_at: minutes(90), deadline_at: minutes(150) }];
            let ends = [None, Some(State::Cancelled), Some(State::Suppressed), Some(State::Scheduled)];
            Step::Verb(n, verbs[dice.below(3) as usize].clone(), ends[dice.below(4) as usize])
        }
        9 | 10 => Step::Replay(n),
        11 | 12 => Step::Correct(n),
        13 => Step::Suppress(n),
        14 | 15 => Step::Resolve(n, dice.below(2) == 0),
        _rest => Step::Note(n),
    }
}

fn told(n: u64, generation: u32, version: u64, state: State, doubt: bool) -> Story {
    let mut told = match (state, doubt) {
        (State::DeadLetter, true) => in_doubt(&one(n), generation, version, token(u128::from(generation))),
        _plain => record(&one(n), generation, version, state),
    };
    told.doubts = if generation > 1 { vec![token(u128::from(generation) - 1)] } else { Vec::new() };
    story(told)
}

/// The words of an answer: what both must give.
fn words<T: std::fmt::Debug>(answer: Result<T, BookError>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error: {error}"),
    }
}

async fn open_item(pair: &Pair, n: u64) -> Uuid {
    let item = pair.review.open_item_of(&one(n).key).await;
    item.ok().flatten().map_or(Uuid::from_u128(9), |item| item.id)
}

async fn take(pair: &Pair, step: &Step) -> String {
    let (actor, at) = ("alice", minutes(100));
    match step.clone() {
        Step::Accept(n) => words(pair.book.accept(vec![one(n), other(n)], &door()).await),
        Step::Mark(n, generation) => words(pair.book.mark_staged(&[mark(&one(n).key, generation)]).await),
        Step::Settle(stories) => {
            let stories = stories.into_iter().map(|(n, generation, version, state, doubt)| told(n, generation, version, state, doubt));
            words(pair.book.settle(stories.collect(), now()).await)
        }
        Step::Record(n, generation, version) => {
            let dead = told(n, generation, version, State::DeadLetter, version % 2 == 0);
            words(pair.review.record(vec![dead], &BTreeMap::from([("permanent_failure".to_owned(), "support".to_owned())]), minutes(63)).await)
        }
        Step::Evidence(n, generation, about, accepted) => {
            let refused = Outcome::new(OutcomeClass::Permanent, Stage::Dot, "dot-refused", "554");
            let fate = if accepted { Fate::Accepted(receipt()) } else { Fate::NotAccepted(Box::new(refused)) };
            let (key, token) = (one(n).key, about.map(token));
            words(pair.book.evidence(Evidence { key, generation, token, fate, source: EvidenceSource::LateVerdict, at }).await)
        }
        Step::Verb(n, verb, end) => verbs(pair, n, verb, end).await,
        Step::Replay(n) => {
            let item = open_item(pair, n).await;
            let replay = Replay {
                item,
                deadline_at: minutes(200),
                actor: actor.to_owned(),
                reason: "again".to_owned(),
                accept_duplicate_risk: true,
                dry_run: false,
                at,
            };
            words(pair.review.replay(replay).await.map(|replayed| (replayed.generation, replayed.row)))
        }
        Step::Correct(n) => {
            let correction = Correction {
                item: open_item(pair, n).await,
                letter: Sealed::from_bytes(vec![9; 40]),
                recipient: (n % 2 == 0).then(|| (RecipientRef("ff".repeat(16)), "b…@e…".to_owned())),
                forget_pins: n % 2 == 1,
                actor: actor.to_owned(),
                reason: "a typo".to_owned(),
                at,
            };
            words(pair.review.correct(correction).await.map(alike))
        }
        Step::Suppress(n) => words(pair.review.suppress(open_item(pair, n).await, actor, "gone", at).await.map(alike)),
        Step::Resolve(n, by_receipt) => {
            let receipt = by_receipt.then_some("250 ok");
            words(pair.review.resolve(open_item(pair, n).await, receipt, actor, "seen", at).await.map(alike))
        }
        Step::Note(n) => words(pair.review.note(open_item(pair, n).await, "called", actor, at).await.map(alike)),
    }
}

/// The same key with other content.
fn other(n: u64) -> Job {
    let mut other = one(n);
    other.fingerprints.insert("to".to_owned(), "another".to_owned());
    other
}

async fn verbs(pair: &Pair, n: u64, verb: Verb, end: Option<State>) -> String {
    let opened = pair.book.open_verb(ask(&one(n).key, verb)).await;
    let Ok(OpenedVerb::Open(verb, row)) = &opened else {
        return words(opened);
    };
    let end = match end {
        None => VerbEnd::InTheBook,
        Some(state) => {
            let mut swapped = record(&one(n), row.generation, row.seen.2 + 1, state);
            swapped.verbs = vec![verb.number];
            VerbEnd::Applied(Box::new(swapped))
        }
    };
    let closed = pair.book.close_verb(verb.number, end, minutes(101)).await;
    format!("{} then {}", words(opened), words(closed))
}

/// Without what each adapter draws for itself.
fn alike(mut item: Item) -> Item {
    item.id = Uuid::nil();
    item.replay_of = item.replay_of.map(|_| Uuid::nil());
    item
}

async fn rows(pair: &Pair) -> Vec<Option<Row>> {
    let mut rows = Vec::new();
    for n in 0..JOBS {
        rows.push(pair.book.by_key(&one(n).key).await.expect("the book answers"));
    }
    rows
}

async fn items(pair: &Pair) -> Vec<Item> {
    let page = pair.review.list(&ReviewFilter { limit: 500, ..ReviewFilter::default() }).await.expect("the store answers");
    page.items.into_iter().map(alike).collect()
}
