//! What recovery asks of the simulated ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use curfew_domain::{Key, Moment, Shard, WorkerId};
use curfew_ledger::{Adopted, Beat, Create, Created, Ledger, LedgerError, Meta, Recoverable, Survivor};

use super::SimLedger;
use super::barrier::{Changed, How};
use super::shard::{Job, as_read};

#[async_trait]
impl Recoverable for SimLedger {
    fn all_shards(&self) -> Vec<Shard> {
        self.client.server.shards().collect()
    }

    fn shard_of(&self, key: &Key) -> Shard {
        self.shard(key)
    }

    async fn meta(&self, shard: Shard) -> Result<Option<Meta>, LedgerError> {
        let node = self.client.server.node_of(shard);
        let conn = self.client.connection(node).await?;
        let Some(stands) = self.client.plain(node, "meta", |server| server.look(shard, |data, _| data.meta.clone())).await? else {
            return Ok(None);
        };
        let of_this_server = stands.run_id == conn.run_id && stands.replication_id == conn.replication_id;
        if !of_this_server {
            // Who asks again identifies anew: it may be this connection that is of the past.
            self.client.refused(node, &conn);
        }
        let (incarnation, recovering, since) = (stands.incarnation, stands.recovering, stands.since);
        Ok(Some(Meta { incarnation, run_id: stands.run_id, replication_id: stands.replication_id, recovering, since, of_this_server }))
    }

    async fn last_beat_of(&self, shard: Shard) -> Result<Option<Beat>, LedgerError> {
        self.read_last_beat_of(shard).await
    }

    async fn hear(&self, who: WorkerId, shards: &[Shard]) -> Vec<Result<u32, LedgerError>> {
        self.write_heard(who, shards).await
    }

    async fn heard(&self, shard: Shard, since: Moment) -> Result<BTreeMap<WorkerId, Moment>, LedgerError> {
        self.read_heard(shard, since).await
    }

    async fn time_of(&self, shard: Shard) -> Result<Moment, LedgerError> {
        let node = self.client.server.node_of(shard);
        self.client.plain(node, "time", |server| server.clock_of(node)).await
    }

    async fn adopt(&self, shard: Shard, incarnation: u32, looked_at: Moment) -> Result<Adopted, LedgerError> {
        Ok(match self.change_meta(shard, incarnation, How::Adopt { looked_at }).await? {
            Changed::Done => Adopted::Adopted,
            Changed::Stands | Changed::NotEmpty => Adopted::Later,
            Changed::Stale => Adopted::Stale,
        })
    }

    async fn recovered(&self, shard: Shard, incarnation: u32) -> Result<(), LedgerError> {
        match self.change_meta(shard, incarnation, How::Recovered).await? {
            Changed::Done => Ok(()),
            Changed::Stands | Changed::NotEmpty | Changed::Stale => Err(LedgerError::OtherServer),
        }
    }

    fn in_recovery(&self) -> Arc<dyn Ledger> {
        Arc::new(Self { recovers: true, ..self.clone() })
    }

    async fn survivors(&self, keys: &[Key]) -> Result<Vec<Option<Survivor>>, LedgerError> {
        self.by_shard(keys, "records", |run, key| {
            let incarnation = run.asked.incarnation;
            Ok(run.job(key)?.map(|job| survivor(job, incarnation)))
        })
        .await
    }

    async fn walk_survivors(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Survivor>, LedgerError> {
        self.walked(shard, after, limit, |asked, job| survivor(job, asked.incarnation)).await
    }

    async fn supplant(&self, create: Create, over: Option<(u32, u64)>) -> Result<Created, LedgerError> {
        let answers = self.create_records(vec![create], over.filter(|_| self.recovers)).await?;
        Ok(answers.into_iter().next().expect("a create has one answer"))
    }
}

fn survivor(job: &Job, incarnation: Option<u32>) -> Survivor {
    Survivor { record: as_read(&job.record, incarnation), written_in: job.record.incarnation }
}
