//! A mail server that counts, and that does what a test's script says.
//!
//! Promises
//! - Accepted means: in `accepted` (and in the log file) before the reply leaves.
//! - Without a script it keeps RFC 5321, 2920, 1870, 3207, 4954, 3461 and 6531 as far as a submission goes, and notes where the client doesn't.
//! - Every wait ends: past `Config::patience` it panics and names what it waited for.
//!
//! Not promised: virtual time where its peers are sockets. `simulated` has none, and lives in whatever time the runtime has.
//!
//! Read `script.rs` first, then `session.rs`; `log.rs` is the judge, `scripts.rs` the ready-made behaviours.

mod auth;
mod config;
mod content;
mod envelope;
mod log;
mod progress;
mod script;
pub mod scripts;
mod session;
mod session_stages;
#[cfg(test)]
mod tests;
mod tls;
mod transaction;
mod wire;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub use config::{Config, Credential, Extensions, Mechanism, Tls};
pub use content::HeaderNames;
pub use log::{Accepted, Keep, Recipient};
pub use progress::{Happening, What};
pub use script::{Action, Event, Script, Stage};
pub use tls::{Authority, Certificate};
pub use wire::Peer;

use crate::faults::Dice;
use log::Log;
use progress::Progress;
use session::Session;

/// What all connections of one server share.
struct Shared {
    config: Config,
    script: RwLock<Option<Arc<dyn Script>>>,
    progress: Progress,
    log: Mutex<Log>,
    /// By hash of what is attempted: a load of millions must not keep millions of addresses.
    attempts: Mutex<HashMap<u64, u32>>,
    connections: AtomicU64,
    open: AtomicUsize,
    tls: Option<Arc<ServerConfig>>,
}

impl Shared {
    /// One more attempt of this subject; its number, from 1.
    fn attempt(&self, label: &str, subject: &str) -> u32 {
        let mut attempts = self.attempts.lock().expect("nobody panics while counting");
        let count = attempts.entry(Dice::new(0).number(label, subject.as_bytes(), 0)).or_default();
        *count += 1;
        *count
    }
}

/// A running server. Dropping it ends its connections at once.
pub struct MailServer {
    shared: Arc<Shared>,
    authority: Option<Arc<Authority>>,
    addr: SocketAddr,
    closing: watch::Sender<bool>,
    accepting: Option<JoinHandle<()>>,
}

impl MailServer {
    /// Starts a server on the current tokio runtime.
    ///
    /// # Panics
    /// When it can't listen, or can't open its log file.
    pub async fn start(config: Config) -> Self {
        Self::bind(config).await.expect("the mail server starts")
    }

    /// Starts a server on the current tokio runtime.
    ///
    /// # Errors
    /// When it can't listen, or can't open its log file.
    pub async fn bind(config: Config) -> io::Result<Self> {
        let listener = listen(&config)?;
        let addr = listener.local_addr()?;
        let (closing, closed) = watch::channel(false);
        let mut server = Self::with(config, addr, closing)?;
        server.accepting = Some(tokio::spawn(accept(listener, Arc::clone(&server.shared), closed)));
        Ok(server)
    }

    /// A server that listens nowhere: who has a connection for it calls `serve`. It needs no runtime yet.
    ///
    /// # Panics
    /// When it can't open its log file.
    pub fn simulated(config: Config) -> Self {
        let addr = config.listen;
        Self::with(config, addr, watch::channel(false).0).expect("the mail server starts")
    }

    /// Serves one connection, until one side has had enough. Dropped, it closes the connection.
    pub fn serve(&self, peer: Box<dyn Peer>) -> impl Future<Output = ()> + Send + use<> {
        Session::new(Arc::clone(&self.shared), peer).run()
    }

    fn with(config: Config, addr: SocketAddr, closing: watch::Sender<bool>) -> io::Result<Self> {
        let authority = match (config.tls, &config.authority) {
            (Tls::None, _) => None,
            (Tls::StartTls | Tls::Implicit, Some(authority)) => Some(Arc::clone(authority)),
            (Tls::StartTls | Tls::Implicit, None) => Some(Authority::new()),
        };
        let shared = Arc::new(Shared {
            script: RwLock::new(config.script.clone()),
            progress: Progress::new(config.keep_happenings, config.patience),
            log: Mutex::new(Log::open(config.keep, config.idempotent, config.log_file.as_deref())?),
            attempts: Mutex::default(),
            connections: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            tls: authority.as_ref().map(|authority| authority.server_config(config.certificate)),
            config,
        });
        Ok(Self { shared, authority, addr, closing, accepting: None })
    }

    /// Where it listens; of a simulated one, where it was told to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The certificate of its authority, to write to a file a client trusts; `None` without TLS.
    pub fn ca_pem(&self) -> Option<String> {
        self.authority.as_ref().map(|authority| authority.pem())
    }

    /// From the next stage on, this script decides. What is held stays held.
    pub fn set_script(&self, script: impl Script + 'static) {
        *self.shared.script.write().expect("nobody panics while setting a script") = Some(Arc::new(script));
    }

    /// Lets everything go on that is held now. What is held later waits for the next release.
    pub fn release(&self) {
        self.shared.progress.release();
    }

    /// Waits until a dialogue has come to this stage, since the start of the server.
    pub async fn reached(&self, stage: Stage) {
        self.reached_times(stage, 1).await;
    }

    /// Waits until dialogues have come to this stage so many times.
    pub async fn reached_times(&self, stage: Stage, times: u64) {
        let progress = &self.shared.progress;
        progress.wait_for(&format!("stage {stage:?}, {times} times"), || (progress.times_reached(stage) >= times).then_some(())).await;
    }

    /// Waits until a connection is held at this stage; returns its number.
    pub async fn held(&self, stage: Stage) -> u64 {
        self.held_connections(stage, 1).await[0]
    }

    /// Waits until so many connections are held at this stage at once; returns their numbers.
    pub async fn held_connections(&self, stage: Stage, count: usize) -> Vec<u64> {
        let progress = &self.shared.progress;
        let what = format!("{count} connections held at {stage:?}");
        progress.wait_for(&what, || Some(progress.held_at(stage)).filter(|held| held.len() >= count)).await
    }

    /// Waits until so many messages have been accepted.
    pub async fn accepted_at_least(&self, count: u64) {
        self.shared.progress.wait_for(&format!("{count} accepted messages"), || (self.accepted_count() >= count).then_some(())).await;
    }

    /// Waits until `look` finds something in all that happened so far (`Config::keep_happenings`).
    pub async fn wait_for<T>(&self, what: &str, look: impl Fn(&[Happening]) -> Option<T>) -> T {
        self.shared.progress.wait_for(what, || look(&self.shared.progress.happenings())).await
    }

    /// How often dialogues have come to this stage.
    pub fn times_reached(&self, stage: Stage) -> u64 {
        self.shared.progress.times_reached(stage)
    }

    /// All that happened, in order (`Config::keep_happenings`).
    pub fn happenings(&self) -> Vec<Happening> {
        self.shared.progress.happenings()
    }

    /// Where the client broke a rule of SMTP.
    pub fn violations(&self) -> Vec<Happening> {
        self.shared.progress.violations()
    }

    /// Connections that ended inside a content, before its end marker.
    pub fn cut_off(&self) -> u64 {
        self.shared.progress.cut_off()
    }

    /// Connections since the start.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Connections open now.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// The messages accepted, in order; empty under `Keep::Counts`.
    pub fn accepted(&self) -> Vec<Arc<Accepted>> {
        self.log(Log::messages)
    }

    /// How many messages were accepted.
    pub fn accepted_count(&self) -> u64 {
        self.log(Log::count)
    }

    /// How many messages were accepted of each job.
    pub fn accepted_per_job(&self) -> HashMap<String, u32> {
        self.log(Log::per_job)
    }

    /// How many messages were accepted for each recipient; empty under `Keep::Counts`.
    pub fn accepted_per_recipient(&self) -> HashMap<String, u32> {
        self.log(Log::per_recipient)
    }

    /// How many messages came again under a known idempotency key.
    pub fn duplicates(&self) -> u64 {
        self.log(Log::duplicates)
    }

    /// Ends every connection and frees the port. What was accepted can still be asked.
    pub async fn shutdown(&mut self) {
        self.closing.send_replace(true);
        if let Some(accepting) = self.accepting.take() {
            // A panic inside has been printed already; there is nothing left to stop.
            let _ = accepting.await;
        }
    }

    fn log<T>(&self, read: impl FnOnce(&Log) -> T) -> T {
        read(&self.shared.log.lock().expect("nobody panics while logging"))
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
        }
    }
}

fn listen(config: &Config) -> io::Result<TcpListener> {
    let socket = if config.listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server restarted on its port meets the old one's connections in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    if let Some(bytes) = config.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(config.listen)?;
    socket.listen(1024)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, mut closed: watch::Receiver<bool>) {
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            _ = closed.changed() => break,
            Some(_) = sessions.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // 40 ms stalls between a small reply and the next command would hide every other figure.
                    let _gone = stream.set_nodelay(true);
                    sessions.spawn(Session::new(Arc::clone(&shared), Box::new(stream)).run());
                }
                // Out of files: the connections that hold them must get on before another try.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
    drop(listener);
    sessions.shutdown().await;
}
