//! The content of a message: dot-unstuffing, the end marker, and the few headers the judge reads.

use super::log::Keep;

/// A header section longer than this is read no further: no mail of ours comes near.
const HEADER_BYTES_MAX: usize = 256 * 1024;

/// Names of the headers the server reads; compared without case.
#[derive(Debug, Clone)]
pub struct HeaderNames {
    /// Carries the job id.
    pub job: String,
    /// Carries the provider's idempotency key.
    pub idempotency_key: String,
}

impl Default for HeaderNames {
    fn default() -> Self {
        Self { job: "X-Curfew-Job".into(), idempotency_key: "Curfew-Idempotency-Key".into() }
    }
}

/// A content as it comes in, line by line.
pub(super) struct Content {
    /// Bytes after unstuffing.
    pub(super) size: u64,
    /// All of it, or its header section, depending on `Keep`.
    pub(super) bytes: Vec<u8>,
    /// Bytes as they came, stuffing included.
    pub(super) raw_bytes: u64,
    pub(super) eight_bit: bool,
    pub(super) bare_newline: bool,
    pub(super) longest_line: usize,
    keep: Keep,
    in_headers: bool,
    after_crlf: bool,
}

impl Content {
    pub(super) fn new(keep: Keep) -> Self {
        Self {
            size: 0,
            bytes: Vec::new(),
            raw_bytes: 0,
            eight_bit: false,
            bare_newline: false,
            longest_line: 0,
            keep,
            in_headers: true,
            after_crlf: true,
        }
    }

    /// Takes one line with its line end; true when it was the end marker. Only CRLF "." CRLF ends a content: anything looser lets one mail
    /// smuggle another (CVE-2023-51764).
    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        self.raw_bytes += line.len() as u64;
        if self.after_crlf && line == b".\r\n" {
            return true;
        }
        let line = if self.after_crlf && line.first() == Some(&b'.') { &line[1..] } else { line };
        self.after_crlf = line.ends_with(b"\r\n");
        self.bare_newline |= !self.after_crlf;
        self.eight_bit |= !line.is_ascii();
        self.longest_line = self.longest_line.max(line.len());
        self.size += line.len() as u64;
        let wanted = self.keep == Keep::Everything || (self.in_headers && self.bytes.len() < HEADER_BYTES_MAX);
        if wanted {
            self.bytes.extend_from_slice(line);
        }
        if line == b"\r\n" || line == b"\n" {
            self.in_headers = false;
        }
        false
    }

    /// The header's value, unfolded, as text; the first one if there are several.
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let mut value: Option<String> = None;
        for line in self.bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = line.trim_ascii_end();
            if text.is_empty() {
                break;
            }
            let folded = line[0] == b' ' || line[0] == b'\t';
            match &mut value {
                Some(value) if folded => {
                    value.push(' ');
                    value.push_str(&String::from_utf8_lossy(text.trim_ascii_start()));
                }
                Some(_) => break,
                None => value = value_of(text, name),
            }
        }
        value.map(|value| value.trim().to_owned())
    }
}

fn value_of(line: &[u8], name: &str) -> Option<String> {
    let (before, after) = (line.get(..name.len())?, line.get(name.len()..)?);
    let rest = after.strip_prefix(b":")?;
    before.eq_ignore_ascii_case(name.as_bytes()).then(|| String::from_utf8_lossy(rest.trim_ascii()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(keep: Keep, lines: &[&str]) -> (Content, bool) {
        let mut content = Content::new(keep);
        let ended = lines.iter().any(|line| content.line(line.as_bytes()));
        (content, ended)
    }

    #[test]
    fn stuffed_dots_lose_one_and_only_the_whole_marker_ends() {
        let (content, ended) = read(Keep::Everything, &["..a\r\n", ".\n", "x\n", ".\r\n", "\r\n", ".\r\n"]);
        assert!(ended);
        assert_eq!(String::from_utf8_lossy(&content.bytes), ".a\r\n\nx\n.\r\n\r\n");
        assert!(content.bare_newline);
    }

    #[test]
    fn headers_are_found_without_case_and_unfolded_and_a_body_is_no_header() {
        let (content, _) = read(Keep::Envelopes, &["x-curfew-JOB: 42\r\n", "Message-ID:\r\n", " <a@b>\r\n", "\r\n", "Other: no\r\n"]);
        assert_eq!(content.header("X-Curfew-Job").as_deref(), Some("42"));
        assert_eq!(content.header("Message-ID").as_deref(), Some("<a@b>"));
        assert_eq!(content.header("Other"), None);
        assert_eq!(content.size, 52);
    }
}
