//! One task owns a record's version: it drives a step and renews the lease beside it, so that a renewal can't refuse its own intent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use curfew_domain::transition::{Event, transition};
use curfew_domain::{Moment, Record, State, WorkerId};
use curfew_ledger::{Ledger, LedgerError, Swap, Swapped};
use tokio::time::Instant;

/// Renewals of ours whose answers were lost, one after the other; each read ends one.
const RENEW_TRIES: u32 = 4;

/// A job in hand.
pub(crate) struct Leased {
    /// The version that this task wrote last.
    pub(crate) record: Record,
    /// How long the lease surely holds, by our own clock.
    pub(crate) good_until: Arc<GoodUntil>,
    /// The version that the claim wrote, and when.
    pub(crate) claimed: (u64, Moment),
    /// When the intent was written.
    pub(crate) intent: Option<Moment>,
    /// The reference of the recipient's domain, once its letter was opened.
    pub(crate) domain: Option<String>,
    ledger: Arc<dyn Ledger>,
    worker: WorkerId,
    lease: Duration,
    renew_until: Instant,
    lost: bool,
}

/// The lease's end on the monotonic clock, shared with the last look.
pub(crate) struct GoodUntil {
    epoch: Instant,
    millis: AtomicU64,
}

impl GoodUntil {
    pub(crate) fn new(until: Instant) -> Self {
        let epoch = Instant::now();
        Self { epoch, millis: AtomicU64::new(millis(until.saturating_duration_since(epoch))) }
    }

    pub(crate) fn set(&self, until: Instant) {
        self.millis.store(millis(until.saturating_duration_since(self.epoch)), Ordering::Release);
    }

    pub(crate) fn get(&self) -> Instant {
        self.epoch + Duration::from_millis(self.millis.load(Ordering::Acquire))
    }
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// Whether what was found is this very handoff, as recovery wrote it. Another token, worker or generation is somebody else's to drive.
fn took_over(mine: &Record, found: &Record) -> bool {
    let ours = found.state == State::Handoff && found.generation == mine.generation && found.token == mine.token && found.worker == mine.worker;
    ours && mine.token.is_some() && found.incarnation > mine.incarnation
}

/// How a driven step ended.
pub(crate) enum Driven<T> {
    /// With its answer; the lease is ours.
    Done(T),
    /// The lease was lost meanwhile; the step was dropped.
    Lost,
}

/// What becomes of a step whose lease is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLoss {
    /// It is dropped: nothing was handed over.
    Drop,
    /// It goes on: its verdict is wanted all the same.
    GoOn,
}

impl Leased {
    /// A claim that was just swapped; `asked` is when, before the swap left.
    pub(crate) fn new(
        record: Record,
        ledger: Arc<dyn Ledger>,
        worker: WorkerId,
        lease: Duration,
        attempt_max: Duration,
        asked: Instant,
        now: Moment,
    ) -> Self {
        let good_until = Arc::new(GoodUntil::new(asked + lease));
        let claimed = (record.version, now);
        Self { record, good_until, claimed, intent: None, domain: None, ledger, worker, lease, renew_until: asked + attempt_max + lease, lost: false }
    }

    /// The intent was swapped; `asked` is when, before the swap left.
    pub(crate) fn moved_to(&mut self, record: Record, asked: Instant) {
        self.record = record;
        self.good_until.set(asked + self.lease);
    }

    /// Runs a step, renewing the lease every third of it.
    pub(crate) async fn drive<F: Future>(&mut self, now: impl Fn() -> Moment, on_loss: OnLoss, step: F) -> Driven<F::Output> {
        tokio::pin!(step);
        let mut ticks = tokio::time::interval(self.lease / 3);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.reset();
        loop {
            tokio::select! {
                biased;
                done = &mut step => return Driven::Done(done),
                _ = ticks.tick(), if !self.lost && Instant::now() < self.renew_until => {}
            }
            let (renewed, done) = {
                let renewal = self.renew(&now);
                tokio::pin!(renewal);
                tokio::select! {
                    biased;
                    renewed = &mut renewal => (renewed, None),
                    done = &mut step => (renewal.await, Some(done)),
                }
            };
            if let Some((record, asked)) = renewed {
                self.moved_to(record, asked);
            }
            match (done, self.lost, on_loss) {
                (Some(done), _, _) => return Driven::Done(done),
                (None, true, OnLoss::Drop) => return Driven::Lost,
                (None, _, _) => {}
            }
        }
    }

    /// One renewal. A refusal means that the lease is lost; no answer means nothing, the next third tries again. A renewal whose answer was
    /// lost stands with its own, earlier end: it is adopted and renewed at once, for our clock must not count on more than what stands.
    async fn renew(&mut self, now: impl Fn() -> Moment) -> Option<(Record, Instant)> {
        for _ in 0..RENEW_TRIES {
            let asked = Instant::now();
            let Ok(change) = transition(&self.record, &Event::Renew { worker: self.worker, lease: self.lease }, now()) else {
                break;
            };
            let next = change.record.clone();
            match self.ledger.swap(Swap::of(&self.record, change)).await {
                Ok(Swapped::Swapped) => return Some((next, asked)),
                Ok(Swapped::Conflict(standing)) if self.is_our_lost_reply(&standing) => self.record = *standing,
                Ok(Swapped::Conflict(_) | Swapped::Missing | Swapped::Refused(_) | Swapped::Full) => break,
                // The shard was recovered meanwhile, and may have taken this handoff over as it was reported.
                Err(LedgerError::OtherServer) => self.record = self.taken_over().await?,
                Err(_unanswered) => return None,
            }
        }
        // Lost before its time, perhaps: the last look must not count on the rest.
        self.lost = true;
        self.good_until.set(Instant::now());
        None
    }

    /// The handoff under our own token, as a recovery wrote it.
    async fn taken_over(&self) -> Option<Record> {
        let found = self.ledger.records(std::slice::from_ref(&self.record.key)).await.ok()?.pop().flatten()?;
        took_over(&self.record, &found).then_some(found)
    }

    /// A swap of one's own record, whatever renewals of ours stand unheard; `None` where somebody else was faster.
    pub(crate) async fn swap_own(&mut self, event: &Event<'_>, now: Moment) -> Result<Option<Record>, LedgerError> {
        for _ in 0..RENEW_TRIES {
            let Ok(change) = transition(&self.record, event, now) else { return Ok(None) };
            let next = change.record.clone();
            match self.ledger.swap(Swap::of(&self.record, change)).await? {
                Swapped::Swapped => return Ok(Some(next)),
                Swapped::Conflict(standing) if self.is_our_lost_reply(&standing) => self.record = *standing,
                Swapped::Conflict(_) | Swapped::Missing | Swapped::Refused(_) | Swapped::Full => return Ok(None),
            }
        }
        Ok(None)
    }

    /// A renewal of ours whose answer was lost: exactly one version on, still claimed or in handoff by us.
    pub(crate) fn is_our_lost_reply(&self, standing: &Record) -> bool {
        let mine = &self.record;
        standing.generation == mine.generation
            && standing.version == mine.version + 1
            && standing.worker == Some(self.worker)
            && standing.state == mine.state
    }
}

#[cfg(test)]
mod tests {
    use curfew_book::conformance::given;
    use curfew_domain::sealed::Sealed;
    use curfew_domain::transition::{Assertion, created};
    use curfew_domain::{Key, Token};
    use curfew_ledger::redis::{Options, RedisLedger};
    use curfew_ledger::{Create, Recoverable};
    use curfew_testkit::eventually;
    use curfew_testservers::redis::{self, Redis};
    use uuid::Uuid;

    use super::*;

    const ME: WorkerId = WorkerId(Uuid::from_u128(7));
    const TOKEN: Token = Token(Uuid::from_u128(9));
    const LEASE: Duration = Duration::from_secs(60);
    const SOON: Duration = Duration::from_secs(30);

    /// A handoff of ours of the incarnation before, and what is found of it.
    fn handed() -> Record {
        let mut record = given::record(&given::job("acme", 1), 1, 3, State::Handoff);
        (record.worker, record.token) = (Some(ME), Some(TOKEN));
        record
    }

    fn taken(change: impl FnOnce(&mut Record)) -> Record {
        let mut found = Record { incarnation: 1, version: 9, ..handed() };
        change(&mut found);
        found
    }

    #[test]
    fn the_same_handoff_in_a_later_incarnation_is_ours_and_no_other() {
        let another = |n| Some(Token(Uuid::from_u128(n)));
        assert!(took_over(&handed(), &taken(|_| {})));
        assert!(took_over(&handed(), &taken(|found| found.incarnation = 5)), "it was recovered more than once");
        for found in [
            taken(|found| found.incarnation = 0),
            taken(|found| found.generation = 2),
            taken(|found| found.token = another(10)),
            taken(|found| found.token = None),
            taken(|found| found.token = Some(Token::ANY)),
            taken(|found| found.worker = Some(WorkerId(Uuid::from_u128(8)))),
            taken(|found| found.worker = Some(WorkerId::LOST)),
        ] {
            assert!(!took_over(&handed(), &found), "{found:?}");
        }
        for state in State::ALL.iter().copied().filter(|state| *state != State::Handoff) {
            assert!(!took_over(&handed(), &taken(|found| found.state = state)), "{state}");
        }
        let claimed = Record { token: None, ..handed() };
        assert!(!took_over(&claimed, &taken(|found| found.token = None)), "a claim is dropped, never taken over");
    }

    /// What stands of a job in a process's ledger.
    async fn stands(ledger: &dyn Ledger, key: &Key) -> Option<Record> {
        ledger.records(std::slice::from_ref(key)).await.ok()?.pop().flatten()
    }

    /// Moves a job by the ledger's own clock; the record after it.
    async fn moved(ledger: &dyn Ledger, record: &Record, event: &Event<'_>) -> Record {
        let now = ledger.now().await.expect("the ledger answers");
        let change = transition(record, event, now).expect("a test moves records as their states allow");
        assert_eq!(ledger.swap(Swap::of(record, change)).await.expect("the ledger answers"), Swapped::Swapped);
        stands(ledger, &record.key).await.expect("it stands")
    }

    /// A job that is due, and claimed.
    async fn claimed(ledger: &dyn Ledger) -> Record {
        let now = ledger.now().await.expect("the ledger answers");
        let mut waits = given::record(&given::job("acme", 1), 1, 1, State::Scheduled);
        (waits.release_at, waits.next_attempt_at, waits.deadline_at) = (now, now, now.plus(LEASE * 60));
        let create = Create { change: created(waits.clone(), now), letter: Sealed::from_bytes(vec![7; 100]), read_at: now };
        ledger.create(vec![create]).await.expect("the ledger answers");
        moved(ledger, &waits, &Event::Claim { worker: ME, lease: LEASE }).await
    }

    fn opened(server: &Redis) -> RedisLedger {
        RedisLedger::open(&server.url(), Options { prefix: "test".to_owned(), shards: 4, ..Options::default() }).expect("well formed")
    }

    /// Redis loses the intent and its lease while the mail is under way. The worker's report writes both again, and the renewal goes on there.
    #[tokio::test]
    async fn a_lease_is_renewed_across_a_recovery_that_took_its_handoff_over() {
        let mut server = Redis::start(redis::Options { appendonly: false, ..redis::Options::default() }).await;
        let ledger = Arc::new(opened(&server));
        ledger.initialise().await.expect("the ledger answers");
        let claimed = claimed(&*ledger).await;
        server.ask(&["SAVE"]).await;
        let intent = Event::Intent { worker: ME, token: TOKEN, lease: LEASE, pins: Vec::new() };
        let asked = Instant::now();
        let handed = moved(&*ledger, &claimed, &intent).await;
        let mut leased = Leased::new(handed.clone(), ledger.clone(), ME, LEASE, LEASE, asked, Moment::from_millis(0));
        let good_until = leased.good_until.get();
        server.kill9();
        server.restart().await;

        let recovering = opened(&server);
        let looked_at = recovering.time_of(handed.shard).await.expect("the ledger answers");
        recovering.adopt(handed.shard, 1, looked_at).await.expect("the ledger answers");
        // The claim alone survived: until it has reported, nothing is renewed, and nobody counts on more than the lease that was given.
        let now = || looked_at.plus(Duration::from_millis(1));
        eventually(SOON, "the process's new incarnation", || async { stands(&*ledger, &handed.key).await.filter(|found| found.incarnation == 1) })
            .await;
        assert!(leased.renew(now).await.is_none());
        assert_eq!((leased.lost, leased.good_until.get()), (false, good_until));

        let hands = recovering.in_recovery();
        let survived = stands(&*hands, &handed.key).await.expect("the claim survived");
        assert_eq!((survived.state, survived.version), (State::Claimed, claimed.version));
        let asserted = Event::Asserted { generation: 1, token: TOKEN, assertion: Assertion::Handoff(&handed) };
        let taken = moved(&*hands, &survived, &asserted).await;
        for _ in 0..2 {
            let (renewed, asked) = leased.renew(now).await.expect("its renewals are taken, while the shard recovers too");
            assert_eq!((renewed.incarnation, renewed.state, renewed.token), (1, State::Handoff, Some(TOKEN)));
            assert!(renewed.version > taken.version && !leased.lost);
            leased.moved_to(renewed, asked);
            recovering.recovered(handed.shard, 1).await.expect("the ledger answers");
        }
        assert!(leased.good_until.get() > good_until);
    }
}
