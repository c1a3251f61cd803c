//! Publishes per second with confirms, and deliveries per second with acks, through RabbitMQ.
//!
//! `cargo run --release -p curfew-broker --example rabbit [messages] [quorum|classic] [url]`
//! Without a URL it starts Debian's rabbitmq-server for itself.

use std::time::Instant;

use curfew_broker::rabbit::{Rabbit, Settings};
use curfew_broker::topology::{Names, QueueType};
use curfew_broker::{Broker, BrokerError, Published, Rung};
use curfew_domain::Shard;
use curfew_testservers::rabbit::Rabbit as Server;
use futures::future::try_join_all;

const SHARDS: u8 = 4;
const BATCH: usize = 250;
const PREFETCH: u16 = 200;
const BODY_BYTES: usize = 200;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), BrokerError> {
    let mut words = std::env::args().skip(1);
    let messages: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(80_000);
    let queue_type = if words.next().as_deref() == Some("classic") { QueueType::Classic } else { QueueType::Quorum };
    let given = words.next();
    let server = if given.is_none() { Some(tokio::task::spawn_blocking(Server::start).await.expect("the server starts")) } else { None };
    let url = given.or_else(|| server.as_ref().map(Server::url)).expect("one of the two");
    let mut settings = Settings::new(url, SHARDS);
    settings.names = Names::rehearsal("speed");
    settings.queue_type = queue_type;
    let broker = Rabbit::start(settings)?;
    broker.ready(PATIENCE).await?;
    let started = Instant::now();
    try_join_all((0..SHARDS).map(|shard| publish(&broker, Shard(shard), messages / usize::from(SHARDS)))).await?;
    let took = started.elapsed().as_secs_f64();
    println!("{queue_type:?}: published and confirmed {:>7.0} /s", messages as f64 / took);
    let started = Instant::now();
    try_join_all((0..SHARDS).map(|shard| consume(&broker, Shard(shard), messages / usize::from(SHARDS)))).await?;
    let took = started.elapsed().as_secs_f64();
    println!("{queue_type:?}: delivered and acked     {:>7.0} /s", messages as f64 / took);
    broker.remove().await?;
    broker.close().await;
    Ok(())
}

async fn publish(broker: &Rabbit, shard: Shard, count: usize) -> Result<(), BrokerError> {
    for _ in 0..count / BATCH {
        let answers = broker.publish(shard, (0..BATCH).map(|_| (Rung::Now, vec![7; BODY_BYTES])).collect()).await?;
        assert!(answers.iter().all(|answer| *answer == Published::Confirmed));
    }
    Ok(())
}

async fn consume(broker: &Rabbit, shard: Shard, count: usize) -> Result<(), BrokerError> {
    let consumer = broker.consume(shard, PREFETCH).await?;
    for _ in 0..count / BATCH * BATCH {
        let delivery = consumer.next().await?.expect("nobody cancels");
        consumer.ack(delivery.id).await?;
    }
    consumer.cancel().await
}
