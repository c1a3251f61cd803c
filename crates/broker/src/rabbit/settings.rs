//! What the RabbitMQ adapter is told, and the times it keeps.

use std::time::Duration;

use crate::topology::{DeadLettering, Names, QueueType, Topology};

/// Whether the application may change what is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Management {
    /// Declares what is missing; what is there otherwise is an error.
    #[default]
    Declare,
    /// Looks whether every exchange and queue is there. AMQP shows neither arguments nor bindings: the rungs' probes test those that matter.
    Verify,
}

/// Of one process.
#[derive(Clone)]
pub struct Settings {
    /// `amqp://` or `amqps://`, with its credentials; it stands in no log and no error.
    pub url: String,
    /// Certificates to trust besides the public ones, as PEM.
    pub ca_pem: Option<String>,
    /// Shown by RabbitMQ's own tools, so that a person sees whose connection it is.
    pub connection_name: String,
    /// What everything is called.
    pub names: Names,
    /// Ready queues 0 to `shards` - 1.
    pub shards: u8,
    /// Of every queue.
    pub queue_type: QueueType,
    /// Of the delay queues.
    pub dead_lettering: DeadLettering,
    /// Whether it may declare.
    pub management: Management,
    /// Its times.
    pub times: Times,
}

impl Settings {
    /// The defaults: quorum queues, declared by the application.
    pub fn new(url: impl Into<String>, shards: u8) -> Self {
        Self {
            url: url.into(),
            ca_pem: None,
            connection_name: "curfew".to_owned(),
            names: Names::default(),
            shards,
            queue_type: QueueType::Quorum,
            dead_lettering: DeadLettering::default(),
            management: Management::default(),
            times: Times::default(),
        }
    }

    /// The topology that these settings ask for.
    pub fn topology(&self) -> Topology {
        Topology::named(&self.names, self.shards, self.queue_type, self.dead_lettering)
    }
}

/// Nothing waits without a bound: a client library may never answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// TCP, TLS and the AMQP handshake together.
    pub connect: Duration,
    /// Any call that the server answers, but a confirm. The first declaration of a quorum queue starts a Raft cluster.
    pub call: Duration,
    /// From a publish to its confirm; then it is `Unanswered`.
    pub confirm: Duration,
    /// A dead peer is noticed after two of them, in whole seconds.
    pub heartbeat: Duration,
    /// The first wait before connecting again; doubled up to `backoff_max`, jittered.
    pub backoff_min: Duration,
    /// The longest wait before connecting again.
    pub backoff_max: Duration,
    /// A channel stays open so long after its last answer: a quorum queue's client may still hold acks that a close would throw away.
    pub linger: Duration,
    /// How often the topology is looked after while nothing complains.
    pub look_after: Duration,
    /// How long after its last probes a publishing connection probes the rungs again.
    pub probe_again: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            call: Duration::from_secs(10),
            confirm: Duration::from_secs(10),
            heartbeat: Duration::from_secs(10),
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(10),
            linger: Duration::from_millis(500),
            look_after: Duration::from_secs(60),
            probe_again: Duration::from_secs(300),
        }
    }
}
