//! What goes to stdout: objects for programs, tables and lines for people.

use std::io::{self, Write};

use serde_json::Value;

use crate::exit::Failure;

/// A table's cell is cut after so many characters, but for the first column, which names the row.
const CELL_MAX: usize = 48;

/// The fields that people look for first, in this order.
const FIRST: [&str; 16] = [
    "key",
    "id",
    "job_id",
    "state",
    "status",
    "explanation",
    "reason",
    "diagnostic",
    "in_doubt",
    "waiting_for",
    "release_at",
    "deadline_at",
    "next_attempt_at",
    "last_attempt_at",
    "due_at",
    "created_at",
];
/// The long ones, at the end.
const LAST: [&str; 2] = ["notes", "history"];

/// How to print.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// `--json`.
    pub json: bool,
}

/// A table that grows by rows and is printed at its end.
pub struct Table {
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Of these fields.
    pub fn new(columns: &'static [&'static str]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds an object's fields.
    pub fn add(&mut self, object: &Value) {
        let cells = self.columns.iter().map(|c| cell(object.get(c).unwrap_or(&Value::Null)));
        self.rows.push(cells.collect());
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The lines, aligned; nothing but a header where there are no rows.
    pub fn lines(&self) -> String {
        let cut = |n: usize, text: &str| -> String {
            if n == 0 || text.chars().count() <= CELL_MAX { text.to_owned() } else { text.chars().take(CELL_MAX - 1).chain(['…']).collect() }
        };
        let header: Vec<String> = self.columns.iter().map(|c| c.to_uppercase().replace('_', " ")).collect();
        let rows = self.rows.iter().map(|r| r.iter().enumerate().map(|(n, c)| cut(n, c)).collect::<Vec<_>>());
        let all: Vec<Vec<String>> = [header].into_iter().chain(rows).collect();
        let width = |n: usize| all.iter().filter_map(|r| r.get(n)).map(|c| c.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        for row in &all {
            let line: Vec<String> = row.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}")).collect();
            out.push_str(line.join("  ").trim_end());
            out.push('\n');
        }
        out
    }
}

impl Output {
    /// One object: a line for programs, a line per field for people.
    ///
    /// # Errors
    /// Where stdout can't be written.
    pub fn object(self, object: &Value) -> Result<(), Failure> {
        if self.json { line(&object.to_string()) } else { text(&fields(object, 0)) }
    }

    /// One object for programs, this text for people.
    ///
    /// # Errors
    /// Where stdout can't be written.
    pub fn object_or(self, object: &Value, people: &str) -> Result<(), Failure> {
        if self.json { line(&object.to_string()) } else { line(&plain(people)) }
    }
}

/// A line of stdout.
///
/// # Errors
/// As `text`.
pub fn line(line: &str) -> Result<(), Failure> {
    text(&format!("{line}\n"))
}

/// Text for stdout. A reader that closed its end has read enough: the process ends, quietly.
///
/// # Errors
/// Where stdout can't be written.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(Failure::usage(format!("stdout can't be written: {e}"))),
    }
}

/// Text without controls and direction changes: it may be somebody else's words, and terminals obey them.
pub fn plain(text: &str) -> String {
    escaped(text, &[])
}

/// As `plain`, but lines stay lines and tabs tabs: for a text that stands by itself.
pub fn plain_lines(text: &str) -> String {
    escaped(&text.replace("\r\n", "\n"), &['\n', '\t'])
}

/// Says on stderr what went wrong.
pub fn tell(failure: &Failure) {
    for line in failure.says.lines() {
        eprintln!("curfew: {}", plain(line));
    }
}

fn escaped(text: &str, kept: &[char]) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if kept.contains(&c) {
            out.push(c);
        } else if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}') {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
        out
    })
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// A field's place among its object's; the rest stand between first and last, by their names.
fn place(name: &str) -> usize {
    let first = FIRST.iter().position(|f| *f == name);
    let last = || LAST.iter().position(|l| *l == name).map(|n| FIRST.len() + 1 + n);
    first.or_else(last).unwrap_or(FIRST.len())
}

/// An object's fields, one a line, the important first; objects within are indented, absent ones left out.
fn fields(value: &Value, depth: usize) -> String {
    let Value::Object(map) = value else { return format!("{}\n", cell(value)) };
    let indent = "  ".repeat(depth);
    let mut out = String::new();
    let mut ordered: Vec<(&String, &Value)> = map.iter().collect();
    ordered.sort_by_key(|(name, _)| place(name));
    for (name, value) in ordered {
        match value {
            Value::Null => {}
            Value::Object(inner) if inner.is_empty() => {}
            Value::Object(_) => out.push_str(&format!("{indent}{}:\n{}", plain(name), fields(value, depth + 1))),
            Value::Array(items) if items.iter().any(Value::is_object) => {
                out.push_str(&format!("{indent}{}:\n", plain(name)));
                items.iter().for_each(|item| out.push_str(&format!("{indent}  - {}\n", one_line(item))));
            }
            Value::Array(items) if items.is_empty() => {}
            Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                out.push_str(&format!("{indent}{}: {}\n", plain(name), cell(value)));
            }
        }
    }
    out
}

/// An object on one line, its time first.
fn one_line(item: &Value) -> String {
    let Value::Object(map) = item else { return cell(item) };
    let at = map.get("at").map(cell).into_iter();
    let present = map.iter().filter(|(name, v)| *name != "at" && !v.is_null() && *v != &Value::from(""));
    at.chain(present.map(|(name, v)| format!("{name}={}", cell(v)))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nobody_elses_words_move_a_terminals_cursor() {
        let mut table = Table::new(&["key", "diagnostic"]);
        table.add(&json!({"key": "acme/x", "diagnostic": "550 \u{1b}[2J\r\nno"}));
        table.add(&json!({"key": "acme/longer/name"}));
        assert_eq!(table.lines(), "KEY               DIAGNOSTIC\nacme/x            550 \\u{1b}[2J\\u{d}\\u{a}no\nacme/longer/name  -\n");
    }

    #[test]
    fn an_object_for_people_begins_with_what_matters_and_leaves_out_what_is_absent() {
        let object = json!({"attempts": 1, "explanation": "It was sent.", "key": "acme/x", "state": "sent", "reason": null, "labels": {"region": "east"}, "history": [{"actor": "local", "at": "t", "from": "queued"}], "notes": []});
        assert_eq!(
            fields(&object, 0),
            "key: acme/x\nstate: sent\nexplanation: It was sent.\nattempts: 1\nlabels:\n  region: east\nhistory:\n  - t actor=local from=queued\n"
        );
    }
}
