//! The real functions over real records, each question asked once: records stand by number, answers are remembered.
//!
//! What nobody decides by (diagnostics, receipts' texts, whole moments) is levelled after each answer, so that equal situations are one state.
//! A lease either runs or is over; it ends when a move of the world says so, at any moment.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use curfew_courier::{Rulebook, TransportRules};
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::record::LastOutcome;
use curfew_domain::transition::{BookStory, Counter, Guard, counters};
use curfew_domain::{Moment, Record, Refusal, State, WorkerId, form};
use uuid::Uuid;

use crate::book::Books;
use crate::config::Config;
use crate::seen::Seen;

/// A tick of the model, in ms: longer than every margin, shorter than a tombstone.
const TICK_MS: i64 = 3_600_000;
/// The end of a lease that runs, as levelled.
const RUNS: Moment = Moment::from_millis(i64::MAX / 4);
/// The end of one that is over.
const OVER: Moment = Moment::from_millis(1);
/// A worker whose process is gone.
pub const GONE: WorkerId = WorkerId(Uuid::from_u128(99));

/// The moment of a tick.
pub fn at(tick: u8) -> Moment {
    Moment::from_millis(TICK_MS * (i64::from(tick) + 1))
}

/// The first tick at or after a moment.
pub fn tick_of(moment: Moment) -> u8 {
    u8::try_from(((moment.as_millis() + TICK_MS - 1) / TICK_MS - 1).clamp(0, 250)).expect("clamped")
}

/// A process of a worker's slot.
pub fn worker(slot: usize) -> WorkerId {
    WorkerId(Uuid::from_u128(slot as u128 + 1))
}

/// Keys are mixed already.
#[derive(Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64);
        self.write_u64((n >> 64) as u64);
    }
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 31)
    }
}

pub type Memo<V> = HashMap<u128, V, BuildHasherDefault<Mix>>;

/// What `transition` answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub after: Result<u32, Refusal>,
    pub guards: Vec<Guard>,
    /// The change breaks D2, or what a history owes.
    pub malformed: bool,
}

pub struct Real {
    pub config: Config,
    pub rulebook: Rulebook,
    records: Vec<Record>,
    numbers: HashMap<Vec<u8>, u32>,
    pub(crate) answers: Memo<usize>,
    pub(crate) answered: Vec<Answer>,
    edits: Memo<u32>,
    pub(crate) stories: Vec<BookStory>,
    pub books: Books,
    pub seen: Seen,
}

impl Real {
    pub fn new(config: Config) -> Self {
        let policy = Policy {
            name: "default".to_owned(),
            version: 1,
            backoff: Backoff::Delays(vec![Duration::ZERO; usize::from(config.attempts) - 1]),
            max_attempts: None,
            jitter: Jitter::default(),
            at_deadline: if config.suppress_at_deadline { AtDeadline::Suppress } else { AtDeadline::Review },
        };
        // An attempt may begin until a tick after the first handoff.
        let idempotency_window = config.window.then(|| Duration::from_millis(TICK_MS.unsigned_abs()) + Duration::from_secs(120));
        let transport = TransportRules { idempotency_window, attempt_max: Duration::from_secs(60) };
        let rulebook = Rulebook::new([("default".to_owned(), policy)].into(), [("smtp".to_owned(), transport)].into());
        let books = Books::new(&config);
        let mut real = Self {
            config,
            rulebook,
            records: Vec::new(),
            numbers: HashMap::new(),
            answers: Memo::default(),
            answered: Vec::new(),
            edits: Memo::default(),
            stories: Vec::new(),
            books,
            seen: Seen::default(),
        };
        // Number 0 stands for no record.
        let nothing = real.first_version(0, at(0));
        real.records.push(nothing);
        real
    }

    pub fn rec(&self, number: u32) -> &Record {
        &self.records[number as usize]
    }

    /// The record where one stands.
    pub fn standing(&self, number: u32) -> Option<&Record> {
        (number != 0).then(|| self.rec(number))
    }

    pub fn is_live(&self, number: u32) -> bool {
        number != 0 && self.rec(number).is_live()
    }

    pub fn generation(&self, number: u32) -> u8 {
        u8::try_from(self.rec(number).generation).expect("few generations")
    }

    /// Whether a lease runs on it.
    pub fn leased(&self, number: u32) -> bool {
        number != 0 && self.rec(number).lease_until == Some(RUNS)
    }

    /// Whether it counts as in flight.
    pub fn flies(&self, number: u32) -> bool {
        number != 0 && counters(self.rec(number)).iter().any(|c| matches!(c, Counter::TenantInFlight(_)))
    }

    /// The number of a record as it is, levelled.
    pub fn number(&mut self, mut record: Record, now: Moment) -> u32 {
        self.level(&mut record, now);
        let bytes = form::encode(&record);
        if let Some(number) = self.numbers.get(&bytes) {
            return *number;
        }
        let number = u32::try_from(self.records.len()).expect("few records");
        crate::probe::probe(self, &record);
        self.records.push(record);
        self.numbers.insert(bytes, number);
        number
    }

    /// Takes out what nothing is decided by.
    fn level(&self, record: &mut Record, now: Moment) {
        record.lease_until = record.lease_until.filter(|_| !record.state.is_terminal()).map(|until| if until > now { RUNS } else { OVER });
        record.first_handoff_at = record.first_handoff_at.filter(|_| self.config.window);
        record.last =
            record.last.take().filter(|l| l.rule == "artifact-missing" && !record.state.is_terminal()).map(|l| LastOutcome { at: OVER, ..l });
        record.reason = None;
        record.receipt = None;
        record.waiting_for = None;
        if record.next_attempt_at <= now {
            record.next_attempt_at = record.release_at;
        }
        if record.state.is_terminal() {
            (record.attempts, record.strikes, record.configuration_met) = (0, 0, 0);
            record.first_handoff_at = None;
            record.next_attempt_at = record.release_at;
        }
    }

    /// A record that differs from another in what stands around the protocol: remembered by `what`.
    pub fn edited(&mut self, number: u32, what: u64, edit: impl FnOnce(&mut Record)) -> u32 {
        if number == 0 {
            return 0;
        }
        let key = u128::from(number) << 64 | u128::from(what);
        if let Some(after) = self.edits.get(&key) {
            return *after;
        }
        let mut record = self.rec(number).clone();
        edit(&mut record);
        let after = self.number(record, at(0));
        self.edits.insert(key, after);
        after
    }

    /// The same record, its lease over.
    pub fn lease_over(&mut self, number: u32) -> u32 {
        if !self.leased(number) {
            return number;
        }
        self.edited(number, 1, |r| r.lease_until = Some(OVER))
    }

    /// The same record, its worker gone where it was this one.
    pub fn worker_gone(&mut self, number: u32, slot: usize) -> u32 {
        if number == 0 || self.rec(number).worker != Some(worker(slot)) {
            return number;
        }
        self.edited(number, 2, |r| r.worker = Some(GONE))
    }

    /// The same record, the two workers' slots exchanged.
    pub fn exchanged(&mut self, number: u32) -> u32 {
        if number == 0 {
            return 0;
        }
        let other = match self.rec(number).worker {
            Some(id) if id == worker(0) => worker(1),
            Some(id) if id == worker(1) => worker(0),
            Some(_) | None => return number,
        };
        self.edited(number, 7 << 32, |r| r.worker = Some(other))
    }

    /// The same record under another version.
    pub fn under_version(&mut self, number: u32, version: u64) -> u32 {
        if number == 0 || self.rec(number).version == version {
            return number;
        }
        self.edited(number, 3 << 32 | version, |r| r.version = version)
    }

    /// The same record as it is read in an incarnation.
    pub fn read_in(&mut self, number: u32, incarnation: u8) -> u32 {
        if number == 0 || self.rec(number).incarnation == u32::from(incarnation) {
            return number;
        }
        self.edited(number, 4 << 32 | u64::from(incarnation), |r| r.incarnation = incarnation.into())
    }

    /// Whether the fence of one is that of the other.
    pub fn same_version(&self, one: u32, other: u32) -> bool {
        let (one, other) = (self.rec(one), self.rec(other));
        (one.generation, one.version) == (other.generation, other.version)
    }

    pub fn state(&self, number: u32) -> State {
        self.rec(number).state
    }
}
