//! What a test tells the mail server to do, stage by stage.
//!
//! A script is asked once at each stage, with what is known there; whatever it doesn't care about is `Action::Default`.
//! Read `scripts.rs` for the ready-made ones.

use std::time::Duration;

/// A place in the dialogue at which the script is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// A connection was accepted; no byte has passed.
    Connect,
    /// The server is about to greet (220).
    Greeting,
    /// EHLO or HELO came.
    Ehlo,
    /// STARTTLS came. Text after the 220 is an injection: it leaves in plaintext before the handshake.
    StartTls,
    /// The server is about to shake hands (implicit TLS, or after STARTTLS).
    TlsHandshake,
    /// AUTH and its answers are complete.
    Auth,
    /// MAIL came.
    Mail,
    /// RCPT came.
    Rcpt,
    /// DATA came.
    Data,
    /// The first bytes of the content have arrived.
    Content,
    /// The end marker came; nothing is counted yet.
    Dot,
    /// NOOP came.
    Noop,
    /// RSET came.
    Rset,
    /// QUIT came.
    Quit,
    /// Any other command came.
    Other,
}

impl Stage {
    /// Every stage, in the order of a dialogue.
    pub const ALL: [Stage; 15] = [
        Stage::Connect,
        Stage::Greeting,
        Stage::Ehlo,
        Stage::StartTls,
        Stage::TlsHandshake,
        Stage::Auth,
        Stage::Mail,
        Stage::Rcpt,
        Stage::Data,
        Stage::Content,
        Stage::Dot,
        Stage::Noop,
        Stage::Rset,
        Stage::Quit,
        Stage::Other,
    ];
}

/// What is known when the script is asked. Text that isn't UTF-8 is shown with replacement characters.
#[derive(Debug, Clone)]
pub struct Event<'a> {
    /// Where the dialogue is.
    pub stage: Stage,
    /// Number of the connection at this server, from 1.
    pub connection: u64,
    /// Number of the transaction on this connection, from 1; 0 before the first MAIL.
    pub message: u32,
    /// Connections open now, this one among them.
    pub open_connections: usize,
    /// The command line without its line end; empty where no command came.
    pub command: &'a str,
    /// Envelope sender, from MAIL on.
    pub sender: Option<&'a str>,
    /// At RCPT the recipient named, after it the first one accepted.
    pub recipient: Option<&'a str>,
    /// `X-Curfew-Job`, at `Dot`.
    pub job: Option<&'a str>,
    /// `Message-ID`, at `Dot`.
    pub message_id: Option<&'a str>,
    /// `Curfew-Idempotency-Key`, at `Dot`.
    pub idempotency_key: Option<&'a str>,
    /// From 1. At RCPT: times this recipient was named at this server. From DATA to the content: the same number again. At `Dot`: times this
    /// job (without one: this recipient) came so far. Elsewhere: times this stage was reached at this server.
    pub attempt: u32,
}

/// What the server does at a stage.
///
/// A reply's first digit has its usual effect (2 or 3: the step counts as done; at `Dot` 2 counts the message as accepted). A 421 closes the
/// connection after it, as RFC 5321 §3.8 says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// What a correct server does.
    Default,
    /// These bytes instead of the default reply, line ends included; several lines, several replies and non-UTF-8 are welcome.
    Reply(Vec<u8>),
    /// The same, each piece flushed by itself.
    ReplyInPieces(Vec<Vec<u8>>),
    /// The default reply, twice: every later reply is off by one for whoever doesn't notice.
    ReplyTwice,
    /// These bytes, and the command counts as never obeyed.
    Garbage(Vec<u8>),
    /// Nothing, until released (then the default) or until the client closes. Input is still taken in.
    Silence,
    /// At `Content`: no more is read once `after` bytes of the content have been, so that the window closes; goes on when released.
    /// Elsewhere: nothing is read or answered until released.
    StopReading {
        /// Bytes of the content to read first. The kernel's buffers take more: see `Config::receive_buffer_bytes`.
        after: u64,
    },
    /// RST: the client sees ECONNRESET.
    Reset,
    /// FIN without a word.
    CloseQuietly,
    /// Does the step (at `Dot`: counts the message), then RST instead of the reply.
    AcceptThenReset,
    /// Does the step, then FIN instead of the reply.
    AcceptThenClose,
    /// Does the step, then says nothing; FIN when released.
    AcceptThenSilence,
    /// Does the step, and replies when released.
    AcceptThenHold,
    /// Does the step (at `Dot`: counts the message), and replies as a correct server does so much later. Nothing is read meanwhile.
    After(Duration),
    /// The default with its reply, then these bytes (empty: none) and FIN: what a server does to idle connections.
    CloseIdle(Vec<u8>),
}

impl Action {
    /// A reply of one line; the line end is added.
    pub fn reply(line: &str) -> Self {
        Action::Reply(format!("{line}\r\n").into_bytes())
    }

    /// A reply of several lines; each gets its line end. The caller writes `250-` and `250 ` as wanted.
    pub fn lines(lines: &[&str]) -> Self {
        Action::Reply(lines.iter().flat_map(|line| [line.as_bytes(), b"\r\n"].concat()).collect())
    }

    /// A reply byte for byte.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Action::Reply(bytes.into())
    }

    /// The default reply's place taken by `line`, flushed after each byte.
    pub fn drip(line: &str) -> Self {
        Action::ReplyInPieces(format!("{line}\r\n").bytes().map(|byte| vec![byte]).collect())
    }

    /// The first digit of what the step comes to, given the default reply. Garbage comes to nothing.
    pub(super) fn first_digit(&self, default: &[u8]) -> u8 {
        let reply: &[u8] = match self {
            Action::Reply(bytes) => bytes,
            Action::ReplyInPieces(pieces) => pieces.iter().find(|piece| !piece.is_empty()).map_or(&[], |piece| piece.as_slice()),
            Action::Garbage(_) | Action::Reset | Action::CloseQuietly => &[],
            Action::Default
            | Action::ReplyTwice
            | Action::Silence
            | Action::StopReading { .. }
            | Action::AcceptThenReset
            | Action::AcceptThenClose
            | Action::AcceptThenSilence
            | Action::AcceptThenHold
            | Action::After(_)
            | Action::CloseIdle(_) => default,
        };
        reply.first().copied().unwrap_or(b'0')
    }
}

/// Decides what the server does. Any `Fn(&Event) -> Action` is one.
pub trait Script: Send + Sync {
    /// Asked once at each stage; called from many connections at once.
    fn act(&self, event: &Event<'_>) -> Action;
}

impl<F: Fn(&Event<'_>) -> Action + Send + Sync> Script for F {
    fn act(&self, event: &Event<'_>) -> Action {
        self(event)
    }
}
