//! A TCP proxy on loopback that cuts, swallows, delays or stops reading when told.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Bytes moved at once, in each direction.
const CHUNK_BYTES: usize = 16 * 1024;

/// How bytes pass, both ways, on every connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Passage {
    /// At once.
    #[default]
    Open,
    /// Each chunk this much later; the order is kept.
    Delayed(Duration),
    /// Nothing arrives, nothing is refused: bytes and FINs are swallowed, as by a path that died half-way.
    HalfOpen,
    /// What the client says arrives; what the server says is swallowed. So a request is carried out, and nobody hears of it.
    Unanswered,
    /// Nothing is read, so that both windows close.
    StopReading,
    /// As `Open` for what stands; a new connection gets a RST.
    RefuseNew,
}

/// A running proxy. Dropping it ends its connections.
pub struct TcpProxy {
    addr: SocketAddr,
    passage: watch::Sender<Passage>,
    cuts: watch::Sender<u64>,
    losses: watch::Sender<u64>,
    swallowed: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl TcpProxy {
    /// Listens on a free port of 127.0.0.1 and connects each client to `upstream`.
    ///
    /// # Errors
    /// When it can't listen.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let (passage, _) = watch::channel(Passage::Open);
        let (cuts, _) = watch::channel(0);
        let (losses, _) = watch::channel(0);
        let swallowed = Arc::new(AtomicU64::new(0));
        let ways = Ways { upstream, passage: passage.clone(), cuts: cuts.clone(), losses: losses.clone(), swallowed: Arc::clone(&swallowed) };
        let accepting = tokio::spawn(accept(listener, ways));
        Ok(Self { addr, passage, cuts, losses, swallowed, accepting })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// From now on bytes pass like this, on standing connections too.
    pub fn set(&self, passage: Passage) {
        self.passage.send_replace(passage);
    }

    /// Bytes swallowed while half open or unanswered, both ways together.
    pub fn swallowed(&self) -> u64 {
        self.swallowed.load(Ordering::SeqCst)
    }

    /// RST to both sides of every connection that stands; new ones are served.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Every connection that stands is half open for good, whatever the passage: what is said on it is swallowed, and nothing is refused, as by a
    /// firewall that forgot it. New ones are served.
    pub fn lose(&self) {
        self.losses.send_modify(|losses| *losses += 1);
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What every connection needs to know.
struct Ways {
    upstream: SocketAddr,
    passage: watch::Sender<Passage>,
    cuts: watch::Sender<u64>,
    losses: watch::Sender<u64>,
    swallowed: Arc<AtomicU64>,
}

async fn accept(listener: TcpListener, ways: Ways) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((client, _)) if *ways.passage.borrow() == Passage::RefuseNew => reset(&client),
                Ok((client, _)) => {
                    let told = Told { passage: ways.passage.subscribe(), cuts: ways.cuts.subscribe(), losses: ways.losses.subscribe() };
                    connections.spawn(serve(client, ways.upstream, told, Arc::clone(&ways.swallowed)));
                }
                // Out of files: standing connections must end before another try.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
}

/// What a connection hears.
struct Told {
    passage: watch::Receiver<Passage>,
    cuts: watch::Receiver<u64>,
    losses: watch::Receiver<u64>,
}

async fn serve(mut client: TcpStream, upstream: SocketAddr, told: Told, swallowed: Arc<AtomicU64>) {
    let Told { passage, mut cuts, mut losses } = told;
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        reset(&client);
        return;
    };
    // A proxy that waits for full segments would add stalls that no test asked for.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let passed = {
        let (client_in, client_out) = client.split();
        let (server_in, server_out) = server.split();
        let there = pump(client_in, server_out, Way::There, passage.clone(), &swallowed);
        let back = pump(server_in, client_out, Way::Back, passage, &swallowed);
        let both = async { tokio::try_join!(there, back) };
        tokio::select! {
            // A passage that opens right after a loss must not let anything of the lost connection through.
            biased;
            _ = cuts.changed() => Some(false),
            _ = losses.changed() => None,
            passed = both => Some(passed.is_ok()),
        }
    };
    let passed = match passed {
        Some(passed) => passed,
        None => {
            tokio::select! {
                _ = cuts.changed() => {}
                () = swallow_all(&mut client, &mut server, &swallowed) => {}
            }
            false
        }
    };
    if !passed {
        // One side's RST is passed on as such, as the network would.
        reset(&client);
        reset(&server);
    }
}

/// Until both sides have given up, each for itself.
async fn swallow_all(client: &mut TcpStream, server: &mut TcpStream, swallowed: &AtomicU64) {
    let swallow = async |from: &mut TcpStream| {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(length) = from.read(&mut chunk).await
            && length > 0
        {
            swallowed.fetch_add(length as u64, Ordering::SeqCst);
        }
    };
    tokio::join!(swallow(client), swallow(server));
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the client to the server.
    There,
    Back,
}

impl Way {
    /// What a passage means for this way alone.
    fn of(self, passage: Passage) -> Passage {
        match (passage, self) {
            (Passage::Unanswered, Way::There) => Passage::Open,
            (Passage::Unanswered, Way::Back) => Passage::HalfOpen,
            (both_ways, _) => both_ways,
        }
    }
}

/// Moves bytes one way until a FIN, which it passes on.
async fn pump(from: ReadHalf<'_>, mut to: WriteHalf<'_>, way: Way, mut passage: watch::Receiver<Passage>, swallowed: &AtomicU64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let now = way.of(*passage.borrow_and_update());
        if now == Passage::StopReading {
            // An error means the proxy is gone, and this task with it.
            passage.changed().await.map_err(io::Error::other)?;
            continue;
        }
        tokio::select! {
            biased;
            changed = passage.changed() => {
                changed.map_err(io::Error::other)?;
                continue;
            }
            ready = from.readable() => ready?,
        }
        // What was written after `set` returned must find the passage that was set.
        if passage.has_changed().map_err(io::Error::other)? {
            continue;
        }
        let length = match from.try_read(&mut chunk) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        match now {
            Passage::HalfOpen if length == 0 => {
                // The FIN is swallowed for good; the connection stands until it is cut or the passage opens.
                while way.of(*passage.borrow_and_update()) == Passage::HalfOpen {
                    passage.changed().await.map_err(io::Error::other)?;
                }
                return to.shutdown().await;
            }
            Passage::HalfOpen => {
                swallowed.fetch_add(length as u64, Ordering::SeqCst);
                continue;
            }
            Passage::Delayed(delay) => tokio::time::sleep(delay).await,
            Passage::Open | Passage::Unanswered | Passage::StopReading | Passage::RefuseNew => {}
        }
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&chunk[..length]).await?;
    }
}

/// The next close of this stream is a RST.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::eventually;

    /// A client and its echo server, with the proxy between them.
    async fn echo() -> (TcpProxy, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let upstream = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        let proxy = TcpProxy::start(upstream).await.unwrap();
        let client = TcpStream::connect(proxy.addr()).await.unwrap();
        (proxy, client)
    }

    async fn say(client: &mut TcpStream, word: &[u8]) -> Vec<u8> {
        client.write_all(word).await.unwrap();
        let mut answer = vec![0; word.len()];
        client.read_exact(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn open_it_passes_bytes_and_a_cut_is_a_rst() {
        let (proxy, mut client) = echo().await;
        assert_eq!(say(&mut client, b"hello").await, b"hello");
        proxy.cut();
        let error = client.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let mut next = TcpStream::connect(proxy.addr()).await.unwrap();
        assert_eq!(say(&mut next, b"again").await, b"again");
    }

    #[tokio::test]
    async fn half_open_it_swallows_what_is_said_and_open_again_it_passes_only_what_comes_later() {
        let (proxy, mut client) = echo().await;
        assert_eq!(say(&mut client, b"one").await, b"one");
        proxy.set(Passage::HalfOpen);
        client.write_all(b"lost").await.unwrap();
        eventually(Duration::from_secs(10), "four bytes swallowed", || async { (proxy.swallowed() == 4).then_some(()) }).await;
        proxy.set(Passage::Open);
        assert_eq!(say(&mut client, b"two").await, b"two");
    }

    #[tokio::test]
    async fn unanswered_it_passes_what_the_client_says_and_swallows_what_comes_back() {
        let (proxy, mut client) = echo().await;
        assert_eq!(say(&mut client, b"one").await, b"one");
        proxy.set(Passage::Unanswered);
        client.write_all(b"lost").await.unwrap();
        // The echo is what is swallowed, so the word has arrived.
        eventually(Duration::from_secs(10), "the echo is swallowed", || async { (proxy.swallowed() == 4).then_some(()) }).await;
        proxy.set(Passage::Open);
        assert_eq!(say(&mut client, b"two").await, b"two");
    }

    #[tokio::test]
    async fn a_lost_connection_stays_silent_and_a_new_one_is_served() {
        let (proxy, mut lost) = echo().await;
        assert_eq!(say(&mut lost, b"one").await, b"one");
        proxy.lose();
        lost.write_all(b"lost").await.unwrap();
        eventually(Duration::from_secs(10), "four bytes swallowed", || async { (proxy.swallowed() == 4).then_some(()) }).await;
        let mut next = TcpStream::connect(proxy.addr()).await.unwrap();
        assert_eq!(say(&mut next, b"two").await, b"two");
        assert_eq!(lost.try_read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn stopped_it_keeps_what_is_said_and_passes_it_when_opened() {
        let (proxy, mut client) = echo().await;
        assert_eq!(say(&mut client, b"one").await, b"one");
        proxy.set(Passage::StopReading);
        client.write_all(b"two").await.unwrap();
        proxy.set(Passage::Open);
        let mut answer = [0; 3];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"two");
    }

    #[tokio::test]
    async fn a_new_connection_can_be_refused() {
        let (proxy, mut client) = echo().await;
        assert_eq!(say(&mut client, b"one").await, b"one");
        proxy.set(Passage::RefuseNew);
        let mut refused = TcpStream::connect(proxy.addr()).await.unwrap();
        assert!(refused.read_u8().await.is_err());
        assert_eq!(say(&mut client, b"two").await, b"two");
    }
}
