//! The rollback barrier's own words: what a shard's meta says, and the only ways to change it (DESIGN 8).
//!
//! These are primitives for the first start and for recovery; nobody else calls them. Each may be repeated by anybody.

use curfew_domain::Shard;

use super::call::{Failed, unknown_answer};
use super::scripts::Script;
use super::{Hands, RedisLedger};
use crate::LedgerError;

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
    /// Whether the server that answered is the one that is named.
    pub of_this_server: bool,
}

/// What an adoption found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adopted {
    /// The shard takes this server for its own, and recovers.
    Adopted,
    /// A later incarnation stands there: somebody is ahead of the caller.
    Later,
}

enum Told {
    Done,
    Stands,
    NotEmpty,
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
            match self.change_meta(shard, 0, "initialise").await? {
                Told::Done | Told::Stands => {}
                Told::NotEmpty => return Err(LedgerError::Store(format!("shard {shard} holds records and doesn't say whose"))),
            }
        }
        Ok(())
    }

    /// What a shard's meta says; `None` on a server that never had it, or lost it.
    ///
    /// # Errors
    /// `Unavailable`, `Store`.
    pub async fn meta(&self, shard: Shard) -> Result<Option<Meta>, LedgerError> {
        let conn = self.connection(shard).await?;
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(self.keys.meta(shard)).arg(&["incarnation", "run_id", "replication_id", "recovering"]);
        let read = conn.query::<Vec<Option<String>>>(&cmd).await.map_err(|error| conn.failed(&error, "meta"))?;
        let [Some(incarnation), Some(run_id), Some(replication_id), recovering] = read.as_slice() else { return Ok(None) };
        let incarnation = incarnation.parse().map_err(|_misfit| unknown_answer(Script::Meta))?;
        let (run_id, replication_id) = (run_id.clone(), replication_id.clone());
        let of_this_server = run_id == conn.run_id && replication_id == conn.replication_id;
        Ok(Some(Meta { incarnation, run_id, replication_id, recovering: recovering.as_deref() == Some("1"), of_this_server }))
    }

    /// Recovery's step 2: the meta takes the incarnation that the book raised and the ids of the server as it is now; the shard recovers until
    /// [`RedisLedger::recovered`]. Every errand and every connection of before is refused from here on.
    ///
    /// # Errors
    /// `Unavailable`: it may be adopted; repeat.
    pub async fn adopt(&self, shard: Shard, incarnation: u32) -> Result<Adopted, LedgerError> {
        match self.change_meta(shard, incarnation, "adopt").await? {
            Told::Done => Ok(Adopted::Adopted),
            Told::Stands | Told::NotEmpty => Ok(Adopted::Later),
        }
    }

    /// Recovery's last step: the shard works again, if it is still of this incarnation and on this server.
    ///
    /// # Errors
    /// `OtherServer` where it isn't: recover anew. `Unavailable`: it may work; repeat.
    pub async fn recovered(&self, shard: Shard, incarnation: u32) -> Result<(), LedgerError> {
        match self.change_meta(shard, incarnation, "recovered").await? {
            Told::Done => Ok(()),
            Told::Stands | Told::NotEmpty => Err(LedgerError::OtherServer),
        }
    }

    async fn change_meta(&self, shard: Shard, incarnation: u32, how: &str) -> Result<Told, LedgerError> {
        let conn = self.connection(shard).await?;
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(Script::Meta.hash()).arg(2).arg(self.keys.meta(shard)).arg(self.keys.all(shard));
        cmd.arg(incarnation).arg(&conn.run_id).arg(&conn.replication_id).arg(how);
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
            _unknown => Err(unknown_answer(Script::Meta)),
        }
    }
}
