//! What operators write in their own words: bounded, one spirit with the lists that show it, and without addresses.

use crate::limits::FREE_TEXT_BYTES_MAX;
use crate::problem::FieldError;

/// Stands where an address stood.
const HIDDEN: &str = "[address]";
/// Stands where a name is empty, for a refusal names its field.
const NAMELESS: &str = "(empty)";
/// What an error shows of a name that isn't ours.
const NAME_BYTES_MAX: usize = 64;

/// Checks a reason, a note or a receipt, and hides what looks like an address: it is kept in clear and shown in lists.
///
/// # Errors
/// Empty, over 2,000 bytes, or a control character other than a line end or a tab.
pub fn check(field: &str, text: &str) -> Result<String, FieldError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(FieldError::new(field, "is empty"));
    }
    if text.len() > FREE_TEXT_BYTES_MAX {
        return Err(FieldError::new(field, format!("is longer than {FREE_TEXT_BYTES_MAX} bytes")));
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return Err(FieldError::new(field, "holds a control character"));
    }
    Ok(hide_addresses(text))
}

/// A name that a submitter chose, as an error may show it: one short line, without addresses.
pub fn shown_name(name: &str) -> String {
    if name.is_empty() {
        return NAMELESS.to_owned();
    }
    let plain: String = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let mut shown = hide_addresses(&plain);
    curfew_domain::history::cut(&mut shown, NAME_BYTES_MAX);
    shown
}

/// Replaces every word that holds an `@` (or its percent form) between two other characters.
pub fn hide_addresses(text: &str) -> String {
    if !holds_address(text) {
        return text.to_owned();
    }
    text.split_inclusive(char::is_whitespace)
        .map(|word| {
            let bare = word.trim_end();
            if holds_address(bare) { format!("{HIDDEN}{}", &word[bare.len()..]) } else { word.to_owned() }
        })
        .collect()
}

/// Whether some word looks like an address.
pub fn holds_address(text: &str) -> bool {
    // Nearly every text has neither.
    if !text.contains('@') && !text.contains("%40") {
        return false;
    }
    text.split_whitespace().any(|word| {
        let word = word.to_ascii_lowercase().replace("%40", "@");
        let inner = word.trim_matches('@');
        inner.contains('@')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_a_reason_is_hidden() {
        assert_eq!(check("reason", " asked by <ada@example.com>\n and ada%40x.com, ok "), Ok("asked by [address]\n and [address] ok".into()));
        assert_eq!(check("reason", "meet @ noon, cc @ops"), Ok("meet @ noon, cc @ops".into()));
        assert_eq!(shown_name(""), "(empty)");
        assert_eq!(shown_name("a\nb"), "a\u{fffd}b");
        assert_eq!(shown_name("to ada@x.example\r\n\u{1b}[31m"), "to [address]");
        assert!(check("reason", "  ").is_err() && check("reason", "a\0b").is_err() && check("reason", &"x".repeat(2001)).is_err());
    }
}
