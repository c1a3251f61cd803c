//! One round: what waits is read together, judged one by one in order, and written together.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;

use curfew_domain::limits::READ_AT_AGE_MAX;
use curfew_domain::sealed::Sealed;
use curfew_domain::transition::{Counter, Guard, Letter};
use curfew_domain::{Key, Moment, Shard, State};
use curfew_store::StoreError;
use sqlx::SqliteConnection;

use super::Memory;
use super::counters::{Counters, Tally, Witness, known_state};
use super::flush;
use super::prepared::{Operation, Standing, Version};
use super::suppressions::Suppressions;

const READ_ROWS: &str = include_str!("queries/read_rows.sql");
const STORED_RECORDS: &str = include_str!("queries/stored_records.sql");

/// The answer to an operation; records as stored, for the caller to read.
pub(super) enum Answer {
    Written,
    Stands(Arc<[u8]>),
    EarlierUnclosed(Arc<[u8]>),
    HigherGeneration,
    StaleRead,
    Missing,
    Refused(Guard),
    Full,
}

/// A row as this round leaves it.
pub(super) struct Row {
    pub id: i64,
    pub generation: u32,
    pub version: u64,
    pub standing: Standing,
    /// The number of the last history entry.
    pub entries: i64,
    /// What the tables don't have yet.
    pub written: Option<Written>,
}

/// What a round writes for one row.
pub(super) struct Written {
    pub next: Version,
    pub fresh: bool,
    pub letter: LetterChange,
    /// The history so far goes.
    pub trimmed: bool,
    pub entries: Vec<(i64, Vec<u8>)>,
}

#[derive(Clone)]
pub(super) enum LetterChange {
    None,
    Put(Sealed),
    Delete,
}

/// What an operation found, before the stored bytes are fetched that it has to be told.
enum Judged {
    Known(Answer),
    /// An unwritten row stands against it: its bytes are in the table.
    InTable {
        id: i64,
        own: Option<Arc<[u8]>>,
        earlier: bool,
    },
}

/// Runs a round on the writer; each caller's answers, with the round's number.
pub(super) async fn run(memory: &Memory, conn: &mut SqliteConnection, items: Vec<Vec<Operation>>) -> Result<Vec<(u64, Vec<Answer>)>, StoreError> {
    let witness = memory.counters().witness().map(|witness| witness.key.clone());
    let keys = items.iter().flatten().map(Operation::key).chain(&witness);
    let rows = read_rows(conn, keys).await?;
    let (judged, round) = judge(memory, rows, items, witness.as_ref());
    let bytes = stored(conn, &judged).await?;
    flush::write(conn, &round.rows, memory.options.horizon, round.now).await?;
    let number = memory.counters().pend(round.changes, round.witness);
    let answers = judged.into_iter().map(|batch| (number, batch.into_iter().map(|judged| judged.answer(&bytes)).collect()));
    Ok(answers.collect())
}

/// A round under way.
struct Round {
    rows: HashMap<Key, Row>,
    now: Moment,
    changes: Tally,
    witness: Option<Witness>,
}

fn judge(memory: &Memory, rows: HashMap<Key, Row>, items: Vec<Vec<Operation>>, witness: Option<&Key>) -> (Vec<Vec<Judged>>, Round) {
    let mut counters = memory.counters();
    counters.resolve(witness.and_then(|key| rows.get(key)).map(|row| (row.generation, row.version)));
    let suppressions = memory.suppressions();
    let mut round = Round { rows, now: memory.now(), changes: Tally::default(), witness: None };
    let judged = items.into_iter().map(|batch| batch.into_iter().map(|operation| round.judge(operation, &mut counters, &suppressions)).collect());
    (judged.collect(), round)
}

impl Round {
    fn judge(&mut self, operation: Operation, counters: &mut Counters, suppressions: &Suppressions) -> Judged {
        match operation {
            Operation::Create { next, letter, read_at } => self.create(next, letter, read_at, counters),
            Operation::Swap { generation, version, next, guards, below } => {
                let Some(row) = self.rows.get(&next.key) else { return Judged::Known(Answer::Missing) };
                if (row.generation, row.version) != (generation, version) {
                    return row.stands_against(&next);
                }
                if let Some(refused) = self.refused(&next, guards, suppressions) {
                    return Judged::Known(Answer::Refused(refused));
                }
                if let Some((counter, bound)) = below
                    && self.count(next.shard, &counter, counters) >= bound
                {
                    return Judged::Known(Answer::Full);
                }
                self.swap(next)
            }
        }
    }

    /// The guard that refuses, by the ledger's own clock and sets (L6).
    fn refused(&self, next: &Version, guards: Vec<Guard>, suppressions: &Suppressions) -> Option<Guard> {
        guards.into_iter().find(|guard| match guard {
            Guard::NotBefore(moment) => self.now < *moment,
            Guard::Before(moment) => self.now >= *moment,
            Guard::NotSuppressed(recipient) => suppressions.has(next.key.tenant(), recipient),
        })
    }

    fn count(&self, shard: Shard, counter: &Counter, counters: &Counters) -> u64 {
        let changed = i128::from(counters.value(shard, counter)) + i128::from(self.changes.value(shard, counter));
        u64::try_from(changed).unwrap_or(0)
    }

    fn swap(&mut self, next: Version) -> Judged {
        let row = self.rows.get_mut(&next.key).expect("the caller found it");
        self.changes.count(next.shard, next.key.tenant(), row.standing, -1);
        self.changes.count(next.shard, next.key.tenant(), next.standing, 1);
        self.witness = Some(Witness { key: next.key.clone(), generation: next.generation, version: next.version });
        let letter = match next.letter {
            Letter::Keep => None,
            Letter::Delete => Some(LetterChange::Delete),
        };
        row.write(next, letter, History::Goes);
        Judged::Known(Answer::Written)
    }

    /// L5. The staleness of the read is looked at first: whatever stands there, the caller read the book too long ago to say anything about it.
    /// So did one whose read lies ahead: the clock was set back since, and nobody can say how old it is.
    fn create(&mut self, next: Version, letter: Sealed, read_at: Moment, counters: &mut Counters) -> Judged {
        if self.now.since(read_at).max(read_at.since(self.now)) > READ_AT_AGE_MAX {
            return Judged::Known(Answer::StaleRead);
        }
        self.witness = match self.rows.entry(next.key.clone()) {
            Slot::Occupied(mut slot) => {
                let row = slot.get_mut();
                if let Some(standing) = row.refuses(&next) {
                    return standing;
                }
                self.changes.count(next.shard, next.key.tenant(), row.standing, -1);
                self.changes.count(next.shard, next.key.tenant(), next.standing, 1);
                let witness = Witness { key: next.key.clone(), generation: next.generation, version: next.version };
                row.write(next, Some(LetterChange::Put(letter)), History::BeginsAnew);
                Some(witness)
            }
            Slot::Vacant(slot) => {
                self.changes.count(next.shard, next.key.tenant(), next.standing, 1);
                let witness = Witness { key: next.key.clone(), generation: next.generation, version: next.version };
                let row = Row { id: counters.next_id(), generation: 0, version: 0, standing: next.standing, entries: 0, written: None };
                slot.insert(row).write_fresh(next, letter);
                Some(witness)
            }
        };
        Judged::Known(Answer::Written)
    }
}

/// What a write makes of the history so far.
#[derive(Clone, Copy, PartialEq)]
enum History {
    /// It goes where the record is closed: the book has it (DESIGN 4).
    Goes,
    /// Another generation begins.
    BeginsAnew,
}

impl Row {
    /// What a create is told by a row that doesn't give way.
    fn refuses(&self, next: &Version) -> Option<Judged> {
        let recorded = self.standing.state == State::DeadLetter && self.standing.closed;
        match self.generation.cmp(&next.generation) {
            std::cmp::Ordering::Greater => Some(Judged::Known(Answer::HigherGeneration)),
            std::cmp::Ordering::Equal => Some(self.bytes(None, false)),
            std::cmp::Ordering::Less if recorded => None,
            std::cmp::Ordering::Less => Some(self.bytes(None, true)),
        }
    }

    /// A version that isn't the one a swap named; perhaps the swap's own (a repeat).
    fn stands_against(&self, next: &Version) -> Judged {
        let own = (self.generation, self.version) == (next.generation, next.version);
        self.bytes(own.then(|| Arc::clone(&next.bytes)), false)
    }

    fn bytes(&self, own: Option<Arc<[u8]>>, earlier: bool) -> Judged {
        match &self.written {
            Some(written) => Judged::Known(told(Arc::clone(&written.next.bytes), own.as_deref(), earlier)),
            None => Judged::InTable { id: self.id, own, earlier },
        }
    }

    fn write_fresh(&mut self, next: Version, letter: Sealed) {
        self.write(next, Some(LetterChange::Put(letter)), History::BeginsAnew);
        if let Some(written) = &mut self.written {
            (written.fresh, written.trimmed) = (true, false);
        }
    }

    fn write(&mut self, mut next: Version, letter: Option<LetterChange>, history: History) {
        let entry = next.entry.take();
        (self.generation, self.version, self.standing) = (next.generation, next.version, next.standing);
        let trims = history == History::BeginsAnew || next.standing.closed;
        let before = self.written.take();
        let mut written = match before {
            Some(before) => Written { next, ..before },
            None => Written { next, fresh: false, letter: LetterChange::None, trimmed: false, entries: Vec::new() },
        };
        if trims {
            written.trimmed = true;
            written.entries.clear();
        }
        if let Some(letter) = letter {
            written.letter = letter;
        }
        if let Some(entry) = entry {
            self.entries += 1;
            written.entries.push((self.entries, entry));
        }
        self.written = Some(written);
    }
}

/// The answer of bytes that stand there: a swap that finds its own has succeeded (L2).
fn told(bytes: Arc<[u8]>, own: Option<&[u8]>, earlier: bool) -> Answer {
    match own {
        Some(own) if own == &*bytes => Answer::Written,
        Some(_) | None if earlier => Answer::EarlierUnclosed(bytes),
        Some(_) | None => Answer::Stands(bytes),
    }
}

impl Judged {
    fn answer(self, bytes: &HashMap<i64, Arc<[u8]>>) -> Answer {
        match self {
            Self::Known(answer) => answer,
            Self::InTable { id, own, earlier } => told(Arc::clone(&bytes[&id]), own.as_deref(), earlier),
        }
    }
}

/// Id, key, generation, version, state, next time, whether it is closed, history entries.
type Columns = (i64, String, i64, i64, String, i64, bool, i64);

/// What stands under keys, without the records.
pub(super) async fn read_rows(conn: &mut SqliteConnection, keys: impl Iterator<Item = &Key>) -> Result<HashMap<Key, Row>, StoreError> {
    let mut keys: Vec<&Key> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    let found: Vec<Columns> = sqlx::query_as(READ_ROWS).bind(flush::json(&keys)).fetch_all(conn).await.map_err(StoreError::during("read rows"))?;
    let mut rows = HashMap::with_capacity(keys.len());
    for (id, key, generation, version, state, due, closed, entries) in found {
        let standing = Standing { state: known_state(&state)?, closed, due: Moment::from_millis(due) };
        let place = keys.binary_search_by(|probe| probe.as_str().cmp(&key)).expect("a row was found by one of the keys");
        let row = Row { id, generation: generation as u32, version: version as u64, standing, entries, written: None };
        rows.insert(keys[place].clone(), row);
    }
    Ok(rows)
}

/// The stored bytes that callers have to be told, read before the round writes.
async fn stored(conn: &mut SqliteConnection, judged: &[Vec<Judged>]) -> Result<HashMap<i64, Arc<[u8]>>, StoreError> {
    let ids: Vec<i64> = judged
        .iter()
        .flatten()
        .filter_map(|judged| match judged {
            Judged::InTable { id, .. } => Some(*id),
            Judged::Known(_) => None,
        })
        .collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found: Vec<(i64, Vec<u8>)> =
        sqlx::query_as(STORED_RECORDS).bind(flush::json(&ids)).fetch_all(conn).await.map_err(StoreError::during("read what stands"))?;
    Ok(found.into_iter().map(|(id, bytes)| (id, bytes.into())).collect())
}
