//! One connection's bytes: buffered both ways, flushed when there is nothing left to read.

use std::io::{BufRead as _, ErrorKind};
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Room made for each read; a client that pipelines fills it.
const READ_BYTES: usize = 64 * 1024;

/// The connection is over, whoever ended it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

/// A client's connection, as the server sees it.
pub trait Peer: AsyncRead + AsyncWrite + Unpin + Send {
    /// The next close is a RST.
    fn close_by_reset(&self);
}

impl Peer for TcpStream {
    fn close_by_reset(&self) {
        // Closing with a linger of zero is what makes it a RST.
        let _gone = self.set_zero_linger();
    }
}

enum Stream {
    Plain(Box<dyn Peer>),
    Tls(Box<TlsStream<Box<dyn Peer>>>),
    Gone,
}

pub(super) struct Wire {
    stream: Stream,
    input: Vec<u8>,
    /// Bytes of `input` already handed out.
    taken: usize,
    /// Bytes of `input` known to hold no line end; a long line isn't searched twice.
    searched: usize,
    output: Vec<u8>,
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Peer>) -> Self {
        Self { stream: Stream::Plain(stream), input: Vec::new(), taken: 0, searched: 0, output: Vec::new() }
    }

    pub(super) fn encrypted(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// Bytes that came and weren't asked for yet.
    pub(super) fn buffered(&self) -> usize {
        self.input.len() - self.taken
    }

    /// Whether replies wait for a flush.
    pub(super) fn unflushed(&self) -> bool {
        !self.output.is_empty()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    pub(super) async fn flush(&mut self) -> Result<(), Gone> {
        if self.output.is_empty() {
            return Ok(());
        }
        let written = match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(&self.output).await,
            Stream::Tls(stream) => match stream.write_all(&self.output).await {
                Ok(()) => stream.flush().await,
                Err(error) => Err(error),
            },
            Stream::Gone => Err(ErrorKind::NotConnected.into()),
        };
        self.output.clear();
        written.map_err(|_| Gone)
    }

    /// Flushes, then takes in what comes next. A dropped future loses no input.
    pub(super) async fn fill(&mut self) -> Result<(), Gone> {
        self.flush().await?;
        if self.taken > 0 {
            self.input.drain(..self.taken);
            self.searched -= self.taken;
            self.taken = 0;
        }
        self.input.reserve(READ_BYTES);
        let read = match &mut self.stream {
            Stream::Plain(stream) => stream.read_buf(&mut self.input).await,
            Stream::Tls(stream) => stream.read_buf(&mut self.input).await,
            Stream::Gone => Ok(0),
        };
        match read {
            Ok(0) | Err(_) => Err(Gone),
            Ok(_) => Ok(()),
        }
    }

    /// The next line with its line end.
    pub(super) async fn line(&mut self) -> Result<&[u8], Gone> {
        loop {
            if let Some(length) = self.line_length() {
                return Ok(self.take(length));
            }
            self.fill().await?;
        }
    }

    /// Length of the next line, if all of it is here. Searched through std, whose byte search is fast even in a debug build.
    pub(super) fn line_length(&mut self) -> Option<usize> {
        let mut rest = &self.input[self.searched..];
        let length = rest.skip_until(b'\n').expect("a slice can be read");
        let end = self.searched + length;
        if length > 0 && self.input[end - 1] == b'\n' {
            return Some(end - self.taken);
        }
        self.searched = end;
        None
    }

    pub(super) fn take(&mut self, length: usize) -> &[u8] {
        let from = self.taken;
        self.taken += length;
        self.searched = self.taken;
        &self.input[from..self.taken]
    }

    /// What came in plaintext behind STARTTLS is dropped (RFC 3207 §4.2); says whether there was any.
    pub(super) fn forget_input(&mut self) -> bool {
        let any = self.buffered() > 0;
        self.input.clear();
        (self.taken, self.searched) = (0, 0);
        any
    }

    pub(super) async fn start_tls(&mut self, config: Arc<ServerConfig>) -> Result<(), Gone> {
        self.flush().await?;
        match std::mem::replace(&mut self.stream, Stream::Gone) {
            Stream::Plain(stream) => {
                let stream = TlsAcceptor::from(config).accept(stream).await.map_err(|_| Gone)?;
                self.stream = Stream::Tls(Box::new(stream));
                Ok(())
            }
            Stream::Tls(_) | Stream::Gone => Err(Gone),
        }
    }

    /// RST. What was written before has left; what the client hasn't read of it is lost to it.
    pub(super) async fn reset(&mut self) {
        let _ = self.flush().await;
        let stream = std::mem::replace(&mut self.stream, Stream::Gone);
        match &stream {
            Stream::Plain(stream) => stream.close_by_reset(),
            Stream::Tls(stream) => stream.get_ref().0.close_by_reset(),
            Stream::Gone => {}
        }
        // Dropping `stream` closes.
    }

    /// FIN, then reads on until the client closes: unread input would turn the close into a RST.
    pub(super) async fn close(&mut self) {
        let _ = self.flush().await;
        let closed = match &mut self.stream {
            Stream::Plain(stream) => stream.shutdown().await,
            Stream::Tls(stream) => stream.shutdown().await,
            Stream::Gone => return,
        };
        if closed.is_ok() {
            while self.fill().await.is_ok() {
                self.forget_input();
            }
        }
        self.stream = Stream::Gone;
    }
}
