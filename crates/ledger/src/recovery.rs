//! What recovery asks of a ledger that may lose its latest part (DESIGN 8). A ledger in one file that one process opens never needs it.
//!
//! Every one of these may be repeated by anybody, at any time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::{Key, Moment, Record, Shard, WorkerId};

use crate::{Beat, Create, Created, Ledger, LedgerError};

/// A worker that a shard didn't hear for longer is forgotten there: recovery asks for the last minute before its loss.
pub const HEARD_KEPT: Duration = Duration::from_secs(3_600);

/// What a shard's meta holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// The shard's incarnation; the book keeps it too.
    pub incarnation: u32,
    /// The server's run id when the incarnation began.
    pub run_id: String,
    /// Its replication id then.
    pub replication_id: String,
    /// Claims, intents, releases and timers are refused.
    pub recovering: bool,
    /// When the incarnation began here, by the node's clock.
    pub since: Moment,
    /// Whether the server that answered is the one that is named.
    pub of_this_server: bool,
}

/// What an adoption found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adopted {
    /// The shard takes this server for its own in that incarnation; it recovers, or has recovered already.
    Adopted,
    /// A later incarnation stands there, or this one on another server: somebody is ahead of the caller, or the server was lost once more.
    Later,
    /// The caller looked too long ago: look again.
    Stale,
}

/// A record as it survived.
#[derive(Clone, PartialEq, Debug)]
pub struct Survivor {
    /// The record; its incarnation is the one in which it was read.
    pub record: Record,
    /// The incarnation in which it was written.
    pub written_in: u32,
}

/// A ledger that can be recovered.
#[async_trait]
pub trait Recoverable: Send + Sync {
    /// Every shard of the fleet.
    fn all_shards(&self) -> Vec<Shard>;

    /// In which shard a job stands.
    fn shard_of(&self, key: &Key) -> Shard;

    /// What a shard's meta says; `None` on a server that never had it, or lost it.
    ///
    /// # Errors
    /// `Unavailable`, `Store`.
    async fn meta(&self, shard: Shard) -> Result<Option<Meta>, LedgerError>;

    /// The last heartbeat that a shard holds, whoever its server is.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn last_beat_of(&self, shard: Shard) -> Result<Option<Beat>, LedgerError>;

    /// A worker lives: each of these shards keeps that it heard it now, and answers in which incarnation it is. Where the book doesn't hear a
    /// worker, recovery knows of it by this alone, so that none claims in a shard before it was heard there. Nothing to do where nothing is lost.
    /// In recovery's hands a shard that recovers hears of whoever may claim there when it works again.
    /// By shard: `OtherServer`, `Recovering`, `Halted`: it wasn't heard, and what it claims is refused too. `Unavailable`: unknown, repeat.
    async fn hear(&self, who: WorkerId, shards: &[Shard]) -> Vec<Result<u32, LedgerError>> {
        let _nothing_is_lost = who;
        shards.iter().map(|_| Ok(0)).collect()
    }

    /// Which workers a shard heard since a moment, and when last, whoever its server is.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn heard(&self, shard: Shard, since: Moment) -> Result<BTreeMap<WorkerId, Moment>, LedgerError> {
        let _nothing_is_lost = (shard, since);
        Ok(BTreeMap::new())
    }

    /// The clock of the shard's node.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn time_of(&self, shard: Shard) -> Result<Moment, LedgerError>;

    /// Recovery's step 2: the meta takes the incarnation that the book raised and the ids of the server as it is now; the shard recovers until
    /// [`Recoverable::recovered`]. Every errand and every connection of before is refused from here on. `looked_at`: when the caller, by the
    /// shard's node, found that the shard must be recovered.
    ///
    /// # Errors
    /// `Unavailable`: it may be adopted; repeat.
    async fn adopt(&self, shard: Shard, incarnation: u32, looked_at: Moment) -> Result<Adopted, LedgerError>;

    /// Recovery's last step: the shard works again, if it is still of this incarnation and on this server.
    ///
    /// # Errors
    /// `OtherServer` where it isn't: recover anew. `Unavailable`: it may work; repeat.
    async fn recovered(&self, shard: Shard, incarnation: u32) -> Result<(), LedgerError>;

    /// The same ledger in recovery's hands: its calls are taken while a shard recovers.
    fn in_recovery(&self) -> Arc<dyn Ledger>;

    /// Records as they survived, in the order of the keys.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn survivors(&self, keys: &[Key]) -> Result<Vec<Option<Survivor>>, LedgerError>;

    /// All of a shard after a key.
    ///
    /// # Errors
    /// `LedgerError`.
    async fn walk_survivors(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Survivor>, LedgerError>;

    /// Creates a record where none stands, or over the lower generation whose version is named, whatever its state.
    ///
    /// # Errors
    /// `LedgerError`: nothing is known; look again.
    async fn supplant(&self, create: Create, over: Option<(u32, u64)>) -> Result<Created, LedgerError>;
}
