//! What a mail server is started with.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::content::HeaderNames;
use super::log::Keep;
use super::script::Script;
use super::tls::{Authority, Certificate};

/// How a connection gets its TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tls {
    /// Never.
    #[default]
    None,
    /// By STARTTLS, which is offered until it was used.
    StartTls,
    /// From the first byte.
    Implicit,
}

/// A way to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// RFC 4616.
    Plain,
    /// Microsoft's, never specified, everywhere in use.
    Login,
    /// Google's and Microsoft's bearer token.
    XOAuth2,
}

/// A user the server knows; for `XOAuth2` the secret is the token.
#[derive(Clone)]
pub struct Credential {
    /// The user's name.
    pub user: String,
    /// Password or token.
    pub secret: String,
}

/// What EHLO offers. STARTTLS is offered by `Tls::StartTls`.
#[derive(Debug, Clone)]
pub struct Extensions {
    /// PIPELINING (RFC 2920).
    pub pipelining: bool,
    /// SIZE (RFC 1870) with its limit in bytes; 0 is "no fixed limit".
    pub size: Option<u64>,
    /// 8BITMIME (RFC 6152).
    pub eight_bit_mime: bool,
    /// SMTPUTF8 (RFC 6531).
    pub smtp_utf8: bool,
    /// DSN (RFC 3461).
    pub dsn: bool,
    /// ENHANCEDSTATUSCODES (RFC 2034); without it replies carry none.
    pub enhanced_status_codes: bool,
    /// AUTH (RFC 4954); not offered when empty.
    pub auth: Vec<Mechanism>,
    /// More lines, as written.
    pub others: Vec<String>,
}

impl Extensions {
    /// A server of 1982.
    pub fn none() -> Self {
        Self {
            pipelining: false,
            size: None,
            eight_bit_mime: false,
            smtp_utf8: false,
            dsn: false,
            enhanced_status_codes: false,
            auth: Vec::new(),
            others: Vec::new(),
        }
    }
}

impl Default for Extensions {
    /// All of them but AUTH, with a SIZE of 35 MiB.
    fn default() -> Self {
        Self {
            pipelining: true,
            size: Some(35 * 1024 * 1024),
            eight_bit_mime: true,
            smtp_utf8: true,
            dsn: true,
            enhanced_status_codes: true,
            ..Self::none()
        }
    }
}

/// Everything a server is started with; `Config::default()` is an obedient server without TLS on a free port of 127.0.0.1.
#[derive(Clone)]
pub struct Config {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Its name in the greeting.
    pub name: String,
    /// What EHLO offers.
    pub extensions: Extensions,
    /// How a connection gets its TLS.
    pub tls: Tls,
    /// Who signs its certificate; `None` makes a new one. Share one to restart a server under the same trust.
    pub authority: Option<Arc<Authority>>,
    /// Which certificate it shows.
    pub certificate: Certificate,
    /// Who may log in; `None` lets everybody in.
    pub credentials: Option<Vec<Credential>>,
    /// Whether MAIL needs a login first (530).
    pub require_auth: bool,
    /// Whether MAIL and AUTH need TLS first (530, 538); until then AUTH isn't offered.
    pub require_tls: bool,
    /// What it does at each stage; `None` is a correct server, and the fastest.
    pub script: Option<Arc<dyn Script>>,
    /// How much of each message is kept.
    pub keep: Keep,
    /// Where a JSON line per accepted message is appended; no addresses, no content.
    pub log_file: Option<PathBuf>,
    /// Which headers name the job and the idempotency key.
    pub headers: HeaderNames,
    /// Whether a second message with a known idempotency key is a duplicate.
    pub idempotent: bool,
    /// The kernel's receive buffer of each connection; a small one makes `StopReading` close the window early. `None` leaves the system's.
    pub receive_buffer_bytes: Option<u32>,
    /// Whether every happening is kept; turn it off where millions of messages pass.
    pub keep_happenings: bool,
    /// What `Accepted::at` is read from; a simulation has its own time.
    pub clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// How long `reached`, `held` and their like wait before they panic.
    pub patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            name: "mail.testkit.example".into(),
            extensions: Extensions::default(),
            tls: Tls::None,
            authority: None,
            certificate: Certificate::Right,
            credentials: None,
            require_auth: false,
            require_tls: false,
            script: None,
            keep: Keep::Everything,
            log_file: None,
            headers: HeaderNames::default(),
            idempotent: false,
            receive_buffer_bytes: None,
            keep_happenings: true,
            clock: Arc::new(SystemTime::now),
            patience: Duration::from_secs(30),
        }
    }
}

impl Config {
    /// An obedient server but for this script.
    pub fn scripted(script: impl Script + 'static) -> Self {
        Self::default().with_script(script)
    }

    /// The same with this script.
    pub fn with_script(self, script: impl Script + 'static) -> Self {
        Self { script: Some(Arc::new(script)), ..self }
    }

    /// A sink for load: counts alone, nothing kept that grows with the number of messages but the counts per job.
    pub fn sink() -> Self {
        Self { keep: Keep::Counts, keep_happenings: false, ..Self::default() }
    }
}
