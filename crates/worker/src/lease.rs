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
    pub(crate) fn new(record: Record, ledger: Arc<dyn Ledger>, worker: WorkerId, lease: Duration, attempt_max: Duration, asked: Instant) -> Self {
        let good_until = Arc::new(GoodUntil::new(asked + lease));
        Self { record, good_until, ledger, worker, lease, renew_until: asked + attempt_max + lease, lost: false }
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
        let mine = &self.record;
        let found = self.ledger.records(std::slice::from_ref(&mine.key)).await.ok()?.pop().flatten()?;
        let ours = found.state == State::Handoff && found.generation == mine.generation && found.token == mine.token && found.worker == mine.worker;
        (ours && mine.token.is_some() && found.incarnation > mine.incarnation).then_some(found)
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
