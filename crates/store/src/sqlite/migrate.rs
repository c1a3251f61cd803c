//! Migrations in SQLite: each is one request to the writer.

use super::{Durability, Queue, Sqlite};
use crate::{Migration, StoreError};

const RECORD: &str = include_str!("migration_record.sql");
const FIND: &str = "SELECT sha256 FROM migrations WHERE name = ?1";

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
