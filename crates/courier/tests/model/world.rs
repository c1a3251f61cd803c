//! A state of the world: what the stores hold, what each process has in hand, what the provider knows. Records and rows are real ones, by number.

use curfew_domain::Token;
use uuid::Uuid;

/// Handoffs of one job, in all.
pub const TOKENS: usize = 8;
pub const JOBS: usize = 2;

/// What the provider knows of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Truth {
    /// Never drawn.
    #[default]
    None,
    /// Its intent is asked for, no end marker has left.
    Intent,
    /// The provider accepted.
    Accepted,
    /// The provider refused.
    Refused,
    /// It didn't accept, and nobody can know.
    Lost,
    /// No end marker left, and none will.
    Not,
}

/// The number of every token of a generation at once.
pub const ANY: u8 = u8::MAX;

/// A token by its number in its job.
pub fn token(number: u8) -> Token {
    if number == ANY { Token::ANY } else { Token(Uuid::from_u128(1 + u128::from(number))) }
}

/// The bit of a token in a mask; none for one that isn't a number.
pub fn bit(token: Token) -> u16 {
    match token.0.as_u128() {
        n @ 1..=8 => 1 << (n - 1),
        _any => 0,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    #[default]
    None,
    Cancel,
    Suppress,
    Move,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Job {
    /// The ledger's record; 0: none.
    pub rec: u32,
    /// The book's row, items and verbs.
    pub book: u32,
    pub truth: [Truth; TOKENS],
    /// Tokens drawn.
    pub drawn: u8,
    /// The generation of each, two bits.
    pub generations: u16,
    /// A valid wake-up exists.
    pub wake: bool,
    /// The recipient is on a suppressions list.
    pub listed: bool,
    /// Doubts that an operator's replay accepted, and that a verb put aside.
    pub covered: u16,
    pub excused: u16,
    /// The verb answered with success last, its argument, its generation.
    pub told: (Kind, u8, u8),
    /// Verbs, by number, that took effect in the ledger.
    pub effects: u8,
    /// The generation whose replay was withdrawn.
    pub withdrawn: u8,
}

impl Job {
    /// The generation of a token.
    pub fn generation_of(&self, token: u8) -> u8 {
        (self.generations >> (2 * token) & 3) as u8
    }

    pub fn words(&self) -> [u64; 4] {
        let flags = u64::from(self.drawn) | u64::from(self.wake) << 8 | u64::from(self.listed) << 9;
        let masks = u64::from(self.covered) << 16 | u64::from(self.excused) << 32 | u64::from(self.effects) << 48 | u64::from(self.withdrawn) << 56;
        let told = self.told.0 as u64 | u64::from(self.told.1) << 8 | u64::from(self.told.2) << 16;
        [
            u64::from(self.rec) | u64::from(self.book) << 32,
            self.truth.iter().fold(0, |all, truth| all << 8 | *truth as u64),
            flags | masks,
            told | u64::from(self.generations) << 24,
        ]
    }

    /// A token is drawn.
    pub fn draw(&mut self, generation: u8) {
        self.truth[usize::from(self.drawn)] = Truth::Intent;
        self.generations |= u16::from(generation & 3) << (2 * self.drawn);
        self.drawn += 1;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Step {
    #[default]
    Idle,
    /// Under a lease, nothing handed over.
    Claimed,
    /// The intent is written, the end marker hasn't left.
    Handing,
    /// It knows what became of its token, nobody was told.
    Verdict,
    /// The ledger doesn't take it; it goes to the book.
    Evidence,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Worker {
    pub step: Step,
    pub job: u8,
    /// The version that it wrote last.
    pub rec: u32,
    pub token: u8,
    /// Of the token that it reports.
    pub generation: u8,
    /// What it knows, by number in `Said::ALL`.
    pub said: u8,
    /// The incarnation in which it claimed.
    pub incarnation: u8,
    /// Whether it reported to the recovery: 1 did, 2 is silent.
    pub reported: u8,
    /// Tokens whose receipts, and whose open handoffs, it remembers for a recovery.
    pub receipts: u16,
    pub open: u16,
}

impl Worker {
    /// By what it is doing; the idle one last.
    pub fn order(&self) -> (bool, u64, u64) {
        let (what, rest) = self.words();
        (self.step == Step::Idle, what >> 32, rest)
    }

    fn words(&self) -> (u64, u64) {
        let what =
            u64::from(self.rec) | (self.step as u64) << 32 | u64::from(self.job) << 40 | u64::from(self.token) << 48 | u64::from(self.said) << 56;
        let rest = u64::from(self.receipts)
            | u64::from(self.open) << 16
            | u64::from(self.incarnation) << 32
            | u64::from(self.reported) << 40
            | u64::from(self.generation) << 48;
        (what, rest)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Errand {
    #[default]
    Idle,
    /// The row is read; the record is to be created.
    Create,
    Mark,
    /// The record is read; the book is to be told.
    Tell,
    Close,
    /// Published; the swap to `queued` is to come.
    Publish,
    /// A verb: look at the row, stage it, mark it, swap, close the verb's row.
    Look,
    StageFirst,
    MarkFirst,
    Swap,
    Apply,
    Refuse,
    InBook,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Courier {
    pub errand: Errand,
    pub job: u8,
    /// The record to create, to tell or to close.
    pub rec: u32,
    pub generation: u8,
    pub verb: u8,
    /// Whether the record ended after this one read the row; then, once its tombstone is gone, the read is older than 60 s.
    pub before_end: bool,
    pub old: bool,
    /// The answer in hand.
    pub applied: bool,
    pub incarnation: u8,
}

/// Where a lost tail stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    #[default]
    Normal,
    /// What survives is on the disk; the rest will be lost.
    Saved,
    /// The barrier stands.
    Down,
    Recovering,
    Recovered,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct World {
    pub tick: u8,
    pub jobs: [Job; JOBS],
    pub workers: [Worker; 2],
    pub schedulers: [Courier; 2],
    pub consumers: [Courier; 2],
    pub operator: Courier,
    pub acts: u8,
    pub verbs: u8,
    pub frees: u8,
    pub phase: Phase,
    pub saved: u32,
    pub incarnation: u8,
    pub worker_missing: bool,
    /// Broken invariants, a bit each.
    pub bad: u32,
}

impl World {
    pub fn couriers(&self) -> impl Iterator<Item = &Courier> {
        self.schedulers.iter().chain(&self.consumers).chain(std::iter::once(&self.operator))
    }

    pub fn couriers_mut(&mut self) -> impl Iterator<Item = &mut Courier> {
        self.schedulers.iter_mut().chain(self.consumers.iter_mut()).chain(std::iter::once(&mut self.operator))
    }

    /// The whole of it, as numbers.
    pub fn words(&self) -> [u64; 30] {
        let mut w = [0; 30];
        let flags = u64::from(self.worker_missing) << 48 | (self.phase as u64) << 40 | u64::from(self.incarnation) << 32;
        w[0] = u64::from(self.tick) | u64::from(self.acts) << 8 | u64::from(self.verbs) << 16 | u64::from(self.frees) << 24 | flags;
        w[1] = u64::from(self.saved) | u64::from(self.bad) << 32;
        for (n, job) in self.jobs.iter().enumerate() {
            let at = 2 + n * 4;
            w[at..at + 4].copy_from_slice(&job.words());
        }
        for (n, worker) in self.workers.iter().enumerate() {
            let at = 10 + n * 2;
            (w[at], w[at + 1]) = worker.words();
        }
        for (n, courier) in self.couriers().enumerate() {
            let (first, second) = courier.words();
            (w[14 + n * 2], w[15 + n * 2]) = (first, second);
        }
        w
    }
}

impl Courier {
    pub fn words(&self) -> (u64, u64) {
        let flags = u64::from(self.before_end) | u64::from(self.old) << 1 | u64::from(self.applied) << 2 | u64::from(self.incarnation) << 8;
        (
            u64::from(self.rec)
                | (self.errand as u64) << 32
                | u64::from(self.job) << 40
                | u64::from(self.generation) << 48
                | u64::from(self.verb) << 56,
            flags,
        )
    }
}
