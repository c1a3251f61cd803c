//! The scripts that write a record: create, swap, postpone, restore, expire. Each checks everything, then writes.

use std::sync::Arc;
use std::time::Duration;

use curfew_domain::history::fold;
use curfew_domain::limits::READ_AT_AGE_MAX;
use curfew_domain::transition::{Change, Guard, Letter, timer};
use curfew_domain::{Key, Moment, Record, State, rung};
use curfew_ledger::{Create, Created, Swap, Swapped};

use super::client::LedgerBugs;
use super::shard::{Asked, Barred, Job, Recovers, ShardData, as_read};

/// When, and by which rules, a script runs.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// By the node's clock.
    pub now: Moment,
    pub horizon: Duration,
    pub tombstone_max: Duration,
    pub bugs: LedgerBugs,
}

impl ShardData {
    /// `over`: from recovery's own hands, the earlier version that gives way in whatever state it is.
    pub fn create(&mut self, asked: &Asked, terms: Terms, create: Create, over: Option<(u32, u64)>) -> Result<Created, Barred> {
        self.works(asked)?;
        let age = terms.now.since(create.read_at).max(create.read_at.since(terms.now));
        if age > READ_AT_AGE_MAX && !terms.bugs.create_without_read_at {
            return Ok(Created::StaleRead);
        }
        let next = &create.change.record;
        if let Some(stands) = self.jobs.get(&next.key).map(|job| &job.record) {
            if stands.generation > next.generation {
                return Ok(Created::HigherGeneration);
            }
            let told = || Box::new(as_read(stands, asked.incarnation));
            if stands.generation == next.generation {
                return Ok(Created::Exists(told()));
            }
            let recorded = stands.closed && stands.state == State::DeadLetter;
            if !recorded && over != Some((stands.generation, stands.version)) {
                return Ok(Created::EarlierUnclosed(told()));
            }
        }
        self.jobs.insert(next.key.clone(), Arc::new(Job::first(create, terms)));
        Ok(Created::Created)
    }

    pub fn swap(&mut self, asked: &Asked, terms: Terms, swap: Swap) -> Result<Swapped, Barred> {
        let recovers = self.barrier(asked)?;
        let next = &swap.change.record;
        let Some(job) = self.jobs.get(&next.key) else { return Ok(Swapped::Missing) };
        let stands = &job.record;
        let version = if terms.bugs.no_version_check { stands.version } else { swap.version };
        if (stands.generation, stands.version) != (swap.generation, version) {
            return Ok(if stands == next { Swapped::Swapped } else { Swapped::Conflict(Box::new(as_read(stands, asked.incarnation))) });
        }
        if recovers.refuses(stands, next) {
            return Err(Barred::Recovering);
        }
        if let Some(guard) = swap.change.guards.iter().find(|guard| !self.holds(guard, next, terms.now)) {
            return Ok(Swapped::Refused(guard.clone()));
        }
        if swap.below.is_some_and(|(counter, bound)| self.count(&counter) >= bound) {
            return Ok(Swapped::Full);
        }
        let next = job.next(swap.change, terms);
        self.jobs.insert(next.record.key.clone(), Arc::new(next));
        Ok(Swapped::Swapped)
    }

    fn holds(&self, guard: &Guard, next: &Record, now: Moment) -> bool {
        match guard {
            Guard::NotBefore(moment) => now >= *moment,
            Guard::Before(moment) => now < *moment,
            Guard::NotSuppressed(recipient) => {
                ["", next.tenant()].iter().all(|tenant| !self.suppressed.contains(&((*tenant).to_owned(), recipient.0.clone())))
            }
        }
    }

    /// Moves a timer (or a place in line) on where it still belongs to the version given.
    pub fn move_on(&mut self, asked: &Asked, (key, version, at): (Key, u64, Moment), line: bool) -> Result<(), Barred> {
        self.works(asked)?;
        if let Some(job) = self.jobs.get_mut(&key).filter(|job| job.record.version == version) {
            let job = Arc::make_mut(job);
            if line {
                job.line = job.line.map(|_| at);
            } else if let Some((index, _)) = job.timer {
                job.timer = Some((index, at));
                job.postponed += 1;
            }
        }
        Ok(())
    }

    /// Gives a record what its state asks for, where it is missing and the record still is the one that was read.
    pub fn restore(&mut self, asked: &Asked, terms: Terms, read: &Record) -> Result<bool, Barred> {
        self.works(asked)?;
        let same = |job: &&mut Arc<Job>| (job.record.generation, job.record.version) == (read.generation, read.version);
        let Some(job) = self.jobs.get_mut(&read.key).filter(same).map(Arc::make_mut) else { return Ok(false) };
        // The grace it was released with isn't known any more: it is looked at as soon as it is due.
        let owed = timer(read, Duration::ZERO, terms.now).filter(|_| job.timer.is_none());
        let line = (read.state == State::Scheduled && job.line.is_none()).then(|| rung::line_at(read.due(), terms.now, terms.horizon));
        if let Some(owed) = owed {
            (job.timer, job.postponed) = (Some((owed.index, owed.at)), 0);
        }
        job.line = job.line.or(line);
        Ok(owed.is_some() || line.is_some())
    }

    /// Deletes tombstones whose time is over, at most so many; how many.
    pub fn expire(&mut self, asked: &Asked, now: Moment, limit: usize) -> Result<u64, Barred> {
        self.works(asked)?;
        let mut over: Vec<(Moment, Key)> = Vec::new();
        over.extend(self.jobs.values().filter_map(|job| Some((job.expires_at.filter(|at| *at <= now)?, job.record.key.clone()))));
        over.sort();
        over.truncate(limit);
        for (_, key) in &over {
            self.jobs.remove(key);
        }
        Ok(over.len() as u64)
    }
}

impl Recovers {
    /// While its shard recovers nothing is released, claimed or intended; what owners report of what they hold is taken. What a job that waits
    /// or is claimed becomes, recovery alone decides.
    fn refuses(self, stands: &Record, next: &Record) -> bool {
        let before = stands.is_live().then_some(stands.state);
        let Some(after) = next.is_live().then_some(next.state) else { return false };
        let begins = matches!(after, State::Queued | State::Claimed | State::Handoff) && before != Some(after);
        let still_dead = after == State::DeadLetter && before == Some(State::DeadLetter);
        let no_report = after != State::Sent && before != Some(State::Handoff) && !still_dead;
        self.seemingly && begins || self.truly && no_report
    }
}

impl Job {
    fn first(create: Create, terms: Terms) -> Self {
        let Create { change, letter, read_at: _judged } = create;
        Self {
            letter: Some(letter),
            history: change.history.into_iter().collect(),
            timer: change.timer.map(|timer| (timer.index, timer.at)),
            postponed: 0,
            line: change.line.map(|due| rung::line_at(due, terms.now, terms.horizon)),
            expires_at: None,
            record: change.record,
        }
    }

    fn next(&self, change: Change, terms: Terms) -> Self {
        // Once it is closed the book has the story.
        let mut history = if change.expires_at.is_some() { Vec::new() } else { self.history.clone() };
        history.extend(change.history);
        Self {
            letter: match change.letter {
                Letter::Keep => self.letter.clone(),
                Letter::Delete => None,
            },
            history: fold(history),
            timer: change.timer.map(|timer| (timer.index, timer.at)),
            postponed: 0,
            line: change.line.map(|due| rung::line_at(due, terms.now, terms.horizon)),
            expires_at: change.expires_at.map(|at| at.min(terms.now.plus(terms.tombstone_max))),
            record: change.record,
        }
    }
}
