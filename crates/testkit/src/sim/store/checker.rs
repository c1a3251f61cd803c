//! What the checker of a run reads, past every way: all rows and items as they stand, and what commits broke.

use std::collections::BTreeSet;

use curfew_book::{AuditEntry, Day, Enrolled, Row};
use curfew_domain::{JobId, Key};
use curfew_review::Item;

use super::reading;
use super::server::SimStoreServer;
use super::small;

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

    /// What commits of this run broke of the promises (`rules.rs`), in words, each once; empty where all is well.
    pub fn broken(&self) -> Vec<String> {
        let mut broken = self.broken_so_far();
        if let Err(number) = self.read(small::audit_verify) {
            broken.push(format!("entry {number} of the audit trail doesn't fit the one before (K7)"));
        }
        broken
    }
}
