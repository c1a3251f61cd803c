//! Two loops: the dead-letter queue's consumer, and the reader of the ledger's overdue `review` index.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use curfew_book::{Book, BookError};
use curfew_broker::{Broker, Consumer, Delivery};
use curfew_courier::pause::Pauses;
use curfew_courier::{CourierError, Portion};
use curfew_domain::sealed::Keyring;
use curfew_domain::transition::Index;
use curfew_domain::{Moment, Record, Shard};
use curfew_ledger::{Ledger, LedgerError};
use curfew_review::Review;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::steps;

const PREFETCH: u16 = 32;
const STORIES_MAX: usize = 200;
const AGAIN: Duration = Duration::from_millis(500);
/// Tries of a message that no waiting helps.
const BROKEN_TRIES_MAX: u32 = 5;

/// The stores, the broker and the keys.
#[derive(Clone)]
pub struct Ports {
    /// Who may send now.
    pub ledger: Arc<dyn Ledger>,
    /// Rows of missing records.
    pub book: Arc<dyn Book>,
    /// The review store.
    pub review: Arc<dyn Review>,
    /// The dead-letter queue.
    pub broker: Arc<dyn Broker>,
    /// Seals what can't be read.
    pub keyring: Arc<Keyring>,
    /// Owners by reason's word.
    pub owners: Arc<BTreeMap<String, String>>,
    /// Who wants to know about moments.
    pub pauses: Arc<dyn Pauses>,
}

/// Its settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The shards whose `review` index it reads.
    pub shards: Vec<Shard>,
    /// How often it looks there.
    pub tick: Duration,
}

/// The dead-letter consumer; any number of them may run side by side.
pub struct DeadLetter {
    ports: Ports,
    settings: Settings,
    portion: Portion,
}

impl DeadLetter {
    /// One that doesn't run yet.
    pub fn new(ports: Ports, settings: Settings) -> Self {
        Self { ports, settings, portion: Portion::new(STORIES_MAX) }
    }

    /// Runs until `stop`. A dropped future leaves nothing half done that another consumer can't finish.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        tokio::join!(kept("the consumer", &stop, || self.consume(&stop).boxed()), kept("the index reader", &stop, || self.read_index(&stop).boxed()));
    }

    async fn consume(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.ports.broker.consume_dead(PREFETCH).await {
                Ok(consumer) => self.messages(&*consumer, stop).await,
                Err(error) => tracing::warn!(role = "deadletter", error_class = "broker", "can't consume: {error}"),
            }
            rest(AGAIN, stop).await;
        }
    }

    async fn messages(&self, consumer: &dyn Consumer, stop: &CancellationToken) {
        loop {
            let delivery = tokio::select! {
               biased;
                () = stop.cancelled() => {
                    let _cancelled = consumer.cancel().await;
                    return;
                }
                delivery = consumer.next() => delivery,
            };
            let delivery = match delivery {
                Ok(Some(delivery)) => delivery,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(role = "deadletter", error_class = "broker", "{error}");
                    return;
                }
            };
            self.message(consumer, &delivery, stop).await;
            if stop.is_cancelled() {
                return;
            }
        }
    }

    /// Handles one message until its answer is known. What fails for another reason than an absent store is parked after some tries, so
    /// that it doesn't stand in front of the others.
    async fn message(&self, consumer: &dyn Consumer, delivery: &Delivery, stop: &CancellationToken) {
        let mut broken = 0;
        let answered = loop {
            match AssertUnwindSafe(steps::handle(&self.ports, delivery)).catch_unwind().await {
                Ok(Ok(())) => break consumer.ack(delivery.id).await,
                Ok(Err(error)) => {
                    tracing::warn!(role = "deadletter", error_class = "store", "a dead letter waits: {error}");
                    broken += u32::from(!passes(&error));
                }
                Err(_panic) => {
                    tracing::error!(role = "deadletter", "the handling of a dead letter panicked");
                    broken += 1;
                }
            }
            if broken >= BROKEN_TRIES_MAX {
                tracing::error!(role = "deadletter", "a message that can't be handled is parked");
                break consumer.reject(delivery.id).await;
            }
            rest(AGAIN, stop).await;
            if stop.is_cancelled() {
                return;
            }
        };
        if let Err(error) = answered {
            tracing::debug!(error_class = "broker", "a dead letter comes again: {error}");
        }
    }

    async fn read_index(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.record_overdue().await {
                Ok(true) => {}
                Ok(false) => rest(self.settings.tick, stop).await,
                Err(error) => {
                    tracing::warn!(role = "deadletter", error_class = "store", "dead letters wait: {error}");
                    rest(AGAIN, stop).await;
                }
            }
        }
    }

    /// One round over all shards; whether more wait. One shard that fails is in no other's way.
    async fn record_overdue(&self) -> Result<bool, CourierError> {
        let now = self.ports.ledger.now().await?;
        let mut more = false;
        let mut broken = Ok(());
        for agenda in self.ports.ledger.agenda(&self.settings.shards, now).await? {
            if agenda.review {
                match self.record_of(agenda.shard, now).await {
                    Ok(full) => more |= full,
                    Err(error) => broken = Err(error),
                }
            }
        }
        broken.map(|()| more)
    }

    async fn record_of(&self, shard: Shard, now: Moment) -> Result<bool, CourierError> {
        let size = self.portion.size();
        let records: Vec<Record> = self.ports.ledger.overdue(shard, Index::Review, now, size).await?.into_iter().map(|t| t.record).collect();
        let full = records.len() == size;
        let closed = self.portion.learn(steps::record_all(&self.ports, records, now).await)?;
        if closed.kept > 0 {
            tracing::error!(role = "deadletter", error_class = "book", "{} dead letters can't be recorded; they stay in the ledger", closed.kept);
        }
        Ok(full && closed.closed + closed.kept > 0)
    }
}

/// Whether waiting helps.
fn passes(error: &CourierError) -> bool {
    match error {
        CourierError::Ledger(LedgerError::Unavailable { .. } | LedgerError::Recovering | LedgerError::Halted | LedgerError::OtherServer)
        | CourierError::Book(BookError::Unavailable { .. } | BookError::OtherIncarnation) => true,
        CourierError::Contended => true,
        _broken => false,
    }
}

async fn rest(time: Duration, stop: &CancellationToken) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = tokio::time::sleep(time) => {}
    }
}

/// Runs a loop until it ends by itself. A panic means that we are wrong: said aloud, and the loop begins anew, for nobody else does its work.
async fn kept<'a>(what: &'static str, stop: &CancellationToken, work: impl Fn() -> BoxFuture<'a, ()>) {
    while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
        tracing::error!(role = "deadletter", "{what} panicked and begins anew");
        if stop.is_cancelled() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
