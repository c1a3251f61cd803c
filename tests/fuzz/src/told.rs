//! What must not be told: the addresses and the long texts that stand in an input.

use curfew_domain::address;
use serde_json::Value;

/// From this length on a text of the input is a body, not a word that an error may share with it. Our own sentences are ASCII, and the fuzzer
/// learns them: only a text that isn't can tell.
const BODY_CHARS_MIN: usize = 24;
/// An error is a sentence.
const ERROR_BYTES_MAX: usize = 1_024;
/// A field is a name.
const FIELD_BYTES_MAX: usize = 256;

/// Every address that stands as a word in a JSON value, names of fields included.
pub fn addresses(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    each_text(value, &mut |text| found.extend(addresses_of(text)));
    found
}

/// Every address that stands as a word in a text.
pub fn addresses_of(text: &str) -> Vec<String> {
    // A template's name reads like one, and may be told.
    let words = text.split_whitespace().filter(|word| word.contains('@') && !super::house::TEMPLATE.contains(word));
    words.filter(|word| address::check(word).is_ok()).map(str::to_owned).collect()
}

/// Addresses, and whatever is long enough to be a body.
pub fn secrets(value: &Value) -> Vec<String> {
    let mut found = addresses(value);
    each_body(value, &mut found);
    found
}

/// Panics where a sentence repeats one of these.
pub fn repeats_none(said: &str, secrets: &[String]) {
    for secret in secrets {
        assert!(!said.contains(secret.as_str()), "{said:?} repeats {secret:?}");
    }
}

/// Panics where a refusal of a field is no sentence about a named field.
pub fn is_refusal(field: &str, error: &str) {
    assert!(!field.is_empty() && !error.is_empty(), "a refusal without its field or reason: {field:?} {error:?}");
    assert!(field.len() <= FIELD_BYTES_MAX, "a field's name of {} bytes", field.len());
    assert!(error.len() <= ERROR_BYTES_MAX, "a reason of {} bytes", error.len());
    assert!(!field.chars().chain(error.chars()).any(char::is_control), "a refusal with a control character: {field:?} {error:?}");
}

/// Names of fields are told, as far as they are names.
fn each_body(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.is_ascii() && text.chars().count() >= BODY_CHARS_MIN => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| each_body(item, found)),
        Value::Object(fields) => fields.values().for_each(|value| each_body(value, found)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn each_text(value: &Value, see: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, see)),
        Value::Object(fields) => {
            for (name, value) in fields {
                see(name);
                each_text(value, see);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
