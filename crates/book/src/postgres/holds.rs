//! Suppressions, holds, constants and heartbeats: small tables that live in the book.

use curfew_domain::Moment;
use curfew_domain::sealed::RecipientRef;
use curfew_store::{Durability, Postgres, StoreError};
use sqlx::PgConnection;

use super::Halt;
use super::audit::{self, Entry};
use super::rows::{column, text};
use super::transact::{unread, write};
use crate::trail::{CURFEW, hold_object};
use crate::{BookError, HoldRow, SuppressionRow};

pub(super) async fn suppress(store: &Postgres, row: SuppressionRow) -> Result<bool, BookError> {
    write(store, Durability::Disk, "suppress a recipient", row, |conn, row| Box::pin(suppressed(conn, row))).await
}

async fn suppressed(conn: &mut PgConnection, row: &SuppressionRow) -> Result<bool, Halt> {
    let query = sqlx::query(include_str!("queries/suppress.sql"))
        .bind(row.tenant.as_deref().unwrap_or_default())
        .bind(row.recipient_ref.0.as_str())
        .bind(text(&row.recipient_masked))
        .bind(text(&row.reason))
        .bind(text(&row.actor))
        .bind(row.since.as_millis());
    let new = query.execute(&mut *conn).await.map_err(StoreError::asking("suppress a recipient"))?.rows_affected() > 0;
    if new && row.actor != CURFEW {
        let detail = serde_json::json!({ "tenant": row.tenant }).to_string();
        let (action, object) = ("suppress_recipient", row.recipient_ref.0.as_str());
        audit::append(conn, Entry { at: row.since, actor: &row.actor, action, object, reason: &row.reason, detail: &detail }).await?;
    }
    Ok(new)
}

/// Whom to take off a list.
pub(super) struct Unsuppress {
    pub(super) tenant: Option<String>,
    pub(super) recipient: RecipientRef,
    pub(super) actor: String,
    pub(super) reason: String,
    pub(super) at: Moment,
}

pub(super) async fn unsuppress(store: &Postgres, which: Unsuppress) -> Result<bool, BookError> {
    write(store, Durability::Disk, "unsuppress a recipient", which, |conn, which| Box::pin(unsuppressed(conn, which))).await
}

async fn unsuppressed(conn: &mut PgConnection, which: &Unsuppress) -> Result<bool, Halt> {
    let (tenant, recipient) = (which.tenant.as_deref().unwrap_or_default(), which.recipient.0.as_str());
    let query = sqlx::query(include_str!("queries/unsuppress.sql")).bind(tenant).bind(recipient);
    let gone = query.execute(&mut *conn).await.map_err(StoreError::asking("unsuppress a recipient"))?.rows_affected() > 0;
    if gone && which.actor != CURFEW {
        let detail = serde_json::json!({ "tenant": which.tenant }).to_string();
        let action = "unsuppress_recipient";
        audit::append(conn, Entry { at: which.at, actor: &which.actor, action, object: recipient, reason: &which.reason, detail: &detail }).await?;
    }
    Ok(gone)
}

pub(super) async fn suppressions(store: &Postgres) -> Result<Vec<SuppressionRow>, BookError> {
    let found = store.all("list suppressions", sqlx::query(include_str!("queries/suppressions.sql"))).await.map_err(unread("list suppressions"))?;
    let read = |row| {
        Ok(SuppressionRow {
            tenant: Some(column::<String>(row, 0)?).filter(|tenant| !tenant.is_empty()),
            recipient_ref: RecipientRef(column(row, 1)?),
            recipient_masked: column(row, 2)?,
            reason: column(row, 3)?,
            actor: column(row, 4)?,
            since: Moment::from_millis(column(row, 5)?),
        })
    };
    found.iter().map(read).collect()
}

pub(super) async fn hold(store: &Postgres, row: HoldRow) -> Result<(), BookError> {
    write(store, Durability::Disk, "hold", row, |conn, row| Box::pin(held(conn, row))).await
}

async fn held(conn: &mut PgConnection, row: &HoldRow) -> Result<(), Halt> {
    let query = sqlx::query(include_str!("queries/hold.sql"))
        .bind(text(&row.kind))
        .bind(text(&row.name))
        .bind(text(&row.by))
        .bind(row.until.map(Moment::as_millis))
        .bind(text(&row.reason))
        .bind(text(&row.actor))
        .bind(row.since.as_millis());
    query.execute(&mut *conn).await.map_err(StoreError::asking("hold"))?;
    if row.actor == CURFEW {
        return Ok(());
    }
    let detail = serde_json::json!({ "until": row.until.map(Moment::rfc3339) }).to_string();
    let object = hold_object(&row.kind, &row.name);
    audit::append(conn, Entry { at: row.since, actor: &row.actor, action: &row.by, object: &object, reason: &row.reason, detail: &detail }).await
}

/// A hold by name.
pub(super) struct Lift {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) by: String,
    pub(super) actor: String,
    pub(super) reason: String,
    pub(super) at: Moment,
}

pub(super) async fn lift(store: &Postgres, lift: Lift) -> Result<bool, BookError> {
    write(store, Durability::Disk, "lift a hold", lift, |conn, lift| Box::pin(lifted(conn, lift))).await
}

async fn lifted(conn: &mut PgConnection, lift: &Lift) -> Result<bool, Halt> {
    let query = sqlx::query(include_str!("queries/lift.sql")).bind(text(&lift.kind)).bind(text(&lift.name)).bind(text(&lift.by));
    let gone = query.execute(&mut *conn).await.map_err(StoreError::asking("lift a hold"))?.rows_affected() > 0;
    if gone && lift.actor != CURFEW {
        let detail = serde_json::json!({ "by": lift.by }).to_string();
        let object = hold_object(&lift.kind, &lift.name);
        audit::append(conn, Entry { at: lift.at, actor: &lift.actor, action: "lift", object: &object, reason: &lift.reason, detail: &detail })
            .await?;
    }
    Ok(gone)
}

pub(super) async fn holds(store: &Postgres) -> Result<Vec<HoldRow>, BookError> {
    let found = store.all("list holds", sqlx::query(include_str!("queries/holds.sql"))).await.map_err(unread("list holds"))?;
    let read = |row| {
        Ok(HoldRow {
            kind: column(row, 0)?,
            name: column(row, 1)?,
            by: column(row, 2)?,
            until: column::<Option<i64>>(row, 3)?.map(Moment::from_millis),
            reason: column(row, 4)?,
            actor: column(row, 5)?,
            since: Moment::from_millis(column(row, 6)?),
        })
    };
    found.iter().map(read).collect()
}

/// Those that stand are read in a statement of its own: another process may have written them meanwhile.
pub(super) async fn constants(store: &Postgres, given: &[(String, String)]) -> Result<Vec<(String, String)>, BookError> {
    write(store, Durability::Disk, "write the constants", given.to_vec(), |conn, given| {
        Box::pin(async move {
            let (names, values): (Vec<&str>, Vec<&str>) = given.iter().map(|(name, value)| (name.as_str(), value.as_str())).unzip();
            let put = sqlx::query(include_str!("queries/put_constants.sql")).bind(names).bind(values);
            put.execute(&mut *conn).await.map_err(StoreError::asking("write the constants"))?;
            let query = sqlx::query(include_str!("queries/constants.sql"));
            let found = query.fetch_all(conn).await.map_err(StoreError::asking("read the constants"))?;
            Ok(found.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect::<Result<_, BookError>>()?)
        })
    })
    .await
}

/// Waits for the disk: a beat that the server lost would look like a book that went back in time.
pub(super) async fn beat(store: &Postgres, count: u64, at: Moment) -> Result<(), BookError> {
    let query = sqlx::query(include_str!("queries/beat.sql")).bind(count.cast_signed()).bind(at.as_millis());
    store.run("write a beat", query).await.map(drop).map_err(unread("write a beat"))
}

pub(super) async fn last_beat(store: &Postgres) -> Result<Option<(u64, Moment)>, BookError> {
    let found = store.first("read the beat", sqlx::query(include_str!("queries/last_beat.sql"))).await.map_err(unread("read the beat"))?;
    found.as_ref().map(|row| Ok((column::<i64>(row, 0)?.cast_unsigned(), Moment::from_millis(column(row, 1)?)))).transpose()
}

/// The server's clock.
pub(super) async fn clock(store: &Postgres) -> Result<Moment, BookError> {
    let found = store.first("read the clock", sqlx::query(include_str!("queries/clock.sql"))).await.map_err(unread("read the clock"))?;
    let row = found.ok_or(BookError::Unavailable { operation: "read the clock" })?;
    column(&row, 0).map(Moment::from_millis)
}
