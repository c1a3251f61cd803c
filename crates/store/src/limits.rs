//! Every bound of the store, once, with its reason.

use std::time::Duration;

/// Boxed ledger requests and ledger mergers that one round takes at most.
///
/// At some 20 µs a statement a full round holds its callers for about 20 ms; what waits beyond it goes into the next.
pub const LEDGER_ROUND_MAX: usize = 512;

/// Items of one ledger merger that one round takes at most; the rest goes into the next round.
pub const LEDGER_MERGED_MAX: usize = 512;

/// Rows that one bulk request writes at most, and items of one bulk merger that one round takes (DESIGN section 7).
///
/// A bulk request stands in front of every ledger request that comes while it runs: 500 rows are a few milliseconds.
pub const BULK_ROWS_MAX: usize = 500;

/// Ledger requests and items that wait or run at most; the next caller waits for room before it is queued.
pub const LEDGER_WAITING_MAX: usize = 8_192;

/// Bulk requests and items that wait or run at most; the next caller waits for room before it is queued.
pub const BULK_WAITING_MAX: usize = 1_024;

/// How long a connection waits for a lock of the database file.
///
/// Inside one process only a reader's recovery or a checkpoint can hold one, for milliseconds; the bound is for somebody's
/// database shell.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long `close` waits for readers to give back their connections before it goes on without them.
pub const READERS_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Read-only connections, unless the options say otherwise.
pub const READERS_DEFAULT: u32 = 4;

/// The writer's page cache, KiB: the hot part of the ledger's indexes with 100,000 jobs waiting.
pub const WRITER_CACHE_KIB: u32 = 32 * 1_024;

/// A reader's page cache, KiB: a page of a list, not a table.
pub const READER_CACHE_KIB: u32 = 4 * 1_024;

/// Pages in the write-ahead log from which a commit also copies it into the database file.
///
/// The ledger rewrites the same pages again and again: at 4,000 pages (16 MiB) a hot page is copied once for many commits,
/// and the copy, which holds up one commit, stays in the tens of milliseconds.
pub const WAL_CHECKPOINT_PAGES: u32 = 4_000;

/// Bytes to which the write-ahead log file is cut back after a long reader or a backup made it grow.
pub const WAL_FILE_BYTES_MAX: u32 = 64 * 1_024 * 1_024;

/// Prepared statements that a connection keeps; the writer runs those of ledger, book and review.
pub const STATEMENT_CACHE: usize = 256;

/// Connections of one process to PostgreSQL, unless the options say otherwise. Ten processes stay below the server's default of 100.
pub const CONNECTIONS_DEFAULT: u32 = 8;

/// How long the first connection may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a caller waits for a connection of the pool, a new one included.
pub const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a statement may run at the server: the longest are a day's figures over millions of rows. It doesn't cut a COMMIT short that
/// waits for a standby (which the server would answer as done): `a_commit_that_no_standby_has_is_never_answered_as_done`.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a statement may wait for a lock at the server. Transactions last milliseconds; a longer wait is somebody's shell.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the server lets a transaction idle before it ends the session: a frozen process must not hold rows.
pub const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a whole transaction may take as its caller sees it: the server's own bounds don't help where the network swallows the answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a transaction is run again that the server undid because of another one.
pub const UNDONE_TRIES_MAX: u32 = 5;

/// How long a migration waits for another process that migrates.
pub const MIGRATE_WAIT: Duration = Duration::from_secs(60);

/// The oldest PostgreSQL that is accepted, as `server_version_num`. Tried: 15.
pub const POSTGRES_VERSION_MIN: i32 = 140_000;

const _: () = assert!(LOCK_TIMEOUT.as_secs() <= STATEMENT_TIMEOUT.as_secs(), "a wait for a lock is named as such");
const _: () = assert!(STATEMENT_TIMEOUT.as_secs() < ANSWER_TIMEOUT.as_secs(), "the server gives up first and says why");
const _: () = assert!(BULK_ROWS_MAX <= BULK_WAITING_MAX, "a full bulk round must be able to wait");
const _: () = assert!(LEDGER_ROUND_MAX <= LEDGER_WAITING_MAX && LEDGER_MERGED_MAX <= LEDGER_WAITING_MAX, "a full round must be able to wait");
const _: () = assert!(WAL_CHECKPOINT_PAGES as u64 * 4_096 < WAL_FILE_BYTES_MAX as u64, "an ordinary log is not cut back at each checkpoint");
