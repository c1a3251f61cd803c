//! What the checker of a run reads, past every way: all rows and items as they stand, and what no store may ever hold.

use std::collections::BTreeSet;

use curfew_book::{AuditEntry, BookState, Day, Enrolled, Row};
use curfew_domain::{JobId, Key};
use curfew_review::{Item, ItemStatus};

use super::reading;
use super::server::SimStoreServer;
use super::small;
use super::tables::Tables;

/// Operators' verbs, counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VerbCounts {
    /// Not closed yet.
    pub open: u64,
    /// Took effect.
    pub applied: u64,
    /// Did not.
    pub refused: u64,
}

impl SimStoreServer {
    /// Every row, whole, by id.
    pub fn rows(&self) -> Vec<Row> {
        self.read(|tables| tables.rows.iter().filter_map(|(id, _row)| tables.whole(id)).collect())
    }

    /// One row by key.
    pub fn row(&self, key: &Key) -> Option<Row> {
        self.read(|tables| tables.by_key(key))
    }

    /// Every item with its notes, in the order in which they were recorded.
    pub fn items(&self) -> Vec<Item> {
        self.read(|tables| tables.items.values().map(|row| row.item.clone()).collect())
    }

    /// Every job that the door's log has, with its business date, by date.
    pub fn door_log(&self) -> Vec<(String, JobId)> {
        self.read(|tables| tables.door_log.iter().map(|((date, _tenant, id), _by)| (date.clone(), *id)).collect())
    }

    /// The business dates that rows or the door's log name.
    pub fn dates(&self) -> BTreeSet<String> {
        self.read(|tables| {
            let rows = tables.rows.values().map(|row| curfew_book::judge::door::date(&row.job.business_date).to_owned());
            tables.door_log.iter().map(|((date, _tenant, _id), _by)| date.clone()).chain(rows).collect()
        })
    }

    /// A business date's figures, as the port counts them.
    pub fn day(&self, date: &str) -> Day {
        self.read(|tables| reading::day(tables, date, None))
    }

    /// VerbCounts by how they stand.
    pub fn verbs(&self) -> VerbCounts {
        self.read(|tables| {
            let count = |applied| tables.verbs.values().filter(|verb| verb.applied == applied).count() as u64;
            VerbCounts { open: count(None), applied: count(Some(true)), refused: count(Some(false)) }
        })
    }

    /// The audit trail, oldest first.
    pub fn audit(&self) -> Vec<AuditEntry> {
        self.read(|tables| tables.audit.values().map(|row| row.entry.clone()).collect())
    }

    /// Processes as they enrolled, by id.
    pub fn processes(&self) -> Vec<Enrolled> {
        self.read(|tables| tables.workers.values().cloned().collect())
    }

    /// What the store must never hold, in words; empty where all is well. It holds at every moment, faults or not.
    pub fn faults(&self) -> Vec<String> {
        self.read(|tables| {
            let mut faults = of_items(tables);
            faults.extend(tables.rows.values().filter(|row| row.state == BookState::DeadLetter).filter_map(|row| {
                let recorded = |item: &Item| item.job_id == Some(row.job.id) && item.generation == row.generation;
                let lacks = !tables.items.values().any(|one| recorded(&one.item));
                lacks.then(|| format!("{} is a dead letter of generation {} without an item", row.job.key, row.generation))
            }));
            let unlogged = tables.rows.values().filter(|row| !tables.door_log.iter().any(|((_date, _tenant, id), _by)| *id == row.job.id));
            faults.extend(unlogged.map(|row| format!("{} has a row that the door never logged", row.job.key)));
            if let Err(number) = small::audit_verify(tables) {
                faults.push(format!("entry {number} of the audit trail doesn't fit the one before"));
            }
            faults
        })
    }
}

/// An item that is worked on is of its job's present dead letter, or of the one that a replay answers; there is one of each number, and one open.
fn of_items(tables: &Tables) -> Vec<String> {
    let (mut faults, mut numbers, mut working) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for one in tables.items.values() {
        let item = &one.item;
        let closed = matches!(item.status, ItemStatus::Resolved | ItemStatus::Withdrawn);
        if closed != one.closed_at.is_some() {
            faults.push(format!("item {} is {} and its time of closing says otherwise", item.id, item.status.word()));
        }
        let Some(job) = item.job_id else { continue };
        if !numbers.insert((job, item.number)) {
            faults.push(format!("job {job} has two items of number {}", item.number));
        }
        let Some(row) = tables.rows.get(&job) else {
            faults.push(format!("item {} names a job without a row", item.id));
            continue;
        };
        if !closed && !working.insert(job) {
            faults.push(format!("{} has two items that are worked on", row.job.key));
        }
        let of_it = match item.status {
            ItemStatus::Open | ItemStatus::WaitingApproval => row.state == BookState::DeadLetter && row.generation == item.generation,
            ItemStatus::Replaying => matches!(row.state, BookState::Planned | BookState::Staged) && row.generation > item.generation,
            ItemStatus::Resolved | ItemStatus::Withdrawn => true,
        };
        if !of_it {
            let (status, generation) = (item.status.word(), item.generation);
            faults.push(format!("{} is {} in generation {}, and its item of {generation} {status}", row.job.key, row.state.word(), row.generation));
        }
    }
    faults
}
