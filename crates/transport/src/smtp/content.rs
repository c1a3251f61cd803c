//! A message in the form it takes behind DATA: dot-stuffed, with the marker that ends it.

use std::sync::Arc;

/// Blocks of this size each have the block's time (RFC 5321 §4.5.3.2.5 speaks of TCP SENDs; this is what one takes at most).
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

/// The bytes to write, and the marker behind them.
pub(super) struct Content {
    bytes: Bytes,
    /// Whether the whole message is 7 bit.
    pub(super) ascii: bool,
    /// The message's size as SIZE counts it (RFC 1870 §5: without stuffing).
    pub(super) size: usize,
    ends_line: bool,
}

enum Bytes {
    /// Nothing to stuff: the builder's own bytes.
    AsBuilt(Arc<[u8]>),
    Stuffed(Vec<u8>),
}

/// The message has a CR or LF by itself: lax servers would end it there, and take what follows for a mail of its own (CVE-2023-51764).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BareNewline;

impl Content {
    /// Checks and stuffs a message.
    pub(super) fn of(message: &Arc<[u8]>) -> Result<Self, BareNewline> {
        let dots = lines_with_dots(message)?;
        let ends_line = message.is_empty() || message.ends_with(b"\r\n");
        let size = message.len() + if ends_line { 0 } else { 2 };
        let ascii = message.is_ascii();
        if dots.is_empty() {
            return Ok(Self { bytes: Bytes::AsBuilt(Arc::clone(message)), ascii, size, ends_line });
        }
        let mut stuffed = Vec::with_capacity(size + dots.len());
        let mut from = 0;
        for dot in dots {
            stuffed.extend_from_slice(&message[from..dot]);
            stuffed.push(b'.');
            from = dot;
        }
        stuffed.extend_from_slice(&message[from..]);
        Ok(Self { bytes: Bytes::Stuffed(stuffed), ascii, size, ends_line })
    }

    pub(super) fn as_written(&self) -> &[u8] {
        match &self.bytes {
            Bytes::AsBuilt(bytes) => bytes,
            Bytes::Stuffed(bytes) => bytes,
        }
    }

    /// The end marker. A last line without its end gets one first; it is part of the marker, so that nothing before it ends a content.
    pub(super) fn marker(&self) -> &'static [u8] {
        if self.ends_line { b".\r\n" } else { b"\r\n.\r\n" }
    }
}

/// Where lines begin with a dot.
fn lines_with_dots(message: &[u8]) -> Result<Vec<usize>, BareNewline> {
    let mut dots = Vec::new();
    let mut from = 0;
    while from < message.len() {
        let rest = &message[from..];
        if rest[0] == b'.' {
            dots.push(from);
        }
        let line = rest.iter().position(|b| *b == b'\n').map_or(rest, |end| &rest[..=end]);
        let body = match line {
            [body @ .., b'\r', b'\n'] => body,
            [.., b'\n'] => return Err(BareNewline),
            unfinished => unfinished,
        };
        if body.contains(&b'\r') {
            return Err(BareNewline);
        }
        from += line.len();
    }
    Ok(dots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(message: &str) -> Result<String, BareNewline> {
        let content = Content::of(&Arc::from(message.as_bytes()))?;
        Ok(String::from_utf8_lossy(&[content.as_written(), content.marker()].concat()).into_owned())
    }

    #[test]
    fn dots_at_the_beginning_of_a_line_are_doubled_and_no_others() {
        assert_eq!(written(".a\r\nb.\r\n.\r\n..c\r\n").as_deref(), Ok("..a\r\nb.\r\n..\r\n...c\r\n.\r\n"));
        assert_eq!(written("").as_deref(), Ok(".\r\n"));
        assert_eq!(written("x").as_deref(), Ok("x\r\n.\r\n"));
        assert_eq!(written(".").as_deref(), Ok("..\r\n.\r\n"));
    }

    #[test]
    fn a_cr_or_lf_by_itself_is_refused_wherever_it_stands() {
        for message in ["a\nb\r\n", "a\rb\r\n", "\n.\n", "a\r", "\r", "\r\r\n", "a\r\n\n"] {
            assert_eq!(written(message), Err(BareNewline), "{message:?}");
        }
    }

    #[test]
    fn the_size_is_that_of_the_message_without_stuffing() {
        let size = |message: &str| Content::of(&Arc::from(message.as_bytes())).map(|content| content.size);
        assert_eq!((size(".a\r\n.\r\n"), size("a"), size("")), (Ok(7), Ok(3), Ok(0)));
    }

    proptest::proptest! {
        /// What a server makes of the written form is the message, and the marker is found once, at the end.
        #[test]
        fn unstuffing_gives_the_message_back(lines in proptest::collection::vec("[.ab]{0,4}", 0..8)) {
            let message: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            let written = written(&message).expect("normal form");
            let mut read = String::new();
            let mut ended = 0;
            for line in written.split_inclusive("\r\n") {
                if line == ".\r\n" { ended += 1 } else { read.push_str(line.strip_prefix('.').unwrap_or(line)) }
            }
            proptest::prop_assert_eq!(read, message);
            proptest::prop_assert_eq!(ended, 1);
        }
    }
}
