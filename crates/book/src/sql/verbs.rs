//! Operators' verbs: a row, which is the audit entry, before any transition (K5).

use curfew_domain::verb::NumberedVerb;
use curfew_domain::{Key, Moment};
use curfew_store::{Durability, Queue, Sqlite, StoreError};
use sqlx::SqliteConnection;

use super::audit::{self, Entry};
use super::items::{self, Circumstances};
use super::recovery::guard;
use super::rows::{Locked, column, lock_numbered, lock_row, save_histories, save_rows};
use super::transact::{Halt, unread, write};
use crate::forms;
use crate::judge::recovery::BegunIn;
use crate::judge::{self, Closing, ItemFate, Opening};
use crate::{BookError, OpenVerb, OpenedVerb, VerbEnd, VerbRequest};

pub(super) async fn open(store: &Sqlite, request: VerbRequest) -> Result<OpenedVerb, BookError> {
    judge::check(&request)?;
    write(store, Queue::Ledger, Durability::Disk, "open a verb", move |conn| Box::pin(opened(conn, request))).await
}

async fn opened(conn: &mut SqliteConnection, request: VerbRequest) -> Result<OpenedVerb, Halt> {
    let Some(mut locked) = lock_row(conn, &request.key).await? else {
        return Ok(OpenedVerb::NotFound);
    };
    match judge::ask(&mut locked.row, &request) {
        Opening::Refused => Ok(OpenedVerb::Refused(locked.row.state)),
        Opening::Open => {
            let number = insert(conn, &locked, &request, None).await?;
            locked.row.open_verb = locked.row.open_verb.or(Some(number));
            let verb = NumberedVerb { number, generation: locked.row.generation, verb: request.verb };
            Ok(OpenedVerb::Open(verb, Box::new(locked.row)))
        }
        Opening::Applied(item) => {
            insert(conn, &locked, &request, Some(1)).await?;
            carry_out(conn, &mut locked, &item, &request.actor, request.at).await?;
            Ok(OpenedVerb::Done(Box::new(locked.row)))
        }
    }
}

/// Writes the verb's row and its audit entry.
async fn insert(conn: &mut SqliteConnection, locked: &Locked, request: &VerbRequest, outcome: Option<i64>) -> Result<u64, Halt> {
    let number: i64 = sqlx::query_scalar(include_str!("queries/open_verb.sql"))
        .bind(locked.n)
        .bind(locked.row.generation)
        .bind(forms::verb(&request.verb))
        .bind(request.actor.as_str())
        .bind(request.reason.as_str())
        .bind(request.at.as_millis())
        .bind(outcome)
        .bind(outcome.map(|_| request.at.as_millis()))
        .fetch_one(&mut *conn)
        .await
        .map_err(StoreError::during("open a verb"))?;
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

pub(super) async fn close(store: &Sqlite, number: u64, end: VerbEnd, at: Moment) -> Result<bool, BookError> {
    write(store, Queue::Ledger, Durability::Disk, "close a verb", move |conn| Box::pin(closed(conn, number, end, at))).await
}

async fn closed(conn: &mut SqliteConnection, number: u64, end: VerbEnd, at: Moment) -> Result<bool, Halt> {
    if let VerbEnd::Applied(record) = &end {
        guard(conn, &BegunIn::of([(record.shard, record.incarnation)].into_iter())).await?;
    }
    let find = sqlx::query(include_str!("queries/find_verb.sql")).bind(number.cast_signed());
    let found = find.fetch_optional(&mut *conn).await.map_err(StoreError::during("close a verb"))?.ok_or(BookError::NotFound)?;
    let applied = column::<Option<bool>>(&found, 3)?;
    let verb = NumberedVerb { number, generation: column(&found, 1)?, verb: forms::one("a verb", column(&found, 2)?)? };
    let actor: String = column(&found, 4)?;
    let mut locked = lock_numbered(conn, column(&found, 0)?).await?.ok_or(BookError::NotFound)?;
    let (outcome, changed, item) = match judge::close(&mut locked.row, &verb, applied, &end, (&actor, at))? {
        Closing::Closed => return Ok(applied == Some(true)),
        Closing::Refused => (false, false, ItemFate::Keep),
        Closing::Applied(changed, item) => (true, changed, item),
    };
    let close = sqlx::query(include_str!("queries/close_verb.sql")).bind(number.cast_signed()).bind(outcome).bind(at.as_millis());
    close.execute(&mut *conn).await.map_err(StoreError::during("close a verb"))?;
    if changed {
        carry_out(conn, &mut locked, &item, &actor, at).await?;
    }
    Ok(outcome)
}

async fn carry_out(conn: &mut SqliteConnection, locked: &mut Locked, item: &ItemFate, actor: &str, at: Moment) -> Result<(), Halt> {
    let owners = std::collections::BTreeMap::new();
    items::carry_out(conn, locked, item, &Circumstances { owners: &owners, record: None, actor, at }).await?;
    save_rows(conn, &[locked]).await?;
    Ok(save_histories(conn, &[locked]).await?)
}

pub(super) async fn open_verbs(store: &Sqlite, before: Moment, limit: u32) -> Result<Vec<OpenVerb>, BookError> {
    let query = sqlx::query(include_str!("queries/open_verbs.sql")).bind(before.as_millis()).bind(limit);
    let found = query.fetch_all(store.read()).await.map_err(unread("list open verbs"))?;
    found
        .iter()
        .map(|row| {
            let number = column::<i64>(row, 0)?.cast_unsigned();
            let verb = NumberedVerb { number, generation: column(row, 1)?, verb: forms::one("a verb", column(row, 2)?)? };
            let key = Key::parse(column(row, 4)?).map_err(|e| BookError::Unreadable(format!("a key {e}")))?;
            Ok(OpenVerb { verb, key, at: Moment::from_millis(column(row, 3)?) })
        })
        .collect()
}
