//! Looks for a text in whatever a run wrote, in each form in which it could have got there.
//!
//! Forms: plain (also with `=` where a quoted-printable line breaks), percent-encoded in both cases and for both sets of characters, JSON and
//! HTML escapes, base64 in both alphabets at each of the three alignments, quoted-printable, hexadecimal. Whitespace between base64
//! characters is ignored, for MIME breaks lines where it likes.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A secret and its forms.
#[derive(Clone, Debug)]
pub struct Needle {
    text: String,
    forms: Vec<(&'static str, String)>,
}

/// Bytes to search, each as the character of its number: the standard library's search over text is fast even in a debug build.
pub struct Haystack {
    plain: String,
    unfolded: String,
}

impl Haystack {
    /// Bytes as they were written.
    pub fn new(bytes: &[u8]) -> Self {
        Self { plain: characters(bytes), unfolded: characters(&unfolded(bytes)) }
    }
}

fn characters(bytes: &[u8]) -> String {
    bytes.iter().map(|b| char::from(*b)).collect()
}

impl Needle {
    /// A text that must be nowhere.
    ///
    /// # Panics
    /// Under five bytes: its base64 would be found by chance.
    pub fn new(text: &str) -> Self {
        assert!(text.len() >= 5, "{text} is too short to look for");
        let bytes = text.as_bytes();
        let mut forms = vec![
            ("plain", bytes.to_vec()),
            ("percent", escaped(text, "%", false, |c| c.is_ascii_alphanumeric() || b"-_.~".contains(&c))),
            ("percent, lower case", escaped(text, "%", true, |c| c.is_ascii_alphanumeric() || b"-_.~".contains(&c))),
            ("percent, only what must be", escaped(text, "%", false, |c| c.is_ascii_graphic() && c != b'%')),
            ("quoted-printable", escaped(text, "=", false, |c| (c.is_ascii_graphic() || c == b' ') && c != b'=')),
            ("quoted-printable, as in a header", escaped(&text.replace(' ', "_"), "=", false, |c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))),
            ("hexadecimal", hex::encode(bytes).into_bytes()),
            ("HTML", text.replace('&', "&amp;").replace('\'', "&#x27;").replace('@', "&#x40;").into_bytes()),
            ("JSON", json_ascii(text).into_bytes()),
        ];
        for skip in 0..3 {
            forms.push(("base64", aligned(bytes, skip, |b| STANDARD_NO_PAD.encode(b))));
            forms.push(("base64, for URLs", aligned(bytes, skip, |b| URL_SAFE_NO_PAD.encode(b))));
        }
        Self { text: text.to_owned(), forms: forms.into_iter().map(|(name, form)| (name, characters(&form))).collect() }
    }

    /// The form in which it stands there.
    pub fn found_in(&self, haystack: &Haystack) -> Option<&'static str> {
        let stands = |form: &str| haystack.plain.contains(form) || haystack.unfolded.contains(form);
        self.forms.iter().find(|(_, form)| stands(form)).map(|(name, _)| *name)
    }

    /// What is looked for.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Each needle in each file under a folder, as `(file, text, form)`.
///
/// # Panics
/// Where a file can't be read.
pub fn in_folder(folder: &Path, needles: &[Needle]) -> Vec<(PathBuf, String, &'static str)> {
    let mut found = Vec::new();
    for file in files(folder) {
        let haystack = Haystack::new(&fs::read(&file).expect("a file of the run can be read"));
        for needle in needles {
            if let Some(form) = needle.found_in(&haystack) {
                found.push((file.clone(), needle.text.clone(), form));
            }
        }
    }
    found
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
    use super::*;

    #[test]
    fn a_planted_address_is_found_in_each_form() {
        let address = "ada.o'brien+x@bücher.example";
        let needle = Needle::new(address);
        let found = |text: &str| needle.found_in(&Haystack::new(text.as_bytes()));
        let percent: String =
            address.bytes().map(|b| if b.is_ascii_alphanumeric() || b == b'.' { char::from(b).to_string() } else { format!("%{b:02X}") }).collect();
        assert!(found(&format!("GET /v1/jobs?recipient={percent} 200")).is_some());
        assert!(found(&format!("to={address}")).is_some());
        assert!(found(&format!("to={}", percent.replace('%', "="))).is_some());
        for before in ["", "x", "xy", "xyz"] {
            let text = format!("{before}{address}, and more");
            let mut folded = base64::engine::general_purpose::STANDARD.encode(&text);
            folded.insert_str(8, "\r\n");
            assert!(found(&folded).is_some(), "after {before:?}");
            assert!(found(&URL_SAFE_NO_PAD.encode(&text)).is_some(), "after {before:?}");
        }
        assert!(found(&hex::encode(address)).is_some());
        assert_eq!(found("ada.o'brien@bucher.example"), None);
    }
}
