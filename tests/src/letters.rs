//! Mails as a recipient's program reads them.

use hex::encode;
use mail_parser::{MessageParser, MimeHeaders};
use sha2::{Digest, Sha256};

/// What a test compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// `X-Curfew-Job`.
    pub job: String,
    /// `Message-ID`, without brackets.
    pub message_id: String,
    /// The address in `To`.
    pub to: String,
    /// The name in `To`.
    pub to_name: String,
    /// Envelope recipients that the delivery agent wrote on top (`X-Original-To`), in order.
    pub delivered_to: Vec<String>,
    /// Decoded.
    pub subject: String,
    /// Decoded, with `\n`.
    pub text: String,
    /// Decoded, with `\n`.
    pub html: String,
    /// Names and SHA-256, in order.
    pub attachments: Vec<(String, String)>,
    /// Every header's name, in order.
    pub headers: Vec<String>,
    /// `List-Unsubscribe`, raw.
    pub list_unsubscribe: String,
}

/// Reads a mail.
///
/// # Panics
/// Where it is none.
pub fn read(bytes: &[u8]) -> Letter {
    let message = MessageParser::default().parse(bytes).expect("a mail that a MIME parser reads");
    let raw = |name: &str| message.header_raw(name).unwrap_or_default().trim().to_owned();
    let to = message.to().and_then(|to| to.first());
    let delivered = message.headers_raw().filter(|(name, _)| name.eq_ignore_ascii_case("x-original-to")).map(|(_, value)| value.trim().to_owned());
    Letter {
        job: raw("X-Curfew-Job"),
        message_id: message.message_id().unwrap_or_default().to_owned(),
        to: to.and_then(|a| a.address()).unwrap_or_default().to_owned(),
        to_name: to.and_then(|a| a.name()).unwrap_or_default().to_owned(),
        delivered_to: delivered.collect(),
        subject: message.subject().unwrap_or_default().to_owned(),
        text: lines(message.body_text(0).as_deref().unwrap_or_default()),
        html: lines(message.body_html(0).as_deref().unwrap_or_default()),
        attachments: message
            .attachments()
            .map(|part| (part.attachment_name().unwrap_or_default().to_owned(), encode(Sha256::digest(part.contents()))))
            .collect(),
        headers: message.headers_raw().map(|(name, _)| name.to_owned()).collect(),
        list_unsubscribe: raw("List-Unsubscribe"),
    }
}

fn lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}
