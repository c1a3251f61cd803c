//! Swaps per second through the SQLite ledger: jobs run from `scheduled` to their intent, each caller with jobs of its own.
//!
//! `cargo run --release -p curfew-ledger --example swaps [jobs per run]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::transition::{Counter, created, transition};
use curfew_domain::{Event, JobId, Key, Moment, Record, Shard, State, Token, WorkerId, form};
use curfew_ledger::sql::{Options, SqlLedger};
use curfew_ledger::{Create, Created, Ledger, LedgerError, Swap, Swapped};
use curfew_store::{OpenOptions, Sqlite};
use serde::Serialize;
use uuid::Uuid;

const SHARDS: u8 = 4;
/// As staging creates them.
const BATCH: usize = 500;
/// Release, claim, given back, claim, intent; four answers don't wait for the disk, the fifth does.
const SWAPS_PER_JOB: usize = 5;
const LEASE: Duration = Duration::from_secs(60);

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
    let tenant = format!("tenant-{}", n % 20);
    let fields = Fields {
        format: form::FORMAT,
        id: JobId(Uuid::from_u128(n as u128)),
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

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), LedgerError> {
    let jobs = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(20_000);
    for callers in [64, 256] {
        // In the working folder: /tmp may be memory, where a sync costs nothing.
        let folder = tempfile::tempdir_in(".").expect("the working folder is writable");
        let store = Sqlite::open(OpenOptions::new(folder.path())).await.expect("the folder is free");
        let ledger = Arc::new(SqlLedger::open(store.clone(), Options::default()).await?);
        let waiting = create(&*ledger, jobs).await?;
        run(&ledger, waiting, callers, "intents on the disk").await?;
        timers(&*ledger).await?;
        drop(ledger);
        store.close().await.expect("nobody uses it");
    }
    Ok(())
}

async fn create(ledger: &dyn Ledger, jobs: usize) -> Result<Vec<Record>, LedgerError> {
    let started = Instant::now();
    let at = ledger.now().await?;
    let all: Vec<_> = (0..jobs).map(|n| record(n, at)).collect();
    for batch in all.chunks(BATCH) {
        let read_at = ledger.now().await?;
        let creates = batch.iter().map(|record| Create { change: created(record.clone(), at), letter: Sealed::from_bytes(vec![7; 600]), read_at });
        let answers = ledger.create(creates.collect()).await?;
        assert!(answers.iter().all(|answer| *answer == Created::Created));
    }
    report("creates, in batches", 1, jobs, started);
    Ok(all)
}

async fn run(ledger: &Arc<SqlLedger>, waiting: Vec<Record>, callers: usize, how: &str) -> Result<(), LedgerError> {
    let jobs = waiting.len();
    let started = Instant::now();
    let parts = waiting.chunks(jobs.div_ceil(callers)).map(<[Record]>::to_vec);
    let tasks = parts.map(|part| {
        let ledger = Arc::clone(ledger);
        tokio::spawn(async move {
            for record in part {
                live(&*ledger, record).await?;
            }
            Ok::<_, LedgerError>(())
        })
    });
    for task in futures::future::join_all(tasks).await {
        task.expect("no caller panics")?;
    }
    report(how, callers, jobs * SWAPS_PER_JOB, started);
    Ok(())
}

/// One job's swaps, as its scheduler and its worker make them.
async fn live(ledger: &dyn Ledger, record: Record) -> Result<(), LedgerError> {
    let worker = WorkerId(Uuid::from_u128(1));
    let in_flight = Counter::TenantInFlight(record.tenant().to_owned());
    let until = record.release_at;
    let record = swap(ledger, record, &Event::Release { claim_grace: LEASE }, |swap| swap).await?;
    let record = swap(ledger, record, &Event::Claim { worker, lease: LEASE }, |swap| swap.below(in_flight, 1_000_000)).await?;
    let record = swap(ledger, record, &Event::GiveBack { worker, waits_for: None, until }, |swap| swap).await?;
    let record = swap(ledger, record, &Event::Claim { worker, lease: LEASE }, |swap| swap).await?;
    let token = Token(Uuid::from_u128(record.id.0.as_u128()));
    let intent = Event::Intent { worker, token, lease: LEASE, pins: Vec::new() };
    swap(ledger, record, &intent, Swap::on_disk).await?;
    Ok(())
}

async fn swap(ledger: &dyn Ledger, before: Record, event: &Event<'_>, how: impl FnOnce(Swap) -> Swap) -> Result<Record, LedgerError> {
    let now = ledger.now().await?;
    let change = transition(&before, event, now).expect("the job is nobody else's");
    let next = change.record.clone();
    assert_eq!(ledger.swap(how(Swap::of(&before, change))).await?, Swapped::Swapped);
    Ok(next)
}

/// What a scheduler's tick asks with many jobs waiting.
async fn timers(ledger: &dyn Ledger) -> Result<(), LedgerError> {
    let far = ledger.now().await?.plus(Duration::from_secs(7200));
    let started = Instant::now();
    let mut found = 0;
    for shard in (0..SHARDS).map(Shard) {
        found += ledger.overdue(shard, curfew_domain::transition::Index::Watch, far, 500).await?.len();
    }
    println!("{found} overdue timers read in {:?}", started.elapsed());
    Ok(())
}

fn report(how: &str, callers: usize, count: usize, started: Instant) {
    let elapsed = started.elapsed();
    println!("{how:22} {callers:4} callers {:>9.0} /s  ({count} in {elapsed:.2?})", count as f64 / elapsed.as_secs_f64());
}
