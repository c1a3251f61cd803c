//! One consumer, one channel: a protocol error of one shard touches no other.
//!
//! The client ends a stream without an error where the server cancels it (a deleted queue, a consumer timeout); here an end that nobody asked
//! for is a failure. Prefetch is the only bound of what the client buffers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use futures::{FutureExt as _, StreamExt as _};
use lapin::options::{BasicAckOptions, BasicNackOptions, BasicRejectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Acker, Channel, Connection};
use tokio::time::{Instant, timeout};

use super::calls::{self, Answers, Failed};
use super::supervisor::Shared;
use crate::{BrokerError, Consumer, Delivery, DeliveryId};

const OPEN: u8 = 0;
const CANCELLED: u8 = 1;
const ENDED: u8 = 2;

/// A consumer of one queue.
pub(super) struct Hand {
    shared: Arc<Shared>,
    channel: Channel,
    prefetch: u16,
    tag: lapin::types::ShortString,
    stream: Arc<tokio::sync::Mutex<lapin::Consumer>>,
    stage: AtomicU8,
    held: Mutex<HashMap<DeliveryId, Acker>>,
    last_answer: Mutex<Option<Instant>>,
    /// Dropping it needs somebody to close the channel.
    runtime: tokio::runtime::Handle,
}

impl Hand {
    pub(super) async fn open(shared: Arc<Shared>, connection: &Connection, queue: &str, prefetch: u16) -> Result<Self, Failed> {
        let times = &shared.settings.times;
        // Zero would mean: without bound.
        let prefetch = prefetch.max(1);
        let channel = calls::channel(connection, times).await?;
        calls::prefetch(&channel, prefetch, times).await?;
        let stream = calls::consume(&channel, queue, Answers::ByHand, times).await?;
        Ok(Self {
            channel,
            prefetch,
            tag: stream.tag(),
            stream: Arc::new(tokio::sync::Mutex::new(stream)),
            stage: AtomicU8::new(OPEN),
            held: Mutex::default(),
            last_answer: Mutex::default(),
            runtime: tokio::runtime::Handle::current(),
            shared,
        })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<DeliveryId, Acker>> {
        self.held.lock().expect("no holder panics")
    }

    /// Hands one answer to the client. The flag it returns says whether the answer was written; `false`: the channel is gone, or it was answered.
    async fn answer(&self, id: DeliveryId, answer: impl AsyncFnOnce(&Acker) -> lapin::Result<bool>) -> Result<(), BrokerError> {
        let acker = self.held().remove(&id).ok_or(BrokerError::ConsumerEnded)?;
        let answered = timeout(self.shared.settings.times.call, answer(&acker)).await;
        *self.last_answer.lock().expect("no holder panics") = Some(Instant::now());
        match answered {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(BrokerError::ConsumerEnded),
            Ok(Err(error)) => Err(BrokerError::Unreachable(format!("an answer: {error}"))),
            Err(_late) => Err(BrokerError::Unreachable("an answer wasn't written in time".to_owned())),
        }
    }
}

#[async_trait]
impl Consumer for Hand {
    async fn next(&self) -> Result<Option<Delivery>, BrokerError> {
        let mut stream = self.stream.lock().await;
        // Under the lock: the client tells an end once, and another task may have heard it.
        let found = match self.stage.load(Ordering::Acquire) {
            ENDED => return Err(BrokerError::ConsumerEnded),
            CANCELLED => stream.next().now_or_never().flatten(),
            _open => stream.next().await,
        };
        drop(stream);
        match found {
            Some(Ok(delivery)) => {
                let id = DeliveryId(delivery.delivery_tag);
                let headers = delivery.properties.headers();
                let redelivered = count(headers.as_ref()).unwrap_or(u32::from(delivery.redelivered));
                let gave_up = headers.as_ref().is_some_and(died_by_limit);
                self.held().insert(id, delivery.acker);
                Ok(Some(Delivery { id, body: delivery.data, redelivered, gave_up }))
            }
            Some(Err(_)) | None => match self.stage.compare_exchange(OPEN, ENDED, Ordering::AcqRel, Ordering::Acquire) {
                Err(CANCELLED) => Ok(None),
                Ok(_) | Err(_) => Err(BrokerError::ConsumerEnded),
            },
        }
    }

    async fn ack(&self, id: DeliveryId) -> Result<(), BrokerError> {
        self.answer(id, async |acker: &Acker| acker.ack(BasicAckOptions { multiple: false }).await).await
    }

    async fn reject(&self, id: DeliveryId) -> Result<(), BrokerError> {
        self.answer(id, async |acker: &Acker| acker.reject(BasicRejectOptions { requeue: false }).await).await
    }

    async fn cancel(&self) -> Result<(), BrokerError> {
        match self.stage.compare_exchange(OPEN, CANCELLED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            Err(CANCELLED) => return Ok(()),
            Err(_ended) => return Err(BrokerError::ConsumerEnded),
        }
        calls::cancel(&self.channel, self.tag.clone(), &self.shared.settings.times).await?;
        // What was buffered and never taken goes back now, not when the last delivery in hand is done. Whoever is in `next` takes it instead.
        if let Ok(mut stream) = self.stream.try_lock() {
            give_back_buffered(&mut stream).await;
        }
        Ok(())
    }
}

/// `nack`, not `reject`: since RabbitMQ 4.3 it doesn't count towards the delivery limit.
async fn give_back_buffered(stream: &mut lapin::Consumer) {
    while let Some(Some(Ok(delivery))) = stream.next().now_or_never() {
        let _closed = delivery.acker.nack(BasicNackOptions { multiple: false, requeue: true }).await;
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        let closing = Closing {
            shared: Arc::clone(&self.shared),
            channel: self.channel.clone(),
            prefetch: self.prefetch,
            cancel: (self.stage.load(Ordering::Acquire) == OPEN).then(|| self.tag.clone()),
            stream: Arc::clone(&self.stream),
            last_answer: *self.last_answer.lock().expect("no holder panics"),
        };
        self.shared.lingering.send_modify(|channels| *channels += 1);
        let counted = Counted(Arc::clone(&self.shared));
        self.runtime.spawn(async move {
            closing.run().await;
            drop(counted);
        });
    }
}

/// A channel that is being closed.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.lingering.send_modify(|channels| *channels -= 1);
    }
}

struct Closing {
    shared: Arc<Shared>,
    channel: Channel,
    prefetch: u16,
    cancel: Option<lapin::types::ShortString>,
    /// Dropped last: its own drop would cancel beside us.
    stream: Arc<tokio::sync::Mutex<lapin::Consumer>>,
    last_answer: Option<Instant>,
}

impl Closing {
    /// Closes the channel, which gives back what is unanswered; but not before the acks have settled.
    ///
    /// A quorum queue's client inside the server may hold acks back while it waits for its replicas, and a close throws them away: jobs that
    /// were done came again. A round trip on the channel isn't enough (measured: 4 of 38 closings), half a second was. The ledger refuses repeats anyway.
    async fn run(self) {
        let times = self.shared.settings.times;
        if self.channel.status().connected() {
            if let Some(tag) = self.cancel {
                let _bounded = calls::cancel(&self.channel, tag, &times).await;
            }
            if let Some(at) = self.last_answer {
                let _bounded = calls::prefetch(&self.channel, self.prefetch, &times).await;
                tokio::time::sleep_until(at + times.linger).await;
            }
            let _bounded = calls::close_channel(&self.channel, &times).await;
        }
        drop(self.stream);
    }
}

/// How often it was delivered before: quorum queues count, classic ones only know whether it was.
fn count(headers: Option<&FieldTable>) -> Option<u32> {
    match headers?.inner().get("x-delivery-count")? {
        AMQPValue::ShortShortInt(n) => u32::try_from(*n).ok(),
        AMQPValue::ShortInt(n) => u32::try_from(*n).ok(),
        AMQPValue::LongInt(n) => u32::try_from(*n).ok(),
        AMQPValue::LongLongInt(n) => u32::try_from(*n).ok(),
        AMQPValue::ShortShortUInt(n) => Some(u32::from(*n)),
        AMQPValue::ShortUInt(n) => Some(u32::from(*n)),
        AMQPValue::LongUInt(n) => Some(*n),
        AMQPValue::Timestamp(n) => u32::try_from(*n).ok(),
        _no_number => None,
    }
}

/// Whether the last queue gave it up at its delivery limit. The newest death stands first.
fn died_by_limit(headers: &FieldTable) -> bool {
    let Some(AMQPValue::FieldArray(deaths)) = headers.inner().get("x-death") else { return false };
    let Some(AMQPValue::FieldTable(newest)) = deaths.as_slice().first() else { return false };
    matches!(newest.inner().get("reason"), Some(AMQPValue::LongString(reason)) if reason.as_bytes() == b"delivery_limit")
}
