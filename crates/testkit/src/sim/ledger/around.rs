//! What stands around the records: holds, rates, suppressions, heartbeats, soft leases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use curfew_domain::record::WaitingFor;
use curfew_domain::{Moment, Shard, WorkerId};
use curfew_ledger::lead::{Lead, Standing, Wish};
use curfew_ledger::{Beat, HEARD_KEPT, Hold, Holds, LedgerError, Suppression, permits_kept};
use futures::future::join_all;

use super::SimLedger;
use super::server::{Bucket, SimLedgerServer};
use super::shard::{Job, ShardData};

/// Holds are on the first node.
const HOLDS_NODE: usize = 0;
/// A bucket that lies further ahead was written while the clock was wrong.
const AHEAD_MAX: Duration = Duration::from_secs(2);

impl SimLedgerServer {
    /// One command that writes a shard and doesn't look at who asks.
    fn change<T>(&self, shard: Shard, change: impl FnOnce(&mut ShardData, Moment) -> T) -> T {
        let (node, mut nodes) = (self.node_of(shard), self.nodes());
        let now = nodes[node].clock(self.world.now());
        change(nodes[node].write(shard, self.world.elapsed()), now)
    }

    /// One command that reads a shard and doesn't look at who asks.
    pub(super) fn look<T>(&self, shard: Shard, look: impl FnOnce(&ShardData, Moment) -> T) -> T {
        let (node, mut nodes) = (self.node_of(shard), self.nodes());
        let now = nodes[node].clock(self.world.now());
        look(nodes[node].read(shard), now)
    }

    /// The node of a rate.
    fn node_of_permits(&self, name: &str) -> usize {
        usize::from(Shard::of_tenant(name, self.options.nodes as u8).0)
    }
}

impl SimLedger {
    pub(super) async fn write_hold(&self, hold: Hold, by: Option<(WaitingFor, Option<Moment>)>) -> Result<(), LedgerError> {
        let set = |server: &SimLedgerServer| {
            let mut nodes = server.nodes();
            let holds = &mut nodes[HOLDS_NODE].write_around(server.world.elapsed()).holds;
            match by {
                Some(by) => holds.insert(hold, by),
                None => holds.remove(&hold),
            };
        };
        self.client.plain(HOLDS_NODE, "set hold", set).await
    }

    pub(super) async fn read_holds(&self) -> Result<Holds, LedgerError> {
        let mut holds = self.client.plain(HOLDS_NODE, "holds", |server| server.nodes()[HOLDS_NODE].around().holds.clone()).await?;
        // What is over by itself holds nobody.
        if holds.values().any(|(_, until)| until.is_some()) {
            let now = self.client.node_time().await?;
            holds.retain(|_, (_, until)| until.is_none_or(|until| until > now));
        }
        Ok(holds)
    }

    pub(super) async fn take_permits(&self, name: &str, per_second: f64, n: u32) -> Result<(u32, Moment), LedgerError> {
        if per_second.is_nan() || per_second <= 0.0 {
            return Ok((0, self.client.node_time().await?.plus(Duration::from_secs(1))));
        }
        let node = self.client.server.node_of_permits(name);
        let take = |server: &SimLedgerServer| {
            let mut nodes = server.nodes();
            let now = nodes[node].clock(server.world.now());
            let buckets = &mut nodes[node].write_around(server.world.elapsed()).buckets;
            let bucket = buckets.entry(name.to_owned()).or_insert(Bucket { permits: permits_kept(per_second), at: now });
            bucket.take(per_second, n, now)
        };
        self.client.plain(node, "permits", take).await
    }

    pub(super) async fn wish_to_lead(&self, shard: Shard, who: WorkerId, lease: Duration, wish: Wish) -> Result<Lead, LedgerError> {
        let node = self.client.server.node_of(shard);
        let lease = lease.max(Duration::from_millis(1));
        self.client.plain(node, "lead", |server| server.change(shard, |data, now| data.wish(who, lease, wish, now))).await
    }

    /// Of some shards those that nobody leads; of one that doesn't answer nobody knows.
    pub(super) async fn read_unled(&self, shards: &[Shard]) -> Result<Vec<Shard>, LedgerError> {
        let asked = shards.iter().map(|shard| {
            let led = |server: &SimLedgerServer| server.look(*shard, |data, now| data.lead.is_some_and(|(_, until)| until > now));
            self.client.plain(self.client.server.node_of(*shard), "who leads", led)
        });
        let led = join_all(asked).await;
        match led.iter().find_map(|answer| answer.as_ref().err()) {
            Some(error) if led.iter().all(Result::is_err) => Err(error.clone()),
            Some(_) | None => Ok(shards.iter().zip(&led).filter(|(_, led)| matches!(led, Ok(false))).map(|(shard, _)| *shard).collect()),
        }
    }

    /// Into each shard its tenants' lists and the one for all, where they changed. A shard on another server is passed over.
    pub(super) async fn replace_suppressions(&self, all: Vec<Suppression>) -> Result<(), LedgerError> {
        let server = &self.client.server;
        let mut broken = Ok(());
        for shard in server.shards() {
            let is_ours = |tenant: &str| (server.options.shard_of)(tenant, server.options.shards) == shard;
            let ours = all.iter().filter(|one| one.tenant.as_deref().is_none_or(is_ours));
            let members: BTreeSet<_> = ours.map(|one| (one.tenant.clone().unwrap_or_default(), one.recipient_ref.0.clone())).collect();
            let standing =
                self.client.plain(server.node_of(shard), "set suppressions", |server| server.look(shard, |data, _| data.suppressed.clone()));
            let replaced = match standing.await {
                Ok(standing) if standing == members => Ok(()),
                Ok(_) => {
                    let replace = self.script(shard, "set suppressions", None, |run| {
                        run.seen()?;
                        run.node.write(shard, run.elapsed).suppressed.clone_from(&members);
                        Ok(())
                    });
                    replace.await.map(drop)
                }
                Err(error) => Err(error),
            };
            match replaced {
                Ok(()) | Err(LedgerError::OtherServer) => {}
                Err(error) => broken = Err(error),
            }
        }
        broken
    }

    /// Into each shard, for each may be on a server of its own. One that recovers keeps what it has: recovery reads it.
    pub(super) async fn write_beat(&self, count: u64) -> Result<(), LedgerError> {
        let calls = self.client.server.shards().map(|shard| {
            self.script(shard, "beat", None, move |run| {
                run.working()?;
                run.node.write(shard, run.elapsed).beat = Some(Beat { count, at: run.terms.now });
                Ok(())
            })
        });
        let mut broken = Ok(());
        for answer in join_all(calls).await {
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
        let answers = join_all(self.client.server.shards().map(|shard| self.read_last_beat_of(shard))).await;
        let nobody_answers = answers.iter().all(Result::is_err);
        let (mut oldest, mut failed): (Option<Beat>, _) = (None, None);
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

    pub(super) async fn read_last_beat_of(&self, shard: Shard) -> Result<Option<Beat>, LedgerError> {
        self.client.plain(self.client.server.node_of(shard), "last beat", |server| server.look(shard, |data, _| data.beat)).await
    }

    pub(super) async fn write_heard(&self, who: WorkerId, shards: &[Shard]) -> Vec<Result<u32, LedgerError>> {
        let calls = shards.iter().map(|shard| async move {
            let heard = self.script(*shard, "hear a worker", None, |run| {
                run.working()?;
                let now = run.terms.now;
                let heard = &mut run.node.write(*shard, run.elapsed).heard;
                heard.insert(who, now);
                // What lies ahead was written while the clock was far ahead, and was put back since.
                heard.retain(|_, at| *at >= now.minus(HEARD_KEPT) && *at <= now.plus(HEARD_KEPT));
                Ok(())
            });
            let ((), incarnation) = heard.await?;
            incarnation.ok_or(LedgerError::OtherServer)
        });
        join_all(calls).await
    }

    pub(super) async fn read_heard(&self, shard: Shard, since: Moment) -> Result<BTreeMap<WorkerId, Moment>, LedgerError> {
        let heard = |server: &SimLedgerServer| server.look(shard, |data, _| data.heard.clone());
        let mut heard = self.client.plain(self.client.server.node_of(shard), "workers heard", heard).await?;
        heard.retain(|_, at| *at >= since);
        Ok(heard)
    }

    /// A rough figure: a kilobyte for each record, and what its letter takes. A node that doesn't answer counts as the mean of the others.
    pub(super) async fn used_bytes(&self) -> Result<u64, LedgerError> {
        let client = &self.client;
        let asked = (0..client.server.nodes_len()).map(|node| {
            client.plain(node, "memory", move |server| {
                let shards = server.shards().filter(|shard| server.node_of(*shard) == node);
                shards.map(|shard| server.look(shard, |data, _| data.bytes())).sum::<u64>()
            })
        });
        let answers = join_all(asked).await;
        let (all, answered) = (answers.len() as u64, answers.iter().flatten().count() as u64);
        let told: u64 = answers.iter().flatten().sum();
        match answers.into_iter().find_map(Result::err) {
            Some(error) if answered == 0 => Err(error),
            Some(_) | None => Ok(if answered == all { told } else { told / answered * all }),
        }
    }
}

impl ShardData {
    fn bytes(&self) -> u64 {
        let letter = |job: &Job| job.letter.as_ref().map_or(0, |letter| letter.as_bytes().len() as u64);
        self.jobs.values().map(|job| 1_024 + letter(job)).sum()
    }

    fn wish(&mut self, who: WorkerId, lease: Duration, wish: Wish, now: Moment) -> Lead {
        // What was written while the clock was ahead, and was put back since, counts no longer than it would by a right one (DESIGN 4).
        let longest = now.plus(lease * 2);
        self.lead = self.lead.filter(|(_, until)| *until > now && *until <= longest);
        self.seekers.retain(|_, until| *until > now && *until <= longest);
        self.seekers.insert(who, now.plus(lease));
        let ours = self.lead.is_some_and(|(holder, _)| holder == who);
        match wish {
            Wish::Lead if ours || self.lead.is_none() => self.lead = Some((who, now.plus(lease))),
            Wish::Lead | Wish::Ask => {}
            Wish::HandBack | Wish::Leave => self.lead = self.lead.filter(|_| !ours),
        }
        if wish == Wish::Leave {
            self.seekers.remove(&who);
        }
        let standing = match self.lead {
            Some((holder, _)) if holder == who => Standing::Ours,
            Some(_) => Standing::Anothers,
            None => Standing::Free,
        };
        Lead { standing, seekers: u32::try_from(self.seekers.len()).unwrap_or(u32::MAX) }
    }
}

impl Bucket {
    /// Up to `n` whole permits; and when to ask again: now, or when the next one is there.
    fn take(&mut self, rate: f64, n: u32, now: Moment) -> (u32, Moment) {
        let full = permits_kept(rate);
        if self.at.since(now) > AHEAD_MAX {
            self.at = now;
        }
        self.permits = full.min(self.permits + now.since(self.at).as_millis() as f64 / 1000.0 * rate);
        // What is short of a whole one by less than rounding is whole: it comes when it was promised.
        let given = (self.permits + 1e-9).floor().min(f64::from(n));
        self.permits -= given;
        self.at = self.at.max(now);
        let wait_ms = ((1.0 - self.permits) / rate * 1000.0 - 1e-6).ceil().clamp(1.0, 3_600_000.0);
        (given as u32, if given > 0.0 || n == 0 { now } else { now.plus(Duration::from_millis(wait_ms as u64)) })
    }
}
