//! Reading: one row, lists by keyset, a day's figures, the auditor's walk.

use std::collections::HashMap;

use curfew_domain::{JobId, Key, Moment};
use curfew_store::Postgres;
use sqlx::postgres::PgRow;

use super::rows::{column, locked, select, small};
use super::transact::unread;
use crate::forms::{code, id, state};
use crate::judge::door::date;
use crate::paging::{PAGE_MAX, cursor, cut_page, parse_key, uncursor};
use crate::unreadable::Unreadable;
use crate::{BookError, BookState, Day, Filter, JobView, Load, Page, Row};

/// Above every id.
const ABOVE_ALL: [u8; 17] = [0xff; 17];

pub(super) async fn by_key(store: &Postgres, key: &Key) -> Result<Option<Row>, BookError> {
    let query = sqlx::query(select!("whole.sql", "of_keys.sql")).bind(vec![key.as_str()]);
    let found = store.first("read a row", query).await.map_err(unread("read a row"))?;
    found.as_ref().map(|row| locked(row).map(|l| l.row)).transpose()
}

pub(super) async fn by_id(store: &Postgres, id: JobId) -> Result<Option<Row>, BookError> {
    let query = sqlx::query(select!("whole.sql", "of_ids.sql")).bind(vec![id.as_bytes().as_slice()]);
    let found = store.first("read a row", query).await.map_err(unread("read a row"))?;
    found.as_ref().map(|row| locked(row).map(|l| l.row)).transpose()
}

pub(super) async fn rows(store: &Postgres, unreadable: &Unreadable, keys: &[Key]) -> Result<Vec<Option<JobView>>, BookError> {
    let query = sqlx::query(select!("light.sql", "of_keys.sql")).bind(keys.iter().map(Key::as_str).collect::<Vec<_>>());
    let found = readable(&store.all("read rows", query).await.map_err(unread("read rows"))?, unreadable)?;
    let by_key: HashMap<Key, JobView> = found.into_iter().map(|view| (view.row.job.key.clone(), view)).collect();
    Ok(keys.iter().map(|key| by_key.get(key).cloned()).collect())
}

pub(super) async fn list(store: &Postgres, filter: &Filter) -> Result<Page<JobView>, BookError> {
    let limit = filter.limit.clamp(1, PAGE_MAX);
    let below = filter.cursor.as_deref().map_or_else(|| Ok(ABOVE_ALL.to_vec()), |cursor| uncursor(cursor).map(|id| id.as_bytes().to_vec()))?;
    let states: Vec<BookState> = if filter.states.is_empty() { BookState::ALL.to_vec() } else { filter.states.clone() };
    let ended_otherwise = states.iter().all(|s| code(*s) >= code(BookState::DeadLetter));
    let codes: Vec<i16> = states.into_iter().map(small).collect();
    let query = match (&filter.recipient_ref, &filter.tenant) {
        _any if filter.schedule.is_some() => sqlx::query(select!("light.sql", "list_of_schedule.sql")),
        (Some(_), _either) => sqlx::query(select!("light.sql", "list_of_recipient.sql")),
        (None, Some(_)) => sqlx::query(select!("light.sql", "list_of_tenant.sql")),
        (None, None) if ended_otherwise => sqlx::query(select!("light.sql", "list_ended.sql")),
        (None, None) => sqlx::query(select!("light.sql", "list_all.sql")),
    };
    let query = query.bind(below).bind(codes).bind(i64::from(limit) + 1);
    let query = match (&filter.recipient_ref, &filter.tenant) {
        (recipient, tenant) if filter.schedule.is_some() => {
            query.bind(filter.schedule.as_deref()).bind(tenant.as_deref()).bind(recipient.as_ref().map(|r| r.0.as_str()))
        }
        (Some(recipient), tenant) => query.bind(recipient.0.as_str()).bind(tenant.as_deref()),
        (None, Some(tenant)) => query.bind(tenant.as_str()),
        (None, None) => query,
    };
    let mut items = views(&store.all("list jobs", query).await.map_err(unread("list jobs"))?)?;
    Ok(Page { next_cursor: cut_page(&mut items, limit, |view| cursor(view.row.job.id)), items })
}

/// Reads past those that can't be read: a page is short at the end alone.
pub(super) async fn staged_after(store: &Postgres, unreadable: &Unreadable, after: Option<&Key>, limit: u32) -> Result<Vec<JobView>, BookError> {
    let mut asked = limit;
    loop {
        let query = sqlx::query(select!("light.sql", "staged_after.sql")).bind(after.map_or("", Key::as_str)).bind(i64::from(asked));
        let found = store.all("list staged rows", query).await.map_err(unread("list staged rows"))?;
        let views = readable(&found, unreadable)?;
        let enough = limit.saturating_add(u32::try_from(found.len() - views.len()).unwrap_or(u32::MAX));
        if asked >= enough || found.len() < asked as usize {
            return Ok(views);
        }
        asked = enough;
    }
}

pub(super) async fn day(store: &Postgres, day: &str, tenant: Option<&str>) -> Result<Day, BookError> {
    let query = sqlx::query(include_str!("queries/day.sql")).bind(date(day)).bind(tenant);
    let found = store.all("count a day", query).await.map_err(unread("count a day"))?;
    let mut figures = Day::default();
    for row in &found {
        let (which, count) = (column::<i64>(row, 0)?, column::<i64>(row, 1)?.cast_unsigned());
        if which < 0 {
            figures.accepted = count;
            continue;
        }
        match state(which)? {
            BookState::Planned => figures.planned = count,
            BookState::Staged => figures.staged = count,
            BookState::Sent => figures.sent = count,
            BookState::DeadLetter => figures.dead_letter = count,
            BookState::Cancelled => figures.cancelled = count,
            BookState::Suppressed => figures.suppressed = count,
        }
    }
    Ok(figures)
}

pub(super) async fn load(store: &Postgres, day: &str, latest: u32) -> Result<Load, BookError> {
    let minute = sqlx::query(include_str!("queries/busiest_minute.sql")).bind(date(day));
    let minute = store.first("find the busiest minute", minute).await.map_err(unread("find the busiest minute"))?;
    let busiest = minute
        .map(|row| Ok::<_, BookError>((Moment::from_millis(column::<i64>(&row, 0)? * 60_000), column::<i64>(&row, 1)?.cast_unsigned())))
        .transpose()?;
    let took = sqlx::query(include_str!("queries/attempts_of_ended.sql")).bind(i64::from(latest));
    let took = store.all("count attempts", took).await.map_err(unread("count attempts"))?;
    let attempts = |row: &PgRow| Ok((column::<i32>(row, 0)?.cast_unsigned(), column::<i64>(row, 1)?.cast_unsigned()));
    Ok(Load { busiest, by_attempts: took.iter().map(attempts).collect::<Result<_, BookError>>()? })
}

pub(super) async fn day_differences(
    store: &Postgres,
    day: &str,
    tenant: Option<&str>,
    limit: u32,
) -> Result<Vec<(JobId, Option<Key>, Option<BookState>)>, BookError> {
    let query = sqlx::query(include_str!("queries/day_differences.sql")).bind(date(day)).bind(tenant).bind(i64::from(limit));
    let found = store.all("find a day's differences", query).await.map_err(unread("find a day's differences"))?;
    let read = |row| {
        Ok((
            id(column(row, 0)?)?,
            column::<Option<&str>>(row, 1)?.map(parse_key).transpose()?,
            column::<Option<i64>>(row, 2)?.map(state).transpose()?,
        ))
    };
    found.iter().map(read).collect()
}

pub(super) async fn day_staged(store: &Postgres, day: &str, tenant: Option<&str>, after: Option<&Key>, limit: u32) -> Result<Vec<Key>, BookError> {
    let query =
        sqlx::query(include_str!("queries/day_staged.sql")).bind(date(day)).bind(tenant).bind(after.map_or("", Key::as_str)).bind(i64::from(limit));
    let found = store.all("list a day's staged rows", query).await.map_err(unread("list a day's staged rows"))?;
    found.iter().map(|row| parse_key(column(row, 0)?)).collect()
}

fn views(rows: &[PgRow]) -> Result<Vec<JobView>, BookError> {
    rows.iter().map(|row| locked(row).map(|l| JobView { row: l.row })).collect()
}

/// Those that can be read; the others are told, for one of them must not keep the rest from whoever asks for many.
pub(super) fn readable(rows: &[PgRow], unreadable: &Unreadable) -> Result<Vec<JobView>, BookError> {
    let (mut views, mut left) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        match locked(row) {
            Ok(locked) => views.push(JobView { row: locked.row }),
            Err(error) => left.push((column::<&[u8]>(row, 0)?, error)),
        }
    }
    unreadable.tell_others(left.len(), left.first().map(|(id, error)| (*id, error)));
    Ok(views)
}
