//! The last net for addresses: whatever looks like one becomes `•@•`. Callers redact before; this is for what they missed.

/// The text with everything that looks like a mailbox replaced; so is what stands before the `@` of a URL.
///
/// A template's version (`renewal@3`) stays: what follows its `@` has no letter, dot or bracket. Percent- and
/// quoted-printable-encoded signs (`%40`, `=40`) count as `@`.
pub fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, sign)) = sign(rest) {
        let (before, after) = (&rest[..at], &rest[at + sign..]);
        let start = before.rfind(ends).map_or(0, |i| i + before[i..].chars().next().map_or(0, char::len_utf8));
        let end = after.find(ends).unwrap_or(after.len());
        let domain = &after[..end];
        if start < at && domain.chars().any(|c| c.is_alphabetic() || c == '.' || c == '[') {
            out.push_str(&before[..start]);
            out.push_str("•@•");
            rest = &after[end..];
        } else {
            out.push_str(&rest[..at + sign]);
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Where the next `@` stands, and its length.
fn sign(text: &str) -> Option<(usize, usize)> {
    [("@", 1), ("%40", 3), ("=40", 3)].into_iter().filter_map(|(s, len)| text.find(s).map(|at| (at, len))).min()
}

fn ends(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "<>\"'(),;:/\\".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_passes_in_any_clothes() {
        for (given, kept) in [
            ("550 5.1.1 <ada@example.com>: unknown", "550 5.1.1 <•@•>: unknown"),
            ("jörg@müller.example said no", "•@• said no"),
            ("to=ada%40example.com&x", "•@•"),
            ("ada=40example.com", "•@•"),
            ("a@b.example,c@d.example", "•@•,•@•"),
            ("amqp://guest:secret@127.0.0.1:5672/", "amqp://guest:•@•:5672/"),
            ("user@[192.0.2.1]", "•@•"),
        ] {
            assert_eq!(redacted(given), kept);
        }
    }

    #[test]
    fn a_template_version_is_no_address() {
        assert_eq!(redacted("renewal@3 is not there"), "renewal@3 is not there");
        assert_eq!(redacted("at 09:00 @ noon, 100%"), "at 09:00 @ noon, 100%");
    }
}
