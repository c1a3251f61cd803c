//! Recovery: every shard is looked at, and brought back to work where its ledger lost its latest part, or may have (DESIGN 8).
//!
//! Any scheduler does it, several at once too: the soft lease stands in the very ledger that was lost, so that none is asked for.

use std::collections::BTreeMap;

use curfew_courier::CourierError;
use curfew_courier::recover::{Patience, Recovery, Stage, look};
use curfew_domain::Shard;
use curfew_telemetry::metrics;

use crate::{Ports, Settings};

/// The book is asked too, whether all is as the ledger says, once in so many rounds.
const THOROUGH_EVERY: u32 = 10;

/// What is known of shards that don't work.
#[derive(Default)]
pub(crate) struct Recoveries {
    rounds: u32,
    /// Whom each waits for, as last said.
    said: BTreeMap<Shard, Vec<String>>,
    /// How long this scheduler has waited for reports, with a book that takes them.
    patience: Patience,
}

/// One look at every shard.
pub(crate) async fn step(ports: &Ports, settings: &Settings, recoveries: &mut Recoveries) -> Result<(), CourierError> {
    if ports.ledger.recoverable().is_none() {
        return Ok(());
    }
    let thorough = recoveries.rounds.is_multiple_of(THOROUGH_EVERY);
    recoveries.rounds = recoveries.rounds.wrapping_add(1);
    let recovery = Recovery { ledger: &*ports.ledger, book: &*ports.book, rulebook: &ports.rulebook, patience: &recoveries.patience };
    let looks = settings.shards.iter().map(|shard| async move { (*shard, look(recovery, *shard, thorough).await) });
    let mut failed = Ok(());
    for (shard, stage) in futures::future::join_all(looks).await {
        match stage {
            Ok(stage) => recoveries.told(shard, stage),
            Err(error) => failed = Err(error),
        }
    }
    metrics::shards_recovering(u32::try_from(recoveries.said.len()).unwrap_or(u32::MAX));
    failed
}

impl Recoveries {
    /// Says what changed, once.
    fn told(&mut self, shard: Shard, stage: Stage) {
        match stage {
            Stage::Works => {
                if self.said.remove(&shard).is_some() {
                    tracing::info!(role = "scheduler", shard = %shard, "the shard works again");
                }
            }
            Stage::Waits(whom) => {
                if self.said.get(&shard) != Some(&whom) {
                    let waits = if whom.is_empty() { "its workers' reports".to_owned() } else { whom.join(", ") };
                    tracing::warn!(role = "scheduler", shard = %shard, error_class = "ledger", "the shard recovers, for its ledger was restarted, replaced or emptied: nothing of it is sent until {waits} reported");
                    self.said.insert(shard, whom);
                }
            }
            Stage::Unfinished => {
                self.said.entry(shard).or_default();
            }
            Stage::Recovered(found) => {
                self.said.remove(&shard);
                let incarnation = found.incarnation;
                if found.in_doubt > 0 {
                    tracing::error!(role = "scheduler", shard = %shard, error_class = "ledger", "the shard is recovered, incarnation {incarnation}: {} jobs are in doubt and go to review (ledger_rolled_back), {} workers are missing", found.in_doubt, found.missing);
                } else {
                    tracing::info!(role = "scheduler", shard = %shard, "the shard is recovered, incarnation {incarnation}: {} records follow the book, {} jobs are staged again", found.from_the_book, found.taken_back);
                }
            }
        }
    }
}
