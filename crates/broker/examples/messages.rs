//! Messages per second through the in-process broker: published to rungs, delivered, acked.
//!
//! `cargo run --release -p curfew-broker --example messages [messages]`

use std::time::Instant;

use curfew_broker::in_process::InProcess;
use curfew_broker::{Broker, BrokerError, Published, Rung};
use curfew_domain::Shard;

const SHARDS: u8 = 4;
const BATCH: usize = 250;
const BODY_BYTES: usize = 200;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), BrokerError> {
    let messages = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(80_000);
    let broker = InProcess::new(SHARDS);
    let started = Instant::now();
    let published = async {
        for n in 0..messages / BATCH {
            let rung = if n % 2 == 0 { Rung::Now } else { Rung::Delay(0) };
            let batch = (0..BATCH).map(|_| (rung, vec![7; BODY_BYTES])).collect();
            let answers = broker.publish(Shard((n % usize::from(SHARDS)) as u8), batch).await?;
            assert!(answers.iter().all(|answer| *answer == Published::Confirmed));
            tokio::task::yield_now().await;
        }
        println!("published  {:>9.0} /s", messages as f64 / started.elapsed().as_secs_f64());
        Ok::<_, BrokerError>(())
    };
    let each = messages / usize::from(SHARDS);
    let consumers = (0..SHARDS).map(Shard).map(|shard| consume(&broker, shard, each));
    let (published, consumed) = tokio::join!(published, futures_all(consumers));
    published?;
    consumed?;
    // Half of them were held for a second.
    println!("delivered and acked {messages} in {:.2?}, the second on their rung included", started.elapsed());
    Ok(())
}

async fn consume(broker: &InProcess, shard: Shard, count: usize) -> Result<(), BrokerError> {
    let consumer = broker.consume(shard, 32).await?;
    for _ in 0..count {
        let delivery = consumer.next().await?.expect("nobody cancels");
        consumer.ack(delivery.id).await?;
    }
    Ok(())
}

/// One after the other is enough: what waits for its turn waits in its queue.
async fn futures_all(all: impl Iterator<Item = impl Future<Output = Result<(), BrokerError>>>) -> Result<(), BrokerError> {
    for one in all {
        one.await?;
    }
    Ok(())
}
