//! The port: what roles ask of a broker.

use async_trait::async_trait;
use curfew_domain::Shard;

use crate::BrokerError;

pub use curfew_domain::rung::Rung;

/// What became of a publish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Published {
    /// The broker holds it.
    Confirmed,
    /// No confirm came in time: counts as published, its claim grace heals a loss.
    Unanswered,
    /// The broker refused: it isn't published.
    Refused,
}

/// A queue as seen from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueState {
    /// Messages ready to be delivered.
    pub ready: u64,
    /// Delivered, not yet answered. `None`: the broker doesn't say (AMQP counts ready messages alone).
    pub unacked: Option<u64>,
    /// Consumers that haven't been cancelled.
    pub consumers: u64,
}

/// Messages where nobody should have to look for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Depths {
    /// No queue wanted them: a shard outside the topology, or a deleted ready queue.
    pub unrouted: u64,
    /// Waiting for the dead-letter consumer.
    pub dead_letters: u64,
    /// What even the dead-letter consumer couldn't handle.
    pub parked: u64,
}

/// Names a delivery to its consumer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeliveryId(pub u64);

/// One message in a consumer's hand.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// To answer it.
    pub id: DeliveryId,
    /// The body; see `domain::wake_up`.
    pub body: Vec<u8>,
    /// How often it was delivered before.
    pub redelivered: u32,
    /// Whether the broker gave it up at its delivery limit (dead-letter queue only).
    pub gave_up: bool,
}

/// What roles ask of a broker.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Publishes wake-ups for one shard, and answers each in order. Repeating costs a refused claim. A dropped future may have published.
    ///
    /// # Errors
    /// `BrokerError`, where the broker is unreachable or blocked: then nothing is known to be published.
    async fn publish(&self, shard: Shard, messages: Vec<(Rung, Vec<u8>)>) -> Result<Vec<Published>, BrokerError>;

    /// Consumes one shard's ready queue with manual answers and at most `prefetch` unanswered deliveries.
    ///
    /// # Errors
    /// `BrokerError`.
    async fn consume(&self, shard: Shard, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError>;

    /// Consumes the dead-letter queue.
    ///
    /// # Errors
    /// `BrokerError`.
    async fn consume_dead(&self, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError>;

    /// The state of a shard's ready queue.
    ///
    /// # Errors
    /// `BrokerError`.
    async fn ready_state(&self, shard: Shard) -> Result<QueueState, BrokerError>;

    /// What lies in the queues that should be empty, or nearly.
    ///
    /// # Errors
    /// `BrokerError`.
    async fn depths(&self) -> Result<Depths, BrokerError>;

    /// Whether publishing is allowed at the moment: reachable and not blocked.
    fn is_open(&self) -> bool;

    /// Ends connections in good order, once every consumer is cancelled, answered and dropped; bounded by a deadline of its own. What is
    /// asked for afterwards is refused. An adapter without connections has nothing to do.
    async fn close(&self) {}
}

/// One consumer. Dropping it gives back what it hasn't answered.
#[async_trait]
pub trait Consumer: Send + Sync {
    /// The next delivery; `None` after `cancel`, once nothing more comes. Cancel-safe.
    ///
    /// # Errors
    /// `BrokerError::ConsumerEnded`, where the stream ended without `cancel`.
    async fn next(&self) -> Result<Option<Delivery>, BrokerError>;

    /// Done with it.
    ///
    /// # Errors
    /// `BrokerError`: the delivery may come again.
    async fn ack(&self, id: DeliveryId) -> Result<(), BrokerError>;

    /// To the dead-letter queue (`basic.reject`, no requeue).
    ///
    /// # Errors
    /// `BrokerError`: the delivery may come again.
    async fn reject(&self, id: DeliveryId) -> Result<(), BrokerError>;

    /// No more deliveries; those in hand can still be answered.
    ///
    /// # Errors
    /// `BrokerError`.
    async fn cancel(&self) -> Result<(), BrokerError>;
}
