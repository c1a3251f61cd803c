//! Memory of a job that waits in Redis: its record, its letter of 1 KiB, its story, and its places in the indexes.
//!
//! `cargo run --release -p curfew-ledger --example redis_memory [jobs]` starts a redis-server of its own and ends it.

mod redis_jobs;

use curfew_ledger::LedgerError;
use curfew_ledger::redis::{Options, RedisLedger};
use curfew_testservers::redis::{self, Redis};

use redis_jobs::{SHARDS, stage};

const LETTER_BYTES: usize = 1024;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), LedgerError> {
    let jobs: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(100_000);
    for (how, apart_ms) in [("all due at one moment", 0), ("each due at its own moment", 7)] {
        let server = Redis::start(redis::Options { appendonly: false, ..redis::Options::default() }).await;
        let ledger = RedisLedger::open(&server.url(), Options { shards: SHARDS, ..Options::default() })?;
        ledger.initialise().await?;
        let before = used(&server).await;
        stage(&ledger, jobs, apart_ms, LETTER_BYTES).await?;
        let bytes = used(&server).await - before;
        println!("{how}: {} bytes per waiting job, of which its letter is {LETTER_BYTES} ({jobs} jobs, {} MiB)", bytes / jobs, bytes / 1024 / 1024);
        parts(&server).await;
    }
    Ok(())
}

async fn used(server: &Redis) -> usize {
    let info = server.ask(&["INFO", "memory"]).await.text();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
    used.expect("INFO says how much memory is used")
}

/// What the server says of the parts of one job, and of the indexes of its shard.
async fn parts(server: &Redis) {
    let shard = curfew_domain::Shard::of_tenant("tenant-00", SHARDS);
    let key = "tenant-00/renewal/customer-000000/2026-12-01";
    let mut told = Vec::new();
    for name in [&format!("job:{key}"), &format!("letter:{key}"), &format!("history:{key}")] {
        told.push(format!("{} {}", &name[..name.find(':').unwrap_or(0)], usage(server, shard, name).await));
    }
    let Ok(records) = server.ask(&["ZCARD", &format!("curfew:{{{shard}}}:all")]).await.text().parse::<usize>() else { return };
    for index in ["all", "watch", "due", "counts"] {
        told.push(format!("{index} {}", usage(server, shard, index).await / records.max(1)));
    }
    let line = "line:tenant-00";
    let waiting: usize = server.ask(&["ZCARD", &format!("curfew:{{{shard}}}:{line}")]).await.text().parse().unwrap_or(1);
    told.push(format!("line {}", usage(server, shard, line).await / waiting.max(1)));
    println!("  bytes of one job, by part: {}", told.join(", "));
}

async fn usage(server: &Redis, shard: curfew_domain::Shard, name: &str) -> usize {
    server.ask(&["MEMORY", "USAGE", &format!("curfew:{{{shard}}}:{name}"), "SAMPLES", "0"]).await.text().parse().unwrap_or(0)
}
