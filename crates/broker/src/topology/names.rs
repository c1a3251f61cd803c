//! What everything of one fleet is called. Two fleets, or a fleet and a rehearsal, share a virtual host under two prefixes.

use curfew_domain::Shard;
use curfew_domain::rung::Rung;

/// A fleet's own. The version stands in it, because the arguments of a living queue can't change.
const FLEET: &str = "curfew.v1";

/// The names under one prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names {
    prefix: String,
}

impl Default for Names {
    fn default() -> Self {
        Self { prefix: FLEET.to_owned() }
    }
}

impl Names {
    /// Those of one rehearsal; it removes what it made (see `Rabbit::remove`).
    pub fn rehearsal(id: &str) -> Self {
        Self { prefix: format!("curfew.rehearsal.{id}") }
    }

    /// Whether these are the fleet's own, which nothing removes.
    pub fn are_the_fleets(&self) -> bool {
        self.prefix == FLEET
    }

    /// Direct: routes by shard to the ready queues.
    pub fn ready(&self) -> String {
        self.of("ready")
    }

    /// Fanout: what ready queues reject or give up.
    pub fn dead(&self) -> String {
        self.of("dead")
    }

    /// The dead-letter consumer's queue.
    pub fn dead_letters(&self) -> String {
        self.of("dead-letters")
    }

    /// What even the dead-letter consumer can't handle.
    pub fn parked(&self) -> String {
        self.of("parked")
    }

    /// Exchange and queue of what no queue wanted.
    pub fn unrouted(&self) -> String {
        self.of("unrouted")
    }

    /// A rung's exchange and its queue; rung `Now` is published to `ready`.
    pub fn exchange_of(&self, rung: Rung) -> String {
        match rung {
            Rung::Now => self.ready(),
            Rung::Delay(n) => self.of(&format!("delay.{n:02}")),
        }
    }

    /// A shard's ready queue.
    pub fn ready_queue(&self, shard: Shard) -> String {
        self.of(&format!("ready.{shard}"))
    }

    /// A connection's queue for the rungs' probes; also their routing key.
    pub fn probe(&self, id: &str) -> String {
        self.of(&format!("probe.{id}"))
    }

    fn of(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }
}

/// The routing key of a shard; delay queues keep it.
pub fn routing_key(shard: Shard) -> String {
    shard.to_string()
}
