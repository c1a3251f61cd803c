//! Reading: by scripts too, for what is read from a server that isn't the shard's must not be believed. Nothing is read from a replica.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use curfew_domain::form::FormError;
use curfew_domain::history::{HistoryEntry, fold};
use curfew_domain::sealed::Sealed;
use curfew_domain::transition::{Counter, Index};
use curfew_domain::{Key, Moment, Record, Shard, State};
use redis::Value;

use super::RedisLedger;
use super::call::{Call, Reply, bytes, number, read, unknown_answer};
use super::clock::bit;
use super::scripts::Script;
use super::stored::{counter_name, five_seconds, stop_name};
use super::write::{CALLS_MAX, text};
use crate::{Agenda, Entry, LedgerError, LineEntry, TimerEntry, live_of_shards};

/// Entries of an index read by one script, which nobody else's runs beside.
const ENTRIES_MAX: usize = 1_000;
/// Counters read by one script.
const NAMES_MAX: usize = 1_000;
/// How long after its end a live record still counts as one that ends soon.
const LONG_AGO: Duration = Duration::from_secs(660);

impl RedisLedger {
    pub(super) async fn read_entry(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        let shard = self.shard(key);
        let keys = vec![self.keys.job(shard, key), self.keys.letter(shard, key), self.keys.history(shard, key)];
        let mut reply = self.call(Call { script: Script::Get, shard, incarnation: None, keys, args: Vec::new() }).await?;
        match reply.word.as_str() {
            "found" => {
                let record = reply.record()?;
                let letter = bytes(reply.part()?).map(Sealed::from_bytes);
                Ok(Some(Entry { record, letter, history: fold(history(reply.part()?, reply.script)?) }))
            }
            "missing" => Ok(None),
            _unknown => Err(reply.unknown()),
        }
    }

    pub(super) async fn read_records(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, LedgerError> {
        self.by_shard(
            Script::Records,
            keys,
            |shard, key| self.keys.job(shard, key),
            |value, incarnation| match bytes(value) {
                Some(stored) => read(&stored, incarnation).map(Some),
                None => Ok(None),
            },
        )
        .await
    }

    pub(super) async fn read_histories(&self, keys: &[Key]) -> Result<Vec<Vec<HistoryEntry>>, LedgerError> {
        Ok(self.read_histories_whole(keys).await?.into_iter().map(fold).collect())
    }

    /// Not yet folded.
    pub(super) async fn read_histories_whole(&self, keys: &[Key]) -> Result<Vec<Vec<HistoryEntry>>, LedgerError> {
        self.by_shard(Script::Histories, keys, |shard, key| self.keys.history(shard, key), |value, _| history(value, Script::Histories)).await
    }

    /// Reads one thing for each key, with one call per shard and hundred; answers in the order of the keys.
    pub(super) async fn by_shard<T>(
        &self,
        script: Script,
        keys: &[Key],
        named: impl Fn(Shard, &Key) -> String,
        read: impl Fn(Value, u32) -> Result<T, LedgerError>,
    ) -> Result<Vec<T>, LedgerError> {
        let mut places: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            places.entry(self.shard(key)).or_default().push(place);
        }
        let parts: Vec<(Shard, &[usize])> = places.iter().flat_map(|(shard, all)| all.chunks(CALLS_MAX).map(|part| (*shard, part))).collect();
        let calls = parts.iter().map(|(shard, part)| Call {
            script,
            shard: *shard,
            incarnation: None,
            keys: part.iter().map(|place| named(*shard, &keys[*place])).collect(),
            args: Vec::new(),
        });
        let mut found: Vec<Option<T>> = keys.iter().map(|_| None).collect();
        for (reply, (_, part)) in self.in_parts(calls.collect()).await?.into_iter().zip(&parts) {
            let incarnation = reply.incarnation;
            let [values] = <[Vec<Value>; 1]>::try_from(reply.lists()?).map_err(|_misfit| unknown_answer(script))?;
            for (value, place) in values.into_iter().zip(*part) {
                found[*place] = Some(read(value, incarnation)?);
            }
        }
        found.into_iter().map(|found| found.ok_or_else(|| unknown_answer(script))).collect()
    }

    pub(super) async fn read_overdue(&self, shard: Shard, index: Index, now: Moment, limit: usize) -> Result<Vec<TimerEntry>, LedgerError> {
        let keys = vec![self.keys.index(shard, index), self.keys.postponed(shard), self.keys.jobs(shard)];
        let args = vec![text(now.as_millis()), text(limit.min(ENTRIES_MAX))];
        let reply = self.call(Call { script: Script::Overdue, shard, incarnation: None, keys, args }).await?;
        let incarnation = reply.incarnation;
        let mut entries = Vec::new();
        for list in reply.lists()? {
            let [record, at, postponed] = <[Value; 3]>::try_from(list).map_err(|_misfit| unknown_answer(Script::Overdue))?;
            let Some(record) = self.readable(shard, &bytes(record).unwrap_or_default(), incarnation) else { continue };
            let at = Moment::from_millis(number(at, Script::Overdue)?);
            entries.push(TimerEntry { record: record?, at, postponed: number(postponed, Script::Overdue)? });
        }
        Ok(entries)
    }

    pub(super) async fn read_lines(
        &self,
        shard: Shard,
        now: Moment,
        per_tenant: usize,
        limit: usize,
        skip: &[String],
    ) -> Result<Vec<LineEntry>, LedgerError> {
        if limit == 0 || per_tenant == 0 {
            return Ok(Vec::new());
        }
        let keys = vec![self.keys.tenants(shard), self.keys.lines(shard), self.keys.jobs(shard)];
        let mut args = vec![text(now.as_millis()), text(per_tenant.min(ENTRIES_MAX)), text(limit.min(ENTRIES_MAX))];
        args.extend(skip.iter().map(text));
        let reply = self.call(Call { script: Script::Lines, shard, incarnation: None, keys, args }).await?;
        let incarnation = reply.incarnation;
        let mut entries = Vec::new();
        for list in reply.lists()? {
            let [record, at] = <[Value; 2]>::try_from(list).map_err(|_misfit| unknown_answer(Script::Lines))?;
            let Some(record) = self.readable(shard, &bytes(record).unwrap_or_default(), incarnation) else { continue };
            entries.push(LineEntry { record: record?, line_at: Moment::from_millis(number(at, Script::Lines)?) });
        }
        Ok(entries)
    }

    /// What a newer process wrote is left alone, and must not stand in front of the rest (DESIGN 7); it is noted that it was met.
    fn readable(&self, shard: Shard, bytes: &[u8], incarnation: u32) -> Option<Result<Record, LedgerError>> {
        match read(bytes, incarnation) {
            Err(LedgerError::Unreadable(FormError::Newer(_))) => {
                self.newer.fetch_or(bit(shard), Ordering::AcqRel);
                None
            }
            read => Some(read),
        }
    }

    /// A shard that can't be asked, or that recovers, has nothing to do; an error only where no shard can.
    pub(super) async fn read_agenda(&self, shards: &[Shard], now: Moment) -> Result<Vec<Agenda>, LedgerError> {
        let calls = shards.iter().map(|shard| Call {
            script: Script::Agenda,
            shard: *shard,
            incarnation: None,
            keys: std::iter::once(self.keys.tenants(*shard)).chain(Index::ALL.iter().map(|index| self.keys.index(*shard, *index))).collect(),
            args: vec![text(now.as_millis())],
        });
        let mut agendas = Vec::with_capacity(shards.len());
        let mut failed = Vec::new();
        for (answer, shard) in self.call_all(calls.collect()).await.into_iter().zip(shards) {
            let due = match answer {
                Ok(reply) => {
                    reply.rest.into_iter().map(|part| number::<u8>(part, Script::Agenda).map(|due| due == 1)).collect::<Result<Vec<_>, _>>()?
                }
                Err(error) => {
                    failed.push(error);
                    vec![false; 4]
                }
            };
            let [lines, watch, settle, review] = <[bool; 4]>::try_from(due).map_err(|_misfit| unknown_answer(Script::Agenda))?;
            agendas.push(Agenda { shard: *shard, lines, watch, settle, review });
        }
        match failed.pop() {
            Some(error) if failed.len() + 1 == shards.len() => Err(error),
            Some(_) | None => Ok(agendas),
        }
    }

    pub(super) async fn read_counts(&self, shard: Shard, counters: &[Counter]) -> Result<Vec<u64>, LedgerError> {
        counted(self.call(self.counts_call(shard, Moment::from_millis(0), counters)).await?)
    }

    pub(super) async fn read_oldest_due(&self, shard: Shard, now: Moment) -> Result<Option<Moment>, LedgerError> {
        let mut reply = self.call(self.counts_call(shard, now, &[])).await?;
        let oldest = bytes(reply.part()?).ok_or_else(|| reply.unknown())?;
        if oldest.is_empty() { Ok(None) } else { Ok(Some(Moment::from_millis(number(Value::BulkString(oldest), Script::Counts)?))) }
    }

    pub(super) async fn count_live(&self) -> Result<BTreeMap<State, u64>, LedgerError> {
        let states: Vec<Counter> = State::ALL.iter().map(|state| Counter::State(*state)).collect();
        let calls = self.shards().map(|shard| self.counts_call(shard, Moment::from_millis(0), &states)).collect();
        live_of_shards(self.call_all(calls).await.into_iter().map(|answer| counted(answer?)))
    }

    /// Counted by five seconds. What should have stopped long ago is left out: it is beyond risk.
    pub(super) async fn count_deadlines(&self, shard: Shard, before: &[Moment]) -> Result<Vec<u64>, LedgerError> {
        let (Some(first), Some(last)) = (before.iter().min(), before.iter().max()) else { return Ok(Vec::new()) };
        let (from, until) = (five_seconds(first.minus(LONG_AGO)), five_seconds(*last));
        let names = (from..until).take(NAMES_MAX).map(stop_name);
        let reply = self.call(self.named_counts_call(shard, Moment::from_millis(0), names)).await?;
        let counted = counted(reply)?;
        let up_to = |moment: &Moment| counted.iter().take(usize::try_from(five_seconds(*moment) - from).unwrap_or(0)).sum();
        Ok(before.iter().map(up_to).collect())
    }

    fn counts_call(&self, shard: Shard, now: Moment, counters: &[Counter]) -> Call {
        self.named_counts_call(shard, now, counters.iter().map(counter_name))
    }

    fn named_counts_call(&self, shard: Shard, now: Moment, names: impl Iterator<Item = String>) -> Call {
        let keys = vec![self.keys.counts(shard), self.keys.due(shard)];
        let args = std::iter::once(text(now.as_millis())).chain(names.map(text)).collect();
        Call { script: Script::Counts, shard, incarnation: None, keys, args }
    }
}

/// The counters that a count was asked for, behind the oldest that is due.
fn counted(reply: Reply) -> Result<Vec<u64>, LedgerError> {
    reply.rest.into_iter().skip(1).map(|value| Ok(u64::try_from(number::<i64>(value, Script::Counts)?).unwrap_or(0))).collect()
}

fn history(value: Value, script: Script) -> Result<Vec<HistoryEntry>, LedgerError> {
    let Value::Array(entries) = value else { return Err(unknown_answer(script)) };
    let entries = entries.into_iter().map(|entry| {
        let entry = bytes(entry).unwrap_or_default();
        rmp_serde::from_slice(&entry).map_err(|_misfit| LedgerError::Unreadable(FormError::Malformed))
    });
    entries.collect()
}
