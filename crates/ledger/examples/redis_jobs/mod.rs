//! Jobs for measuring the Redis ledger.

use std::time::Duration;

use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::transition::created;
use curfew_domain::{JobId, Key, Moment, Record, Shard, State, form};
use curfew_ledger::redis::RedisLedger;
use curfew_ledger::{Create, Created, Ledger, LedgerError};
use serde::Serialize;
use uuid::Uuid;

pub const SHARDS: u8 = 16;
const TENANTS: usize = 100;
/// As staging creates them.
const BATCH: usize = 500;

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
    recipient_ref: RecipientRef,
    transport: &'static str,
    policy: &'static str,
    content_revision: u32,
}

fn record(n: usize, at: Moment) -> Record {
    let tenant = format!("tenant-{:02}", n % TENANTS);
    let fields = Fields {
        format: form::FORMAT,
        id: JobId(Uuid::from_u128(u128::MAX / 3 + n as u128)),
        key: Key::parse(&format!("{tenant}/renewal/customer-{n:06}/2026-12-01")).expect("well formed"),
        shard: Shard::of_tenant(&tenant, SHARDS),
        generation: 1,
        version: 1,
        state: State::Scheduled,
        release_at: at,
        deadline_at: at.plus(Duration::from_secs(3600)),
        next_attempt_at: at,
        attempts: 0,
        purpose: "renewal",
        business_date: "2026-12-01",
        recipient_ref: RecipientRef(format!("{n:032x}")),
        transport: "smtp",
        policy: "default",
        content_revision: 1,
    };
    form::decode(&form::encode(&fields)).expect("a record needs no other field")
}

/// Stages jobs that are due `apart_ms` after each other, with letters of so many bytes.
pub async fn stage(ledger: &RedisLedger, jobs: usize, apart_ms: u64, letter_bytes: usize) -> Result<Vec<Record>, LedgerError> {
    let at = ledger.now().await?;
    let all: Vec<_> = (0..jobs).map(|n| record(n, at.plus(Duration::from_millis(n as u64 * apart_ms)))).collect();
    for batch in all.chunks(BATCH) {
        let read_at = ledger.now().await?;
        let letter = || Sealed::from_bytes(vec![7; letter_bytes]);
        let creates = batch.iter().map(|record| Create { change: created(record.clone(), at), letter: letter(), read_at });
        let answers = ledger.create(creates.collect()).await?;
        assert!(answers.iter().all(|answer| *answer == Created::Created));
    }
    Ok(all)
}
