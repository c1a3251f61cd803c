//! The table: what each answer at each stage means. The first row that fits decides; the last fits everything.
//!
//! Order within a stage: what must never be softened, then our own set-up, then pace, then the recipient, then soft words, then the
//! digit alone. A source is an RFC's section, a provider's list of codes, or the client in whose source the reply was read.
//!
//! An enhanced code counts only where its class agrees with the first digit (as in Postfix); `x` stands for either refusal's class.

use std::time::Duration;

use curfew_domain::outcome::{OutcomeClass, Scope, Stage};

use super::row::{Codes, Evidence, Row};
use super::words::*;
use super::{Event, Verdict};

use Codes::{Any, Digit, Of, Refusal};
use Evidence::{AddressRefused, AllWords, AnyEvent, Both, Disagreement, Either, Enhanced, Events, NoEnhanced, QueueId, Words};
use Stage::{Artifact, Auth, Connect, Content, Data, Dot, Ehlo, Greeting, Mail, Noop, Quit, Rcpt, Rset, Starttls, Tls};

const ACCEPTED: Verdict = Verdict::Class(OutcomeClass::Accepted);
const TRANSIENT: Verdict = Verdict::Class(OutcomeClass::Transient);
const THROTTLED: Verdict = Verdict::Class(OutcomeClass::Throttled);
const PERMANENT: Verdict = Verdict::Class(OutcomeClass::Permanent);
const SUPPRESSED_BY_LIST: Verdict = Verdict::Class(OutcomeClass::Suppressed);
const AMBIGUOUS: Verdict = Verdict::Class(OutcomeClass::Ambiguous);
const CONFIGURATION: Verdict = Verdict::Class(OutcomeClass::Configuration);

const EVERYWHERE: &[Stage] = &[Artifact, Connect, Tls, Greeting, Ehlo, Starttls, Auth, Mail, Rcpt, Data, Content, Dot, Noop, Rset, Quit];
const POOLED: &[Stage] = &[Noop, Rset];
const OPENING: &[Stage] = &[Greeting, Ehlo];
const SESSION: &[Stage] = &[Connect, Tls, Greeting, Ehlo, Starttls];
const TRANSACTION: &[Stage] = &[Mail, Rcpt, Data, Content, Dot];
const BEFORE_CONTENT: &[Stage] = &[Greeting, Ehlo, Starttls, Mail, Rcpt, Data];
const RECIPIENT: &[Stage] = &[Rcpt, Data, Content, Dot];
const MESSAGE: &[Stage] = &[Data, Content, Dot];
const FROM_GREETING: &[Stage] = &[Greeting, Ehlo, Mail, Rcpt, Data, Content, Dot];

const fn row(name: &'static str, stages: &'static [Stage], codes: Codes, evidence: Evidence, verdict: Verdict, source: &'static str) -> Row {
    Row { name, stages, codes, evidence, verdict, scope: Scope::Transport, wait: None, softened: false, source }
}

impl Row {
    const fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    const fn softly(mut self) -> Self {
        self.softened = true;
        self
    }

    /// Greylisting hosts want some minutes; ZoneMTA and Postgrey's documentation name 300 s.
    const fn waits_s(mut self, seconds: u64) -> Self {
        self.wait = Some(Duration::from_secs(seconds));
        self
    }
}

/// Every rule, in order.
pub const TABLE: &[Row] = &[
    // After the result.
    row("quit-any", &[Quit], Any, AnyEvent, Verdict::ResultUnchanged, "RFC 5321, 4.1.1.10"),
    row("quit-reply", &[Quit], Any, Evidence::None, Verdict::ResultUnchanged, "RFC 5321, 4.1.1.10"),
    // Pooled connections.
    row("pooled-late-verdict", POOLED, Any, QueueId, AMBIGUOUS, "RFC 1047; a reply that answers the message before"),
    row("pooled-event", POOLED, Any, AnyEvent, Verdict::Reconnect, "RFC 5321, 3.8"),
    row("pooled-leaving", POOLED, Digit(2), Words(&[LEAVING]), Verdict::Reconnect, "lettre, issue 743; Inbucket"),
    row("pooled-alive", POOLED, Of(&[250]), Evidence::None, Verdict::Continue, "RFC 5321, 4.1.1.5 and 4.1.1.9"),
    row("pooled-reply", POOLED, Any, Evidence::None, Verdict::Reconnect, "RFC 5321, 4.1.1.5 and 4.1.1.9"),
    // Events, by stage. From the first byte of the end marker on, silence and noise say nothing.
    row("dot-event", &[Dot], Any, AnyEvent, AMBIGUOUS, "RFC 1047; RFC 5321, 4.5.3.2.6, without its 3.8 on purpose"),
    row("worker-died-in-doubt", &[Content], Any, Events(&[Event::WorkerDiedInDoubt]), AMBIGUOUS, "DESIGN, 3.5"),
    row("content-event", &[Content], Any, AnyEvent, TRANSIENT, "RFC 5321, 4.1.1.10: without the end marker nothing was accepted"),
    row("relay-name-unknown", EVERYWHERE, Any, Events(&[Event::RelayUnknown]), CONFIGURATION, "RFC 5321, 5.1; the name is ours"),
    row("recipient-domain-unknown", EVERYWHERE, Any, Events(&[Event::RecipientDomainUnknown]), PERMANENT, "RFC 5321, 5.1; RFC 7505"),
    row("local-address-missing", EVERYWHERE, Any, Events(&[Event::BindUnavailable]), CONFIGURATION, "bind(2), EADDRNOTAVAIL"),
    row(
        "tls-certificate",
        EVERYWHERE,
        Any,
        Events(&[Event::CertificateName, Event::CertificateInvalid, Event::UnknownIssuer]),
        CONFIGURATION,
        "RFC 5280, 6; RFC 6125, 6",
    ),
    row(
        "tls-no-common-ground",
        EVERYWHERE,
        Any,
        Events(&[Event::NoCommonTls]),
        CONFIGURATION,
        "RFC 8446, 6.2: protocol_version, insufficient_security",
    ),
    row("tls-injection", EVERYWHERE, Any, Events(&[Event::TlsInjection]), CONFIGURATION, "RFC 3207, 4.2; CVE-2011-0411"),
    row("tls-missing", EVERYWHERE, Any, Events(&[Event::StarttlsMissing]), CONFIGURATION, "RFC 3207, 4.1"),
    row("auth-set-up", EVERYWHERE, Any, Events(&[Event::MechanismMissing, Event::CredentialsMissing]), CONFIGURATION, "RFC 4954, 4"),
    row("extension-missing", EVERYWHERE, Any, Events(&[Event::ExtensionMissing]), PERMANENT, "RFC 6531, 3.2; RFC 1870, 5; RFC 6152, 3"),
    row("not-smtp", EVERYWHERE, Any, Events(&[Event::NotSmtp]), CONFIGURATION, "RFC 5321, 4.2: the first line is a reply"),
    row("event-before-content", EVERYWHERE, Any, AnyEvent, TRANSIENT, "RFC 5321, 3.8; nothing was handed over"),
    // Replies that aren't refusals.
    row("greeting-ready", &[Greeting], Of(&[220]), Evidence::None, Verdict::Continue, "RFC 5321, 3.1"),
    row("greeting-not-smtp", &[Greeting], Digit(2), Evidence::None, CONFIGURATION, "RFC 5321, 4.3.2: 220, 421 or 554"),
    row("ehlo-no-starttls", &[Ehlo], Digit(2), Words(&[NO_STARTTLS]), CONFIGURATION, "RFC 3207, 4.1: never on in clear"),
    row("ehlo-done", &[Ehlo], Digit(2), Evidence::None, Verdict::Continue, "RFC 5321, 4.1.1.1"),
    row("starttls-ready", &[Starttls], Of(&[220]), Evidence::None, Verdict::Continue, "RFC 3207, 4"),
    row("auth-done", &[Auth], Of(&[235]), Evidence::None, Verdict::Continue, "RFC 4954, 4"),
    row("auth-token-refused", &[Auth], Of(&[334]), Words(&[TOKEN_REFUSED]), CONFIGURATION, "Google, XOAUTH2: error response"),
    row("auth-challenge", &[Auth], Of(&[334]), Evidence::None, Verdict::Continue, "RFC 4954, 4"),
    row("mail-rcpt-done", &[Mail, Rcpt], Digit(2), Evidence::None, Verdict::Continue, "RFC 5321, 4.2: the first digit; 3.4 for 251 and 252"),
    row("data-go-ahead", &[Data], Of(&[354]), Evidence::None, Verdict::Continue, "RFC 5321, 4.1.1.4"),
    row("dot-accepted", &[Dot], Of(&[250, 251, 252]), Evidence::None, ACCEPTED, "RFC 5321, 4.2.5"),
    row("dot-out-of-step", &[Dot], Digit(2), Evidence::None, AMBIGUOUS, "DESIGN, 6: another positive reply is a desync"),
    row("dot-asks-for-more", &[Dot], Digit(3), Evidence::None, AMBIGUOUS, "DESIGN, 6; lettre takes a 354 here for success"),
    row("out-of-step", EVERYWHERE, Digit(2), Evidence::None, TRANSIENT, "RFC 5321, 4.3.2: no such reply here; nothing was handed over"),
    row("out-of-step-more", EVERYWHERE, Digit(3), Evidence::None, TRANSIENT, "RFC 5321, 4.3.2: no such reply here; nothing was handed over"),
    // Opening a session.
    row("blocked-for-good", FROM_GREETING, Refusal, Words(&[BLOCKED_FOR_GOOD]), CONFIGURATION, "Yahoo, SMTP error codes: TS03, TSS09, TSS11"),
    row("starttls-later", &[Starttls], Digit(4), Evidence::None, TRANSIENT, "RFC 3207, 4: 454"),
    row("starttls-refused", &[Starttls, Tls], Digit(5), Evidence::None, CONFIGURATION, "RFC 3207, 4: 501, 502"),
    row("auth-password-transition", &[Auth], Of(&[432]), Evidence::None, CONFIGURATION, "RFC 4954, 6: 432 4.7.12"),
    row(
        "auth-too-often",
        &[Auth],
        Refusal,
        Words(&[RATE, WINDOW, BLOCKED_FOR_NOW]),
        THROTTLED,
        "Gmail, SMTP errors: 454 and 421 4.7.0 too many login attempts",
    ),
    row("auth-server-leaves", &[Auth], Of(&[421]), Either(&["4.3.*", "4.4.2"], &[SYSTEM]), TRANSIENT, "RFC 5321, 3.8"),
    row("auth-hung-up", &[Auth], Of(&[421]), Evidence::None, THROTTLED, "Gmail, SMTP errors: 421 at AUTH"),
    row("auth-account", &[Auth], Digit(4), Words(&[ACCOUNT, LOGIN_STUCK]), CONFIGURATION, "SendGrid 451 4.7.1: credits exceeded"),
    row("auth-soft", &[Auth], Of(&[535, 550, 554]), Words(&[LOGIN_LATER]), TRANSIENT, "MAIL_FACTS, A.4: words may soften a 5yz").softly(),
    row("auth-later", &[Auth], Digit(4), Evidence::None, TRANSIENT, "RFC 4954, 6: 454 4.7.0"),
    row("auth-refused", &[Auth], Digit(5), Evidence::None, CONFIGURATION, "RFC 4954, 6; RFC 5248, 2.4"),
    row("opening-greylisted", OPENING, Refusal, Words(&[GREYLIST]), TRANSIENT, "RFC 6647, 2.1").waits_s(300),
    row("ehlo-name", &[Ehlo], Digit(4), Words(&[HELO]), CONFIGURATION, "Postfix, reject_unknown_helo_hostname"),
    row("opening-rate", OPENING, Refusal, Words(&[RATE, WINDOW, BLOCKED_FOR_NOW]), THROTTLED, "Postfix, anvil(8); Outlook.com RP-00x; Yahoo TSS04"),
    row("opening-reputation", OPENING, Digit(4), Words(&[REPUTATION]), THROTTLED, "Gmail, SMTP errors: 421 4.7.0 low reputation"),
    row("opening-blocked", OPENING, Refusal, Words(&[IP_BLOCK, PTR]), CONFIGURATION, "RFC 5321, 3.1: 554; Spamhaus, Yahoo BL21, GMX"),
    row("opening-server-trouble", OPENING, Digit(4), Either(&["4.3.*"], &[]), TRANSIENT, "RFC 3463, 3.4"),
    row(
        "opening-policy",
        OPENING,
        Digit(4),
        Either(&["4.7.*", "4.4.5", "4.16.*"], &[BUSY]),
        THROTTLED,
        "Gmail 421 4.7.0; Exchange Online 4.4.5; RFC 3463, X.4.5",
    ),
    row("opening-later", SESSION, Digit(4), Evidence::None, TRANSIENT, "RFC 5321, 3.8: 421"),
    row("opening-soft", OPENING, Digit(5), Words(&[SOFT]), TRANSIENT, "MAIL_FACTS, A.4: words may soften a 5yz").softly(),
    row("opening-disagreement", OPENING, Digit(5), Disagreement, TRANSIENT, "RFC 2034, 4: the classes must agree; the softer one").softly(),
    row("opening-refused", SESSION, Digit(5), Evidence::None, CONFIGURATION, "RFC 5321, 3.1 and 4.1.4; RFC 7504, 3"),
    // The end marker's own traps.
    row("dot-front-end", &[Dot], Digit(4), Words(&[PROXY]), AMBIGUOUS, "RFC 1047: who speaks is not who stores"),
    row("dot-front-end-timer", &[Dot], Digit(4), Enhanced(&["4.4.2"]), AMBIGUOUS, "RFC 3463, X.4.2: bad connection, behind the speaker"),
    row("dot-timer", &[Dot], Of(&[421]), Words(&[TIMER]), AMBIGUOUS, "RFC 1047; a timer ran out, the message's fate isn't said"),
    // What the recipient's side or the provider's list says.
    row(
        "suppressed",
        RECIPIENT,
        Digit(5),
        Either(&["5.7.505", "5.7.507", "5.7.513"], &[SUPPRESSED]),
        SUPPRESSED_BY_LIST,
        "Amazon SES, Mailgun 605, Postmark 406; Exchange Online 5.7.505, 5.7.513",
    )
    .scope(Scope::Recipient),
    row("mailbox-closed", RECIPIENT, Of(&[554]), Words(&[MAILBOX_CLOSED]), SUPPRESSED_BY_LIST, "Yahoo, SMTP error codes: 554 30")
        .scope(Scope::Recipient),
    row(
        "recipient-policy",
        RECIPIENT,
        Digit(5),
        Either(&["5.7.12", "5.7.124", "5.7.129", "5.7.133", "5.7.134", "5.7.136"], &[RECIPIENT_POLICY]),
        PERMANENT,
        "Exchange Online, NDR codes 5.7.124 to 5.7.136",
    ),
    row("never-under-4yz", RECIPIENT, Digit(4), Either(&["4.4.4"], &[NEVER_UNDER_4YZ]), PERMANENT, "Mimecast 451; Exchange Online 451 4.4.4"),
    // Our domain's proof.
    row("proof-later", TRANSACTION, Digit(4), Words(&[PROOF_LATER]), TRANSIENT, "RFC 7372, 3.2: temporary errors; Gmail 451 4.7.26"),
    row("proof-later-code", TRANSACTION, Digit(4), Enhanced(&["4.7.24"]), TRANSIENT, "RFC 7372, 3.2: X.7.24"),
    row("mail-flood", TRANSACTION, Refusal, Either(&["x.7.28"], &[FLOOD]), THROTTLED, "Gmail x.7.28: the words name SPF and DKIM domains too"),
    row(
        "proof-missing",
        TRANSACTION,
        Refusal,
        Either(&["x.7.20-27", "x.7.29-32", "x.7.40", "5.7.509", "5.7.515"], &[SENDER_PROOF]),
        CONFIGURATION,
        "RFC 7372, 3; Gmail x.7.26 to x.7.32; Outlook.com 5.7.515",
    ),
    // What this one message needs of the sender's command.
    row("mail-size", &[Mail], Digit(5), Either(&["5.3.4", "5.2.3"], &[SIZE]), PERMANENT, "RFC 1870, 6.1; Exchange 5.2.3"),
    row("mail-sender", &[Mail], Digit(5), Words(&[SENDER_RIGHTS]), CONFIGURATION, "Exim, Postfix: 501 and 553 about the sender's form"),
    row(
        "mail-parameter",
        &[Mail],
        Digit(5),
        Either(&["5.5.4", "5.6.7", "5.6.3"], &[PARAMETER]),
        PERMANENT,
        "RFC 6152, 3; RFC 6531, 3.5; RFC 5321, 4.1.1.11",
    ),
    row("mail-parameter-code", &[Mail], Of(&[555]), Evidence::None, PERMANENT, "RFC 5321, 4.1.1.11"),
    // Pace.
    row("recipient-window", TRANSACTION, Refusal, Words(&[RECIPIENT_WINDOW]), THROTTLED, "Gmail 4.5.3 today; SendGrid; cPanel"),
    row("recipient-count", TRANSACTION, Refusal, Words(&[RECIPIENT_COUNT]), TRANSIENT, "RFC 5321, 4.5.3.1.10"),
    row("server-disk", TRANSACTION, Digit(4), Words(&[DISK]), TRANSIENT, "RFC 3463, X.3.1; Sendmail says 4.4.5"),
    row(
        "window-quota",
        TRANSACTION,
        Refusal,
        Either(&["5.7.508", "5.1.90", "4.7.500-899"], &[WINDOW]),
        THROTTLED,
        "Gmail 5.4.5; Exchange Online 5.1.90, 5.7.508, 4.7.5xx",
    ),
    row(
        "recipient-rate",
        RECIPIENT,
        Refusal,
        Either(&["x.2.121", "x.2.122"], &[RECIPIENT_RATE]),
        THROTTLED,
        "Gmail 4.2.1 and 5.2.1; Exchange Online 5.2.121, 5.2.122",
    )
    .scope(Scope::Recipient),
    row("connection-used-up", TRANSACTION, Digit(4), Words(&[CONNECTION_USED_UP]), TRANSIENT, "Exim, smtp_accept_max_per_connection"),
    row(
        "destination-rate",
        &[Rcpt],
        Refusal,
        AllWords(&[RATE, DESTINATION]),
        THROTTLED,
        "a relay that queues for each destination by itself: Postfix, qmgr(8); KumoMTA, egress paths",
    )
    .scope(Scope::Domain),
    row(
        "rate",
        TRANSACTION,
        Refusal,
        Words(&[RATE, BLOCKED_FOR_NOW]),
        THROTTLED,
        "Gmail 4.7.0, 5.7.1, 5.7.28; Yahoo TSS; GMX RLY:B1; sisimai, ZoneMTA",
    ),
    row("rate-congestion", TRANSACTION, Refusal, Enhanced(&["x.4.5"]), THROTTLED, "RFC 3463, X.4.5; Exchange 4.4.5; Gmail 5.4.5"),
    row("mail-own-quota", &[Mail], Refusal, Either(&["x.2.2"], &[OWN_LIMIT]), THROTTLED, "Exchange Online 5.2.2 at MAIL: the quota is ours"),
    row("reputation-for-now", TRANSACTION, Digit(4), Words(&[REPUTATION]), THROTTLED, "Gmail 421 4.7.0; Outlook.com 4.7.650"),
    // Our set-up.
    row("recipients-counted", TRANSACTION, Refusal, Enhanced(&["x.5.3"]), TRANSIENT, "RFC 3463, X.5.3; RFC 5321, 4.5.3.1.10"),
    row(
        "host-name",
        TRANSACTION,
        Refusal,
        Either(&["x.7.25"], &[PTR]),
        CONFIGURATION,
        "RFC 7372, 3.3: X.7.25; Postfix, reject_unknown_client_hostname",
    ),
    row("greylisted", TRANSACTION, Refusal, Words(&[GREYLIST]), TRANSIENT, "RFC 6647, 2; Postgrey; Exim").waits_s(300),
    row("hello-name", TRANSACTION, Refusal, Either(&["5.7.506"], &[HELO]), CONFIGURATION, "Postfix, smtpd_helo_restrictions at RCPT"),
    row(
        "tls-required",
        TRANSACTION,
        Refusal,
        Either(&["x.7.10"], &[TLS_REQUIRED]),
        CONFIGURATION,
        "RFC 3207, 4: 530; RFC 5248, X.7.10; Gmail 4.7.0, Mimecast 553",
    ),
    row(
        "relay-denied",
        TRANSACTION,
        Refusal,
        Either(&["5.7.64"], &[RELAY_DENIED]),
        CONFIGURATION,
        "Postfix, Exim, Sendmail; Exchange Online 5.7.64; Mimecast 451",
    ),
    row("reputation", TRANSACTION, Digit(5), Words(&[REPUTATION]), CONFIGURATION, "Gmail 5.7.1 very low reputation of the sending IP"),
    row("message-content", MESSAGE, Digit(5), Words(&[CONTENT]), PERMANENT, "RFC 3463, X.7.1 after content; Yahoo PH01; Mimecast"),
    row(
        "address-blocked",
        TRANSACTION,
        Refusal,
        Either(&["5.7.501-503", "5.7.510-511", "5.7.606-649"], &[IP_BLOCK]),
        CONFIGURATION,
        "Exchange Online 5.7.511, 5.7.606; Postfix, reject_rbl_client",
    ),
    row(
        "sender-rights",
        TRANSACTION,
        Refusal,
        Either(&["x.1.7", "x.1.8", "5.7.60", "5.7.750"], &[SENDER_RIGHTS]),
        CONFIGURATION,
        "RFC 3463, X.1.7, X.1.8; Postfix, reject_sender_login_mismatch; Exchange Online 5.7.60",
    ),
    row(
        "account",
        TRANSACTION,
        Refusal,
        Either(&["5.7.700-749", "5.7.13"], &[ACCOUNT]),
        CONFIGURATION,
        "Exchange Online 5.7.705, 5.7.708; RFC 5248, X.7.13",
    ),
    row("credentials-code", TRANSACTION, Of(&[530, 534, 535, 538]), Evidence::None, CONFIGURATION, "RFC 4954, 6; Amazon SES 535 after the content"),
    row("credentials", TRANSACTION, Refusal, Either(&["5.7.57", "5.7.8"], &[CREDENTIALS]), CONFIGURATION, "RFC 4954, 6; Exchange Online 5.7.57"),
    // MAIL.
    row("mail-sequence", &[Mail, Rcpt], Of(&[503]), Words(&[SEQUENCE]), TRANSIENT, "RFC 5321, 4.1.4: the session is out of step").softly(),
    row("mail-storage", &[Mail], Of(&[552]), NoEnhanced, PERMANENT, "RFC 5321, 4.2.3: exceeded storage allocation; RFC 1870, 6.1"),
    row("mail-server-leaves", &[Mail], Of(&[421]), Either(&["4.3.*", "4.4.*"], &[SYSTEM]), TRANSIENT, "RFC 5321, 3.8"),
    row("mail-hung-up", &[Mail], Of(&[421]), Evidence::None, THROTTLED, "Gmail 421 4.7.0; MAIL_FACTS, A.3"),
    row("rcpt-hung-up", &[Rcpt, Data], Of(&[421]), Both(&["4.7.*"], &[LATER]), THROTTLED, "Gmail 421 4.7.0 try again later"),
    row("busy", BEFORE_CONTENT, Digit(4), Words(&[SERVER_BUSY]), THROTTLED, "Exchange Online 451 4.7.500, 4.4.5"),
    row("mail-soft", &[Mail], Digit(5), Words(&[SOFT]), TRANSIENT, "MAIL_FACTS, A.4: words may soften a 5yz").softly(),
    row("mail-disagreement", &[Mail], Refusal, Disagreement, TRANSIENT, "RFC 2034, 4: the classes must agree; the softer one").softly(),
    row("mail-later", &[Mail], Digit(4), Evidence::None, TRANSIENT, "RFC 5321, 4.2.1"),
    row("mail-refused", &[Mail], Digit(5), Evidence::None, CONFIGURATION, "RFC 5321, 4.1.1.2: no recipient, no content yet, so it is the sender"),
    // The recipient, and the message.
    row("address-refused", RECIPIENT, Digit(4), AddressRefused, PERMANENT, "RFC 3463, X.1.x: this address, for good").scope(Scope::Recipient),
    row("disagreement", RECIPIENT, Refusal, Disagreement, TRANSIENT, "RFC 2034, 4: the classes must agree; the softer one").softly(),
    row("mailbox-full", RECIPIENT, Digit(5), Either(&["5.2.2"], &[FULL]), PERMANENT, "RFC 3463, X.2.2; KumoMTA, QuotaIssues"),
    row(
        "unknown-user-code",
        RECIPIENT,
        Digit(5),
        Enhanced(&["5.1.0-6", "5.1.10", "5.1.20", "5.4.1"]),
        PERMANENT,
        "RFC 3463, X.1.x; RFC 7505; Exchange Online 5.1.10, 5.4.1",
    ),
    row("mailbox-soft", RECIPIENT, Digit(5), Words(&[MAILBOX_FOR_NOW]), TRANSIENT, "KumoMTA, community rules; Courier").softly(),
    row("unknown-user", RECIPIENT, Digit(5), Words(&[UNKNOWN_USER]), PERMANENT, "sisimai, reason userunknown; Exim; Sendmail"),
    row("size", RECIPIENT, Digit(5), Either(&["5.3.4", "5.2.3"], &[SIZE]), PERMANENT, "RFC 3463, X.2.3, X.3.4; Mimecast"),
    row(
        "form",
        RECIPIENT,
        Digit(5),
        Either(&["5.6.*", "5.4.6", "5.4.14"], &[FORM]),
        PERMANENT,
        "RFC 3463, X.6.x, X.4.6; Postfix, smtpd_forbid_bare_newline",
    ),
    row("soft", RECIPIENT, Digit(5), Words(&[SOFT]), TRANSIENT, "MAIL_FACTS, A.4: words may soften a 5yz").softly(),
    row("later", RECIPIENT, Digit(4), Evidence::None, TRANSIENT, "RFC 5321, 4.2.1 and 4.2.5"),
    row("refused", RECIPIENT, Digit(5), Evidence::None, PERMANENT, "RFC 5321, 4.2.1 and 4.2.5"),
    // No reply code of SMTP at all.
    row("dot-noise", &[Dot], Any, Evidence::None, AMBIGUOUS, "RFC 1047; digits outside 2 to 5"),
    row("greeting-noise", &[Greeting], Any, Evidence::None, CONFIGURATION, "RFC 5321, 4.2: the first line is a reply"),
    row("noise", EVERYWHERE, Any, Evidence::None, TRANSIENT, "RFC 5321, 4.2: no reply; nothing was handed over"),
];
