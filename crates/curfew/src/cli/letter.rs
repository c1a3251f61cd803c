//! A letter for people's eyes: headers, then the text with its line breaks. Its words are somebody else's.

use serde_json::Value;

use super::output::{plain, plain_lines};

/// Fields of the preview that come after the letter's own headers.
const OTHERS: [&str; 4] = ["template", "item", "job_id", "content_revision"];

/// The answer of a preview, to be read. HTML is only counted: nobody reads it in a terminal.
pub fn letter(answer: &Value) -> String {
    let mut out = String::new();
    let mut header = |name: &str, value: &str| {
        if !value.is_empty() {
            out.push_str(&format!("{name}: {}\n", plain(value)));
        }
    };
    let to = answer.get("to").unwrap_or(&Value::Null);
    let address = words(to, "address");
    match words(to, "name").as_str() {
        "" => header("to", &address),
        name => header("to", &format!("{name} <{address}>")),
    }
    for name in ["subject", "list_unsubscribe"] {
        header(name, &words(answer, name));
    }
    for one in answer.get("attachments").and_then(Value::as_array).into_iter().flatten() {
        let parts: Vec<String> = ["name", "uri", "sha256"].iter().map(|f| words(one, f)).filter(|w| !w.is_empty()).collect();
        header("attachment", &parts.join(" "));
    }
    for name in OTHERS {
        header(name, &words(answer, name));
    }
    let html = words(answer, "html").chars().count();
    if html > 0 {
        header("html", &format!("{} characters; --json shows it", thousands(html)));
    }
    let text = words(answer, "text");
    if !text.is_empty() {
        out.push_str(&format!("\n{}\n", plain_lines(&text).trim_end_matches('\n')));
    }
    out
}

fn words(of: &Value, name: &str) -> String {
    match of.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let group = |(at, digit): (usize, char)| {
        let comma = at > 0 && (digits.len() - at).is_multiple_of(3);
        comma.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_letter_has_its_lines_and_moves_no_cursor() {
        let answer = json!({
            "item": "i", "job_id": "j", "content_revision": 2, "to": {"address": "ada@example.com", "name": "Ada\nsubject: x"}, "subject": "Your plan",
            "text": "Dear Ada,\r\n\tuntil \u{1b}[2Jtomorrow\n", "html": "x".repeat(2481), "list_unsubscribe": null,
            "attachments": [{"uri": "file:a.pdf", "name": "a.pdf", "sha256": null}], "template": null,
        });
        let expected = "to: Ada\\u{a}subject: x <ada@example.com>\nsubject: Your plan\nattachment: a.pdf file:a.pdf\nitem: i\njob_id: j\n\
                        content_revision: 2\nhtml: 2,481 characters; --json shows it\n\nDear Ada,\n\tuntil \\u{1b}[2Jtomorrow\n";
        assert_eq!(letter(&answer), expected);
        assert_eq!([999, 1000, 1_234_567].map(thousands), ["999", "1,000", "1,234,567"]);
    }
}
