//! What may stand in a header: one line of text. Names, subjects, file names and URIs pass here before they are accepted.

use crate::error::ContentError;
use crate::limits::{HEADER_TEXT_BYTES_MAX, UNSUBSCRIBE_BYTES_MAX};

/// Whether a character ends a line somewhere, or shows nothing but does something: controls (C0, DEL, C1), U+2028 and U+2029.
pub fn breaks_a_header(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Checks one line of text for `field`.
///
/// # Errors
/// A line break, NUL, another control, a line separator, or more than 2,048 bytes.
pub fn check_line(field: &str, text: &str) -> Result<(), ContentError> {
    if let Some(c) = text.chars().find(|c| breaks_a_header(*c)) {
        return Err(ContentError::new(field, format!("holds {}, which a mail header must not", name_of(c))));
    }
    if text.len() > HEADER_TEXT_BYTES_MAX {
        return Err(ContentError::new(field, format!("is longer than {HEADER_TEXT_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// Checks a List-Unsubscribe URI: https or mailto, printable ASCII, nothing that ends it.
///
/// # Errors
/// What is wrong with it.
pub fn check_unsubscribe(field: &str, uri: &str) -> Result<(), ContentError> {
    let refuse = |reason: String| Err(ContentError::new(field, reason));
    if uri.strip_prefix("https://").or_else(|| uri.strip_prefix("mailto:")).is_none_or(str::is_empty) {
        return refuse("must be an https or mailto URI".into());
    }
    if !uri.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>' | b'"' | b',')) {
        return refuse("holds a character that a URI must percent-encode".into());
    }
    if uri.len() > UNSUBSCRIBE_BYTES_MAX {
        return refuse(format!("is longer than {UNSUBSCRIBE_BYTES_MAX} bytes"));
    }
    Ok(())
}

fn name_of(c: char) -> String {
    match c {
        '\r' => "a carriage return".into(),
        '\n' => "a line feed".into(),
        '\0' => "a NUL".into(),
        other => format!("U+{:04X}", other as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_ends_a_line_passes() {
        for c in ['\r', '\n', '\0', '\t', '\u{1b}', '\u{7f}', '\u{85}', '\u{2028}', '\u{2029}'] {
            let refused = check_line("to.name", &format!("Ada{c}Bcc: x"));
            assert_eq!(refused.expect_err("refused").field, "to.name", "{:04x}", c as u32);
        }
        assert_eq!(check_line("to.name", "Zoë O’Brien-مريم 李"), Ok(()));
    }

    #[test]
    fn an_unsubscribe_uri_is_https_or_mailto_and_plain() {
        for good in ["https://example.com/u?r=R-1042&x=%C3%A4", "mailto:leave@example.com?subject=R-1"] {
            assert_eq!(check_unsubscribe("f", good), Ok(()));
        }
        for bad in [
            "http://example.com",
            "https://",
            "javascript:x",
            "https://example.com/a b",
            "https://example.com/<x>",
            "https://bücher.example/",
            "https://e.com/\r\nBcc: x",
        ] {
            assert!(check_unsubscribe("f", bad).is_err(), "{bad}");
        }
    }
}
