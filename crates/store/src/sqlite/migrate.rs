//! Migrations: numbered texts of the crates that own tables, each applied once.

use sha2::{Digest, Sha256};

use super::{Durability, Queue, Sqlite};
use crate::StoreError;

const RECORD: &str = include_str!("migration_record.sql");
const FIND: &str = "SELECT sha256 FROM migrations WHERE name = ?1";

/// One step of a schema, in SQL: `Migration { name: "book/0001_jobs", sql: include_str!("migrations/0001_jobs.sql") }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Unique over all crates, so it starts with its own crate's noun. Never reused.
    pub name: &'static str,
    /// Any statements that may stand in a transaction (no BEGIN, COMMIT, VACUUM). Never changed once released.
    pub sql: &'static str,
}

impl Migration {
    fn sha256(&self) -> Vec<u8> {
        Sha256::digest(self.sql.as_bytes()).to_vec()
    }

    /// Whether it is applied, by the digest found under its name.
    fn is_applied(&self, found: Option<&[u8]>) -> Result<bool, StoreError> {
        match found {
            None => Ok(false),
            Some(sha256) if sha256 == self.sha256() => Ok(true),
            Some(_) => Err(self.error("another text was applied under this name; was a released migration edited?")),
        }
    }

    fn error(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Migrate { name: self.name.to_owned(), reason: reason.into() }
    }
}

pub(super) async fn apply(store: &Sqlite, migrations: &[Migration]) -> Result<Vec<&'static str>, StoreError> {
    let mut applied = Vec::new();
    for migration in migrations.iter().copied() {
        let new = store.write(Queue::Ledger, Durability::Disk, move |conn| Box::pin(apply_one(conn, migration))).await?;
        if new {
            applied.push(migration.name);
        }
    }
    Ok(applied)
}

async fn apply_one(conn: &mut sqlx::SqliteConnection, migration: Migration) -> Result<bool, StoreError> {
    let failed = |error| match StoreError::during("migrate")(error) {
        engine if engine.is_of_the_engine() => engine,
        statement => migration.error(statement.to_string()),
    };
    let found: Option<Vec<u8>> = sqlx::query_scalar(FIND).bind(migration.name).fetch_optional(&mut *conn).await.map_err(failed)?;
    if migration.is_applied(found.as_deref())? {
        return Ok(false);
    }
    sqlx::raw_sql(migration.sql).execute(&mut *conn).await.map_err(failed)?;
    sqlx::query(RECORD).bind(migration.name).bind(migration.sha256()).execute(&mut *conn).await.map_err(failed)?;
    Ok(true)
}

pub(super) async fn pending(store: &Sqlite, migrations: &[Migration]) -> Result<Vec<&'static str>, StoreError> {
    let mut pending = Vec::new();
    for migration in migrations {
        let find = sqlx::query_scalar(FIND).bind(migration.name);
        let found: Option<Vec<u8>> = find.fetch_optional(store.read()).await.map_err(StoreError::during("list migrations"))?;
        if !migration.is_applied(found.as_deref())? {
            pending.push(migration.name);
        }
    }
    Ok(pending)
}
