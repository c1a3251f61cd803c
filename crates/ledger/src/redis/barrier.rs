//! The rollback barrier's own words: what a shard's meta says, and the only ways to change it (DESIGN 8).
//!
//! These are primitives for the first start and for recovery; nobody else calls them. Each may be repeated by anybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use curfew_domain::{Key, Moment, Record, Shard, WorkerId, form};

use super::call::{Failed, bytes, unknown_answer};
use super::scripts::Script;
use super::{Hands, RedisLedger};
use crate::{Adopted, Beat, Create, Created, Ledger, LedgerError, Meta, Recoverable, Survivor};

enum Told {
    Done,
    Stands,
    NotEmpty,
    Stale,
}

impl RedisLedger {
    /// The same ledger in recovery's hands: its calls are taken while a shard recovers.
    pub fn recovery(&self) -> Self {
        Self { hands: Hands::Recovery, ..self.clone() }
    }

    /// Writes the meta of every shard that has none, as incarnation 0 on the server as it is now. Only for a first start, when the book
    /// says that nothing was ever staged: on an emptied Redis it would hide the loss. A meta that stands is left as it is.
    ///
    /// # Errors
    /// `Unavailable`: some shards may be initialised; repeat. `Store` where records stand without a meta.
    pub async fn initialise(&self) -> Result<(), LedgerError> {
        for shard in self.shards() {
            match self.change_meta(shard, 0, "initialise", None).await? {
                Told::Done | Told::Stands | Told::Stale => {}
                Told::NotEmpty => return Err(LedgerError::Store(format!("shard {shard} holds records and doesn't say whose"))),
            }
        }
        Ok(())
    }

    /// The shard's incarnation as its connection first saw it; a stale one is refused by the script that names it.
    pub(super) async fn known_incarnation(&self, shard: Shard) -> Result<u32, LedgerError> {
        let conn = self.connection(shard).await?;
        conn.incarnation(shard, &self.keys.meta(shard)).await?.parse().map_err(|_no_meta| LedgerError::OtherServer)
    }

    async fn change_meta(&self, shard: Shard, incarnation: u32, how: &str, looked_at: Option<Moment>) -> Result<Told, LedgerError> {
        let conn = self.connection(shard).await?;
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(Script::Meta.hash()).arg(2).arg(self.keys.meta(shard)).arg(self.keys.all(shard));
        cmd.arg(incarnation).arg(&conn.run_id).arg(&conn.replication_id).arg(how).arg(self.clock_override());
        cmd.arg(looked_at.map_or_else(String::new, |at| at.as_millis().to_string()));
        let mut told = self.told(&conn, conn.query(&cmd).await, Script::Meta);
        if matches!(told, Err(Failed::NoScript)) {
            conn.load_scripts().await?;
            told = self.told(&conn, conn.query(&cmd).await, Script::Meta);
        }
        let (said, _what_stands) = told.map_err(|failed| match failed {
            Failed::NoScript => LedgerError::Unavailable { operation: Script::Meta.name() },
            Failed::Told(error) => error,
        })?;
        conn.forget_incarnations();
        match said.as_str() {
            "done" => Ok(Told::Done),
            "stands" => Ok(Told::Stands),
            "not_empty" => Ok(Told::NotEmpty),
            "stale" => Ok(Told::Stale),
            _unknown => Err(unknown_answer(Script::Meta)),
        }
    }
}

#[async_trait]
impl Recoverable for RedisLedger {
    fn all_shards(&self) -> Vec<Shard> {
        self.shards().collect()
    }

    fn shard_of(&self, key: &Key) -> Shard {
        self.shard(key)
    }

    async fn meta(&self, shard: Shard) -> Result<Option<Meta>, LedgerError> {
        let conn = self.connection(shard).await?;
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(self.keys.meta(shard)).arg(&["incarnation", "run_id", "replication_id", "recovering", "since"]);
        let read = conn.query::<Vec<Option<String>>>(&cmd).await.map_err(|error| conn.failed(&error, "meta"))?;
        let [Some(incarnation), Some(run_id), Some(replication_id), recovering, since] = read.as_slice() else { return Ok(None) };
        let incarnation = incarnation.parse().map_err(|_misfit| unknown_answer(Script::Meta))?;
        let since = Moment::from_millis(since.as_deref().and_then(|ms| ms.parse().ok()).unwrap_or(0));
        let (run_id, replication_id) = (run_id.clone(), replication_id.clone());
        let of_this_server = run_id == conn.run_id && replication_id == conn.replication_id;
        if !of_this_server {
            // Who asks again identifies anew: it may be this connection that is of the past.
            conn.refused();
        }
        Ok(Some(Meta { incarnation, run_id, replication_id, recovering: recovering.as_deref() == Some("1"), since, of_this_server }))
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
        if let Some(clock) = &self.options.clock {
            return Ok(clock());
        }
        let conn = self.connection(shard).await?;
        let (seconds, micros): (i64, i64) = conn.query(&redis::cmd("TIME")).await.map_err(|error| conn.failed(&error, "time"))?;
        Ok(Moment::from_millis(seconds * 1000 + micros / 1000))
    }

    async fn adopt(&self, shard: Shard, incarnation: u32, looked_at: Moment) -> Result<Adopted, LedgerError> {
        match self.change_meta(shard, incarnation, "adopt", Some(looked_at)).await? {
            Told::Done => Ok(Adopted::Adopted),
            Told::Stands | Told::NotEmpty => Ok(Adopted::Later),
            Told::Stale => Ok(Adopted::Stale),
        }
    }

    async fn recovered(&self, shard: Shard, incarnation: u32) -> Result<(), LedgerError> {
        match self.change_meta(shard, incarnation, "recovered", None).await? {
            Told::Done => Ok(()),
            Told::Stands | Told::NotEmpty | Told::Stale => Err(LedgerError::OtherServer),
        }
    }

    fn in_recovery(&self) -> Arc<dyn Ledger> {
        Arc::new(Self { hands: Hands::Recovery, ..self.clone() })
    }

    async fn survivors(&self, keys: &[Key]) -> Result<Vec<Option<Survivor>>, LedgerError> {
        self.by_shard(
            Script::Records,
            keys,
            |shard, key| self.keys.job(shard, key),
            |value, incarnation| bytes(value).map(|stored| survivor(&stored, incarnation)).transpose(),
        )
        .await
    }

    async fn walk_survivors(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Survivor>, LedgerError> {
        self.walk_readable(shard, after, limit, survivor).await
    }

    async fn supplant(&self, create: Create, over: Option<(u32, u64)>) -> Result<Created, LedgerError> {
        self.create_over(create, over).await
    }
}

fn survivor(stored: &[u8], incarnation: u32) -> Result<Survivor, LedgerError> {
    let mut record: Record = form::decode(stored)?;
    let written_in = std::mem::replace(&mut record.incarnation, incarnation);
    Ok(Survivor { record, written_in })
}
