//! The witness: whose clock is wrong, where three can be compared. Pure, so that every case stands in a table.
//!
//! The book's clock is the witness between the ledger's and this process's own. A ledger's clock that is the odd one, or that jumped against
//! monotonic time, is distrusted until all agreed with it for half a minute. Another odd clock stops nothing: the work goes by the ledger's.
//!
//! Not promised: that two clocks that are wrong together are found out. Where nobody agrees, the ledger isn't believed either.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_ledger::clock::NodeClock;

/// Clocks that are further apart don't agree (DESIGN 4).
const APART: Duration = Duration::from_secs(2);
/// How long all must have agreed before a clock is trusted again (DESIGN 4).
const AGREE_FOR: Duration = Duration::from_secs(30);
/// Between two looks that are further apart nobody knows what was.
const LOOKS_APART_MAX: Duration = Duration::from_secs(5);

/// What clocks said at one moment, each in milliseconds ahead of this process's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// One node of the ledger.
    pub ledger_ms: i64,
    /// The book; `None` while it doesn't answer.
    pub book_ms: Option<i64>,
    /// How often the ledger's has jumped against monotonic time so far.
    pub jumps: u64,
}

/// Whose clock stands alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Odd {
    /// Nobody's: they agree, or each agrees with one at least.
    Nobody,
    /// The ledger's.
    Ledger,
    /// The book's.
    Book,
    /// This process's own.
    Own,
    /// No two agree.
    NoTwoAgree,
    /// The ledger's and our own don't agree, and the book doesn't answer.
    Unwitnessed,
}

/// Whether a node's clock may be worked by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// It may.
    Trusted,
    /// It jumped against monotonic time.
    Jumped,
    /// It is the odd one of three, or no two agree.
    Odd,
}

/// Whose clock is the odd one.
pub fn odd(seen: Seen) -> Odd {
    let agree = |a: i64, b: i64| Duration::from_millis(a.abs_diff(b)) <= APART;
    let Some(book) = seen.book_ms else {
        return if agree(seen.ledger_ms, 0) { Odd::Nobody } else { Odd::Unwitnessed };
    };
    match (agree(seen.ledger_ms, 0), agree(seen.ledger_ms, book), agree(book, 0)) {
        (true, false, false) => Odd::Book,
        (false, true, false) => Odd::Own,
        (false, false, true) => Odd::Ledger,
        (false, false, false) => Odd::NoTwoAgree,
        (true, true, true) | (true, true, false) | (true, false, true) | (false, true, true) => Odd::Nobody,
    }
}

/// What is known of one node's clock.
#[derive(Debug)]
pub struct Witness {
    word: Word,
    jumps: u64,
    looked: Option<Duration>,
    agree_since: Option<Duration>,
}

impl Default for Witness {
    fn default() -> Self {
        Self { word: Word::Trusted, jumps: 0, looked: None, agree_since: None }
    }
}

impl Witness {
    /// Looks, at `at` by monotonic time; whether the node's clock may be worked by from here on.
    pub fn look(&mut self, at: Duration, seen: Seen) -> Word {
        if self.looked.is_some_and(|before| at.saturating_sub(before) > LOOKS_APART_MAX) {
            self.agree_since = None;
        }
        self.looked = Some(at);
        if seen.jumps != self.jumps {
            (self.jumps, self.word, self.agree_since) = (seen.jumps, Word::Jumped, None);
        }
        match odd(seen) {
            Odd::Ledger | Odd::NoTwoAgree => (self.word, self.agree_since) = (Word::Odd, None),
            // Without a witness nobody knows who is right: what was trusted goes on, what wasn't stays.
            Odd::Unwitnessed => self.agree_since = None,
            Odd::Nobody | Odd::Book | Odd::Own => {
                let since = *self.agree_since.get_or_insert(at);
                if at.saturating_sub(since) >= AGREE_FOR {
                    self.word = Word::Trusted;
                }
            }
        }
        self.word
    }
}

/// The witnesses of all of a ledger's nodes.
#[derive(Debug, Default)]
pub struct Witnesses(BTreeMap<String, Witness>);

/// What a look at one node came to.
#[derive(Debug)]
pub struct Looked<'a> {
    /// The node's clock, as it was given.
    pub clock: &'a NodeClock,
    /// What its witness saw.
    pub seen: Seen,
    /// Whether it may be worked by.
    pub word: Word,
    /// Whether that is another word than before.
    pub is_new: bool,
}

impl Witnesses {
    /// Looks at each node's clock, at `at` by monotonic time. Of one that doesn't answer the last word stands; one that serves nothing any more
    /// isn't among `clocks`, and is forgotten.
    pub fn look<'a>(&mut self, at: Duration, clocks: &'a [NodeClock], book_ms: Option<i64>) -> Vec<Looked<'a>> {
        self.0.retain(|name, _| clocks.iter().any(|clock| clock.name == *name));
        let looked = clocks.iter().map(|clock| {
            let seen = Seen { ledger_ms: clock.ahead_ms, book_ms, jumps: clock.jumps };
            let witness = self.0.entry(clock.name.clone()).or_default();
            let before = witness.word;
            let word = if clock.answered { witness.look(at, seen) } else { before };
            Looked { clock, seen, word, is_new: word != before }
        });
        looked.collect()
    }
}

#[cfg(test)]
mod tests {
    use curfew_domain::Shard;

    use super::*;

    fn node(name: &str, shard: u8, ahead_ms: i64, answered: bool) -> NodeClock {
        NodeClock { name: name.to_owned(), shards: vec![Shard(shard)], ahead_ms, jumps: 0, answered }
    }

    /// One timeout of a node whose clock is wrong must not set it to work.
    #[test]
    fn a_node_that_does_not_answer_keeps_its_word_until_it_serves_nothing() {
        let mut witnesses = Witnesses::default();
        let mut words = |at: u64, clocks: &[NodeClock]| -> Vec<(u8, Word)> {
            let looked = witnesses.look(Duration::from_secs(at), clocks, Some(0));
            looked.iter().map(|looked| (looked.clock.shards[0].0, looked.word)).collect()
        };
        let well = node("b", 2, 0, true);
        assert_eq!(words(0, &[node("a", 1, 600_000, true), well.clone()]), [(1, Word::Odd), (2, Word::Trusted)]);
        assert_eq!(words(1, &[node("a", 1, 600_000, false), well.clone()]), [(1, Word::Odd), (2, Word::Trusted)]);
        assert_eq!(words(60, &[node("a", 1, 0, false), well.clone()]), [(1, Word::Odd), (2, Word::Trusted)], "nobody saw that it agrees");
        assert_eq!(words(61, &[node("a", 1, 0, true), well.clone()]), [(1, Word::Odd), (2, Word::Trusted)]);
        assert_eq!(words(62, std::slice::from_ref(&well)), [(2, Word::Trusted)]);
        assert_eq!(words(63, &[node("a", 1, 0, true), well]), [(1, Word::Trusted), (2, Word::Trusted)], "forgotten with its last shard");
    }

    fn seen(ledger_s: f64, book_s: Option<f64>) -> Seen {
        let ms = |seconds: f64| (seconds * 1000.0) as i64;
        Seen { ledger_ms: ms(ledger_s), book_ms: book_s.map(ms), jumps: 0 }
    }

    #[test]
    fn who_is_odd() {
        let table = "
            ledger | book  | odd
            0      | 0     | Nobody
            2      | 0     | Nobody
            2.001  | 0     | Ledger
            -2.001 | 0     | Ledger
            600    | 0     | Ledger
            600    | 1     | Ledger
            0      | 600   | Book
            0      | -600  | Book
            600    | 600   | Own
            -600   | -599  | Own
            1.5    | 3     | Nobody
            3      | 1.5   | Nobody
            -1.5   | 1.5   | Nobody
            600    | -600  | NoTwoAgree
            600    | 300   | NoTwoAgree
            0      | none  | Nobody
            2      | none  | Nobody
            600    | none  | Unwitnessed
            -3     | none  | Unwitnessed
        ";
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()).skip(1) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let found = odd(seen(cells[0].parse().expect("seconds"), cells[1].parse().ok()));
            assert_eq!(format!("{found:?}"), cells[2], "{line}");
        }
    }

    /// A look each second; the word after each.
    fn words(looks: &[(u64, Seen)]) -> Vec<(u64, Word)> {
        let mut witness = Witness::default();
        let mut told = Vec::new();
        let mut at = 0;
        for (seconds, seen) in looks {
            for _ in 0..*seconds {
                let word = witness.look(Duration::from_secs(at), *seen);
                if told.last().is_none_or(|(_, last)| *last != word) {
                    told.push((at, word));
                }
                at += 1;
            }
        }
        told
    }

    #[test]
    fn an_odd_ledger_stands_still_until_thirty_seconds_of_agreement() {
        let (well, off) = (seen(0.0, Some(0.0)), seen(600.0, Some(0.0)));
        assert_eq!(words(&[(10, well), (60, off), (60, well)]), [(0, Word::Trusted), (10, Word::Odd), (100, Word::Trusted)]);
        assert_eq!(words(&[(1, off), (29, well), (1, off), (29, well)]), [(0, Word::Odd)], "what is interrupted begins anew");
    }

    #[test]
    fn a_jump_stands_still_even_where_all_agree_after_it() {
        let jumped = |seen: Seen| Seen { jumps: 1, ..seen };
        let (well, with_us) = (seen(0.0, Some(0.0)), jumped(seen(0.0, Some(0.0))));
        assert_eq!(words(&[(5, well), (60, with_us)]), [(0, Word::Trusted), (5, Word::Jumped), (35, Word::Trusted)]);
        let back = Seen { jumps: 2, ..well };
        let away = jumped(seen(600.0, Some(0.0)));
        assert_eq!(words(&[(5, well), (5, away), (60, back)]), [(0, Word::Trusted), (5, Word::Odd), (10, Word::Jumped), (40, Word::Trusted)]);
    }

    #[test]
    fn another_odd_clock_stops_nothing() {
        let (book, own) = (seen(0.0, Some(600.0)), seen(600.0, Some(600.0)));
        assert_eq!(words(&[(60, book), (60, own)]), [(0, Word::Trusted)]);
    }

    #[test]
    fn without_a_witness_a_word_stands() {
        let (well, off, unwitnessed) = (seen(0.0, Some(0.0)), seen(600.0, Some(0.0)), seen(600.0, None));
        assert_eq!(words(&[(5, well), (120, unwitnessed)]), [(0, Word::Trusted)]);
        assert_eq!(words(&[(5, off), (120, unwitnessed)]), [(0, Word::Odd)]);
    }

    #[test]
    fn agreement_that_nobody_saw_does_not_count() {
        let mut witness = Witness::default();
        assert_eq!(witness.look(Duration::ZERO, seen(600.0, Some(0.0))), Word::Odd);
        assert_eq!(witness.look(Duration::from_secs(1), seen(0.0, Some(0.0))), Word::Odd);
        assert_eq!(witness.look(Duration::from_secs(60), seen(0.0, Some(0.0))), Word::Odd);
    }
}
