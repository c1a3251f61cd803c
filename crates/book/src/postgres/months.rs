//! Partitions by month, made ahead of time (`migrations/0003_months.sql`).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use curfew_domain::Moment;
use curfew_store::{Durability, Postgres, StoreError};
use sqlx::Row as _;

use super::transact::write;
use crate::BookError;

/// Months that are there beyond the present one.
const AHEAD: i32 = 2;
/// Fewer days than this ahead, and the next are made: the first try comes a month before anything would miss them.
const LEAST_AHEAD: Duration = Duration::from_secs(31 * 24 * 3600);
/// After a failure nobody tries again for this long: ticks must not wait for locks one after the other.
const REST: Duration = Duration::from_secs(3600);

pub(super) async fn make(store: &Postgres, until: &AtomicI64, at: Moment) -> Result<(), BookError> {
    let failed = StoreError::asking("make months");
    let made = write(store, Durability::Disk, "make months", at, move |conn, at| {
        Box::pin(async move {
            let query = sqlx::query(include_str!("queries/make_months.sql")).bind(at.as_millis()).bind(AHEAD);
            Ok(query.fetch_one(conn).await.and_then(|row| row.try_get::<i64, _>(0)).map_err(failed)?)
        })
    });
    until.store(made.await?, Ordering::Relaxed);
    Ok(())
}

/// Makes months where few are left; a failure waits an hour, for the rest takes what finds no month.
pub(super) async fn make_ahead(store: &Postgres, until: &AtomicI64, at: Moment) {
    if at.plus(LEAST_AHEAD).as_millis() < until.load(Ordering::Relaxed) {
        return;
    }
    if let Err(error) = make(store, until, at).await {
        until.store(at.plus(LEAST_AHEAD).plus(REST).as_millis(), Ordering::Relaxed);
        tracing::warn!(%error, "no partitions could be made for the coming months; rows go to the rest");
    }
}
