//! One function per promise; every adapter runs all of them, each on a fresh ledger.
//!
//! Differences between adapters are values of the bench, never a question which adapter it is. Records are moved by the domain's own
//! `transition`, as the roles do.
//!
//! # Panics
//! All of them, where the promise is broken.

mod around;
mod leads;
mod lines;
mod standing;
mod swaps;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::record::WaitingFor;
use curfew_domain::sealed::Sealed;
use curfew_domain::transition::{Event, created, transition};
use curfew_domain::{Change, JobId, Key, Moment, Record, Shard, State, Token, WorkerId, form};
use serde::Serialize;
use uuid::Uuid;

use crate::{Create, Created, Ledger, Swap, Swapped};

pub use around::*;
pub use leads::*;
pub use lines::*;
pub use standing::*;
pub use swaps::*;

/// The shard that every record of the suite stands in.
const SHARD: Shard = Shard(1);
const LEASE: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(30);
const WORKER: WorkerId = WorkerId(Uuid::from_u128(7));

/// A fresh ledger, and what a test does to it from outside.
#[async_trait]
pub trait Bench: Send + Sync {
    /// The ledger; after `kill_and_reopen` it is another one over the same store.
    fn ledger(&self) -> Arc<dyn Ledger>;

    /// Moves the ledger's clock on.
    async fn advance(&self, by: Duration);

    /// The process dies where it stands, without a word to its store; another one opens it.
    async fn kill_and_reopen(&self);

    /// Takes a record's timer and place in line away behind the ledger's back.
    async fn lose_timer(&self, key: &Key);
}

/// A record with every field that has no default; the form's own defaults give the rest.
#[derive(Serialize)]
struct Fields<'a> {
    format: u16,
    id: JobId,
    key: &'a Key,
    shard: Shard,
    generation: u32,
    version: u64,
    state: State,
    release_at: Moment,
    deadline_at: Moment,
    next_attempt_at: Moment,
    attempts: u32,
    purpose: &'a str,
    business_date: &'a str,
    recipient_ref: &'a str,
    transport: &'a str,
    policy: &'a str,
    content_revision: u32,
}

fn key(key: &str) -> Key {
    Key::parse(key).expect("the suite's keys are well formed")
}

/// A scheduled record of a generation, due at `release_at`, its deadline an hour later.
pub(crate) fn record(name: &str, generation: u32, release_at: Moment) -> Record {
    let fields = Fields {
        format: form::FORMAT,
        id: JobId(Uuid::from_u128(name.bytes().fold(1, |n, b| n * 31 + u128::from(b)) & (u128::MAX >> 8))),
        key: &key(name),
        shard: SHARD,
        generation,
        version: 1,
        state: State::Scheduled,
        release_at,
        deadline_at: release_at.plus(Duration::from_secs(3600)),
        next_attempt_at: release_at,
        attempts: 0,
        purpose: "renewal",
        business_date: "2026-12-01",
        recipient_ref: "00112233445566778899aabbccddeeff",
        transport: "smtp",
        policy: "default",
        content_revision: 1,
    };
    form::decode(&form::encode(&fields)).expect("a record needs no other field")
}

fn letter() -> Sealed {
    Sealed::from_bytes(vec![0, 1, 2, 255])
}

async fn now(ledger: &dyn Ledger) -> Moment {
    ledger.now().await.expect("the ledger answers")
}

pub(crate) async fn create_of(ledger: &dyn Ledger, record: Record) -> Create {
    let now = now(ledger).await;
    Create { change: created(record, now), letter: letter(), read_at: now }
}

async fn create(ledger: &dyn Ledger, record: Record) -> Created {
    let create = create_of(ledger, record).await;
    ledger.create(vec![create]).await.expect("the ledger answers").pop().expect("one answer")
}

/// Creates a record due now, and reads it back.
pub(crate) async fn due_record(ledger: &dyn Ledger, name: &str) -> Record {
    let now = now(ledger).await;
    assert_eq!(create(ledger, record(name, 1, now)).await, Created::Created);
    stands(ledger, name).await
}

async fn stands(ledger: &dyn Ledger, name: &str) -> Record {
    let mut found = ledger.records(&[key(name)]).await.expect("the ledger answers");
    found.pop().flatten().expect("a record stands there")
}

pub(crate) async fn change(ledger: &dyn Ledger, record: &Record, event: &Event<'_>) -> Change {
    transition(record, event, now(ledger).await).expect("the suite moves records as their states allow")
}

/// Moves a record, and reads it back.
pub(crate) async fn moved(ledger: &dyn Ledger, record: &Record, event: &Event<'_>) -> Record {
    let change = change(ledger, record, event).await;
    assert_eq!(ledger.swap(Swap::of(record, change)).await.expect("the ledger answers"), Swapped::Swapped);
    stands(ledger, record.key.as_str()).await
}

pub(crate) const RELEASE: Event<'static> = Event::Release { claim_grace: GRACE };
pub(crate) const CLAIM: Event<'static> = Event::Claim { worker: WORKER, lease: LEASE };

pub(crate) fn intent() -> Event<'static> {
    Event::Intent { worker: WORKER, token: Token(Uuid::from_u128(11)), lease: LEASE, pins: Vec::new() }
}

fn give_back(until: Moment) -> Event<'static> {
    Event::GiveBack { worker: WORKER, waits_for: Some(WaitingFor::TransportRate), until }
}

/// A record at its deadline, dead and recorded.
async fn recorded_dead_letter(bench: &dyn Bench, name: &str) -> Record {
    let ledger = bench.ledger();
    let record = due_record(&*ledger, name).await;
    bench.advance(Duration::from_secs(3600)).await;
    let dead = moved(&*ledger, &record, &Event::DeadlineReached).await;
    moved(&*ledger, &dead, &Event::Closed).await
}
