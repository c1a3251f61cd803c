//! The message as the provider gets it: RFC 5322 with MIME, the same bytes at each attempt.
//!
//! Promises
//! - M1  The same parts give the same bytes: `Date` is the release, `Message-ID` comes from key and content revision, boundaries from the job's id.
//! - M2  No part of a letter can begin a header, end the headers or end the message: what can't stand in a header is encoded or refused.
//! - M3  CRLF ends every line, no line has more than 998 octets, and every octet is 7 bit; only a non-ASCII local part makes the address
//!   headers UTF-8 (RFC 6532), and `needs_smtputf8` says so.
//! - M4  A standard reader gets back subject, names, bodies and attachments exactly. Two things are normalised: every line end of a body becomes
//!   CRLF, and a body ends with one.
//!
//! Not done here: doubling dots at the start of a line. That belongs to the dialogue (RFC 5321, 4.5.2).
//!
//! lettre encodes bodies and lays out the MIME tree; its own defaults for Date, Message-ID and boundaries are random or now, and its header
//! encoder writes look-alikes of encoded-words as they stand, so headers are ours. Read `message/headers.rs` next.

mod attachment;
mod body;
mod encoded_word;
mod headers;

use curfew_domain::address::Address;
use curfew_domain::{JobId, Key, Moment};
use lettre::message::{MultiPart, SinglePart};
use sha2::{Digest, Sha256};

use attachment::attach;
use body::part;

/// RFC 5322, 2.1.1: octets of a line without its CRLF.
pub const LINE_OCTETS_MAX: usize = 998;

/// Everything that the bytes of a message depend on. `Debug` shows lengths only.
#[derive(Clone, Copy)]
pub struct MessageParts<'a> {
    /// Stands in `X-Curfew-Job` and makes the boundaries.
    pub job_id: JobId,
    /// With the revision it makes the `Message-ID`.
    pub key: &'a Key,
    /// Rises with each `review correct`.
    pub content_revision: u32,
    /// The generation's release: the `Date`, whole seconds.
    pub release_at: Moment,
    /// The transport's sender.
    pub from: Mailbox<'a>,
    /// The one recipient.
    pub to: Mailbox<'a>,
    /// One line.
    pub subject: &'a str,
    /// The plain text; this, the HTML, or both.
    pub text: Option<&'a str>,
    /// The HTML alternative.
    pub html: Option<&'a str>,
    /// An https or mailto URI; https also gets RFC 8058's one-click header.
    pub list_unsubscribe: Option<&'a str>,
    /// In their order.
    pub attachments: &'a [Attached<'a>],
    /// A header with the key under which the provider recognises a repeated submission.
    pub provider_key: Option<ProviderKey<'a>>,
}

/// A name and an address.
#[derive(Clone, Copy)]
pub struct Mailbox<'a> {
    /// The display name; blank is the same as none.
    pub name: Option<&'a str>,
    /// The checked address; its domain is written in A-labels.
    pub address: &'a Address,
}

/// An attachment's bytes with the name that the recipient sees.
#[derive(Clone, Copy)]
pub struct Attached<'a> {
    /// Made safe: no folder, no control, no character that changes direction, at most 255 octets.
    pub name: &'a str,
    /// All of it.
    pub bytes: &'a [u8],
}

/// A provider's idempotency header.
#[derive(Clone, Copy)]
pub struct ProviderKey<'a> {
    /// The transport's `idempotency_header`.
    pub header: &'a str,
    /// The key itself, printable ASCII.
    pub value: &'a str,
}

/// A message ready for the dialogue.
#[derive(Clone, PartialEq, Eq)]
pub struct BuiltMessage {
    /// CRLF lines, the last one ended; dots are not doubled.
    pub bytes: Vec<u8>,
    /// Whether the server must offer SMTPUTF8.
    pub needs_smtputf8: bool,
    /// With its angle brackets.
    pub message_id: String,
    /// Octets, as SIZE counts them (RFC 1870: before dots are doubled).
    pub size: u64,
}

/// A part that can't be sent. It fails the same way at each attempt, so the job ends as `permanent_failure`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct MessageError {
    /// The field as the submitter or the configuration writes it.
    pub field: &'static str,
    /// Why, without the value.
    pub reason: &'static str,
}

/// Builds the message.
///
/// # Errors
/// A header-bound field with a line break or another control, neither text nor HTML, a malformed provider header or List-Unsubscribe URI.
pub fn build(parts: &MessageParts<'_>) -> Result<BuiltMessage, MessageError> {
    let needs_smtputf8 = parts.to.address.needs_smtputf8() || parts.from.address.needs_smtputf8();
    let message_id = message_id(parts);
    let mut bytes = headers::write(parts, &message_id)?;
    bytes.extend_from_slice(&tree(parts)?);
    let too_long = bytes.split(|b| *b == b'\n').any(|line| line.len() > LINE_OCTETS_MAX + 1);
    if too_long {
        return Err(MessageError { field: "content", reason: "has a header line of more than 998 octets" });
    }
    Ok(BuiltMessage { size: bytes.len() as u64, bytes, needs_smtputf8, message_id })
}

/// The MIME tree: mixed(alternative(text, html), attachments…), without the levels that hold one part.
fn tree(parts: &MessageParts<'_>) -> Result<Vec<u8>, MessageError> {
    let boundary = Boundary::of(parts.job_id);
    let words = match (parts.text, parts.html) {
        (Some(text), Some(html)) => {
            let (text, html) = (part(text, body::Kind::Text, &boundary), part(html, body::Kind::Html, &boundary));
            Words::Both(MultiPart::alternative().boundary(boundary.level('a')).singlepart(text).singlepart(html))
        }
        (Some(text), None) => Words::One(part(text, body::Kind::Text, &boundary)),
        (None, Some(html)) => Words::One(part(html, body::Kind::Html, &boundary)),
        (None, None) => return Err(MessageError { field: "content", reason: "has neither text nor html" }),
    };
    if parts.attachments.is_empty() {
        return Ok(match words {
            Words::Both(alternative) => alternative.formatted(),
            Words::One(single) => without_the_blank_line(single.formatted()),
        });
    }
    let mixed = MultiPart::mixed().boundary(boundary.level('m'));
    let mixed = match words {
        Words::Both(alternative) => mixed.multipart(alternative),
        Words::One(single) => mixed.singlepart(single),
    };
    Ok(parts.attachments.iter().fold(mixed, |mixed, attached| mixed.singlepart(attach(attached))).formatted())
}

enum Words {
    One(SinglePart),
    Both(MultiPart),
}

/// lettre ends each part with the CRLF that belongs to a boundary; where no boundary follows, it would be a line more than was written.
fn without_the_blank_line(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.ends_with(b"\r\n\r\n") {
        bytes.truncate(bytes.len() - 2);
    }
    bytes
}

/// One per job, whatever the attempt; another content revision is another message. No two recipients share one (a provider counts that).
fn message_id(parts: &MessageParts<'_>) -> String {
    format!("<{}>", message_id_of(parts.key, parts.content_revision, parts.from.address.domain()))
}

/// The `Message-ID` of a content revision, without its brackets; `domain` is the sender's, in A-labels.
pub fn message_id_of(key: &Key, content_revision: u32, domain: &str) -> String {
    let mut sha = Sha256::new();
    sha.update(key.as_str());
    sha.update([0]);
    sha.update(content_revision.to_be_bytes());
    format!("{}@{domain}", hex::encode(&sha.finalize()[..16]))
}

/// The job's boundaries. `=_` stands in no quoted-printable or base64 text, and a body that holds the rest is base64 (see `body.rs`).
pub(crate) struct Boundary(String);

impl Boundary {
    fn of(job: JobId) -> Self {
        Self(format!("=_{}", hex::encode(&Sha256::digest(job.as_bytes())[..12])))
    }

    fn level(&self, level: char) -> String {
        format!("{}_{level}", self.0)
    }

    pub(crate) fn stands_in(&self, text: &str) -> bool {
        text.contains(&self.0)
    }
}

impl std::fmt::Debug for MessageParts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MessageParts({}, revision {}, {} attachments)", self.job_id, self.content_revision, self.attachments.len())
    }
}

impl std::fmt::Debug for BuiltMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BuiltMessage({}, {} bytes)", self.message_id, self.size)
    }
}
