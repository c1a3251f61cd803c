//! The clocks of the nodes: sampled beside the work, so that nobody asks for the time on the way.
//!
//! Whoever asks for `now` is answered from the samples, and where they age one round is begun in the background; a ledger that nobody asks is
//! not asked by us. Where a round failed, or none was for long, the asker waits for one, and hears that the ledger is away.
//!
//! A node that jumped, or that the witness distrusts, halts its shards: their scripts then refuse what a shard that recovers refuses.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use curfew_domain::{Moment, Shard};

use super::RedisLedger;
use super::address::Node;
use super::estimate::{Estimate, Sample};
use super::slot::slot;
use crate::LedgerError;
use crate::clock::{NodeClock, Reading};

/// Younger samples are good as they are.
const FRESH: Duration = Duration::from_millis(500);
/// Older ones are waited for: an asker must hear that the ledger is away.
const OLD: Duration = Duration::from_secs(3);
/// A node that is silent for longer no longer counts while others answer.
const SILENT: Duration = Duration::from_secs(10);

/// What is known of all nodes' clocks.
#[derive(Default)]
pub(super) struct Clocks {
    known: Mutex<Known>,
    /// One round at a time.
    round: tokio::sync::Mutex<()>,
    begun: AtomicBool,
    /// Shards that are halted, a bit each: asked at each script.
    halted: AtomicU64,
}

#[derive(Default)]
struct Known {
    nodes: Vec<OneNode>,
    /// When the last round ended, and how.
    last: Option<(Instant, Result<(), LedgerError>)>,
    /// The witness's word.
    distrusted: BTreeSet<Shard>,
}

struct OneNode {
    node: Option<Node>,
    shards: Vec<Shard>,
    estimate: Estimate,
}

impl OneNode {
    /// For people.
    fn name(&self) -> String {
        self.node.as_ref().map_or_else(|| "the server".to_owned(), |node| format!("{}:{}", node.host, node.port))
    }
}

/// Shards of one node.
pub(super) type OnNode = (Option<Node>, Vec<Shard>);

/// What an asker does about the samples' age.
enum Age {
    Fresh,
    Aging,
    Old,
}

impl Clocks {
    /// Whether a shard is halted.
    pub(super) fn is_halted(&self, shard: Shard) -> bool {
        self.halted.load(Ordering::Acquire) & bit(shard) != 0
    }

    /// The witness's word: these shards are halted, all others trusted, whatever their clocks did before it saw them.
    pub(super) fn halt(&self, distrusted: BTreeSet<Shard>, seen: &[NodeClock]) {
        let mut known = self.known();
        for node in &mut known.nodes {
            let as_seen = seen.iter().any(|clock| clock.answered && clock.name == node.name() && clock.jumps == node.estimate.jumps());
            if as_seen && node.shards.iter().all(|shard| !distrusted.contains(shard)) {
                node.estimate.adopt();
            }
        }
        known.distrusted = distrusted;
        self.note_halted(&known);
    }

    fn note_halted(&self, known: &Known) {
        let jumped = known.nodes.iter().filter(|node| node.estimate.jumped()).flat_map(|node| &node.shards);
        let halted = jumped.chain(&known.distrusted).fold(0, |all, shard| all | bit(*shard));
        self.halted.store(halted, Ordering::Release);
    }

    fn age(&self) -> Age {
        match &self.known().last {
            Some((at, Ok(()))) if at.elapsed() < FRESH => Age::Fresh,
            Some((at, Ok(()))) if at.elapsed() < OLD => Age::Aging,
            Some(_) | None => Age::Old,
        }
    }

    /// The span of all nodes' clocks that count: a moment at which each is later than the earliest, and none than the latest.
    fn reading(&self) -> Option<Reading> {
        let (at, system) = (Instant::now(), SystemTime::now());
        let known = self.known();
        let answers = |node: &&OneNode| node.estimate.answered().is_some_and(|answered| at.saturating_duration_since(answered) < SILENT);
        let trusted = |node: &&OneNode| !node.shards.iter().any(|shard| self.is_halted(*shard));
        let span = |nodes: &mut dyn Iterator<Item = &OneNode>| {
            let readings = nodes.filter_map(|node| node.estimate.reading(at, system));
            readings.reduce(|a, b| Reading { earliest: a.earliest.min(b.earliest), latest: a.latest.max(b.latest) })
        };
        // A clock that is off by an hour holds up its own shards alone.
        span(&mut known.nodes.iter().filter(answers).filter(trusted)).or_else(|| span(&mut known.nodes.iter()))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no code panics while it holds what is known")
    }

    /// Takes a round's answers in. Nodes that serve nothing any more are forgotten; where nobody says who serves a shard, the last that did stays.
    fn take(&self, answers: Vec<(OnNode, Result<Sample, LedgerError>)>) -> Result<(), LedgerError> {
        let mut known = self.known();
        let mut before = std::mem::take(&mut known.nodes);
        let mut told = Err(LedgerError::Unavailable { operation: "time" });
        for ((node, shards), answer) in answers {
            let place = before.iter().position(|known| known.node == node);
            let mut estimate = place.map(|place| before.swap_remove(place).estimate).unwrap_or_default();
            match answer {
                Ok(sample) => {
                    estimate.take(sample);
                    told = Ok(());
                }
                Err(error) if told.is_err() => told = Err(error),
                Err(_one_of_several) => {}
            }
            known.nodes.push(OneNode { node, shards, estimate });
        }
        for mut node in before {
            node.shards.retain(|shard| !known.nodes.iter().any(|one| one.shards.contains(shard)));
            if !node.shards.is_empty() {
                known.nodes.push(node);
            }
        }
        self.note_halted(&known);
        told
    }

    fn ended(&self, how: Result<(), LedgerError>) {
        self.known().last = Some((Instant::now(), how));
    }
}

impl RedisLedger {
    /// No earlier than what the clocks of the nodes say now: what is done by it is never early.
    pub(super) async fn node_time(&self) -> Result<Moment, LedgerError> {
        Ok(self.clock_reading().await?.earliest)
    }

    pub(super) async fn clock_reading(&self) -> Result<Reading, LedgerError> {
        if let Some(clock) = self.clock_by_hand() {
            return Ok(Reading::exact(clock()));
        }
        match self.clocks.age() {
            Age::Fresh => {}
            Age::Aging => self.sample_beside(),
            Age::Old => self.sample().await?,
        }
        self.clocks.reading().ok_or(LedgerError::Unavailable { operation: "time" })
    }

    /// Each node's clock, sampled now; of one that doesn't answer what it said last.
    pub(super) async fn read_node_clocks(&self) -> Result<Vec<NodeClock>, LedgerError> {
        if self.clock_by_hand().is_some() {
            return Ok(Vec::new());
        }
        let asked = Instant::now();
        self.sample().await?;
        let known = self.clocks.known();
        let clocks = known.nodes.iter().filter_map(|node| {
            let (ahead_ms, answered) = (node.estimate.ahead_ms()?, node.estimate.answered()? >= asked);
            Some(NodeClock { name: node.name(), shards: node.shards.clone(), ahead_ms, jumps: node.estimate.jumps(), answered })
        });
        Ok(clocks.collect())
    }

    /// The shards by the node that serves them; without those of which nobody says it, while somebody does of others.
    pub(super) async fn by_node(&self) -> Result<Vec<OnNode>, LedgerError> {
        let mut all: Vec<OnNode> = Vec::new();
        let mut failed = None;
        for shard in self.shards() {
            let node = match self.nodes.node_of(slot(&shard.to_string())).await {
                Ok(node) => node,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            match all.iter_mut().find(|(known, _)| *known == node) {
                Some((_, shards)) => shards.push(shard),
                None => all.push((node, vec![shard])),
            }
        }
        match failed {
            Some(error) if all.is_empty() => Err(error),
            Some(_) | None => Ok(all),
        }
    }

    fn sample_beside(&self) {
        if !self.clocks.begun.swap(true, Ordering::AcqRel) {
            let ledger = self.clone();
            tokio::spawn(async move {
                // Where it fails the next asker waits for a round of its own, and is told.
                let _noted = ledger.sample().await;
                ledger.clocks.begun.store(false, Ordering::Release);
            });
        }
    }

    /// One round over all nodes. Who comes while one runs takes its outcome.
    async fn sample(&self) -> Result<(), LedgerError> {
        let came = Instant::now();
        let _alone = self.clocks.round.lock().await;
        if let Some((ended, how)) = &self.clocks.known().last
            && *ended >= came
        {
            return how.clone();
        }
        let how = self.ask_nodes().await;
        self.clocks.ended(how.clone());
        how
    }

    async fn ask_nodes(&self) -> Result<(), LedgerError> {
        let by_node = self.by_node().await?;
        let answers = futures::future::join_all(by_node.iter().map(|(_, shards)| self.ask_time(shards[0]))).await;
        self.clocks.take(by_node.into_iter().zip(answers).collect())
    }

    async fn ask_time(&self, shard: Shard) -> Result<Sample, LedgerError> {
        let conn = self.connection(shard).await?;
        let (asked, asked_by_the_system) = (Instant::now(), SystemTime::now());
        let told = conn.query::<(i64, i64)>(&redis::cmd("TIME")).await;
        let answered = Instant::now();
        let (seconds, micros) = told.map_err(|error| conn.failed(&error, "time"))?;
        let micros = self.options.clock.as_ref().map_or(seconds * 1_000_000 + micros, |clock| clock().as_millis() * 1000);
        Ok(Sample { asked, asked_by_the_system, answered, micros })
    }
}

/// A shard's bit among all.
pub(super) fn bit(shard: Shard) -> u64 {
    1_u64.checked_shl(u32::from(shard.0)).unwrap_or(0)
}
