//! Whether somebody works each shard: a scheduler leads it, a worker consumes its ready queue (DESIGN 4).
//!
//! A shard that nobody covers holds its jobs up silently: nothing fails, nothing is overdue to anybody who is there. So every process looks, at all
//! shards of the fleet, also at those that it doesn't work itself; what is uncovered in two looks is named.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use curfew_domain::Shard;
use curfew_telemetry::metrics::{self, Covers};
use tokio_util::sync::CancellationToken;

use crate::wire::Parts;

/// Longer than a soft lease: a scheduler that died is no gap until others had their chance.
const EVERY: Duration = Duration::from_secs(10);

/// Shards that nobody covers, as last seen and as last told.
#[derive(Debug, Default)]
struct Gaps {
    seen: BTreeSet<Shard>,
    told: BTreeSet<Shard>,
}

/// What a look changes.
#[derive(PartialEq, Eq, Debug, Default)]
struct News {
    uncovered: Vec<Shard>,
    covered: Vec<Shard>,
}

impl Gaps {
    /// Uncovered in two looks: told once; covered again: at once.
    fn look(&mut self, now: BTreeSet<Shard>) -> News {
        let standing: BTreeSet<Shard> = now.intersection(&self.seen).copied().collect();
        let news = News { uncovered: standing.difference(&self.told).copied().collect(), covered: self.told.difference(&now).copied().collect() };
        self.told = standing;
        self.seen = now;
        news
    }
}

/// Looks until `stop`.
pub async fn watch(parts: Arc<Parts>, shards: u8, stop: CancellationToken) {
    let all: Vec<Shard> = (0..shards).map(Shard).collect();
    let (mut led, mut consumed) = (Gaps::default(), Gaps::default());
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await; // a fleet that starts has its time
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // A store that is away says nothing about others, and the probes name it.
        if let Ok(unled) = parts.ledger.unled(&all).await {
            tell(Covers::Scheduler, &mut led, unled.into_iter().collect());
        }
        if let Some(unconsumed) = unconsumed(&parts, &all).await {
            tell(Covers::Worker, &mut consumed, unconsumed);
        }
    }
}

async fn unconsumed(parts: &Parts, all: &[Shard]) -> Option<BTreeSet<Shard>> {
    let mut found = BTreeSet::new();
    for shard in all {
        if parts.broker.ready_state(*shard).await.ok()?.consumers == 0 {
            found.insert(*shard);
        }
    }
    Some(found)
}

fn tell(covers: Covers, gaps: &mut Gaps, now: BTreeSet<Shard>) {
    let news = gaps.look(now);
    metrics::uncovered_shards(covers, gaps.told.len() as u64);
    let role = covers.word();
    if !news.uncovered.is_empty() {
        tracing::error!(error_class = "cover", "no {role} covers shard {}: its jobs wait until one does", named(&news.uncovered));
    }
    if !news.covered.is_empty() {
        tracing::info!("a {role} covers shard {} again", named(&news.covered));
    }
}

fn named(shards: &[Shard]) -> String {
    shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(all: &[u8]) -> BTreeSet<Shard> {
        all.iter().copied().map(Shard).collect()
    }

    #[test]
    fn a_gap_is_told_once_when_it_was_there_twice_and_its_end_at_once() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.look(shards(&[3, 7])), News::default(), "somebody may be about to take it");
        assert_eq!(gaps.look(shards(&[7])), News { uncovered: vec![Shard(7)], covered: vec![] });
        assert_eq!(gaps.look(shards(&[7])), News::default());
        assert_eq!(gaps.look(shards(&[])), News { uncovered: vec![], covered: vec![Shard(7)] });
        assert_eq!(gaps.look(shards(&[7])), News::default());
    }
}
