//! Address literals: `[192.0.2.1]`, `[IPv6:2001:db8::1]`, `[tag:text]` (RFC 5321, 4.1.3).

use std::net::Ipv6Addr;

use super::AddressFault;

/// The literal as given, where it is one.
pub(super) fn check(domain: &str) -> Result<&str, AddressFault> {
    let inner = domain.strip_prefix('[').and_then(|d| d.strip_suffix(']')).ok_or(AddressFault::Literal)?;
    let good = match inner.split_once(':') {
        None => is_ipv4(inner),
        Some((tag, rest)) if tag.eq_ignore_ascii_case("ipv6") => is_ipv6(rest),
        Some((tag, rest)) => inner.parse::<Ipv6Addr>().is_err() && is_tag(tag) && !rest.is_empty() && rest.bytes().all(is_dcontent),
    };
    if good { Ok(domain) } else { Err(AddressFault::Literal) }
}

fn is_dcontent(b: u8) -> bool {
    matches!(b, 33..=90 | 94..=126)
}

/// A registered tag is a word; a group of an IPv6 address whose tag was forgotten is none.
fn is_tag(tag: &str) -> bool {
    let ldh = tag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') && tag.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric());
    ldh && !(tag.len() <= 4 && tag.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// `Snum 3("." Snum)`: one to three digits each, 0 to 255.
fn is_ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 4
        && parts.iter().all(|p| (1..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()) && p.parse::<u16>().is_ok_and(|n| n <= 255))
}

/// IPv6-full, -comp, v6v4-full or v6v4-comp: `::` stands for at least two groups, so at most six (or four before an IPv4 part) stand beside it.
fn is_ipv6(text: &str) -> bool {
    let (head, v4) = match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => {
            if !is_ipv4(tail) {
                return false;
            }
            (if head.ends_with(':') { &text[..head.len() + 1] } else { head }, 2)
        }
        Some(_) | None => (text, 0),
    };
    let groups = |part: &str| {
        let all: Vec<&str> = if part.is_empty() { Vec::new() } else { part.split(':').collect() };
        all.iter().all(|g| (1..=4).contains(&g.len()) && g.bytes().all(|b| b.is_ascii_hexdigit())).then_some(all.len())
    };
    match head.split_once("::") {
        Some((left, right)) => matches!((groups(left), groups(right)), (Some(l), Some(r)) if l + r + v4 <= 6),
        None => groups(head) == Some(8 - v4),
    }
}
