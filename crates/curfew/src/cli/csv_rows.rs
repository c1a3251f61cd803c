//! CSV rows as jobs: dotted header names become nested JSON, numbers in them lists, empty cells nothing.

use std::io::{Chain, Read};

use csv::{ByteRecord, Reader, ReaderBuilder, Terminator};
use curfew_domain::key::check_part;
use curfew_telemetry::logs::redacted;
use serde_json::{Map, Value};

use super::submit_lines::{LineError, Row};
use crate::config::closest;
use crate::exit::Failure;

/// A column's name, in bytes: it stands in the errors of its cells.
const COLUMN_BYTES_MAX: usize = 200;

/// The columns that are there or not; besides them `content.params.*`, `labels.*` and `attachments.N.uri|name|sha256`.
const COLUMNS: &[&str] = &[
    "tenant",
    "purpose",
    "subject_ref",
    "business_date",
    "key",
    "to.address",
    "to.name",
    "content.template",
    "content.subject",
    "content.text",
    "content.html",
    "release_at",
    "deadline_at",
    "zone",
    "policy",
    "transport",
];

/// A CSV file's rows.
pub struct CsvRows<R> {
    reader: Reader<Chain<R, &'static [u8]>>,
    columns: Vec<Vec<String>>,
    record: ByteRecord,
    /// Where the next record begins at the earliest.
    next_line: u64,
}

impl<R: Read> CsvRows<R> {
    /// Reads the header row; nothing is sent before all its columns are known.
    ///
    /// # Errors
    /// Usage: no header, an unknown or a repeated column.
    pub fn new(input: R) -> Result<Self, Failure> {
        // A line ends in LF, which the library counts; the CR before it is taken off here. The last line gets an end where it has none.
        let ended = input.chain(&b"\n"[..]);
        let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).terminator(Terminator::Any(b'\n')).from_reader(ended);
        let mut header = ByteRecord::new();
        let read = reader.read_byte_record(&mut header).map_err(|e| Failure::usage(format!("line 1: {e}")))?;
        if !read {
            return Err(Failure::usage("line 1: a CSV file begins with a header row; this one is empty"));
        }
        let header = without_cr(header);
        if header.as_slice().contains(&b'\r') {
            return Err(Failure::usage("line 1: the lines end in CR alone; save the file with LF or CRLF. Nothing was sent"));
        }
        let mut columns: Vec<Vec<String>> = Vec::new();
        for cell in &header {
            let name = std::str::from_utf8(cell).map_err(|_| Failure::usage("line 1: a column's name is not UTF-8"))?.trim();
            let path = path(name).ok_or_else(|| if header.len() == 1 && name.contains(';') { semicolons() } else { unknown(name) })?;
            if columns.iter().any(|c| c.starts_with(&path) || path.starts_with(c)) {
                return Err(Failure::usage(format!("line 1: column {:?} stands there twice, or inside another", redacted(name))));
            }
            columns.push(path);
        }
        Ok(Self { reader, columns, record: ByteRecord::new(), next_line: 2 })
    }

    /// The line in which the record just read begins. The library's own count begins before the empty lines that it passes over.
    fn first_line(&self) -> u64 {
        let within = self.record.as_slice().iter().filter(|b| **b == b'\n').count() as u64;
        // A quote that is never closed takes the file's last line end into its cell.
        self.reader.position().line().saturating_sub(1 + within).max(self.next_line)
    }

    fn row(&self) -> Result<Vec<u8>, LineError> {
        let (found, expected) = (self.record.len(), self.columns.len());
        if found != expected {
            return Err(LineError::of_line(format!("has {found} cells; the header has {expected}")));
        }
        let mut job = Map::new();
        for (path, cell) in self.columns.iter().zip(&self.record) {
            if cell.is_empty() {
                continue;
            }
            let text = std::str::from_utf8(cell).map_err(|_| LineError { field: path.join("."), error: "is not UTF-8".into() })?;
            put(&mut job, path, text);
        }
        for name in ["attachments", "content"] {
            if let Some(value) = job.get_mut(name) {
                lists(value);
            }
        }
        Ok(Value::Object(job).to_string().into_bytes())
    }
}

impl<R: Read> Iterator for CsvRows<R> {
    type Item = Result<Row, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reader.read_byte_record(&mut self.record) {
                Ok(false) => return None,
                // The library passes over an empty line; to it this one isn't.
                Ok(true) if self.record.len() == 1 && self.record.as_slice() == b"\r" => {}
                Ok(true) => {
                    let line = self.first_line();
                    self.next_line = self.reader.position().line();
                    self.record = without_cr(std::mem::take(&mut self.record));
                    return Some(Ok(Row { line, job: self.row(), read_to: self.reader.position().byte() }));
                }
                Err(e) => return Some(Err(Failure::usage(format!("the file can't be read: {e}")))),
            }
        }
    }
}

/// The record without the CR of its line end.
fn without_cr(record: ByteRecord) -> ByteRecord {
    let Some(last) = record.iter().next_back().and_then(|cell| cell.strip_suffix(b"\r")) else { return record };
    let cells = record.iter().take(record.len() - 1).chain([last]);
    ByteRecord::from_iter(cells)
}

/// What spreadsheets write where a comma is the decimal sign.
fn semicolons() -> Failure {
    Failure::usage("line 1: the columns are separated by ';'; the separator must be a comma. Nothing was sent")
}

fn unknown(name: &str) -> Failure {
    // A file without a header has somebody's address where a column's name should be.
    let name = &redacted(name);
    let near = closest(name, COLUMNS.iter().copied()).map(|n| format!("; did you mean {n:?}?")).unwrap_or_else(|| ".".to_owned());
    Failure::usage(format!(
        "line 1: unknown column {name:?}{near} Known: {}, content.params.NAME, labels.NAME, attachments.N.uri, .name and .sha256. Nothing was sent",
        COLUMNS.join(", ")
    ))
}

/// A known column's path; a label's name is one part, whatever dots it has. A name that may hold an address is unknown.
fn path(name: &str) -> Option<Vec<String>> {
    let owned = |parts: &[&str]| parts.iter().map(|p| (*p).to_owned()).collect();
    if COLUMNS.contains(&name) {
        return Some(owned(&name.split('.').collect::<Vec<_>>()));
    }
    if let Some(label) = name.strip_prefix("labels.").filter(|l| check_part(l).is_ok()) {
        return Some(owned(&["labels", label]));
    }
    if name.len() > COLUMN_BYTES_MAX || name.contains(char::is_control) {
        return None;
    }
    let parts: Vec<&str> = name.split('.').collect();
    let known = match parts.as_slice() {
        ["content", "params", rest @ ..] => !rest.is_empty() && rest.iter().all(|p| !p.is_empty() && redacted(p) == *p),
        ["attachments", n, "uri" | "name" | "sha256"] => n.len() <= 3 && number(n).is_some(),
        _ => false,
    };
    known.then(|| owned(&parts))
}

fn number(part: &str) -> Option<u64> {
    part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten()
}

fn put(into: &mut Map<String, Value>, path: &[String], text: &str) {
    match path {
        [] => {}
        [last] => drop(into.insert(last.clone(), text.into())),
        [first, rest @ ..] => {
            // Columns don't stand inside one another, so what is there already is an object.
            if let Value::Object(inner) = into.entry(first.clone()).or_insert_with(|| Value::Object(Map::new())) {
                put(inner, rest, text);
            }
        }
    }
}

/// Objects whose names are all numbers become lists in their order; absent ones leave no hole.
fn lists(value: &mut Value) {
    let Value::Object(map) = value else { return };
    map.values_mut().for_each(lists);
    if !map.is_empty() && map.keys().all(|k| number(k).is_some()) {
        let mut items: Vec<(u64, Value)> = std::mem::take(map).into_iter().filter_map(|(k, v)| Some((number(&k)?, v))).collect();
        items.sort_by_key(|(n, _)| *n);
        *value = Value::Array(items.into_iter().map(|(_, v)| v).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    type Read = (u64, Result<Value, LineError>);

    fn rows(text: &str) -> Result<Vec<Read>, Failure> {
        let row = |r: Row| (r.line, r.job.map(|j| serde_json::from_slice(&j).expect("JSON")));
        CsvRows::new(text.as_bytes())?.map(|r| r.map(row)).collect()
    }

    #[test]
    fn dotted_names_nest_numbers_list_and_empty_cells_are_absent() {
        let text = "\u{feff}tenant,to.address,to.name,content.params.plan,content.params.items.1,content.params.items.0,labels.cost.center,\
                    attachments.0.uri,attachments.1.uri\nacme,ada@example.com,,Gold,b,a,7,,file:x\n";
        let expected = serde_json::json!({
            "tenant": "acme", "to": {"address": "ada@example.com"}, "content": {"params": {"plan": "Gold", "items": ["a", "b"]}},
            "labels": {"cost.center": "7"}, "attachments": [{"uri": "file:x"}],
        });
        assert_eq!(rows(text), Ok(vec![(2, Ok(expected))]));
    }

    #[test]
    fn an_unknown_column_stops_before_anything_is_sent() {
        for (header, says) in [
            ("tenant,to.adress", "did you mean \"to.address\"? Known"),
            ("tenant,tenant", "twice"),
            ("content.params.a,content.params.a.b", "inside another"),
            ("attachments.0.size", "unknown column \"attachments.0.size\". Known: "),
            ("", "header row"),
            ("tenant;to.address", "the separator must be a comma"),
            ("acme,ada@example.com", "unknown column \"acme\""),
            // Found by fuzzing: an address as a label's name stood in the error of each of its cells.
            ("content.params.a\u{1}b", "unknown column \"content.params.a\\u{1}b\""),
            ("labels.ada@example.com", "unknown column \"•@•\""),
        ] {
            let failure = CsvRows::new(header.as_bytes()).err().expect("refused");
            assert!(failure.exit == Exit::Usage && failure.says.contains(says), "{failure:?}");
        }
    }

    #[test]
    fn a_broken_row_is_one_rejected_line_with_its_number_in_the_file() {
        let found = rows("tenant,purpose\nacme,\"two\nlines\"\nacme\nacme,x\n").expect("a header");
        let lines: Vec<(u64, bool)> = found.iter().map(|(n, r)| (*n, r.is_ok())).collect();
        assert_eq!(lines, [(2, true), (4, false), (5, true)]);
    }

    /// Found by fuzzing: in a file with CRLF, as spreadsheets write it, an error named the line before; behind empty lines an earlier one.
    #[test]
    fn a_row_has_its_number_in_the_file_whatever_ends_the_lines() {
        let text = "tenant,purpose\n\n\nacme,\"two\nlines\"\nacme\n\nacme,x";
        let expected = [(4, true), (6, false), (8, true)];
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            let found = rows(&text).expect("a header");
            let lines: Vec<(u64, bool)> = found.iter().map(|(n, r)| (*n, r.is_ok())).collect();
            assert_eq!(lines, expected, "{text:?}");
            assert_eq!(found.last().map(|(_, r)| r.clone()), Some(Ok(serde_json::json!({"tenant": "acme", "purpose": "x"}))));
        }
        let open = rows("tenant,purpose\nacme,x\n\"acme,y").expect("a header");
        assert_eq!(open.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3]);
        let failure = CsvRows::new("tenant,purpose\racme,x\r".as_bytes()).err().expect("refused");
        assert!(failure.says.contains("CR alone"), "{failure:?}");
    }
}
