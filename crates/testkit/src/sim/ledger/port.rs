//! The port, call by call, and the writes in it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::history::HistoryEntry;
use curfew_domain::record::WaitingFor;
use curfew_domain::transition::{Counter, Guard, Index};
use curfew_domain::{Key, Moment, Record, Shard, State, WorkerId};
use curfew_ledger::clock::{NodeClock, Reading};
use curfew_ledger::lead::{Lead, Wish};
use curfew_ledger::{
    Agenda, Beat, Create, Created, Entry, Hold, Holds, Ledger, LedgerError, LineEntry, Recoverable, Suppression, Swap, Swapped, TimerEntry, Walked,
};
use futures::future::join_all;

use super::SimLedger;
use super::client::Run;
use super::shard::Barred;

/// What one shard is asked: the places of its answers, and each thing with the incarnation in which its errand began.
type Part<I> = (Vec<usize>, Vec<(Option<u32>, I)>);

impl SimLedger {
    pub(super) fn shard(&self, key: &Key) -> Shard {
        self.client.server.shard_of(key)
    }

    pub(super) async fn create_records(&self, creates: Vec<Create>, over: Option<(u32, u64)>) -> Result<Vec<Created>, LedgerError> {
        let items = creates.into_iter().map(|create| (create.change.record.key.clone(), Some(create.change.record.incarnation), create));
        self.write_all("create", items.collect(), |run, create| {
            let key = create.change.record.key.clone();
            let generation = create.change.record.generation;
            let answer = run.node.write(run.shard, run.elapsed).create(run.asked, run.terms, create, over)?;
            let word = match &answer {
                Created::Created => "created",
                Created::Exists(_) => "exists",
                Created::HigherGeneration => "higher generation",
                Created::EarlierUnclosed(_) => "earlier unclosed",
                Created::StaleRead => "stale read",
            };
            self.told(&format!("ledger create: {word}"), &key, &format!("g{generation} {word}"));
            Ok(answer)
        })
        .await
    }

    async fn swap_records(&self, swaps: Vec<Swap>) -> Result<Vec<Swapped>, LedgerError> {
        let items = swaps.into_iter().map(|swap| (swap.change.record.key.clone(), Some(swap.change.record.incarnation), swap));
        self.write_all("swap", items.collect(), |run, swap| {
            let next = &swap.change.record;
            let (key, after, version) = (next.key.clone(), standing(next), next.version);
            let before = run.node.read(run.shard).jobs.get(&key).map(|job| (standing(&job.record), job.record.version));
            let answer = run.node.write(run.shard, run.elapsed).swap(run.asked, run.terms, swap)?;
            let word = match (&answer, before) {
                (Swapped::Swapped, Some((_, stood))) if stood == version => "ledger swap: found written".to_owned(),
                (Swapped::Swapped, before) => format!("ledger: {} -> {after}", before.map_or("nothing", |(before, _)| before)),
                (Swapped::Conflict(_), _) => "ledger swap: conflict".to_owned(),
                (Swapped::Missing, _) => "ledger swap: missing".to_owned(),
                (Swapped::Refused(guard), _) => format!("ledger swap: refused by {}", guard_word(guard)),
                (Swapped::Full, _) => "ledger swap: full".to_owned(),
            };
            self.told(&word, &key, &format!("v{version} {word}"));
            Ok(answer)
        })
        .await
    }

    /// Writes, by shard, each shard's at one moment; answers in order. An error of one is told for all: nothing is known.
    async fn write_all<I, T>(
        &self,
        operation: &'static str,
        items: Vec<(Key, Option<u32>, I)>,
        write: impl Fn(&mut Run<'_>, I) -> Result<T, Barred>,
    ) -> Result<Vec<T>, LedgerError> {
        let mut parts: BTreeMap<Shard, Part<I>> = BTreeMap::new();
        for (place, (key, incarnation, item)) in items.into_iter().enumerate() {
            let (places, part) = parts.entry(self.shard(&key)).or_default();
            places.push(place);
            part.push((incarnation, item));
        }
        let write = &write;
        let asked = parts
            .into_iter()
            .map(|(shard, (places, part))| async move { (places, self.scripts(shard, operation, part, |run, item| write(run, item)).await) });
        let mut answers: BTreeMap<usize, Result<T, LedgerError>> = BTreeMap::new();
        for (places, told) in join_all(asked).await {
            answers.extend(places.into_iter().zip(told?).map(|(place, answer)| (place, answer.map(|(answer, _)| answer))));
        }
        answers.into_values().collect()
    }

    async fn move_on(&self, moves: Vec<(Key, u64, Moment)>, line: bool) -> Result<(), LedgerError> {
        let operation = if line { "move in line" } else { "postpone" };
        let items = moves.into_iter().map(|one| (one.0.clone(), None, one)).collect();
        let moved = self.write_all(operation, items, |run, one| run.node.write(run.shard, run.elapsed).move_on(run.asked, one, line));
        moved.await.map(|_all| ())
    }

    /// Counts what happened, and puts it into the trace.
    fn told(&self, what: &str, key: &Key, detail: &str) {
        self.client.server.world.count(what);
        self.client.server.world.note(&format!("{} {} {detail}", self.client.process.name(), key.as_str()));
    }
}

fn standing(record: &Record) -> &'static str {
    match (record.closed, record.state) {
        (false, state) => state.word(),
        (true, State::DeadLetter) => "dead_letter, recorded",
        (true, State::Sent) => "sent, settled",
        (true, State::Cancelled) => "cancelled, settled",
        (true, State::Suppressed) => "suppressed, settled",
        (true, State::Scheduled | State::Queued | State::Claimed | State::Handoff) => "closed without an end",
    }
}

fn guard_word(guard: &Guard) -> &'static str {
    match guard {
        Guard::NotBefore(_) => "not before",
        Guard::Before(_) => "before",
        Guard::NotSuppressed(_) => "not suppressed",
    }
}

#[async_trait]
impl Ledger for SimLedger {
    async fn now(&self) -> Result<Moment, LedgerError> {
        self.client.node_time().await
    }

    async fn reading(&self) -> Result<Reading, LedgerError> {
        self.client.clock_reading().await
    }

    async fn node_clocks(&self) -> Result<Vec<NodeClock>, LedgerError> {
        self.client.read_node_clocks().await
    }

    fn halt(&self, distrusted: BTreeSet<Shard>, seen: &[NodeClock]) {
        self.client.heed(distrusted, seen);
    }

    fn is_halted(&self, shard: Shard) -> bool {
        self.client.is_shard_halted(shard)
    }

    async fn live_bytes(&self) -> Result<u64, LedgerError> {
        self.used_bytes().await
    }

    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Created>, LedgerError> {
        self.create_records(creates, None).await
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, LedgerError> {
        let answers = self.swap_records(vec![swap]).await?;
        Ok(answers.into_iter().next().expect("a swap has one answer"))
    }

    async fn swap_all(&self, swaps: Vec<Swap>) -> Result<Vec<Swapped>, LedgerError> {
        self.swap_records(swaps).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        self.read_entry(key).await
    }

    async fn records(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, LedgerError> {
        self.read_records(keys).await
    }

    async fn overdue(&self, shard: Shard, index: Index, now: Moment, limit: usize) -> Result<Vec<TimerEntry>, LedgerError> {
        self.read_overdue(shard, index, now, limit).await
    }

    async fn agenda(&self, shards: &[Shard], now: Moment) -> Result<Vec<Agenda>, LedgerError> {
        self.read_agenda(shards, now).await
    }

    async fn histories(&self, keys: &[Key]) -> Result<Vec<Vec<HistoryEntry>>, LedgerError> {
        self.read_histories(keys).await
    }

    async fn postpone(&self, timers: Vec<(Key, u64, Moment)>) -> Result<(), LedgerError> {
        self.move_on(timers, false).await
    }

    async fn move_in_line(&self, places: Vec<(Key, u64, Moment)>) -> Result<(), LedgerError> {
        self.move_on(places, true).await
    }

    async fn lines(&self, shard: Shard, now: Moment, per_tenant: usize, limit: usize, skip: &[String]) -> Result<Vec<LineEntry>, LedgerError> {
        self.read_lines(shard, now, per_tenant, limit, skip).await
    }

    async fn counts(&self, shard: Shard, counters: &[Counter]) -> Result<Vec<u64>, LedgerError> {
        self.read_counts(shard, counters).await
    }

    async fn oldest_due(&self, shard: Shard, now: Moment) -> Result<Option<Moment>, LedgerError> {
        self.read_oldest_due(shard, now).await
    }

    async fn deadlines(&self, shard: Shard, before: &[Moment]) -> Result<Vec<u64>, LedgerError> {
        self.count_deadlines(shard, before).await
    }

    async fn walk(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Walked>, LedgerError> {
        self.read_walk(shard, after, limit).await
    }

    /// Counters are read off the records here: there is nothing to mend.
    async fn recount(&self, shard: Shard) -> Result<u64, LedgerError> {
        self.script(shard, "recount", None, |run| run.seen().map(|_| 0)).await.map(|(mended, _)| mended)
    }

    async fn restore_timer(&self, key: &Key) -> Result<bool, LedgerError> {
        let Some(record) = self.read_records(std::slice::from_ref(key)).await?.pop().flatten() else { return Ok(false) };
        let restored = self.script(self.shard(key), "restore timer", Some(record.incarnation), |run| {
            run.node.write(run.shard, run.elapsed).restore(run.asked, run.terms, &record)
        });
        restored.await.map(|(restored, _)| restored)
    }

    /// Each shard has its part of `limit`, so that none waits for another. A shard that recovers keeps what it has.
    async fn expire(&self, now: Moment, limit: usize) -> Result<u64, LedgerError> {
        let part = limit.div_ceil(usize::from(self.client.server.options.shards)).min(1_000);
        let calls = self
            .client
            .server
            .shards()
            .map(|shard| self.script(shard, "expire", None, move |run| run.node.write(run.shard, run.elapsed).expire(run.asked, now, part)));
        let mut expired = 0;
        for answer in join_all(calls).await {
            match answer {
                Ok((count, _)) => expired += count,
                Err(LedgerError::Recovering | LedgerError::Halted | LedgerError::OtherServer) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }

    async fn set_suppressions(&self, all: Vec<Suppression>) -> Result<(), LedgerError> {
        self.replace_suppressions(all).await
    }

    async fn set_hold(&self, hold: Hold, by: Option<(WaitingFor, Option<Moment>)>) -> Result<(), LedgerError> {
        self.write_hold(hold, by).await
    }

    async fn holds(&self) -> Result<Holds, LedgerError> {
        self.read_holds().await
    }

    async fn permits(&self, name: &str, per_second: f64, n: u32) -> Result<(u32, Moment), LedgerError> {
        self.take_permits(name, per_second, n).await
    }

    async fn beat(&self, count: u64) -> Result<(), LedgerError> {
        self.write_beat(count).await
    }

    async fn last_beat(&self) -> Result<Option<Beat>, LedgerError> {
        self.read_last_beat().await
    }

    async fn lead(&self, shard: Shard, who: WorkerId, lease: Duration, wish: Wish) -> Result<Lead, LedgerError> {
        self.wish_to_lead(shard, who, lease, wish).await
    }

    async fn unled(&self, shards: &[Shard]) -> Result<Vec<Shard>, LedgerError> {
        self.read_unled(shards).await
    }

    async fn live_by_state(&self) -> Result<BTreeMap<State, u64>, LedgerError> {
        self.count_live().await
    }

    async fn incarnation(&self, shard: Shard) -> Result<u32, LedgerError> {
        let node = self.client.server.node_of(shard);
        self.client.incarnation(node, shard).await?.ok_or(LedgerError::OtherServer)
    }

    fn recoverable(&self) -> Option<&dyn Recoverable> {
        Some(self)
    }

    fn leases_die_with_process(&self) -> bool {
        false
    }
}
