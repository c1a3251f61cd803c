//! The registry: small tables of processes, incarnations and reports.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use curfew_domain::{Moment, Shard, WorkerId};
use curfew_store::{Durability, Queue, StoreError};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::SqlBook;
use super::rows::column;
use super::transact::{Halt, unread, write};
use crate::{BookError, Drain, Enrolled, Enrolment, Orders, REMEMBERED, Registry, SILENT_AFTER};

#[async_trait]
impl Registry for SqlBook {
    async fn enrol(&self, process: &Enrolment) -> Result<(), BookError> {
        let process = process.clone();
        write(self.store(), Queue::Ledger, Durability::Disk, "enrol", move |conn| Box::pin(enrol(conn, process))).await
    }

    /// Lost with the machine it is followed by the next.
    async fn alive(&self, id: WorkerId, at: Moment) -> Result<Orders, BookError> {
        write(self.store(), Queue::Ledger, Durability::Process, "beat", move |conn| {
            Box::pin(async move {
                let query = sqlx::query(include_str!("queries/worker_beat.sql")).bind(bytes(id)).bind(at.as_millis());
                Ok(orders(query.fetch_optional(conn).await.map_err(StoreError::during("beat"))?.as_ref())?)
            })
        })
        .await
    }

    /// Lost with the machine it is followed by the next.
    async fn measured(&self, id: WorkerId, drain: Drain) -> Result<(), BookError> {
        write(self.store(), Queue::Ledger, Durability::Process, "keep a drain", move |conn| {
            Box::pin(async move {
                let query = sqlx::query(include_str!("queries/worker_drain.sql")).bind(bytes(id)).bind(drain.best).bind(drain.latest);
                Ok(query.execute(conn).await.map(drop).map_err(StoreError::during("keep a drain"))?)
            })
        })
        .await
    }

    async fn orders(&self, id: WorkerId) -> Result<Orders, BookError> {
        let query = sqlx::query(include_str!("queries/worker_orders.sql")).bind(bytes(id));
        orders(query.fetch_optional(self.store().read()).await.map_err(unread("read orders"))?.as_ref())
    }

    async fn leave(&self, id: WorkerId, at: Moment) -> Result<(), BookError> {
        write(self.store(), Queue::Ledger, Durability::Disk, "leave", move |conn| {
            Box::pin(async move {
                let query = sqlx::query(include_str!("queries/worker_leaves.sql")).bind(bytes(id)).bind(at.as_millis());
                Ok(query.execute(conn).await.map(drop).map_err(StoreError::during("leave"))?)
            })
        })
        .await
    }

    async fn enrolled(&self, since: Moment) -> Result<Vec<Enrolled>, BookError> {
        let query = sqlx::query(include_str!("queries/workers.sql")).bind(since.as_millis());
        let found = query.fetch_all(self.store().read()).await.map_err(unread("list processes"))?;
        found.iter().map(enrolled).collect()
    }

    async fn ask_to_drain(&self, at: Moment) -> Result<u64, BookError> {
        write(self.store(), Queue::Ledger, Durability::Disk, "ask to drain", move |conn| {
            Box::pin(async move {
                let query = sqlx::query(include_str!("queries/ask_to_drain.sql")).bind(at.as_millis()).bind(at.minus(SILENT_AFTER).as_millis());
                let asked = query.fetch_all(conn).await.map_err(StoreError::during("ask to drain"))?;
                let run = asked.iter().map(|row| column::<bool>(row, 0)).collect::<Result<Vec<_>, _>>()?;
                Ok(run.into_iter().map(u64::from).sum())
            })
        })
        .await
    }

    async fn incarnations(&self) -> Result<BTreeMap<Shard, u32>, BookError> {
        let query = sqlx::query(include_str!("queries/incarnations.sql"));
        let found = query.fetch_all(self.store().read()).await.map_err(unread("read the incarnations"))?;
        found.iter().map(|row| Ok((Shard(column(row, 0)?), column(row, 1)?))).collect()
    }

    async fn raise(&self, shard: Shard, from: u32) -> Result<u32, BookError> {
        write(self.store(), Queue::Ledger, Durability::Disk, "raise an incarnation", move |conn| Box::pin(raise(conn, shard, from))).await
    }

    async fn reported(&self, id: WorkerId, shard: Shard, incarnation: u32) -> Result<(), BookError> {
        write(self.store(), Queue::Ledger, Durability::Disk, "report", move |conn| {
            Box::pin(async move {
                let query = sqlx::query(include_str!("queries/report.sql")).bind(shard.0).bind(incarnation).bind(bytes(id));
                Ok(query.execute(conn).await.map(drop).map_err(StoreError::during("report"))?)
            })
        })
        .await
    }

    async fn reports(&self, shard: Shard, incarnation: u32) -> Result<BTreeSet<WorkerId>, BookError> {
        let query = sqlx::query(include_str!("queries/reports.sql")).bind(shard.0).bind(incarnation);
        let found = query.fetch_all(self.store().read()).await.map_err(unread("read reports"))?;
        found.iter().map(|row| worker(column(row, 0)?)).collect()
    }
}

async fn enrol(conn: &mut SqliteConnection, process: Enrolment) -> Result<(), Halt> {
    let failed = StoreError::during("enrol");
    let forget = sqlx::query(include_str!("queries/forget_workers.sql")).bind(process.at.minus(REMEMBERED).as_millis());
    forget.execute(&mut *conn).await.map_err(failed)?;
    let query = sqlx::query(include_str!("queries/enrol.sql"))
        .bind(bytes(process.id))
        .bind(process.roles.join(","))
        .bind(process.name)
        .bind(process.version)
        .bind(process.reads_format)
        .bind(process.at.as_millis());
    query.execute(conn).await.map(drop).map_err(failed)?;
    Ok(())
}

async fn raise(conn: &mut SqliteConnection, shard: Shard, from: u32) -> Result<u32, Halt> {
    let failed = StoreError::during("raise an incarnation");
    sqlx::query(include_str!("queries/shard_row.sql")).bind(shard.0).execute(&mut *conn).await.map_err(failed)?;
    sqlx::query(include_str!("queries/raise_from.sql")).bind(shard.0).bind(from).execute(&mut *conn).await.map_err(failed)?;
    let stands = sqlx::query(include_str!("queries/incarnation.sql")).bind(shard.0).fetch_one(&mut *conn).await.map_err(failed)?;
    let stands: u32 = column(&stands, 0)?;
    sqlx::query(include_str!("queries/forget_reports.sql")).bind(shard.0).bind(stands).execute(conn).await.map_err(failed)?;
    Ok(stands)
}

fn bytes(id: WorkerId) -> Vec<u8> {
    id.0.as_bytes().to_vec()
}

fn worker(bytes: &[u8]) -> Result<WorkerId, BookError> {
    Uuid::from_slice(bytes).map(WorkerId).map_err(|_length| BookError::Unreadable("a process's id".to_owned()))
}

fn orders(found: Option<&SqliteRow>) -> Result<Orders, BookError> {
    match found {
        Some(row) => Ok(Orders { drain: column(row, 0)?, unknown: false }),
        None => Ok(Orders { drain: false, unknown: true }),
    }
}

fn enrolled(row: &SqliteRow) -> Result<Enrolled, BookError> {
    let moment = |place| column::<Option<i64>>(row, place).map(|ms| ms.map(Moment::from_millis));
    Ok(Enrolled {
        enrolment: Enrolment {
            id: worker(column(row, 0)?)?,
            roles: column::<&str>(row, 1)?.split(',').filter(|role| !role.is_empty()).map(str::to_owned).collect(),
            name: column(row, 2)?,
            version: column(row, 3)?,
            reads_format: column(row, 4)?,
            at: Moment::from_millis(column(row, 5)?),
        },
        beat_at: Moment::from_millis(column(row, 6)?),
        stopped_at: moment(7)?,
        drain_asked_at: moment(8)?,
        drain: column::<Option<u32>>(row, 9)?.zip(column::<Option<u32>>(row, 10)?).map(|(best, latest)| Drain { best, latest }),
    })
}
