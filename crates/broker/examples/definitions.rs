//! Prints the topology in the form that RabbitMQ imports.
//!
//! `cargo run -p curfew-broker --example definitions [shards] > deploy/rabbitmq/definitions.json`

use curfew_broker::topology::{QueueType, Topology};

fn main() {
    let shards = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(16);
    print!("{}", Topology::v1(shards, QueueType::Quorum).definitions());
}
