//! Jobs for the tests that aren't the suite's, moved by the domain's own transitions on the server's own clock.

use std::time::Duration;

use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::sealed::Sealed;
use curfew_domain::transition::{Event, created, transition};
use curfew_domain::{JobId, Key, Moment, Record, Shard, State, Token, WorkerId, form};
use curfew_ledger::redis::{Adopted, Options, RedisLedger};
use curfew_ledger::{Create, Created, Ledger, LedgerError, Recoverable, Swap, Swapped};
use serde::Serialize;
use uuid::Uuid;

pub const SHARDS: u8 = 4;
pub const WORKER: WorkerId = WorkerId(Uuid::from_u128(7));
pub const CLAIM: Event<'static> = Event::Claim { worker: WORKER, lease: Duration::from_secs(60) };
pub const RELEASE: Event<'static> = Event::Release { claim_grace: Duration::from_secs(30) };

#[derive(Serialize)]
struct Fields {
    format: u16,
    id: JobId,
    key: Key,
    shard: Shard,
    generation: u32,
    version: u64,
    state: State,
    release_at: Moment,
    deadline_at: Moment,
    next_attempt_at: Moment,
    attempts: u32,
    purpose: &'static str,
    business_date: &'static str,
    recipient_ref: &'static str,
    transport: &'static str,
    policy: &'static str,
    content_revision: u32,
}

pub fn key(name: &str) -> Key {
    Key::parse(name).expect("a test's keys are well formed")
}

pub fn shard(name: &str) -> Shard {
    Shard::of_tenant(key(name).tenant(), SHARDS)
}

/// Due at `at`, its deadline an hour later.
pub fn record(name: &str, version: u64, at: Moment) -> Record {
    let fields = Fields {
        format: form::FORMAT,
        id: JobId(Uuid::from_u128(1)),
        key: key(name),
        shard: shard(name),
        generation: 1,
        version,
        state: State::Scheduled,
        release_at: at,
        deadline_at: at.plus(Duration::from_secs(3600)),
        next_attempt_at: at,
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

pub fn create_of(record: Record, read_at: Moment) -> Create {
    Create { change: created(record, read_at), letter: Sealed::from_bytes(vec![7; 100]), read_at }
}

pub fn intent(token: u128) -> Event<'static> {
    Event::Intent { worker: WORKER, token: Token(Uuid::from_u128(token)), lease: Duration::from_secs(60), pins: Vec::new() }
}

/// Adopts an incarnation for a shard that was just looked at.
pub async fn adopt(ledger: &RedisLedger, shard: Shard, incarnation: u32) -> Adopted {
    let now = ledger.time_of(shard).await.expect("it answers");
    ledger.adopt(shard, incarnation, now).await.expect("it answers")
}

/// A ledger with the tests' options, initialised.
pub async fn ledger(url: &str) -> RedisLedger {
    let ledger = opened(url);
    ledger.initialise().await.expect("the servers answer");
    ledger
}

/// The same, not initialised: another process.
pub fn opened(url: &str) -> RedisLedger {
    RedisLedger::open(url, options()).expect("well formed")
}

pub fn options() -> Options {
    Options { prefix: "test".to_owned(), shards: SHARDS, response_timeout: Duration::from_secs(1), ..Options::default() }
}

pub async fn stands(ledger: &RedisLedger, name: &str) -> Record {
    ledger.records(&[key(name)]).await.expect("the ledger answers").pop().flatten().expect("a record stands there")
}

/// Creates a record that is due now.
pub async fn due(ledger: &RedisLedger, name: &str) -> Record {
    let now = ledger.now().await.expect("the ledger answers");
    let answers = ledger.create(vec![create_of(record(name, 1, now), now)]).await.expect("the ledger answers");
    assert_eq!(answers, [Created::Created]);
    stands(ledger, name).await
}

/// The swap that moves a record now.
pub async fn swap_of(ledger: &RedisLedger, record: &Record, event: &Event<'_>) -> Swap {
    let now = ledger.now().await.expect("the ledger answers");
    Swap::of(record, transition(record, event, now).expect("a test moves records as their states allow"))
}

pub async fn moved(ledger: &RedisLedger, record: &Record, event: &Event<'_>) -> Record {
    let swap = swap_of(ledger, record, event).await;
    assert_eq!(ledger.swap(swap).await.expect("the ledger answers"), Swapped::Swapped);
    stands(ledger, record.key.as_str()).await
}

/// Whether an answer says that the server isn't the shard's.
pub fn is_other_server<T>(answer: &Result<T, LedgerError>) -> bool {
    matches!(answer, Err(LedgerError::OtherServer))
}

/// Whether an answer says that nothing is known.
pub fn is_unavailable<T>(answer: &Result<T, LedgerError>) -> bool {
    matches!(answer, Err(LedgerError::Unavailable { .. }))
}

/// A policy of one retry.
pub fn policy() -> Policy {
    Policy {
        name: "default".into(),
        version: 1,
        backoff: Backoff::Delays(vec![Duration::from_secs(300)]),
        max_attempts: None,
        jitter: Jitter::default(),
        at_deadline: AtDeadline::Review,
    }
}
