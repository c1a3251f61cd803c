//! What no commit may do and no state may hold, by the promises of book and review: looked at after each commit that changed rows or items.
//!
//! Each rule holds at every moment, whatever the faults: one that is broken is a bug of the judges, of this adapter, or a planted one.

use std::collections::BTreeSet;

use curfew_book::judge::door::date;
use curfew_book::{BookState, Row};
use curfew_domain::{JobId, Key};
use curfew_review::{Item, ItemStatus};

use super::tables::{ItemRow, Tables};

/// What a commit broke, in words.
pub(super) fn broken_by(before: &Tables, after: &Tables) -> Vec<String> {
    if after.rows.is(&before.rows) && after.items.is(&before.items) {
        return Vec::new();
    }
    let mut broken = Vec::new();
    for (id, row) in after.rows.changed(&before.rows) {
        match before.rows.get(id) {
            Some(stood) => went_back(stood, row, &mut broken),
            None => {
                let log = (date(&row.job.business_date).to_owned(), row.job.tenant.clone(), *id);
                if !after.door_log.contains(&log) {
                    broken.push(format!("{} has a row that the door never logged (K6)", row.job.key));
                }
            }
        }
    }
    for (n, one) in after.items.changed(&before.items) {
        if let Some(stood) = before.items.get(n).filter(|stood| stood.closed_at.is_some() && one.closed_at.is_none()) {
            broken.push(format!("{} was {} and is open again", named(one), stood.item.status.word()));
        }
    }
    broken.extend(items(after));
    broken
}

/// K3: a row's story goes forward alone, and `sent` is final.
fn went_back(stood: &Row, row: &Row, broken: &mut Vec<String>) {
    let key = &row.job.key;
    if stood.state == BookState::Sent && row.state != BookState::Sent {
        broken.push(format!("{key} was sent and is {}", row.state.word()));
    }
    if (row.generation, row.seen) < (stood.generation, stood.seen) {
        broken.push(format!("{key} went back from {:?} to {:?}", (stood.generation, stood.seen), (row.generation, row.seen)));
    }
}

/// R1, R3: one item stands for each dead letter of a generation; what is worked on is the job's present dead letter, or the one that a replay
/// answers.
fn items(tables: &Tables) -> Vec<String> {
    let (mut broken, mut numbers, mut working, mut recorded) = (Vec::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for one in tables.items.values() {
        if is_closed(&one.item) != one.closed_at.is_some() {
            broken.push(format!("{} is {} and its time of closing says otherwise", named(one), one.item.status.word()));
        }
        let Some(job) = one.item.job_id else { continue };
        if !numbers.insert((job, one.item.number)) || !recorded.insert((job, one.item.generation)) {
            broken.push(format!("{} is a second one of its number or generation", named(one)));
        }
        if one.closed_at.is_none() && !working.insert(job) {
            broken.push(format!("{} is a second one that is worked on", named(one)));
        }
        broken.extend(stands_for(&job, tables, one));
    }
    let dead = tables.rows.values().filter(|row| row.state == BookState::DeadLetter && !recorded.contains(&(row.job.id, row.generation)));
    broken.extend(dead.map(|row| format!("{} is a dead letter of generation {} without an item", row.job.key, row.generation)));
    broken
}

fn stands_for(job: &JobId, tables: &Tables, one: &ItemRow) -> Option<String> {
    let Some(row) = tables.rows.get(job) else {
        return Some(format!("{} names a job without a row", named(one)));
    };
    let stands = match one.item.status {
        ItemStatus::Open | ItemStatus::WaitingApproval => row.state == BookState::DeadLetter && row.generation == one.item.generation,
        ItemStatus::Replaying => matches!(row.state, BookState::Planned | BookState::Staged) && row.generation > one.item.generation,
        ItemStatus::Resolved | ItemStatus::Withdrawn => true,
    };
    let (status, state) = (one.item.status.word(), row.state.word());
    (!stands).then(|| format!("{} is {status}, and its job {state} in generation {}", named(one), row.generation))
}

fn is_closed(item: &Item) -> bool {
    match item.status {
        ItemStatus::Open | ItemStatus::WaitingApproval | ItemStatus::Replaying => false,
        ItemStatus::Resolved | ItemStatus::Withdrawn => true,
    }
}

fn named(one: &ItemRow) -> String {
    let key = one.item.key.as_ref().map_or("a message", Key::as_str);
    format!("item {} of {key}, generation {},", one.item.number, one.item.generation)
}
