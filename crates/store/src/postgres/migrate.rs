//! Migrations in PostgreSQL: on a connection of their own, under a lock of its session, so that of many processes that start at once
//! one migrates.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Row as _};
use tokio::time::timeout;

use super::{Postgres, connect};
use crate::limits::MIGRATE_WAIT;
use crate::{Migration, StoreError};

const OPERATION: &str = "migrate";

pub(super) async fn apply(store: &Postgres, migrations: &[Migration]) -> Result<Vec<&'static str>, StoreError> {
    let connecting = timeout(store.inner.options.connect_timeout, store.inner.connect.connect()).await;
    let mut conn = connecting.map_err(|_elapsed| StoreError::Lost { operation: OPERATION })?.map_err(StoreError::asking(OPERATION))?;
    let applied = under_the_lock(store, &mut conn, migrations).await;
    // The lock goes with the session, whether it ends well or not.
    let _ended = conn.close().await;
    applied
}

async fn under_the_lock(store: &Postgres, conn: &mut PgConnection, migrations: &[Migration]) -> Result<Vec<&'static str>, StoreError> {
    let failed = StoreError::asking(OPERATION);
    if let Some(schema) = &store.inner.options.schema {
        let create = format!("CREATE SCHEMA IF NOT EXISTS {}", connect::quoted(schema));
        // Of two that create it at once one fails on the name; it is there then.
        let _there = sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *conn).await;
    }
    // A table that is rewritten takes its time; a wait for a lock stays bounded, for what queues behind it waits, too.
    let bounds = format!("SET statement_timeout = 0; SET lock_timeout = {}", MIGRATE_WAIT.as_millis());
    sqlx::raw_sql(AssertSqlSafe(bounds)).execute(&mut *conn).await.map_err(failed)?;
    sqlx::query(include_str!("migrate_lock.sql")).execute(&mut *conn).await.map_err(failed)?;
    let bounds = format!("SET lock_timeout = {}", store.inner.options.lock_timeout.as_millis());
    sqlx::raw_sql(AssertSqlSafe(bounds)).execute(&mut *conn).await.map_err(failed)?;
    sqlx::raw_sql(include_str!("migrations_table.sql")).execute(&mut *conn).await.map_err(failed)?;
    let found = found(&sqlx::query(include_str!("migrations.sql")).fetch_all(&mut *conn).await.map_err(failed)?)?;
    let mut applied = Vec::new();
    for migration in migrations {
        if !migration.is_applied(found.get(migration.name).map(Vec::as_slice))? {
            apply_one(conn, migration).await?;
            applied.push(migration.name);
        }
    }
    Ok(applied)
}

async fn apply_one(conn: &mut PgConnection, migration: &Migration) -> Result<(), StoreError> {
    let failed = |error| match StoreError::asking(OPERATION)(error) {
        lost if lost.is_lost() => lost,
        statement => migration.error(statement.to_string()),
    };
    let mut transaction = conn.begin().await.map_err(failed)?;
    sqlx::raw_sql(migration.sql).execute(&mut *transaction).await.map_err(failed)?;
    let record = sqlx::query(include_str!("migration_record.sql")).bind(migration.name).bind(migration.sha256());
    record.execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)
}

pub(super) async fn pending(store: &Postgres, migrations: &[Migration]) -> Result<Vec<&'static str>, StoreError> {
    let there = store.first("list migrations", sqlx::query(include_str!("migrations_there.sql"))).await?;
    let found = match there {
        Some(_) => found(&store.all("list migrations", sqlx::query(include_str!("migrations.sql"))).await?)?,
        None => BTreeMap::new(),
    };
    let mut pending = Vec::new();
    for migration in migrations {
        if !migration.is_applied(found.get(migration.name).map(Vec::as_slice))? {
            pending.push(migration.name);
        }
    }
    Ok(pending)
}

fn found(rows: &[sqlx::postgres::PgRow]) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, _>>().map_err(StoreError::asking("list migrations"))
}
