//! The beginning of an errand that reads the book first: in which incarnation each shard is, then the ledger's time (DESIGN 8).

use std::collections::BTreeMap;

use curfew_domain::{Moment, Shard};
use curfew_ledger::{Ledger, LedgerError};

/// When an errand began, and in which incarnation of each shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begun {
    /// The ledger's time, before the book is read.
    pub at: Moment,
    /// By shard; one that waits for its recovery, or whose server is away, isn't named.
    pub incarnations: BTreeMap<Shard, u32>,
}

impl Begun {
    /// The shards that can be worked on.
    pub fn shards(&self) -> Vec<Shard> {
        self.incarnations.keys().copied().collect()
    }
}

/// Begins an errand on these shards. Those that wait for their recovery, or don't answer, are left out: they hold up no other.
///
/// # Errors
/// `LedgerError`, where no shard answers.
pub async fn begin(ledger: &dyn Ledger, shards: &[Shard]) -> Result<Begun, LedgerError> {
    let mut incarnations = BTreeMap::new();
    let mut failed = Vec::new();
    let asked = futures::future::join_all(shards.iter().map(|shard| ledger.incarnation(*shard))).await;
    for (shard, answer) in shards.iter().zip(asked) {
        match answer {
            Ok(incarnation) => drop(incarnations.insert(*shard, incarnation)),
            Err(LedgerError::OtherServer | LedgerError::Recovering) => {}
            Err(error) => failed.push(error),
        }
    }
    if failed.len() == shards.len()
        && let Some(error) = failed.pop()
    {
        return Err(error);
    }
    Ok(Begun { at: ledger.now().await?, incarnations })
}
