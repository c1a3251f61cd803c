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

const _: () = assert!(BULK_ROWS_MAX <= BULK_WAITING_MAX, "a full bulk round must be able to wait");
const _: () = assert!(LEDGER_ROUND_MAX <= LEDGER_WAITING_MAX && LEDGER_MERGED_MAX <= LEDGER_WAITING_MAX, "a full round must be able to wait");
const _: () = assert!(WAL_CHECKPOINT_PAGES as u64 * 4_096 < WAL_FILE_BYTES_MAX as u64, "an ordinary log is not cut back at each checkpoint");
