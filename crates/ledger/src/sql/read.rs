//! Reading: the store's readers see the last commit, and a caller is answered after its own.

use curfew_domain::form::{self, FormError};
use curfew_domain::history::{HistoryEntry, fold};
use curfew_domain::limits::LEASE_MAX;
use curfew_domain::sealed::Sealed;
use curfew_domain::transition::Index;
use curfew_domain::{Key, Moment, Record, Shard};
use curfew_store::{Sqlite, StoreError};

use super::failed;
use super::flush::json;
use crate::{Agenda, Entry, LedgerError, LineEntry, TimerEntry, Walk, Walked};

const GET: &str = include_str!("queries/get.sql");
const RECORDS: &str = include_str!("queries/records.sql");
const HISTORIES: &str = include_str!("queries/histories.sql");
const OVERDUE: &str = include_str!("queries/overdue.sql");
const AGENDA: &str = include_str!("queries/agenda.sql");
const LINES: &str = include_str!("queries/lines.sql");
const DEADLINES: &str = include_str!("queries/deadlines.sql");
const IN_FLOW: &str = include_str!("queries/in_flow.sql");
const WALK: &str = include_str!("queries/walk.sql");

pub(super) fn during(operation: &'static str) -> impl Fn(sqlx::Error) -> LedgerError {
    move |error| failed(operation)(StoreError::during(operation)(error))
}

/// Record, letter, history.
type Whole = (Vec<u8>, Option<Vec<u8>>, Option<String>);

pub(super) async fn get(store: &Sqlite, key: &Key) -> Result<Option<Entry>, LedgerError> {
    let query = sqlx::query_as(GET).bind(key.as_str());
    let found: Option<Whole> = query.fetch_optional(store.read()).await.map_err(during("get"))?;
    let Some((record, letter, entries)) = found else { return Ok(None) };
    Ok(Some(Entry { record: form::decode(&record)?, letter: letter.map(Sealed::from_bytes), history: history(entries)? }))
}

pub(super) async fn records(store: &Sqlite, keys: &[Key]) -> Result<Vec<Option<Record>>, LedgerError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let query = sqlx::query_scalar(RECORDS).bind(json(keys));
    let found: Vec<Option<Vec<u8>>> = query.fetch_all(store.read()).await.map_err(during("records"))?;
    found.into_iter().map(|record| Ok(record.as_deref().map(form::decode).transpose()?)).collect()
}

pub(super) async fn histories(store: &Sqlite, keys: &[Key]) -> Result<Vec<Vec<HistoryEntry>>, LedgerError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let query = sqlx::query_scalar(HISTORIES).bind(json(keys));
    let found: Vec<Option<String>> = query.fetch_all(store.read()).await.map_err(during("histories"))?;
    found.into_iter().map(history).collect()
}

/// Entries as `json_group_array(hex(entry))` gives them, folded to their bound.
fn history(entries: Option<String>) -> Result<Vec<HistoryEntry>, LedgerError> {
    let Some(entries) = entries else { return Ok(Vec::new()) };
    let entries: Vec<String> = serde_json::from_str(&entries).map_err(|_misfit| FormError::Malformed)?;
    let decoded: Result<Vec<HistoryEntry>, FormError> = entries.iter().map(|entry| decode_entry(entry)).collect();
    Ok(fold(decoded?))
}

fn decode_entry(entry: &str) -> Result<HistoryEntry, FormError> {
    let bytes = hex::decode(entry).map_err(|_misfit| FormError::Malformed)?;
    rmp_serde::from_slice(&bytes).map_err(|_misfit| FormError::Malformed)
}

/// What a newer process wrote is left alone: its timer finds a newer process (DESIGN 7). It must not stand in front of the rest.
fn readable(record: &[u8]) -> Option<Result<Record, LedgerError>> {
    match form::decode(record) {
        Ok(record) => Some(Ok(record)),
        Err(FormError::Newer(_)) => None,
        Err(error) => Some(Err(error.into())),
    }
}

pub(super) async fn overdue(store: &Sqlite, shard: Shard, index: Index, now: Moment, limit: usize) -> Result<Vec<TimerEntry>, LedgerError> {
    let query = sqlx::query_as(OVERDUE).bind(i64::from(shard.0)).bind(index.word()).bind(now.as_millis()).bind(bound(limit));
    let found: Vec<(Vec<u8>, i64, i64)> = query.fetch_all(store.read()).await.map_err(during("overdue"))?;
    let entries = found.into_iter().filter_map(|(record, at, postponed)| {
        Some(readable(&record)?.map(|record| TimerEntry {
            record,
            at: Moment::from_millis(at),
            postponed: u32::try_from(postponed).unwrap_or(u32::MAX),
        }))
    });
    entries.collect()
}

pub(super) async fn agenda(store: &Sqlite, shards: &[Shard], now: Moment) -> Result<Vec<Agenda>, LedgerError> {
    let query = sqlx::query_as(AGENDA).bind(json(shards)).bind(now.as_millis());
    let found: Vec<(i64, bool, bool, bool, bool)> = query.fetch_all(store.read()).await.map_err(during("agenda"))?;
    Ok(found.into_iter().map(|(shard, lines, watch, settle, review)| Agenda { shard: Shard(shard as u8), lines, watch, settle, review }).collect())
}

pub(super) async fn lines(
    store: &Sqlite,
    shard: Shard,
    now: Moment,
    per_tenant: usize,
    limit: usize,
    skip: &[String],
) -> Result<Vec<LineEntry>, LedgerError> {
    let query = sqlx::query_as(LINES).bind(i64::from(shard.0)).bind(now.as_millis()).bind(bound(per_tenant)).bind(bound(limit)).bind(json(skip));
    let found: Vec<(Vec<u8>, i64)> = query.fetch_all(store.read()).await.map_err(during("lines"))?;
    let entries =
        found.into_iter().filter_map(|(record, at)| Some(readable(&record)?.map(|record| LineEntry { record, line_at: Moment::from_millis(at) })));
    entries.collect()
}

pub(super) async fn deadlines(store: &Sqlite, shard: Shard, before: &[Moment]) -> Result<Vec<u64>, LedgerError> {
    let Some(last) = before.iter().max() else { return Ok(Vec::new()) };
    let query = sqlx::query_scalar(IN_FLOW).bind(i64::from(shard.0)).bind(last.plus(LEASE_MAX).as_millis());
    let in_flow: Vec<Vec<u8>> = query.fetch_all(store.read()).await.map_err(during("deadlines"))?;
    let stops: Vec<Moment> =
        in_flow.iter().filter_map(|record| readable(record)).map(|record| record.map(|record| record.stops_at())).collect::<Result<_, _>>()?;
    let mut counts = Vec::with_capacity(before.len());
    for moment in before {
        let query = sqlx::query_scalar(DEADLINES).bind(i64::from(shard.0)).bind(moment.as_millis());
        let waiting: i64 = query.fetch_one(store.read()).await.map_err(during("deadlines"))?;
        counts.push(waiting.unsigned_abs() + stops.iter().filter(|stops| *stops < moment).count() as u64);
    }
    Ok(counts)
}

/// Record, timer, how often it was postponed, place in line.
type Standing = (String, Vec<u8>, Option<i64>, i64, Option<i64>);

pub(super) async fn walk(store: &Sqlite, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Walked>, LedgerError> {
    standing(store, shard, after, limit).await?.into_iter().map(|row| walked(row).map_err(|(_, error)| error.into())).collect()
}

pub(super) async fn walk_past(store: &Sqlite, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Walk, LedgerError> {
    let mut walk = Walk::default();
    for row in standing(store, shard, after, limit).await? {
        let key = Key::parse(&row.0).map_err(|_misfit| LedgerError::Store("a record's key can't be read".to_owned()))?;
        match walked(row) {
            Ok(walked) => walk.records.push(walked),
            Err((_, error)) => walk.unreadable.push((key.clone(), error)),
        }
        walk.next = Some(key);
    }
    Ok(walk)
}

async fn standing(store: &Sqlite, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Standing>, LedgerError> {
    let query = sqlx::query_as(WALK).bind(i64::from(shard.0)).bind(after.map_or("", Key::as_str)).bind(bound(limit));
    query.fetch_all(store.read()).await.map_err(during("walk"))
}

fn walked((key, record, timer_at, postponed, line_at): Standing) -> Result<Walked, (String, FormError)> {
    let record: Record = form::decode(&record).map_err(|error| (key, error))?;
    let postponed = u32::try_from(postponed).unwrap_or(u32::MAX);
    let timer = timer_at.map(|at| TimerEntry { record: record.clone(), at: Moment::from_millis(at), postponed });
    Ok((record, timer, line_at.map(Moment::from_millis)))
}

fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
