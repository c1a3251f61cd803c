//! The one writer: takes what waits, runs it in one transaction, commits, answers. Nobody waits for a timer: while a COMMIT
//! runs the next group gathers by itself.
//!
//! Two levels of durability (S4). At `synchronous=FULL` SQLite calls fsync on the write-ahead log at each COMMIT, at `NORMAL`
//! only before it copies the log into the database file (<https://www.sqlite.org/pragma.html#pragma_synchronous>). The log is
//! one file that grows at its end, and fsync takes the whole file (`sqlite3WalFrames` in wal.c: `if( isCommit &&
//! WAL_SYNC_FLAGS(sync_flags)!=0 )` → `sqlite3OsSync(w.pFd, …)`), so a FULL commit makes every earlier NORMAL commit durable,
//! too; what an earlier copy moved out of the log was synced before and after the move (`walCheckpoint`).
//!
//! After a failed COMMIT nothing is assumed. The connection is replaced, since the client library and the engine may disagree
//! about the open transaction. If the disk failed, the store also stops for good: after a failed fsync the system may drop
//! the pages and call the next fsync a success, and only a start (which copies and syncs the log) finds out what is there.

use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};

use super::connect::checkpoint;
use super::folder::FolderLock;
use super::queue::{Next, Queues, Served};
use super::request::{Abandon, Durability, Fate, Request};
use crate::StoreError;
use crate::limits::READERS_CLOSE_TIMEOUT;

pub(super) struct Writer {
    queues: Arc<Queues>,
    /// None only while it is being replaced, and after the store has stopped.
    conn: Option<SqliteConnection>,
    level: Durability,
    connect: SqliteConnectOptions,
    readers: SqlitePool,
    /// Why nothing more is run.
    stopped: Option<StoreError>,
    /// Let go of last, after the connection.
    lock: FolderLock,
}

/// How a group's transaction ended.
enum End {
    Committed,
    NotBegun(StoreError),
    Abandoned(StoreError),
    CommitFailed(StoreError),
}

impl Writer {
    pub(super) fn new(queues: Arc<Queues>, conn: SqliteConnection, connect: SqliteConnectOptions, readers: SqlitePool, lock: FolderLock) -> Self {
        Self { queues, conn: Some(conn), level: Durability::Process, connect, readers, stopped: None, lock }
    }

    /// Runs rounds until the queues are closed and empty. Once stopped it still answers (with the reason) and keeps the
    /// folder's lock until it is closed: somebody of this process may be in the middle of a handoff.
    pub(super) async fn run(mut self) -> Result<(), StoreError> {
        let _served = Served(Arc::clone(&self.queues));
        loop {
            // Those just answered get to submit their next request before the round is taken.
            tokio::task::yield_now().await;
            match self.queues.take() {
                Next::Round(round) => self.round(round).await,
                Next::Empty => self.queues.arrived().await,
                Next::Finished => return self.finish().await,
            }
        }
    }

    async fn round(&mut self, mut round: Vec<Box<dyn Request>>) {
        let fate = match self.conn.take() {
            Some(conn) => self.group(conn, &mut round).await,
            None => Fate::Lost(self.stopped.clone().unwrap_or(StoreError::Closed)),
        };
        for request in round {
            request.answer(&fate);
        }
    }

    async fn group(&mut self, mut conn: SqliteConnection, round: &mut [Box<dyn Request>]) -> Fate {
        let wanted = round.iter().map(|request| request.durability()).max().unwrap_or(Durability::Process);
        let end = match set_level(&mut conn, &mut self.level, wanted).await {
            Ok(()) => transaction(&mut conn, round).await,
            Err(error) => End::NotBegun(error),
        };
        match end {
            End::Committed => {
                self.conn = Some(conn);
                Fate::Committed
            }
            End::NotBegun(error) => {
                self.replace(conn).await;
                Fate::Lost(error)
            }
            End::Abandoned(error) => {
                self.replace(conn).await;
                Fate::Lost(StoreError::Abandoned { because: Box::new(error) })
            }
            End::CommitFailed(error) => {
                if matches!(error, StoreError::Io { .. } | StoreError::Corrupt { .. }) {
                    self.stop(error.clone());
                }
                self.replace(conn).await;
                Fate::Lost(StoreError::Commit { because: Box::new(error) })
            }
        }
    }

    /// Closing a connection rolls back whatever it has open; a new one starts from the last commit.
    async fn replace(&mut self, broken: SqliteConnection) {
        // Its error would say that the transaction couldn't be ended in good order, which is why it is being closed.
        let _ = broken.close().await;
        if self.stopped.is_some() {
            return;
        }
        match self.connect.connect().await {
            Ok(conn) => {
                self.level = Durability::Process;
                self.conn = Some(conn);
            }
            Err(error) => self.stop(StoreError::during("reconnect")(error)),
        }
    }

    fn stop(&mut self, because: StoreError) {
        self.queues.refuse(because.clone());
        self.stopped.get_or_insert(because);
    }

    async fn finish(self) -> Result<(), StoreError> {
        // Readers first: the last copy of the log is whole only without them. One that is never given back mustn't hold us.
        let _ = tokio::time::timeout(READERS_CLOSE_TIMEOUT, self.readers.close()).await;
        let end = match self.conn {
            Some(mut conn) => {
                let copied = checkpoint(&mut conn).await;
                copied.and(conn.close().await.map_err(StoreError::during("close")))
            }
            None => Ok(()),
        };
        drop(self.lock);
        self.stopped.map_or(end, Err)
    }
}

/// `raw_sql`, not `query`: this pragma takes effect when it is prepared (pragma.c), so a statement from the cache would do
/// nothing the second time. Inside a transaction it is an error, hence between groups, and only when the level changes.
async fn set_level(conn: &mut SqliteConnection, level: &mut Durability, wanted: Durability) -> Result<(), StoreError> {
    if *level == wanted {
        return Ok(());
    }
    let pragma = match wanted {
        Durability::Process => "PRAGMA synchronous=NORMAL",
        Durability::Disk => "PRAGMA synchronous=FULL",
    };
    sqlx::raw_sql(pragma).execute(conn).await.map_err(StoreError::during("change the level of durability"))?;
    *level = wanted;
    Ok(())
}

/// IMMEDIATE: the write lock is taken at once, so that no request meets a busy database in its middle.
async fn transaction(conn: &mut SqliteConnection, round: &mut [Box<dyn Request>]) -> End {
    let mut group = match conn.begin_with("BEGIN IMMEDIATE").await {
        Ok(group) => group,
        Err(error) => return End::NotBegun(StoreError::during("begin")(error)),
    };
    for request in round {
        if let Err(Abandon(because)) = request.run(&mut group).await {
            return End::Abandoned(because);
        }
    }
    match group.commit().await {
        Ok(()) => End::Committed,
        Err(error) => End::CommitFailed(StoreError::during("commit")(error)),
    }
}
