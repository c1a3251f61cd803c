//! The only ways to change a shard's meta: the first start, and recovery (DESIGN 8).

use std::time::Duration;

use curfew_domain::{Moment, Shard};
use curfew_ledger::LedgerError;

use super::SimLedger;
use super::client::Connection;
use super::server::Node;
use super::shard::Meta;

/// Who looked longer ago may have missed a whole recovery.
const LOOK_AGE_MAX: Duration = Duration::from_secs(5);

/// How a meta is to change.
#[derive(Clone, Copy)]
pub(super) enum How {
    /// Where nothing stands.
    Initialise,
    /// These ids for this incarnation, which recovers from now on.
    Adopt { looked_at: Moment },
    /// The recovery of this incarnation on this server ends.
    Recovered,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Changed {
    Done,
    /// Something else stands there.
    Stands,
    /// Records without a meta.
    NotEmpty,
    /// Found too long ago.
    Stale,
}

impl SimLedger {
    /// Writes the meta of every shard that has none, as incarnation 0 on the servers as they are now: only for a first start.
    ///
    /// # Errors
    /// `Unavailable`: some shards may be initialised; repeat. `Store` where records stand without a meta.
    pub async fn initialise(&self) -> Result<(), LedgerError> {
        for shard in self.client.server.shards() {
            match self.change_meta(shard, 0, How::Initialise).await? {
                Changed::Done | Changed::Stands | Changed::Stale => {}
                Changed::NotEmpty => return Err(LedgerError::Store(format!("shard {shard} holds records and doesn't say whose"))),
            }
        }
        Ok(())
    }

    pub(super) async fn change_meta(&self, shard: Shard, incarnation: u32, how: How) -> Result<Changed, LedgerError> {
        let node = self.client.server.node_of(shard);
        let conn = self.client.connection(node).await?;
        let changed = self.client.plain(node, "meta", |server| {
            let mut nodes = server.nodes();
            let now = nodes[node].clock(server.world.now());
            changed(&mut nodes[node], shard, &conn, incarnation, how, now, server.world.elapsed())
        });
        let changed = changed.await?;
        self.client.forget_incarnations(node);
        Ok(changed)
    }
}

fn changed(node: &mut Node, shard: Shard, conn: &Connection, incarnation: u32, how: How, now: Moment, elapsed: Duration) -> Changed {
    let data = node.read(shard);
    let ids = |meta: &Meta| meta.run_id == conn.run_id && meta.replication_id == conn.replication_id;
    let ours = data.meta.as_ref().is_some_and(|meta| meta.incarnation == incarnation && ids(meta));
    let (recovering, since) = match (how, &data.meta) {
        (How::Initialise, Some(_)) => return if ours { Changed::Done } else { Changed::Stands },
        (How::Initialise, None) if !data.jobs.is_empty() => return Changed::NotEmpty,
        (How::Initialise, None) => (false, Moment::from_millis(0)),
        // What is adopted already stays as it is.
        (How::Adopt { .. }, _) if ours => return Changed::Done,
        // A lower incarnation is refused, and this one on another server too: errands of it may live.
        (How::Adopt { .. }, Some(meta)) if meta.incarnation >= incarnation => return Changed::Stands,
        (How::Adopt { looked_at }, _) if now.since(looked_at) > LOOK_AGE_MAX => return Changed::Stale,
        (How::Adopt { .. }, _) => (true, now),
        (How::Recovered, Some(meta)) if ours => (false, meta.since),
        (How::Recovered, _) => return Changed::Stands,
    };
    let (run_id, replication_id) = (conn.run_id.clone(), conn.replication_id.clone());
    node.write(shard, elapsed).meta = Some(Meta { incarnation, run_id, replication_id, recovering, since });
    Changed::Done
}
