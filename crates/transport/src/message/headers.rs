//! The headers of a message, in one order. A value reaches them checked, folded and encoded; no other code writes one.

use std::time::{Duration, UNIX_EPOCH};

use curfew_content::header_text::{breaks_a_header, check_unsubscribe};
use lettre::message::header::{Date, HeaderName, HeaderValue, Headers, MIME_VERSION_1_0};

use super::encoded_word::Value;
use super::{Mailbox, MessageError, MessageParts, ProviderKey};

/// The last second that a Date can hold with four digits for its year.
const DATE_S_MAX: u64 = 253_402_300_799;
/// A provider's header, name and value, in octets: with room on a line of 998.
const PROVIDER_HEADER_MAX: usize = 76;
const PROVIDER_VALUE_MAX: usize = 256;

/// Every header but those of the body's outermost part; ends without the empty line.
pub(super) fn write(parts: &MessageParts<'_>, message_id: &str) -> Result<Vec<u8>, MessageError> {
    let mut headers = Headers::with_capacity(12);
    headers.set(date(parts));
    headers.insert_raw(mailbox("From", "from", &parts.from)?);
    headers.insert_raw(mailbox("To", "to.name", &parts.to)?);
    check_line("content.subject", parts.subject)?;
    let mut subject = Value::of("Subject");
    subject.unstructured(parts.subject);
    headers.insert_raw(ready("Subject", subject.finish()));
    headers.insert_raw(ready("Message-ID", message_id.to_owned()));
    headers.insert_raw(ready("Auto-Submitted", "auto-generated".to_owned())); // RFC 3834: keeps vacation replies away
    headers.insert_raw(ready("X-Curfew-Job", parts.job_id.to_string()));
    if let Some(uri) = parts.list_unsubscribe {
        unsubscribe(&mut headers, uri)?;
    }
    if let Some(key) = &parts.provider_key {
        headers.insert_raw(provider_key(&headers, key)?);
    }
    headers.set(MIME_VERSION_1_0);
    Ok(headers.to_string().into_bytes())
}

/// The release, whole seconds in UTC; a moment before 1970 or after 9999 stands as the nearest second that a Date can hold.
fn date(parts: &MessageParts<'_>) -> Date {
    let seconds = u64::try_from(parts.release_at.as_millis() / 1_000).unwrap_or(0).min(DATE_S_MAX);
    Date::new(UNIX_EPOCH + Duration::from_secs(seconds))
}

fn mailbox(header: &'static str, field: &'static str, mailbox: &Mailbox<'_>) -> Result<HeaderValue, MessageError> {
    let mut value = Value::of(header);
    // Local part as given, domain in A-labels: raw UTF-8 stands here only where SMTPUTF8 is needed anyway.
    let address = mailbox.address.ascii();
    match mailbox.name.map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => {
            check_line(field, name)?;
            value.phrase(name);
            value.token(&format!("<{address}>"));
        }
        None => value.token(&address),
    }
    Ok(ready(header, value.finish()))
}

/// RFC 2369 and, for https, RFC 8058.
fn unsubscribe(headers: &mut Headers, uri: &str) -> Result<(), MessageError> {
    check_unsubscribe("content.list_unsubscribe", uri).map_err(|_why| MessageError {
        field: "content.list_unsubscribe",
        reason: "is not an https or mailto URI of at most 900 printable ASCII characters",
    })?;
    headers.insert_raw(ready("List-Unsubscribe", format!("<{uri}>")));
    if uri.starts_with("https://") {
        headers.insert_raw(ready("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()));
    }
    Ok(())
}

/// The header's name comes from the configuration; it must not stand for one of ours, and the value must stand as it is.
fn provider_key(headers: &Headers, key: &ProviderKey<'_>) -> Result<HeaderValue, MessageError> {
    let refused = |reason| Err(MessageError { field: "idempotency_header", reason });
    let token = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if key.header.is_empty() || key.header.len() > PROVIDER_HEADER_MAX || !key.header.bytes().all(token) {
        return refused("a header's name is 1 to 76 letters, digits, - and _");
    }
    if headers.get_raw(key.header).is_some() || STRUCTURAL.iter().any(|name| name.eq_ignore_ascii_case(key.header)) {
        return refused("names a header that the message has already, or that routes or describes it");
    }
    if key.value.is_empty() || key.value.len() > PROVIDER_VALUE_MAX || !key.value.bytes().all(|b| b.is_ascii_graphic()) {
        return refused("the provider's key is 1 to 256 printable ASCII characters");
    }
    let name = HeaderName::new_from_ascii(key.header.to_owned()).expect("checked: a token of at most 76 octets");
    Ok(HeaderValue::dangerous_new_pre_encoded(name, String::new(), key.value.to_owned()))
}

/// Headers that change where a message goes or how it is read.
const STRUCTURAL: &[&str] = &[
    "Date",
    "From",
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Bcc",
    "Subject",
    "Message-ID",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Content-Disposition",
    "Return-Path",
    "Received",
    "DKIM-Signature",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "Resent-To",
    "Resent-From",
];

fn check_line(field: &'static str, text: &str) -> Result<(), MessageError> {
    if text.chars().any(breaks_a_header) {
        return Err(MessageError { field, reason: "holds a line break or another control character" });
    }
    Ok(())
}

/// A value that is folded and encoded already.
fn ready(name: &'static str, value: String) -> HeaderValue {
    HeaderValue::dangerous_new_pre_encoded(HeaderName::new_from_ascii_str(name), String::new(), value)
}
