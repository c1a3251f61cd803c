//! The registry: small tables of processes, incarnations and reports. Every write waits for the disk, for recovery rests on it.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use curfew_domain::{Moment, Shard, WorkerId};
use curfew_store::{Durability, StoreError};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::rows::{column, number, text};
use super::transact::{unread, write};
use super::{Halt, PostgresBook};
use crate::{BookError, Drain, Enrolled, Enrolment, Orders, REMEMBERED, Registry, SILENT_AFTER};

#[async_trait]
impl Registry for PostgresBook {
    async fn enrol(&self, process: &Enrolment) -> Result<(), BookError> {
        write(self.store(), Durability::Disk, "enrol", process.clone(), |conn, process| Box::pin(enrol(conn, process))).await
    }

    async fn alive(&self, id: WorkerId, at: Moment) -> Result<Orders, BookError> {
        let query = sqlx::query(include_str!("queries/worker_beat.sql")).bind(bytes(&id)).bind(at.as_millis());
        orders(self.store().first("beat", query).await.map_err(unread("beat"))?.as_ref())
    }

    async fn measured(&self, id: WorkerId, drain: Drain) -> Result<(), BookError> {
        let query = sqlx::query(include_str!("queries/worker_drain.sql")).bind(bytes(&id)).bind(i64::from(drain.best)).bind(i64::from(drain.latest));
        self.store().first("keep a drain", query).await.map(drop).map_err(unread("keep a drain"))
    }

    async fn orders(&self, id: WorkerId) -> Result<Orders, BookError> {
        let query = sqlx::query(include_str!("queries/worker_orders.sql")).bind(bytes(&id));
        orders(self.store().first("read orders", query).await.map_err(unread("read orders"))?.as_ref())
    }

    async fn leave(&self, id: WorkerId, at: Moment) -> Result<(), BookError> {
        let query = sqlx::query(include_str!("queries/worker_leaves.sql")).bind(bytes(&id)).bind(at.as_millis());
        self.store().run("leave", query).await.map(drop).map_err(unread("leave"))
    }

    async fn enrolled(&self, since: Moment) -> Result<Vec<Enrolled>, BookError> {
        let query = sqlx::query(include_str!("queries/workers.sql")).bind(since.as_millis());
        let found = self.store().all("list processes", query).await.map_err(unread("list processes"))?;
        found.iter().map(enrolled).collect()
    }

    async fn ask_to_drain(&self, at: Moment) -> Result<u64, BookError> {
        let query = sqlx::query(include_str!("queries/ask_to_drain.sql")).bind(at.as_millis()).bind(at.minus(SILENT_AFTER).as_millis());
        let asked = self.store().all("ask to drain", query).await.map_err(unread("ask to drain"))?;
        let run = asked.iter().map(|row| column::<bool>(row, 0)).collect::<Result<Vec<_>, _>>()?;
        Ok(run.into_iter().map(u64::from).sum())
    }

    async fn incarnations(&self) -> Result<BTreeMap<Shard, u32>, BookError> {
        let query = sqlx::query(include_str!("queries/incarnations.sql"));
        let found = self.store().all("read the incarnations", query).await.map_err(unread("read the incarnations"))?;
        found.iter().map(|row| Ok((shard(column(row, 0)?)?, number(row, 1)?))).collect()
    }

    async fn raise(&self, shard: Shard, from: u32) -> Result<u32, BookError> {
        write(self.store(), Durability::Disk, "raise an incarnation", (shard, from), |conn, (shard, from)| Box::pin(raise(conn, *shard, *from))).await
    }

    async fn reported(&self, id: WorkerId, shard: Shard, incarnation: u32) -> Result<(), BookError> {
        let query = sqlx::query(include_str!("queries/report.sql")).bind(small(shard)).bind(incarnation.cast_signed()).bind(bytes(&id));
        self.store().run("report", query).await.map(drop).map_err(unread("report"))
    }

    async fn reports(&self, shard: Shard, incarnation: u32) -> Result<BTreeSet<WorkerId>, BookError> {
        let query = sqlx::query(include_str!("queries/reports.sql")).bind(small(shard)).bind(incarnation.cast_signed());
        let found = self.store().all("read reports", query).await.map_err(unread("read reports"))?;
        found.iter().map(|row| worker(column(row, 0)?)).collect()
    }
}

async fn enrol(conn: &mut PgConnection, process: &Enrolment) -> Result<(), Halt> {
    let failed = StoreError::asking("enrol");
    let forget = sqlx::query(include_str!("queries/forget_workers.sql")).bind(process.at.minus(REMEMBERED).as_millis());
    forget.execute(&mut *conn).await.map_err(failed)?;
    let query = sqlx::query(include_str!("queries/enrol.sql"))
        .bind(bytes(&process.id))
        .bind(process.roles.as_slice())
        .bind(text(&process.name))
        .bind(text(&process.version))
        .bind(i32::from(process.reads_format))
        .bind(process.at.as_millis());
    query.execute(conn).await.map(drop).map_err(failed)?;
    Ok(())
}

/// The row is locked by the update; what stands is read in a later statement, for another raise may have been first.
async fn raise(conn: &mut PgConnection, shard: Shard, from: u32) -> Result<u32, Halt> {
    let (shard, failed) = (small(shard), StoreError::asking("raise an incarnation"));
    sqlx::query(include_str!("queries/shard_row.sql")).bind(shard).execute(&mut *conn).await.map_err(failed)?;
    sqlx::query(include_str!("queries/raise_from.sql")).bind(shard).bind(from.cast_signed()).execute(&mut *conn).await.map_err(failed)?;
    let stands = sqlx::query(include_str!("queries/incarnation.sql")).bind(shard).fetch_one(&mut *conn).await.map_err(failed)?;
    let stands = number(&stands, 0)?;
    let forget = sqlx::query(include_str!("queries/forget_reports.sql")).bind(shard).bind(stands.cast_signed());
    forget.execute(conn).await.map_err(failed)?;
    Ok(stands)
}

fn bytes(id: &WorkerId) -> &[u8] {
    id.0.as_bytes()
}

fn small(shard: Shard) -> i16 {
    i16::from(shard.0)
}

fn shard(number: i16) -> Result<Shard, BookError> {
    u8::try_from(number).map(Shard).map_err(|_range| BookError::Unreadable("a shard".to_owned()))
}

fn worker(bytes: &[u8]) -> Result<WorkerId, BookError> {
    Uuid::from_slice(bytes).map(WorkerId).map_err(|_length| BookError::Unreadable("a process's id".to_owned()))
}

fn orders(found: Option<&PgRow>) -> Result<Orders, BookError> {
    match found {
        Some(row) => Ok(Orders { drain: column(row, 0)?, unknown: false }),
        None => Ok(Orders { drain: false, unknown: true }),
    }
}

fn enrolled(row: &PgRow) -> Result<Enrolled, BookError> {
    let count = |row: &PgRow, place| column::<Option<i64>>(row, place).map(|count| count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)));
    let moment = |place| column::<Option<i64>>(row, place).map(|ms| ms.map(Moment::from_millis));
    Ok(Enrolled {
        enrolment: Enrolment {
            id: worker(column(row, 0)?)?,
            roles: column(row, 1)?,
            name: column(row, 2)?,
            version: column(row, 3)?,
            reads_format: u16::try_from(number(row, 4)?).map_err(|_range| BookError::Unreadable("a process's format".to_owned()))?,
            at: Moment::from_millis(column(row, 5)?),
        },
        beat_at: Moment::from_millis(column(row, 6)?),
        stopped_at: moment(7)?,
        drain_asked_at: moment(8)?,
        drain: count(row, 9)?.zip(count(row, 10)?).map(|(best, latest)| Drain { best, latest }),
    })
}
