//! Keeps one connection: connect → declare or verify → open → run → drop all → wait → again.
//!
//! The client's own recovery is off: it has forgotten prefetches and answered on wrong channels, and nothing here wants to be hidden.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties, Event};
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::calls;
use super::declare;
use super::settings::Settings;
use crate::BrokerError;
use crate::topology::Topology;

/// Backstop beside the events: how often the connection's own state is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long a session may take to answer its callers once its connection is gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// What all connections of a process share.
pub(super) struct Shared {
    pub settings: Settings,
    pub topology: Topology,
    pub uri: AMQPUri,
    /// One declares at a time.
    pub declaring: Mutex<()>,
    /// Something was missing: the topology is looked after at once.
    pub repair: Notify,
    /// Turns true once.
    pub closing: watch::Sender<bool>,
    /// Channels that wait for their last answers to be settled.
    pub lingering: watch::Sender<usize>,
}

impl Shared {
    /// The topology, on this connection.
    pub(super) async fn ensure(&self, connection: &Connection) -> Result<(), calls::Failed> {
        let _one = self.declaring.lock().await;
        declare::ensure(connection, &self.topology, self.settings.management, &self.settings.times).await
    }
}

/// What stands at the moment.
pub(super) enum Standing<S> {
    Down(BrokerError),
    Up(Arc<S>),
}

impl<S> Clone for Standing<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Down(why) => Self::Down(why.clone()),
            Self::Up(session) => Self::Up(Arc::clone(session)),
        }
    }
}

/// What was opened on a connection.
pub(super) struct Opened<S> {
    pub session: Arc<S>,
    /// Ends where the session can't go on, with the reason.
    pub ended: BoxFuture<'static, String>,
}

/// Opens a session on a connection; told of blocks by the second argument.
pub(super) type Open<S> =
    Box<dyn Fn(Arc<Connection>, watch::Receiver<Option<String>>) -> BoxFuture<'static, Result<Opened<S>, BrokerError>> + Send + Sync>;

/// One kept connection; it ends when `closing` turns true.
pub(super) struct Link<S> {
    standing: watch::Receiver<Standing<S>>,
    blocked: watch::Receiver<Option<String>>,
    task: JoinHandle<()>,
}

impl<S: Send + Sync + 'static> Link<S> {
    /// Begins at once, on the runtime given.
    pub(super) fn start(shared: Arc<Shared>, purpose: &'static str, runtime: &tokio::runtime::Handle, open: Open<S>) -> Self {
        let (standing_in, standing) = watch::channel(Standing::Down(BrokerError::Unreachable("connecting".to_owned())));
        let (blocked_in, blocked) = watch::channel(None);
        let keeper = Keeper { shared, purpose, open, standing: standing_in, blocked: blocked_in };
        Self { standing, blocked, task: runtime.spawn(keeper.run()) }
    }

    /// The session, where one stands.
    pub(super) fn session(&self) -> Result<Arc<S>, BrokerError> {
        match &*self.standing.borrow() {
            Standing::Up(session) => Ok(Arc::clone(session)),
            Standing::Down(why) => Err(why.clone()),
        }
    }

    /// The session, as soon as one stands.
    pub(super) async fn session_within(&self, limit: Duration) -> Result<Arc<S>, BrokerError> {
        let mut standing = self.standing.clone();
        let up = standing.wait_for(|standing| matches!(standing, Standing::Up(_)));
        let _in_time = tokio::time::timeout(limit, up).await.is_ok();
        self.session()
    }

    /// Why the server takes no publishes, where it doesn't.
    pub(super) fn blocked(&self) -> Option<String> {
        self.blocked.borrow().clone()
    }

    /// Waits for the end, which `closing` asks for.
    pub(super) async fn closed(&self, limit: Duration) {
        let mut standing = self.standing.clone();
        // The sender goes with the task.
        let gone = async { while standing.changed().await.is_ok() {} };
        if tokio::time::timeout(limit, gone).await.is_err() {
            self.task.abort();
        }
    }
}

struct Keeper<S> {
    shared: Arc<Shared>,
    purpose: &'static str,
    open: Open<S>,
    standing: watch::Sender<Standing<S>>,
    blocked: watch::Sender<Option<String>>,
}

impl<S: Send + Sync + 'static> Keeper<S> {
    async fn run(self) {
        let times = self.shared.settings.times;
        let mut closing = self.shared.closing.subscribe();
        let mut wait = times.backoff_min;
        loop {
            let begun = Instant::now();
            let why = match self.keep().await {
                Kept::Closed => return,
                Kept::Lost(why) => why,
            };
            // A connection that stood for a while was a good one: its loss starts a new count.
            if begun.elapsed() > times.backoff_max * 2 {
                wait = times.backoff_min;
            }
            tracing::warn!(error_class = "broker", purpose = self.purpose, "not connected to the broker: {why}");
            self.standing.send_replace(Standing::Down(why));
            self.blocked.send_replace(None);
            let jittered = wait.mul_f64(rand::random_range(0.5..1.0));
            wait = (wait * 2).min(times.backoff_max);
            tokio::select! {
                _closing = closing.wait_for(|closing| *closing) => return,
                () = tokio::time::sleep(jittered) => {}
            }
        }
    }

    /// One connection's life.
    async fn keep(&self) -> Kept {
        let mut closing = self.shared.closing.subscribe();
        let begun = tokio::select! {
            _closing = closing.wait_for(|closing| *closing) => return Kept::Closed,
            begun = self.begin() => begun,
        };
        let (connection, mut events, mut opened) = match begun {
            Ok(begun) => begun,
            Err(why) => return Kept::Lost(why),
        };
        tracing::info!(purpose = self.purpose, "connected to the broker");
        self.standing.send_replace(Standing::Up(Arc::clone(&opened.session)));
        let mut look = tokio::time::interval(LOOK);
        let end = loop {
            tokio::select! {
                _closing = closing.wait_for(|closing| *closing) => break End::Asked,
                why = &mut opened.ended => break End::Session(why),
                event = events.next() => self.heard(event),
                _tick = look.tick() => {}
            }
            // A channel's error is an event too, and the connection lives on.
            if !connection.status().connected() {
                break End::Connection;
            }
        };
        let why = match &end {
            End::Asked => "closed",
            End::Session(why) => why.as_str(),
            End::Connection => "the connection was lost",
        };
        let why = BrokerError::Unreachable(why.to_owned());
        self.standing.send_replace(Standing::Down(why.clone()));
        if matches!(end, End::Connection) {
            let _answered = tokio::time::timeout(FAREWELL, &mut opened.ended).await;
        }
        drop(opened);
        if connection.status().connected() {
            let _bounded = calls::close_connection(&connection, &self.shared.settings.times).await;
        }
        if matches!(end, End::Asked) { Kept::Closed } else { Kept::Lost(why) }
    }

    /// Connects, brings the topology about, and opens the session.
    async fn begin(&self) -> Result<(Arc<Connection>, Events, Opened<S>), BrokerError> {
        let connection = Arc::new(connect(&self.shared, self.purpose).await?);
        let events: Events = Box::pin(connection.events_listener());
        let opening = async {
            self.shared.ensure(&connection).await?;
            (self.open)(Arc::clone(&connection), self.blocked.subscribe()).await
        };
        match opening.await {
            Ok(opened) => Ok((connection, events, opened)),
            Err(why) => {
                let _bounded = calls::close_connection(&connection, &self.shared.settings.times).await;
                Err(why)
            }
        }
    }

    fn heard(&self, event: Option<Event>) {
        match event {
            Some(Event::ConnectionBlocked(why)) => {
                tracing::warn!(error_class = "broker", purpose = self.purpose, "the broker takes no publishes: {why}");
                self.blocked.send_replace(Some(why));
            }
            Some(Event::ConnectionUnblocked) => {
                tracing::info!(purpose = self.purpose, "the broker takes publishes again");
                self.blocked.send_replace(None);
            }
            Some(Event::Error(error)) => tracing::debug!(purpose = self.purpose, "the broker said: {error}"),
            Some(_) | None => {}
        }
    }
}

type Events = BoxStream<'static, Event>;

/// Why a session is over.
enum End {
    Asked,
    Session(String),
    Connection,
}

enum Kept {
    Closed,
    Lost(BrokerError),
}

async fn connect(shared: &Shared, purpose: &str) -> Result<Connection, BrokerError> {
    let name = format!("{} {purpose}", shared.settings.connection_name);
    // Recovery stays off: this file is the recovery.
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let runtime = lapin::runtime::default_runtime().map_err(|error| BrokerError::Settings(error.to_string()))?;
    let tls = lapin::tcp::OwnedTLSConfig { identity: None, cert_chain: shared.settings.ca_pem.clone() };
    let connecting = Connection::connect_uri_with_config(shared.uri.clone(), properties, tls, runtime);
    match tokio::time::timeout(shared.settings.times.connect, connecting).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(BrokerError::Unreachable(error.to_string())),
        Err(_late) => Err(BrokerError::Unreachable(format!("no connection within {:?}", shared.settings.times.connect))),
    }
}
