//! The fleet's broker: RabbitMQ over AMQP 0-9-1, on 3.10 and 4.x.
//!
//! Two connections at most: what publishes may be blocked, and the server reads nothing from a blocked connection, acks included; so
//! consumers and questions have one of their own. Each is kept by a supervisor, and opened by the first that asks for it: a worker publishes
//! nothing and an API neither publishes nor consumes, so they have no connection for it.
//!
//! Not promised, beside the port's own: after a cancel and a close an ack may still be lost (see `consumer.rs`).
//!
//! Read `supervisor.rs` next, then `publisher.rs` and `consumer.rs`. Every AMQP method stands in `calls.rs`.

mod calls;
mod consumer;
mod declare;
mod probe;
mod publisher;
mod settings;
mod supervisor;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use curfew_domain::Shard;
use futures::FutureExt as _;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection};
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::topology::{DeadLettering, QueueType, Topology, routing_key};
use crate::{Broker, BrokerError, Consumer, Depths, Published, QueueState, Rung};
use calls::Failed;
use consumer::Hand;
use publisher::{Owner, REQUESTS_MAX, Request};
use supervisor::{Link, Opened, Shared};

pub use probe::{Found, earliest};
pub use settings::{Management, Settings, Times};

/// How long a consumer or a question waits for a connection that is being made.
const CONNECTION_WAIT: Duration = Duration::from_secs(3);
/// How soon it looks again for the connection after one that ended.
const ENDED_LOOK: Duration = Duration::from_millis(20);

/// A connection to RabbitMQ that keeps itself. Dropping it ends every consumer; `close` ends them in good order.
pub struct Rabbit {
    shared: Arc<Shared>,
    consuming: OnceLock<Link<Consuming>>,
    publishing: OnceLock<Link<Publishing>>,
    rungs: probe::Rungs,
    runtime: tokio::runtime::Handle,
}

/// The consuming connection.
struct Consuming {
    connection: Arc<Connection>,
    /// For questions; a question about what is missing closes it.
    control: Mutex<Option<Channel>>,
    /// Looks after the topology; ends with the session.
    caretaker: tokio::task::AbortHandle,
}

impl Drop for Consuming {
    fn drop(&mut self) {
        self.caretaker.abort();
    }
}

/// The publishing connection.
struct Publishing {
    requests: mpsc::Sender<Request>,
    prober: tokio::task::AbortHandle,
}

impl Drop for Publishing {
    fn drop(&mut self) {
        self.prober.abort();
    }
}

impl Rabbit {
    /// One that connects when it is first asked for something, on the current tokio runtime, and stays connected until it is dropped.
    ///
    /// # Errors
    /// `BrokerError::Settings`.
    pub fn start(settings: Settings) -> Result<Self, BrokerError> {
        if (settings.queue_type, settings.dead_lettering) == (QueueType::Classic, DeadLettering::AtLeastOnce) {
            return Err(BrokerError::Settings("classic queues dead-letter at most once".to_owned()));
        }
        // The parser's own words could repeat the password.
        let mut uri: AMQPUri =
            settings.url.parse().map_err(|_| BrokerError::Settings("the URL isn't amqp://user:password@host:port/vhost".to_owned()))?;
        uri.query.heartbeat = Some(settings.times.heartbeat.as_secs() as u16);
        let shared = Arc::new(Shared {
            topology: settings.topology(),
            settings,
            uri,
            declaring: Mutex::default(),
            repair: Notify::new(),
            closing: watch::Sender::new(false),
            lingering: watch::Sender::new(0),
        });
        let runtime = tokio::runtime::Handle::current();
        Ok(Self { shared, consuming: OnceLock::new(), publishing: OnceLock::new(), rungs: probe::Rungs::default(), runtime })
    }

    /// Waits until both its connections stand and the topology is there.
    ///
    /// # Errors
    /// What stood in the way last; it goes on trying.
    pub async fn ready(&self, limit: Duration) -> Result<(), BrokerError> {
        let (consuming, publishing) = tokio::join!(self.consuming().session_within(limit), self.publishing().session_within(limit));
        consuming.map(|_| ()).and(publishing.map(|_| ()))
    }

    /// What the newest connection's probes of the rungs found so far. An `Early` or a `Lost` is for a person.
    pub fn rungs(&self) -> BTreeMap<u8, Found> {
        self.rungs.lock().expect("no holder panics").clone()
    }

    /// The topology it declares or verifies.
    pub fn topology(&self) -> &Topology {
        &self.shared.topology
    }

    /// Deletes a rehearsal's exchanges and queues with what they hold. Repeating is safe.
    ///
    /// # Errors
    /// `BrokerError::Settings` under the fleet's own names; others of `BrokerError`.
    pub async fn remove(&self) -> Result<(), BrokerError> {
        if self.shared.settings.names.are_the_fleets() {
            return Err(BrokerError::Settings("the fleet's own queues are nothing to remove".to_owned()));
        }
        let session = self.consuming().session_within(CONNECTION_WAIT).await?;
        // What looks after the topology would bring it back.
        session.caretaker.abort();
        let _one = self.shared.declaring.lock().await;
        Ok(declare::remove(&session.connection, &self.shared.topology, &self.shared.settings.times).await?)
    }

    fn consuming(&self) -> &Link<Consuming> {
        self.consuming.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            let open = move |connection: Arc<Connection>, _blocked| {
                let caretaker = tokio::spawn(look_after(Arc::clone(&shared), Arc::clone(&connection))).abort_handle();
                let session = Arc::new(Consuming { connection, control: Mutex::default(), caretaker });
                async { Ok(Opened { session, ended: std::future::pending().boxed() }) }.boxed()
            };
            Link::start(Arc::clone(&self.shared), "consume", &self.runtime, Box::new(open))
        })
    }

    fn publishing(&self) -> &Link<Publishing> {
        self.publishing.get_or_init(|| {
            let (shared, rungs) = (Arc::clone(&self.shared), Arc::clone(&self.rungs));
            let open = move |connection: Arc<Connection>, blocked| {
                let (shared, rungs) = (Arc::clone(&shared), Arc::clone(&rungs));
                async move {
                    let channel = calls::confirming_channel(&connection, &shared.settings.times).await?;
                    let (requests, inbox) = mpsc::channel(REQUESTS_MAX);
                    let owner = Owner::new(Arc::clone(&shared), channel, blocked);
                    // A task of its own: the supervisor's turns must not delay it.
                    let owner = tokio::spawn(owner.run(inbox));
                    let ended = async move { owner.await.unwrap_or_else(|broken| format!("the publisher broke: {broken}")) }.boxed();
                    let prober = tokio::spawn(probe::run(shared, connection, rungs)).abort_handle();
                    Ok(Opened { session: Arc::new(Publishing { requests, prober }), ended })
                }
                .boxed()
            };
            Link::start(Arc::clone(&self.shared), "publish", &self.runtime, Box::new(open))
        })
    }

    fn check(&self, shard: Shard) -> Result<(), BrokerError> {
        let known = shard.0 < self.shared.settings.shards;
        known.then_some(()).ok_or_else(|| BrokerError::Topology(format!("there is no queue {}", self.shared.settings.names.ready_queue(shard))))
    }

    async fn consume_queue(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        let until = Instant::now() + CONNECTION_WAIT;
        loop {
            let session = self.consuming().session_within(until.saturating_duration_since(Instant::now())).await?;
            match self.hand(&session, queue, prefetch).await {
                Ok(hand) => return Ok(Box::new(hand)),
                // The connection has just ended, and its supervisor hasn't heard of it yet: the next one is meant.
                Err(_ended) if !session.connection.status().connected() && Instant::now() < until => tokio::time::sleep(ENDED_LOOK).await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn hand(&self, session: &Consuming, queue: &str, prefetch: u16) -> Result<Hand, BrokerError> {
        let open = || Hand::open(Arc::clone(&self.shared), &session.connection, queue, prefetch);
        match open().await {
            Err(missing) if missing.is_missing() => {
                self.repair(session, &missing).await?;
                Ok(open().await?)
            }
            opened => Ok(opened?),
        }
    }

    async fn counts(&self, queue: &str) -> Result<(u64, u64), BrokerError> {
        let session = self.consuming().session_within(CONNECTION_WAIT).await?;
        match self.ask(&session, queue).await {
            Err(missing) if missing.is_missing() => {
                self.repair(&session, &missing).await?;
                Ok(self.ask(&session, queue).await?)
            }
            counted => Ok(counted?),
        }
    }

    async fn ask(&self, session: &Consuming, queue: &str) -> Result<(u64, u64), Failed> {
        let times = &self.shared.settings.times;
        let mut control = session.control.lock().await;
        let channel = match control.take().filter(|channel| channel.status().connected()) {
            Some(channel) => channel,
            None => calls::channel(&session.connection, times).await?,
        };
        let counted = calls::counts(&channel, queue, times).await?;
        *control = Some(channel);
        Ok(counted)
    }

    async fn repair(&self, session: &Consuming, missing: &Failed) -> Result<(), BrokerError> {
        tracing::warn!(error_class = "broker", "the topology has a hole: {}", BrokerError::from(missing.clone()));
        Ok(self.shared.ensure(&session.connection).await?)
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        self.shared.closing.send_replace(true);
    }
}

/// Brings the topology about when something was missed, and now and then; ends with its session.
async fn look_after(shared: Arc<Shared>, connection: Arc<Connection>) {
    loop {
        let _why = timeout(shared.settings.times.look_after, shared.repair.notified()).await;
        if let Err(error) = shared.ensure(&connection).await {
            tracing::error!(error_class = "broker", "the topology isn't ours: {}", BrokerError::from(error));
        }
        // Many returned messages are one hole.
        tokio::time::sleep(shared.settings.times.backoff_min).await;
    }
}

#[async_trait]
impl Broker for Rabbit {
    async fn publish(&self, shard: Shard, messages: Vec<(Rung, Vec<u8>)>) -> Result<Vec<Published>, BrokerError> {
        self.check(shard)?;
        let link = self.publishing();
        let session = link.session()?;
        if let Some(why) = link.blocked() {
            return Err(BrokerError::Blocked(why));
        }
        let count = messages.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let (reply, answered) = oneshot::channel();
        let confirm = self.shared.settings.times.confirm;
        let request = Request { routing_key: routing_key(shard), messages, reply };
        match timeout(confirm, session.requests.send(request)).await {
            Ok(Ok(())) => {}
            Ok(Err(_closed)) => return Err(BrokerError::Unreachable("the publishing channel is closed".to_owned())),
            Err(_late) => return Err(BrokerError::Unreachable("the publishing channel is busy".to_owned())),
        }
        // The owner bounds each message; this bounds the owner.
        match timeout(confirm * 3, answered).await {
            Ok(Ok(answers)) => answers,
            Ok(Err(_)) | Err(_) => Ok(vec![Published::Unanswered; count]),
        }
    }

    async fn consume(&self, shard: Shard, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        self.check(shard)?;
        self.consume_queue(&self.shared.settings.names.ready_queue(shard), prefetch).await
    }

    async fn consume_dead(&self, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        self.consume_queue(&self.shared.settings.names.dead_letters(), prefetch).await
    }

    async fn ready_state(&self, shard: Shard) -> Result<QueueState, BrokerError> {
        self.check(shard)?;
        let (ready, consumers) = self.counts(&self.shared.settings.names.ready_queue(shard)).await?;
        Ok(QueueState { ready, unacked: None, consumers })
    }

    async fn depths(&self) -> Result<Depths, BrokerError> {
        let names = &self.shared.settings.names;
        let (unrouted, _) = self.counts(&names.unrouted()).await?;
        let (dead_letters, _) = self.counts(&names.dead_letters()).await?;
        let (parked, _) = self.counts(&names.parked()).await?;
        Ok(Depths { unrouted, dead_letters, parked })
    }

    fn is_open(&self) -> bool {
        let link = self.publishing();
        link.session().is_ok() && link.blocked().is_none()
    }

    async fn close(&self) {
        let times = &self.shared.settings.times;
        let mut lingering = self.shared.lingering.subscribe();
        let settled = lingering.wait_for(|channels| *channels == 0);
        let _bounded = timeout(times.linger + times.call, settled).await.is_ok();
        self.shared.closing.send_replace(true);
        if let Some(consuming) = self.consuming.get() {
            consuming.closed(times.call).await;
        }
        if let Some(publishing) = self.publishing.get() {
            publishing.closed(times.call).await;
        }
    }
}
