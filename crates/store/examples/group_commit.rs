//! Requests per second through the one writer: boxed and merged, with each durability.
//!
//! `cargo run --release -p curfew-store --example group_commit [callers] [requests per caller]`

use std::time::Instant;

use curfew_store::{Atomicity, Durability, Merger, Migration, OpenOptions, Queue, Sqlite, StoreError};

const SWAPS: Migration = Migration { name: "example/0001_swaps", sql: include_str!("swaps.sql") };
const INSERT: &str = "INSERT INTO swaps (state) VALUES (?1)";
const INSERT_ALL: &str = "INSERT INTO swaps (state) SELECT value FROM json_each(?1)";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), StoreError> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>().expect("a number"));
    let callers = numbers.next().unwrap_or(64);
    let requests = numbers.next().unwrap_or(500);
    // In the working folder: /tmp may be memory, where a sync costs nothing.
    let folder = tempfile::tempdir_in(".").expect("the working folder is writable");
    let store = Sqlite::open(OpenOptions::new(folder.path())).await?;
    store.migrate(&[SWAPS]).await?;
    let merger = store.merger(Queue::Ledger, Atomicity::SingleStatement, |conn, states: Vec<u64>| {
        Box::pin(async move {
            let all = format!("{states:?}");
            let done = sqlx::query(INSERT_ALL).bind(all).execute(conn).await.map_err(StoreError::during("insert all"))?;
            assert_eq!(done.rows_affected(), states.len() as u64);
            Ok(vec![(); states.len()])
        })
    });

    println!("{callers} callers, {requests} requests each");
    for durability in [Durability::Process, Durability::Disk] {
        let started = Instant::now();
        boxed(&store, callers, requests, durability).await?;
        report("boxed", durability, callers * requests, started);
        let started = Instant::now();
        merged(&merger, callers, requests, durability).await?;
        report("merged", durability, callers * requests, started);
    }
    drop(merger);
    store.close().await
}

fn report(how: &str, durability: Durability, requests: usize, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    println!("{how:7} {durability:8?} {:>9.0} requests/s", requests as f64 / seconds);
}

async fn boxed(store: &Sqlite, callers: usize, requests: usize, durability: Durability) -> Result<(), StoreError> {
    let tasks = (0..callers).map(|caller| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..requests {
                let state = caller as i64;
                store
                    .write_with(Queue::Ledger, durability, Atomicity::SingleStatement, move |conn| {
                        Box::pin(async move {
                            let query = sqlx::query(INSERT).bind(state);
                            query.execute(conn).await.map(drop).map_err(StoreError::during("insert"))
                        })
                    })
                    .await?;
            }
            Ok(())
        })
    });
    all(tasks).await
}

async fn merged(merger: &Merger<u64, ()>, callers: usize, requests: usize, durability: Durability) -> Result<(), StoreError> {
    let tasks = (0..callers).map(|caller| {
        let merger = merger.clone();
        tokio::spawn(async move {
            for _ in 0..requests {
                merger.submit(caller as u64, durability).await?;
            }
            Ok(())
        })
    });
    all(tasks).await
}

async fn all(tasks: impl Iterator<Item = tokio::task::JoinHandle<Result<(), StoreError>>>) -> Result<(), StoreError> {
    futures::future::try_join_all(tasks).await.expect("no caller panics").into_iter().collect()
}
