//! Schedules: put, turned, read. A change and what it takes back are one transaction (S1, S4). Their slots are `slots.rs`'s.

use async_trait::async_trait;
use curfew_domain::recurrence::{Change, Skip};
use curfew_domain::sealed::Sealed;
use curfew_domain::{Moment, Reason};
use curfew_store::{Durability, Queue, StoreError};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::SqlBook;
use super::audit::{self, Entry};
use super::rows::column;
use super::slots;
use super::transact::{Halt, unread, write};
use crate::judge::schedule::{self, Ruling};
use crate::paging::PAGE_MAX;
use crate::schedules::{self, LOOKED_BACK, list_after, list_cursor, phase_code};
use crate::{
    Batch, BookError, ChangeRequest, Changed, Door, Due, LATE_AFTER_MS, Materialised, Page, PutSchedule, Run, ScheduleRow, Schedules, forms,
};

/// A SELECT over schedules.
macro_rules! select {
    ($which:literal) => {
        concat!(include_str!("queries/schedule_columns.sql"), include_str!(concat!("queries/", $which)))
    };
}

#[async_trait]
impl Schedules for SqlBook {
    async fn put_schedule(&self, request: &ChangeRequest, put: PutSchedule) -> Result<Changed, BookError> {
        schedule::check(request)?;
        let request = request.clone();
        let ruled = move |stands: Option<&ScheduleRow>, request: &ChangeRequest| schedule::put(stands, request, &put);
        write(self.store(), Queue::Ledger, Durability::Disk, "put a schedule", move |conn| Box::pin(changed(conn, request, ruled))).await
    }

    async fn turn_schedule(&self, request: &ChangeRequest, change: Change) -> Result<Changed, BookError> {
        schedule::check(request)?;
        if change == Change::Edit {
            return Err(BookError::Invalid { field: "change", reason: "an edit needs a definition".to_owned() });
        }
        let request = request.clone();
        let ruled = move |stands: Option<&ScheduleRow>, request: &ChangeRequest| schedule::turn(stands, request, change);
        write(self.store(), Queue::Ledger, Durability::Disk, "turn a schedule", move |conn| Box::pin(changed(conn, request, ruled))).await
    }

    async fn schedule(&self, tenant: &str, name: &str) -> Result<Option<ScheduleRow>, BookError> {
        let query = sqlx::query(select!("schedule_of.sql")).bind(tenant).bind(name);
        let found = query.fetch_optional(self.store().read()).await.map_err(unread("read a schedule"))?;
        found.as_ref().map(row).transpose()
    }

    async fn schedules(&self, tenant: Option<&str>, cursor: Option<&str>, limit: u32) -> Result<Page<ScheduleRow>, BookError> {
        let (limit, after) = (limit.clamp(1, PAGE_MAX), list_after(cursor)?);
        let query = sqlx::query(select!("schedules_list.sql")).bind(after.0).bind(after.1).bind(tenant).bind(limit + 1);
        let found = query.fetch_all(self.store().read()).await.map_err(unread("list schedules"))?;
        let listed = |found: &SqliteRow| Ok((list_cursor(column(found, 1)?, column(found, 2)?), row(found)));
        let found = found.iter().map(listed).collect::<Result<Vec<_>, BookError>>()?;
        Ok(schedules::page(found, limit, &self.unreadable))
    }

    /// One process works here, so that nobody else's claims are looked at.
    async fn due_schedules(&self, now: Moment, limit: u32) -> Result<Vec<Due>, BookError> {
        let query = sqlx::query(select!("schedules_due.sql")).bind(now.as_millis()).bind(limit);
        let found = query.fetch_all(self.store().read()).await.map_err(unread("find schedules to scan"))?;
        let due = |found: &SqliteRow| {
            let revision = column::<i64>(found, 3)?.cast_unsigned();
            Ok(Due { tenant: column(found, 1)?, name: column(found, 2)?, revision, row: row(found).map(Box::new) })
        };
        found.iter().map(due).collect()
    }

    async fn materialise(&self, batches: Vec<Batch>, door: &Door) -> Result<Vec<Materialised>, BookError> {
        slots::materialise(self.store(), batches, door).await
    }

    async fn put_off(&self, tenant: &str, name: &str, revision: u64, until: Moment, trouble: &str) -> Result<(), BookError> {
        let [tenant, name, trouble] = [tenant, name, trouble].map(str::to_owned);
        write(self.store(), Queue::Bulk, Durability::Process, "put off a schedule", move |conn| {
            Box::pin(async move {
                let query = sqlx::query(include_str!("queries/schedule_put_off.sql")).bind(tenant).bind(name);
                let query = query.bind(revision.cast_signed()).bind(until.as_millis()).bind(trouble);
                Ok(query.execute(conn).await.map(drop).map_err(StoreError::during("put off a schedule"))?)
            })
        })
        .await
    }

    async fn runs(&self, tenant: &str, name: &str, date: &str, now: Moment) -> Result<Vec<Run>, BookError> {
        let query = sqlx::query(select!("schedule_of.sql")).bind(tenant).bind(name);
        let found = query.fetch_optional(self.store().read()).await.map_err(unread("read a board"))?.ok_or(BookError::NotFound)?;
        let late = now.as_millis() - LATE_AFTER_MS;
        let query = sqlx::query(include_str!("queries/runs.sql")).bind(column::<i64>(&found, 0)?).bind(date.to_owned()).bind(late);
        let found = query.fetch_all(self.store().read()).await.map_err(unread("read a board"))?;
        found.iter().map(run).collect()
    }
}

async fn changed<R>(conn: &mut SqliteConnection, request: ChangeRequest, ruled: R) -> Result<Changed, Halt>
where
    R: FnOnce(Option<&ScheduleRow>, &ChangeRequest) -> Ruling + Send,
{
    let failed = StoreError::during("change a schedule");
    let query = sqlx::query(select!("schedule_of.sql")).bind(request.tenant.as_str()).bind(request.name.as_str());
    let found = query.fetch_optional(&mut *conn).await.map_err(failed)?;
    let stands = found.as_ref().map(row).transpose()?;
    let (row, change) = match ruled(stands.as_ref(), &request) {
        Ruling::Lost(revision) => return Ok(Changed::Lost(revision)),
        Ruling::Same => return Ok(Changed::Same(Box::new(stands.ok_or(BookError::NotFound)?))),
        Ruling::Make(row) => (row, None),
        Ruling::Write(row, change) => (row, Some(change)),
    };
    save(conn, &row).await?;
    let (withdrawn, left) = match (&found, change) {
        (Some(found), Some(change)) => take_back(conn, column(found, 0)?, change, &request).await?,
        (None, _) | (_, None) => (0, 0),
    };
    let object = format!("{}/{}", request.tenant, request.name);
    let action = change.map_or("make_schedule", Change::word);
    let detail = schedule::detail(row.revision, withdrawn, left);
    let entry = Entry { at: request.at, actor: &request.actor, action, object: &object, reason: &request.reason, detail: &detail };
    audit::append(conn, entry).await?;
    Ok(Changed::Done { row, withdrawn, left })
}

async fn save(conn: &mut SqliteConnection, row: &ScheduleRow) -> Result<(), Halt> {
    let query = sqlx::query(include_str!("queries/schedule_put.sql"))
        .bind(row.tenant.as_str())
        .bind(row.name.as_str())
        .bind(row.revision.cast_signed())
        .bind(phase_code(row.progress.phase))
        .bind(row.progress.cursor.as_millis())
        .bind(row.progress.in_force_from.as_millis())
        .bind(row.progress.before == Skip::Pause)
        .bind(forms::definition(&row.definition))
        .bind(row.definition.recipients)
        .bind(row.private.as_bytes())
        .bind(row.fingerprint.as_str())
        .bind(row.next_scan.map(Moment::as_millis))
        .bind(row.changed_at.as_millis())
        .bind(row.changed_by.as_str());
    Ok(query.execute(conn).await.map(drop).map_err(StoreError::during("save a schedule"))?)
}

/// Takes back what is the book's alone: how many jobs, and how many are left running.
async fn take_back(conn: &mut SqliteConnection, n: i64, change: Change, request: &ChangeRequest) -> Result<(u64, u64), Halt> {
    let failed = StoreError::during("take back a schedule's jobs");
    let looked_back = request.at.minus(LOOKED_BACK).as_millis();
    let mut withdrawn = 0;
    if change.takes_back() {
        // A slot that has begun is left to an edit, which makes no other of it.
        let after = if change == Change::Edit { request.at.as_millis() } else { looked_back };
        let query = sqlx::query(include_str!("queries/schedule_withdraw.sql"))
            .bind(n)
            .bind(after)
            .bind(request.book_alone_from.as_millis())
            .bind(forms::told_reason(Reason::Operator))
            .bind(change == Change::Edit);
        let found = query.fetch_all(&mut *conn).await.map_err(failed)?;
        let jobs = found.iter().map(|row| column::<i64>(row, 0)).collect::<Result<Vec<_>, _>>()?;
        withdrawn = jobs.len() as u64;
        let jobs = serde_json::to_string(&jobs).expect("numbers always serialise");
        sqlx::query(include_str!("queries/links_withdraw.sql")).bind(jobs.as_str()).execute(&mut *conn).await.map_err(failed)?;
        let story = forms::history(&[schedule::withdrawn(change, request)]);
        sqlx::query(include_str!("queries/histories_put.sql")).bind(jobs).bind(story).execute(&mut *conn).await.map_err(failed)?;
        let slots = sqlx::query(include_str!("queries/slots_withdraw.sql")).bind(n).bind(request.at.as_millis()).bind(change.word());
        slots.execute(&mut *conn).await.map_err(failed)?;
    }
    let left: i64 = sqlx::query_scalar(include_str!("queries/schedule_left.sql")).bind(n).bind(looked_back).fetch_one(conn).await.map_err(failed)?;
    Ok((withdrawn, left.cast_unsigned()))
}

fn row(found: &SqliteRow) -> Result<ScheduleRow, BookError> {
    let open = match (column::<Option<String>>(found, 11)?, column::<Option<u32>>(found, 12)?) {
        (Some(slot), Some(made)) => Some((slot, made)),
        (None, _) | (_, None) => None,
    };
    Ok(ScheduleRow {
        tenant: column(found, 1)?,
        name: column(found, 2)?,
        revision: column::<i64>(found, 3)?.cast_unsigned(),
        progress: schedule::progress(column(found, 4)?, column(found, 5)?, column(found, 6)?, column(found, 7)?)?,
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

fn run(found: &SqliteRow) -> Result<Run, BookError> {
    let moment = |place| column::<Option<i64>>(found, place).map(|ms| ms.map(Moment::from_millis));
    Ok(Run {
        slot: column(found, 0)?,
        at: Moment::from_millis(column(found, 1)?),
        window: moment(2)?.zip(moment(3)?),
        state: schedule::slot_state(column(found, 4)?)?,
        why: column(found, 5)?,
        expected: column(found, 6)?,
        planned: column(found, 7)?,
        staged: column(found, 8)?,
        sent: column(found, 9)?,
        dead_letter: column(found, 10)?,
        cancelled: column(found, 11)?,
        suppressed: column(found, 12)?,
        late: column(found, 13)?,
        in_review: column(found, 14)?,
    })
}
