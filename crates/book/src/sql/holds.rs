//! Suppressions, holds, constants and heartbeats: small tables that live in the book.

use curfew_domain::Moment;
use curfew_domain::sealed::RecipientRef;
use curfew_store::{Durability, Queue, Sqlite, StoreError};

use super::audit::{self, Entry};
use super::rows::column;
use super::transact::{unread, write};
use crate::trail::{CURFEW, hold_object};
use crate::{BookError, HoldRow, SuppressionRow};

pub(super) async fn suppress(store: &Sqlite, row: SuppressionRow) -> Result<bool, BookError> {
    write(store, Queue::Ledger, Durability::Disk, "suppress a recipient", move |conn| {
        Box::pin(async move {
            let tenant = row.tenant.as_deref().unwrap_or_default();
            let query = sqlx::query(include_str!("queries/suppress.sql"))
                .bind(tenant)
                .bind(row.recipient_ref.0.as_str())
                .bind(row.recipient_masked.as_str())
                .bind(row.reason.as_str())
                .bind(row.actor.as_str())
                .bind(row.since.as_millis());
            let new = query.execute(&mut *conn).await.map_err(StoreError::during("suppress a recipient"))?.rows_affected() > 0;
            if new && row.actor != CURFEW {
                let detail = serde_json::json!({ "tenant": row.tenant }).to_string();
                let entry = Entry {
                    at: row.since,
                    actor: &row.actor,
                    action: "suppress_recipient",
                    object: &row.recipient_ref.0,
                    reason: &row.reason,
                    detail: &detail,
                };
                audit::append(conn, entry).await?;
            }
            Ok(new)
        })
    })
    .await
}

pub(super) async fn unsuppress(
    store: &Sqlite,
    tenant: Option<&str>,
    recipient: &RecipientRef,
    actor: &str,
    reason: &str,
    at: Moment,
) -> Result<bool, BookError> {
    let (tenant, recipient, actor, reason) = (tenant.map(str::to_owned), recipient.clone(), actor.to_owned(), reason.to_owned());
    write(store, Queue::Ledger, Durability::Disk, "unsuppress a recipient", move |conn| {
        Box::pin(async move {
            let query = sqlx::query(include_str!("queries/unsuppress.sql")).bind(tenant.as_deref().unwrap_or_default()).bind(recipient.0.as_str());
            let gone = query.execute(&mut *conn).await.map_err(StoreError::during("unsuppress a recipient"))?.rows_affected() > 0;
            if gone && actor != CURFEW {
                let detail = serde_json::json!({ "tenant": tenant }).to_string();
                let entry = Entry { at, actor: &actor, action: "unsuppress_recipient", object: &recipient.0, reason: &reason, detail: &detail };
                audit::append(conn, entry).await?;
            }
            Ok(gone)
        })
    })
    .await
}

pub(super) async fn suppressions(store: &Sqlite) -> Result<Vec<SuppressionRow>, BookError> {
    let found = sqlx::query(include_str!("queries/suppressions.sql")).fetch_all(store.read()).await.map_err(unread("list suppressions"))?;
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

pub(super) async fn hold(store: &Sqlite, row: HoldRow) -> Result<(), BookError> {
    write(store, Queue::Ledger, Durability::Disk, "hold", move |conn| {
        Box::pin(async move {
            let query = sqlx::query(include_str!("queries/hold.sql"))
                .bind(row.kind.as_str())
                .bind(row.name.as_str())
                .bind(row.by.as_str())
                .bind(row.until.map(Moment::as_millis))
                .bind(row.reason.as_str())
                .bind(row.actor.as_str())
                .bind(row.since.as_millis());
            query.execute(&mut *conn).await.map_err(StoreError::during("hold"))?;
            if row.actor != CURFEW {
                let detail = serde_json::json!({ "until": row.until.map(Moment::rfc3339) }).to_string();
                let object = hold_object(&row.kind, &row.name);
                audit::append(
                    conn,
                    Entry { at: row.since, actor: &row.actor, action: &row.by, object: &object, reason: &row.reason, detail: &detail },
                )
                .await?;
            }
            Ok(())
        })
    })
    .await
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

pub(super) async fn lift(store: &Sqlite, lift: Lift) -> Result<bool, BookError> {
    write(store, Queue::Ledger, Durability::Disk, "lift a hold", move |conn| {
        Box::pin(async move {
            let query = sqlx::query(include_str!("queries/lift.sql")).bind(lift.kind.as_str()).bind(lift.name.as_str()).bind(lift.by.as_str());
            let gone = query.execute(&mut *conn).await.map_err(StoreError::during("lift a hold"))?.rows_affected() > 0;
            if gone && lift.actor != CURFEW {
                let detail = serde_json::json!({ "by": lift.by }).to_string();
                let object = hold_object(&lift.kind, &lift.name);
                audit::append(
                    conn,
                    Entry { at: lift.at, actor: &lift.actor, action: "lift", object: &object, reason: &lift.reason, detail: &detail },
                )
                .await?;
            }
            Ok(gone)
        })
    })
    .await
}

pub(super) async fn holds(store: &Sqlite) -> Result<Vec<HoldRow>, BookError> {
    let found = sqlx::query(include_str!("queries/holds.sql")).fetch_all(store.read()).await.map_err(unread("list holds"))?;
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

pub(super) async fn constants(store: &Sqlite, given: &[(String, String)]) -> Result<Vec<(String, String)>, BookError> {
    let given = given.to_vec();
    write(store, Queue::Ledger, Durability::Disk, "write the constants", move |conn| {
        Box::pin(async move {
            for (name, value) in &given {
                let query = sqlx::query(include_str!("queries/constant.sql")).bind(name.as_str()).bind(value.as_str());
                query.execute(&mut *conn).await.map_err(StoreError::during("write the constants"))?;
            }
            let found = sqlx::query(include_str!("queries/constants.sql")).fetch_all(conn).await.map_err(StoreError::during("read the constants"))?;
            Ok(found.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect::<Result<_, BookError>>()?)
        })
    })
    .await
}

/// A beat comes each tick; lost with the machine it is followed by the next.
pub(super) async fn beat(store: &Sqlite, count: u64, at: Moment) -> Result<(), BookError> {
    write(store, Queue::Ledger, Durability::Process, "write a beat", move |conn| {
        Box::pin(async move {
            let query = sqlx::query(include_str!("queries/beat.sql")).bind(count.cast_signed()).bind(at.as_millis());
            Ok(query.execute(conn).await.map(drop).map_err(StoreError::during("write a beat"))?)
        })
    })
    .await
}

pub(super) async fn last_beat(store: &Sqlite) -> Result<Option<(u64, Moment)>, BookError> {
    let found = sqlx::query(include_str!("queries/last_beat.sql")).fetch_optional(store.read()).await.map_err(unread("read the beat"))?;
    found.as_ref().map(|row| Ok((column::<i64>(row, 0)?.cast_unsigned(), Moment::from_millis(column(row, 1)?)))).transpose()
}
