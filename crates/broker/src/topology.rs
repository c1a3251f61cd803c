//! The topology of RabbitMQ as a value: every exchange, queue, argument and binding, each with its reason (DESIGN 5).
//!
//! Pure data: declared from it, compared with what is there, printed. The in-process adapter takes its names and limits from here too.
//! Names carry a version, because the arguments of a living queue can't change.

mod definitions;
mod names;

use std::fmt;

use curfew_domain::Shard;
use curfew_domain::rung::{RUNG_MAX, Rung};

pub use names::{Names, routing_key};

/// Deliveries after which a ready queue gives a message up (the default of quorum queues since RabbitMQ 4.0; older ones get it by the shipped policy).
pub const DELIVERY_LIMIT: u32 = 20;

/// How queues keep their messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueType {
    /// Replicated by Raft; the default.
    Quorum,
    /// For a single node that has to be small.
    Classic,
}

/// How a delay queue hands over what has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeadLettering {
    /// A loss on the way is healed by the claim grace; nothing can jam a rung. The default.
    #[default]
    AtMostOnce,
    /// Quorum queues only: confirmed hop by hop, 32 at a time. One full or missing target can hold up a whole rung.
    AtLeastOnce,
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
    /// Version 1 of a fleet, for shards 0 to `shards` - 1.
    pub fn v1(shards: u8, queue_type: QueueType) -> Self {
        Self::named(&Names::default(), shards, queue_type, DeadLettering::AtMostOnce)
    }

    /// Version 1 under other names, or with the other way out of its delay queues.
    pub fn named(names: &Names, shards: u8, queue_type: QueueType, dead_lettering: DeadLettering) -> Self {
        let mut all = Self::default();
        all.unrouted(names, queue_type);
        all.dead(names, queue_type);
        all.ready(names, shards, queue_type);
        (0..=RUNG_MAX).for_each(|n| all.delay(names, n, queue_type, dead_lettering));
        all
    }

    fn unrouted(&mut self, names: &Names, queue_type: QueueType) {
        let unrouted = names.unrouted();
        self.exchange(&unrouted, ExchangeKind::Fanout, Vec::new(), "the alternate exchange: a shard without a queue is seen, not lost in silence");
        self.queue(&unrouted, queue_type, Vec::new(), "holds what nobody wanted, for the alarm and a person");
        self.bind(&unrouted, &unrouted, String::new(), "all of it");
    }

    fn dead(&mut self, names: &Names, queue_type: QueueType) {
        let (dead, dead_letters, parked) = (names.dead(), names.dead_letters(), names.parked());
        self.exchange(&dead, ExchangeKind::Fanout, Vec::new(), "one place for what workers reject and queues give up");
        let to_parked = [
            text("x-dead-letter-exchange", "", "the default exchange routes by queue name"),
            text("x-dead-letter-routing-key", &parked, "what the dead-letter consumer rejects is parked, never dropped"),
        ];
        self.queue(&dead_letters, queue_type, to_parked.into(), "the dead-letter consumer's");
        self.queue(&parked, queue_type, Vec::new(), "for a person: nothing consumes it");
        self.bind(&dead, &dead_letters, String::new(), "all of it, whatever the shard");
    }

    fn ready(&mut self, names: &Names, shards: u8, queue_type: QueueType) {
        let unrouted = text("alternate-exchange", &names.unrouted(), "a wake-up for a shard without a queue raises an alarm");
        self.exchange(&names.ready(), ExchangeKind::Direct, vec![unrouted], "routes by shard");
        for shard in (0..shards).map(Shard) {
            let dead = text("x-dead-letter-exchange", &names.dead(), "a rejected or given-up wake-up reaches the dead-letter consumer");
            self.queue(&names.ready_queue(shard), queue_type, vec![dead], "one per shard, so that a shard can be drained and covered by itself");
            self.bind(&names.ready(), &names.ready_queue(shard), routing_key(shard), "its shard alone");
        }
    }

    fn delay(&mut self, names: &Names, n: u8, queue_type: QueueType, dead_lettering: DeadLettering) {
        let name = names.exchange_of(Rung::Delay(n));
        let delay_ms = Rung::Delay(n).delay().as_millis() as i64;
        self.exchange(&name, ExchangeKind::Fanout, Vec::new(), "fanout: whatever the routing key, which stays the shard");
        let mut arguments = vec![
            Argument {
                name: "x-message-ttl",
                value: Value::Number(delay_ms),
                reason: "one TTL for the whole queue: nothing waits behind a longer delay",
            },
            text("x-dead-letter-exchange", &names.ready(), "an expired wake-up arrives; no x-dead-letter-routing-key, so that the shard is kept"),
        ];
        if dead_lettering == DeadLettering::AtLeastOnce {
            arguments.push(text("x-dead-letter-strategy", "at-least-once", "asked for: nothing is lost between a rung and its ready queue"));
            arguments.push(text("x-overflow", "reject-publish", "without it the strategy falls back to at-most-once in silence"));
        }
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

    #[test]
    fn the_shipped_definitions_are_this_topology() {
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("definitions are JSON");
        assert!(
            read(include_str!("../../../deploy/rabbitmq/definitions.json")) == read(&Topology::v1(16, QueueType::Quorum).definitions()),
            "write it anew: cargo run -p curfew-broker --example definitions > deploy/rabbitmq/definitions.json"
        );
    }

    #[test]
    fn no_argument_is_one_that_rabbitmq_4_denies() {
        // What 4.x takes. Not among them: x-queue-mode (refused by 4.3), x-max-priority on quorum queues, x-queue-master-locator, x-ha-policy.
        let taken = [
            "alternate-exchange",
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
            "x-dead-letter-strategy",
            "x-message-ttl",
            "x-overflow",
            "x-queue-type",
        ];
        for queue_type in [QueueType::Quorum, QueueType::Classic] {
            let all = Topology::named(&Names::rehearsal("1"), 2, queue_type, DeadLettering::AtLeastOnce);
            for argument in all.queues.iter().flat_map(|q| &q.arguments).chain(all.exchanges.iter().flat_map(|e| &e.arguments)) {
                assert!(taken.contains(&argument.name), "{argument:?}");
            }
        }
    }

    #[test]
    fn a_rehearsal_shares_no_name_with_the_fleet() {
        let fleet = Topology::v1(2, QueueType::Quorum).to_string();
        let rehearsal = Topology::named(&Names::rehearsal("ab12"), 2, QueueType::Quorum, DeadLettering::AtMostOnce).to_string();
        assert!(!rehearsal.contains("curfew.v1"), "{rehearsal}");
        assert_eq!(rehearsal.replace("curfew.rehearsal.ab12", "curfew.v1"), fleet);
    }
}
