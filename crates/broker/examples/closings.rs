//! How often a message that was acked comes again after its channel was closed, by the time the channel was kept open.
//!
//! `cargo run -p curfew-broker --example closings [rounds] [linger in ms …]`; it starts Debian's rabbitmq-server for itself.

use std::collections::HashSet;
use std::time::Duration;

use curfew_broker::rabbit::{Rabbit, Settings};
use curfew_broker::topology::Names;
use curfew_broker::{Broker, BrokerError, Rung};
use curfew_domain::Shard;
use curfew_testservers::rabbit::Rabbit as Server;

const MESSAGES: usize = 400;
const ACKED: usize = 300;
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), BrokerError> {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let rounds = numbers.first().copied().unwrap_or(20);
    let lingers = if numbers.len() > 1 { numbers[1..].to_vec() } else { vec![0, 500] };
    let server = tokio::task::spawn_blocking(Server::start).await.expect("the server starts");
    for linger in lingers {
        let (mut bad, mut again) = (0, 0);
        for round in 0..rounds {
            let repeated = closing(&server.url(), &format!("closing-{linger}-{round}"), Duration::from_millis(linger)).await?;
            bad += u64::from(repeated > 0);
            again += repeated;
        }
        println!("kept open for {linger} ms: {again} messages came again, in {bad} of {rounds} closings");
    }
    Ok(())
}

/// One drain and close; how many acked messages the next process gets.
async fn closing(url: &str, name: &str, linger: Duration) -> Result<usize, BrokerError> {
    let mut settings = Settings::new(url, 1);
    settings.names = Names::rehearsal(name);
    settings.times.linger = linger;
    let broker = Rabbit::start(settings.clone())?;
    broker.ready(PATIENCE).await?;
    broker.publish(Shard(0), (0..MESSAGES).map(|n| (Rung::Now, n.to_string().into_bytes())).collect()).await?;
    let consumer = broker.consume(Shard(0), 200).await?;
    let mut acked = HashSet::new();
    for _ in 0..ACKED {
        let delivery = consumer.next().await?.expect("nobody cancels");
        consumer.ack(delivery.id).await?;
        acked.insert(delivery.body);
    }
    consumer.cancel().await?;
    drop(consumer);
    broker.close().await;
    let next = Rabbit::start(settings)?;
    next.ready(PATIENCE).await?;
    let consumer = next.consume(Shard(0), 200).await?;
    let mut repeated = 0;
    let mut left = MESSAGES - ACKED;
    // What comes again stands before or beside what is left, so a short silence afterwards is enough.
    while let Ok(delivery) = tokio::time::timeout(Duration::from_millis(if left > 0 { 5_000 } else { 300 }), consumer.next()).await {
        let delivery = delivery?.expect("nobody cancels");
        consumer.ack(delivery.id).await?;
        let again = acked.contains(&delivery.body);
        repeated += usize::from(again);
        left -= usize::from(!again);
    }
    next.remove().await?;
    next.close().await;
    Ok(repeated)
}
