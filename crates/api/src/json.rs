//! JSON as the door reads it: one value, no field twice, no value in an error.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads one JSON value.
///
/// # Errors
/// What is wrong and where, without quoting the text.
pub fn read(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| format!("is not UTF-8 (byte {})", e.valid_up_to() + 1))?;
    serde_json::from_str::<Strict>(text).map(|Strict(value)| value).map_err(|e| not_json(&e.to_string(), text))
}

/// Of a text of one line the column says where; its "line 1" would be taken for the file's.
fn not_json(says: &str, text: &str) -> String {
    let says = if text.trim_end().contains('\n') { says.to_owned() } else { says.replace(" at line 1 column ", " at column ") };
    format!("is not JSON: {says}")
}

/// A value in which no object names a field twice: of two addresses the reader and we might take different ones.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, Strict(value))) = map.next_entry::<String, Strict>()? {
            if fields.insert(name, value).is_some() {
                return Err(A::Error::custom("a field is given twice"));
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_given_twice_is_refused_at_any_depth() {
        assert!(read(br#"{"a":1,"a":1}"#).is_err());
        assert!(read(br#"[{"to":{"address":"a","address":"b"}}]"#).is_err());
        assert_eq!(read(br#"{"a":{"b":1},"c":{"b":1.5}}"#), Ok(serde_json::json!({"a":{"b":1},"c":{"b":1.5}})));
    }

    #[test]
    fn an_error_says_where_and_quotes_nothing() {
        let e = read(br#"{"to":"ada@example.com" "x"}"#).expect_err("refused");
        assert!(e.contains("column") && !e.contains("ada"), "{e}");
        assert!(e.ends_with("at column 25"), "{e}");
        assert!(read(b"{\n\"a\": x}").is_err_and(|e| e.contains("line 2")));
        assert!(read(b"\xff").is_err());
        assert!(read(b"[".repeat(10_000).as_slice()).is_err());
    }
}
