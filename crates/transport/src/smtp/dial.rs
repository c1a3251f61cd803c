//! The seam below the dialogue: who makes the byte stream to a relay. Over TCP in every program; a simulated network dials by itself.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};

use super::dialogue::event_of;
use crate::classify::Event;

/// A connected stream. Dropping it closes it.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {
    /// Whether the other end is this machine.
    fn loopback(&self) -> bool;

    /// The next close destroys the connection: what was written and hasn't left never leaves.
    fn discard(&self);
}

/// Makes streams.
#[async_trait]
pub trait Dial: Send + Sync {
    /// A new stream to this host, before `until`. A dropped future leaves nothing open.
    ///
    /// # Errors
    /// What stood in the way, for the classification table's stage of connecting.
    async fn dial(&self, host: &str, port: u16, until: Instant) -> Result<Box<dyn Stream>, Event>;
}

/// Looks the name up and tries its addresses in order, each with its share of the time that is left.
pub struct TcpDial;

#[async_trait]
impl Dial for TcpDial {
    async fn dial(&self, host: &str, port: u16, until: Instant) -> Result<Box<dyn Stream>, Event> {
        let lookup = timeout_at(until, lookup_host((host, port))).await;
        let addresses: Vec<_> = lookup.map_err(|_elapsed| Event::DnsTemporary)?.map_err(|error| lookup_event(&error))?.collect();
        let mut last = Event::RelayUnknown;
        for (at, address) in addresses.iter().enumerate() {
            // One dead address must not use up the time of the others.
            let share = until.saturating_duration_since(Instant::now()) / u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
            match timeout_at(Instant::now() + share, TcpStream::connect(address)).await {
                Err(_elapsed) => last = Event::TimedOut,
                Ok(Err(error)) => last = event_of(&error),
                Ok(Ok(tcp)) => {
                    // Without it a reply waits 40 ms for an ACK (DESIGN 6).
                    tcp.set_nodelay(true).map_err(|error| event_of(&error))?;
                    return Ok(Box::new(tcp));
                }
            }
        }
        Err(last)
    }
}

impl Stream for TcpStream {
    fn loopback(&self) -> bool {
        self.peer_addr().is_ok_and(|peer| match peer.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
        })
    }

    /// The close then discards what the kernel still holds, and sends a RST.
    fn discard(&self) {
        // A socket that is gone already needs no discarding.
        let _gone = self.set_zero_linger();
    }
}

/// The resolver's errors have no kind of their own; these words are those of glibc, musl and BSD for a name that doesn't exist.
fn lookup_event(error: &io::Error) -> Event {
    const UNKNOWN: [&str; 5] = ["not known", "nodename nor servname", "no address associated", "does not resolve", "name does not exist"];
    let text = error.to_string().to_ascii_lowercase();
    if UNKNOWN.iter().any(|words| text.contains(words)) { Event::RelayUnknown } else { Event::DnsTemporary }
}
