//! One transaction, its bounds, and what is run again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Connection, PgConnection};
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};

use super::Postgres;
use crate::limits::UNDONE_TRIES_MAX;
use crate::{Durability, StoreError};

/// Waits for nothing: the server writes its log within three of its own rounds (0.6 s by default). Only for what is made again when lost.
const BEGIN_UNSYNCED: &str = include_str!("begin_unsynced.sql");

/// An error that may hold the store's: only those can mean that a transaction was undone.
pub trait Undoable: From<StoreError> {
    /// The store's failure, where it is one.
    fn of_the_store(&self) -> Option<&StoreError>;
}

impl Undoable for StoreError {
    fn of_the_store(&self) -> Option<&StoreError> {
        Some(self)
    }
}

impl Postgres {
    /// Runs `work` in a transaction and answers after its COMMIT; on `Err` nothing of it is written.
    ///
    /// `Durability::Disk` is what the server is set to (see [`Postgres::durability`]); `Process` is answered before the disk has it.
    /// `work` is called again where the server undid the transaction because of another one, at most [`UNDONE_TRIES_MAX`] times. It takes
    /// row locks in the order of keys. A dropped caller leaves the transaction undone, unless its COMMIT was under way.
    ///
    /// # Errors
    /// What `work` returned; `Lost` or `Commit` where nobody knows; `Busy` where no connection came free or a bound was met.
    pub async fn write<T, E, F>(&self, operation: &'static str, durability: Durability, work: F) -> Result<T, E>
    where
        T: Send,
        E: Undoable + Send,
        F: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>> + Send + Sync,
    {
        let mut tries = 0;
        loop {
            let mut conn = self.check_out(operation).await?;
            let answer = timeout(self.inner.options.answer_timeout, attempt(&mut conn, operation, durability, &work)).await;
            let answer = let_go(operation, conn, answer);
            match &answer {
                Err(error) if tries < UNDONE_TRIES_MAX && error.of_the_store().is_some_and(StoreError::is_undone) => {}
                Ok(_) | Err(_) => return answer,
            }
            self.inner.undone.fetch_add(1, Ordering::Relaxed);
            tries += 1;
            // Whoever undid it is about to commit; a few milliseconds let it.
            sleep(Duration::from_millis(5 << tries)).await;
        }
    }

    /// All rows of one statement outside a transaction.
    ///
    /// # Errors
    /// The store's.
    pub async fn all(&self, operation: &'static str, query: Query<'_, sqlx::Postgres, PgArguments>) -> Result<Vec<PgRow>, StoreError> {
        let mut conn = self.check_out(operation).await?;
        let answer = timeout(self.inner.options.answer_timeout, query.fetch_all(&mut *conn)).await;
        let_go(operation, conn, answer.map(|found| found.map_err(StoreError::asking(operation))))
    }

    /// The first row of one statement outside a transaction, if there is one.
    ///
    /// # Errors
    /// The store's.
    pub async fn first(&self, operation: &'static str, query: Query<'_, sqlx::Postgres, PgArguments>) -> Result<Option<PgRow>, StoreError> {
        let mut conn = self.check_out(operation).await?;
        let answer = timeout(self.inner.options.answer_timeout, query.fetch_optional(&mut *conn)).await;
        let_go(operation, conn, answer.map(|found| found.map_err(StoreError::asking(operation))))
    }

    /// One statement that writes, committed by itself; how many rows it changed.
    ///
    /// # Errors
    /// The store's.
    pub async fn run(&self, operation: &'static str, query: Query<'_, sqlx::Postgres, PgArguments>) -> Result<u64, StoreError> {
        let mut conn = self.check_out(operation).await?;
        let answer = timeout(self.inner.options.answer_timeout, query.execute(&mut *conn)).await;
        let_go(operation, conn, answer.map(|done| done.map(|done| done.rows_affected()).map_err(StoreError::asking(operation))))
    }

    async fn check_out(&self, operation: &'static str) -> Result<PoolConnection<sqlx::Postgres>, StoreError> {
        self.inner.pool.acquire().await.map_err(StoreError::asking(operation))
    }
}

/// The answer, if it came in time. A connection that was lost, or whose answer is still out, is closed instead of given back.
fn let_go<T, E: Undoable>(operation: &'static str, mut conn: PoolConnection<sqlx::Postgres>, answer: Result<Result<T, E>, Elapsed>) -> Result<T, E> {
    let answer = answer.unwrap_or_else(|_elapsed| Err(StoreError::Lost { operation }.into()));
    if answer.as_ref().is_err_and(|error| error.of_the_store().is_some_and(StoreError::is_lost)) {
        conn.close_on_drop();
    }
    answer
}

async fn attempt<T, E, F>(conn: &mut PgConnection, operation: &'static str, durability: Durability, work: &F) -> Result<T, E>
where
    E: Undoable,
    F: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>>,
{
    let failed = StoreError::asking(operation);
    let mut transaction = match durability {
        Durability::Disk => conn.begin().await.map_err(failed)?,
        Durability::Process => conn.begin_with(BEGIN_UNSYNCED).await.map_err(failed)?,
    };
    match work(&mut transaction).await {
        Ok(value) => {
            transaction.commit().await.map_err(|error| StoreError::Commit { because: Box::new(failed(error)) })?;
            Ok(value)
        }
        Err(error) => {
            // A failed ROLLBACK changes nothing: what isn't committed is undone with the connection.
            let _undone = transaction.rollback().await;
            Err(error)
        }
    }
}
