//! What a killed process left behind: its files, copied and opened before anything is restarted.
//!
//! The states are those at the moment of the kill, for nobody ends a lease, settles or records in between.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use curfew_book::sql::SqlBook;
use curfew_book::{Book, BookState, Filter};
use curfew_domain::{Key, Record, Shard, State};
use curfew_ledger::Ledger;
use curfew_ledger::sql::{Options, SqlLedger};
use curfew_store::{OpenOptions, Sqlite};

/// Where a job can be when its process dies; the columns of the table of kills.
pub const VICTIMS: [&str; 7] = ["planned", "scheduled", "queued", "claimed", "handoff", "sent, unsettled", "dead letter, unrecorded"];

const PAGE: usize = 500;

/// Counts the jobs by where they were.
///
/// # Panics
/// Where the files can't be read: a killed process leaves a database that opens.
pub async fn victims(data: &Path, shards: u8) -> BTreeMap<&'static str, u64> {
    let copy = tempfile::tempdir().expect("a folder can be made");
    for entry in fs::read_dir(data).expect("the data folder is there") {
        let entry = entry.expect("the data folder can be read");
        if entry.file_type().expect("an entry has a type").is_file() {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("a file can be copied");
        }
    }
    let store = Sqlite::open(OpenOptions::new(copy.path())).await.expect("the database opens");
    let ledger = SqlLedger::open(store.clone(), Options::default()).await.expect("the ledger opens");
    let book = SqlBook::open(store.clone()).await.expect("the book opens");
    let mut found: BTreeMap<&'static str, u64> = VICTIMS.iter().map(|name| (*name, 0)).collect();
    let records = records(&ledger, shards).await;
    for name in records.values().filter_map(victim) {
        *found.entry(name).or_default() += 1;
    }
    let planned = planned(&book).await;
    found.insert("planned", planned.iter().filter(|key| !records.contains_key(*key)).count() as u64);
    drop((ledger, book));
    store.close().await.expect("the copy closes");
    found
}

async fn records(ledger: &SqlLedger, shards: u8) -> BTreeMap<Key, Record> {
    let mut all = BTreeMap::new();
    for shard in (0..shards).map(Shard) {
        let mut after = None;
        loop {
            let page = ledger.walk(shard, after.as_ref(), PAGE).await.expect("the ledger can be walked");
            let full = page.len() == PAGE;
            after = page.last().map(|(record, _, _)| record.key.clone());
            all.extend(page.into_iter().map(|(record, _, _)| (record.key.clone(), record)));
            if !full {
                break;
            }
        }
    }
    all
}

async fn planned(book: &SqlBook) -> Vec<Key> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let filter = Filter { states: vec![BookState::Planned], cursor, limit: PAGE as u32, ..Filter::default() };
        let page = book.list(&filter).await.expect("the book can be listed");
        all.extend(page.items.into_iter().map(|view| view.row.job.key));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return all;
        }
    }
}

fn victim(record: &Record) -> Option<&'static str> {
    match record.state {
        State::Scheduled => Some("scheduled"),
        State::Queued => Some("queued"),
        State::Claimed => Some("claimed"),
        State::Handoff => Some("handoff"),
        State::Sent => (!record.closed).then_some("sent, unsettled"),
        State::DeadLetter => (!record.closed).then_some("dead letter, unrecorded"),
        State::Cancelled | State::Suppressed => None,
    }
}
