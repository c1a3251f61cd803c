//! What stands around the records: holds, rates, suppressions, the heartbeats.
//!
//! Holds and rates don't look at who asks: who copies them writes them again each tick, and no promise rests on them. Suppressions and heartbeats do.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::record::WaitingFor;
use curfew_domain::{Moment, Shard, WorkerId};
use redis::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::RedisLedger;
use super::call::{Call, Failed, number, unknown_answer};
use super::scripts::Script;
use super::slot::slot;
use super::write::text;
use crate::lead::{Lead, Standing, Wish};
use crate::{Beat, HEARD_KEPT, Hold, Holds, LedgerError, Suppression};

/// Members written by one command.
const MEMBERS_MAX: usize = 1_000;
/// A list that its writer never put in place vanishes.
const BESIDE_SECONDS: u64 = 600;

impl RedisLedger {
    pub(super) async fn write_hold(&self, hold: Hold, by: Option<(WaitingFor, Option<Moment>)>) -> Result<(), LedgerError> {
        let mut cmd = match by {
            Some(_) => redis::cmd("HSET"),
            None => redis::cmd("HDEL"),
        };
        cmd.arg(self.keys.holds()).arg(hold_name(&hold));
        if let Some((waits, until)) = by {
            cmd.arg(format!("{} {}", waits.word(), until.map_or(String::new(), |until| until.as_millis().to_string())));
        }
        self.plain::<i64>(&self.keys.holds(), &cmd, "set hold").await.map(drop)
    }

    pub(super) async fn read_holds(&self) -> Result<Holds, LedgerError> {
        let found: Vec<(String, String)> = self.plain(&self.keys.holds(), redis::cmd("HGETALL").arg(self.keys.holds()), "holds").await?;
        let mut holds = Holds::new();
        for (name, value) in found {
            // A hold that this process can't read holds all the same: it stops instead of sending past it.
            let (hold, by) = read_hold(&name, &value).ok_or_else(|| LedgerError::Store("a hold that this process doesn't know".to_owned()))?;
            holds.insert(hold, by);
        }
        // What is over by itself holds nobody.
        if holds.values().any(|(_, until)| until.is_some()) {
            let now = self.node_time().await?;
            holds.retain(|_, (_, until)| until.is_none_or(|until| until > now));
        }
        Ok(holds)
    }

    pub(super) async fn take_permits(&self, name: &str, per_second: f64, n: u32) -> Result<(u32, Moment), LedgerError> {
        // Also what isn't a number: a rate of nothing gives nothing, and is asked again after a second.
        if per_second.is_nan() || per_second <= 0.0 {
            return Ok((0, self.node_time().await?.plus(Duration::from_secs(1))));
        }
        let key = [self.keys.permits(name)];
        let args = [text(per_second), text(n), self.clock_override().into_bytes()];
        let (word, parts) = self.call_without_identity(Script::Permits, &key, &args).await?;
        let [given, now, wait] = <[Value; 3]>::try_from(parts).map_err(|_misfit| unknown_answer(Script::Permits))?;
        if word != "given" {
            return Err(unknown_answer(Script::Permits));
        }
        let (given, now) = (number::<u32>(given, Script::Permits)?, Moment::from_millis(number(now, Script::Permits)?));
        let wait = Duration::from_millis(number(wait, Script::Permits)?);
        Ok((given, if given > 0 || n == 0 { now } else { now.plus(wait) }))
    }

    /// A wish about the soft lease on a shard, by its node's clock.
    pub(super) async fn wish_to_lead(&self, shard: Shard, who: WorkerId, lease: Duration, wish: Wish) -> Result<Lead, LedgerError> {
        let wish = match wish {
            Wish::Lead => "lead",
            Wish::Ask => "ask",
            Wish::HandBack => "hand_back",
            Wish::Leave => "leave",
        };
        let args = [text(who.0.simple()), text(lease.as_millis().max(1)), text(wish)];
        let keys = [self.keys.lead(shard), self.keys.seekers(shard)];
        let (word, parts) = self.call_without_identity(Script::Lead, &keys, &args).await?;
        let [seekers] = <[Value; 1]>::try_from(parts).map_err(|_misfit| unknown_answer(Script::Lead))?;
        let standing = match word.as_str() {
            "ours" => Standing::Ours,
            "free" => Standing::Free,
            "anothers" => Standing::Anothers,
            _unknown => return Err(unknown_answer(Script::Lead)),
        };
        Ok(Lead { standing, seekers: number(seekers, Script::Lead)? })
    }

    /// Of some shards those that nobody leads; of one that doesn't answer nobody knows.
    pub(super) async fn read_unled(&self, shards: &[Shard]) -> Result<Vec<Shard>, LedgerError> {
        let asked = shards.iter().map(|shard| async move {
            let key = self.keys.lead(*shard);
            self.plain::<bool>(&key, redis::cmd("EXISTS").arg(&key), "who leads").await
        });
        let led = futures::future::join_all(asked).await;
        match led.iter().find_map(|answer| answer.as_ref().err()) {
            Some(error) if led.iter().all(Result::is_err) => Err(error.clone()),
            Some(_) | None => Ok(shards.iter().zip(&led).filter(|(_, led)| matches!(led, Ok(false))).map(|(shard, _)| *shard).collect()),
        }
    }

    /// Calls a script on whose answer no promise rests: it doesn't ask who calls. Each of them may be called twice, but a NOSCRIPT alone repeats it.
    async fn call_without_identity(&self, script: Script, keys: &[String], args: &[Vec<u8>]) -> Result<(String, Vec<Value>), LedgerError> {
        let conn = self.nodes.connection(slot(&keys[0]), 0).await?;
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(script.hash()).arg(keys.len()).arg(keys).arg(args);
        let mut told = self.told(&conn, conn.query(&cmd).await, script);
        if matches!(told, Err(Failed::NoScript)) {
            conn.load_scripts().await?;
            told = self.told(&conn, conn.query(&cmd).await, script);
        }
        told.map_err(|failed| match failed {
            Failed::NoScript => LedgerError::Unavailable { operation: script.name() },
            Failed::Told(error) => error,
        })
    }

    /// Into each shard its tenants' lists and the one for all, where they changed. A shard that recovers from another server is passed over:
    /// nobody claims there, and its recovery ends with a copy. One that fails is told of once the others have theirs.
    pub(super) async fn replace_suppressions(&self, all: Vec<Suppression>) -> Result<(), LedgerError> {
        let writer = Uuid::new_v4().simple().to_string();
        let mut broken = Ok(());
        for shard in self.shards() {
            let ours = all.iter().filter(|suppression| {
                suppression.tenant.as_deref().is_none_or(|tenant| (self.options.shard_of)(tenant, self.options.shards) == shard)
            });
            let mut members: Vec<String> = ours.map(|one| format!("{}/{}", one.tenant.as_deref().unwrap_or_default(), one.recipient_ref.0)).collect();
            members.sort_unstable();
            members.dedup();
            match self.replace_list(shard, &writer, &members).await {
                Ok(()) | Err(LedgerError::OtherServer) => {}
                Err(error) => broken = Err(error),
            }
        }
        broken
    }

    async fn replace_list(&self, shard: Shard, writer: &str, members: &[String]) -> Result<(), LedgerError> {
        let digest = hex::encode(Sha256::digest(members.join("\n")));
        let in_force = self.keys.suppressed_digest(shard);
        let standing: Option<String> = self.plain(&in_force, redis::cmd("GET").arg(&in_force), "set suppressions").await?;
        if standing.as_deref() == Some(digest.as_str()) {
            return Ok(());
        }
        let beside = self.keys.suppressed_beside(shard, writer);
        for part in members.chunks(MEMBERS_MAX) {
            self.plain::<i64>(&beside, redis::cmd("SADD").arg(&beside).arg(part), "set suppressions").await?;
            self.plain::<i64>(&beside, redis::cmd("EXPIRE").arg(&beside).arg(BESIDE_SECONDS), "set suppressions").await?;
        }
        let keys = vec![self.keys.suppressed(shard), beside, in_force];
        let args = vec![text(members.len()), text(digest)];
        let reply = self.call(Call { script: Script::Suppressions, shard, incarnation: None, keys, args }).await?;
        match reply.word.as_str() {
            "replaced" => Ok(()),
            "torn" => Err(LedgerError::Unavailable { operation: "set suppressions" }),
            _unknown => Err(reply.unknown()),
        }
    }

    /// Into each shard, for each may be on a server of its own. One that recovers keeps what it has: recovery reads it.
    pub(super) async fn write_beat(&self, count: u64) -> Result<(), LedgerError> {
        let calls = self.shards().map(|shard| Call {
            script: Script::Beat,
            shard,
            incarnation: None,
            keys: vec![self.keys.beat(shard)],
            args: vec![text(count)],
        });
        let mut broken = Ok(());
        for answer in self.call_all(calls.collect()).await {
            match answer {
                Ok(_) | Err(LedgerError::Recovering | LedgerError::Halted | LedgerError::OtherServer) => {}
                // The others have theirs.
                Err(error) => broken = Err(error),
            }
        }
        broken
    }

    /// The oldest of the shards' that answer.
    pub(super) async fn read_last_beat(&self) -> Result<Option<Beat>, LedgerError> {
        let mut oldest: Option<Beat> = None;
        let mut failed = None;
        let answers = futures::future::join_all(self.shards().map(|shard| self.read_last_beat_of(shard))).await;
        let nobody_answers = answers.iter().all(Result::is_err);
        for answer in answers {
            match answer {
                Ok(Some(beat)) if oldest.is_none_or(|oldest| beat.count < oldest.count) => oldest = Some(beat),
                Ok(Some(_)) => {}
                Ok(None) => return Ok(None),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if nobody_answers => Err(error),
            Some(_) | None => Ok(oldest),
        }
    }

    /// The last heartbeat that a shard holds, whoever its server is: what recovery begins with (DESIGN 8, T0).
    pub(super) async fn read_last_beat_of(&self, shard: Shard) -> Result<Option<Beat>, LedgerError> {
        let key = self.keys.beat(shard);
        let found: (Option<u64>, Option<i64>) = self.plain(&key, redis::cmd("HMGET").arg(&key).arg("count").arg("at"), "last beat").await?;
        Ok(found.0.zip(found.1).map(|(count, at)| Beat { count, at: Moment::from_millis(at) }))
    }

    /// One call per shard, all of them at once; answered with the incarnation in which the shard heard it.
    pub(super) async fn write_heard(&self, who: WorkerId, shards: &[Shard]) -> Vec<Result<u32, LedgerError>> {
        let calls = shards.iter().map(|shard| Call {
            script: Script::Heard,
            shard: *shard,
            incarnation: None,
            keys: vec![self.keys.heard(*shard)],
            args: vec![text(who.0.simple()), text(HEARD_KEPT.as_millis())],
        });
        self.call_all(calls.collect()).await.into_iter().map(|answer| answer.map(|reply| reply.incarnation)).collect()
    }

    /// Whom a shard heard since a moment, whoever its server is: recovery asks what survived.
    pub(super) async fn read_heard(&self, shard: Shard, since: Moment) -> Result<BTreeMap<WorkerId, Moment>, LedgerError> {
        let key = self.keys.heard(shard);
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(&key).arg(since.as_millis()).arg("+inf").arg("BYSCORE").arg("WITHSCORES");
        let found: Vec<(String, f64)> = self.plain(&key, &cmd, "workers heard").await?;
        // A name of another form is nobody's that could report: it must not keep the shard from its recovery.
        Ok(found.into_iter().filter_map(|(who, at)| Some((WorkerId(Uuid::try_parse(&who).ok()?), Moment::from_millis(at as i64)))).collect())
    }

    /// One command, where no script is needed.
    async fn plain<T: redis::FromRedisValue>(&self, key: &str, cmd: &redis::Cmd, operation: &'static str) -> Result<T, LedgerError> {
        let conn = self.nodes.connection(slot(key), 0).await?;
        let answer = conn.query(cmd).await.map_err(|error| conn.failed(&error, operation));
        if conn.is_dropped() {
            self.nodes.doubt();
        }
        answer
    }
}

fn hold_name(hold: &Hold) -> String {
    let (kind, name) = hold.parts();
    format!("{kind}:{name}")
}

fn read_hold(name: &str, value: &str) -> Option<(Hold, (WaitingFor, Option<Moment>))> {
    let (kind, name) = name.split_once(':')?;
    let hold = Hold::from_parts(kind, name)?;
    let (waits, until) = value.split_once(' ')?;
    let until = if until.is_empty() { None } else { Some(Moment::from_millis(until.parse().ok()?)) };
    Some((hold, (WaitingFor::from_word(waits)?, until)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hold_reads_back() {
        for hold in [Hold::Transport("a:b c".into()), Hold::Tenant("acme".into()), Hold::Shard(7), Hold::Domain("example.com".into()), Hold::Fleet] {
            for until in [None, Some(Moment::from_millis(5))] {
                let value = format!("pause {}", until.map_or(String::new(), |until| until.as_millis().to_string()));
                assert_eq!(read_hold(&hold_name(&hold), &value), Some((hold.clone(), (WaitingFor::Pause, until))));
            }
        }
        assert_eq!(read_hold("transport:smtp", "unheard_of "), None);
    }
}
