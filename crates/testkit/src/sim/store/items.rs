//! The item's part in the book's transactions: inserted, told again, resolved, withdrawn.
//!
//! An item stands for one dead letter of one generation; it is inserted once and never upserted, unless the planted bug says so.

use std::collections::BTreeMap;

use curfew_book::judge::ItemFate;
use curfew_book::judge::item::{Circumstances, begins_in_doubt, diagnostic, owner, reason};
use curfew_domain::{Moment, Record};
use curfew_review::{Item, ItemStatus};
use uuid::{Builder, Uuid};

use super::server::Tx;
use super::tables::{ItemRow, Locked};
use crate::sim::World;

/// A new item's id: its order is that of `at`, the rest is this run's chance.
pub(super) fn new_id(world: &World, at: Moment) -> Uuid {
    let chance = world.uuid().into_bytes();
    let drawn = chance.first_chunk::<10>().expect("a UUID has sixteen bytes");
    Builder::from_unix_timestamp_millis(u64::try_from(at.as_millis()).unwrap_or(0), drawn).into_uuid()
}

impl Tx<'_> {
    /// Carries out the item's part; `locked.item` follows.
    pub(super) fn carry_out(&mut self, locked: &mut Locked, fate: &ItemFate, with: &Circumstances<'_>) {
        match (fate, locked.item) {
            (ItemFate::Record, working) => self.record(locked, working, with),
            (ItemFate::Resolve(why), Some(n)) => {
                locked.item = None;
                self.close_item(n, ItemStatus::Resolved, with, why);
            }
            (ItemFate::Withdraw, Some(n)) => {
                locked.item = None;
                self.close_item(n, ItemStatus::Withdrawn, with, "an earlier generation was sent; the planned replay is withdrawn");
            }
            (ItemFate::EndDoubt(why), Some(n)) => {
                self.item_mut(n).item.in_doubt = false;
                self.note(n, with.at, with.actor, why);
            }
            (ItemFate::Note(why), Some(n)) => self.note(n, with.at, with.actor, why),
            (ItemFate::Keep | ItemFate::Resolve(_) | ItemFate::Withdraw | ItemFate::EndDoubt(_) | ItemFate::Note(_), _none) => {}
        }
    }

    /// Carries out the item's part of what a person or a verb does, and saves the row.
    pub(super) fn end_job(&mut self, locked: &mut Locked, fate: &ItemFate, actor: &str, at: Moment) {
        let owners = BTreeMap::new();
        self.carry_out(locked, fate, &Circumstances { owners: &owners, record: None, actor, at });
        self.tables.save(&locked.row);
    }

    /// Adds a note to an item.
    pub(super) fn note(&mut self, n: u64, at: Moment, actor: &str, text: &str) {
        self.item_mut(n).item.notes.push((at, actor.to_owned(), text.to_owned()));
    }

    pub(super) fn item_mut(&mut self, n: u64) -> &mut ItemRow {
        self.tables.items.get_mut(&n).expect("an item that was found stands")
    }

    fn record(&mut self, locked: &mut Locked, working: Option<u64>, with: &Circumstances<'_>) {
        if let Some(n) = self.item_of(locked, locked.row.generation) {
            return self.tell_item_again(locked, n, with);
        }
        let replay_of = working.and_then(|n| self.close_item(n, ItemStatus::Resolved, with, "its replay ended as a dead letter"));
        locked.item = Some(self.insert_item(locked, replay_of, with));
    }

    /// The last item of a job's generation.
    fn item_of(&self, locked: &Locked, generation: u32) -> Option<u64> {
        let of_it = |row: &ItemRow| row.item.job_id == Some(locked.row.job.id) && row.item.generation == generation;
        self.tables.items.iter().rev().find(|(_n, row)| of_it(row)).map(|(n, _row)| *n)
    }

    fn insert_item(&mut self, locked: &Locked, replay_of: Option<Uuid>, with: &Circumstances<'_>) -> u64 {
        let (row, job) = (&locked.row, &locked.row.job);
        let earlier = self.tables.items.values().filter(|row| row.item.job_id == Some(job.id)).count();
        let reason = reason(row);
        self.world.count(&format!("review: recorded {}", reason.word()));
        let item = Item {
            id: new_id(self.world, with.at),
            job_id: Some(job.id),
            key: Some(job.key.clone()),
            tenant: Some(job.tenant.clone()),
            recipient_ref: Some(job.recipient_ref.clone()),
            recipient_masked: Some(job.recipient_masked.clone()),
            release_at: Some(job.release_at),
            deadline_at: Some(job.deadline_at),
            attempts: row.attempts,
            last: row.last.clone(),
            reason,
            diagnostic: diagnostic(row),
            owner: owner(reason, with).map(str::to_owned),
            due_at: None,
            status: ItemStatus::Open,
            generation: row.generation,
            number: u32::try_from(earlier + 1).expect("few items"),
            replay_of,
            in_doubt: begins_in_doubt(row, with),
            lease_ended_at: with.record.and_then(|record| record.lease_until),
            created_at: with.at,
            notes: Vec::new(),
            history: Vec::new(),
        };
        self.put_item(ItemRow { item, closed_at: None, fingerprint: None })
    }

    /// Its number.
    pub(super) fn put_item(&mut self, row: ItemRow) -> u64 {
        let n = self.tables.item_numbers.draw();
        self.tables.items.put(n, row);
        n
    }

    fn tell_item_again(&mut self, locked: &Locked, n: u64, with: &Circumstances<'_>) {
        let row = &locked.row;
        let item = &mut self.item_mut(n).item;
        item.reason = reason(row);
        item.diagnostic = diagnostic(row);
        item.last.clone_from(&row.last);
        item.attempts = row.attempts;
        item.in_doubt = row.doubt.is_some();
        item.lease_ended_at = with.record.and_then(|record| record.lease_until);
        let text = if row.doubt.is_some() { "told again: still in doubt" } else { "told again: not in doubt" };
        self.note(n, with.at, with.actor, text);
    }

    /// Closes an item that is worked on; its id, where it was.
    fn close_item(&mut self, n: u64, status: ItemStatus, with: &Circumstances<'_>, why: &str) -> Option<Uuid> {
        let row = self.item_mut(n);
        if row.closed_at.is_some() {
            return None;
        }
        (row.item.status, row.closed_at) = (status, Some(with.at));
        let id = row.item.id;
        self.note(n, with.at, with.actor, why);
        Some(id)
    }

    /// The planted bug: the item of the dead letter's generation is written over and opened, or made, though the book knows better. Whether
    /// that was all there was to do.
    pub(super) fn upsert_item(&mut self, locked: &mut Locked, record: &Record, first: bool, with: &Circumstances<'_>) -> bool {
        let n = match self.item_of(locked, record.generation) {
            Some(n) => n,
            None if first => return false,
            None => self.insert_item(locked, None, with),
        };
        let row = self.item_mut(n);
        (row.item.status, row.closed_at) = (ItemStatus::Open, None);
        (row.item.generation, row.item.in_doubt, row.item.lease_ended_at) = (record.generation, record.in_doubt(), record.lease_until);
        row.item.reason = record.reason.unwrap_or(row.item.reason);
        locked.item = Some(n);
        self.world.count("bug: a review item was upserted");
        self.world.note(&format!("item {n} was upserted"));
        true
    }
}
