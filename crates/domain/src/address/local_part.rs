//! The local part: a dot-string or a quoted string (RFC 5321, 4.1.2), with UTF-8 in both (RFC 6531, 3.3).

use super::AddressFault;

/// Splits an address at the `@` that ends its local part. Neither part is empty.
pub(super) fn split(address: &str) -> Result<(&str, &str), AddressFault> {
    let end = if address.starts_with('"') { quoted_end(address)? } else { dot_string_end(address)? };
    let (local, rest) = address.split_at(end);
    match rest.strip_prefix('@') {
        Some(domain) if !domain.is_empty() && !local.is_empty() => Ok((local, domain)),
        Some(_) | None => Err(AddressFault::NoMailbox),
    }
}

/// The local part without its quotes and quoted pairs: what two spellings of one mailbox have in common.
pub(super) fn unquoted(local: &str) -> String {
    let Some(inner) = local.strip_prefix('"').and_then(|l| l.strip_suffix('"')) else { return local.to_owned() };
    let mut plain = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    plain
}

/// The shortest spelling: quotes only where the content is no dot-string, pairs only for `"` and `\`.
pub(super) fn normal(local: &str) -> String {
    let plain = unquoted(local);
    if dot_string_end(&plain) == Ok(plain.len()) && !plain.is_empty() {
        return plain;
    }
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}

fn dot_string_end(address: &str) -> Result<usize, AddressFault> {
    let end = address.find(|c: char| c != '.' && !is_atext(c)).unwrap_or(address.len());
    let local = &address[..end];
    if !local.is_empty() && local.split('.').any(str::is_empty) { Err(AddressFault::LocalPart) } else { Ok(end) }
}

fn is_atext(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}

/// Where the quoted string ends, its closing quote included. `qtextSMTP` is %d32-33 / %d35-91 / %d93-126 (no TAB), a pair escapes %d32-126.
fn quoted_end(address: &str) -> Result<usize, AddressFault> {
    let mut chars = address.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok(at + 1),
            '\\' if chars.next().is_some_and(|(_, escaped)| (' '..='~').contains(&escaped)) => {}
            ' '..='[' | ']'..='~' => {}
            c if !c.is_ascii() => {}
            _bare => return Err(AddressFault::QuotedLocalPart),
        }
    }
    Err(AddressFault::QuotedLocalPart)
}
