//! What a commit is worth, by the server's settings.

use sqlx::Row as _;

use super::Postgres;
use crate::StoreError;

/// How much is over before an answered commit can be lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DurabilityLevel {
    /// Nothing: the server's process alone.
    None,
    /// The server's process may die, its machine may not.
    Process,
    /// The machine may lose its power; it is on its disk.
    Fsync,
    /// The machine may be lost: another one has it, too.
    Replicated,
}

impl DurabilityLevel {
    /// As configured and shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Process => "process",
            Self::Fsync => "fsync",
            Self::Replicated => "replicated",
        }
    }
}

/// A level, and the setting that decides it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reached {
    /// What a commit is worth.
    pub level: DurabilityLevel,
    /// Why not more, for people.
    pub reason: String,
}

/// The settings that count: <https://www.postgresql.org/docs/current/runtime-config-wal.html>.
pub(super) struct Settings {
    pub(super) fsync: bool,
    pub(super) full_page_writes: bool,
    pub(super) synchronous_commit: String,
    pub(super) standby_names: String,
}

pub(super) async fn reached(store: &Postgres) -> Result<Reached, StoreError> {
    let failed = StoreError::asking("read the durability");
    let query = sqlx::query(include_str!("durability.sql"));
    let row = store.first("read the durability", query).await?.ok_or(StoreError::Lost { operation: "read the durability" })?;
    let settings = Settings {
        fsync: row.try_get(0).map_err(failed)?,
        full_page_writes: row.try_get(1).map_err(failed)?,
        synchronous_commit: row.try_get(2).map_err(failed)?,
        standby_names: row.try_get(3).map_err(failed)?,
    };
    Ok(judge(&settings))
}

pub(super) fn judge(settings: &Settings) -> Reached {
    let at = |level, reason: &str| Reached { level, reason: reason.to_owned() };
    if settings.synchronous_commit == "off" {
        return at(DurabilityLevel::None, "synchronous_commit = off: a commit is answered before it is written anywhere");
    }
    if !settings.fsync {
        return at(DurabilityLevel::Process, "fsync = off: nothing waits for the disk, and a power failure may damage the whole cluster");
    }
    if !settings.full_page_writes {
        return at(DurabilityLevel::Process, "full_page_writes = off: a page torn by a power failure can't be mended");
    }
    if settings.standby_names.trim().is_empty() {
        return at(DurabilityLevel::Fsync, "synchronous_standby_names is empty: a failover may lose what was accepted last");
    }
    if settings.synchronous_commit == "local" {
        return at(DurabilityLevel::Fsync, "synchronous_commit = local: no standby is waited for");
    }
    let reason = format!("synchronous_commit = {}, and a standby of synchronous_standby_names is waited for", settings.synchronous_commit);
    Reached { level: DurabilityLevel::Replicated, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_below_the_best_lowers_the_level() {
        let level = |fsync, full_page_writes, commit: &str, standbys: &str| {
            let settings = Settings { fsync, full_page_writes, synchronous_commit: commit.to_owned(), standby_names: standbys.to_owned() };
            judge(&settings).level.word()
        };
        assert_eq!(level(true, true, "off", "ANY 1 (b)"), "none");
        assert_eq!(level(false, true, "on", ""), "process");
        assert_eq!(level(true, false, "on", ""), "process");
        assert_eq!(level(true, true, "on", ""), "fsync");
        assert_eq!(level(true, true, "local", "ANY 1 (b)"), "fsync");
        assert_eq!(level(true, true, "remote_write", "ANY 1 (b)"), "replicated");
        assert_eq!(level(true, true, "on", "ANY 1 (b)"), "replicated");
        assert!(DurabilityLevel::Fsync > DurabilityLevel::Process, "levels are compared with what is required");
    }
}
