//! Every AMQP method that Curfew calls, each with a bound. No other file calls one, so that what RabbitMQ 4 denies can be refused in one place.

use std::time::Duration;

use curfew_domain::limits::WAKE_UP_BYTES_MAX;
use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ErrorKind};

use super::settings::Times;
use crate::BrokerError;
use crate::topology::{Argument, Binding, Exchange, ExchangeKind, Queue, Value};

const CONTENT_TYPE: &str = "application/vnd.curfew.wake-up";
const PERSISTENT: u8 = 2;
const NOT_FOUND: u16 = 404;
/// RabbitMQ 4 takes bodies up to 16 MiB; a wake-up is far below.
const BODY_BYTES_RABBITMQ_4: usize = 16 << 20;
const _: () = assert!(WAKE_UP_BYTES_MAX < BODY_BYTES_RABBITMQ_4, "a body must pass RabbitMQ 4's default limit");

/// Why a call failed.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    /// AMQP's reply code, where the server gave one.
    code: Option<u16>,
    text: String,
}

impl Failed {
    /// The queue or exchange isn't there.
    pub(super) fn is_missing(&self) -> bool {
        self.code == Some(NOT_FOUND)
    }

    fn new(what: &str, error: &lapin::Error) -> Self {
        let code = match error.kind() {
            ErrorKind::ProtocolError(error) => Some(error.get_id()),
            _transport => None,
        };
        Self { code, text: format!("{what}: {error}") }
    }
}

impl From<Failed> for BrokerError {
    fn from(failed: Failed) -> Self {
        match failed.code {
            // Refused, missing, locked, other arguments: trying again changes nothing that a person hasn't changed.
            Some(403..=406) => BrokerError::Topology(failed.text),
            Some(_) | None => BrokerError::Unreachable(failed.text),
        }
    }
}

/// An answer within `limit`, or a failure. A dropped call may have been made.
pub(super) async fn bounded<T>(limit: Duration, what: &str, call: impl Future<Output = lapin::Result<T>>) -> Result<T, Failed> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Failed::new(what, &error)),
        Err(_late) => Err(Failed { code: None, text: format!("{what}: no answer within {limit:?}") }),
    }
}

pub(super) async fn channel(connection: &Connection, times: &Times) -> Result<Channel, Failed> {
    bounded(times.call, "opening a channel", connection.create_channel()).await
}

/// One that confirms publishes.
pub(super) async fn confirming_channel(connection: &Connection, times: &Times) -> Result<Channel, Failed> {
    let channel = channel(connection, times).await?;
    bounded(times.call, "asking for confirms", channel.confirm_select(ConfirmSelectOptions { nowait: false })).await?;
    Ok(channel)
}

pub(super) async fn declare_exchange(channel: &Channel, exchange: &Exchange, passive: bool, times: &Times) -> Result<(), Failed> {
    let kind = match exchange.kind {
        ExchangeKind::Direct => lapin::ExchangeKind::Direct,
        ExchangeKind::Fanout => lapin::ExchangeKind::Fanout,
    };
    let options = ExchangeDeclareOptions { passive, durable: true, auto_delete: false, internal: false, nowait: false };
    let what = format!("exchange {}", exchange.name);
    let call = channel.exchange_declare(exchange.name.as_str().into(), kind, options, table(&exchange.arguments));
    bounded(times.call, &what, call).await
}

/// Durable: RabbitMQ 4.3 denies queues that are transient and not exclusive.
pub(super) async fn declare_queue(channel: &Channel, queue: &Queue, times: &Times) -> Result<(), Failed> {
    let options = QueueDeclareOptions { passive: false, durable: true, exclusive: false, auto_delete: false, nowait: false };
    let what = format!("queue {}", queue.name);
    bounded(times.call, &what, channel.queue_declare(queue.name.as_str().into(), options, table(&queue.arguments))).await.map(|_counts| ())
}

/// Exclusive: it goes with its connection.
pub(super) async fn declare_probe_queue(channel: &Channel, name: &str, exchange: &str, times: &Times) -> Result<(), Failed> {
    let options = QueueDeclareOptions { passive: false, durable: false, exclusive: true, auto_delete: true, nowait: false };
    bounded(times.call, "the probe's queue", channel.queue_declare(name.into(), options, FieldTable::default())).await?;
    let bind = channel.queue_bind(name.into(), exchange.into(), name.into(), QueueBindOptions { nowait: false }, FieldTable::default());
    bounded(times.call, "the probe's binding", bind).await
}

/// Ready messages and consumers of a queue that must be there.
pub(super) async fn counts(channel: &Channel, queue: &str, times: &Times) -> Result<(u64, u64), Failed> {
    let options = QueueDeclareOptions { passive: true, durable: true, exclusive: false, auto_delete: false, nowait: false };
    let what = format!("queue {queue}");
    let found = bounded(times.call, &what, channel.queue_declare(queue.into(), options, FieldTable::default())).await?;
    Ok((u64::from(found.message_count()), u64::from(found.consumer_count())))
}

pub(super) async fn bind(channel: &Channel, binding: &Binding, times: &Times) -> Result<(), Failed> {
    let what = format!("binding {} -> {}", binding.exchange, binding.queue);
    let (queue, exchange, key) = (binding.queue.as_str().into(), binding.exchange.as_str().into(), binding.routing_key.as_str().into());
    bounded(times.call, &what, channel.queue_bind(queue, exchange, key, QueueBindOptions { nowait: false }, FieldTable::default())).await
}

pub(super) async fn delete_queue(channel: &Channel, queue: &str, times: &Times) -> Result<(), Failed> {
    // Neither if_empty nor if_unused: quorum queues refuse both.
    let options = QueueDeleteOptions { if_unused: false, if_empty: false, nowait: false };
    bounded(times.call, "deleting a queue", channel.queue_delete(queue.into(), options)).await.map(|_count| ())
}

pub(super) async fn delete_exchange(channel: &Channel, exchange: &str, times: &Times) -> Result<(), Failed> {
    let options = ExchangeDeleteOptions { if_unused: false, nowait: false };
    bounded(times.call, "deleting an exchange", channel.exchange_delete(exchange.into(), options)).await
}

/// Of each consumer on the channel by itself. Global prefetch is refused by quorum queues and denied by 4.3. As a synchronous call it also
/// tells that the server has read every answer given before it on this channel.
pub(super) async fn prefetch(channel: &Channel, prefetch: u16, times: &Times) -> Result<(), Failed> {
    bounded(times.call, "prefetch", channel.basic_qos(prefetch, BasicQosOptions { global: false })).await
}

/// How deliveries are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    ByHand,
    /// For probes: taken is done.
    None,
}

pub(super) async fn consume(channel: &Channel, queue: &str, answers: Answers, times: &Times) -> Result<lapin::Consumer, Failed> {
    let options = BasicConsumeOptions { no_local: false, no_ack: answers == Answers::None, exclusive: false, nowait: false };
    let what = format!("consuming {queue}");
    bounded(times.call, &what, channel.basic_consume(queue.into(), "".into(), options, FieldTable::default())).await
}

pub(super) async fn cancel(channel: &Channel, tag: ShortString, times: &Times) -> Result<(), Failed> {
    bounded(times.call, "cancelling a consumer", channel.basic_cancel(tag, BasicCancelOptions { nowait: false })).await
}

pub(super) async fn close_channel(channel: &Channel, times: &Times) -> Result<(), Failed> {
    bounded(times.call, "closing a channel", channel.close(200, "OK".into())).await
}

pub(super) async fn close_connection(connection: &Connection, times: &Times) -> Result<(), Failed> {
    bounded(times.call, "closing a connection", connection.close(200, "OK".into())).await
}

/// Where a message goes.
pub(super) struct Outgoing {
    pub exchange: ShortString,
    pub routing_key: ShortString,
    /// Unique: a returned message is known by it.
    pub message_id: String,
    pub body: Vec<u8>,
}

/// Publishes and waits for the confirm; the caller bounds it. Its frames are written in the order of the first polls.
///
/// The properties are ours alone: before 4.0 RabbitMQ believes an `x-death` header that a publisher hands on, and drops the message as a cycle.
pub(super) async fn publish(channel: Channel, message: Outgoing) -> lapin::Result<Confirmation> {
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_content_type(CONTENT_TYPE.into())
        .with_message_id(message.message_id.as_str().into());
    // Mandatory covers the first hop: a rung whose queue is gone.
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    channel.basic_publish(message.exchange, message.routing_key, options, &message.body, properties).await?.await
}

fn table(arguments: &[Argument]) -> FieldTable {
    let mut table = FieldTable::default();
    for argument in arguments {
        let value = match &argument.value {
            Value::Text(value) => AMQPValue::LongString(value.as_str().into()),
            Value::Number(value) => AMQPValue::LongLongInt(*value),
        };
        table.insert(argument.name.into(), value);
    }
    table
}
