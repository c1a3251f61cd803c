//! Which shards a scheduler works at the moment: those whose soft lease it holds. It saves work, correctness never rests on it.
//!
//! Of n schedulers that seek the same shards each leads its share, at most the n-th part rounded up: who holds more hands the rest back. Who stops
//! leaves, and the others look every tick whether something became free, so that a drain costs a tick and not a lease. A shard that is halted in this
//! process is left to others, for they may trust its clock; one that doesn't answer isn't led, and holds up no other. So is one in which this
//! process met what a newer one wrote, for a minute and while somebody else seeks it: who reads it may be there (DESIGN 7).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use curfew_domain::{Shard, WorkerId};
use curfew_ledger::lead::{Lead, Standing, Wish};
use curfew_ledger::{Ledger, LedgerError};
use futures::future::join_all;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A soft lease's length (DESIGN 4).
const LEASE: Duration = Duration::from_secs(5);
/// How often it is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// How long a stop waits for what it hands back; later the leases end by themselves.
const LEAVE_MAX: Duration = Duration::from_secs(1);
/// A shard that takes longer isn't led: the others' leases must be renewed in time.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// How long a shard that holds what only a newer process reads is left to others, where one of them takes it.
const LEFT_FOR: Duration = Duration::from_secs(60);

/// The soft leases of one scheduler.
pub(crate) struct Leads {
    who: WorkerId,
    /// How often it looks whether a shard became free.
    glance_every: Duration,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    shards: Vec<Shard>,
    renewed: Option<Instant>,
    glanced: Option<Instant>,
    /// The shard that is looked at next.
    turn: usize,
    left: bool,
    /// Where something newer was met since the last round.
    newer: BTreeSet<Shard>,
    /// Shards left to newer processes, and since when.
    left_to_newer: BTreeMap<Shard, Instant>,
}

impl Leads {
    /// None yet. The name is drawn anew at each start, so that a restarted scheduler is another one.
    pub(crate) fn new(who: WorkerId, tick: Duration) -> Self {
        Self { who, glance_every: tick, held: Mutex::default() }
    }

    /// The shards led now, of `all`. Asked once a second; where no shard answers none is left, for who can't ask the ledger has nothing to do there.
    /// `newer`: where something was met that only a newer process reads.
    pub(crate) async fn shards(&self, ledger: &dyn Ledger, all: &[Shard], newer: BTreeSet<Shard>) -> Result<Vec<Shard>, LedgerError> {
        let mut held = self.held.lock().await;
        held.newer.extend(newer);
        if held.left {
            return Ok(Vec::new());
        }
        let fresh = held.renewed.is_some_and(|at| at.elapsed() < RENEW_EVERY);
        if !fresh || self.something_is_free(ledger, all, &mut held).await {
            held.renewed = None;
            held.shards = match self.round(ledger, all, &mut held).await {
                Ok(led) => led,
                Err(error) => {
                    held.shards.clear();
                    return Err(error);
                }
            };
            held.renewed = Some(Instant::now());
        }
        Ok(held.shards.clone())
    }

    /// A clean stop: everything is anybody's at once, and this one is counted no more. What isn't told ends by itself.
    pub(crate) async fn leave(&self, ledger: &dyn Ledger, all: &[Shard]) {
        let mut held = self.held.lock().await;
        *held = Held { left: true, ..Held::default() };
        let leaving = join_all(all.iter().map(|shard| ledger.lead(*shard, self.who, LEASE, Wish::Leave)));
        let _those_that_heard = tokio::time::timeout(LEAVE_MAX, leaving).await;
    }

    /// Asks about all, then takes or hands back what makes the share full.
    async fn round(&self, ledger: &dyn Ledger, all: &[Shard], held: &mut Held) -> Result<Vec<Shard>, LedgerError> {
        self.come_back(ledger, held).await;
        let sought = all.iter().copied().filter(|shard| !held.left_to_newer.contains_key(shard));
        let (halted, sought): (Vec<Shard>, Vec<Shard>) = sought.partition(|shard| ledger.is_halted(*shard));
        let (_left, stand) = tokio::join!(
            self.tell(ledger, halted.iter().map(|shard| (*shard, Wish::Leave)).collect()),
            self.tell(ledger, sought.iter().map(|shard| (*shard, Wish::Ask)).collect()),
        );
        let stand = self.leave_to_newer(ledger, stand?, held).await;
        let told = self.tell(ledger, wishes(&stand, self.first(all.len()))).await?;
        let mut led: Vec<Shard> = told.into_iter().filter(|(_, lead)| lead.is_ours()).map(|(shard, _)| shard).collect();
        led.sort_unstable();
        Ok(led)
    }

    /// Seeks again what it left to newer processes a minute ago, or what nobody took.
    async fn come_back(&self, ledger: &dyn Ledger, held: &mut Held) {
        held.left_to_newer.retain(|_, since| since.elapsed() < LEFT_FOR);
        // By then whoever was still counted as a seeker, and is gone, counts no more.
        let asked: Vec<Shard> = held.left_to_newer.iter().filter(|(_, since)| since.elapsed() > LEASE).map(|(shard, _)| *shard).collect();
        if asked.is_empty() {
            return;
        }
        if let Ok(Ok(unled)) = tokio::time::timeout(ANSWER_MAX, ledger.unled(&asked)).await {
            held.left_to_newer.retain(|shard, _| !unled.contains(shard));
        }
    }

    /// Leaves those where something newer was met and that others seek; the rest.
    async fn leave_to_newer(&self, ledger: &dyn Ledger, stand: Vec<(Shard, Lead)>, held: &mut Held) -> Vec<(Shard, Lead)> {
        let newer = std::mem::take(&mut held.newer);
        let (leaves, stays): (Vec<_>, Vec<_>) = stand.into_iter().partition(|(shard, lead)| newer.contains(shard) && lead.seekers > 1);
        for (shard, _) in &leaves {
            tracing::info!(role = "scheduler", shard = %shard, "the shard holds what only a newer process can read: it is left to the others for a minute");
            held.left_to_newer.insert(*shard, Instant::now());
        }
        // What isn't told ends by itself.
        let _told = self.tell(ledger, leaves.iter().map(|(shard, _)| (*shard, Wish::Leave)).collect()).await;
        stays
    }

    /// How the shards that answer stand then; an error where none does.
    async fn tell(&self, ledger: &dyn Ledger, wishes: Vec<(Shard, Wish)>) -> Result<Vec<(Shard, Lead)>, LedgerError> {
        let told = wishes.iter().map(|(shard, wish)| async move {
            let answer = tokio::time::timeout(ANSWER_MAX, ledger.lead(*shard, self.who, LEASE, *wish)).await;
            answer.unwrap_or(Err(LedgerError::Unavailable { operation: "lead" }))
        });
        let told = join_all(told).await;
        let mut stand = Vec::with_capacity(wishes.len());
        let mut failed = None;
        for ((shard, _), answer) in wishes.iter().zip(told) {
            match answer {
                Ok(lead) => stand.push((*shard, lead)),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if stand.is_empty() => Err(error),
            Some(_) | None => Ok(stand),
        }
    }

    /// Each looks at the shards from another one on, so that two that start together don't reach for the same.
    fn first(&self, shards: usize) -> usize {
        (self.who.0.as_u128() % shards.max(1) as u128) as usize
    }

    /// One glance a tick, at one shard that it doesn't lead: whoever leaves has let go of several.
    async fn something_is_free(&self, ledger: &dyn Ledger, all: &[Shard], held: &mut Held) -> bool {
        if held.glanced.is_some_and(|at| at.elapsed() < self.glance_every) || held.shards.len() >= all.len() {
            return false;
        }
        held.glanced = Some(Instant::now());
        let is_sought = |shard: &&Shard| !held.shards.contains(shard) && !held.left_to_newer.contains_key(shard) && !ledger.is_halted(**shard);
        let others: Vec<Shard> = all.iter().filter(is_sought).copied().collect();
        held.turn = held.turn.wrapping_add(1);
        let Some(shard) = others.get(held.turn % others.len().max(1)) else { return false };
        ledger.lead(*shard, self.who, LEASE, Wish::Ask).await.is_ok_and(|lead| lead.standing == Standing::Free)
    }
}

/// What to wish for, from how the shards stand: the share is kept, the rest handed back, or filled from what is free, from place `first` on.
fn wishes(stand: &[(Shard, Lead)], first: usize) -> Vec<(Shard, Wish)> {
    let share = share(stand.iter().map(|(_, lead)| lead.seekers));
    let in_turn = || stand.iter().cycle().skip(first).take(stand.len());
    let of = |standing: Standing| in_turn().filter(move |(_, lead)| lead.standing == standing).map(|(shard, _)| *shard);
    let ours = of(Standing::Ours).enumerate().map(|(n, shard)| (shard, if n < share { Wish::Lead } else { Wish::HandBack }));
    let room = share.saturating_sub(of(Standing::Ours).count());
    ours.chain(of(Standing::Free).take(room).map(|shard| (shard, Wish::Lead))).collect()
}

/// A scheduler's part of shards that so many seek, rounded up: of 16 shards and 3 schedulers, 6. Schedulers may be limited to some shards, so
/// each shard counts by its own seekers.
fn share(seekers: impl Iterator<Item = u32>) -> usize {
    let parts: f64 = seekers.map(|n| 1.0 / f64::from(n.max(1))).sum();
    // Thirds don't add up exactly.
    (parts - 1e-9).ceil().max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stand(standings: &[(Standing, u32)]) -> Vec<(Shard, Lead)> {
        standings.iter().zip(0..).map(|((standing, seekers), n)| (Shard(n), Lead { standing: *standing, seekers: *seekers })).collect()
    }

    const ALL: [Shard; 5] = [Shard(0), Shard(1), Shard(2), Shard(3), Shard(4)];
    const TICK: Duration = Duration::from_millis(100);

    async fn ledger(folder: &tempfile::TempDir) -> curfew_ledger::sql::SqlLedger {
        let store = curfew_store::Sqlite::open(curfew_store::OpenOptions::new(folder.path())).await.expect("a new file opens");
        curfew_ledger::sql::SqlLedger::open(store, curfew_ledger::sql::Options::default()).await.expect("an empty file is a ledger")
    }

    async fn led(leads: &Leads, ledger: &dyn Ledger) -> Vec<Shard> {
        led_where(leads, ledger, &[]).await
    }

    async fn led_where(leads: &Leads, ledger: &dyn Ledger, newer: &[Shard]) -> Vec<Shard> {
        leads.shards(ledger, &ALL, newer.iter().copied().collect()).await.expect("the ledger answers")
    }

    fn scheduler(n: u128) -> Leads {
        Leads::new(WorkerId(uuid::Uuid::from_u128(n)), TICK)
    }

    /// After an upgrade was taken back an old scheduler kept shards whose jobs only a newer one could read, and the newer one stood by.
    #[tokio::test]
    async fn what_only_a_newer_process_reads_is_left_to_whoever_else_seeks_its_shard() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let ledger = ledger(&folder).await;
        tokio::time::pause();
        let (old, next) = (scheduler(1), scheduler(2));
        assert_eq!(led(&old, &ledger).await, ALL);
        tokio::time::advance(RENEW_EVERY).await;
        assert_eq!(led_where(&old, &ledger, &ALL).await, ALL, "nobody else is there");
        assert_eq!(led(&next, &ledger).await, []);
        tokio::time::advance(RENEW_EVERY).await;
        let kept = led_where(&old, &ledger, &ALL[..4]).await;
        assert_eq!(kept, [ALL[4]], "the rest is left");
        tokio::time::advance(RENEW_EVERY).await;
        assert_eq!(led(&next, &ledger).await, ALL[..4]);
        for _ in 0..55 {
            tokio::time::advance(RENEW_EVERY).await;
            assert_eq!((led(&old, &ledger).await, led(&next, &ledger).await.len()), (vec![ALL[4]], 4));
        }
        // A minute later it has its share again.
        for _ in 0..10 {
            tokio::time::advance(RENEW_EVERY).await;
            led(&next, &ledger).await;
            led(&old, &ledger).await;
        }
        assert!(led(&old, &ledger).await.len() > 1);
    }

    #[tokio::test]
    async fn what_was_left_and_nobody_takes_is_taken_again() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let ledger = ledger(&folder).await;
        tokio::time::pause();
        let (old, gone) = (scheduler(1), scheduler(2));
        led(&old, &ledger).await;
        led(&gone, &ledger).await;
        tokio::time::advance(RENEW_EVERY).await;
        assert_eq!(led_where(&old, &ledger, &ALL).await, []);
        tokio::time::advance(LEASE + TICK).await;
        assert_eq!(led_where(&old, &ledger, &ALL).await, ALL, "whoever was counted is gone");
    }

    #[tokio::test]
    async fn two_schedulers_part_the_shards_and_a_drain_costs_a_tick_or_so() {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let ledger = ledger(&folder).await;
        tokio::time::pause();
        let (first, second) = (scheduler(1), scheduler(2));
        assert_eq!(led(&first, &ledger).await, ALL);
        assert_eq!(led(&second, &ledger).await, [], "all are led");
        // A second later the first knows that there are two, and hands back what is more than its share.
        tokio::time::advance(RENEW_EVERY).await;
        assert_eq!(led(&first, &ledger).await.len(), 3);
        tokio::time::advance(TICK).await;
        assert_eq!(led(&second, &ledger).await.len(), 2);
        let both = [led(&first, &ledger).await, led(&second, &ledger).await].concat();
        assert!(ALL.iter().all(|shard| both.contains(shard)), "{both:?}");

        first.leave(&ledger, &ALL).await;
        assert_eq!(led(&first, &ledger).await, [], "who left takes nothing any more");
        tokio::time::advance(TICK).await;
        assert_eq!(led(&second, &ledger).await, ALL, "within a tick, not after a lease");
    }

    #[test]
    fn a_share_is_the_nth_part_rounded_up() {
        for (shards, schedulers, expected) in [(16, 1, 16), (16, 2, 8), (16, 3, 6), (16, 16, 1), (16, 20, 1), (1, 3, 1), (0, 1, 0), (64, 3, 22)] {
            assert_eq!(share(std::iter::repeat_n(schedulers, shards)), expected, "{shards} shards, {schedulers} schedulers");
        }
    }

    #[test]
    fn who_holds_more_than_its_share_hands_the_rest_back_and_takes_nothing() {
        use Standing::{Free, Ours};
        let wishes = wishes(&stand(&[(Ours, 2), (Ours, 2), (Ours, 2), (Free, 2)]), 0);
        assert_eq!(wishes, [(Shard(0), Wish::Lead), (Shard(1), Wish::Lead), (Shard(2), Wish::HandBack)]);
    }

    #[test]
    fn who_holds_less_takes_what_is_free_and_no_more_than_its_share() {
        use Standing::{Anothers, Free, Ours};
        let wishes = wishes(&stand(&[(Ours, 2), (Free, 2), (Free, 2), (Anothers, 2)]), 2);
        assert_eq!(wishes, [(Shard(0), Wish::Lead), (Shard(2), Wish::Lead)], "from its own place on");
    }

    #[test]
    fn alone_it_takes_all() {
        let wishes = wishes(&stand(&[(Standing::Free, 1); 16]), 5);
        assert_eq!(wishes.len(), 16);
        assert!(wishes.iter().all(|(_, wish)| *wish == Wish::Lead));
    }
}
