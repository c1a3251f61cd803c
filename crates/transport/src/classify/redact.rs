//! Takes out of a server's words what must not stand in logs and reviews: addresses, in whatever spelling, and long tokens.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use curfew_domain::limits::DIAGNOSTIC_BYTES_MAX;

/// What stands in an address's place.
const MARK: &str = "[…]";
/// Longer runs without a blank are credentials or payload, not words; queue ids of known servers are shorter.
const TOKEN_BYTES_MAX: usize = 72;
/// Text beyond this many bytes is not read: far more than is kept, and a reply of 64 KiB must not hold a worker.
const READ_BYTES_MAX: usize = 8 * 1024;
/// Shorter than the base64 form of the shortest address; below it every word would be tried.
const BASE64_BYTES_MIN: usize = 8;

/// The text without addresses, long tokens and controls, cut to 500 bytes on a character's boundary. Repeating it changes nothing.
pub fn redact(text: &str) -> String {
    let plain: String = without_brackets(beginning(text)).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let plain = without_quoted(&plain);
    let mut kept = String::with_capacity(plain.len().min(DIAGNOSTIC_BYTES_MAX));
    for token in plain.split(' ').filter(|t| !t.is_empty()) {
        if !kept.is_empty() {
            kept.push(' ');
        }
        kept.push_str(if is_secret(token) { MARK } else { token });
        if kept.len() > DIAGNOSTIC_BYTES_MAX {
            break;
        }
    }
    kept.truncate(kept.floor_char_boundary(DIAGNOSTIC_BYTES_MAX));
    kept.truncate(kept.trim_end().len());
    kept
}

/// As much as is read, without the token in which that ends: half an address has no `@`.
fn beginning(text: &str) -> &str {
    if text.len() <= READ_BYTES_MAX {
        return text;
    }
    let cut = &text[..text.floor_char_boundary(READ_BYTES_MAX)];
    cut.rfind(char::is_whitespace).map_or("", |end| &cut[..end])
}

fn is_secret(token: &str) -> bool {
    names_address(token)
        || token.len() > TOKEN_BYTES_MAX
        || token.split(|c: char| !(c.is_ascii_alphanumeric() || "+/-_".contains(c))).any(hides_address)
}

/// An `@`, plain or as percent, quoted-printable, HTML, `+40` (IMCEA) or full-width form.
fn names_address(token: &str) -> bool {
    let lower = token.to_ascii_lowercase();
    token.contains(['@', '\u{ff20}', '\u{fe6b}']) || ["%40", "=40", "+40", "&#64", "&#x40", "&commat"].iter().any(|form| lower.contains(form))
}

fn hides_address(run: &str) -> bool {
    run.len() >= BASE64_BYTES_MIN
        && [STANDARD_NO_PAD.decode(run), URL_SAFE_NO_PAD.decode(run)]
            .into_iter()
            .flatten()
            .any(|bytes| bytes.contains(&b'@') && bytes.iter().all(|b| *b == 0 || *b == 1 || (32..127).contains(b)))
}

/// `<…>` with an `@` in it goes as a whole: a quoted local part may hold blanks.
fn without_brackets(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        let Some(close) = rest[open..].find('>').map(|c| open + c) else { break };
        kept.push_str(&rest[..open]);
        let inner = &rest[open..=close];
        kept.push_str(if names_address(inner) { MARK } else { inner });
        rest = &rest[close + 1..];
    }
    kept.push_str(rest);
    kept
}

/// A quoted local part outside of brackets, from its first quote to its domain's end.
fn without_quoted(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\"@") {
        let from = rest[..at].rfind('"').unwrap_or(at);
        let to = rest[at + 2..].find(|c: char| c.is_whitespace() || matches!(c, '>' | ',' | ';' | ')')).map_or(rest.len(), |n| at + 2 + n);
        kept.push_str(&rest[..from]);
        kept.push_str(MARK);
        rest = &rest[to..];
    }
    kept.push_str(rest);
    kept
}
