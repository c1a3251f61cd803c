//! One server per test binary; a fleet of its own, with names of its own, per test.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use curfew_broker::rabbit::{Rabbit, Settings};
use curfew_broker::topology::{Names, QueueType};
use curfew_broker::{Broker, BrokerError, Consumer, Delivery, Published, Rung};
use curfew_domain::Shard;
use curfew_testkit::tcp_proxy::TcpProxy;
use curfew_testservers::rabbit::{Rabbit as Server, url_at};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The binary's server, with the shipped policies.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Server::start();
        server.ctl(&["import_definitions", concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/rabbitmq/definitions.json")]);
        server
    })
}

/// `rabbitmqctl`, off the runtime.
pub async fn ctl(args: &[&str]) -> String {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let run = move || server().ctl(&args.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.expect("the bench works")
}

/// A fleet's broker behind a proxy.
pub struct Fleet {
    pub broker: Arc<Rabbit>,
    pub proxy: TcpProxy,
    pub names: Names,
}

/// Two shards under the test's own names.
pub async fn settings(name: &str, queue_type: QueueType) -> (Settings, TcpProxy) {
    let addr = tokio::task::spawn_blocking(|| server().addr()).await.expect("the bench works");
    let proxy = TcpProxy::start(addr).await.expect("the bench works");
    let mut settings = Settings::new(url_at(proxy.addr(), "%2f"), 2);
    settings.names = Names::rehearsal(name);
    settings.queue_type = queue_type;
    settings.times.backoff_max = Duration::from_secs(1);
    (settings, proxy)
}

/// A connected one.
pub async fn fleet(name: &str, queue_type: QueueType) -> Fleet {
    let (settings, proxy) = settings(name, queue_type).await;
    let names = settings.names.clone();
    Fleet { broker: connected(settings).await, proxy, names }
}

pub async fn connected(settings: Settings) -> Arc<Rabbit> {
    let broker = Rabbit::start(settings).expect("the bench works");
    broker.ready(PATIENCE).await.expect("the bench works");
    Arc::new(broker)
}

pub async fn publish(broker: &dyn Broker, shard: u8, rung: Rung, bodies: &[&str]) -> Result<Vec<Published>, BrokerError> {
    broker.publish(Shard(shard), bodies.iter().map(|body| (rung, body.as_bytes().to_vec())).collect()).await
}

pub async fn next(consumer: &dyn Consumer) -> Delivery {
    tokio::time::timeout(PATIENCE, consumer.next()).await.expect("a delivery in time").expect("the stream goes on").expect("not cancelled")
}

/// Waits until the stream fails, acking what comes before.
pub async fn until_ended(consumer: &dyn Consumer) -> BrokerError {
    loop {
        match tokio::time::timeout(PATIENCE, consumer.next()).await.expect("the end is noticed in time") {
            Ok(delivery) => drop(delivery.expect("nobody cancelled")),
            Err(error) => return error,
        }
    }
}

/// Consumes as soon as the broker lets it.
pub async fn consume_again(broker: &dyn Broker, shard: u8, prefetch: u16) -> Box<dyn Consumer> {
    curfew_testkit::eventually(PATIENCE, "a consumer", || async { broker.consume(Shard(shard), prefetch).await.ok() }).await
}

/// Publishes as soon as the broker takes it.
pub async fn publish_again(broker: &dyn Broker, shard: u8, rung: Rung, body: &str) {
    let look = || async { publish(broker, shard, rung, &[body]).await.ok().filter(|answers| answers == &[Published::Confirmed]).map(drop) };
    curfew_testkit::eventually(PATIENCE, "a confirmed publish", look).await;
}

/// Bodies and how often each came, acked, until nothing came for `quiet`.
pub async fn drain_all(consumer: &dyn Consumer, quiet: Duration) -> HashMap<String, u32> {
    let mut seen = HashMap::new();
    while let Ok(next) = tokio::time::timeout(quiet, consumer.next()).await {
        let delivery = next.expect("the stream goes on").expect("nobody cancels");
        consumer.ack(delivery.id).await.expect("the bench works");
        *seen.entry(String::from_utf8(delivery.body).expect("the bench works")).or_insert(0) += 1;
    }
    seen
}
