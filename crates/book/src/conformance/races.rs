//! Orders that nobody controls.

use curfew_domain::verb::Verb;
use curfew_domain::{Record, State};
use futures::future::join;

use super::Bench;
use super::given::{in_doubt, job, minutes, now, record, staged, story, token};
use super::stories::row;
use super::verbs::opened;
use crate::{BookState, Row, Story, Told, VerbEnd};

/// A cancel that was swapped and the story that settles it end in one row, whoever comes first or both at once.
pub async fn cancel_and_settle_agree_in_either_order(bench: &dyn Bench) {
    let book = bench.empty().await;
    for n in 0..3 {
        let one = job("acme", n);
        staged(&*book, &one).await;
        let verb = opened(&*book, &one.key, Verb::Cancel).await;
        let mut cancelled = record(&one, 1, 4, State::Cancelled);
        cancelled.verbs = vec![verb.number];
        let settle = book.settle(vec![story(cancelled.clone())], now());
        let close = book.close_verb(verb.number, VerbEnd::Applied(Box::new(cancelled)), now());
        let (told, applied) = match n {
            0 => (settle.await, close.await),
            1 => {
                let applied = close.await;
                (settle.await, applied)
            }
            _both => join(settle, close).await,
        };
        assert_eq!(told.expect("the book answers"), [Told::Written], "order {n}");
        assert!(applied.expect("the book answers"), "order {n}");
        let stands = row(&*book, &one.key).await;
        assert_eq!((stands.state, stands.seen, stands.open_verb), (BookState::Cancelled, (1, 0, 4), None), "order {n}");
    }
}

/// Whatever the order, and however often a story is repeated, the row is the one that the order of versions makes.
pub async fn stories_in_any_order_make_the_same_row(bench: &dyn Bench, seed: u64) {
    let book = bench.empty().await;
    let mut dice = Dice(seed);
    for n in 0..60 {
        let (sorted, shuffled) = (job("sorted", n), job("shuffled", n));
        staged(&*book, &sorted).await;
        staged(&*book, &shuffled).await;
        let chain = chain(&mut dice, &record(&sorted, 1, 1, State::Scheduled));
        for told in &chain {
            book.settle(vec![story(told.clone())], now()).await.expect("the book answers");
        }
        let mut order: Vec<Story> =
            chain.iter().chain(&chain).map(|r| story(Record { key: shuffled.key.clone(), id: shuffled.id, ..r.clone() })).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, dice.below(i + 1));
        }
        while !order.is_empty() {
            let batch = order.split_off(order.len() - 1 - dice.below(order.len().min(3)));
            book.settle(batch, now()).await.expect("the book answers");
        }
        let (expected, found) = (row(&*book, &sorted.key).await, row(&*book, &shuffled.key).await);
        assert_eq!(Row { job: expected.job.clone(), ..found }, expected, "seed {seed}, job {n}");
    }
}

/// The ended versions of one record, as a ledger may tell them: dead letters in doubt or not, at last perhaps another end.
fn chain(dice: &mut Dice, first: &Record) -> Vec<Record> {
    let mut one = job("sorted", 0);
    (one.key, one.id) = (first.key.clone(), first.id);
    let mut version = 2 + dice.below(5) as u64;
    let mut chain = Vec::new();
    for _dead in 0..dice.below(4) {
        let mut dead = if dice.below(2) == 0 { in_doubt(&one, 1, version, token(1)) } else { record(&one, 1, version, State::DeadLetter) };
        dead.doubts = vec![token(9)];
        dead.attempts = 1 + dice.below(3) as u32;
        dead.release_at = minutes(60 + dice.below(5) as u64);
        chain.push(dead);
        version += 1 + dice.below(3) as u64;
    }
    let end = match dice.below(if chain.is_empty() { 3 } else { 2 }) {
        0 => State::Sent,
        1 => State::DeadLetter,
        _waiting => [State::Cancelled, State::Suppressed][dice.below(2)],
    };
    let mut last = record(&one, 1, version, end);
    last.doubts = vec![token(9)];
    chain.push(last);
    chain
}

/// A seeded generator (SplitMix64): the suite draws no randomness of its own.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}
