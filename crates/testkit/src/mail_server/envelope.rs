//! MAIL and RCPT as they are written, and whether the extensions in force allow them.

/// A path with its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) address: String,
    pub(super) parameters: String,
}

/// What the connection's EHLO put in force.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Allowed {
    pub(super) size: Option<u64>,
    pub(super) eight_bit_mime: bool,
    pub(super) smtp_utf8: bool,
    pub(super) dsn: bool,
    pub(super) auth: bool,
}

/// Code, enhanced code and text of a refusal.
pub(super) type Refusal = (u16, &'static str, &'static str);

const SYNTAX: Refusal = (501, "5.5.4", "Syntax error in the address or its parameters");
const UNKNOWN_PARAMETER: Refusal = (555, "5.5.4", "Parameter not recognized or not offered");

/// Reads `MAIL FROM:<…> …` or `RCPT TO:<…> …`; `keyword` is `FROM:` or `TO:`. Strict: RFC 5321 §3.3 allows no space around the colon.
pub(super) fn path(arguments: &str, keyword: &str) -> Result<Path, Refusal> {
    let head = arguments.get(..keyword.len()).ok_or(SYNTAX)?;
    let rest = arguments[keyword.len()..].strip_prefix('<').ok_or(SYNTAX)?;
    if !head.eq_ignore_ascii_case(keyword) {
        return Err(SYNTAX);
    }
    let end = closing_bracket(rest).ok_or(SYNTAX)?;
    let (address, after) = (&rest[..end], &rest[end + 1..]);
    if !after.is_empty() && !after.starts_with(' ') {
        return Err(SYNTAX);
    }
    Ok(Path { address: address.to_owned(), parameters: after.trim().to_owned() })
}

/// The `>` that ends the path; one inside a quoted local part doesn't.
fn closing_bracket(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '>' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// What MAIL declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) eight_bit: bool,
    pub(super) utf8: bool,
}

/// Checks MAIL's parameters against what was offered.
pub(super) fn check_mail(path: &Path, allowed: Allowed) -> Result<Declared, Refusal> {
    let mut declared = Declared::default();
    for parameter in path.parameters.split_ascii_whitespace() {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name.to_ascii_uppercase().as_str() {
            "SIZE" => {
                let limit = allowed.size.ok_or(UNKNOWN_PARAMETER)?;
                let size: u64 = value.parse().map_err(|_| SYNTAX)?;
                if limit > 0 && size > limit {
                    return Err((552, "5.3.4", "Message size exceeds fixed limit"));
                }
            }
            "BODY" if allowed.eight_bit_mime => declared.eight_bit = value.eq_ignore_ascii_case("8BITMIME"),
            "SMTPUTF8" if allowed.smtp_utf8 => declared.utf8 = true,
            "RET" | "ENVID" if allowed.dsn => {}
            "AUTH" if allowed.auth => {}
            _ => return Err(UNKNOWN_PARAMETER),
        }
    }
    check_ascii(&path.address, declared.utf8)?;
    Ok(declared)
}

/// Checks RCPT's parameters against what was offered, and its address against what MAIL declared.
pub(super) fn check_rcpt(path: &Path, allowed: Allowed, declared: Declared) -> Result<(), Refusal> {
    if path.address.is_empty() {
        return Err(SYNTAX);
    }
    for parameter in path.parameters.split_ascii_whitespace() {
        let name = parameter.split_once('=').map_or(parameter, |(name, _)| name).to_ascii_uppercase();
        if !(allowed.dsn && (name == "NOTIFY" || name == "ORCPT")) {
            return Err(UNKNOWN_PARAMETER);
        }
    }
    check_ascii(&path.address, declared.utf8)
}

fn check_ascii(address: &str, utf8: bool) -> Result<(), Refusal> {
    if utf8 || address.is_ascii() { Ok(()) } else { Err((553, "5.6.7", "Address needs SMTPUTF8")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_local_part_may_hold_brackets_and_spaces() {
        let read = path("TO:<\"a> \\\"b\"@x.example> NOTIFY=NEVER", "TO:").unwrap();
        assert_eq!(read, Path { address: "\"a> \\\"b\"@x.example".into(), parameters: "NOTIFY=NEVER".into() });
    }

    #[test]
    fn parameters_that_were_not_offered_are_refused() {
        let plain = path("FROM:<a@x.example> BODY=8BITMIME SIZE=10", "FROM:").unwrap();
        assert_eq!(check_mail(&plain, Allowed::default()), Err(UNKNOWN_PARAMETER));
        let allowed = Allowed { size: Some(9), eight_bit_mime: true, ..Allowed::default() };
        assert_eq!(check_mail(&plain, allowed).unwrap_err().0, 552);
        let allowed = Allowed { size: Some(10), ..allowed };
        assert_eq!(check_mail(&plain, allowed), Ok(Declared { eight_bit: true, utf8: false }));
    }

    #[test]
    fn a_non_ascii_address_needs_smtputf8() {
        let path = path("TO:<ü@x.example>", "TO:").unwrap();
        assert_eq!(check_rcpt(&path, Allowed::default(), Declared::default()).unwrap_err().0, 553);
        assert_eq!(check_rcpt(&path, Allowed::default(), Declared { utf8: true, eight_bit: false }), Ok(()));
    }
}
