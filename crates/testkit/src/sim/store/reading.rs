//! Reading: lists by keyset, a day's figures, the walks of auditor and recovery.

use std::collections::BTreeMap;
use std::ops::Bound;

use curfew_book::judge::door::date;
use curfew_book::{BookError, BookState, Day, Filter, JobView, Load, Page, paging};
use curfew_domain::{JobId, Key, Moment, Shard};
use curfew_review::{Item, ItemStatus, ReviewFilter};
use uuid::Uuid;

use super::tables::{ItemRow, Tables};

/// A day's difference: the id, and the key and state of its row where there is one.
pub(super) type Difference = (JobId, Option<Key>, Option<BookState>);

/// Jobs, newest first.
pub(super) fn list(tables: &Tables, filter: &Filter) -> Result<Page<JobView>, BookError> {
    let limit = filter.limit.clamp(1, paging::PAGE_MAX);
    let below = filter.cursor.as_deref().map(paging::uncursor).transpose()?.map_or(Bound::Unbounded, Bound::Excluded);
    let shown = |row: &curfew_book::Row| {
        (filter.states.is_empty() || filter.states.contains(&row.state))
            && filter.tenant.as_ref().is_none_or(|tenant| *tenant == row.job.tenant)
            && filter.recipient_ref.as_ref().is_none_or(|recipient| *recipient == row.job.recipient_ref)
    };
    let newest = tables.rows.range((Bound::Unbounded, below)).rev().filter(|(_id, row)| shown(row));
    let mut items: Vec<JobView> = newest.filter_map(|(id, _row)| tables.view(id)).take(limit as usize + 1).collect();
    Ok(Page { next_cursor: paging::cut_page(&mut items, limit, |view| paging::cursor(view.row.job.id)), items })
}

/// Rows in a state after a key, and by key.
fn after<'t>(tables: &'t Tables, state: BookState, after: Option<&'t Key>) -> impl Iterator<Item = (&'t Key, &'t curfew_book::Row)> + 't {
    tables.in_state(state).filter(move |(key, _row)| after.is_none_or(|after| *key > after))
}

pub(super) fn staged_after(tables: &Tables, key: Option<&Key>, limit: u32) -> Vec<JobView> {
    after(tables, BookState::Staged, key).filter_map(|(_key, row)| tables.view(&row.job.id)).take(limit as usize).collect()
}

/// Rows of a shard that are planned, or staged, and released by a moment.
pub(super) fn rows_of(tables: &Tables, (shard, state): (Shard, BookState), until: Moment, key: Option<&Key>, limit: u32) -> Vec<JobView> {
    let of_it = after(tables, state, key).filter(|(_key, row)| row.job.shard == shard && row.job.release_at <= until);
    of_it.filter_map(|(_key, row)| tables.view(&row.job.id)).take(limit as usize).collect()
}

/// A business date's figures.
pub(super) fn day(tables: &Tables, day: &str, tenant: Option<&str>) -> Day {
    let mut figures = Day { accepted: logged(tables, day, tenant).count() as u64, ..Day::default() };
    for row in of_day(tables, day, tenant) {
        *match row.state {
            BookState::Planned => &mut figures.planned,
            BookState::Staged => &mut figures.staged,
            BookState::Sent => &mut figures.sent,
            BookState::DeadLetter => &mut figures.dead_letter,
            BookState::Cancelled => &mut figures.cancelled,
            BookState::Suppressed => &mut figures.suppressed,
        } += 1;
    }
    figures
}

/// What the door's log has and no row, then rows that are staged or that the door never logged.
pub(super) fn day_differences(tables: &Tables, day: &str, tenant: Option<&str>, limit: u32) -> Vec<Difference> {
    let lost = logged(tables, day, tenant).filter(|id| !tables.rows.contains(id)).map(|id| (id, None, None));
    let logs = |row: &curfew_book::Row| tables.door_log.contains(&(date(day).to_owned(), row.job.tenant.clone(), row.job.id));
    let open = of_day(tables, day, tenant).filter(|row| row.state == BookState::Staged || !logs(row));
    lost.chain(open.map(|row| (row.job.id, Some(row.job.key.clone()), Some(row.state)))).take(limit as usize).collect()
}

/// Keys of the staged rows of a business date, after a key.
pub(super) fn day_staged(tables: &Tables, day: &str, tenant: Option<&str>, key: Option<&Key>, limit: u32) -> Vec<Key> {
    let of_it = after(tables, BookState::Staged, key).filter(|(_key, row)| is_of_day(row, day, tenant));
    of_it.map(|(key, _row)| key.clone()).take(limit as usize).collect()
}

fn logged(tables: &Tables, day: &str, tenant: Option<&str>) -> impl Iterator<Item = JobId> {
    let of_it = tables.door_log.iter().filter(move |((logged, of, _id), _by)| logged == date(day) && tenant.is_none_or(|tenant| tenant == of));
    of_it.map(|((_date, _of, id), _by)| *id)
}

/// The busiest minute of a day, and what the latest jobs took.
pub(super) fn load(tables: &Tables, day: &str, latest: u32) -> Load {
    let counts = |row: &&curfew_book::Row| !matches!(row.state, BookState::Cancelled | BookState::Suppressed);
    let mut minutes: BTreeMap<i64, u64> = BTreeMap::new();
    for row in of_day(tables, day, None).filter(counts) {
        *minutes.entry(row.job.release_at.as_millis() / 60_000).or_default() += 1;
    }
    let busiest = minutes.into_iter().max_by_key(|(minute, count)| (*count, -minute));
    let ended = |row: &&curfew_book::Row| matches!(row.state, BookState::Sent | BookState::DeadLetter) && row.attempts > 0;
    let mut by_attempts = BTreeMap::new();
    for row in tables.rows.values().rev().filter(ended).take(latest as usize) {
        *by_attempts.entry(row.attempts).or_default() += 1;
    }
    Load { busiest: busiest.map(|(minute, count)| (Moment::from_millis(minute * 60_000), count)), by_attempts }
}

fn of_day<'t>(tables: &'t Tables, day: &'t str, tenant: Option<&'t str>) -> impl Iterator<Item = &'t curfew_book::Row> {
    tables.rows.values().filter(move |row| is_of_day(row, day, tenant))
}

fn is_of_day(row: &curfew_book::Row, day: &str, tenant: Option<&str>) -> bool {
    date(&row.job.business_date) == date(day) && tenant.is_none_or(|tenant| tenant == row.job.tenant)
}

/// Items, newest first.
pub(super) fn items(tables: &Tables, filter: &ReviewFilter) -> Result<Page<Item>, BookError> {
    let limit = filter.limit.clamp(1, paging::PAGE_MAX) as usize;
    let below = filter.cursor.as_deref().map_or(Ok(u64::MAX), |cursor| u64::from_str_radix(cursor, 16).map_err(|_form| paging::not_a_cursor()))?;
    let shown = |item: &Item| {
        filter.reason.is_none_or(|reason| reason == item.reason)
            && filter.status.is_none_or(|status| status == item.status)
            && filter.tenant.as_ref().is_none_or(|tenant| Some(tenant) == item.tenant.as_ref())
    };
    let newest = tables.items.range(..below).rev().filter(|(_n, row)| shown(&row.item));
    let mut found: Vec<(u64, Item)> = newest.map(|(n, row)| (*n, row.item.clone())).take(limit + 1).collect();
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_last| more).map(|(n, _last)| format!("{n:x}"));
    Ok(Page { items: found.into_iter().map(|(_n, item)| item).collect(), next_cursor })
}

/// One item with the job's story.
pub(super) fn show(tables: &Tables, id: Uuid) -> Option<Item> {
    tables.items.values().find(|row| row.item.id == id).map(|row| with_history(tables, row))
}

/// The open item of a job.
pub(super) fn open_item_of(tables: &Tables, key: &Key) -> Option<Item> {
    let id = tables.keys.get(key)?;
    waiting(tables).find(|row| row.item.job_id == Some(*id)).map(|row| with_history(tables, row))
}

/// Items that wait for somebody.
pub(super) fn waiting(tables: &Tables) -> impl Iterator<Item = &ItemRow> {
    tables.items.values().filter(|row| row.closed_at.is_none() && row.item.status != ItemStatus::Replaying)
}

fn with_history(tables: &Tables, row: &ItemRow) -> Item {
    let history = row.item.job_id.and_then(|id| tables.rows.get(&id)).map(|job| job.history.clone()).unwrap_or_default();
    Item { history, ..row.item.clone() }
}
