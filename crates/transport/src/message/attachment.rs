//! Attachments as MIME parts: base64, and a name that can be nothing but a file name.

use lettre::message::header::{ContentDisposition, ContentTransferEncoding, ContentType};
use lettre::message::{Body, SinglePart};

use super::Attached;

/// What common file systems take as one name, in octets.
const NAME_OCTETS_MAX: usize = 255;
/// An ending longer than this isn't kept when a name is cut.
const ENDING_OCTETS_MAX: usize = 16;
/// The ASCII name for old readers, in characters: on one line.
const FALLBACK_MAX: usize = 50;
/// Where nothing of a name is left.
const NAMELESS: &str = "attachment";

/// An attachment as a MIME part. The name stands in `Content-Disposition` (RFC 2183, RFC 2231 where it isn't short ASCII) and, reduced to
/// ASCII, in `Content-Type` for readers that know no RFC 2231.
pub(super) fn attach(attached: &Attached<'_>) -> SinglePart {
    let name = safe_name(attached.name);
    let (kind, fallback) = (media_type(&name), fallback(&name));
    let content_type = ContentType::parse(&format!("{kind}; name=\"{fallback}\"")).expect("a type of the table and a name of safe characters");
    let body = Body::new_with_encoding(attached.bytes.to_vec(), ContentTransferEncoding::Base64).expect("base64 takes any bytes");
    SinglePart::builder().header(content_type).header(ContentDisposition::attachment(&name)).body(body)
}

/// The last part of a path, without what can't be seen; at most 255 octets, its ending kept.
pub(super) fn safe_name(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or_default();
    // Some readers decode what looks like an encoded-word inside a parameter, against RFC 2047, 5.
    let seen = last.chars().filter(|c| !unseen(*c)).collect::<String>().replace("=?", "=_");
    // Leading dots hide a file, trailing dots and blanks are dropped by some systems: an ending would change.
    let trimmed = seen.trim_matches([' ', '.']);
    if trimmed.is_empty() {
        return NAMELESS.to_owned();
    }
    if trimmed.len() <= NAME_OCTETS_MAX {
        return trimmed.to_owned();
    }
    let (stem, ending) = match trimmed.rsplit_once('.') {
        Some((stem, ending)) if ending.len() <= ENDING_OCTETS_MAX => (stem, format!(".{ending}")),
        Some(_) | None => (trimmed, String::new()),
    };
    let mut cut = (NAME_OCTETS_MAX - ending.len()).min(stem.len());
    while !stem.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}{ending}", &stem[..cut])
}

/// Controls, line separators, direction changers and marks of no width: `cod.exe` must not be shown as `exe.doc`.
fn unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn fallback(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let ascii: String = name.chars().map(kept).collect();
    match ascii.rsplit_once('.') {
        Some((stem, ending)) if ascii.len() > FALLBACK_MAX && ending.len() <= ENDING_OCTETS_MAX => {
            format!("{}.{ending}", &stem[..(FALLBACK_MAX - ending.len() - 1).min(stem.len())])
        }
        Some(_) | None => ascii[..ascii.len().min(FALLBACK_MAX)].to_owned(),
    }
}

/// By the ending alone; what isn't known is bytes. Nothing here is a type that a reader would run.
fn media_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "pdf" => "application/pdf",
        "csv" => "text/csv",
        "txt" | "log" => "text/plain",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "ods" => "application/vnd.oasis.opendocument.spreadsheet",
        "odt" => "application/vnd.oasis.opendocument.text",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "ics" => "text/calendar",
        "json" => "application/json",
        "xml" => "application/xml",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        _unknown_ending => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_only_ever_a_file_name() {
        for (given, safe) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\reports\\Q1.pdf", "Q1.pdf"),
            ("reports/", "reports"),
            ("ann\u{202e}fdp.exe", "annfdp.exe"),
            ("a\r\nBcc: x.pdf", "aBcc: x.pdf"),
            ("..", NAMELESS),
            (".htaccess", "htaccess"),
            ("=?utf-8?q?x?=.pdf", "=_utf-8?q?x?=.pdf"),
            ("", NAMELESS),
            (" / ", NAMELESS),
            ("Übersicht „Mai“.pdf", "Übersicht „Mai“.pdf"),
        ] {
            assert_eq!(safe_name(given), safe, "{given}");
        }
        let long = safe_name(&format!("{}.pdf", "ü".repeat(300)));
        assert!(long.len() <= NAME_OCTETS_MAX && long.ends_with("ü.pdf"));
        assert_eq!(fallback(&long).len(), FALLBACK_MAX);
        assert!(fallback(&long).ends_with("_.pdf"));
    }
}
