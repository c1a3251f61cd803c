//! What is read: by scripts too, for what is read from a server that isn't the shard's must not be believed.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::history::HistoryEntry;
use curfew_domain::transition::{Counter, Index};
use curfew_domain::{Key, Moment, Record, Shard, State};
use curfew_ledger::{Agenda, Entry, LedgerError, LineEntry, TimerEntry, Walked, live_of_shards};
use futures::future::join_all;

use super::SimLedger;
use super::client::Run;
use super::shard::{Asked, Barred, Job, ShardData, as_read};

/// Entries read by one script.
const ENTRIES_MAX: usize = 1_000;
/// Counters read by one script.
const NAMES_MAX: usize = 1_000;
/// How long after its end a live record still counts as one that ends soon.
const LONG_AGO: Duration = Duration::from_secs(660);
/// To how much moments are counted at which records stop.
const COUNTED_MS: i64 = 5_000;

impl Run<'_> {
    /// The shard as it stands, past the barrier.
    pub fn seen(&mut self) -> Result<&ShardData, Barred> {
        let (asked, data) = (self.asked, self.node.read(self.shard));
        data.barrier(asked)?;
        Ok(data)
    }

    /// The same for what isn't told while the shard recovers.
    pub fn working(&mut self) -> Result<&ShardData, Barred> {
        let (asked, data) = (self.asked, self.node.read(self.shard));
        data.works(asked)?;
        Ok(data)
    }

    /// A record, which may come back where it is missing: until the shard is recovered nobody may take it for lost.
    pub fn job(&mut self, key: &Key) -> Result<Option<&Job>, Barred> {
        let (asked, data) = (self.asked, self.node.read(self.shard));
        let recovers = data.barrier(asked)?;
        match data.jobs.get(key) {
            None if recovers.seemingly => Err(Barred::Recovering),
            found => Ok(found.map(|job| &**job)),
        }
    }
}

impl SimLedger {
    pub(super) async fn read_entry(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        let found = self.script(self.shard(key), "get", None, |run| {
            let incarnation = run.asked.incarnation;
            let entry = |job: &Job| Entry { record: as_read(&job.record, incarnation), letter: job.letter.clone(), history: job.history.clone() };
            Ok(run.job(key)?.map(entry))
        });
        Ok(found.await?.0)
    }

    pub(super) async fn read_records(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, LedgerError> {
        self.by_shard(keys, "records", |run, key| {
            let incarnation = run.asked.incarnation;
            Ok(run.job(key)?.map(|job| as_read(&job.record, incarnation)))
        })
        .await
    }

    pub(super) async fn read_histories(&self, keys: &[Key]) -> Result<Vec<Vec<HistoryEntry>>, LedgerError> {
        self.by_shard(keys, "histories", |run, key| Ok(run.seen()?.jobs.get(key).map(|job| job.history.clone()).unwrap_or_default())).await
    }

    /// Reads one thing for each key, with one call per shard; answers in the order of the keys.
    pub(super) async fn by_shard<T>(
        &self,
        keys: &[Key],
        operation: &'static str,
        read: impl Fn(&mut Run<'_>, &Key) -> Result<T, Barred>,
    ) -> Result<Vec<T>, LedgerError> {
        let mut places: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            places.entry(self.shard(key)).or_default().push(place);
        }
        let (read, places) = (&read, &places);
        let asked = places.iter().map(|(shard, places)| async move {
            let items = places.iter().map(|place| (None, &keys[*place])).collect();
            self.scripts(*shard, operation, items, |run, key| read(run, key)).await
        });
        let mut found: BTreeMap<usize, T> = BTreeMap::new();
        for (answers, places) in join_all(asked).await.into_iter().zip(places.values()) {
            for (answer, place) in answers?.into_iter().zip(places) {
                found.insert(*place, answer?.0);
            }
        }
        Ok(found.into_values().collect())
    }

    pub(super) async fn read_overdue(&self, shard: Shard, index: Index, now: Moment, limit: usize) -> Result<Vec<TimerEntry>, LedgerError> {
        let found = self.script(shard, "overdue", None, |run| {
            let incarnation = run.asked.incarnation;
            let overdue = run.working()?.overdue(index, now).into_iter().take(limit.min(ENTRIES_MAX));
            Ok(overdue.map(|(at, job)| TimerEntry { record: as_read(&job.record, incarnation), at, postponed: job.postponed }).collect())
        });
        Ok(found.await?.0)
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
        let (per_tenant, limit) = (per_tenant.min(ENTRIES_MAX), limit.min(ENTRIES_MAX));
        let found = self.script(shard, "lines", None, |run| {
            let incarnation = run.asked.incarnation;
            let heads = heads(run.working()?, now, per_tenant, limit, skip);
            Ok(heads.into_iter().map(|(at, job)| LineEntry { record: as_read(&job.record, incarnation), line_at: at }).collect())
        });
        Ok(found.await?.0)
    }

    /// A shard that can't be asked, or that recovers, has nothing to do; an error only where no shard can.
    pub(super) async fn read_agenda(&self, shards: &[Shard], now: Moment) -> Result<Vec<Agenda>, LedgerError> {
        let asked = shards.iter().map(|shard| {
            self.script(*shard, "agenda", None, move |run| {
                let data = run.working()?;
                let due = |index| data.is_overdue(index, now);
                let lines = data.is_line_due(now);
                Ok(Agenda { shard: *shard, lines, watch: due(Index::Watch), settle: due(Index::Settle), review: due(Index::Review) })
            })
        });
        let answers = join_all(asked).await;
        match answers.iter().rev().find_map(|answer| answer.as_ref().err()) {
            Some(error) if answers.iter().all(Result::is_err) => Err(error.clone()),
            Some(_) | None => {
                let nothing = |shard: &Shard| Agenda { shard: *shard, lines: false, watch: false, settle: false, review: false };
                Ok(answers.into_iter().zip(shards).map(|(answer, shard)| answer.map_or_else(|_away| nothing(shard), |(agenda, _)| agenda)).collect())
            }
        }
    }

    pub(super) async fn read_counts(&self, shard: Shard, counters: &[Counter]) -> Result<Vec<u64>, LedgerError> {
        let found = self.script(shard, "counts", None, |run| {
            let tally = run.seen()?.tally();
            Ok(counters.iter().map(|counter| tally.get(counter).copied().unwrap_or(0)).collect())
        });
        Ok(found.await?.0)
    }

    pub(super) async fn read_oldest_due(&self, shard: Shard, now: Moment) -> Result<Option<Moment>, LedgerError> {
        let found = self.script(shard, "counts", None, |run| Ok(run.seen()?.waiting().min().filter(|due| *due <= now)));
        Ok(found.await?.0)
    }

    pub(super) async fn count_live(&self) -> Result<BTreeMap<State, u64>, LedgerError> {
        let asked = self.client.server.shards().map(|shard| {
            self.script(shard, "counts", None, |run| {
                let tally = run.seen()?.tally();
                Ok(State::ALL.iter().map(|state| tally.get(&Counter::State(*state)).copied().unwrap_or(0)).collect::<Vec<_>>())
            })
        });
        live_of_shards(join_all(asked).await.into_iter().map(|answer| answer.map(|(counts, _)| counts)))
    }

    /// Counted by five seconds. What should have stopped long ago is left out: it is beyond risk.
    pub(super) async fn count_deadlines(&self, shard: Shard, before: &[Moment]) -> Result<Vec<u64>, LedgerError> {
        let (Some(first), Some(last)) = (before.iter().min(), before.iter().max()) else { return Ok(Vec::new()) };
        let counted = |moment: Moment| moment.as_millis().div_euclid(COUNTED_MS);
        let from = counted(first.minus(LONG_AGO));
        let until = counted(*last).min(from + NAMES_MAX as i64);
        let found = self.script(shard, "counts", None, |run| {
            let stops: Vec<i64> = run.seen()?.stops().map(counted).collect();
            let up_to = |moment: &Moment| stops.iter().filter(|stop| (from..counted(*moment).min(until)).contains(*stop)).count() as u64;
            Ok(before.iter().map(up_to).collect())
        });
        Ok(found.await?.0)
    }

    /// All of a shard after a key, as `made` makes it of each.
    pub(super) async fn walked<T>(
        &self,
        shard: Shard,
        after: Option<&Key>,
        limit: usize,
        made: impl Fn(&Asked, &Job) -> T,
    ) -> Result<Vec<T>, LedgerError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let found = self.script(shard, "walk", None, |run| {
            let asked = run.asked;
            let jobs = run.seen()?.jobs.iter().filter(|(key, _)| after.is_none_or(|after| *key > after));
            Ok(jobs.take(limit.min(ENTRIES_MAX)).map(|(_, job)| made(asked, job)).collect())
        });
        Ok(found.await?.0)
    }

    pub(super) async fn read_walk(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Walked>, LedgerError> {
        self.walked(shard, after, limit, |asked, job| {
            let record = as_read(&job.record, asked.incarnation);
            let timer = job.timer.map(|(_, at)| TimerEntry { record: record.clone(), at, postponed: job.postponed });
            (record, timer, job.line)
        })
        .await
    }
}

/// Everybody's first, the longest waiting before the others, then everybody's second.
fn heads<'a>(data: &'a ShardData, now: Moment, per_tenant: usize, limit: usize, skip: &[String]) -> Vec<(Moment, &'a Job)> {
    let due = data.tenants_due(now).into_iter().filter(|(_, tenant)| !skip.iter().any(|skipped| skipped == tenant));
    let mut heads = Vec::new();
    for (_, tenant) in due.take(limit) {
        let ours = data.line(tenant, now).into_iter().take(per_tenant).enumerate();
        heads.extend(ours.map(|(place, (at, job))| (place, at, &**job)));
    }
    heads.sort_by_key(|(place, at, _)| (*place, *at)); // stable: what is equal stays in the order it was read
    heads.into_iter().take(limit).map(|(_, at, job)| (at, job)).collect()
}
