//! The door, and staging's side of the book.

use std::time::Duration;

use curfew_book::judge::door::{date, end_as_suppressed, fresh, repeated};
use curfew_book::judge::recovery::{self, BegunIn};
use curfew_book::{Accepted, BookError, BookState, Door, Mark, Planned};
use curfew_domain::job::Job;
use curfew_domain::{JobId, Moment, Shard};
use uuid::Uuid;

use super::server::Tx;
use super::tables::{SoftClaim, Tables};

/// How long a row that one scheduler read stays out of the others' way.
const SOFT_CLAIM: Duration = Duration::from_secs(5);

impl Tx<'_> {
    /// Accepts jobs, each by itself (K1, K2).
    pub(super) fn accept(&mut self, jobs: Vec<Job>, door: &Door) -> Vec<Accepted> {
        jobs.into_iter()
            .map(|job| match self.tables.by_key(&job.key) {
                Some(stands) => repeated(&job, &stands),
                None => Accepted::New(self.accepted(job, door)),
            })
            .collect()
    }

    fn accepted(&mut self, job: Job, door: &Door) -> BookState {
        let mut row = fresh(job);
        let listed = |tenant: &str| self.tables.suppressions.contains(&(row.job.recipient_ref.0.clone(), tenant.to_owned()));
        if listed("") || listed(&row.job.tenant) {
            end_as_suppressed(&mut row, door);
        }
        let (job, state) = (&row.job, row.state);
        self.tables.keys.put(job.key.clone(), job.id);
        let logged = (date(&job.business_date).to_owned(), job.tenant.clone(), job.id);
        self.tables.door_log.put(logged, (door.at, door.actor.clone()));
        self.tables.rows.put(job.id, row);
        state
    }

    /// What is due, softly claimed for one scheduler.
    pub(super) fn plan(&mut self, me: Uuid, shards: &[Shard], until: Moment, limit: u32) -> Vec<Planned> {
        let mut due: Vec<(Moment, JobId)> = plannable(self.tables)
            .filter(|(release_at, shard, id)| *release_at <= until && shards.contains(shard) && !self.claimed_by_another(id, me))
            .map(|(release_at, _shard, id)| (release_at, id))
            .collect();
        due.sort_unstable();
        due.truncate(limit as usize);
        for (_release_at, id) in &due {
            self.tables.claims.put(*id, SoftClaim { by: me, until: self.clock.plus(SOFT_CLAIM) });
        }
        due.iter().filter_map(|(_release_at, id)| self.tables.whole(id)).map(|row| Planned { row }).collect()
    }

    /// A claim that lies too far ahead is of a clock that was set back: void.
    fn claimed_by_another(&self, id: &JobId, me: Uuid) -> bool {
        let stands = |claim: &SoftClaim| claim.by != me && claim.until > self.clock && claim.until <= self.clock.plus(SOFT_CLAIM);
        self.tables.claims.get(id).is_some_and(stands)
    }

    /// Marks rows staged, where they are still planned in that generation.
    pub(super) fn mark_staged(&mut self, marks: &[Mark]) -> Result<(), BookError> {
        self.guard(&BegunIn::of_marks(marks))?;
        for mark in marks {
            let Some(id) = self.tables.keys.get(&mark.key).copied() else { continue };
            let planned = |row: &curfew_book::Row| row.state == BookState::Planned && row.generation == mark.generation;
            if self.tables.rows.get(&id).is_some_and(planned)
                && let Some(row) = self.tables.rows.get_mut(&id)
            {
                (row.state, row.ever_staged) = (BookState::Staged, true);
            }
        }
        Ok(())
    }

    /// Takes a staged row back, whose record is lost before its release.
    pub(super) fn take_back(&mut self, mark: &Mark, at: Moment) -> Result<bool, BookError> {
        self.guard(&BegunIn::of_marks(std::slice::from_ref(mark)))?;
        let Some(mut locked) = self.tables.locked_key(&mark.key) else { return Ok(false) };
        let taken = recovery::take_back(&mut locked.row, mark, at);
        if taken {
            self.world.count("book: taken back");
            self.tables.save(&locked.row);
        }
        Ok(taken)
    }

    /// Refuses a transaction whose errands began in an earlier incarnation of their shard.
    pub(super) fn guard(&self, begun: &BegunIn) -> Result<(), BookError> {
        self.tables.shards.iter().try_for_each(|(shard, stands)| begun.check(*shard, *stands))
    }
}

/// The earliest release among planned rows.
pub(super) fn next_release(tables: &Tables) -> Option<Moment> {
    plannable(tables).map(|(release_at, _shard, _id)| release_at).min()
}

/// Planned rows without an open verb.
fn plannable(tables: &Tables) -> impl Iterator<Item = (Moment, Shard, JobId)> + '_ {
    let planned = tables.rows.iter().filter(|(id, row)| row.state == BookState::Planned && tables.open_verb(id).is_none());
    planned.map(|(id, row)| (row.job.release_at, row.job.shard, *id))
}
