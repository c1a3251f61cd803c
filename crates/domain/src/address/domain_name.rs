//! Domain names: letters, digits, hyphens (RFC 1123, 2.1), and names in other scripts as A-labels (IDNA2008: RFC 5890 to 5893).
//!
//! The `idna` crate maps and encodes by UTS #46, checks joiners (CONTEXTJ) and direction (RFC 5893). UTS #46 still admits symbols
//! and emoji, so the derived property of RFC 5892 is checked here, from `idna_disallowed.txt`, and its CONTEXTO rules.
//! A name that is all ASCII is checked as DNS checks it: an A-label isn't decoded.

use std::sync::LazyLock;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};

use super::AddressFault;

const LABEL_OCTETS_MAX: usize = 63;
/// RFC 1035 allows 255 on the wire, two of them for the first length and the root.
const NAME_OCTETS_MAX: usize = 253;

/// The name in A-labels and lower case.
pub(super) fn to_ascii(domain: &str) -> Result<String, AddressFault> {
    let ascii = if domain.is_ascii() { domain.to_ascii_lowercase() } else { encode(domain)? };
    let labels: Vec<&str> = ascii.split('.').collect();
    if !labels.iter().all(|l| is_ldh(l)) {
        return Err(AddressFault::DomainName);
    }
    if ascii.len() > NAME_OCTETS_MAX || labels.iter().any(|l| l.len() > LABEL_OCTETS_MAX) {
        return Err(AddressFault::DomainTooLong);
    }
    match labels.as_slice() {
        [_single] => Err(AddressFault::SingleLabel),
        [.., last] if last.bytes().all(|b| b.is_ascii_digit()) => Err(AddressFault::NumericTopLabel),
        [..] => Ok(ascii),
    }
}

fn is_ldh(label: &str) -> bool {
    !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn encode(domain: &str) -> Result<String, AddressFault> {
    // Other full stops are an input method's affair (RFC 5895, step 4), and so is U+FF20: nothing here turns them into `.` or `@`.
    if domain.contains(['\u{3002}', '\u{ff0e}', '\u{ff61}', '\u{2024}', '\u{fe52}']) {
        return Err(AddressFault::Idna);
    }
    if domain.split('.').any(str::is_empty) {
        return Err(AddressFault::DomainName);
    }
    let (unicode, valid) = Uts46::new().to_unicode(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast);
    if valid.is_err() || unicode.split('.').count() != domain.split('.').count() {
        return Err(AddressFault::Idna);
    }
    if !unicode.split('.').zip(domain.split('.')).all(|(mapped, given)| given.is_ascii() || is_u_label(mapped)) {
        return Err(AddressFault::Idna);
    }
    let ascii = Uts46::new().to_ascii(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Ignore);
    ascii.map(|a| a.into_owned()).map_err(|_refused| AddressFault::Idna)
}

/// Whether a mapped label is admissible: no hyphens in third and fourth place (RFC 5891, 4.2.3.1), no DISALLOWED character, CONTEXTO kept.
fn is_u_label(label: &str) -> bool {
    let chars: Vec<char> = label.chars().collect();
    chars.get(2..4) != Some(&['-', '-']) && !chars.iter().any(|&c| disallowed(c)) && (0..chars.len()).all(|i| context_holds(&chars, i))
}

fn disallowed(c: char) -> bool {
    let code = c as u32;
    let next = DISALLOWED.partition_point(|&(first, _)| first <= code);
    next > 0 && code <= DISALLOWED[next - 1].1
}

static DISALLOWED: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
    let number = |hex: &str| u32::from_str_radix(hex, 16).expect("idna_disallowed.txt holds hexadecimal ranges");
    include_str!("idna_disallowed.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .map(|range| match range.split_once('-') {
            Some((first, last)) => (number(first), number(last)),
            None => (number(range), number(range)),
        })
        .collect()
});

/// RFC 5892, appendix A.3 to A.9; A.1 and A.2 (the joiners) are `idna`'s.
fn context_holds(label: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|i| label.get(i)).copied();
    let after = label.get(at + 1).copied();
    match label[at] {
        '\u{b7}' => before == Some('l') && after == Some('l'),
        '\u{375}' => after.is_some_and(|c| matches!(c, '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}')),
        '\u{5f3}' | '\u{5f4}' => before.is_some_and(|c| matches!(c, '\u{590}'..='\u{5ff}')),
        '\u{30fb}' => label.iter().any(|&c| c != '\u{30fb}' && is_kana_or_han(c)),
        '\u{660}'..='\u{669}' => !label.iter().any(|c| matches!(c, '\u{6f0}'..='\u{6f9}')),
        '\u{6f0}'..='\u{6f9}' => !label.iter().any(|c| matches!(c, '\u{660}'..='\u{669}')),
        _free => true,
    }
}

fn is_kana_or_han(c: char) -> bool {
    matches!(c, '\u{3005}' | '\u{3007}' | '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}
