//! What the server's own configuration promises, in words an operator can act on (DESIGN 8's table).

use std::collections::BTreeMap;

use super::RedisLedger;
use super::address::At;
use super::connect::{Connected, field};
use crate::LedgerError;

/// How much a server loses of what it acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// All since the last snapshot, at any stop.
    None,
    /// Nothing when its process is killed, but for writes that wait behind a sync; up to two seconds when the machine fails.
    Process,
    /// Nothing, as long as the disk stands.
    Fsync,
    /// Nothing by itself; a failover may lose what the promoted replica had not received.
    Replicated,
}

/// A server's level, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Durability {
    /// The least of all nodes.
    pub level: Level,
    /// What makes it so, a sentence each.
    pub reasons: Vec<String>,
    /// Why Curfew must not run on it, if it mustn't.
    pub refused: Option<String>,
    /// Whether an old primary that is cut off stops by itself: what P1 rests on in a split brain.
    pub split_brain_safe: bool,
}

impl Level {
    /// The word of the metric and of `curfew check`.
    pub const fn word(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Process => "process",
            Level::Fsync => "fsync",
            Level::Replicated => "replicated",
        }
    }
}

impl RedisLedger {
    /// Asks every node that serves a shard what it promises; the least of them counts.
    ///
    /// # Errors
    /// `Unavailable`; `Store` where the server doesn't let itself be asked (`CONFIG GET`, `INFO`).
    pub async fn durability(&self) -> Result<Durability, LedgerError> {
        let cluster = match self.nodes.at() {
            At::Cluster(_) => true,
            At::Single(_) | At::Sentinel { .. } => false,
        };
        let mut least: Option<Durability> = None;
        let mut asked: Vec<String> = Vec::new();
        for shard in self.shards() {
            let conn = self.connection(shard).await?;
            if asked.contains(&conn.run_id) {
                continue;
            }
            asked.push(conn.run_id.clone());
            let (config, replication) = settings(&conn).await?;
            let found = judge(&config, &replication, cluster);
            let lesser = |least: &Durability| (found.refused.is_some(), least.level) > (least.refused.is_some(), found.level);
            if least.as_ref().is_none_or(lesser) {
                least = Some(found);
            }
        }
        least.ok_or(LedgerError::Unavailable { operation: "durability" })
    }
}

async fn settings(conn: &Connected) -> Result<(BTreeMap<String, String>, String), LedgerError> {
    let mut config = BTreeMap::new();
    for name in ["appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "min-replicas-to-write", "min-replicas-max-lag"] {
        let found: Vec<(String, String)> =
            conn.query(redis::cmd("CONFIG").arg("GET").arg(name)).await.map_err(|error| conn.failed(&error, "durability"))?;
        config.extend(found);
    }
    let replication = conn.query(redis::cmd("INFO").arg("replication")).await.map_err(|error| conn.failed(&error, "durability"))?;
    Ok((config, replication))
}

fn judge(config: &BTreeMap<String, String>, replication: &str, cluster: bool) -> Durability {
    let setting = |name: &str| config.get(name).map_or("", String::as_str);
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    let mut reasons = Vec::new();
    let mut level = match (setting("appendonly"), setting("appendfsync")) {
        ("yes", "always") => {
            reasons.push("appendonly yes, appendfsync always: what is acknowledged is on the disk".to_owned());
            Level::Fsync
        }
        ("yes", other) => {
            reasons.push(format!("appendonly yes, appendfsync {other}: a machine that fails loses up to 2 s; set appendfsync always"));
            Level::Process
        }
        (_, _) => {
            reasons.push("appendonly no: a stop loses all since the last snapshot; set appendonly yes and appendfsync always".to_owned());
            Level::None
        }
    };
    let connected = field(replication, "connected_slaves").map_or(0, number);
    let (wanted, lag) = (number(setting("min-replicas-to-write")), number(setting("min-replicas-max-lag")));
    if level == Level::Fsync && wanted > 0 && connected >= wanted {
        reasons.push(format!("{connected} replicas are connected, {wanted} must be for a write; replication is asynchronous"));
        level = Level::Replicated;
    } else {
        reasons.push(format!("{connected} replicas are connected, min-replicas-to-write is {wanted}"));
    }
    let stops = connected > 0 && wanted >= connected && lag > 0 && lag <= 10;
    let split_brain_safe = connected == 0 || cluster || stops;
    if !split_brain_safe {
        reasons.push(format!(
            "a primary that is cut off goes on writing: set min-replicas-to-write to all replicas ({connected}) and min-replicas-max-lag to 10 or less"
        ));
    }
    let policy = setting("maxmemory-policy");
    let refused = (policy != "noeviction").then(|| format!("maxmemory-policy is {policy}: the server may forget who was sent what; set noeviction"));
    Durability { level, reasons, refused, split_brain_safe }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(settings: &[(&str, &str)], replicas: u32, cluster: bool) -> Durability {
        let config = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        judge(&config, &format!("role:master\r\nconnected_slaves:{replicas}\r\n"), cluster)
    }

    #[test]
    fn each_setting_has_its_level() {
        let safe = ("maxmemory-policy", "noeviction");
        let always = [("appendonly", "yes"), ("appendfsync", "always"), safe];
        assert_eq!(judged(&[("appendonly", "no"), safe], 0, false).level, Level::None);
        assert_eq!(judged(&[("appendonly", "yes"), ("appendfsync", "everysec"), safe], 0, false).level, Level::Process);
        assert_eq!(judged(&always, 0, false).level, Level::Fsync);
        let guarded: Vec<_> = always.into_iter().chain([("min-replicas-to-write", "2"), ("min-replicas-max-lag", "10")]).collect();
        let replicated = judged(&guarded, 2, false);
        assert_eq!((replicated.level, replicated.split_brain_safe, replicated.refused), (Level::Replicated, true, None));
        assert_eq!(judged(&guarded, 1, false).level, Level::Fsync, "one is missing");
    }

    #[test]
    fn a_split_brain_is_told_and_eviction_refused() {
        let always = [("appendonly", "yes"), ("appendfsync", "always"), ("maxmemory-policy", "noeviction")];
        assert!(!judged(&always, 2, false).split_brain_safe);
        assert!(judged(&always, 2, true).split_brain_safe, "a Cluster's minority stops");
        assert!(judged(&always, 0, false).split_brain_safe, "nobody else can be promoted");
        let evicting = judged(&[("maxmemory-policy", "allkeys-lru")], 0, false);
        assert!(evicting.refused.is_some_and(|why| why.contains("noeviction")));
    }
}
