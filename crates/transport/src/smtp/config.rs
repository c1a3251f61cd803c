//! What an SMTP transport is set up with, and the bounds of each value.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::TransportError;

/// A reply to the end marker takes providers minutes; a shorter wait manufactures doubt, and once did duplicates (MAIL_FACTS A.2).
pub const END_MIN: Duration = Duration::from_secs(60);
/// RFC 5321 §4.5.3.2.6 asks for ten minutes; three times that is a typing error.
pub const END_MAX: Duration = Duration::from_secs(30 * 60);
/// Bounds of the other phases.
pub const PHASE_MIN: Duration = Duration::from_secs(1);
/// The longest that RFC 5321 §4.5.3.2 names before the end marker is five minutes.
pub const PHASE_MAX: Duration = Duration::from_secs(10 * 60);
/// More connections than this to one provider are an attack.
pub const CONNECTIONS_MAX: usize = 1_000;

/// How the connection gets its TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// From the first byte (`smtps://`).
    Implicit,
    /// By STARTTLS; without it nothing is sent.
    Required,
    /// By STARTTLS where offered. Without a login the certificate isn't verified: whoever could forge it could as well hide STARTTLS.
    Opportunistic,
    /// Never.
    None,
}

/// How to log in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// RFC 4616.
    Plain,
    /// The one without a specification.
    Login,
    /// A bearer token, as Google and Microsoft want it; the password is the token.
    XOAuth2,
}

impl Mechanism {
    /// Its word in EHLO and AUTH.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Login => "LOGIN",
            Self::XOAuth2 => "XOAUTH2",
        }
    }
}

/// A password or token. No `Display`; `Debug` is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret in.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A user and how it logs in. The password travels under TLS, or to a loopback address, or not at all.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The mechanism; it must be offered.
    pub mechanism: Mechanism,
    /// The user's name.
    pub user: String,
    /// Password or token.
    pub password: Secret,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.mechanism.word())
    }
}

/// How long each phase may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Name lookup and TCP, all addresses together; also the wait for a free connection of the pool.
    pub connect: Duration,
    /// The TLS handshake.
    pub tls: Duration,
    /// Each reply before the content, the greeting included.
    pub reply: Duration,
    /// Each block of content, and half of the whole content.
    pub block: Duration,
    /// From the end marker to its reply.
    pub end: Duration,
    /// NOOP on a pooled connection.
    pub noop: Duration,
    /// QUIT, and the whole of `close`.
    pub quit: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            tls: Duration::from_secs(10),
            reply: Duration::from_secs(60),
            block: Duration::from_secs(3 * 60),
            end: Duration::from_secs(10 * 60),
            noop: Duration::from_secs(5),
            quit: Duration::from_secs(2),
        }
    }
}

/// What the pool does with connections that have nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// A connection idle for longer is closed; servers close theirs after some minutes.
    pub idle: Duration,
    /// One idle for longer is asked by NOOP before it is used.
    pub unasked: Duration,
    /// Transactions after which a connection is closed; providers count them.
    pub messages: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { idle: Duration::from_secs(45), unasked: Duration::from_secs(5), messages: 1_000 }
    }
}

/// One SMTP transport.
#[derive(Clone, Debug)]
pub struct SmtpConfig {
    /// The relay's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How TLS comes about.
    pub tls: TlsMode,
    /// Certificates of the authorities to trust, PEM, instead of the built-in ones.
    pub ca_file: Option<PathBuf>,
    /// The login, if one is needed.
    pub auth: Option<Login>,
    /// Our name in EHLO: a domain or an address literal.
    pub hello: String,
    /// Connections at once.
    pub max_connections: usize,
    /// The phases' bounds.
    pub timeouts: Timeouts,
    /// The pool's rules.
    pub keep: Keep,
    /// A planted bug: a connection goes back to the pool after anything, and nobody looks whether its replies are in step.
    #[cfg(feature = "planted-bugs")]
    pub reuse_dirty: bool,
}

impl SmtpConfig {
    /// A transport to this relay with the defaults of the contract.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            tls: TlsMode::Opportunistic,
            ca_file: None,
            auth: None,
            hello: "localhost".into(),
            max_connections: 20,
            timeouts: Timeouts::default(),
            keep: Keep::default(),
            #[cfg(feature = "planted-bugs")]
            reuse_dirty: false,
        }
    }

    /// Checks every value against its bound; the error names the key.
    ///
    /// # Errors
    /// `TransportError::Config` for the first value that is out of its bounds.
    pub fn check(&self) -> Result<(), TransportError> {
        self.check_names()?;
        let phases = [
            ("timeouts.connect", self.timeouts.connect, PHASE_MIN, PHASE_MAX),
            ("timeouts.tls", self.timeouts.tls, PHASE_MIN, PHASE_MAX),
            ("timeouts.reply", self.timeouts.reply, PHASE_MIN, PHASE_MAX),
            ("timeouts.block", self.timeouts.block, PHASE_MIN, PHASE_MAX),
            ("timeouts.end", self.timeouts.end, END_MIN, END_MAX),
        ];
        for (field, value, min, max) in phases {
            check(field, (min..=max).contains(&value), || format!("{value:?} is not between {min:?} and {max:?}"))?;
        }
        Ok(())
    }

    /// Whether the bug is planted.
    #[cfg(feature = "planted-bugs")]
    pub(super) fn reuses_dirty(&self) -> bool {
        self.reuse_dirty
    }

    /// Never, in every program.
    #[cfg(not(feature = "planted-bugs"))]
    pub(super) const fn reuses_dirty(&self) -> bool {
        false
    }

    /// What would break a dialogue, whatever the timeouts.
    pub(super) fn check_names(&self) -> Result<(), TransportError> {
        let one_word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        check("url", one_word(&self.host), || "the host is empty or holds blanks".into())?;
        check("hello", one_word(&self.hello), || "must be a domain or an address literal, without blanks".into())?;
        check("max_connections", (1..=CONNECTIONS_MAX).contains(&self.max_connections), || format!("must be 1 to {CONNECTIONS_MAX}"))?;
        let good_user = self.auth.as_ref().is_none_or(|login| !login.user.bytes().any(|b| b.is_ascii_control()));
        check("user", good_user, || "holds control characters".into())?;
        let good_password = self.auth.as_ref().is_none_or(|login| !login.password.expose().bytes().any(|b| b.is_ascii_control()));
        check("password_file", good_password, || "the password holds control characters, perhaps a line end".into())
    }
}

fn check(field: &'static str, good: bool, problem: impl FnOnce() -> String) -> Result<(), TransportError> {
    if good { Ok(()) } else { Err(TransportError::Config { field, problem: problem() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut SmtpConfig)) -> Option<&'static str> {
        let mut config = SmtpConfig::new("relay.example", 25);
        change(&mut config);
        match config.check() {
            Ok(()) => None,
            Err(TransportError::Config { field, .. } | TransportError::File { field, .. }) => Some(field),
        }
    }

    #[test]
    fn the_defaults_are_within_their_bounds() {
        assert_eq!(refused(|_| {}), None);
    }

    /// Incident 6: a final timeout of 5 s gave up to seven copies.
    #[test]
    fn a_final_timeout_under_a_minute_is_refused_and_named() {
        assert_eq!(refused(|c| c.timeouts.end = Duration::from_secs(59)), Some("timeouts.end"));
        assert_eq!(refused(|c| c.timeouts.end = Duration::from_secs(60)), None);
    }

    #[test]
    fn values_that_would_inject_a_command_are_refused() {
        assert_eq!(refused(|c| c.hello = "a\r\nMAIL".into()), Some("hello"));
        assert_eq!(refused(|c| c.host = "relay.example ".into()), Some("url"));
        assert_eq!(refused(|c| c.max_connections = 0), Some("max_connections"));
    }

    #[test]
    fn no_secret_is_printed() {
        let login = Login { mechanism: Mechanism::Plain, user: "ada".into(), password: Secret::new("tops") };
        assert!(!format!("{login:?} {:?}", login.password).contains("tops"));
        assert!(!format!("{login:?}").contains("ada"));
    }
}
