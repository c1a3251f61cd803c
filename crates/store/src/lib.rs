//! The store keeps rows on disk: SQLite with one writer, many readers, one data folder per process; or PostgreSQL with a pool.
//!
//! Promises of SQLite (proved by `tests/sqlite.rs`)
//! - S1  One process at a time has the data folder; a second one is refused at once.
//! - S2  A caller is answered after the COMMIT that holds its request, never before.
//! - S3  A request that fails undoes itself alone; the others of its group commit.
//! - S4  A group that holds one request of `Durability::Disk` is on the disk when it is answered, and with it every earlier commit.
//! - S5  Ledger requests run before bulk requests; a round takes one bulk request at most.
//! - S6  Items of one merger run in the order of their submission.
//! - S7  An error names the operation and what the caller can do, never a bound value.
//!
//! Promises of PostgreSQL (proved by `tests/postgres.rs`)
//! - S8  A transaction is answered after its COMMIT; where the server undid it because of another one, it is run again.
//! - S9  Nothing waits without a bound: connecting, a connection of the pool, a lock, a statement, an idle transaction, an answer.
//! - S10 Migrations are applied once, by one process at a time.
//!
//! Not promised: an order among different callers of one round; that a request of `Durability::Process` survives a power
//! failure before the next `Disk` commit (it survives the death of the process).
//!
//! Knows no job, no record and no table but its own `migrations`: book, ledger and review bring theirs. Read `sqlite.rs`,
//! then `sqlite/writer.rs`; or `postgres.rs`, then `postgres/transact.rs`.

mod error;
mod limits;
mod migration;
mod postgres;
mod sqlite;

pub use error::{Remedy, StoreError};
pub use limits::*;
pub use migration::Migration;
pub use postgres::{DurabilityLevel, Postgres, PostgresOptions, Reached, Undoable};
pub use sqlite::{Atomicity, Durability, Merger, OpenOptions, Queue, Sqlite};
