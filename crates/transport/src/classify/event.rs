//! What can happen to a dialogue instead of a reply, and how a described happening is read.

use curfew_domain::outcome::Stage;

use super::reader;

/// A happening, as the driver meets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// No answer, or no room to write, within the phase's time.
    TimedOut,
    /// The connection was reset.
    Reset,
    /// The connection was closed, in TCP or by TLS.
    Closed,
    /// The TCP connection was refused.
    Refused,
    /// No route to the host or its network.
    NoRoute,
    /// The resolver gave no answer, or a temporary error.
    DnsTemporary,
    /// The configured relay's name doesn't exist.
    RelayUnknown,
    /// The recipient's domain doesn't exist, or takes no mail (null MX, RFC 7505).
    RecipientDomainUnknown,
    /// The local address to connect from isn't there.
    BindUnavailable,
    /// The certificate is for another name.
    CertificateName,
    /// The certificate is expired, not yet valid, revoked, or malformed.
    CertificateInvalid,
    /// The certificate's issuer isn't trusted.
    UnknownIssuer,
    /// No common version, cipher or protocol; also a server that speaks no TLS there.
    NoCommonTls,
    /// The handshake broke off for no certificate's reason.
    HandshakeFailed,
    /// Bytes stood behind the answer to STARTTLS before the handshake.
    TlsInjection,
    /// The server doesn't offer STARTTLS, and the transport requires it.
    StarttlsMissing,
    /// The server offers no AUTH mechanism that the transport has.
    MechanismMissing,
    /// The transport's secret can't be read.
    CredentialsMissing,
    /// The server lacks an extension that this message needs, or announced a SIZE below it.
    ExtensionMissing,
    /// The other side speaks another protocol.
    NotSmtp,
    /// A write failed.
    BrokenPipe,
    /// The worker died, and nothing says that the end marker was out.
    WorkerDied,
    /// The worker died, and the intent doesn't exclude that the end marker was out.
    WorkerDiedInDoubt,
    /// The wait was given up: drain, shutdown, last look.
    Cancelled,
    /// A reply broke off, can't be parsed, or answers another command.
    IncompleteReply,
    /// Anything else.
    Unknown,
}

/// Patterns of descriptions, the more exact ones first. The syntax is `reader`'s.
const DESCRIPTIONS: &[(Event, &str)] = &[
    (Event::WorkerDiedInDoubt, "marker/dot ~ may ~ out, marker ~ present/set/found/exists"),
    (
        Event::TlsInjection,
        "\
        plaintext/cleartext/extra/leftover/unencrypted bytes/data, injection/injected, buffered behind/before/after, \
        bytes ~ behind/before ~ handshake/tls",
    ),
    (
        Event::DnsTemporary,
        "\
        servfail, eai again, dns/resolver/resolution/lookup ~ timeout/timed/temporary, temporary ~ resolution/lookup/dns",
    ),
    (
        Event::RecipientDomainUnknown,
        "\
        nxdomain/nodata ~ recipient/recipients/destination, null mx, recipient/destination domain ~ not/no, mx mode, no ~ mx ~ recipient/domain, \
        no such domain ~ recipient",
    ),
    (
        Event::DnsTemporary,
        "\
        dns/resolver/resolving/resolution/lookup ~ temporarily/failure/unavailable/unreachable/refused, resolver",
    ),
    (
        Event::RelayUnknown,
        "\
        nxdomain, nodata, no such host, unknown host, host/name ~ not ~ known/found/exist/resolve/resolved, host/name does not exist, \
        name or service not known, nodename nor servname, eai noname, enotfound, no ~ address/addresses/record/records",
    ),
    (Event::BindUnavailable, "eaddrnotavail, bind ~ address/failed/failure, local/source/bind address"),
    (Event::Refused, "econnrefused, connection/connect ~ refused, refused ~ connection, actively refused"),
    (Event::NoRoute, "ehostunreach/enetunreach/enetdown/ehostdown, no route, host/network ~ unreachable/down"),
    (
        Event::StarttlsMissing,
        "\
        starttls ~ not/missing/absent, not/no ~ starttls, without starttls, requires/required tls, lacks starttls",
    ),
    (
        Event::MechanismMissing,
        "\
        no ~ mechanism/mechanisms, mechanism* ~ not/unsupported/missing, auth not ~ offered/advertised/supported, no auth",
    ),
    (Event::CredentialsMissing, "credential*/secret/password/token ~ missing/unreadable/expired/unset/not/cannot"),
    (
        Event::ExtensionMissing,
        "\
        smtputf*/bitmime/size/extension ~ not/missing/unsupported/lacks/below/smaller/exceeds, no/without/lacks smtputf*/bitmime, \
        larger than ~ size",
    ),
    (
        Event::CertificateName,
        "\
        certificate/cert/host*/san/subject/name* ~ mismatch/match/differ/differs, certificate ~ other/another/wrong/different, wrong host/name, \
        not valid for name",
    ),
    (
        Event::UnknownIssuer,
        "\
        unknown issuer/ca/authority, unknownissuer, self signed, selfsigned, untrusted, not trusted, issuer, certificate ~ verif*/chain/authority",
    ),
    (
        Event::CertificateInvalid,
        "\
        certificate/cert ~ expired/revoked/invalid/valid/malformed/bad/rejected/weak, expired/revoked/bad/invalid certificate/cert, notvalidyet, \
        certificate",
    ),
    (
        Event::NoCommonTls,
        "\
        no common/shared/mutual, no ~ version/cipher/protocol ~ common, protocol version, unsupported ~ version/protocol/cipher, wrong version, \
        cipher* ~ mismatch/common/overlap, version/protocol ~ mismatch/supported/unsupported/old, not ~ tls, no tls, plaintext/cleartext, \
        inappropriate fallback, tls ~ too old, alert ~ version",
    ),
    (
        Event::NotSmtp,
        "\
        not ~ smtp, http, ssh, imap, pop, ftp, wrong port/protocol/service, tls ~ record/bytes/greeting, garbage ~ greeting, html",
    ),
    (
        Event::WorkerDied,
        "\
        worker/process ~ killed/crashed/crash/died/lost/panicked/aborted/exited/gone/dies, sigkill/sigterm/oom, kill* ~ worker/process, \
        power/machine/node/host ~ lost/failure",
    ),
    (Event::Cancelled, "cancel*, shutdown, abandoned, aborted by/task, drain*, last look, future dropped"),
    (
        Event::IncompleteReply,
        "\
        incomplete, partial, unparsable/unparseable/malformed/garbage/garbled/invalid/truncated, not ~ parsed/parse/reply, first line, \
        multi line, non utf, desync*, unexpected",
    ),
    (
        Event::HandshakeFailed,
        "\
        handshake/negotiation/alert ~ fail*/abort*/alert/error/broke/broken/reset/closed/eof, handshake ~ interrupted/dropped",
    ),
    (Event::BrokenPipe, "broken pipe, epipe, write ~ fail*/error/failed"),
    (Event::Reset, "reset, econnreset, rst, econnaborted, aborted"),
    (
        Event::TimedOut,
        "\
        timeout/timeouts, timed out, no reply/answer/response/greeting/banner, etimedout, hang*, hung, stall*, silent, never ~ answer*/repl*, \
        half open, deadline",
    ),
    (Event::Closed, "clos*, eof, fin, disconnect*, dropped, hung up, lost, hangup, notify"),
];

impl Event {
    /// Reads a description: what stands in `<event: …>`, by its words. `None` where the text holds no such mark.
    pub fn described(stage: Stage, text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let start = lower.find("<event")? + "<event".len();
        let inner = text[start..].trim_start_matches([':', ' ']);
        let inner = inner.rsplit_once('>').map_or(inner, |(before, _)| before);
        let words = reader::words(inner);
        let found = DESCRIPTIONS.iter().find(|(_, patterns)| patterns.split(", ").any(|p| reader::says(&words, p)));
        let event = found.map_or(Self::Unknown, |(event, _)| *event);
        // Behind a connection no relay is looked up any more: the words meant something else.
        let misread = matches!(event, Self::RelayUnknown | Self::RecipientDomainUnknown) && !matches!(stage, Stage::Connect | Stage::Rcpt);
        Some(if misread { Self::Unknown } else { event })
    }
}
