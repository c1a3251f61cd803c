//! Header injection: every string of a message times every way to end a line. Each is refused, or encoded where it can end none.

use curfew_domain::address;
use curfew_domain::{JobId, Key, Moment};
use curfew_transport::message::{Attached, Mailbox, MessageParts, ProviderKey, build};
use mail_parser::MessageParser;

const ENDS: &[&str] = &["\r", "\n", "\r\n", "\0", "\u{2028}", "\u{2029}", "\u{85}", "\u{b}", "\r\n\r\n", "\r\n ", "\n\t", "\r\n.\r\n"];
const FIELDS: &[&str] =
    &["to.name", "from.name", "subject", "text", "html", "list_unsubscribe", "attachment.name", "provider_key.header", "provider_key.value"];

#[test]
fn no_field_can_begin_a_header_or_end_the_message() {
    let (to, from) = (address::check("ada@example.com").expect("an address"), address::check("reports@example.com").expect("an address"));
    let key = Key::parse("acme/p/R-1/2026-12-01").expect("a key");
    for field in FIELDS {
        for end in ENDS {
            for text in [
                format!("a{end}Bcc: evil@example.net"),
                format!("{end}Bcc: evil@example.net"),
                format!("a{end}{end}<script>"),
                format!("Bcc: evil@example.net{end}"),
            ] {
                let value = |name: &str, usual: &'static str| if *field == name { text.clone() } else { usual.to_owned() };
                let (to_name, from_name, subject, body, html) =
                    (value("to.name", "Ada"), value("from.name", "R"), value("subject", "s"), value("text", "t"), value("html", "h"));
                let (file, unsubscribe) = (
                    value("attachment.name", "a.pdf"),
                    if *field == "list_unsubscribe" { format!("https://e.com/{text}") } else { "https://e.com/".into() },
                );
                let (header, provider_value) = (value("provider_key.header", "X-Key"), value("provider_key.value", "k"));
                let attachments = [Attached { name: &file, bytes: b"x" }];
                let parts = MessageParts {
                    job_id: JobId::parse("01939d2c-5f00-7000-8000-000000000001").expect("an id"),
                    key: &key,
                    content_revision: 1,
                    release_at: Moment::from_millis(1_764_577_800_000),
                    from: Mailbox { name: Some(&from_name), address: &from },
                    to: Mailbox { name: Some(&to_name), address: &to },
                    subject: &subject,
                    text: Some(&body),
                    html: Some(&html),
                    list_unsubscribe: Some(&unsubscribe),
                    attachments: &attachments,
                    provider_key: Some(ProviderKey { header: &header, value: &provider_value }),
                };
                let may_be_encoded = matches!(*field, "text" | "html" | "attachment.name");
                let message = match build(&parts) {
                    Ok(message) => message,
                    Err(refused) => {
                        assert!(!may_be_encoded, "{field} {end:?}: {refused}");
                        assert!(!refused.to_string().contains("evil"), "{refused}");
                        continue;
                    }
                };
                // A display name is trimmed, so a line end at its edge is gone before it is looked at.
                assert!(may_be_encoded || field.ends_with(".name"), "{field} {end:?} is refused");
                let parsed = MessageParser::new().parse(&message.bytes).expect("parsed");
                let names: Vec<String> = parsed.headers_raw().map(|(name, _)| name.to_owned()).collect();
                assert_eq!(names, EXPECTED, "{field} {end:?}");
                assert_eq!((parsed.attachment_count(), parsed.text_body_count(), parsed.html_body_count()), (1, 1, 1), "{field} {end:?}");
                assert!(parsed.parts.iter().all(|p| p.headers.iter().all(|h| h.name.as_str() != "Bcc")), "{field} {end:?}");
            }
        }
    }
}

const EXPECTED: &[&str] = &[
    "Date",
    "From",
    "To",
    "Subject",
    "Message-ID",
    "Auto-Submitted",
    "X-Curfew-Job",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "X-Key",
    "MIME-Version",
    "Content-Type",
];

/// A provider's header is configuration, and yet it must not stand for another header.
#[test]
fn a_providers_header_never_replaces_one_of_ours() {
    let (to, from) = (address::check("ada@example.com").expect("an address"), address::check("reports@example.com").expect("an address"));
    let key = Key::parse("acme/p/R-1/2026-12-01").expect("a key");
    for header in ["to", "Bcc", "Subject", "content-type", "message-id", "x-curfew-job", "Auto-Submitted", "", "X Key", "X:Key", "X\r\nBcc", "ключ"]
    {
        let parts = MessageParts {
            job_id: JobId::parse("01939d2c-5f00-7000-8000-000000000001").expect("an id"),
            key: &key,
            content_revision: 1,
            release_at: Moment::from_millis(0),
            from: Mailbox { name: None, address: &from },
            to: Mailbox { name: None, address: &to },
            subject: "s",
            text: Some("t"),
            html: None,
            list_unsubscribe: None,
            attachments: &[],
            provider_key: Some(ProviderKey { header, value: "k" }),
        };
        assert_eq!(build(&parts).expect_err("refused").field, "idempotency_header", "{header}");
    }
}
