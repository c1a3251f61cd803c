//! Where the ledger's Redis is: a single server, the master that Sentinels name, or the primaries of a Cluster.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::LedgerError;

const SENTINEL_PORT: u16 = 26_379;
const REDIS_PORT: u16 = 6_379;

/// A host and its port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Node {
    pub host: String,
    pub port: u16,
}

/// A parsed URL.
#[derive(Clone)]
pub(super) struct Address {
    pub at: At,
    /// Credentials, database and TLS, with the host of the first node.
    like: ConnectionInfo,
}

/// The three shapes.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum At {
    Single(Node),
    Sentinel { sentinels: Vec<Node>, master: String },
    Cluster(Vec<Node>),
}

impl Address {
    /// `redis://`, `rediss://`, `redis+sentinel://host,host/master[/db]`, `redis+cluster://host,host`; with `rediss+…` over TLS.
    ///
    /// # Errors
    /// `Store`, which never repeats the URL: it may hold a password.
    pub(super) fn parse(url: &str) -> Result<Self, LedgerError> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| misfit("a URL begins with redis://, rediss://, redis+sentinel:// or redis+cluster://"))?;
        let tls = if scheme.starts_with("rediss") { "rediss" } else { "redis" };
        match scheme.strip_prefix(tls).unwrap_or(scheme) {
            "" => {
                let like = info(url)?;
                let node = node_of(like.addr()).ok_or_else(|| misfit("a URL names a host"))?;
                Ok(Self { at: At::Single(node), like })
            }
            "+sentinel" => {
                let (hosts, path) = split(rest);
                let (master, db) = path.split_once('/').unwrap_or((path, "0"));
                if master.is_empty() {
                    return Err(misfit("a redis+sentinel:// URL names the master behind its hosts"));
                }
                let sentinels = nodes(hosts, SENTINEL_PORT)?;
                Ok(Self { like: like(tls, hosts, &sentinels, db)?, at: At::Sentinel { sentinels, master: master.to_owned() } })
            }
            "+cluster" => {
                let (hosts, _path) = split(rest);
                let nodes = nodes(hosts, REDIS_PORT)?;
                Ok(Self { like: like(tls, hosts, &nodes, "0")?, at: At::Cluster(nodes) })
            }
            _unknown => Err(misfit("a URL begins with redis://, rediss://, redis+sentinel:// or redis+cluster://")),
        }
    }

    /// How to reach a Redis node: TCP_NODELAY, or small requests wait on delayed acks.
    pub(super) fn node(&self, node: &Node) -> ConnectionInfo {
        let like = self.like.clone().set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let redis = like.redis_settings().clone().set_skip_set_lib_name();
        like.set_addr(self.addr(node)).set_redis_settings(redis)
    }

    /// How to reach a Sentinel: over TLS where the nodes are; without credentials, for a Sentinel has users of its own.
    pub(super) fn sentinel(&self, node: &Node) -> ConnectionInfo {
        self.node(node).set_redis_settings(redis::RedisConnectionInfo::default().set_skip_set_lib_name())
    }

    fn addr(&self, node: &Node) -> ConnectionAddr {
        match self.like.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: node.host.clone(), port: node.port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _plain => ConnectionAddr::Tcp(node.host.clone(), node.port),
        }
    }
}

fn misfit(what: &str) -> LedgerError {
    LedgerError::Store(format!("the ledger's URL: {what}"))
}

fn info(url: &str) -> Result<ConnectionInfo, LedgerError> {
    url.into_connection_info().map_err(|_secrets_inside| misfit("is not one that Redis clients read"))
}

fn node_of(addr: &ConnectionAddr) -> Option<Node> {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => Some(Node { host: host.clone(), port: *port }),
        _socket => None,
    }
}

/// `user:password@host,host` and what stands behind the slash.
fn split(rest: &str) -> (&str, &str) {
    let rest = rest.split('?').next().unwrap_or(rest);
    rest.split_once('/').unwrap_or((rest, ""))
}

fn nodes(hosts: &str, port: u16) -> Result<Vec<Node>, LedgerError> {
    let hosts = hosts.rsplit_once('@').map_or(hosts, |(_, hosts)| hosts);
    let nodes = hosts.split(',').filter(|host| !host.is_empty()).map(|host| node(host, port));
    let nodes: Vec<Node> = nodes.collect::<Option<_>>().ok_or_else(|| misfit("a host is host:port, with a port from 1 to 65535"))?;
    if nodes.is_empty() { Err(misfit("names no host")) } else { Ok(nodes) }
}

fn node(host: &str, port: u16) -> Option<Node> {
    // An IPv6 address stands in brackets.
    let (host, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_once(':').map_or((host, ""), |(name, _)| (name, &host[name.len()..])),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None if rest.is_empty() => port,
        None => return None,
    };
    Some(Node { host: host.to_owned(), port })
}

/// Credentials and database in the form that the client reads, with the first host.
fn like(tls: &str, hosts: &str, nodes: &[Node], db: &str) -> Result<ConnectionInfo, LedgerError> {
    let credentials = hosts.rsplit_once('@').map_or(String::new(), |(credentials, _)| format!("{credentials}@"));
    let host = if nodes[0].host.contains(':') { format!("[{}]", nodes[0].host) } else { nodes[0].host.clone() };
    info(&format!("{tls}://{credentials}{host}:{}/{}", nodes[0].port, if db.is_empty() { "0" } else { db }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> At {
        Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).at
    }

    fn node(host: &str, port: u16) -> Node {
        Node { host: host.to_owned(), port }
    }

    #[test]
    fn the_three_shapes_are_read() {
        assert_eq!(at("redis://127.0.0.1:6379/0"), At::Single(node("127.0.0.1", 6379)));
        assert_eq!(at("rediss://:secret@redis.example:6380"), At::Single(node("redis.example", 6380)));
        let sentinels = vec![node("a", 1), node("b", 26_379), node("::1", 3)];
        assert_eq!(at("redis+sentinel://user:p%40ss@a:1,b,[::1]:3/mymaster/2"), At::Sentinel { sentinels, master: "mymaster".into() });
        assert_eq!(at("redis+cluster://a,b:7001"), At::Cluster(vec![node("a", 6379), node("b", 7001)]));
    }

    #[test]
    fn credentials_database_and_tls_go_along() {
        let address = Address::parse("rediss+sentinel://user:p%40ss@a:1/mymaster/2").expect("well formed");
        let info = address.node(&node("m", 9));
        let redis = info.redis_settings();
        assert_eq!((redis.username(), redis.password(), redis.db()), (Some("user"), Some("p@ss"), 2));
        assert!(matches!(info.addr(), ConnectionAddr::TcpTls { host, port: 9, .. } if host == "m"));
        assert!(info.tcp_settings().nodelay());
        assert_eq!(address.sentinel(&node("a", 1)).redis_settings().password(), None);
    }

    #[test]
    fn what_is_no_address_is_refused_without_a_word_of_it() {
        for url in ["secret", "http://secret", "redis+sentinel://secret:1", "redis+cluster://", "redis+cluster://secret:99999", "redis://:secret@"] {
            let error = Address::parse(url).err().map(|error| error.to_string()).unwrap_or_else(|| panic!("{url} is taken"));
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
