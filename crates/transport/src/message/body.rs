//! Text and HTML as MIME parts: CRLF lines, 7 bit, never a line that a relay would break or trim.

use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Body, SinglePart};

use super::Boundary;

/// What a body is.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Html,
}

/// RFC 2045 allows 998; relays have been seen to break shorter ones, so above this a line is encoded.
const PLAIN_LINE_OCTETS_MAX: usize = 900;

/// A body as a MIME part.
pub(super) fn part(text: &str, kind: Kind, boundary: &Boundary) -> SinglePart {
    let content_type = match kind {
        Kind::Text => ContentType::TEXT_PLAIN,
        Kind::Html => ContentType::TEXT_HTML,
    };
    let text = crlf(text);
    let encoding = encoding(&text, boundary);
    let body = match encoding {
        // Not as a string: lettre's own quoted-printable judges strings, and these bytes are final.
        ContentTransferEncoding::SevenBit => Body::dangerous_pre_encoded(text.into_bytes(), encoding),
        other => Body::new_with_encoding(text, other).expect("quoted-printable and base64 take any text"),
    };
    SinglePart::builder().header(content_type).body(body)
}

/// CRLF, CR and LF all end a line and become CRLF; the text ends with one, as every mail body does.
fn crlf(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 32 + 2);
    let mut rest = text;
    while let Some(at) = rest.find(['\r', '\n']) {
        out.push_str(&rest[..at]);
        out.push_str("\r\n");
        let line_end = if rest[at..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[at + line_end..];
    }
    out.push_str(rest);
    if !out.ends_with("\r\n") {
        out.push_str("\r\n");
    }
    out
}

/// As it stands where no relay could change it; else whichever encoding is shorter.
fn encoding(text: &str, boundary: &Boundary) -> ContentTransferEncoding {
    if boundary.stands_in(text) {
        return ContentTransferEncoding::Base64;
    }
    let safe = |b: u8| b.is_ascii_graphic() || matches!(b, b' ' | b'\t' | b'\r' | b'\n');
    // Trailing blanks are trimmed and "From " is escaped on the way (RFC 2049, 3), so such lines are encoded.
    let robust = |line: &str| line.len() <= PLAIN_LINE_OCTETS_MAX && !line.ends_with([' ', '\t']) && !line.starts_with("From ");
    if text.bytes().all(safe) && text.split("\r\n").all(robust) {
        return ContentTransferEncoding::SevenBit;
    }
    let escaped = text.bytes().filter(|b| !safe(*b) || *b == b'=').count();
    // Each escaped octet costs two more in quoted-printable; base64 costs a third of all.
    if escaped * 6 < text.len() { ContentTransferEncoding::QuotedPrintable } else { ContentTransferEncoding::Base64 }
}
