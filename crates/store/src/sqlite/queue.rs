//! The two queues in front of the writer, and the room in them.
//!
//! A unit is one boxed request, or a mark that a merger has items. The mark stands in the queue once however many items wait,
//! so a merger takes its turn like a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::request::Request;
use crate::StoreError;
use crate::limits::{BULK_ROWS_MAX, BULK_WAITING_MAX, LEDGER_MERGED_MAX, LEDGER_ROUND_MAX, LEDGER_WAITING_MAX};

/// Which queue a request waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Short and urgent: claims, intents, verdicts, acceptance. All that wait go into the next round.
    Ledger,
    /// Long and patient: imports, purges. One request per round, after the round's ledger requests, of at most
    /// [`BULK_ROWS_MAX`] rows by the caller's discipline.
    Bulk,
}

impl Queue {
    /// Items of one merger that one round takes at most.
    pub(super) fn merged_max(self) -> usize {
        match self {
            Self::Ledger => LEDGER_MERGED_MAX,
            Self::Bulk => BULK_ROWS_MAX,
        }
    }
}

pub(super) enum Unit {
    One(Box<dyn Request>),
    Merged(Arc<dyn Source>),
}

/// Where a merger's mark leads.
pub(super) trait Source: Send + Sync {
    /// Takes the items that wait, in order, as one request; leaves the mark in the queue if some had to stay.
    fn take(self: Arc<Self>, queues: &Queues) -> Option<Box<dyn Request>>;
}

/// What the writer finds.
pub(super) enum Next {
    Round(Vec<Box<dyn Request>>),
    Empty,
    /// Closing, and nothing is left.
    Finished,
}

pub(super) struct Queues {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    /// A refusal was set.
    refused: Notify,
    ledger_room: Arc<Semaphore>,
    bulk_room: Arc<Semaphore>,
}

#[derive(Default)]
struct Waiting {
    ledger: VecDeque<Unit>,
    bulk: VecDeque<Unit>,
    /// Set for good: new requests get this.
    refusal: Option<StoreError>,
    closing: bool,
}

impl Waiting {
    fn of(&mut self, queue: Queue) -> &mut VecDeque<Unit> {
        match queue {
            Queue::Ledger => &mut self.ledger,
            Queue::Bulk => &mut self.bulk,
        }
    }
}

impl Queues {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            arrived: Notify::new(),
            refused: Notify::new(),
            ledger_room: Arc::new(Semaphore::new(LEDGER_WAITING_MAX)),
            bulk_room: Arc::new(Semaphore::new(BULK_WAITING_MAX)),
        }
    }

    /// Waits until one more request may be queued; the permit travels with the request to its answer.
    pub(super) async fn room(&self, queue: Queue) -> Result<OwnedSemaphorePermit, StoreError> {
        let room = match queue {
            Queue::Ledger => &self.ledger_room,
            Queue::Bulk => &self.bulk_room,
        };
        // First without waiting: while there is room, a request is queued by the caller's first poll, so that many requests of
        // one task keep their order (tokio's cooperative budget would hold back each 128th). Nobody is overtaken: free permits
        // go to those who wait before they count as free.
        if let Ok(permit) = Arc::clone(room).try_acquire_owned() {
            return Ok(permit);
        }
        match Arc::clone(room).acquire_owned().await {
            Ok(permit) => Ok(permit),
            Err(_) => Err(self.lock().refusal.clone().unwrap_or(StoreError::Closed)),
        }
    }

    pub(super) fn push(&self, queue: Queue, unit: Unit) -> Result<(), StoreError> {
        {
            let mut waiting = self.lock();
            if let Some(refusal) = &waiting.refusal {
                return Err(refusal.clone());
            }
            waiting.of(queue).push_back(unit);
        }
        self.arrived.notify_one();
        Ok(())
    }

    /// Puts a merger's mark back for the items that stayed; they were accepted before, so a refusal doesn't meet them.
    pub(super) fn push_rest(&self, queue: Queue, rest: Arc<dyn Source>) {
        self.lock().of(queue).push_back(Unit::Merged(rest));
        self.arrived.notify_one();
    }

    /// The next round: all ledger units that wait (bounded), then one bulk unit (S5).
    pub(super) fn take(&self) -> Next {
        let units: Vec<Unit> = {
            let mut waiting = self.lock();
            if waiting.ledger.is_empty() && waiting.bulk.is_empty() {
                return if waiting.closing { Next::Finished } else { Next::Empty };
            }
            let count = waiting.ledger.len().min(LEDGER_ROUND_MAX);
            let bulk = waiting.bulk.pop_front();
            waiting.ledger.drain(..count).chain(bulk).collect()
        };
        // The lock is gone here: a merger locks itself first, then the queues, when it puts its mark back.
        let requests = units.into_iter().filter_map(|unit| match unit {
            Unit::One(request) => Some(request),
            Unit::Merged(source) => source.take(self),
        });
        Next::Round(requests.collect())
    }

    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// No new request from now on; those queued are still taken.
    pub(super) fn refuse(&self, refusal: StoreError) {
        self.lock().refusal.get_or_insert(refusal);
        self.refused.notify_waiters();
        self.ledger_room.close();
        self.bulk_room.close();
    }

    /// Waits for a refusal, and says why.
    pub(super) async fn refused(&self) -> StoreError {
        loop {
            let refused = self.refused.notified();
            tokio::pin!(refused);
            // Registered before the look, so that one that comes in between wakes us.
            refused.as_mut().enable();
            if let Some(refusal) = self.lock().refusal.clone() {
                return refusal;
            }
            refused.await;
        }
    }

    /// As `refuse`, and the writer ends when the queues are empty.
    pub(super) fn close(&self) {
        self.refuse(StoreError::Closed);
        self.lock().closing = true;
        self.arrived.notify_one();
    }

    /// No writer any more: whoever waits, or comes, is told so.
    fn abandon(&self) {
        self.close();
        while let Next::Round(round) = self.take() {
            // With the request goes its end of the answer: the caller gets `Unanswered`.
            drop(round);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no code panics while it holds the queues")
    }
}

/// Held by the writer while it runs: however it ends (a panic, the end of the runtime), no caller is left waiting.
pub(super) struct Served(pub(super) Arc<Queues>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
