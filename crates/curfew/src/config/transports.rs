//! `[transports.*]`: how mail leaves.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use curfew_domain::address;
use curfew_domain::limits::IDEMPOTENCY_MARGIN;

use super::error::Origin;
use super::policies::name_fault;
use super::reader::{self, Reader};
use super::secret::Secret;
use super::settings::Deployment;
use super::stores::word_of;
use super::units::Rate;

const SECOND: Duration = Duration::from_secs(1);
/// A provider's patience between two phases; a longer one holds a worker's slot for nothing.
const PHASE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(10 * 60);
/// After the end marker servers scan and queue (RFC 5321, 4.5.3.2.6: 10 min). Who gives up within a minute makes doubt out of mail
/// that was accepted.
const END: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(3600);
/// More would look like an attack.
const CONNECTIONS_MAX: u32 = 1000;

const TLS: &[(&str, Tls)] = &[("none", Tls::None), ("opportunistic", Tls::Opportunistic), ("required", Tls::Required), ("implicit", Tls::Implicit)];
const AUTH: &[(&str, Auth)] = &[("plain", Auth::Plain), ("login", Auth::Login), ("xoauth2", Auth::Xoauth2)];
const KIND: &[(&str, bool)] = &[("smtp", true), ("capture", false)];

/// A transport.
#[derive(Clone, PartialEq, Debug)]
pub struct Transport {
    /// Its name in the configuration.
    pub name: String,
    /// What it is.
    pub kind: TransportKind,
    /// The sender.
    pub from: From,
    /// `None`: unlimited.
    pub rate: Option<Rate>,
    /// Signs its provider's events.
    pub events_secret: Option<Secret>,
}

/// What a transport is.
#[derive(Clone, PartialEq, Debug)]
pub enum TransportKind {
    /// A mail server.
    Smtp(Box<SmtpSettings>),
    /// `.eml` files under the data folder.
    Capture,
}

/// A sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct From {
    /// The display name.
    pub name: Option<String>,
    /// The mailbox.
    pub address: String,
}

/// `kind = "smtp"`.
#[derive(Clone, PartialEq, Debug)]
pub struct SmtpSettings {
    /// Name or address.
    pub host: String,
    /// 25, or 465 for `smtps://`, unless given.
    pub port: u16,
    /// What TLS is asked for.
    pub tls: Tls,
    /// Roots instead of the public ones.
    pub ca_file: Option<PathBuf>,
    /// Who logs in.
    pub user: Option<String>,
    /// With what; a bearer token for `xoauth2`.
    pub password: Option<Secret>,
    /// How.
    pub auth: Auth,
    /// What EHLO says; `None`: this machine's name.
    pub hello: Option<String>,
    /// Connections at a time.
    pub max_connections: u32,
    /// Of each phase.
    pub timeouts: Timeouts,
    /// How long the provider recognises a key, and the header that carries it.
    pub idempotency: Option<(Duration, String)>,
}

/// What TLS is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// None.
    None,
    /// STARTTLS where offered.
    Opportunistic,
    /// STARTTLS, or nothing is sent.
    Required,
    /// From the first byte (`smtps://`).
    Implicit,
}

/// SASL mechanisms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Auth {
    /// RFC 4616.
    Plain,
    /// The old dialogue.
    Login,
    /// A bearer token.
    Xoauth2,
}

/// A timeout for each phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Name lookup and TCP.
    pub connect: Duration,
    /// The handshake.
    pub tls: Duration,
    /// A reply.
    pub reply: Duration,
    /// A block of content.
    pub block: Duration,
    /// The reply to the end marker; never under 60 s.
    pub end: Duration,
}

/// Reads all transports; embedded, `default` is a capture where nobody says otherwise.
pub fn read(reader: &mut Reader, deployment: Deployment) -> BTreeMap<String, Transport> {
    let mut all = BTreeMap::new();
    for name in reader.given.names("transports") {
        if let Some(says) = name_fault(&name) {
            reader.refuse(&["transports", &name], says);
            continue;
        }
        let transport = one(reader, &name);
        all.insert(name, transport);
    }
    if deployment == Deployment::Embedded && !all.contains_key("default") {
        reader.note(&["transports", "default", "kind"], "capture".into(), Origin::Default);
        let from = sender(reader, "default");
        all.insert("default".into(), Transport { name: "default".into(), kind: TransportKind::Capture, from, rate: None, events_secret: None });
    }
    all
}

fn one(reader: &mut Reader, name: &str) -> Transport {
    let smtp = reader.or(&["transports", name, "kind"], &reader::word(KIND, |v| word_of(KIND, v)), true);
    let from = sender(reader, name);
    // Unlimited unless said: a rate that nobody asked for makes a burst late on a relay that could take it.
    let rate = reader.or(&["transports", name, "rate"], &reader::rate(), None);
    let kind = if smtp { TransportKind::Smtp(Box::new(smtp_settings(reader, name))) } else { TransportKind::Capture };
    let events_secret = reader.secret(&["transports", name, "events_secret"]).map(|(secret, _)| secret);
    Transport { name: name.to_owned(), kind, from, rate, events_secret }
}

fn sender(reader: &mut Reader, name: &str) -> From {
    let default = From { name: Some("Reports".into()), address: "reports@example.com".into() };
    let show = |f: &From| f.name.as_ref().map_or_else(|| f.address.clone(), |name| format!("{name} <{}>", f.address));
    reader.or(&["transports", name, "from"], &reader::parsed("an address, or \"Name <address>\"", from, show), default)
}

fn from(text: &str) -> Option<From> {
    if text.chars().any(char::is_control) {
        return None;
    }
    let (name, address) = match text.trim().strip_suffix('>').and_then(|t| t.rsplit_once('<')) {
        Some((name, address)) => (Some(name.trim().trim_matches('"').to_owned()).filter(|n| !n.is_empty()), address),
        None => (None, text.trim()),
    };
    address::check(address).ok()?;
    Some(From { name, address: address.to_owned() })
}

fn smtp_settings(reader: &mut Reader, name: &str) -> SmtpSettings {
    let path = |key| ["transports", name, key];
    let url = reader::parsed("\"smtp://HOST:PORT\" or \"smtps://HOST:PORT\", without user or path", server, |s| s.to_string());
    let url = reader.or(&path("url"), &url, Server { implicit: false, host: "127.0.0.1".into(), port: 1025 });
    let asked = reader.or(&path("tls"), &reader::word(TLS, |v| word_of(TLS, v)), Tls::Opportunistic);
    let given = reader.entry(&path("tls")).is_some();
    if url.implicit && given && asked != Tls::Implicit {
        reader.refuse(&path("tls"), "contradicts smtps:// in url; allowed there: \"implicit\", or leave it out");
    }
    let ca_file = reader.optional(&path("ca_file"), &reader::text());
    let ca_file = ca_file.and_then(|file| reader.entry(&path("ca_file")).map(|entry| reader::place(&entry, &file)));
    if let Some(Err(e)) = ca_file.as_ref().map(std::fs::metadata) {
        reader.refuse(&path("ca_file"), format!("the file can't be read: {e}"));
    }
    let user = reader.optional(&path("user"), &reader::text());
    let password = reader.secret(&path("password")).map(|(secret, _)| secret);
    if user.is_some() != password.is_some() {
        reader.refuse(&path(if user.is_some() { "user" } else { "password" }), "user and password_file (or password) are needed together");
    }
    SmtpSettings {
        host: url.host,
        port: url.port,
        tls: if url.implicit { Tls::Implicit } else { asked },
        ca_file,
        user,
        password,
        auth: reader.or(&path("auth"), &reader::word(AUTH, |v| word_of(AUTH, v)), Auth::Plain),
        hello: reader.optional(&path("hello"), &reader::parsed("a host name, or an address literal such as \"[192.0.2.1]\"", hello, String::clone)),
        max_connections: reader.or(&path("max_connections"), &reader::integer(1..=CONNECTIONS_MAX), 20),
        timeouts: timeouts(reader, name),
        idempotency: idempotency(reader, name),
    }
}

fn timeouts(reader: &mut Reader, name: &str) -> Timeouts {
    let mut of = |key, range, default| reader.or(&["transports", name, "timeouts", key], &reader::duration(range), default);
    Timeouts {
        connect: of("connect", PHASE, 10 * SECOND),
        tls: of("tls", PHASE, 10 * SECOND),
        reply: of("reply", PHASE, 60 * SECOND),
        block: of("block", PHASE, 180 * SECOND),
        end: of("end", END, 600 * SECOND),
    }
}

fn idempotency(reader: &mut Reader, name: &str) -> Option<(Duration, String)> {
    let path = |key| ["transports", name, key];
    let window = reader::duration(2 * IDEMPOTENCY_MARGIN..=Duration::from_secs(30 * 86_400));
    let window = reader.optional(&path("idempotency_window"), &window);
    let token = |t: &str| (!t.is_empty() && t.bytes().all(|b| b.is_ascii_graphic() && b != b':')).then(|| t.to_owned());
    let header = reader
        .optional(&path("idempotency_header"), &reader::parsed("a header's name, for instance \"Resend-Idempotency-Key\"", token, String::clone));
    match (window, header) {
        (Some(window), Some(header)) => Some((window, header)),
        (Some(_), None) => {
            reader.refuse(&path("idempotency_window"), "over SMTP it also needs idempotency_header, for instance \"Resend-Idempotency-Key\"");
            None
        }
        (None, _) => None,
    }
}

struct Server {
    implicit: bool,
    host: String,
    port: u16,
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{}://{host}:{}", if self.implicit { "smtps" } else { "smtp" }, self.port)
    }
}

fn server(url: &str) -> Option<Server> {
    let (scheme, rest) = url.split_once("://")?;
    let (implicit, port) = match scheme {
        "smtp" => (false, 25),
        "smtps" => (true, 465),
        _ => return None,
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match authority.strip_prefix('[') {
        Some(v6) => {
            let (host, tail) = v6.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, tail.strip_prefix(':').map_or(Some(port), |p| p.parse().ok()).filter(|_| tail.is_empty() || tail.starts_with(':'))?)
        }
        None => match authority.split_once(':') {
            Some((host, given)) => (host, given.parse().ok()?),
            None => (authority, port),
        },
    };
    let named = host.contains(':') || host_name(host);
    (named && port > 0).then(|| Server { implicit, host: host.to_owned(), port })
}

fn hello(text: &str) -> Option<String> {
    let literal = text.starts_with('[') && address::check(&format!("x@{text}")).is_ok();
    (literal || host_name(text)).then(|| text.to_owned())
}

/// Labels of letters, digits and hyphens (and underscores, as container networks have them).
fn host_name(text: &str) -> bool {
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && !l.starts_with('-')
            && !l.ends_with('-')
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    (1..=253).contains(&text.len()) && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_url_has_a_host_a_port_and_nothing_else() {
        let read = |url| server(url).map(|s| s.to_string());
        assert_eq!(read("smtp://127.0.0.1:1025").as_deref(), Some("smtp://127.0.0.1:1025"));
        assert_eq!(read("smtps://mail.example.com").as_deref(), Some("smtps://mail.example.com:465"));
        assert_eq!(read("smtp://[::1]:2525/").as_deref(), Some("smtp://[::1]:2525"));
        for wrong in ["127.0.0.1:25", "http://x", "smtp://", "smtp://u:p@h", "smtp://h/path", "smtp://h:0", "smtp://h:99999", "smtp://[::1]x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_hello_is_a_host_name_or_a_literal() {
        for right in ["mail.example.com", "localhost", "[192.0.2.1]", "[IPv6:2001:db8::1]"] {
            assert!(hello(right).is_some(), "{right}");
        }
        for wrong in ["", "a b", "a..b", "-a.b", "x\r\nMAIL", "[300.0.0.1]", "mäil.example"] {
            assert!(hello(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_sender_has_an_address_that_mail_systems_accept() {
        assert_eq!(from("Reports <reports@example.com>").and_then(|f| f.name).as_deref(), Some("Reports"));
        assert_eq!(from("reports@example.com").map(|f| f.name), Some(None));
        assert!(from("Reports <reports>").is_none() && from("a@b.example\r\nBcc: x@y.example").is_none());
    }
}
