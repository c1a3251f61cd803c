//! A stream, under TLS or not.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use super::dial::Stream;

/// The two forms of a connection.
pub(super) enum Wire {
    Plain(Box<dyn Stream>),
    Tls(Box<TlsStream<Box<dyn Stream>>>),
}

impl Wire {
    pub(super) fn encrypted(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Whether the other end is this machine.
    pub(super) fn loopback(&self) -> bool {
        self.below().loopback()
    }

    /// What was written and not sent never leaves; see [`Stream::discard`].
    pub(super) fn discard(&self) {
        self.below().discard();
    }

    fn below(&self) -> &dyn Stream {
        match self {
            Self::Plain(stream) => stream.as_ref(),
            Self::Tls(tls) => tls.get_ref().0.as_ref(),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(cx),
        }
    }
}
