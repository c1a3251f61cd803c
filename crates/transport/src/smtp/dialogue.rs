//! Says lines and hears replies, each within a bound, and counts every byte that it hands to the stream.
//!
//! Bytes that nobody asked for are never skipped: saying something over them is refused as `OutOfStep`, for the next reply would then be
//! read as the answer to another question.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, timeout_at};

use super::reply::{Parsed, Reply, parse};
use super::wire::Wire;
use crate::classify::Event;

/// Room made for each reading; replies are far shorter.
const READ_BYTES: usize = 4 * 1024;
/// After a write has failed, the reason is often there to be read; it isn't waited for longer.
const REASON_MAX: Duration = Duration::from_secs(1);

/// Why a dialogue can't go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Broken {
    /// Something happened instead of a reply.
    Met(Event),
    /// The server said something that nobody asked for.
    OutOfStep,
}

/// What is there without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unasked {
    Nothing,
    Words,
    Gone(Event),
}

pub(super) struct Dialogue {
    wire: Wire,
    inbox: Vec<u8>,
    written: u64,
    /// A planted bug: it speaks over what it hasn't read (`SmtpConfig::reuse_dirty`).
    heedless: bool,
}

impl Dialogue {
    pub(super) fn new(wire: Wire, heedless: bool) -> Self {
        Self { wire, inbox: Vec::new(), written: 0, heedless }
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The stream below, for a TLS handshake. Whoever takes it has made sure that nothing was read ahead.
    pub(super) fn into_wire(self) -> Wire {
        self.wire
    }

    /// Whether what was read so far could still be a reply; a web server's page couldn't.
    pub(super) fn may_become_reply(&self) -> bool {
        parse(&self.inbox) != Parsed::Garbage
    }

    /// Plaintext bytes that the stream has taken since the beginning.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Whether bytes stand there that no reply has used up.
    pub(super) fn unread(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Writes and flushes whole lines.
    pub(super) async fn say(&mut self, lines: &[u8], until: Instant) -> Result<(), Broken> {
        if self.unread() && !self.heedless {
            return Err(Broken::OutOfStep);
        }
        self.write(lines, until).await?;
        self.flush(until).await
    }

    /// Reads one whole reply. What follows it stays for the next one.
    pub(super) async fn reply(&mut self, until: Instant) -> Result<Reply, Broken> {
        loop {
            match parse(&self.inbox) {
                Parsed::Whole(reply, used) => {
                    self.inbox.drain(..used);
                    return Ok(reply);
                }
                Parsed::Garbage => return Err(Broken::Met(Event::IncompleteReply)),
                Parsed::Partial(_) => {}
            }
            self.inbox.reserve(READ_BYTES);
            match timeout_at(until, self.wire.read_buf(&mut self.inbox)).await {
                Err(_elapsed) => return Err(Broken::Met(Event::TimedOut)),
                Ok(Ok(0)) if self.inbox.is_empty() => return Err(Broken::Met(Event::Closed)),
                Ok(Ok(0)) => return Err(Broken::Met(Event::IncompleteReply)),
                Ok(Ok(_more)) => {}
                Ok(Err(error)) => return Err(Broken::Met(event_of(&error))),
            }
        }
    }

    /// A whole reply that was read already, left where it stands.
    pub(super) fn whole_reply(&self) -> Option<Reply> {
        match parse(&self.inbox) {
            Parsed::Whole(reply, _used) => Some(reply),
            Parsed::Partial(_) | Parsed::Garbage => None,
        }
    }

    /// Writes a block of content, and listens meanwhile: a server that answers before the end marker has given up.
    pub(super) async fn block(&mut self, block: &[u8], until: Instant) -> Result<(), Broken> {
        let mut rest = block;
        while !rest.is_empty() {
            let step = timeout_at(until, poll_fn(|cx| self.poll_write_or_hear(cx, rest))).await;
            rest = &rest[step.map_err(|_elapsed| Broken::Met(Event::TimedOut))??..];
        }
        Ok(())
    }

    /// Writes all of it without listening.
    pub(super) async fn write(&mut self, bytes: &[u8], until: Instant) -> Result<(), Broken> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // `write` takes bytes or fails, never both, so a dropped future leaves the count right.
            match timeout_at(until, self.wire.write(rest)).await {
                Err(_elapsed) => return Err(Broken::Met(Event::TimedOut)),
                Ok(Ok(0)) => return Err(Broken::Met(Event::BrokenPipe)),
                Ok(Ok(taken)) => {
                    self.written += taken as u64;
                    rest = &rest[taken..];
                }
                Ok(Err(error)) => return Err(Broken::Met(event_of(&error))),
            }
        }
        Ok(())
    }

    pub(super) async fn flush(&mut self, until: Instant) -> Result<(), Broken> {
        match timeout_at(until, self.wire.flush()).await {
            Err(_elapsed) => Err(Broken::Met(Event::TimedOut)),
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Broken::Met(event_of(&error))),
        }
    }

    /// Looks without waiting whether the server has said something, or has left. Other tasks may run meanwhile.
    pub(super) async fn unasked(&mut self) -> Unasked {
        // Without the yield the reactor may not have been asked since the last write.
        yield_now().await;
        self.unasked_now().await
    }

    /// The same, by what the reactor knows already: nothing else runs between this and what follows it.
    pub(super) async fn unasked_now(&mut self) -> Unasked {
        if self.unread() {
            return Unasked::Words;
        }
        // Unconstrained, for a spent budget would look like silence.
        unconstrained(poll_fn(|cx| {
            Poll::Ready(match self.poll_hear(cx) {
                Poll::Pending => Unasked::Nothing,
                Poll::Ready(Broken::OutOfStep) => Unasked::Words,
                Poll::Ready(Broken::Met(event)) => Unasked::Gone(event),
            })
        }))
        .await
    }

    /// After something went wrong while writing: the reply that says why, if it comes at once.
    pub(super) async fn reason(&mut self) -> Option<Reply> {
        self.reply(Instant::now() + REASON_MAX).await.ok()
    }

    fn poll_write_or_hear(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Broken>> {
        match Pin::new(&mut self.wire).poll_write(cx, bytes) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(Broken::Met(Event::BrokenPipe))),
            Poll::Ready(Ok(taken)) => {
                self.written += taken as u64;
                Poll::Ready(Ok(taken))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Broken::Met(event_of(&error)))),
            Poll::Pending => self.poll_hear(cx).map(Err),
        }
    }

    /// Ready when something was read that nobody asked for, or nothing more will come.
    fn poll_hear(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        let mut room = [0; READ_BYTES];
        let mut heard = ReadBuf::new(&mut room);
        match Pin::new(&mut self.wire).poll_read(cx, &mut heard) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Broken::Met(event_of(&error))),
            Poll::Ready(Ok(())) if heard.filled().is_empty() => Poll::Ready(Broken::Met(Event::Closed)),
            Poll::Ready(Ok(())) => {
                self.inbox.extend_from_slice(heard.filled());
                Poll::Ready(Broken::OutOfStep)
            }
        }
    }
}

/// What an I/O error of an established connection says.
pub(super) fn event_of(error: &io::Error) -> Event {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Event::Reset,
        io::ErrorKind::BrokenPipe => Event::BrokenPipe,
        io::ErrorKind::UnexpectedEof | io::ErrorKind::NotConnected => Event::Closed,
        io::ErrorKind::TimedOut => Event::TimedOut,
        io::ErrorKind::ConnectionRefused => Event::Refused,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => Event::NoRoute,
        io::ErrorKind::AddrNotAvailable => Event::BindUnavailable,
        _other => Event::Unknown,
    }
}
