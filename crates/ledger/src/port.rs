//! The port: what roles ask of a ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::form::FormError;
use curfew_domain::history::HistoryEntry;
use curfew_domain::record::WaitingFor;
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::transition::{Change, Counter, Guard, Index};
use curfew_domain::{Key, Moment, Record, Shard, State, WorkerId};

use crate::clock::{NodeClock, Reading};
use crate::lead::{Lead, Standing, Wish};
use crate::{LedgerError, Recoverable};

/// A record as the ledger holds it, with what stands beside it.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The state.
    pub record: Record,
    /// The sealed letter, until the job ends.
    pub letter: Option<Sealed>,
    /// The story so far.
    pub history: Vec<HistoryEntry>,
}

/// Staging's request.
#[derive(Clone, Debug)]
pub struct Create {
    /// The first version, from `transition::created`.
    pub change: Change,
    /// The sealed letter.
    pub letter: Sealed,
    /// The ledger's time before the book was read; not later than it.
    pub read_at: Moment,
}

/// What a create found.
#[derive(Clone, PartialEq, Debug)]
pub enum Created {
    /// Written now.
    Created,
    /// A record of this generation stands there; ended ones are to be told to the book again.
    Exists(Box<Record>),
    /// A record of a higher generation stands there.
    HigherGeneration,
    /// An earlier generation stands there that isn't a recorded dead letter: it must be closed first.
    EarlierUnclosed(Box<Record>),
    /// The book read is older than 60 s: begin anew.
    StaleRead,
}

/// Whether a swap's answer waits for the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durable {
    /// Intents and operators' verbs.
    Disk,
    /// The rest.
    Process,
}

/// One compare-and-swap.
#[derive(Clone, Debug)]
pub struct Swap {
    /// The generation the caller read.
    pub generation: u32,
    /// The version the caller read.
    pub version: u64,
    /// What `transition` answered; `change.record.version` is `version` + 1.
    pub change: Change,
    /// Whether the answer waits for the disk.
    pub durable: Durable,
    /// A counter that must be below a bound before the change; the tenant's in-flight limit at a claim.
    pub below: Option<(Counter, u64)>,
}

impl Swap {
    /// The swap of a change made from `before`, not waiting for the disk.
    pub fn of(before: &Record, change: Change) -> Self {
        Self { generation: before.generation, version: before.version, change, durable: Durable::Process, below: None }
    }

    /// The same, its answer on the disk.
    pub fn on_disk(mut self) -> Self {
        self.durable = Durable::Disk;
        self
    }

    /// The same, with a counter's bound.
    pub fn below(mut self, counter: Counter, bound: u64) -> Self {
        self.below = Some((counter, bound));
        self
    }
}

/// What a swap found.
#[derive(Clone, PartialEq, Debug)]
pub enum Swapped {
    /// Written, or found written by this very call before.
    Swapped,
    /// Somebody else was first: this stands.
    Conflict(Box<Record>),
    /// No such record: the caller must not send.
    Missing,
    /// A guard refused; nothing is written.
    Refused(Guard),
    /// The counter isn't below its bound.
    Full,
}

/// An overdue timer.
#[derive(Clone, PartialEq, Debug)]
pub struct TimerEntry {
    /// The record.
    pub record: Record,
    /// By when something must have happened.
    pub at: Moment,
    /// How often it was postponed since its last transition.
    pub postponed: u32,
}

/// A head of a tenant's line.
#[derive(Clone, PartialEq, Debug)]
pub struct LineEntry {
    /// The record.
    pub record: Record,
    /// By when it must be released: its next time minus its rung.
    pub line_at: Moment,
}

/// What holds jobs back: copied from the book.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hold {
    /// A transport.
    Transport(String),
    /// A tenant.
    Tenant(String),
    /// A shard.
    Shard(u8),
    /// A recipients' domain, by its keyed reference.
    Domain(String),
    /// All.
    Fleet,
}

impl Hold {
    /// Its kind and its name, the fleet's empty: as the stores keep them, and as people read them.
    #[must_use]
    pub fn parts(&self) -> (&'static str, String) {
        match self {
            Self::Transport(name) => ("transport", name.clone()),
            Self::Tenant(name) => ("tenant", name.clone()),
            Self::Shard(number) => ("shard", number.to_string()),
            Self::Domain(name) => ("domain", name.clone()),
            Self::Fleet => ("fleet", String::new()),
        }
    }

    /// What `parts` gave; `None`: a kind that this release doesn't know, or a shard that is no number.
    #[must_use]
    pub fn from_parts(kind: &str, name: &str) -> Option<Self> {
        match kind {
            "transport" => Some(Self::Transport(name.to_owned())),
            "tenant" => Some(Self::Tenant(name.to_owned())),
            "shard" => name.parse().ok().map(Self::Shard),
            "domain" => Some(Self::Domain(name.to_owned())),
            "fleet" => Some(Self::Fleet),
            _unknown => None,
        }
    }
}

/// Live records by state, from each shard's counts in the order of `State::ALL`: see [`Ledger::live_by_state`].
///
/// # Errors
/// The first that is not of one shard alone; `Unavailable` where no shard answered otherwise.
pub fn live_of_shards(answers: impl IntoIterator<Item = Result<Vec<u64>, LedgerError>>) -> Result<BTreeMap<State, u64>, LedgerError> {
    let mut all: BTreeMap<State, u64> = BTreeMap::new();
    let (mut answered, mut away) = (false, None);
    for answer in answers {
        match answer {
            Ok(counts) => State::ALL.iter().zip(counts).for_each(|(state, count)| *all.entry(*state).or_default() += count),
            // A shard that waits for its recovery, or whose node is away, must not keep the others from being counted.
            Err(LedgerError::OtherServer) => {}
            Err(error @ LedgerError::Unavailable { .. }) => {
                away = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        }
        answered = true;
    }
    match away {
        Some(error) if !answered => Err(error),
        Some(_) | None => Ok(all),
    }
}

/// How many permits the bucket of a rate (per second) keeps while nobody asks: a quarter of a second's worth, or one and a tenth of a second's
/// where that is more. They come on top of the rate when somebody does ask: a whole second's worth would be a tenth too much in ten. And never
/// just one: what came while the one lay there would be lost, and a rate of a few a second, asked every now and then, given by halves.
#[must_use]
pub fn permits_kept(per_second: f64) -> f64 {
    (per_second / 4.0).max(1.0 + per_second / 10.0)
}

/// Every hold in force, and until when it surely holds (`None`: until somebody resumes).
pub type Holds = BTreeMap<Hold, (WaitingFor, Option<Moment>)>;

/// A recipient on a suppressions list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Suppression {
    /// Of one tenant, or all.
    pub tenant: Option<String>,
    /// The recipient's keyed hash.
    pub recipient_ref: RecipientRef,
}

/// A store's heartbeat counter, kept by the other store (DESIGN 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beat {
    /// Rises by one each tick.
    pub count: u64,
    /// When it was written, by the ledger's clock.
    pub at: Moment,
}

/// A record with its timer and its place in line.
pub type Walked = (Record, Option<TimerEntry>, Option<Moment>);

/// A page of a shard, for the auditor.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Walk {
    /// Those that can be read.
    pub records: Vec<Walked>,
    /// The others, and why.
    pub unreadable: Vec<(Key, FormError)>,
    /// After which key the next page begins; `None`: this was the last.
    pub next: Option<Key>,
}

/// What a shard has to do at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agenda {
    /// Which shard.
    pub shard: Shard,
    /// A line's head has come.
    pub lines: bool,
    /// A watch timer is overdue.
    pub watch: bool,
    /// Something is to be settled.
    pub settle: bool,
    /// A dead letter is to be recorded.
    pub review: bool,
}

/// What roles ask of a ledger.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The ledger's clock: never later than it, and earlier by its error alone (see [`Reading`]), so that what is done by it is never early.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn now(&self) -> Result<Moment, LedgerError>;

    /// What the ledger's clock says, with the error that `now` has here: `now` is the earliest. Costs no round trip while samples are fresh.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn reading(&self) -> Result<Reading, LedgerError> {
        self.now().await.map(Reading::exact)
    }

    /// The clock of each node, sampled now, for the witness. None where the ledger's clock is this process's own.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn node_clocks(&self) -> Result<Vec<NodeClock>, LedgerError> {
        Ok(Vec::new())
    }

    /// The witness's word on clocks as it saw them, which replaces its last: these shards' are distrusted. There nothing is staged, released,
    /// claimed or intended by this process, and no timer is acted on; reports of what it holds are taken. The others' are trusted, jumps and all,
    /// unless one jumped again since it was seen.
    fn halt(&self, distrusted: BTreeSet<Shard>, seen: &[NodeClock]) {
        let _this_processs_own_clock = (distrusted, seen);
    }

    /// Whether a shard is halted: by the witness, or because its clock just jumped.
    fn is_halted(&self, shard: Shard) -> bool {
        let _this_processs_own_clock = shard;
        false
    }

    /// Shards in which readers of indexes met, since this was asked last, what only a newer process reads. They leave it alone; a newer scheduler
    /// may be there for it (DESIGN 7).
    fn met_newer(&self) -> BTreeSet<Shard> {
        BTreeSet::new()
    }

    /// Bytes of memory that the store takes for what it holds; 0 where that lies on the disk.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn live_bytes(&self) -> Result<u64, LedgerError> {
        Ok(0)
    }

    /// Creates records; answers each in order. Repeating is free. A dropped future may have created.
    ///
    /// # Errors
    /// `LedgerError` for all: nothing is known.
    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Created>, LedgerError>;

    /// One swap. A dropped future may have swapped.
    ///
    /// # Errors
    /// `LedgerError`: nothing is known; read, the version and the token tell.
    async fn swap(&self, swap: Swap) -> Result<Swapped, LedgerError>;

    /// Several swaps of different keys, each by itself; answers in order.
    ///
    /// # Errors
    /// `LedgerError` for all: nothing is known.
    async fn swap_all(&self, swaps: Vec<Swap>) -> Result<Vec<Swapped>, LedgerError>;

    /// The record and what stands beside it.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError>;

    /// Records without letters and histories, in order.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn records(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, LedgerError>;

    /// Overdue timers of one index of a shard, the longest overdue first.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn overdue(&self, shard: Shard, index: Index, now: Moment, limit: usize) -> Result<Vec<TimerEntry>, LedgerError>;

    /// Which shards have something due at `now`: heads of lines, or overdue timers by index. An adapter that can't tell cheaply names all.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn agenda(&self, shards: &[Shard], now: Moment) -> Result<Vec<Agenda>, LedgerError> {
        let _cheaply_unknown = now;
        Ok(shards.iter().map(|shard| Agenda { shard: *shard, lines: true, watch: true, settle: true, review: true }).collect())
    }

    /// With their histories: what settle and record write into the book.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn histories(&self, keys: &[Key]) -> Result<Vec<Vec<HistoryEntry>>, LedgerError>;

    /// Moves timers on without a transition, where they still belong to the version given: an errand that can't be acted on.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn postpone(&self, timers: Vec<(Key, u64, Moment)>) -> Result<(), LedgerError>;

    /// Moves places in line on without a transition, where they still belong to the version given.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn move_in_line(&self, places: Vec<(Key, u64, Moment)>) -> Result<(), LedgerError>;

    /// Heads of a shard's lines whose time has come, round robin over tenants, at most `per_tenant` of each and `limit` in all.
    /// Tenants in `skip` are passed over.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn lines(&self, shard: Shard, now: Moment, per_tenant: usize, limit: usize, skip: &[String]) -> Result<Vec<LineEntry>, LedgerError>;

    /// The value of each counter.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn counts(&self, shard: Shard, counters: &[Counter]) -> Result<Vec<u64>, LedgerError>;

    /// The oldest next time among due, unclaimed records of a shard (the oldest job's age), holds not considered.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn oldest_due(&self, shard: Shard, now: Moment) -> Result<Option<Moment>, LedgerError>;

    /// How many live records of a shard stop before each of some moments, at least to 5 s: counted, not read. A wrapper for tests may leave it out.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn deadlines(&self, shard: Shard, before: &[Moment]) -> Result<Vec<u64>, LedgerError> {
        let _uncounted = shard;
        Ok(vec![0; before.len()])
    }

    /// All records of a shard after a key, for the auditor and for `check --audit`.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn walk(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Walked>, LedgerError>;

    /// The same, past records that can't be read.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn walk_past(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Walk, LedgerError> {
        let records = self.walk(shard, after, limit).await?;
        let next = records.last().map(|(record, _, _)| record.key.clone());
        Ok(Walk { records, unreadable: Vec::new(), next })
    }

    /// Compares each counter of a shard with its recount and mends it; the number mended.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn recount(&self, shard: Shard) -> Result<u64, LedgerError>;

    /// Gives a record the timer and the place in line that its state asks for, where they are missing; whether it did.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn restore_timer(&self, key: &Key) -> Result<bool, LedgerError>;

    /// Deletes tombstones whose time is over; how many.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn expire(&self, now: Moment, limit: usize) -> Result<u64, LedgerError>;

    /// Replaces the suppressions copied from the book.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn set_suppressions(&self, all: Vec<Suppression>) -> Result<(), LedgerError>;

    /// Replaces the holds: pauses copied from the book, cool-downs and open circuits.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn set_hold(&self, hold: Hold, by: Option<(WaitingFor, Option<Moment>)>) -> Result<(), LedgerError>;

    /// The holds in force.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn holds(&self) -> Result<Holds, LedgerError>;

    /// Up to `n` permits of a rate (per second, at most `permits_kept` at once); how many were given, and if none, when to ask again.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn permits(&self, name: &str, per_second: f64, n: u32) -> Result<(u32, Moment), LedgerError>;

    /// Writes the heartbeat that this store keeps of the book.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn beat(&self, count: u64) -> Result<(), LedgerError>;

    /// The last heartbeat that this store holds.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn last_beat(&self) -> Result<Option<Beat>, LedgerError>;

    /// Takes, renews or gives back the soft lease on a shard for `who`; how it stands then. It saves work, correctness never rests on it.
    /// An adapter for tests may leave it out: then nobody else is there.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn lead(&self, shard: Shard, who: WorkerId, lease: Duration, wish: Wish) -> Result<Lead, LedgerError> {
        let _nobody_else = (shard, who, lease);
        let standing = match wish {
            Wish::Lead | Wish::Ask => Standing::Ours,
            Wish::HandBack | Wish::Leave => Standing::Free,
        };
        Ok(Lead { standing, seekers: 1 })
    }

    /// Of some shards those that nobody leads.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn unled(&self, shards: &[Shard]) -> Result<Vec<Shard>, LedgerError> {
        let _nobody_else = shards;
        Ok(Vec::new())
    }

    /// Live records by state; those of shards that recover, or whose node is away, are left out.
    ///
    /// # Errors
    /// `LedgerError`; `Unavailable` where every node is away.
    async fn live_by_state(&self) -> Result<BTreeMap<State, u64>, LedgerError>;

    /// The incarnation of a shard, in which an errand that begins now is (DESIGN 8); 0 where it can't change.
    ///
    /// # Errors
    /// `OtherServer` while nobody has recovered it.
    async fn incarnation(&self, shard: Shard) -> Result<u32, LedgerError> {
        let _the_only_one = shard;
        Ok(0)
    }

    /// What recovery asks; `None` for a ledger that can't lose its latest part apart from its book.
    fn recoverable(&self) -> Option<&dyn Recoverable> {
        None
    }

    /// Whether leases found at the start belong to dead processes: true for a ledger that only this process may open.
    fn leases_die_with_process(&self) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shards_that_answer_are_counted_beside_those_that_cant() {
        let counts = |first: u64| Ok((first..).take(State::ALL.len()).collect());
        let away = || Err(LedgerError::Unavailable { operation: "counts" });
        let live = live_of_shards([counts(1), away(), Err(LedgerError::OtherServer), counts(10)]).expect("two answered");
        assert_eq!((live[&State::ALL[0]], live[&State::ALL[1]]), (11, 13));
        assert!(live_of_shards([away(), Err(LedgerError::OtherServer)]).expect("one answers, and has nothing").is_empty());
        assert!(matches!(live_of_shards([away(), away()]), Err(LedgerError::Unavailable { .. })));
        let broken = || Err(LedgerError::Store("not Redis".to_owned()));
        assert!(matches!(live_of_shards([counts(1), broken()]), Err(LedgerError::Store(_))));
    }
}
