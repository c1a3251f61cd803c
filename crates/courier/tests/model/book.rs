//! The book and the review store: rows, items and verbs, moved by the product's judges; what the adapters do around them stands here.

mod entries;
mod rows;

use std::collections::HashMap;

use curfew_book::{EvidenceTaken, Row, Told};
use curfew_courier::first_version;
use curfew_domain::verb::NumberedVerb;
use curfew_domain::{Moment, Record};
use curfew_review::{Item, ItemStatus};

use crate::config::{Config, Said};
use crate::real::{Memo, Real, at};
use crate::world::Kind;

/// A verb's row.
#[derive(Clone, PartialEq, Debug)]
pub struct VerbRow {
    pub verb: NumberedVerb,
    /// `None`: open.
    pub applied: Option<bool>,
}

/// What the book holds of one job.
#[derive(Clone, PartialEq, Debug)]
pub struct BookJob {
    pub row: Row,
    pub items: Vec<Item>,
    pub verbs: Vec<VerbRow>,
}

impl BookJob {
    /// The item that is worked on.
    pub fn working(&self) -> Option<&Item> {
        self.items.iter().rev().find(|item| is_worked_on(item))
    }

    fn working_mut(&mut self) -> Option<&mut Item> {
        self.items.iter_mut().rev().find(|item| is_worked_on(item))
    }

    pub fn open_verbs(&self) -> impl Iterator<Item = u8> + '_ {
        self.verbs.iter().filter(|v| v.applied.is_none()).map(|v| u8::try_from(v.verb.number).expect("few verbs"))
    }

    pub fn verb(&self, number: u8) -> &VerbRow {
        self.verbs.iter().find(|v| v.verb.number == u64::from(number)).expect("a verb that was opened")
    }

    /// Takes out what nothing is decided by.
    fn level(&mut self) {
        let row = &mut self.row;
        row.open_verb = self.verbs.iter().find(|v| v.applied.is_none()).map(|v| v.verb.number);
        (row.attempts, row.replays) = (0, 0);
        (row.last, row.reason, row.receipt) = (None, None, None);
        row.history.clear();
        row.doubts.sort_unstable();
        for item in &mut self.items {
            (item.last, item.lease_ended_at, item.attempts) = (None, None, 0);
            item.notes.clear();
            item.diagnostic.clear();
        }
    }

    /// All that is left after levelling, as text.
    fn name(&self) -> String {
        let row = &self.row;
        let items: Vec<_> = self.items.iter().map(|i| (i.status, i.generation, i.in_doubt, i.number)).collect();
        let times = (row.job.release_at, row.job.deadline_at, row.job.content_revision);
        let doubts = (row.doubt, &row.window_doubts, &row.doubts);
        format!("{:?}", (row.state, row.generation, row.seen, row.ever_staged, times, doubts, items, &self.verbs))
    }
}

fn is_worked_on(item: &Item) -> bool {
    match item.status {
        ItemStatus::Open | ItemStatus::WaitingApproval | ItemStatus::Replaying => true,
        ItemStatus::Resolved | ItemStatus::Withdrawn => false,
    }
}

/// What is asked of the book; one transaction each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    Mark(u8),
    /// A record.
    Tell(u32),
    /// Generation, token, and what is known of it.
    Evidence(u8, u8, Said),
    /// Number, kind, and the ticks of a move.
    Open(u8, Kind, u8, u8),
    /// Number, and the record as the swap left it.
    Applied(u8, u32),
    Refused(u8),
    InTheBook(u8),
    /// Whether the risk of a duplicate is accepted.
    Replay(bool),
    Correct,
    SuppressItem,
    Resolve,
    /// Whether by the receipt of a token in doubt.
    TakeBack(u8),
}

/// What came of it, besides the row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    Done,
    /// Refused; nothing is written.
    No,
    Told(Told),
    Taken(EvidenceTaken),
    /// A verb's row is open.
    Open,
    /// Whether the verb stands applied.
    Closed(bool),
    /// The verb stays open.
    NotYet,
}

pub struct Books {
    all: Vec<BookJob>,
    numbers: HashMap<String, u32>,
    memo: Memo<(u32, Came)>,
    firsts: Memo<u32>,
}

impl Books {
    pub fn new(config: &Config) -> Self {
        let mut books = Self { all: Vec::new(), numbers: HashMap::new(), memo: Memo::default(), firsts: Memo::default() };
        books.number(BookJob { row: rows::planned(config), items: Vec::new(), verbs: Vec::new() });
        books
    }

    pub fn get(&self, number: u32) -> &BookJob {
        &self.all[number as usize]
    }

    fn number(&mut self, mut book: BookJob) -> u32 {
        book.level();
        let name = book.name();
        let fresh = u32::try_from(self.all.len()).expect("few rows");
        let number = *self.numbers.entry(name).or_insert(fresh);
        if number == fresh {
            self.all.push(book);
        }
        number
    }

    /// The same, its row having seen another version of the same generation.
    pub fn having_seen(&mut self, number: u32, version: u64) -> u32 {
        if self.get(number).row.seen.2 == version {
            return number;
        }
        let mut book = self.get(number).clone();
        book.row.seen.2 = version;
        self.number(book)
    }
}

impl Entry {
    fn code(self) -> u64 {
        let pack = |kind: u64, a: u64, b: u64, c: u64| kind << 56 | a << 48 | b << 40 | c;
        match self {
            Entry::Mark(g) => pack(1, g.into(), 0, 0),
            Entry::Tell(rec) => pack(2, 0, 0, rec.into()),
            Entry::Evidence(g, token, said) => pack(3, g.into(), token.into(), said as u64),
            Entry::Open(n, kind, release, deadline) => pack(4, n.into(), kind as u64, u64::from(release) | u64::from(deadline) << 8),
            Entry::Applied(n, rec) => pack(5, n.into(), 0, rec.into()),
            Entry::Refused(n) => pack(6, n.into(), 0, 0),
            Entry::InTheBook(n) => pack(7, n.into(), 0, 0),
            Entry::Replay(risk) => pack(8, risk.into(), 0, 0),
            Entry::Correct => pack(9, 0, 0, 0),
            Entry::SuppressItem => pack(10, 0, 0, 0),
            Entry::Resolve => pack(11, 0, 0, 0),
            Entry::TakeBack(g) => pack(12, g.into(), 0, 0),
        }
    }
}

impl Real {
    /// The first version of a row's record.
    pub fn first_version(&mut self, book: u32, now: Moment) -> Record {
        first_version(&self.books.get(book).row, &self.rulebook, 0, now).record
    }

    /// The same, by number, as staging reads it.
    pub fn first(&mut self, book: u32) -> u32 {
        if let Some(number) = self.books.firsts.get(&u128::from(book)) {
            return *number;
        }
        let record = self.first_version(book, at(0));
        let number = self.number(record, at(0));
        self.books.firsts.insert(book.into(), number);
        number
    }

    /// One transaction of the book.
    pub fn enter(&mut self, book: u32, entry: Entry, tick: u8) -> (u32, Came) {
        let key = u128::from(entry.code()) << 64 | u128::from(book) << 8 | u128::from(tick);
        if let Some(known) = self.books.memo.get(&key) {
            return *known;
        }
        let mut after = self.books.get(book).clone();
        let came = self.entered(&mut after, entry, at(tick));
        let number = if came == Came::No || came == Came::NotYet { book } else { self.books.number(after) };
        self.books.memo.insert(key, (number, came));
        (number, came)
    }
}
