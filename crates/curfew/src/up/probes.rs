//! Where a process tells its metrics: `[metrics] listen`, or the next free port of ten. Without one it works all the same.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::net::TcpListener;

/// Ports tried, the first included (CONTRACT).
const PORTS: u16 = 10;

/// Listens, and says where if that isn't where the configuration has it. `None`: nowhere; the API's `/metrics` is still there.
pub async fn listen(at: SocketAddr) -> Option<TcpListener> {
    for n in 0..PORTS {
        let Some(port) = at.port().checked_add(n) else { break };
        let address = SocketAddr::new(at.ip(), port);
        match TcpListener::bind(address).await {
            Ok(listener) => {
                if n > 0 {
                    tracing::info!("[metrics] listen = {at} is taken; the metrics are at {address}");
                }
                return Some(listener);
            }
            Err(e) if e.kind() == ErrorKind::AddrInUse => {}
            Err(e) => {
                tracing::warn!(error_class = "metrics", "[metrics] listen = {address}: {e}; no metrics there");
                return None;
            }
        }
    }
    tracing::warn!(error_class = "metrics", "[metrics] listen = {at}: it and the next ports are taken; no metrics there");
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_gives_way_to_the_next_free_one() {
        let first = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
        let taken = first.local_addr().expect("bound");
        let next = listen(taken).await.expect("one of ten is free").local_addr().expect("bound");
        assert!(next.port() > taken.port() && next.port() < taken.port() + PORTS, "{taken} {next}");
    }
}
