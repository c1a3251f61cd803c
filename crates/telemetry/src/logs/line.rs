//! A line's form: known fields first and in the contract's order, then the message, then the rest.

use std::fmt::Write;

use curfew_domain::Moment;
use tracing::Level;

use super::redact::redacted;

/// The contract's fields after `ts` and `level`, in its order.
pub const FIELDS: &[&str] = &[
    "role",
    "shard",
    "job_id",
    "key",
    "tenant",
    "business_date",
    "generation",
    "version",
    "attempt",
    "from",
    "to",
    "outcome",
    "reason",
    "queue_age_ms",
    "error_class",
];

/// A field's value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Whole.
    Integer(i128),
    /// Not whole.
    Real(f64),
    /// True or false.
    Truth(bool),
    /// Everything else.
    Text(String),
}

/// Fields by name; the later of one name wins.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    /// Sets a field.
    pub fn put(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = value,
            None => self.0.push((name, value)),
        }
    }

    /// All of them, as they came.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(n, v)| (*n, v))
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// Known fields in order, then the others as they came; the message apart.
    fn ordered(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let known = FIELDS.iter().filter_map(|name| self.get(name).map(|v| (*name, v)));
        known.chain(self.iter().filter(|(n, _)| *n != "message" && !FIELDS.contains(n)))
    }

    fn message(&self) -> String {
        self.get("message").map(plain).unwrap_or_default()
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Integer(n) => n.to_string(),
        Value::Real(n) => n.to_string(),
        Value::Truth(b) => b.to_string(),
        Value::Text(text) => redacted(text),
    }
}

fn as_json(value: &Value) -> String {
    match value {
        Value::Integer(_) | Value::Truth(_) => plain(value),
        Value::Real(n) if n.is_finite() => n.to_string(),
        Value::Real(_) => "null".to_owned(),
        Value::Text(text) => quoted(&redacted(text)),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// One JSON object and a line feed.
pub(super) fn json(at: Moment, level: &Level, target: &str, fields: &Fields) -> String {
    let level = level.as_str().to_ascii_lowercase();
    let mut line = format!("{{\"ts\":\"{}\",\"level\":\"{level}\"", at.rfc3339());
    let mut put = |name: &str, value: String| {
        let _infallible = write!(line, ",{}:{value}", quoted(name));
    };
    for (name, value) in fields.ordered().filter(|(n, _)| FIELDS.contains(n)) {
        put(name, as_json(value));
    }
    put("msg", quoted(&fields.message()));
    put("target", quoted(target));
    for (name, value) in fields.ordered().filter(|(n, _)| !FIELDS.contains(n)) {
        put(name, as_json(value));
    }
    line.push_str("}\n");
    line
}

/// One line for eyes: clock, level, message, fields.
pub(super) fn text(at: Moment, level: &Level, _target: &str, fields: &Fields) -> String {
    let mut line = format!("{} {:<5} {}", at.clock(), level.as_str().to_ascii_lowercase(), escaped(&fields.message()));
    for (name, value) in fields.ordered() {
        let value = escaped(&plain(value));
        let _infallible = if value.contains(' ') || value.is_empty() { write!(line, " {name}=\"{value}\"") } else { write!(line, " {name}={value}") };
    }
    line.push('\n');
    line
}

/// Controls as `\u{..}`, so that nobody else's words move a terminal's cursor or begin a line.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}') {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
        out
    })
}
