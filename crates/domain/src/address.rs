//! A recipient's mailbox: what a mail system accepts as an envelope address, and nothing else.
//!
//! The grammar is RFC 5321's (4.1.2, 4.1.3) with RFC 6531's extension, not RFC 5322's: comments, groups and folding white space
//! belong in headers. Limits count octets (RFC 5321, 4.5.3.1). Domains are compared and sent as A-labels (IDNA2008 after the UTS #46
//! mapping). Control, bidi and invisible characters are refused by policy, whatever the grammar says. Nothing is trimmed here.
//!
//! Not promised: that the mailbox exists. Read `address/domain_name.rs` next.

mod domain_name;
mod literal;
mod local_part;

use std::fmt;

/// Octets of a whole address: a path is at most 256 with its brackets (RFC 5321, 4.5.3.1.3).
pub const ADDRESS_OCTETS_MAX: usize = 254;
/// Octets of a local part, its quotes counted (RFC 5321, 4.5.3.1.1).
pub const LOCAL_PART_OCTETS_MAX: usize = 64;

/// A mailbox that passed `check`. It has no `Display`, and its `Debug` shows the masked form.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    given: String,
    local: String,
    domain_ascii: String,
    needs_smtputf8: bool,
}

/// Why an address is refused. Its sentence never repeats the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressFault {
    /// The bytes are no UTF-8.
    #[error("the address is not valid UTF-8")]
    NotUtf8,
    /// Nothing there.
    #[error("the address is empty")]
    Empty,
    /// No local part, no `@`, or no domain.
    #[error("an address is a local part, one @ and a domain")]
    NoMailbox,
    /// CR, LF, NUL, another control, a bidi control, an invisible character or a space that isn't U+0020.
    #[error("the address holds a control, invisible, or direction-changing character")]
    Invisible,
    /// The local part is no dot-string.
    #[error("the local part is not a sequence of atoms with single dots between them")]
    LocalPart,
    /// The local part is no quoted string.
    #[error("the quoted local part is not closed, or holds a character that must not be there")]
    QuotedLocalPart,
    /// More than 64 octets before the `@`.
    #[error("the local part has more than 64 octets")]
    LocalPartTooLong {
        /// Whether it would have needed SMTPUTF8.
        utf8: bool,
    },
    /// The domain is no sequence of letters, digits and hyphens.
    #[error("the domain has an empty label, or a character or a hyphen where none may be")]
    DomainName,
    /// A label over 63 octets, or the domain over 253.
    #[error("a label of the domain has more than 63 octets, or the domain more than 253")]
    DomainTooLong,
    /// One label, which no mail exchanger answers for.
    #[error("the domain has a single label")]
    SingleLabel,
    /// The last label is a number.
    #[error("the last label of the domain is a number")]
    NumericTopLabel,
    /// A label that IDNA2008 doesn't admit.
    #[error("the domain is not a valid internationalised name (IDNA2008)")]
    Idna,
    /// Between brackets, and no address literal.
    #[error("the address literal in brackets is malformed")]
    Literal,
    /// More than 254 octets in all.
    #[error("the address has more than 254 octets")]
    TooLong,
}

impl AddressFault {
    /// One word for answers and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NotUtf8 => "not_utf8",
            Self::Empty => "empty",
            Self::NoMailbox => "no_mailbox",
            Self::Invisible => "invisible_character",
            Self::LocalPart => "local_part",
            Self::QuotedLocalPart => "quoted_local_part",
            Self::LocalPartTooLong { .. } => "local_part_too_long",
            Self::DomainName => "domain",
            Self::DomainTooLong => "domain_too_long",
            Self::SingleLabel => "single_label",
            Self::NumericTopLabel => "numeric_top_label",
            Self::Idna => "idna",
            Self::Literal => "address_literal",
            Self::TooLong => "too_long",
        }
    }

    /// Whether the refused address would have needed SMTPUTF8, as far as it was read.
    pub const fn needs_smtputf8(self) -> bool {
        matches!(self, Self::LocalPartTooLong { utf8: true })
    }
}

/// Checks bytes that may not be UTF-8.
///
/// # Errors
/// As `check`, and `NotUtf8`.
pub fn check_bytes(bytes: &[u8]) -> Result<Address, AddressFault> {
    check(std::str::from_utf8(bytes).map_err(|_invalid| AddressFault::NotUtf8)?)
}

/// Checks one address, exactly as given.
///
/// # Errors
/// The first fault met, from left to right; lengths after grammar.
pub fn check(address: &str) -> Result<Address, AddressFault> {
    if address.is_empty() {
        return Err(AddressFault::Empty);
    }
    if address.len() > 16 * ADDRESS_OCTETS_MAX {
        return Err(AddressFault::TooLong);
    }
    let (local, domain) = local_part::split(address)?;
    if local.chars().any(invisible) || domain.chars().any(|c| invisible(c) && !matches!(c, '\u{200c}' | '\u{200d}')) {
        return Err(AddressFault::Invisible);
    }
    if local.len() > LOCAL_PART_OCTETS_MAX {
        return Err(AddressFault::LocalPartTooLong { utf8: !local.is_ascii() });
    }
    let domain_ascii = if domain.starts_with('[') { literal::check(domain)?.to_owned() } else { domain_name::to_ascii(domain)? };
    if local.len() + 1 + domain_ascii.len() > ADDRESS_OCTETS_MAX {
        return Err(AddressFault::TooLong);
    }
    Ok(Address { given: address.to_owned(), local: local.to_owned(), needs_smtputf8: !local.is_ascii(), domain_ascii })
}

/// Whether a character shows nothing, changes direction or ends lines; also spaces other than U+0020, which no keyboard meant to type.
/// The set is Unicode's `Default_Ignorable_Code_Point`, `White_Space`, `Cc`, and what stands for broken or no text.
fn invisible(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fdd0}'..='\u{fdef}' | '\u{fff0}'..='\u{fffd}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
        || (c as u32) & 0xfffe == 0xfffe
}

impl Address {
    /// As it was given; callers seal it.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// The local part as given, quotes included.
    pub fn local(&self) -> &str {
        &self.local
    }

    /// The domain in A-labels and lower case, or the address literal as given.
    pub fn domain(&self) -> &str {
        &self.domain_ascii
    }

    /// Whether the envelope needs SMTPUTF8 (RFC 6531): only a local part does, for a domain has its A-labels.
    pub fn needs_smtputf8(&self) -> bool {
        self.needs_smtputf8
    }

    /// The form for the envelope: the local part as given (RFC 5321, 2.4), the domain in A-labels.
    pub fn ascii(&self) -> String {
        format!("{}@{}", self.local, self.domain_ascii)
    }

    /// One spelling for each mailbox: quotes only where they are needed (RFC 5321, 4.1.2), the domain in lower case.
    pub fn normal(&self) -> String {
        format!("{}@{}", local_part::normal(&self.local), self.domain_ascii.to_ascii_lowercase())
    }

    /// As `normal`, the local part in lower case too: what references and suppressions are computed from. No mail system in use tells
    /// `Bob@` from `bob@`, and a recipient who asked for silence must get it however a file spells the address.
    pub fn folded(&self) -> String {
        self.normal().to_lowercase()
    }

    /// For lists and logs: the first character of the local part and the top label, never more; of a one-character local part nothing.
    pub fn masked(&self) -> String {
        let plain = local_part::unquoted(&self.local);
        let mut chars = plain.chars();
        let first = chars.next().filter(|c| c.is_alphanumeric() && chars.next().is_some());
        let top = self.domain_ascii.rsplit('.').next().filter(|_| !self.domain_ascii.starts_with('['));
        format!("{}•••@•••{}", first.map(String::from).unwrap_or_default(), top.map(|t| format!(".{t}")).unwrap_or_default())
    }

    /// What a person should look at before mail goes there. Never a reason to refuse.
    pub fn warnings(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        let mut warn = |holds: bool, word: &'static str| {
            if holds {
                found.push(word);
            }
        };
        let plain = local_part::unquoted(&self.local).to_lowercase();
        let labels: Vec<&str> = self.domain_ascii.split('.').collect();
        let top = labels.last().copied().unwrap_or_default();
        let literal = self.domain_ascii.starts_with('[');
        warn(ROLES.contains(&plain.as_str()), "role account");
        warn(AUTOMATA.contains(&plain.as_str()), "an address that nobody reads");
        warn(plain.is_empty(), "empty local part");
        warn(plain.contains(['!', '%']), "looks like a source route");
        warn(literal, "address literal");
        warn(!literal && reserved(&labels), "reserved domain");
        warn(!literal && top.len() == 1, "no such top-level domain");
        warn(labels.iter().any(|l| l.as_bytes().get(2..4) == Some(b"--") && !l.starts_with("xn--")), "reserved label");
        warn(labels.iter().any(|l| l.starts_with("xn--")), "internationalised domain, check its spelling");
        warn(!self.local.is_ascii(), "needs SMTPUTF8 all the way");
        found
    }
}

/// RFC 2142, sections 2 to 7.
const ROLES: &[&str] = &[
    "abuse",
    "ftp",
    "hostmaster",
    "info",
    "list",
    "marketing",
    "news",
    "noc",
    "postmaster",
    "root",
    "sales",
    "security",
    "support",
    "trouble",
    "usenet",
    "uucp",
    "webmaster",
    "www",
];
const AUTOMATA: &[&str] = &["bounce", "bounces", "daemon", "devnull", "do-not-reply", "donotreply", "mailer-daemon", "no-reply", "nobody", "noreply"];

/// RFC 2606, RFC 6761 and RFC 6762: names that never lead to a mailbox. `example.com` and its sisters are among them.
fn reserved(labels: &[&str]) -> bool {
    match labels {
        [.., "test" | "example" | "invalid" | "localhost" | "local" | "onion" | "internal"] | [.., "example", "com" | "net" | "org"] => true,
        [.., _other] => false,
        [] => false,
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.masked())
    }
}
