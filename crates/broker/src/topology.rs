//! The topology of RabbitMQ as a value: every exchange, queue, argument and binding, each with its reason (DESIGN 5).
//!
//! Pure data: declared from it, compared with what is there, printed. The in-process adapter takes its names and limits from here too.
//! Names carry a version, because the arguments of a living queue can't change.

use std::fmt;

use curfew_domain::Shard;
use curfew_domain::rung::{RUNG_MAX, Rung};

/// Direct: routes by shard to the ready queues.
pub const READY: &str = "curfew.v1.ready";
/// Fanout: what ready queues reject or give up.
pub const DEAD: &str = "curfew.v1.dead";
/// The dead-letter consumer's queue.
pub const DEAD_LETTERS: &str = "curfew.v1.dead-letters";
/// What even the dead-letter consumer can't handle.
pub const PARKED: &str = "curfew.v1.parked";
/// Exchange and queue of what no queue wanted.
pub const UNROUTED: &str = "curfew.v1.unrouted";
/// Deliveries after which a ready queue gives a message up (the default of quorum queues since RabbitMQ 4.0; older ones get it by the shipped policy).
pub const DELIVERY_LIMIT: u32 = 20;

/// The name of a rung's exchange and of its queue; a published message of rung `Now` goes to `READY`.
pub fn exchange_of(rung: Rung) -> String {
    match rung {
        Rung::Now => READY.to_owned(),
        Rung::Delay(n) => format!("curfew.v1.delay.{n:02}"),
    }
}

/// The name of a shard's ready queue.
pub fn ready_queue(shard: Shard) -> String {
    format!("{READY}.{shard}")
}

/// The routing key of a shard; delay queues keep it.
pub fn routing_key(shard: Shard) -> String {
    shard.to_string()
}

/// How queues keep their messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueType {
    /// Replicated by Raft; the default.
    Quorum,
    /// For a single node that has to be small.
    Classic,
}

/// How an exchange routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExchangeKind {
    /// By routing key.
    Direct,
    /// To all its queues.
    Fanout,
}

/// The value of an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number; milliseconds for a TTL.
    Number(i64),
}

/// An argument of an exchange or a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// RabbitMQ's name for it.
    pub name: &'static str,
    /// What it is set to.
    pub value: Value,
    /// Why.
    pub reason: &'static str,
}

/// An exchange; durable, not deleted by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// Its name.
    pub name: String,
    /// How it routes.
    pub kind: ExchangeKind,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// Why it is there.
    pub reason: &'static str,
}

/// A queue; durable, not exclusive, not deleted by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// Why it is there.
    pub reason: &'static str,
}

/// From an exchange to a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// From.
    pub exchange: String,
    /// To.
    pub queue: String,
    /// Empty for a fanout exchange.
    pub routing_key: String,
    /// Why it is there.
    pub reason: &'static str,
}

/// All of it, in the order of declaration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// Exchanges, each before whatever names it.
    pub exchanges: Vec<Exchange>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// Bindings.
    pub bindings: Vec<Binding>,
}

impl Topology {
    /// Version 1, for shards 0 to `shards` - 1.
    pub fn v1(shards: u8, queue_type: QueueType) -> Self {
        let mut all = Self::default();
        all.unrouted(queue_type);
        all.dead(queue_type);
        all.ready(shards, queue_type);
        (0..=RUNG_MAX).for_each(|n| all.delay(n, queue_type));
        all
    }

    fn unrouted(&mut self, queue_type: QueueType) {
        self.exchange(UNROUTED, ExchangeKind::Fanout, Vec::new(), "the alternate exchange: a shard without a queue is seen, not lost in silence");
        self.queue(UNROUTED, queue_type, Vec::new(), "holds what nobody wanted, for the alarm and a person");
        self.bind(UNROUTED, UNROUTED, String::new(), "all of it");
    }

    fn dead(&mut self, queue_type: QueueType) {
        self.exchange(DEAD, ExchangeKind::Fanout, Vec::new(), "one place for what workers reject and queues give up");
        let parked = [
            text("x-dead-letter-exchange", "", "the default exchange routes by queue name"),
            text("x-dead-letter-routing-key", PARKED, "what the dead-letter consumer rejects is parked, never dropped"),
        ];
        self.queue(DEAD_LETTERS, queue_type, parked.into(), "the dead-letter consumer's");
        self.queue(PARKED, queue_type, Vec::new(), "for a person: nothing consumes it");
        self.bind(DEAD, DEAD_LETTERS, String::new(), "all of it, whatever the shard");
    }

    fn ready(&mut self, shards: u8, queue_type: QueueType) {
        let unrouted = text("alternate-exchange", UNROUTED, "a wake-up for a shard without a queue raises an alarm");
        self.exchange(READY, ExchangeKind::Direct, vec![unrouted], "routes by shard");
        for shard in (0..shards).map(Shard) {
            let dead = text("x-dead-letter-exchange", DEAD, "a rejected or given-up wake-up reaches the dead-letter consumer");
            self.queue(&ready_queue(shard), queue_type, vec![dead], "one per shard, so that a shard can be drained and covered by itself");
            self.bind(READY, &ready_queue(shard), routing_key(shard), "its shard alone");
        }
    }

    fn delay(&mut self, n: u8, queue_type: QueueType) {
        let name = exchange_of(Rung::Delay(n));
        let delay_ms = Rung::Delay(n).delay().as_millis() as i64;
        self.exchange(&name, ExchangeKind::Fanout, Vec::new(), "fanout: whatever the routing key, which stays the shard");
        let arguments = vec![
            Argument {
                name: "x-message-ttl",
                value: Value::Number(delay_ms),
                reason: "one TTL for the whole queue: nothing waits behind a longer delay",
            },
            text("x-dead-letter-exchange", READY, "an expired wake-up arrives; no x-dead-letter-routing-key, so that the shard is kept"),
        ];
        self.queue(&name, queue_type, arguments, "one hop of 2^NN s; the ledger's line time makes one hop enough");
        self.bind(&name, &name, String::new(), "all of it");
    }

    fn exchange(&mut self, name: &str, kind: ExchangeKind, arguments: Vec<Argument>, reason: &'static str) {
        self.exchanges.push(Exchange { name: name.to_owned(), kind, arguments, reason });
    }

    fn queue(&mut self, name: &str, queue_type: QueueType, mut arguments: Vec<Argument>, reason: &'static str) {
        let (word, why) = match queue_type {
            QueueType::Quorum => ("quorum", "survives the loss of a node, and counts deliveries"),
            QueueType::Classic => ("classic", "a single node that has to be small"),
        };
        arguments.insert(0, text("x-queue-type", word, why));
        self.queues.push(Queue { name: name.to_owned(), arguments, reason });
    }

    fn bind(&mut self, exchange: &str, queue: &str, routing_key: String, reason: &'static str) {
        self.bindings.push(Binding { exchange: exchange.to_owned(), queue: queue.to_owned(), routing_key, reason });
    }
}

fn text(name: &'static str, value: &str, reason: &'static str) -> Argument {
    Argument { name, value: Value::Text(value.to_owned()), reason }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for exchange in &self.exchanges {
            let kind = match exchange.kind {
                ExchangeKind::Direct => "direct",
                ExchangeKind::Fanout => "fanout",
            };
            writeln!(f, "exchange {} {kind}  # {}", exchange.name, exchange.reason)?;
            exchange.arguments.iter().try_for_each(|argument| write!(f, "{argument}"))?;
        }
        for queue in &self.queues {
            writeln!(f, "queue {}  # {}", queue.name, queue.reason)?;
            queue.arguments.iter().try_for_each(|argument| write!(f, "{argument}"))?;
        }
        for binding in &self.bindings {
            writeln!(f, "binding {} -> {} key {:?}  # {}", binding.exchange, binding.queue, binding.routing_key, binding.reason)?;
        }
        Ok(())
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Text(value) => writeln!(f, "  {} = {value:?}  # {}", self.name, self.reason),
            Value::Number(value) => writeln!(f, "  {} = {value}  # {}", self.name, self.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binding_and_dead_letter_exchange_is_declared() {
        let all = Topology::v1(3, QueueType::Quorum);
        let exchange = |name: &str| name.is_empty() || all.exchanges.iter().any(|e| e.name == name);
        for binding in &all.bindings {
            assert!(exchange(&binding.exchange) && all.queues.iter().any(|q| q.name == binding.queue), "{binding:?}");
        }
        for argument in all.queues.iter().flat_map(|q| &q.arguments).chain(all.exchanges.iter().flat_map(|e| &e.arguments)) {
            match &argument.value {
                Value::Text(name) if argument.name.ends_with("exchange") => assert!(exchange(name), "{argument:?}"),
                Value::Text(_) | Value::Number(_) => {}
            }
        }
        assert_eq!(all.queues.iter().filter(|q| q.name.starts_with("curfew.v1.ready.")).count(), 3);
    }

    #[test]
    fn the_printed_topology_is_this() {
        let printed = Topology::v1(2, QueueType::Quorum).to_string();
        for line in [
            "exchange curfew.v1.ready direct  # routes by shard\n  alternate-exchange = \"curfew.v1.unrouted\"  # a wake-up for a shard without a queue raises an alarm\n",
            "  x-message-ttl = 64000  # one TTL for the whole queue: nothing waits behind a longer delay\n",
            "binding curfew.v1.ready -> curfew.v1.ready.01 key \"01\"  # its shard alone\n",
        ] {
            assert!(printed.contains(line), "{line} is missing in:\n{printed}");
        }
    }
}
