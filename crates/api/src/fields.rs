//! Reads a JSON object field by field and remembers what it was asked for, so that what is left over is an unknown field with a nearest name.

use serde_json::{Map, Value};

use crate::free_text;
use crate::nearest::hint;
use crate::problem::{FieldError, Problem};

/// An object being read.
pub struct Fields {
    prefix: String,
    map: Map<String, Value>,
    asked: Vec<&'static str>,
    faults: Vec<FieldError>,
}

impl Fields {
    /// An object whose fields are named below `prefix` (empty at the top).
    ///
    /// # Errors
    /// Anything but an object.
    pub fn of(prefix: &str, value: Value) -> Result<Self, FieldError> {
        match value {
            Value::Object(map) => Ok(Self { prefix: prefix.to_owned(), map, asked: Vec::new(), faults: Vec::new() }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(FieldError::new(if prefix.is_empty() { "line" } else { prefix }, "must be an object"))
            }
        }
    }

    /// A field's whole name.
    pub fn name(&self, field: &str) -> String {
        if self.prefix.is_empty() { field.to_owned() } else { format!("{}.{field}", self.prefix) }
    }

    /// Notes a fault of a field.
    pub fn fault(&mut self, field: &str, error: impl Into<String>) {
        let name = self.name(field);
        self.faults.push(FieldError::new(name, error));
    }

    /// Notes faults that carry their whole names.
    pub fn faults(&mut self, faults: Vec<FieldError>) {
        self.faults.extend(faults);
    }

    /// The field's value; null counts as absent.
    pub fn take(&mut self, field: &'static str) -> Option<Value> {
        self.asked.push(field);
        self.map.remove(field).filter(|v| !v.is_null())
    }

    /// A text, where one is given.
    pub fn text(&mut self, field: &'static str) -> Option<String> {
        match self.take(field)? {
            Value::String(text) => Some(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                self.fault(field, "must be a text");
                None
            }
        }
    }

    /// A text that must be there; empty where it isn't, and the fault is noted.
    pub fn required(&mut self, field: &'static str) -> String {
        let faults = self.faults.len();
        match self.text(field) {
            Some(text) => text,
            None => {
                if self.faults.len() == faults {
                    self.fault(field, "is required");
                }
                String::new()
            }
        }
    }

    /// True, false, or absent; the texts `1`, `0`, `true`, `false` count, as a query brings them.
    pub fn flag(&mut self, field: &'static str) -> bool {
        match self.take(field) {
            None => false,
            Some(Value::Bool(flag)) => flag,
            Some(Value::String(text)) if matches!(text.as_str(), "1" | "true") => true,
            Some(Value::String(text)) if matches!(text.as_str(), "0" | "false" | "") => false,
            Some(_other) => {
                self.fault(field, "must be true or false");
                false
            }
        }
    }

    /// An object, where one is given.
    pub fn object(&mut self, field: &'static str) -> Option<Fields> {
        let value = self.take(field)?;
        let name = self.name(field);
        Fields::of(&name, value).map_err(|e| self.faults.push(e)).ok()
    }

    /// A map of names that the submitter chooses.
    pub fn map(&mut self, field: &'static str) -> Option<Map<String, Value>> {
        self.object(field).map(|o| o.map)
    }

    /// A list, where one is given.
    pub fn list(&mut self, field: &'static str) -> Option<Vec<Value>> {
        match self.take(field)? {
            Value::Array(items) => Some(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                self.fault(field, "must be a list");
                None
            }
        }
    }

    /// An operator's own words, which must be there.
    pub fn words(&mut self, field: &'static str) -> String {
        let faults = self.faults.len();
        let text = self.required(field);
        if self.faults.len() > faults { text } else { self.checked(field, &text) }
    }

    /// An operator's own words, where given.
    pub fn words_if_given(&mut self, field: &'static str) -> Option<String> {
        self.text(field).map(|text| self.checked(field, &text))
    }

    fn checked(&mut self, field: &'static str, text: &str) -> String {
        let name = self.name(field);
        free_text::check(&name, text).unwrap_or_else(|e| {
            self.faults.push(e);
            String::new()
        })
    }

    /// What is wrong, unknown fields first: a misspelt field explains the missing one.
    pub fn finish(self) -> Vec<FieldError> {
        let mut all: Vec<FieldError> = Vec::with_capacity(self.faults.len());
        for left in self.map.keys() {
            let shown = free_text::shown_name(left);
            let error = format!("unknown field{}", hint(left, self.asked.iter().copied()));
            all.push(FieldError::new(self.name(&shown), error));
        }
        all.extend(self.faults);
        all
    }

    /// The same, as an answer.
    ///
    /// # Errors
    /// 422 where anything is wrong.
    pub fn done(self) -> Result<(), Problem> {
        let faults = self.finish();
        if faults.is_empty() { Ok(()) } else { Err(Problem::invalid(faults)) }
    }
}
