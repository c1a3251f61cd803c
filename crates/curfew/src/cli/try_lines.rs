//! `try …`: one JSON object a line in, exactly one a line out, in order, whatever a line holds.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use serde_json::{Map, Value, json};

use super::args::TryFile;
use crate::exit::{Ended, Exit, Failure};

/// A line's fields, read as a CSV reader's output must be: numbers and booleans may be texts, `""` and null are absent.
pub struct Fields(Map<String, Value>);

impl Fields {
    /// A field's text, a number's and a boolean's too.
    ///
    /// # Errors
    /// Where a list or an object stands there.
    pub fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(other.to_string())),
            Some(Value::Array(_) | Value::Object(_)) => Err(format!("{name}: expected a text or a number")),
        }
    }

    /// A field that a function reads.
    ///
    /// # Errors
    /// What is allowed, where it can't.
    pub fn read<T>(&self, name: &str, allowed: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, String> {
        match self.text(name)? {
            Some(text) => read(text.trim()).map(Some).ok_or_else(|| format!("{name}: allowed: {allowed}")),
            None => Ok(None),
        }
    }

    /// Whether the field stands there, if only empty.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A field's list of texts; a text with commas, semicolons or blanks between them is one too, and so is a list written as JSON text.
    ///
    /// # Errors
    /// Where something else stands there, or in it.
    pub fn list(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let wrong = || format!("{name}: expected a list of texts");
        let texts = |items: &[Value]| items.iter().map(|i| i.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>().ok_or_else(wrong);
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(items)) => texts(items).map(Some),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) if text.trim_start().starts_with('[') => {
                let items: Vec<Value> = serde_json::from_str(text).map_err(|_no_list| wrong())?;
                texts(&items).map(Some)
            }
            Some(Value::String(text)) => {
                let words = text.split([',', ';', ' ', '\t']).map(str::trim).filter(|w| !w.is_empty());
                Ok(Some(words.map(str::to_owned).collect()))
            }
            Some(Value::Number(_) | Value::Bool(_) | Value::Object(_)) => Err(wrong()),
        }
    }

    /// A field's object; one written as JSON text is one too.
    ///
    /// # Errors
    /// Where something else stands there.
    pub fn object(&self, name: &str) -> Result<Option<Self>, String> {
        let wrong = || format!("{name}: expected an object");
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Self(map.clone()))),
            Some(Value::String(text)) => Ok(Some(Self(serde_json::from_str(text).map_err(|_no_object| wrong())?))),
            Some(Value::Number(_) | Value::Bool(_) | Value::Array(_)) => Err(wrong()),
        }
    }

    /// True or false; absent is false.
    ///
    /// # Errors
    /// Where it is neither.
    pub fn truth(&self, name: &str) -> Result<bool, String> {
        let read = |t: &str| match t.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Some(true),
            "false" | "no" | "0" => Some(false),
            _ => None,
        };
        Ok(self.read(name, "true or false", read)?.unwrap_or(false))
    }
}

/// A whole number; `550.0` is one too, as a CSV reader gives a column that has blanks.
pub fn whole<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let digits = text.split_once('.').map_or(text, |(whole, zeros)| if zeros.bytes().all(|b| b == b'0') { whole } else { text });
    digits.parse::<u64>().ok().and_then(|n| T::try_from(n).ok())
}

/// Answers every line of a file or stdin.
///
/// # Errors
/// Usage, where the file can't be read; otherwise `Refused` where a line could not be.
pub fn run(args: &TryFile, answer: fn(&Fields) -> Result<Value, String>) -> Ended {
    let input: Box<dyn Read> = match &args.file {
        Some(path) if path.as_os_str() != "-" => Box::new(File::open(path).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?),
        Some(_) | None => Box::new(io::stdin()),
    };
    match answers(&mut BufReader::with_capacity(1 << 16, input), &mut BufWriter::new(io::stdout().lock()), answer) {
        Ok(exit) => Ok(exit),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(e) => Err(Failure::usage(e.to_string())),
    }
}

fn answers(input: &mut BufReader<impl Read>, out: &mut impl Write, answer: fn(&Fields) -> Result<Value, String>) -> io::Result<Exit> {
    let mut exit = Exit::Done;
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            out.flush()?;
            return Ok(exit);
        }
        let said = read(&line).and_then(|fields| answer(&fields)).unwrap_or_else(|error| {
            exit = Exit::Refused;
            json!({"error": error})
        });
        writeln!(out, "{said}")?;
        // Whoever asks one question at a time gets its answer before the next.
        if input.buffer().is_empty() {
            out.flush()?;
        }
    }
}

fn read(line: &[u8]) -> Result<Fields, String> {
    let text = std::str::from_utf8(line).map_err(|_invalid| "the line is not UTF-8".to_owned())?;
    match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
        Ok(Value::Object(map)) => Ok(Fields(map)),
        Ok(_) => Err("the line is not a JSON object".into()),
        Err(_) if text.trim().is_empty() => Err("the line is empty".into()),
        Err(e) => Err(format!("the line is not JSON: column {}", e.column())),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What a verb answers to some lines.
    pub fn said(lines: &str, answer: fn(&Fields) -> Result<Value, String>) -> (Vec<Value>, Exit) {
        let mut out = Vec::new();
        let exit = answers(&mut BufReader::new(lines.as_bytes()), &mut out, answer).expect("memory takes all");
        let text = String::from_utf8(out).expect("UTF-8");
        (text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect(), exit)
    }

    /// A CSV file's rows as a CSV reader gives them: every cell a text.
    pub fn rows(csv: &str) -> Vec<Map<String, Value>> {
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let header = reader.headers().expect("a header").clone();
        let row = |r: csv::StringRecord| header.iter().zip(r.iter()).map(|(k, v)| (k.to_owned(), Value::from(v))).collect();
        reader.records().map(|r| row(r.expect("a row"))).collect()
    }

    /// Rows as lines.
    pub fn lines(rows: &[Map<String, Value>]) -> String {
        rows.iter().map(|r| Value::Object(r.clone()).to_string() + "\n").collect()
    }

    #[test]
    fn every_line_has_exactly_one_answer() {
        fn echo(fields: &Fields) -> Result<Value, String> {
            Ok(json!({"n": fields.read("n", "a number", |t| t.parse::<u32>().ok())?, "yes": fields.truth("yes")?}))
        }
        let (answers, exit) =
            said("{\"n\":1}\n\nnot json\n{\"n\":\"2\",\"yes\":\"true\",\"more\":[]}\n{\"n\":\"\",\"yes\":null}\n[]\n{\"n\":{}}\n{\"n\":3}", echo);
        let expected = [
            json!({"n": 1, "yes": false}),
            json!({"error": "the line is empty"}),
            json!({"error": "the line is not JSON: column 2"}),
            json!({"n": 2, "yes": true}),
            json!({"n": null, "yes": false}),
            json!({"error": "the line is not a JSON object"}),
            json!({"error": "n: expected a text or a number"}),
            json!({"n": 3, "yes": false}),
        ];
        assert_eq!((answers, exit), (expected.to_vec(), Exit::Refused));
    }
}
