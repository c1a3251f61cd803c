//! A reply of the server: read as bytes, line by line, and only believed when it is whole.

/// RFC 5321 §4.5.3.1.5 bounds a line at 512 octets; servers with long policies exceed it, none by this much.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// A whole reply; an endless one must not fill the memory.
const REPLY_BYTES_MAX: usize = 64 * 1024;

/// A whole reply, as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// 200 to 599.
    pub code: u16,
    /// The raw lines behind code and separator, without line ends; not necessarily UTF-8.
    pub lines: Vec<Vec<u8>>,
}

impl Reply {
    /// The lines as text, a line end between them; what isn't UTF-8 is shown by replacement characters.
    pub fn text(&self) -> String {
        let lines: Vec<_> = self.lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
        lines.join("\n")
    }

    /// The first of the three digits.
    pub fn digit(&self) -> u16 {
        self.code / 100
    }
}

/// What stands at the beginning of the bytes read so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// A whole reply, and how many bytes it took.
    Whole(Reply, usize),
    /// More must be read; the code, if one was seen.
    Partial(Option<u16>),
    /// Not SMTP.
    Garbage,
}

/// Parses one reply. A line may end in CRLF or LF; all lines of a reply carry the same code (RFC 5321 §4.2.1).
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut lines = Vec::new();
    let mut code = None;
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let Some(end) = rest.iter().position(|b| *b == b'\n') else {
            let impossible = rest.len() > LINE_BYTES_MAX || bytes.len() > REPLY_BYTES_MAX || !may_begin(rest);
            return if impossible { Parsed::Garbage } else { Parsed::Partial(code) };
        };
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        at += end + 1;
        let Some((this, more, text)) = split(line) else { return Parsed::Garbage };
        if line.len() > LINE_BYTES_MAX || at > REPLY_BYTES_MAX || code.is_some_and(|code| code != this) {
            return Parsed::Garbage;
        }
        code = Some(this);
        lines.push(text.to_vec());
        if !more {
            return Parsed::Whole(Reply { code: this, lines }, at);
        }
    }
}

/// Whether an unfinished line can still become a reply's: garbage without a line end must not be waited for.
fn may_begin(line: &[u8]) -> bool {
    line.iter().take(3).enumerate().all(|(at, b)| if at == 0 { (b'2'..=b'5').contains(b) } else { b.is_ascii_digit() })
}

/// Code, whether more lines follow, and text of a line.
fn split(line: &[u8]) -> Option<(u16, bool, &[u8])> {
    let digits = line.get(..3)?;
    if !may_begin(digits) {
        return None;
    }
    let code = digits.iter().fold(0, |code, b| code * 10 + u16::from(b - b'0'));
    match line.get(3) {
        None | Some(b' ') => Some((code, false, line.get(4..).unwrap_or_default())),
        Some(b'-') => Some((code, true, &line[4..])),
        Some(_other) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> (u16, String, usize) {
        match parse(bytes) {
            Parsed::Whole(reply, used) => (reply.code, reply.text(), used),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn whole_replies_are_read_and_what_follows_is_left() {
        assert_eq!(whole(b"250 ok\r\n354"), (250, "ok".into(), 8));
        assert_eq!(whole(b"250-a\r\n250-b\n250 c\r\n"), (250, "a\nb\nc".into(), 20));
        assert_eq!(whole(b"220\r\n"), (220, String::new(), 5));
        assert_eq!(whole(b"550 caf\xe9\r\n").1, "caf\u{fffd}");
    }

    #[test]
    fn every_cut_of_a_reply_is_partial() {
        let reply = b"250-queued\r\n250 as 4ZK\r\n";
        for cut in 0..reply.len() {
            assert!(matches!(parse(&reply[..cut]), Parsed::Partial(_)), "{cut}");
        }
        assert_eq!(parse(b"250-first\r\n"), Parsed::Partial(Some(250)));
    }

    #[test]
    fn what_is_no_reply_is_garbage_even_without_a_line_end() {
        for bytes in [&b"HTTP/1.1 400"[..], b"\r\n", b"2x0 ok\r\n", b"650 no\r\n", b"250_ok\r\n", b"250-a\r\n251 b\r\n", b"\x16\x03\x01"] {
            assert_eq!(parse(bytes), Parsed::Garbage, "{bytes:?}");
        }
        assert_eq!(parse(&[b'2'; 9000]), Parsed::Garbage);
        assert_eq!(parse(&b"250-x\r\n".repeat(10_000)), Parsed::Garbage);
    }
}
