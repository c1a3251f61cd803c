//! Schedules: put, turned, read. A change and what it takes back are one transaction (S1, S4). Their slots are `slots.rs`'s.

use async_trait::async_trait;
use curfew_domain::recurrence::{Change, Skip};
use curfew_domain::sealed::Sealed;
use curfew_domain::{Moment, Reason};
use curfew_store::{Durability, StoreError};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::audit::{self, Entry};
use super::rows::{column, number, text};
use super::transact::{unread, write};
use super::{Halt, PostgresBook, slots};
use crate::judge::schedule::{self, Ruling};
use crate::paging::PAGE_MAX;
use crate::schedules::{self, LOOKED_BACK, list_after, list_cursor, phase_code};
use crate::{
    Batch, BookError, ChangeRequest, Changed, Door, Due, LATE_AFTER_MS, Materialised, Page, PutSchedule, Run, ScheduleRow, Schedules, forms,
};

/// How long a schedule that one scheduler was given stays out of the others' way. It is planned long before, or that scheduler is gone.
const SOFT_CLAIM_MS: i64 = 30_000;

/// A SELECT over schedules.
macro_rules! select {
    ($($which:literal),+) => {
        concat!(include_str!("queries/schedule_columns.sql"), $(include_str!(concat!("queries/", $which))),+)
    };
}

/// What a person asks for.
#[derive(Clone, Debug)]
enum Asked {
    Put(Box<PutSchedule>),
    Turn(Change),
}

#[async_trait]
impl Schedules for PostgresBook {
    async fn put_schedule(&self, request: &ChangeRequest, put: PutSchedule) -> Result<Changed, BookError> {
        schedule::check(request)?;
        let asked = (request.clone(), Asked::Put(Box::new(put)));
        write(self.store(), Durability::Disk, "put a schedule", asked, |conn, (request, asked)| Box::pin(changed(conn, request, asked))).await
    }

    async fn turn_schedule(&self, request: &ChangeRequest, change: Change) -> Result<Changed, BookError> {
        schedule::check(request)?;
        if change == Change::Edit {
            return Err(BookError::Invalid { field: "change", reason: "an edit needs a definition".to_owned() });
        }
        let asked = (request.clone(), Asked::Turn(change));
        write(self.store(), Durability::Disk, "turn a schedule", asked, |conn, (request, asked)| Box::pin(changed(conn, request, asked))).await
    }

    async fn schedule(&self, tenant: &str, name: &str) -> Result<Option<ScheduleRow>, BookError> {
        let query = sqlx::query(select!("schedule_of.sql")).bind(tenant).bind(name);
        let found = self.store().first("read a schedule", query).await.map_err(unread("read a schedule"))?;
        found.as_ref().map(row).transpose()
    }

    async fn schedules(&self, tenant: Option<&str>, cursor: Option<&str>, limit: u32) -> Result<Page<ScheduleRow>, BookError> {
        let (limit, after) = (limit.clamp(1, PAGE_MAX), list_after(cursor)?);
        let query = sqlx::query(select!("schedules_list.sql")).bind(after.0).bind(after.1).bind(tenant).bind(i64::from(limit) + 1);
        let found = self.store().all("list schedules", query).await.map_err(unread("list schedules"))?;
        let listed = |found: &PgRow| Ok((list_cursor(column(found, 1)?, column(found, 2)?), row(found)));
        let found = found.iter().map(listed).collect::<Result<Vec<_>, BookError>>()?;
        Ok(schedules::page(found, limit, &self.unreadable))
    }

    async fn due_schedules(&self, now: Moment, limit: u32) -> Result<Vec<Due>, BookError> {
        let ask = (now, limit, self.me());
        write(self.store(), Durability::Process, "find schedules to scan", ask, |conn, ask| Box::pin(claimed(conn, *ask))).await
    }

    async fn materialise(&self, batches: Vec<Batch>, door: &Door) -> Result<Vec<Materialised>, BookError> {
        slots::materialise(self.store(), batches, door).await
    }

    async fn put_off(&self, tenant: &str, name: &str, revision: u64, until: Moment, trouble: &str) -> Result<(), BookError> {
        let query = sqlx::query(include_str!("queries/schedule_put_off.sql")).bind(tenant).bind(name).bind(revision.cast_signed());
        let query = query.bind(until.as_millis()).bind(text(trouble));
        self.store().run("put off a schedule", query).await.map(drop).map_err(unread("put off a schedule"))
    }

    async fn runs(&self, tenant: &str, name: &str, date: &str, now: Moment) -> Result<Vec<Run>, BookError> {
        let query = sqlx::query(select!("schedule_of.sql")).bind(tenant).bind(name);
        let found = self.store().first("read a board", query).await.map_err(unread("read a board"))?.ok_or(BookError::NotFound)?;
        let late = now.as_millis() - LATE_AFTER_MS;
        let query = sqlx::query(include_str!("queries/runs.sql")).bind(column::<i64>(&found, 0)?).bind(date).bind(late);
        let found = self.store().all("read a board", query).await.map_err(unread("read a board"))?;
        found.iter().map(run).collect()
    }
}

async fn claimed(conn: &mut PgConnection, (now, limit, me): (Moment, u32, Uuid)) -> Result<Vec<Due>, Halt> {
    let failed = StoreError::asking("find schedules to scan");
    let claim = sqlx::query(include_str!("queries/schedules_claim.sql"))
        .bind(now.as_millis())
        .bind(i64::from(limit))
        .bind(me.as_bytes().as_slice())
        .bind(SOFT_CLAIM_MS);
    let claimed = claim.fetch_all(&mut *conn).await.map_err(failed)?;
    let numbers = claimed.iter().map(|row| column::<i64>(row, 0)).collect::<Result<Vec<_>, _>>()?;
    let found = sqlx::query(select!("schedules_of.sql")).bind(numbers).fetch_all(conn).await.map_err(failed)?;
    let due = |found: &PgRow| {
        let revision = column::<i64>(found, 3)?.cast_unsigned();
        Ok(Due { tenant: column(found, 1)?, name: column(found, 2)?, revision, row: row(found).map(Box::new) })
    };
    Ok(found.iter().map(due).collect::<Result<_, BookError>>()?)
}

async fn changed(conn: &mut PgConnection, request: &ChangeRequest, asked: &Asked) -> Result<Changed, Halt> {
    let failed = StoreError::asking("change a schedule");
    let query = sqlx::query(select!("schedule_of.sql", "schedule_lock.sql")).bind(request.tenant.as_str()).bind(request.name.as_str());
    let found = query.fetch_optional(&mut *conn).await.map_err(failed)?;
    let stands = found.as_ref().map(row).transpose()?;
    let ruling = match asked {
        Asked::Put(put) => schedule::put(stands.as_ref(), request, put),
        Asked::Turn(change) => schedule::turn(stands.as_ref(), request, *change),
    };
    let (row, change) = match ruling {
        Ruling::Lost(revision) => return Ok(Changed::Lost(revision)),
        Ruling::Same => return Ok(Changed::Same(Box::new(stands.ok_or(BookError::NotFound)?))),
        Ruling::Make(row) => (row, None),
        Ruling::Write(row, change) => (row, Some(change)),
    };
    if !save(conn, &row, found.is_some()).await? {
        // Somebody else made it between the two statements: there was no row to lock.
        return Ok(Changed::Lost(Some(1)));
    }
    let (withdrawn, left) = match (&found, change) {
        (Some(found), Some(change)) => take_back(conn, column(found, 0)?, change, request).await?,
        (None, _) | (_, None) => (0, 0),
    };
    let object = format!("{}/{}", request.tenant, request.name);
    let action = change.map_or("make_schedule", Change::word);
    let detail = schedule::detail(row.revision, withdrawn, left);
    let entry = Entry { at: request.at, actor: &request.actor, action, object: &object, reason: &request.reason, detail: &detail };
    audit::append(conn, entry).await?;
    Ok(Changed::Done { row, withdrawn, left })
}

/// Writes a row; whether it is written. A new one isn't where another has been made meanwhile.
async fn save(conn: &mut PgConnection, row: &ScheduleRow, stands: bool) -> Result<bool, Halt> {
    let query = sqlx::query(include_str!("queries/schedule_put.sql"))
        .bind(row.tenant.as_str())
        .bind(row.name.as_str())
        .bind(row.revision.cast_signed())
        .bind(i16::try_from(phase_code(row.progress.phase)).expect("a phase's code is below three"))
        .bind(row.progress.cursor.as_millis())
        .bind(row.progress.in_force_from.as_millis())
        .bind(row.progress.before == Skip::Pause)
        .bind(forms::definition(&row.definition))
        .bind(row.definition.recipients.cast_signed())
        .bind(row.private.as_bytes())
        .bind(row.fingerprint.as_str())
        .bind(row.next_scan.map(Moment::as_millis))
        .bind(row.changed_at.as_millis())
        .bind(text(&row.changed_by))
        .bind(stands);
    let done = query.execute(conn).await.map_err(StoreError::asking("save a schedule"))?;
    Ok(done.rows_affected() > 0)
}

/// Takes back what is the book's alone: how many jobs, and how many are left running.
async fn take_back(conn: &mut PgConnection, n: i64, change: Change, request: &ChangeRequest) -> Result<(u64, u64), Halt> {
    let failed = StoreError::asking("take back a schedule's jobs");
    let looked_back = request.at.minus(LOOKED_BACK).as_millis();
    let alone_from = request.book_alone_from.as_millis();
    let mut withdrawn: i64 = 0;
    if change.takes_back() {
        // A slot that has begun is left to an edit, which makes no other of it.
        let after = if change == Change::Edit { request.at.as_millis() } else { looked_back };
        let lock = sqlx::query(include_str!("queries/schedule_alone.sql")).bind(n).bind(after).bind(alone_from).bind(change == Change::Edit);
        let alone = lock.fetch_all(&mut *conn).await.map_err(failed)?;
        let alone = alone.iter().map(|row| column::<Vec<u8>>(row, 0)).collect::<Result<Vec<_>, _>>()?;
        let query = sqlx::query(include_str!("queries/schedule_withdraw.sql"))
            .bind(alone)
            .bind(alone_from)
            .bind(forms::told_reason(Reason::Operator))
            .bind(forms::history(&[schedule::withdrawn(change, request)]));
        withdrawn = column(&query.fetch_one(&mut *conn).await.map_err(failed)?, 0)?;
        let slots = sqlx::query(include_str!("queries/slots_withdraw.sql")).bind(n).bind(request.at.as_millis()).bind(change.word());
        slots.execute(&mut *conn).await.map_err(failed)?;
    }
    let left = sqlx::query(include_str!("queries/schedule_left.sql")).bind(n).bind(looked_back).fetch_one(conn).await.map_err(failed)?;
    Ok((withdrawn.cast_unsigned(), column::<i64>(&left, 0)?.cast_unsigned()))
}

fn row(found: &PgRow) -> Result<ScheduleRow, BookError> {
    let open = match (column::<Option<String>>(found, 11)?, column::<Option<i32>>(found, 12)?) {
        (Some(slot), Some(made)) => Some((slot, made.cast_unsigned())),
        (None, _) | (_, None) => None,
    };
    Ok(ScheduleRow {
        tenant: column(found, 1)?,
        name: column(found, 2)?,
        revision: column::<i64>(found, 3)?.cast_unsigned(),
        progress: schedule::progress(column::<i16>(found, 4)?.into(), column(found, 5)?, column(found, 6)?, column(found, 7)?)?,
        definition: forms::one("a schedule", column(found, 8)?)?,
        private: Sealed::from_bytes(column(found, 9)?),
        fingerprint: column(found, 10)?,
        open,
        next_scan: column::<Option<i64>>(found, 13)?.map(Moment::from_millis),
        trouble: column(found, 14)?,
        changed_at: Moment::from_millis(column(found, 15)?),
        changed_by: column(found, 16)?,
    })
}

fn run(found: &PgRow) -> Result<Run, BookError> {
    let moment = |place| column::<Option<i64>>(found, place).map(|ms| ms.map(Moment::from_millis));
    let count = |place| column::<i64>(found, place).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Ok(Run {
        slot: column(found, 0)?,
        at: Moment::from_millis(column(found, 1)?),
        window: moment(2)?.zip(moment(3)?),
        state: schedule::slot_state(column::<i16>(found, 4)?.into())?,
        why: column(found, 5)?,
        expected: number(found, 6)?,
        planned: count(7)?,
        staged: count(8)?,
        sent: count(9)?,
        dead_letter: count(10)?,
        cancelled: count(11)?,
        suppressed: count(12)?,
        late: count(13)?,
        in_review: count(14)?,
    })
}
