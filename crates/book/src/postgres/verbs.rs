//! Operators' verbs: a row, which is the audit entry, before any transition (K5).

use curfew_domain::Moment;
use curfew_domain::verb::NumberedVerb;
use curfew_store::{Durability, Postgres, StoreError};
use sqlx::PgConnection;

use super::Halt;
use super::audit::{self, Entry};
use super::items::{self, Circumstances};
use super::recovery::guard;
use super::rows::{Locked, column, lock_id, lock_row, number, save_histories, save_rows, text};
use super::transact::{unread, write};
use crate::judge::recovery::BegunIn;
use crate::judge::{self, Closing, ItemFate, Opening};
use crate::{BookError, OpenVerb, OpenedVerb, VerbEnd, VerbRequest, forms, paging};

/// A row that is written as applied.
const APPLIED: i16 = 1;

pub(super) async fn open(store: &Postgres, request: VerbRequest) -> Result<OpenedVerb, BookError> {
    judge::check(&request)?;
    write(store, Durability::Disk, "open a verb", request, |conn, request| Box::pin(opened(conn, request))).await
}

async fn opened(conn: &mut PgConnection, request: &VerbRequest) -> Result<OpenedVerb, Halt> {
    let Some(mut locked) = lock_row(conn, &request.key).await? else {
        return Ok(OpenedVerb::NotFound);
    };
    match judge::ask(&mut locked.row, request) {
        Opening::Refused => Ok(OpenedVerb::Refused(locked.row.state)),
        Opening::Open => {
            let number = insert(conn, &locked, request, None).await?;
            locked.row.open_verb = locked.row.open_verb.or(Some(number));
            let verb = NumberedVerb { number, generation: locked.row.generation, verb: request.verb.clone() };
            Ok(OpenedVerb::Open(verb, Box::new(locked.row)))
        }
        Opening::Applied(item) => {
            carry_out(conn, &mut locked, &item, &request.actor, request.at).await?;
            insert(conn, &locked, request, Some(APPLIED)).await?;
            Ok(OpenedVerb::Done(Box::new(locked.row)))
        }
    }
}

/// Writes the verb's row and its audit entry.
async fn insert(conn: &mut PgConnection, locked: &Locked, request: &VerbRequest, outcome: Option<i16>) -> Result<u64, Halt> {
    let query = sqlx::query(include_str!("queries/open_verb.sql"))
        .bind(locked.row.job.id.as_bytes().as_slice())
        .bind(locked.row.generation.cast_signed())
        .bind(forms::verb(&request.verb))
        .bind(text(&request.actor))
        .bind(text(&request.reason))
        .bind(request.at.as_millis())
        .bind(outcome)
        .bind(outcome.map(|_| request.at.as_millis()));
    let number: i64 = column(&query.fetch_one(&mut *conn).await.map_err(StoreError::asking("open a verb"))?, 0)?;
    let detail = judge::detail(number, locked.row.generation, &request.verb);
    let entry = Entry {
        at: request.at,
        actor: &request.actor,
        action: request.verb.word(),
        object: request.key.as_str(),
        reason: &request.reason,
        detail: &detail,
    };
    audit::append(conn, entry).await?;
    Ok(number.cast_unsigned())
}

pub(super) async fn close(store: &Postgres, number: u64, end: VerbEnd, at: Moment) -> Result<bool, BookError> {
    write(store, Durability::Disk, "close a verb", end, move |conn, end| Box::pin(closed(conn, number, end, at))).await
}

async fn closed(conn: &mut PgConnection, number: u64, end: &VerbEnd, at: Moment) -> Result<bool, Halt> {
    if let VerbEnd::Applied(record) = end {
        guard(conn, &BegunIn::of([(record.shard, record.incarnation)].into_iter())).await?;
    }
    let failed = StoreError::asking("close a verb");
    let job = sqlx::query(include_str!("queries/verb_job.sql")).bind(number.cast_signed());
    let job = job.fetch_optional(&mut *conn).await.map_err(failed)?.ok_or(BookError::NotFound)?;
    // The job's lock guards its verbs: how this one stands is read under it.
    let mut locked = lock_id(conn, forms::id(column(&job, 0)?)?).await?.ok_or(BookError::NotFound)?;
    let find = sqlx::query(include_str!("queries/find_verb.sql")).bind(number.cast_signed());
    let found = find.fetch_optional(&mut *conn).await.map_err(failed)?.ok_or(BookError::NotFound)?;
    let applied = column::<Option<i16>>(&found, 2)?.map(|outcome| outcome == APPLIED);
    let verb = NumberedVerb { number, generation: self::number(&found, 0)?, verb: forms::one("a verb", column(&found, 1)?)? };
    let actor: String = column(&found, 3)?;
    let (outcome, changed, item) = match judge::close(&mut locked.row, &verb, applied, end, (&actor, at))? {
        Closing::Closed => return Ok(applied == Some(true)),
        Closing::Refused => (false, false, ItemFate::Keep),
        Closing::Applied(changed, item) => (true, changed, item),
    };
    let close = sqlx::query(include_str!("queries/close_verb.sql")).bind(number.cast_signed()).bind(i16::from(outcome)).bind(at.as_millis());
    close.execute(&mut *conn).await.map_err(failed)?;
    if changed {
        carry_out(conn, &mut locked, &item, &actor, at).await?;
    }
    Ok(outcome)
}

async fn carry_out(conn: &mut PgConnection, locked: &mut Locked, item: &ItemFate, actor: &str, at: Moment) -> Result<(), Halt> {
    let owners = std::collections::BTreeMap::new();
    items::carry_out(conn, locked, item, &Circumstances { owners: &owners, record: None, actor, at }).await?;
    save_rows(conn, &[locked]).await?;
    Ok(save_histories(conn, &[locked]).await?)
}

pub(super) async fn open_verbs(store: &Postgres, before: Moment, limit: u32) -> Result<Vec<OpenVerb>, BookError> {
    let query = sqlx::query(include_str!("queries/open_verbs.sql")).bind(before.as_millis()).bind(i64::from(limit));
    let found = store.all("list open verbs", query).await.map_err(unread("list open verbs"))?;
    found
        .iter()
        .map(|row| {
            let verb = NumberedVerb {
                number: column::<i64>(row, 0)?.cast_unsigned(),
                generation: number(row, 1)?,
                verb: forms::one("a verb", column(row, 2)?)?,
            };
            Ok(OpenVerb { verb, key: paging::parse_key(column(row, 4)?)?, at: Moment::from_millis(column(row, 3)?) })
        })
        .collect()
}
