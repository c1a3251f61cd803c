//! The configuration's file.

use curfew::config::{Config, Deployment, Sources};
use toml::{Table, Value};

/// Keys whose values are shown nowhere (`config/schema.rs`, `Show::Never`).
const NEVER: &[&str] = &["password", "events_secret", "token_hash", "reference"];
/// Shorter ones may stand in a sentence by chance.
const SECRET_CHARS_MIN: usize = 6;

/// Each fault is one line that names its place; no secret is told, in a fault or in `config show`.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A file that it names is read: a device would be, too.
    if text.contains("_file") {
        return;
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("written");
    let secrets = secrets(text);
    for deployment in [Deployment::Embedded, Deployment::Fleet] {
        let sources = Sources { file: Some(file.path().to_owned()), ..Sources::default() };
        match Config::load(&sources, deployment) {
            Ok(config) => {
                config.shown.iter().for_each(|shown| tells_none(&shown.value, &secrets));
                tells_none(&format!("{config:?}"), &secrets);
            }
            Err(faults) => {
                assert!(!faults.0.is_empty());
                for fault in &faults.0 {
                    let line = fault.to_string();
                    assert!(!line.chars().any(char::is_control), "a fault is one line: {line:?}");
                    assert!(!fault.says.is_empty(), "a fault without a reason: {line:?}");
                    tells_none(&line, &secrets);
                }
            }
        }
    }
}

fn tells_none(said: &str, secrets: &[String]) {
    assert!(!secrets.iter().any(|secret| said.contains(secret.as_str())), "a secret is told: {said:?}");
}

/// The values of secret keys that stand nowhere else in the file.
fn secrets(text: &str) -> Vec<String> {
    let Ok(table) = text.parse::<Table>() else { return Vec::new() };
    let mut found = Vec::new();
    for (name, value) in &table {
        collect(name == "keys", name, value, &mut found);
    }
    found.retain(|secret| secret.chars().count() >= SECRET_CHARS_MIN && text.matches(secret.as_str()).count() == 1);
    found
}

fn collect(in_keys: bool, name: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if NEVER.contains(&name) || (in_keys && name != "current") => found.push(text.clone()),
        Value::Table(table) => table.iter().for_each(|(name, value)| collect(in_keys, name, value, found)),
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) => {}
    }
}
