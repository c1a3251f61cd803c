//! The handle to one SQLite database in a locked data folder: write through the one writer, read through a small pool.
//!
//! A write is a request: code that runs on the writer's connection, in a transaction that it shares with whatever else
//! waited (group commit). Read `writer.rs` for a round, `merger.rs` for the fast path of many small writes.

mod backup;
mod connect;
mod folder;
mod merger;
mod migrate;
mod queue;
mod request;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use sqlx::{SqliteConnection, SqlitePool};
use tokio::sync::{oneshot, watch};

pub use merger::Merger;
pub use queue::Queue;
pub use request::{Atomicity, Durability};

use crate::limits::READERS_DEFAULT;
use crate::{Migration, StoreError};
use queue::{Queues, Unit};
use request::One;
use writer::Writer;

/// Where the database lies and how many readers it has.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The data folder. Created with mode 0700 if missing; an existing folder keeps its mode.
    pub folder: PathBuf,
    /// The database file's name in the folder, `curfew.db` by default. Created with mode 0600 if missing.
    pub file: String,
    /// Read-only connections, at least 1.
    pub readers: u32,
}

impl OpenOptions {
    /// The database `curfew.db` in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), file: "curfew.db".to_owned(), readers: READERS_DEFAULT }
    }
}

/// One open database. Clones share it.
///
/// When the last clone and the last merger are gone, the writer finishes what is queued and lets go of the folder by itself;
/// [`Sqlite::close`] does the same and waits for it.
#[derive(Clone)]
pub struct Sqlite {
    inner: Arc<Inner>,
}

struct Inner {
    queues: Arc<Queues>,
    readers: SqlitePool,
    connect: sqlx::sqlite::SqliteConnectOptions,
    ended: watch::Receiver<Option<Result<(), StoreError>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queues.close();
    }
}

impl Sqlite {
    /// Locks the folder, opens or creates the database, and starts the writer on the current tokio runtime.
    ///
    /// What a killed process left in the write-ahead log is copied into the database file and synced first, so whatever the
    /// caller reads after this is on the disk.
    ///
    /// # Errors
    /// `Locked` while another process (or another handle of this one) has the folder; `Open`, `Corrupt`, `Full` or `Io`
    /// where file or folder can't be used.
    pub async fn open(options: OpenOptions) -> Result<Self, StoreError> {
        let lock = folder::lock(&options.folder)?;
        let file = options.folder.join(&options.file);
        folder::create_database_file(&file)?;
        let connect = connect::writer(&file);
        let conn = connect::open(&connect, &file).await?;
        let readers = connect::readers(&file, options.readers.max(1));
        let queues = Arc::new(Queues::new());
        let (end, ended) = watch::channel(None);
        let writer = Writer::new(Arc::clone(&queues), conn, connect.clone(), readers.clone(), lock);
        tokio::spawn(async move {
            let result = writer.run().await;
            end.send_replace(Some(result));
        });
        Ok(Self { inner: Arc::new(Inner { queues, readers, connect, ended }) })
    }

    /// Runs `work` on the writer's connection inside the next group's transaction, in a savepoint of its own, and answers
    /// after the COMMIT.
    ///
    /// On `Err` whatever `work` wrote is rolled back, and nothing else is. `work` must leave the transaction open (no COMMIT,
    /// no ROLLBACK; `conn.begin()` inside it is a nested savepoint), must not wait for anything but its connection, and holds
    /// up every other writer while it runs. A `Disk` request that changes no row is no barrier: it syncs nothing.
    ///
    /// A caller that is dropped while it waits for room leaves nothing behind; dropped later, its request runs all the same
    /// and its answer is lost.
    ///
    /// # Errors
    /// What `work` returned; `Panicked`; `Abandoned` where the group was rolled back; `Commit` or `Unanswered` where nobody
    /// knows; `Closed` after `close`; `Io` after a failed commit has stopped the store.
    pub async fn write<T, F>(&self, queue: Queue, durability: Durability, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send + 'static,
    {
        self.write_with(queue, durability, Atomicity::Savepoint, work).await
    }

    /// Like [`Sqlite::write`], with the say over the savepoint: [`Atomicity::SingleStatement`] saves two statements.
    ///
    /// # Errors
    /// As for [`Sqlite::write`].
    pub async fn write_with<T, F>(&self, queue: Queue, durability: Durability, atomicity: Atomicity, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send + 'static,
    {
        let room = self.inner.queues.room(queue).await?;
        let (reply, answer) = oneshot::channel();
        let request = One::new(work, durability, atomicity, reply, room);
        self.inner.queues.push(queue, Unit::One(Box::new(request)))?;
        answer.await.unwrap_or(Err(StoreError::Unanswered))
    }

    /// A merger: items of many callers, written by one call of `work` per round, in the order of submission.
    ///
    /// `work` gets every item that waited (at most [`LEDGER_MERGED_MAX`](crate::LEDGER_MERGED_MAX), or
    /// [`BULK_ROWS_MAX`](crate::BULK_ROWS_MAX) on the bulk queue) and returns one `Out` per item, in their order. What one item
    /// met goes into its `Out`; an `Err` rolls back the whole call and is every item's answer. Make one merger per kind of
    /// write and keep it.
    pub fn merger<Item, Out, F>(&self, queue: Queue, atomicity: Atomicity, work: F) -> Merger<Item, Out>
    where
        Item: Send + 'static,
        Out: Send + 'static,
        F: for<'c> Fn(&'c mut SqliteConnection, Vec<Item>) -> BoxFuture<'c, Result<Vec<Out>, StoreError>> + Send + Sync + 'static,
    {
        Merger::new(Arc::clone(&self.inner), queue, atomicity, Box::new(work))
    }

    /// The readers: read-only connections that see the last commit. A reader that holds a transaction open keeps the
    /// write-ahead log from being reset, so keep them short.
    #[must_use]
    pub fn read(&self) -> &SqlitePool {
        &self.inner.readers
    }

    /// Applies those of `migrations` that are missing, each in a transaction of its own, in their order; returns the names
    /// of those it applied. Repeating is free.
    ///
    /// # Errors
    /// `Migrate` where a statement failed or another text was applied under the same name; those before it stay applied.
    pub async fn migrate(&self, migrations: &[Migration]) -> Result<Vec<&'static str>, StoreError> {
        migrate::apply(self, migrations).await
    }

    /// The names of those of `migrations` that are not applied, in their order; changes nothing.
    ///
    /// # Errors
    /// `Migrate` where another text was applied under the same name.
    pub async fn pending(&self, migrations: &[Migration]) -> Result<Vec<&'static str>, StoreError> {
        migrate::pending(self, migrations).await
    }

    /// Writes a compacted copy of the last commit to a new file (mode 0600), synced to the disk, while the store goes on.
    ///
    /// The copy grows under `NAME.partial` and takes its name when it is whole; a crash or a dropped caller may leave that
    /// file, and it must be removed before the next try. The write-ahead log can't be reset meanwhile.
    ///
    /// # Errors
    /// `Exists` where the file or its `.partial` is there; `Full`, `Io`, `Open`.
    pub async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        backup::write(&self.inner.connect, to).await
    }

    /// The same for a database that another process may have open: reads one snapshot, takes no lock of the folder.
    ///
    /// # Errors
    /// `Open`, where there is no database; else as `backup`.
    pub async fn backup_file(database: &Path, to: &Path) -> Result<(), StoreError> {
        if !database.is_file() {
            return Err(StoreError::Open { path: database.to_owned(), reason: "there is no database".to_owned() });
        }
        let connect =
            sqlx::sqlite::SqliteConnectOptions::new().filename(database).create_if_missing(false).busy_timeout(std::time::Duration::from_secs(10));
        backup::write(&connect, to).await
    }

    /// Waits until nothing is taken any more, and says why: `Closed`, or the failure that stopped the store for good. A process that lives on
    /// over a stopped store does nothing for ever; a start finds out what is on the disk.
    pub async fn stopped(&self) -> StoreError {
        self.inner.queues.refused().await
    }

    /// Refuses new requests, finishes those queued, copies the write-ahead log into the database file, and lets go of the
    /// folder. Repeating waits for the same end. A dropped caller leaves the closing under way.
    ///
    /// # Errors
    /// What stopped the store before, or `Io`, `Full`, … of the last copy: the log is still there and nothing is lost.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.inner.queues.close();
        let mut ended = self.inner.ended.clone();
        let end = ended.wait_for(Option::is_some).await.map_err(|_| StoreError::Unanswered)?;
        end.clone().expect("wait_for saw a value")
    }
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqlite").field("file", &self.inner.connect.get_filename()).finish_non_exhaustive()
    }
}
