//! Looks for texts in whatever a run wrote, in each form in which they could have got there.
//!
//! Forms: plain, in the given, the lower and the upper case; UTF-16 in both orders; percent-encoded in both cases and for both sets of
//! characters; JSON and HTML escapes; base64 in both alphabets at each of the three alignments; quoted-printable, also where a line
//! breaks; hexadecimal in both cases. Line breaks within a form are ignored, for MIME breaks lines where it likes.
//!
//! Not found: what somebody compressed or encrypted first.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Fewer bytes would be found by chance.
const BYTES_MIN: usize = 5;
/// Of a form: where it may begin is looked up by them.
const START: usize = 3;

/// Texts that must be nowhere.
pub struct Needles {
    texts: Vec<String>,
    forms: Vec<Form>,
    by_start: HashMap<[u8; START], Vec<usize>>,
    /// A bit for each start: nearly every byte of a file is passed over with one look.
    starts: Vec<u64>,
}

struct Form {
    text: usize,
    name: &'static str,
    bytes: Vec<u8>,
}

/// A text that was found, and how it stood there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Found {
    /// What was looked for.
    pub text: String,
    /// Its form.
    pub form: &'static str,
    /// What stands around it, for people.
    pub around: String,
}

impl Needles {
    /// These texts.
    ///
    /// # Panics
    /// Where one is under five bytes: it would be found by chance.
    pub fn new<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self { texts: Vec::new(), forms: Vec::new(), by_start: HashMap::new(), starts: vec![0; 1 << (8 * START - 6)] }.and_texts(texts)
    }

    /// And these.
    ///
    /// # Panics
    /// As [`Needles::new`].
    #[must_use]
    pub fn and_texts<T: Into<String>>(mut self, texts: impl IntoIterator<Item = T>) -> Self {
        for text in texts {
            let text = text.into();
            assert!(text.len() >= BYTES_MIN, "{text} is too short to look for");
            let mut forms = forms_of(&text);
            forms.extend(other_cases(&text).iter().flat_map(|(name, text)| [(*name, text.clone().into_bytes())].into_iter().chain(encoded(text))));
            self.add(text, forms);
        }
        self
    }

    /// And these bytes, as they are, in base64 and in hexadecimal; `name` says what they are.
    #[must_use]
    pub fn and_bytes(mut self, name: &str, bytes: &[u8]) -> Self {
        let mut forms = vec![("bytes", bytes.to_vec())];
        forms.extend(in_digits(bytes));
        self.add(name.to_owned(), forms);
        self
    }

    fn add(&mut self, text: String, forms: Vec<(&'static str, Vec<u8>)>) {
        for (name, bytes) in forms {
            let start: [u8; START] = bytes[..START].try_into().expect("a form isn't shorter than its text");
            let number = number(&start);
            self.starts[number / 64] |= 1 << (number % 64);
            self.by_start.entry(start).or_default().push(self.forms.len());
            self.forms.push(Form { text: self.texts.len(), name, bytes });
        }
        self.texts.push(text);
    }

    /// Each text that stands in these bytes, once.
    pub fn find_in(&self, bytes: &[u8]) -> Vec<Found> {
        let mut found = self.scan(bytes);
        found.extend(self.scan(&unfolded(bytes)));
        found.sort();
        found.dedup_by(|a, b| a.text == b.text);
        found
    }

    fn scan(&self, bytes: &[u8]) -> Vec<Found> {
        let mut found = Vec::new();
        let mut rest = bytes;
        while let [a, b, c, ..] = *rest {
            let number = number(&[a, b, c]);
            if self.starts[number / 64] & (1 << (number % 64)) != 0 {
                let forms = self.by_start[&[a, b, c]].iter().map(|form| &self.forms[*form]);
                let at = bytes.len() - rest.len();
                found.extend(forms.filter(|form| rest.starts_with(&form.bytes)).map(|form| Found {
                    text: self.texts[form.text].clone(),
                    form: form.name,
                    around: String::from_utf8_lossy(&bytes[at.saturating_sub(60)..(at + form.bytes.len() + 60).min(bytes.len())]).into_owned(),
                }));
            }
            rest = &rest[1..];
        }
        found
    }

    /// Each text in each file under a folder.
    ///
    /// # Panics
    /// Where a file can't be read.
    pub fn in_folder(&self, folder: &Path) -> Vec<(PathBuf, Found)> {
        self.in_files(files(folder))
    }

    /// Each text in each of these files.
    ///
    /// # Panics
    /// Where one can't be read.
    pub fn in_files(&self, files: Vec<PathBuf>) -> Vec<(PathBuf, Found)> {
        let in_file = |file: PathBuf| {
            let found = self.find_in(&fs::read(&file).expect("a file of the run can be read"));
            found.into_iter().map(move |found| (file.clone(), found))
        };
        files.into_iter().flat_map(in_file).collect()
    }
}

/// All files under a folder.
///
/// # Panics
/// Where it can't be read.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all
}

/// Those files under a folder that were written since; sockets and pipes aren't.
///
/// # Panics
/// Where it can't be read.
pub fn written_since(folder: &Path, since: SystemTime) -> Vec<PathBuf> {
    let written = |file: &PathBuf| fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.modified().is_ok_and(|at| at >= since));
    files(folder).into_iter().filter(written).collect()
}

fn number(start: &[u8; START]) -> usize {
    usize::from(start[0]) << 16 | usize::from(start[1]) << 8 | usize::from(start[2])
}

fn forms_of(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mut forms = vec![
        ("plain", text.as_bytes().to_vec()),
        ("UTF-16, little end first", text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("UTF-16, big end first", text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        ("quoted-printable", escaped(text, "=", false, |c| (c.is_ascii_graphic() || c == b' ') && c != b'=')),
        ("quoted-printable, as in a header", escaped(&text.replace(' ', "_"), "=", false, |c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))),
        ("HTML", text.replace('&', "&amp;").replace('\'', "&#x27;").replace('@', "&#x40;").into_bytes()),
        ("JSON", json_ascii(text).into_bytes()),
    ];
    forms.extend(encoded(text));
    forms
}

/// Forms that hide a text from a search for its letters.
fn encoded(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mut forms = vec![
        ("percent", escaped(text, "%", false, |c| c.is_ascii_alphanumeric() || b"-_.~".contains(&c))),
        ("percent, lower case", escaped(text, "%", true, |c| c.is_ascii_alphanumeric() || b"-_.~".contains(&c))),
        ("percent, only what must be", escaped(text, "%", false, |c| c.is_ascii_graphic() && c != b'%')),
    ];
    forms.extend(in_digits(text.as_bytes()));
    forms
}

fn in_digits(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let hexadecimal = hex::encode(bytes);
    let mut forms = vec![("hexadecimal, upper case", hexadecimal.to_uppercase().into_bytes()), ("hexadecimal", hexadecimal.into_bytes())];
    for skip in 0..3 {
        forms.push(("base64", aligned(bytes, skip, |b| STANDARD_NO_PAD.encode(b))));
        forms.push(("base64, for URLs", aligned(bytes, skip, |b| URL_SAFE_NO_PAD.encode(b))));
    }
    forms
}

/// As somebody may have folded it.
fn other_cases(text: &str) -> Vec<(&'static str, String)> {
    let mut cases = vec![("lower case", text.to_lowercase()), ("upper case", text.to_uppercase())];
    cases.retain(|(_, case)| case != text);
    cases
}

/// Without the line breaks that MIME and quoted-printable put in.
fn unfolded(bytes: &[u8]) -> Vec<u8> {
    let mut dense = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        if rest.starts_with(b"=\r\n") {
            rest = &rest[3..];
        } else if rest.starts_with(b"=\n") {
            rest = &rest[2..];
        } else {
            if !matches!(first, b'\r' | b'\n') {
                dense.push(*first);
            }
            rest = &rest[1..];
        }
    }
    dense
}

fn escaped(text: &str, mark: &str, lower: bool, keep: impl Fn(u8) -> bool) -> Vec<u8> {
    let escape = |b: u8| if lower { format!("{mark}{b:02x}") } else { format!("{mark}{b:02X}") };
    text.bytes().flat_map(|b| if keep(b) { vec![b] } else { escape(b).into_bytes() }).collect()
}

fn json_ascii(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_ascii() { c.to_string().chars().collect::<Vec<_>>() } else { escape_units(c) }).collect()
}

fn escape_units(c: char) -> Vec<char> {
    let mut units = [0; 2];
    c.encode_utf16(&mut units).iter().flat_map(|unit| format!("\\u{unit:04x}").chars().collect::<Vec<_>>()).collect()
}

/// The characters of base64 that depend on the text alone, when `skip` bytes of something else stand before it in its group of three.
fn aligned(bytes: &[u8], skip: usize, encode: impl Fn(&[u8]) -> String) -> Vec<u8> {
    let mut padded = vec![0; skip];
    padded.extend_from_slice(bytes);
    let whole = padded.len() / 3 * 3;
    let encoded = encode(&padded[..whole]).into_bytes();
    let from = if skip == 0 { 0 } else { 4 };
    encoded[from.min(encoded.len())..].to_vec()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn a_planted_address_is_found_in_each_form() {
        let address = "ada.o'brien+x@bücher.example";
        let needles = Needles::new([address]);
        let found = |text: &str| needles.find_in(text.as_bytes()).pop().map(|found| found.form);
        let percent: String =
            address.bytes().map(|b| if b.is_ascii_alphanumeric() || b == b'.' { char::from(b).to_string() } else { format!("%{b:02X}") }).collect();
        assert!(found(&format!("GET /v1/jobs?recipient={percent} 200")).is_some());
        assert_eq!(found(&format!("to={address}")), Some("plain"));
        assert_eq!(found("Ada.O'Brien+X@BÜCHER.EXAMPLE"), None, "a mixed case is nobody's form");
        assert_eq!(found("ADA.O'BRIEN+X@BÜCHER.EXAMPLE"), Some("upper case"));
        assert!(found(&format!("to={}", percent.replace('%', "="))).is_some());
        for before in ["", "x", "xy", "xyz"] {
            let text = format!("{before}{address}, and more");
            let mut folded = STANDARD.encode(&text);
            folded.insert_str(8, "\r\n");
            assert!(found(&folded).is_some(), "after {before:?}");
            assert!(found(&URL_SAFE_NO_PAD.encode(&text)).is_some(), "after {before:?}");
        }
        assert!(found(&hex::encode(address)).is_some());
        let wide: Vec<u8> = format!("to {address}").encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(needles.find_in(&wide).len(), 1);
        assert_eq!(found("ada.o'brien@bucher.example"), None);
    }

    #[test]
    fn a_key_is_found_as_it_is_and_in_digits() {
        let key: Vec<u8> = (0..32).map(|n| n * 7).collect();
        let needles = Needles::new(["nothing of it"]).and_bytes("the key", &key);
        for written in [key.clone(), STANDARD.encode(&key).into_bytes(), hex::encode_upper(&key).into_bytes()] {
            let found = needles.find_in(&[b"key = ".to_vec(), written].concat());
            assert_eq!(found.first().map(|found| found.text.as_str()), Some("the key"));
        }
    }
}
