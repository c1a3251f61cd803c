//! One connection: asks the script at each stage and carries out what it says.
//!
//! `ask` does what replaces a step, `send` what replaces a reply; between them the caller does the step. Read `session_stages.rs` next.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::progress::What;
use super::script::{Action, Event, Stage};
use super::transaction::Transaction;
use super::wire::{Gone, Peer, Wire};
use super::{Shared, Tls};

/// Between the pieces of a reply, so that the kernel sends each by itself.
const BETWEEN_PIECES: Duration = Duration::from_millis(1);
/// Input kept for later while a dialogue is held; beyond it the window closes.
const HELD_INPUT_BYTES_MAX: usize = 1024 * 1024;

/// What the script is told beyond the state of the session.
#[derive(Default)]
pub(super) struct About<'a> {
    pub(super) command: &'a str,
    pub(super) recipient: Option<&'a str>,
    pub(super) job: Option<&'a str>,
    pub(super) message_id: Option<&'a str>,
    pub(super) idempotency_key: Option<&'a str>,
    pub(super) attempt: Option<u32>,
}

pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) wire: Wire,
    pub(super) connection: u64,
    pub(super) message: u32,
    /// The greeting said no: only QUIT is obeyed (RFC 5321 §3.1).
    pub(super) unwelcome: bool,
    pub(super) greeted: Greeted,
    pub(super) user: Option<String>,
    pub(super) transaction: Option<Transaction>,
}

/// How the client said hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeted {
    Not,
    Helo,
    Ehlo,
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, stream: Box<dyn Peer>) -> Self {
        let connection = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
        shared.open.fetch_add(1, Ordering::SeqCst);
        let wire = Wire::new(stream);
        Self { shared, wire, connection, message: 0, unwelcome: false, greeted: Greeted::Not, user: None, transaction: None }
    }

    /// Talks until one side has had enough.
    pub(super) async fn run(mut self) {
        let Err(Gone) = self.dialogue().await;
        self.note(What::Closed);
    }

    async fn dialogue(&mut self) -> Result<std::convert::Infallible, Gone> {
        self.step(Stage::Connect, &About::default(), b"").await?;
        if self.shared.config.tls == Tls::Implicit {
            self.shake_hands().await?;
        }
        let greeting = format!("220 {} ESMTP ready\r\n", self.shared.config.name);
        self.unwelcome = self.step(Stage::Greeting, &About::default(), greeting.as_bytes()).await? != b'2';
        loop {
            self.next_command().await?;
        }
    }

    /// The whole of a stage that is a reply and nothing more; returns the first digit of what it came to.
    pub(super) async fn step(&mut self, stage: Stage, about: &About<'_>, default: &[u8]) -> Result<u8, Gone> {
        let action = self.ask(stage, about).await?;
        let digit = action.first_digit(default);
        self.send(stage, action, default).await?;
        Ok(digit)
    }

    /// Asks the script, and carries out what needs no reply.
    pub(super) async fn ask(&mut self, stage: Stage, about: &About<'_>) -> Result<Action, Gone> {
        let times = self.note(What::Reached(stage));
        match self.decide(stage, about, times) {
            Action::Silence => {
                self.hold(stage).await?;
                Ok(Action::Default)
            }
            Action::StopReading { .. } if stage != Stage::Content => {
                self.hold_unread(stage).await?;
                Ok(Action::Default)
            }
            Action::Reset => {
                self.wire.reset().await;
                Err(Gone)
            }
            Action::CloseQuietly => {
                self.wire.close().await;
                Err(Gone)
            }
            other => Ok(other),
        }
    }

    fn decide(&self, stage: Stage, about: &About<'_>, times: u64) -> Action {
        let script = self.shared.script.read().expect("nobody panics while setting a script").clone();
        let Some(script) = script else {
            return Action::Default;
        };
        let transaction = self.transaction.as_ref();
        let first_recipient = transaction.and_then(|transaction| transaction.recipients.first()).map(|recipient| recipient.address.as_str());
        let of_recipient = match stage {
            Stage::Data | Stage::Content => transaction.map(|transaction| transaction.attempt).filter(|attempt| *attempt > 0),
            Stage::Connect
            | Stage::Greeting
            | Stage::Ehlo
            | Stage::StartTls
            | Stage::TlsHandshake
            | Stage::Auth
            | Stage::Mail
            | Stage::Rcpt
            | Stage::Dot
            | Stage::Noop
            | Stage::Rset
            | Stage::Quit
            | Stage::Other => None,
        };
        script.act(&Event {
            stage,
            connection: self.connection,
            message: self.message,
            open_connections: self.shared.open.load(Ordering::SeqCst),
            command: about.command,
            sender: transaction.map(|transaction| transaction.sender.as_str()),
            recipient: about.recipient.or(first_recipient),
            job: about.job,
            message_id: about.message_id,
            idempotency_key: about.idempotency_key,
            attempt: about.attempt.or(of_recipient).unwrap_or(u32::try_from(times).unwrap_or(u32::MAX)),
        })
    }

    /// Sends the reply, or what stands in its place.
    pub(super) async fn send(&mut self, stage: Stage, action: Action, default: &[u8]) -> Result<(), Gone> {
        let said = match action {
            Action::Default | Action::Silence | Action::StopReading { .. } | Action::Reset | Action::CloseQuietly => self.say(default),
            Action::Reply(bytes) | Action::Garbage(bytes) => self.say(&bytes),
            Action::ReplyTwice => self.say(&[default, default].concat()),
            Action::ReplyInPieces(pieces) => {
                for piece in &pieces {
                    self.wire.write(piece);
                    self.wire.flush().await?;
                    tokio::time::sleep(BETWEEN_PIECES).await;
                }
                code_of(&pieces.concat())
            }
            Action::AcceptThenReset => {
                self.wire.reset().await;
                return Err(Gone);
            }
            Action::AcceptThenClose => {
                self.wire.close().await;
                return Err(Gone);
            }
            Action::AcceptThenSilence => {
                self.hold(stage).await?;
                self.wire.close().await;
                return Err(Gone);
            }
            Action::AcceptThenHold => {
                self.hold(stage).await?;
                self.say(default)
            }
            Action::After(wait) => {
                self.wire.flush().await?;
                tokio::time::sleep(wait).await;
                self.say(default)
            }
            Action::CloseIdle(bytes) => {
                self.wire.write(default);
                self.wire.flush().await?;
                self.note(What::Replied(stage, code_of(default)));
                self.wire.write(&bytes);
                self.wire.close().await;
                return Err(Gone);
            }
        };
        self.note(What::Replied(stage, said));
        if said == 421 {
            self.wire.close().await;
            return Err(Gone);
        }
        Ok(())
    }

    fn say(&mut self, bytes: &[u8]) -> u16 {
        self.wire.write(bytes);
        code_of(bytes)
    }

    /// Says nothing until released, but takes in what comes, and so notices a client that closes.
    async fn hold(&mut self, stage: Stage) -> Result<(), Gone> {
        // Before TLS has begun, what comes belongs to the handshake and must stay in the socket.
        if matches!(stage, Stage::Connect | Stage::TlsHandshake) {
            return self.hold_unread(stage).await;
        }
        let shared = Arc::clone(&self.shared);
        let released = shared.progress.ticket();
        self.wire.flush().await?;
        self.note(What::Held(stage));
        let released = released.released();
        tokio::pin!(released);
        loop {
            tokio::select! {
                biased;
                () = &mut released => break,
                filled = self.wire.fill(), if self.wire.buffered() < HELD_INPUT_BYTES_MAX => filled?,
            }
        }
        self.note(What::Released(stage));
        Ok(())
    }

    /// Neither reads nor writes until released, so that the window closes on a client that writes.
    pub(super) async fn hold_unread(&mut self, stage: Stage) -> Result<(), Gone> {
        let released = self.shared.progress.ticket();
        self.wire.flush().await?;
        self.note(What::Held(stage));
        released.released().await;
        self.note(What::Released(stage));
        Ok(())
    }

    pub(super) fn note(&self, what: What) -> u64 {
        self.shared.progress.note(self.connection, self.message, what)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The three digits a reply begins with, or 0.
fn code_of(reply: &[u8]) -> u16 {
    reply.get(..3).and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
