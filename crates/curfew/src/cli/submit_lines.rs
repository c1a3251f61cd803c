//! NDJSON lines as they come: bounded, numbered, not judged. The door judges.

use std::io::{BufRead, Read};

use crate::exit::Failure;

/// The longest line that the door takes; longer ones are rejected here, without keeping them.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// One job to hand in.
pub struct Row {
    /// Its line in the file, from 1.
    pub line: u64,
    /// Its JSON, or why it can't be handed in.
    pub job: Result<Vec<u8>, LineError>,
    /// How far the file was read, in bytes.
    pub read_to: u64,
}

/// Why a line is rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineError {
    /// The field, dotted; `line` for the line as a whole, as the door says it.
    pub field: String,
    /// What is wrong, without the value.
    pub error: String,
}

impl LineError {
    /// About the line as a whole.
    pub fn of_line(error: impl Into<String>) -> Self {
        Self { field: "line".to_owned(), error: error.into() }
    }
}

/// A file's lines; empty ones are skipped and counted.
pub struct Lines<R> {
    input: R,
    line: u64,
    read_to: u64,
}

impl<R: BufRead> Lines<R> {
    /// From its beginning.
    pub fn new(input: R) -> Self {
        Self { input, line: 0, read_to: 0 }
    }

    fn one(&mut self) -> std::io::Result<Option<Row>> {
        loop {
            let mut text = Vec::new();
            let mut read = (&mut self.input).take(LINE_BYTES_MAX + 2).read_until(b'\n', &mut text)? as u64;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            let whole = text.ends_with(b"\n");
            if !whole && read > LINE_BYTES_MAX {
                read += self.skip()?;
            }
            self.read_to += read;
            let start = if self.line == 1 && text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
            let trimmed = text[start..].trim_ascii();
            let job = match trimmed {
                [] => continue,
                long if long.len() as u64 > LINE_BYTES_MAX => Err(LineError::of_line(format!("the line is longer than {LINE_BYTES_MAX} bytes"))),
                line => Ok(line.to_vec()),
            };
            return Ok(Some(Row { line: self.line, job, read_to: self.read_to }));
        }
    }

    /// Passes over the rest of a line without keeping it.
    fn skip(&mut self) -> std::io::Result<u64> {
        let mut skipped = 0;
        loop {
            let buffer = self.input.fill_buf()?;
            let end = buffer.iter().position(|b| *b == b'\n');
            let taken = end.map_or(buffer.len(), |n| n + 1);
            let over = buffer.is_empty() || end.is_some();
            self.input.consume(taken);
            skipped += taken as u64;
            if over {
                return Ok(skipped);
            }
        }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Row, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.one().map_err(|e| Failure::usage(format!("the file can't be read: {e}"))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers_and_a_giant_is_one_rejection() {
        let mut text = b"\xef\xbb\xbf{\"a\":1}\r\n\n  \n".to_vec();
        text.extend(vec![b'x'; 3 << 20]);
        text.extend(b"\n{\"b\":2}");
        let rows: Vec<Row> = Lines::new(text.as_slice()).map(|r| r.expect("memory reads")).collect();
        let found: Vec<(u64, Option<&[u8]>)> = rows.iter().map(|r| (r.line, r.job.as_deref().ok())).collect();
        assert_eq!(found, [(1, Some(b"{\"a\":1}".as_slice())), (4, None), (5, Some(b"{\"b\":2}".as_slice()))]);
        assert_eq!(rows.last().map(|r| r.read_to), Some(text.len() as u64));
    }
}
