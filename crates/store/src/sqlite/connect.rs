//! How connections are set up: every pragma, once, with its reason.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection, SqlitePool};

use crate::StoreError;
use crate::limits::{BUSY_TIMEOUT, READER_CACHE_KIB, STATEMENT_CACHE, WAL_CHECKPOINT_PAGES, WAL_FILE_BYTES_MAX, WRITER_CACHE_KIB};

const MIGRATIONS_TABLE: &str = include_str!("migrations_table.sql");

/// The writer starts at `synchronous=NORMAL`; it raises the level for each group that asks for it (`writer.rs`).
pub(super) fn writer(file: &Path) -> SqliteConnectOptions {
    base(file, WRITER_CACHE_KIB)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .pragma("wal_autocheckpoint", WAL_CHECKPOINT_PAGES.to_string())
        .pragma("journal_size_limit", WAL_FILE_BYTES_MAX.to_string())
        // Where fsync leaves the drive's cache alone (macOS), ask for the call that doesn't; no effect elsewhere.
        .pragma("fullfsync", "ON")
        .pragma("checkpoint_fullfsync", "ON")
}

/// Opened on first use. No ping at check-out: there is no network in between, and it costs a round to another thread.
pub(super) fn readers(file: &Path, count: u32) -> SqlitePool {
    let options = base(file, READER_CACHE_KIB).read_only(true).pragma("query_only", "ON");
    SqlitePoolOptions::new()
        .max_connections(count)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(BUSY_TIMEOUT)
        .connect_lazy_with(options)
}

fn base(file: &Path, cache_kib: u32) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(false)
        .busy_timeout(BUSY_TIMEOUT)
        // No table needs them: rows of different owners refer to each other by key, and a check would cost a look-up per write.
        .foreign_keys(false)
        // Negative: KiB instead of pages.
        .pragma("cache_size", format!("-{cache_kib}"))
        // Off: mapped pages count as the process's memory (a bound we promise), and a failing disk would be a signal, not an error.
        .pragma("mmap_size", "0")
        // Sorters and temporary indexes hold sealed rows, too: not in files outside the data folder.
        .pragma("temp_store", "MEMORY")
        .statement_cache_capacity(STATEMENT_CACHE)
        .disable_statement_logging()
}

/// Opens the first connection: recovers the log of a killed process, syncs it into the database file, and creates the table
/// of migrations.
pub(super) async fn open(options: &SqliteConnectOptions, file: &Path) -> Result<SqliteConnection, StoreError> {
    let mut conn = options.connect().await.map_err(|error| classify_open(file, error))?;
    checkpoint(&mut conn).await?;
    sqlx::raw_sql(MIGRATIONS_TABLE).execute(&mut conn).await.map_err(StoreError::during("create the table of migrations"))?;
    Ok(conn)
}

/// Copies the whole log into the database file, syncs both, and empties the log. While a reader stands in the way it copies
/// what it can: the log then stays, which is harmless.
pub(super) async fn checkpoint(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(conn).await.map_err(StoreError::during("checkpoint"))?;
    Ok(())
}

fn classify_open(file: &Path, error: sqlx::Error) -> StoreError {
    match StoreError::during("open")(error) {
        StoreError::Query { detail, .. } => StoreError::Open { path: file.to_owned(), reason: detail },
        StoreError::Io { code, .. } => StoreError::Open { path: file.to_owned(), reason: StoreError::Io { operation: "connect", code }.to_string() },
        other => other,
    }
}
