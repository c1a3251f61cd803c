//! From a template and its parameters, or from inline content, to what the recipient reads. Done at the door, once per job.

use curfew_domain::key::check_part;
use minijinja::value::{Serde, Value};
use serde_json::{Map, Value as Json};

use crate::error::ContentError;
use crate::header_text::{breaks_a_header, check_line, check_unsubscribe};
use crate::limits::CONTENT_BYTES_MAX;
use crate::template::{HTML, SUBJECT, TEXT, Templates, UNSUBSCRIBE, Version};

/// A letter's words, rendered and checked. Its `Debug` shows lengths.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    /// One line.
    pub subject: String,
    /// The plain text.
    pub text: Option<String>,
    /// The HTML alternative.
    pub html: Option<String>,
    /// Where the template asks for List-Unsubscribe: an https or mailto URI.
    pub list_unsubscribe: Option<String>,
}

/// Content that stands in the submitted job itself.
#[derive(Clone, Copy, Default)]
pub struct Inline<'a> {
    /// `content.subject`.
    pub subject: Option<&'a str>,
    /// `content.text`.
    pub text: Option<&'a str>,
    /// `content.html`.
    pub html: Option<&'a str>,
}

/// Fills a template. The same template and parameters give the same letter, always.
///
/// # Errors
/// The field to mend: an unknown template, a parameter missing or unknown, a line break bound for the subject, an empty or too large letter.
pub fn render(templates: &Templates, template: &str, params: &Map<String, Json>) -> Result<Rendered, ContentError> {
    let version = templates.get(template)?;
    let values = Value::from(Serde(complete(version, params)?));
    let subject = version.render(SUBJECT, "content.subject", &values)?;
    let optional = |file, field| version.has(file).then(|| version.render(file, field, &values)).transpose();
    let rendered = Rendered {
        subject: subject.trim_matches([' ', '\n', '\r']).to_owned(),
        text: optional(TEXT, "content.text")?,
        html: optional(HTML, "content.html")?,
        list_unsubscribe: optional(UNSUBSCRIBE, "content.list_unsubscribe")?,
    };
    check(&rendered)?;
    Ok(rendered)
}

/// Checks inline content.
///
/// # Errors
/// The field to mend: no subject, neither text nor HTML, both empty, a line break in the subject, or more than 256 KiB in all.
pub fn check_inline(content: Inline<'_>) -> Result<Rendered, ContentError> {
    let rendered = Rendered {
        subject: content.subject.ok_or_else(|| ContentError::new("content.subject", "is required"))?.to_owned(),
        text: content.text.map(str::to_owned),
        html: content.html.map(str::to_owned),
        list_unsubscribe: None,
    };
    if rendered.text.is_none() && rendered.html.is_none() {
        return Err(ContentError::new("content.text", "text or html is required"));
    }
    check(&rendered)?;
    Ok(rendered)
}

/// The parameters with their defaults. `null` counts as not given, as an empty CSV cell does.
fn complete(version: &Version, params: &Map<String, Json>) -> Result<Map<String, Json>, ContentError> {
    let field = |name: &str| format!("content.params.{name}");
    if let Some(unknown) = params.keys().find(|name| !version.params.contains_key(*name)) {
        let known: Vec<&str> = version.params.keys().map(String::as_str).collect();
        // A name out of form is not repeated: it may be anything, an address too.
        let named = if check_part(unknown).is_ok() { field(unknown) } else { "content.params".to_owned() };
        return Err(ContentError::new(named, format!("the template has no such parameter; it has {}", known.join(", "))));
    }
    let mut values = Map::new();
    for (name, declared) in &version.params {
        let given = params.get(name).filter(|v| !v.is_null()).or(declared.default.as_ref());
        let value = given.ok_or_else(|| ContentError::new(field(name), "is required by the template"))?;
        if version.in_subject.contains(name)
            && let Json::String(text) = value
        {
            check_line(&field(name), text)?;
        }
        if holds_no_text(value) {
            return Err(ContentError::new(field(name), "holds a control character that no mail body may carry"));
        }
        values.insert(name.clone(), value.clone());
    }
    Ok(values)
}

fn check(letter: &Rendered) -> Result<(), ContentError> {
    check_line("content.subject", &letter.subject)?;
    if letter.subject.trim().is_empty() {
        return Err(ContentError::new("content.subject", "is empty"));
    }
    for (field, body) in [("content.text", &letter.text), ("content.html", &letter.html)] {
        if body.as_ref().is_some_and(|b| b.chars().any(unprintable)) {
            return Err(ContentError::new(field, "holds a control character that no mail body may carry"));
        }
    }
    let blank = |body: &Option<String>| body.as_ref().is_none_or(|b| b.trim().is_empty());
    if blank(&letter.text) && blank(&letter.html) {
        return Err(ContentError::new(if letter.text.is_some() { "content.text" } else { "content.html" }, "the letter's body is empty"));
    }
    let length = |body: &Option<String>| body.as_ref().map_or(0, String::len);
    if letter.subject.len() + length(&letter.text) + length(&letter.html) > CONTENT_BYTES_MAX {
        return Err(ContentError::new("content", format!("is larger than {CONTENT_BYTES_MAX} bytes in all")));
    }
    letter.list_unsubscribe.as_ref().map_or(Ok(()), |uri| check_unsubscribe("content.list_unsubscribe", uri))
}

/// Whether a value holds, at any depth, a character that a body must not carry.
fn holds_no_text(value: &Json) -> bool {
    match value {
        Json::String(text) => text.chars().any(unprintable),
        Json::Array(items) => items.iter().any(holds_no_text),
        Json::Object(fields) => fields.iter().any(|(name, v)| name.chars().any(unprintable) || holds_no_text(v)),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Line ends, tabs and line separators are text in a body; the other controls are damage (NUL ends a message on some servers).
fn unprintable(c: char) -> bool {
    breaks_a_header(c) && !matches!(c, '\r' | '\n' | '\t' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

impl std::fmt::Debug for Rendered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let length = |body: &Option<String>| body.as_ref().map(String::len);
        write!(f, "Rendered(text {:?} bytes, html {:?} bytes)", length(&self.text), length(&self.html))
    }
}
