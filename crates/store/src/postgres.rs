//! The handle to one schema of a PostgreSQL database: a pool of connections whose every wait has a bound.
//!
//! A write is code that runs in one transaction (`READ COMMITTED`), after whose COMMIT the caller is answered. Where the server undid it
//! because of another transaction it is run again, so it must be able to: everything that the book writes may be repeated.
//!
//! Not for a pooler in transaction mode: connections keep settings, prepared statements and, while they migrate, a lock of the session.
//! Read `transact.rs` next.

mod connect;
mod durability;
mod migrate;
mod schema;
mod transact;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

pub use durability::{DurabilityLevel, Reached};
pub use transact::Undoable;

use crate::limits::{
    ACQUIRE_TIMEOUT, ANSWER_TIMEOUT, CONNECT_TIMEOUT, CONNECTIONS_DEFAULT, IDLE_IN_TRANSACTION_TIMEOUT, LOCK_TIMEOUT, STATEMENT_TIMEOUT,
};
use crate::{Migration, StoreError};

/// How the pool behaves.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Connections at most, at least 1.
    pub connections: u32,
    /// The schema of all tables. `None`: the one that the URL or the role names, `public` in the end.
    pub schema: Option<String>,
    /// As `pg_stat_activity` shows this process.
    pub application_name: String,
    /// Bounds the first connection.
    pub connect_timeout: Duration,
    /// Bounds the wait for a connection of the pool, a new one included.
    pub acquire_timeout: Duration,
    /// The server's `statement_timeout`.
    pub statement_timeout: Duration,
    /// The server's `lock_timeout`.
    pub lock_timeout: Duration,
    /// The server's `idle_in_transaction_session_timeout`.
    pub idle_in_transaction_timeout: Duration,
    /// Bounds a whole transaction on our side.
    pub answer_timeout: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_DEFAULT,
            schema: None,
            application_name: "curfew".to_owned(),
            connect_timeout: CONNECT_TIMEOUT,
            acquire_timeout: ACQUIRE_TIMEOUT,
            statement_timeout: STATEMENT_TIMEOUT,
            lock_timeout: LOCK_TIMEOUT,
            idle_in_transaction_timeout: IDLE_IN_TRANSACTION_TIMEOUT,
            answer_timeout: ANSWER_TIMEOUT,
        }
    }
}

/// One schema of a database. Clones share the pool.
#[derive(Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

struct Inner {
    pool: PgPool,
    connect: PgConnectOptions,
    options: PostgresOptions,
    undone: AtomicU64,
}

impl Postgres {
    /// Connects once, so that a wrong URL or an old server shows at the start; later connections are made as they are needed.
    ///
    /// `url`: `postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=…`. TLS is rustls, by `sslmode`: `disable`,
    /// `allow`, `prefer` (the default), `require`, `verify-ca`, `verify-full`; only the last two know whom they talk to.
    ///
    /// # Errors
    /// `Connect`, in words that hold neither address nor password.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let connect = connect::options(url, &options)?;
        let pool = connect::pool(connect.clone(), &options);
        connect::first(&pool, &options).await?;
        Ok(Self { inner: Arc::new(Inner { pool, connect, options, undone: AtomicU64::new(0) }) })
    }

    /// The pool, for readers that bound themselves.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.inner.pool
    }

    /// Applies those of `migrations` that are missing, each in a transaction of its own, in their order; returns the names of those it
    /// applied. One process at a time does so; others wait. Creates the schema where it is missing. Repeating is free.
    ///
    /// # Errors
    /// `Migrate` where a statement failed or another text was applied under the same name; those before it stay applied. `Busy` where
    /// another process migrates for longer than a minute.
    pub async fn migrate(&self, migrations: &[Migration]) -> Result<Vec<&'static str>, StoreError> {
        migrate::apply(self, migrations).await
    }

    /// The names of those of `migrations` that are not applied, in their order; changes nothing. What a newer release applied is no matter.
    ///
    /// # Errors
    /// `Migrate` where another text was applied under the same name.
    pub async fn pending(&self, migrations: &[Migration]) -> Result<Vec<&'static str>, StoreError> {
        migrate::pending(self, migrations).await
    }

    /// What a commit is worth on this server, and by which of its settings.
    ///
    /// # Errors
    /// The server's.
    pub async fn durability(&self) -> Result<Reached, StoreError> {
        durability::reached(self).await
    }

    /// Transactions that were run again, since the start, because the server undid them for another one's sake.
    #[must_use]
    pub fn undone(&self) -> u64 {
        self.inner.undone.load(Ordering::Relaxed)
    }

    /// Waits for connections in use and closes all. Later calls fail with `Closed`.
    pub async fn close(&self) {
        self.inner.pool.close().await;
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("schema", &self.inner.options.schema).finish_non_exhaustive()
    }
}
