//! The server that all processes share: transactions, its clock, and what can become of it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use curfew_book::BookError;
use curfew_domain::Moment;

use super::SimStore;
use super::rules::broken_by;
use super::tables::Tables;
use crate::sim::{Link, Process, Service, World};

/// How far back a fail-over can reach.
const TAIL_KEPT: Duration = Duration::from_secs(15 * 60);
/// As the adapter's own bound of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Within so long a commit that doesn't wait for the disk is there all the same: three rounds of PostgreSQL's `wal_writer_delay`.
const FLUSHED_AFTER: Duration = Duration::from_millis(600);

/// Faults that are planted in the simulated adapter alone, for the checker to find.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoreBugs {
    /// A dead letter that is told is saved over the item of its generation, and opens it, whatever the book knows better: a repeated
    /// telling takes back what a person did.
    pub upserted_review_items: bool,
}

/// What a commit waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// For the disk.
    ForTheDisk,
    /// For nothing: a server that is killed right after it has forgotten it.
    ForNothing,
}

struct Commit {
    at: Moment,
    waits: Waits,
    before: Tables,
}

#[derive(Default)]
struct State {
    tables: Tables,
    commits: VecDeque<Commit>,
    clock_offset_ms: i64,
    broken: BTreeSet<String>,
}

/// One transaction.
pub(super) struct Tx<'a> {
    pub(super) tables: &'a mut Tables,
    pub(super) world: &'a World,
    /// The server's clock.
    pub(super) clock: Moment,
    pub(super) bugs: StoreBugs,
}

/// Book and review store of one run: its PostgreSQL.
pub struct SimStoreServer {
    world: World,
    service: Arc<Service>,
    bugs: StoreBugs,
    state: Mutex<State>,
}

impl SimStoreServer {
    /// An empty one. Its service is named `book`.
    pub fn new(world: &World, bugs: StoreBugs) -> Arc<Self> {
        let service = Service::new("book", ANSWER_MAX);
        Arc::new(Self { world: world.clone(), service, bugs, state: Mutex::default() })
    }

    /// What its ways are like: weather, down, cut off.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// A process's book and review store.
    pub fn client(self: &Arc<Self>, process: &Arc<Process>) -> Arc<SimStore> {
        Arc::new(SimStore::new(Link::new(&self.world, process, &self.service), Arc::clone(self)))
    }

    /// The server's clock: the true time and its offset.
    pub fn clock(&self) -> Moment {
        let offset = self.state().clock_offset_ms;
        Moment::from_millis(self.world.now().as_millis().saturating_add(offset))
    }

    /// Sets its clock so many ms ahead of the true time, or behind it.
    pub fn set_clock_offset(&self, ms: i64) {
        self.world.note(&format!("the book's clock is {ms} ms off"));
        self.world.count("book: its clock was set");
        self.state().clock_offset_ms = ms;
    }

    /// A fail-over that loses the commits of so long, or a restore of what stood then; how many. At most 15 minutes are kept.
    pub fn roll_back(&self, lost_tail: Duration) -> usize {
        let cut = self.world.now().minus(lost_tail);
        let lost = self.undo(|commit| commit.at > cut);
        self.world.count("book: it failed over");
        self.world.note(&format!("the book lost {lost} commits of {} ms", lost_tail.as_millis()));
        lost
    }

    /// The server is killed and comes up again: what didn't wait for the disk and wasn't there yet is lost; how many commits.
    pub fn kill(&self) -> usize {
        let cut = self.world.now().minus(FLUSHED_AFTER);
        let lost = self.undo(|commit| commit.waits == Waits::ForNothing && commit.at > cut);
        self.world.count("book: it was killed");
        self.world.note(&format!("the book was killed and lost {lost} commits"));
        lost
    }

    /// Takes back the last commits, as long as `lost` says so.
    fn undo(&self, lost: impl Fn(&Commit) -> bool) -> usize {
        let mut state = self.state();
        let mut count = 0;
        while let Some(commit) = state.commits.pop_back_if(|commit| lost(commit)) {
            state.tables = commit.before;
            count += 1;
        }
        state.tables.after_a_crash();
        count
    }

    /// A read of one moment.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Tables) -> T) -> T {
        read(&self.state().tables)
    }

    /// One transaction: on `Err` nothing of it is written.
    pub(super) fn write<T>(&self, waits: Waits, work: impl FnOnce(&mut Tx<'_>) -> Result<T, BookError>) -> Result<T, BookError> {
        let clock = self.clock();
        let mut state = self.state();
        let before = state.tables.clone();
        let answer = work(&mut Tx { tables: &mut state.tables, world: &self.world, clock, bugs: self.bugs });
        if let Err(error) = &answer {
            self.world.count(&format!("book: refused, {}", word(error)));
            state.tables = before;
        } else if !state.tables.is(&before) {
            let at = self.world.now();
            let broken = broken_by(&before, &state.tables);
            broken.iter().for_each(|rule| self.world.note(rule));
            state.broken.extend(broken);
            state.commits.push_back(Commit { at, waits, before });
            while state.commits.pop_front_if(|commit| at.since(commit.at) > TAIL_KEPT).is_some() {}
        }
        answer
    }

    /// What commits broke, each once.
    pub(super) fn broken_so_far(&self) -> Vec<String> {
        self.state().broken.iter().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }
}

/// For the table at a batch's end.
fn word(error: &BookError) -> &'static str {
    match error {
        BookError::OtherIncarnation => "other incarnation",
        BookError::Conflict(_) => "conflict",
        BookError::NotYet(_) => "not yet",
        BookError::NotFound => "not found",
        BookError::Invalid { .. } => "invalid",
        _the_stores => "the store's",
    }
}
