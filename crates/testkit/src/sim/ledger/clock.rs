//! The nodes' clocks as a client knows them: by samples, with the Redis adapter's ages and halts.
//!
//! Where that adapter samples beside the work, this one takes a sample as if it had just come back: a simulation spawns nothing.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use curfew_domain::{Moment, Shard};
use curfew_ledger::LedgerError;
use curfew_ledger::clock::{NodeClock, Reading};
use futures::future::join_all;

use super::client::Client;
use super::estimate::{Estimate, Sample};

/// Younger samples are good as they are.
const FRESH: Duration = Duration::from_millis(500);
/// Older ones are waited for: an asker must hear that the ledger is away.
const OLD: Duration = Duration::from_secs(3);
/// A node that is silent for longer no longer counts while others answer.
const SILENT: Duration = Duration::from_secs(10);

/// What is known of all nodes' clocks.
#[derive(Default)]
pub(super) struct Clocks(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// By node.
    nodes: Vec<Estimate>,
    /// When the last round ended, and how.
    last: Option<(Duration, Result<(), LedgerError>)>,
    /// The witness's word.
    distrusted: BTreeSet<Shard>,
}

impl Clocks {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

impl Client {
    pub(super) async fn node_time(&self) -> Result<Moment, LedgerError> {
        Ok(self.clock_reading().await?.earliest)
    }

    pub(super) async fn clock_reading(&self) -> Result<Reading, LedgerError> {
        let age = match &self.clocks.known().last {
            Some((at, Ok(()))) => Some(self.elapsed().saturating_sub(*at)),
            Some((_, Err(_))) | None => None,
        };
        match age {
            Some(age) if age < FRESH => {}
            Some(age) if age < OLD => self.sample_beside(),
            Some(_) | None => self.sample().await?,
        }
        self.reading().ok_or(LedgerError::Unavailable { operation: "time" })
    }

    pub(super) async fn read_node_clocks(&self) -> Result<Vec<NodeClock>, LedgerError> {
        let asked = self.elapsed();
        self.sample().await?;
        let known = self.clocks.known();
        let clocks = known.nodes.iter().enumerate().filter_map(|(node, estimate)| {
            let (ahead_ms, answered) = (estimate.ahead_ms()?, estimate.answered()? >= asked);
            Some(NodeClock { name: self.node_name(node), shards: self.shards_of(node), ahead_ms, jumps: estimate.jumps(), answered })
        });
        Ok(clocks.collect())
    }

    pub(super) fn is_shard_halted(&self, shard: Shard) -> bool {
        self.is_halted_by(&self.clocks.known(), shard)
    }

    /// The witness's word: these shards are halted, all others trusted, whatever their clocks did before it saw them.
    pub(super) fn heed(&self, distrusted: BTreeSet<Shard>, seen: &[NodeClock]) {
        let mut known = self.clocks.known();
        for (node, estimate) in known.nodes.iter_mut().enumerate() {
            let name = self.node_name(node);
            let as_seen = seen.iter().any(|clock| clock.answered && clock.name == name && clock.jumps == estimate.jumps());
            if as_seen && self.shards_of(node).iter().all(|shard| !distrusted.contains(shard)) {
                estimate.adopt();
            }
        }
        known.distrusted = distrusted;
    }

    fn is_halted_by(&self, known: &Known, shard: Shard) -> bool {
        known.distrusted.contains(&shard) || known.nodes.get(self.server.node_of(shard)).is_some_and(Estimate::jumped)
    }

    /// The span of all nodes' clocks that count.
    fn reading(&self) -> Option<Reading> {
        let (known, at) = (self.clocks.known(), self.elapsed());
        let answers = |node: usize| known.nodes[node].answered().is_some_and(|answered| at.saturating_sub(answered) < SILENT);
        let trusted = |node: usize| !self.shards_of(node).iter().any(|shard| self.is_halted_by(&known, *shard));
        let span = |nodes: &mut dyn Iterator<Item = usize>| {
            let readings = nodes.filter_map(|node| known.nodes[node].reading(at));
            readings.reduce(|a, b| Reading { earliest: a.earliest.min(b.earliest), latest: a.latest.max(b.latest) })
        };
        let all = known.nodes.len();
        span(&mut (0..all).filter(|node| answers(*node) && trusted(*node))).or_else(|| span(&mut (0..all)))
    }

    /// One round over all nodes.
    async fn sample(&self) -> Result<(), LedgerError> {
        let answers = join_all((0..self.server.nodes_len()).map(|node| self.ask_time(node))).await;
        self.take(answers)
    }

    async fn ask_time(&self, node: usize) -> Result<Sample, LedgerError> {
        let asked = self.elapsed();
        let at = self.plain(node, "time", |server| server.clock_of(node)).await?;
        let answered = self.elapsed();
        let own = self.own_clock().minus((answered - asked) / 2);
        Ok(Sample { asked, answered, at, own })
    }

    fn sample_beside(&self) {
        let answers = (0..self.server.nodes_len()).map(|node| self.just_answered(node)).collect();
        // Where it fails the next asker waits for a round of its own, and is told.
        let _noted = self.take(answers);
    }

    /// The time as a node told it a moment ago, if it would have.
    fn just_answered(&self, node: usize) -> Result<Sample, LedgerError> {
        let (latency, lost) = {
            let weather = self.server.service(node).weather();
            let away = weather.down || weather.cut_off.contains(self.process.name());
            (weather.latency, if away { 100.0 } else { weather.lost_calls + weather.lost_answers })
        };
        let world = &self.server.world;
        let (there, back) = (world.between(latency.0, latency.1), world.between(latency.0, latency.1));
        if world.happens(lost) || self.connected(node).is_none() {
            return Err(LedgerError::Unavailable { operation: "time" });
        }
        let answered = self.elapsed();
        let at = self.server.clock_of(node).minus(back);
        let own = self.own_clock().minus((there + back) / 2);
        Ok(Sample { asked: answered.saturating_sub(there + back), answered, at, own })
    }

    fn take(&self, answers: Vec<Result<Sample, LedgerError>>) -> Result<(), LedgerError> {
        let mut known = self.clocks.known();
        known.nodes.resize_with(answers.len(), Estimate::default);
        let mut told = Err(LedgerError::Unavailable { operation: "time" });
        for (node, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(sample) => {
                    known.nodes[node].take(sample);
                    told = Ok(());
                }
                Err(error) if told.is_err() => told = Err(error),
                Err(_one_of_several) => {}
            }
        }
        known.last = Some((self.elapsed(), told.clone()));
        told
    }

    fn node_name(&self, node: usize) -> String {
        self.server.service(node).name().to_owned()
    }

    fn shards_of(&self, node: usize) -> Vec<Shard> {
        self.server.shards().filter(|shard| self.server.node_of(*shard) == node).collect()
    }
}
