//! Swaps per second through the Redis ledger: jobs run from `scheduled` to their intent, each caller with jobs of its own.
//!
//! `cargo run --release -p curfew-ledger --example redis_swaps [jobs per run]` starts redis-servers of its own and ends them.

mod redis_jobs;

use std::time::{Duration, Instant};

use curfew_domain::transition::{Counter, transition};
use curfew_domain::{Event, Record, Token, WorkerId};
use curfew_ledger::redis::{Options, RedisLedger};
use curfew_ledger::{Ledger, LedgerError, Swap, Swapped};
use curfew_testservers::redis::{self, Redis};
use uuid::Uuid;

use redis_jobs::{SHARDS, stage};

/// Release, claim, given back, claim, intent.
const SWAPS_PER_JOB: usize = 5;
/// As long as may be: all swaps are made for the moment of the staging.
const LEASE: Duration = curfew_domain::limits::LEASE_MAX;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), LedgerError> {
    let jobs = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(20_000);
    for appendfsync in ["everysec", "always"] {
        for callers in [16, 128] {
            let server = Redis::start(redis::Options { appendfsync, ..redis::Options::default() }).await;
            let ledger = RedisLedger::open(&server.url(), Options { shards: SHARDS, ..Options::default() })?;
            ledger.initialise().await?;
            let started = Instant::now();
            server.ask(&["CONFIG", "RESETSTAT"]).await;
            let waiting = stage(&ledger, jobs, 0, 600).await?;
            report(&format!("{appendfsync}: creates, in batches"), 1, jobs, started);
            println!("  {}", on_the_server(&server).await);
            server.ask(&["CONFIG", "RESETSTAT"]).await;
            run(&ledger, waiting, callers, appendfsync).await?;
            println!("  {}", on_the_server(&server).await);
        }
    }
    Ok(())
}

/// What one script costs the server, whatever the client's build: its thread does one at a time.
async fn on_the_server(server: &Redis) -> String {
    let stats = server.ask(&["INFO", "commandstats"]).await.text();
    let of_scripts =
        stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")?.split(',').find_map(|part| part.strip_prefix("usec_per_call=")));
    format!("on the server {} µs per script", of_scripts.unwrap_or("?"))
}

async fn run(ledger: &RedisLedger, waiting: Vec<Record>, callers: usize, appendfsync: &str) -> Result<(), LedgerError> {
    let jobs = waiting.len();
    let started = Instant::now();
    let parts = waiting.chunks(jobs.div_ceil(callers)).map(<[Record]>::to_vec);
    let tasks = parts.map(|part| {
        let ledger = ledger.clone();
        tokio::spawn(async move {
            for record in part {
                live(&ledger, record).await?;
            }
            Ok::<_, LedgerError>(())
        })
    });
    for task in futures::future::join_all(tasks).await {
        task.expect("no caller panics")?;
    }
    report(&format!("{appendfsync}: swaps"), callers, jobs * SWAPS_PER_JOB, started);
    Ok(())
}

/// One job's swaps, as its scheduler and its worker make them. All are made for the moment of their staging: asking for the time each time is
/// measured elsewhere, and the server's own clock judges anyway.
async fn live(ledger: &RedisLedger, record: Record) -> Result<(), LedgerError> {
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

async fn swap(ledger: &RedisLedger, before: Record, event: &Event<'_>, how: impl FnOnce(Swap) -> Swap) -> Result<Record, LedgerError> {
    let change = transition(&before, event, before.release_at).expect("the job is nobody else's");
    let next = change.record.clone();
    assert_eq!(ledger.swap(how(Swap::of(&before, change))).await?, Swapped::Swapped);
    Ok(next)
}

fn report(how: &str, callers: usize, count: usize, started: Instant) {
    let elapsed = started.elapsed();
    println!("{how:34} {callers:4} callers {:>9.0} /s  ({count} in {elapsed:.2?})", count as f64 / elapsed.as_secs_f64());
}
