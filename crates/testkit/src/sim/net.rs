//! The network between processes and mail servers: the SMTP driver dials through it as it does over TCP.
//!
//! What a frozen process does waits for its thaw, but for one write: the end marker follows its last look without a gate between them
//! (DESIGN 1: the one gap that nobody can close). A killed process's connections close as a kernel closes them: what it wrote arrives.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use curfew_domain::Moment;
use curfew_transport::classify::Event;
use curfew_transport::smtp::{Dial, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::net_pipe::{Close, Connection, Side};
use super::{Process, Service, Standing, World};
use crate::mail_server::{Accepted, Config, MailServer, Peer};

/// A relay: a mail server, and the weather on the way to it.
pub struct SimRelay {
    world: World,
    service: Arc<Service>,
    server: MailServer,
    open: Mutex<Vec<(Weak<Connection>, AbortHandle)>>,
    /// When an end marker was written, by the number of its connection.
    markers: Mutex<Vec<(u64, Moment)>>,
}

/// A message that a relay accepted, in true time.
#[derive(Clone, Debug)]
pub struct Handoff {
    /// What it accepted.
    pub accepted: Arc<Accepted>,
    /// When the client wrote the end marker.
    pub began: Moment,
    /// When the relay read it, and accepted.
    pub at: Moment,
}

impl SimRelay {
    /// One whose host is `name`. Its clock is the world's true time.
    pub fn new(world: &World, name: &str, config: Config) -> Arc<Self> {
        let true_time = world.clone();
        let clock = Arc::new(move || system_time(&true_time));
        let server = MailServer::simulated(Config { clock, ..config });
        // The driver has its own timeouts; nobody asks this service for its own.
        let service = Service::new(name, Duration::from_secs(10));
        Arc::new(Self { world: world.clone(), service, server, open: Mutex::default(), markers: Mutex::default() })
    }

    /// To script it, and to read what it accepted.
    pub fn server(&self) -> &MailServer {
        &self.server
    }

    /// What it accepted, in that order.
    pub fn handoffs(&self) -> Vec<Handoff> {
        let markers = self.markers.lock().expect("nobody panics while holding it");
        let handoff = |accepted: Arc<Accepted>| {
            let at = moment(accepted.at);
            // A connection carries one handoff after the other, so the last marker before is its own.
            let own = markers.iter().rev().find(|(connection, began)| *connection == accepted.connection && *began <= at);
            Handoff { began: own.map_or(at, |(_, began)| *began), at, accepted }
        };
        self.server.accepted().into_iter().map(handoff).collect()
    }

    /// The weather on its ways. `lost_calls` and `lost_answers` are counted per piece written: its connection breaks, or goes silent.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Breaks every connection on the way; what has landed can still be read.
    pub fn reset_all(&self) {
        for (connection, _) in self.open().iter() {
            if let Some(connection) = connection.upgrade() {
                connection.reset(Close::Orderly);
            }
        }
        self.world.note(&format!("{}: all connections are reset", self.service.name()));
    }

    /// Its host dies with every dialogue; whoever dials is refused until `restart`. What it accepted stays accepted.
    pub fn crash(&self) {
        self.service.weather().down = true;
        for (connection, session) in self.open().drain(..) {
            session.abort();
            if let Some(connection) = connection.upgrade() {
                connection.reset(Close::Abort);
            }
        }
        self.world.note(&format!("{}: it crashes", self.service.name()));
    }

    /// It is up again.
    pub fn restart(&self) {
        self.service.weather().down = false;
        self.world.note(&format!("{}: it is up again", self.service.name()));
    }

    /// The connection, with its number at the server.
    fn connect(&self, process: &Arc<Process>) -> (Arc<Connection>, u64) {
        let connection = Connection::open(&self.world, process, &self.service);
        let peer = ServerEnd { connection: Arc::clone(&connection), by_reset: AtomicBool::new(false) };
        let session = tokio::spawn(self.server.serve(Box::new(peer))).abort_handle();
        let number = self.server.connections();
        let mut open = self.open();
        open.retain(|(connection, _)| connection.strong_count() > 0);
        open.push((Arc::downgrade(&connection), session));
        (connection, number)
    }

    fn open(&self) -> MutexGuard<'_, Vec<(Weak<Connection>, AbortHandle)>> {
        self.open.lock().expect("nobody panics while holding it")
    }
}

fn system_time(world: &World) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(world.now().as_millis()).unwrap_or(0))
}

fn moment(at: SystemTime) -> Moment {
    let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
}

/// One process's way to its relays, by the name of the host.
pub struct SimNet {
    world: World,
    process: Arc<Process>,
    relays: Vec<Arc<SimRelay>>,
    open: Arc<Mutex<Vec<Weak<Connection>>>>,
}

impl SimNet {
    /// The network as this process sees it, on the current runtime.
    pub fn new(world: &World, process: &Arc<Process>, relays: Vec<Arc<SimRelay>>) -> Arc<Self> {
        let open = Arc::<Mutex<Vec<Weak<Connection>>>>::default();
        let (dying, sockets) = (Arc::clone(process), Arc::clone(&open));
        tokio::spawn(async move {
            dying.died().await;
            let sockets = std::mem::take(&mut *sockets.lock().expect("nobody panics while holding it"));
            for connection in sockets.iter().filter_map(Weak::upgrade) {
                connection.close(Side::Client, Close::Orderly);
            }
        });
        Arc::new(Self { world: world.clone(), process: Arc::clone(process), relays, open })
    }

    /// Nobody answers until the phase's end.
    async fn no_answer(&self, relay: &SimRelay, until: Instant) -> Event {
        self.told(relay, "dialled in vain");
        sleep_until(until).await;
        self.process.gate().await;
        Event::TimedOut
    }

    fn told(&self, relay: &SimRelay, what: &str) {
        self.world.count(&format!("{what}: {}", relay.service.name()));
        self.world.note(&format!("{} {}: {what}", self.process.name(), relay.service.name()));
    }
}

#[async_trait]
impl Dial for SimNet {
    async fn dial(&self, host: &str, _port: u16, until: Instant) -> Result<Box<dyn Stream>, Event> {
        self.process.gate().await;
        let relay = self.relays.iter().find(|relay| relay.service.name() == host).ok_or(Event::RelayUnknown)?;
        let weather = relay.service.weather().clone();
        sleep(self.world.between(weather.latency.0, weather.latency.1)).await;
        self.process.gate().await;
        let weather = relay.service.weather().clone();
        if weather.cut_off.contains(self.process.name()) || self.world.happens(weather.lost_calls) {
            return Err(self.no_answer(relay, until).await);
        }
        if weather.down {
            // A host that is gone says nothing; one that lost its server alone refuses.
            if self.world.happens(50.0) {
                return Err(self.no_answer(relay, until).await);
            }
            self.told(relay, "refused");
            sleep(weather.latency.1).await;
            self.process.gate().await;
            return Err(Event::Refused);
        }
        let (connection, number) = relay.connect(&self.process);
        {
            let mut open = self.open.lock().expect("nobody panics while holding it");
            open.retain(|connection| connection.strong_count() > 0);
            open.push(Arc::downgrade(&connection));
        }
        let end = ClientEnd {
            relay: Arc::clone(relay),
            number,
            connection,
            process: Arc::clone(&self.process),
            reading: None,
            writing: None,
            discarded: AtomicBool::new(false),
        };
        self.world.note(&format!("{} {}: connected", self.process.name(), relay.service.name()));
        sleep(self.world.between(weather.latency.0, weather.latency.1)).await;
        self.process.gate().await;
        Ok(Box::new(end))
    }
}

type Gate = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The process's end.
struct ClientEnd {
    relay: Arc<SimRelay>,
    number: u64,
    connection: Arc<Connection>,
    process: Arc<Process>,
    reading: Option<Gate>,
    writing: Option<Gate>,
    discarded: AtomicBool,
}

/// Passes the gate, or waits there.
fn poll_gate(process: &Arc<Process>, gate: &mut Option<Gate>, cx: &mut Context<'_>) -> Poll<()> {
    if gate.is_none() && process.standing() == Standing::Runs {
        return Poll::Ready(());
    }
    let waiting = gate.get_or_insert_with(|| {
        let process = Arc::clone(process);
        Box::pin(async move { process.gate().await })
    });
    ready!(waiting.as_mut().poll(cx));
    *gate = None;
    Poll::Ready(())
}

/// Whether these bytes are the driver's end marker, which it writes by itself.
fn is_marker(bytes: &[u8]) -> bool {
    matches!(bytes, b".\r\n" | b"\r\n.\r\n")
}

impl AsyncRead for ClientEnd {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let end = self.get_mut();
        ready!(poll_gate(&end.process, &mut end.reading, cx));
        end.connection.poll_read(Side::Client, cx, buf)
    }
}

impl AsyncWrite for ClientEnd {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let end = self.get_mut();
        let marker = is_marker(bytes);
        if !marker || end.process.standing() == Standing::Dead {
            ready!(poll_gate(&end.process, &mut end.writing, cx));
        }
        let written = end.connection.poll_write(Side::Client, cx, bytes, marker);
        if marker && matches!(written, Poll::Ready(Ok(_))) {
            let mut markers = end.relay.markers.lock().expect("nobody panics while holding it");
            markers.push((end.number, end.relay.world.now()));
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let end = self.get_mut();
        ready!(poll_gate(&end.process, &mut end.writing, cx));
        end.connection.shut(Side::Client);
        Poll::Ready(Ok(()))
    }
}

impl Stream for ClientEnd {
    fn loopback(&self) -> bool {
        true
    }

    fn discard(&self) {
        self.discarded.store(true, Ordering::SeqCst);
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        let connection = Arc::clone(&self.connection);
        let how = if self.discarded.load(Ordering::SeqCst) { Close::Abort } else { Close::Orderly };
        self.process.when_it_runs(move || connection.close(Side::Client, how));
    }
}

/// The relay's end.
struct ServerEnd {
    connection: Arc<Connection>,
    by_reset: AtomicBool,
}

impl AsyncRead for ServerEnd {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.connection.poll_read(Side::Server, cx, buf)
    }
}

impl AsyncWrite for ServerEnd {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.connection.poll_write(Side::Server, cx, bytes, false)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.shut(Side::Server);
        Poll::Ready(Ok(()))
    }
}

impl Peer for ServerEnd {
    fn close_by_reset(&self) {
        self.by_reset.store(true, Ordering::SeqCst);
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        let how = if self.by_reset.load(Ordering::SeqCst) { Close::Break } else { Close::Orderly };
        self.connection.close(Side::Server, how);
    }
}
