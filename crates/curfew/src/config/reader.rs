//! Reads typed values out of what was given, collects every fault, and remembers what came from where.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{Fault, Origin};
use super::schema::{self, Show};
use super::secret::{Secret, without_password};
use super::source::{Entry, Given, Raw};
use super::units::{self, Rate};

type Parse<T> = Box<dyn Fn(&Raw) -> Option<T>>;

/// How a value is read: what is allowed, in words, and the reading itself.
pub struct Kind<T> {
    allowed: String,
    parse: Parse<T>,
    show: fn(&T) -> String,
}

/// A value as `config show` prints it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The key, dotted.
    pub key: String,
    /// The value, masked where it is a secret.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

/// The reading in progress.
pub struct Reader {
    /// What was given.
    pub given: Given,
    /// What was wrong.
    pub faults: Vec<Fault>,
    /// What was read.
    pub shown: Vec<Shown>,
}

impl Reader {
    /// A value, where it is given and right.
    pub fn optional<T>(&mut self, path: &[&str], kind: &Kind<T>) -> Option<T> {
        let entry = self.entry(path)?;
        match (kind.parse)(&entry.raw) {
            Some(value) => {
                self.note(path, (kind.show)(&value), entry.origin);
                Some(value)
            }
            None => {
                self.fault(path, &entry, format!("allowed: {}", kind.allowed));
                None
            }
        }
    }

    /// A value, or its default.
    pub fn or<T>(&mut self, path: &[&str], kind: &Kind<T>, default: T) -> T {
        if self.entry(path).is_none() {
            self.note(path, (kind.show)(&default), Origin::Default);
        }
        self.optional(path, kind).unwrap_or(default)
    }

    /// A secret, given itself or by the name of a file that holds it (a line feed at its end doesn't count).
    pub fn secret(&mut self, path: &[&str]) -> Option<(Secret, Origin)> {
        let (last, head) = path.split_last().expect("a path has a last segment");
        let file_key = format!("{last}_file");
        let file_path: Vec<&str> = head.iter().copied().chain([file_key.as_str()]).collect();
        let (text, origin) = match (self.entry(path), self.entry(&file_path)) {
            (Some(_), Some(by_file)) => {
                self.fault(&file_path, &by_file, format!("allowed: either this or {}", path.join(".")));
                return None;
            }
            (None, Some(by_file)) => (self.file_content(&file_path, &by_file)?, by_file.origin),
            (Some(entry), None) => match entry.raw {
                Raw::Text(text) => (text, entry.origin),
                Raw::Integer(_) | Raw::Real(_) | Raw::Truth(_) | Raw::List(_) | Raw::Other(_) => {
                    self.fault(path, &entry, "allowed: a string".into());
                    return None;
                }
            },
            (None, None) => return None,
        };
        let shown = match schema::known(&owned(path)) {
            Some((_, Show::Url)) => without_password(&text),
            Some((_, Show::Plain | Show::Never)) | None => "********".to_owned(),
        };
        self.note(path, shown, origin.clone());
        Some((Secret::new(text), origin))
    }

    fn file_content(&mut self, path: &[&str], entry: &Entry) -> Option<String> {
        let Raw::Text(file) = &entry.raw else {
            self.fault(path, entry, "allowed: the path of a file".into());
            return None;
        };
        match std::fs::read_to_string(place(entry, file)) {
            Ok(text) => Some(text.trim_end_matches(['\n', '\r']).to_owned()),
            Err(e) => {
                self.fault(path, entry, format!("the file can't be read: {e}"));
                None
            }
        }
    }

    /// What was given under a path.
    pub fn entry(&self, path: &[&str]) -> Option<Entry> {
        self.given.entries.get(&owned(path)).cloned()
    }

    /// Adds a fault about a value that was given.
    pub fn fault(&mut self, path: &[&str], entry: &Entry, says: String) {
        let value = match schema::known(&owned(path)) {
            Some((_, Show::Never)) => "********".to_owned(),
            Some((_, Show::Url)) => without_password(&as_given(&entry.raw)),
            Some((_, Show::Plain)) | None => as_given(&entry.raw),
        };
        self.faults.push(Fault { origin: entry.origin.clone(), key: path.join("."), value: Some(value), says });
    }

    /// Adds a fault about a path, wherever its value came from; names the origin where there is one.
    pub fn refuse(&mut self, path: &[&str], says: impl Into<String>) {
        match self.entry(path) {
            Some(entry) => self.fault(path, &entry, says.into()),
            None => self.faults.push(Fault { origin: Origin::Default, key: path.join("."), value: None, says: says.into() }),
        }
    }

    /// Remembers a value for `config show`.
    pub fn note(&mut self, path: &[&str], value: String, origin: Origin) {
        self.shown.push(Shown { key: path.join("."), value, origin });
    }
}

/// Where a path of an entry leads: one from a file starts at that file's folder where something is there, else at the working directory.
pub fn place(entry: &Entry, path: &str) -> PathBuf {
    let folder = match &entry.origin {
        Origin::File { path, .. } => path.parent(),
        Origin::Default | Origin::Variable(_) | Origin::Flag(_) => None,
    };
    folder.map(|folder| folder.join(path)).filter(|near| near.exists()).unwrap_or_else(|| PathBuf::from(path))
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|s| (*s).to_owned()).collect()
}

fn as_given(raw: &Raw) -> String {
    match raw {
        Raw::Text(text) => format!("{text:?}"),
        Raw::Integer(n) => n.to_string(),
        Raw::Real(n) => n.to_string(),
        Raw::Truth(b) => b.to_string(),
        Raw::List(items) => format!("{items:?}"),
        Raw::Other(kind) => format!("({kind})"),
    }
}

fn text_of(raw: &Raw) -> Option<&str> {
    match raw {
        Raw::Text(text) => Some(text),
        Raw::Integer(_) | Raw::Real(_) | Raw::Truth(_) | Raw::List(_) | Raw::Other(_) => None,
    }
}

/// Any text that isn't empty and holds no control.
pub fn text() -> Kind<String> {
    parsed("a string that is not empty", |t| (!t.is_empty() && !t.chars().any(char::is_control)).then(|| t.to_owned()), String::clone)
}

/// Text that a function reads.
pub fn parsed<T: 'static>(allowed: impl Into<String>, parse: impl Fn(&str) -> Option<T> + 'static, show: fn(&T) -> String) -> Kind<T> {
    Kind { allowed: allowed.into(), parse: Box::new(move |raw| text_of(raw).and_then(&parse)), show }
}

/// One of a closed set of words.
pub fn word<T: Copy + PartialEq + 'static>(words: &'static [(&'static str, T)], show: fn(&T) -> String) -> Kind<T> {
    let allowed = words.iter().map(|(w, _)| format!("\"{w}\"")).collect::<Vec<_>>().join(", ");
    parsed(allowed, |text| words.iter().find(|(w, _)| *w == text).map(|(_, v)| *v), show)
}

/// A whole number in a range.
pub fn integer(range: RangeInclusive<u32>) -> Kind<u32> {
    let allowed = format!("a whole number from {} to {}", range.start(), range.end());
    let parse = move |raw: &Raw| {
        let n = match raw {
            Raw::Integer(n) => u32::try_from(*n).ok(),
            Raw::Text(text) => text.parse().ok(),
            Raw::Real(_) | Raw::Truth(_) | Raw::List(_) | Raw::Other(_) => None,
        };
        n.filter(|n| range.contains(n))
    };
    Kind { allowed, parse: Box::new(parse), show: u32::to_string }
}

/// A number in a range.
pub fn real(range: RangeInclusive<f64>) -> Kind<f64> {
    let allowed = format!("a number from {} to {}", range.start(), range.end());
    let parse = move |raw: &Raw| {
        let n = match raw {
            Raw::Real(n) => Some(*n),
            Raw::Integer(n) => Some(*n as f64),
            Raw::Text(text) => text.parse().ok(),
            Raw::Truth(_) | Raw::List(_) | Raw::Other(_) => None,
        };
        n.filter(|n| range.contains(n))
    };
    Kind { allowed, parse: Box::new(parse), show: f64::to_string }
}

/// A duration in a range.
pub fn duration(range: RangeInclusive<Duration>) -> Kind<Duration> {
    let allowed = format!(
        "a duration from {} to {}, as a whole number with ms, s, m, h, d or y",
        units::duration_text(*range.start()),
        units::duration_text(*range.end())
    );
    parsed(allowed, move |t| units::duration(t).filter(|d| range.contains(d)), |d| units::duration_text(*d))
}

/// A size of at least so many bytes.
pub fn size(least: u64) -> Kind<u64> {
    let allowed = format!("a size of at least {}, as a whole number with KiB, MiB or GiB", units::size_text(least));
    parsed(allowed, move |t| units::size(t).filter(|n| *n >= least), |n| units::size_text(*n))
}

/// A rate, or `unlimited`.
pub fn rate() -> Kind<Option<Rate>> {
    let show = |r: &Option<Rate>| r.map_or_else(|| "unlimited".to_owned(), |r| r.to_string());
    parsed(
        "n/s, n/m or n/h with n from 1 to 1000000, or \"unlimited\"",
        |t| if t == "unlimited" { Some(None) } else { units::rate(t).map(Some) },
        show,
    )
}

/// An address and port to listen on; `localhost` is 127.0.0.1.
pub fn listen() -> Kind<SocketAddr> {
    let parse = |t: &str| t.strip_prefix("localhost:").map_or_else(|| t.to_owned(), |port| format!("127.0.0.1:{port}")).parse().ok();
    parsed("an IP address and a port, for instance \"127.0.0.1:7420\"", parse, SocketAddr::to_string)
}

/// A list of texts that a function reads; in a variable they stand between commas.
pub fn list<T: 'static>(allowed: impl Into<String>, parse: impl Fn(&str) -> Option<T> + 'static, show: fn(&Vec<T>) -> String) -> Kind<Vec<T>> {
    let parse = move |raw: &Raw| match raw {
        Raw::List(items) => items.iter().map(|i| parse(i)).collect(),
        Raw::Text(text) if text.trim().is_empty() => Some(Vec::new()),
        Raw::Text(text) => text.split(',').map(|i| parse(i.trim())).collect(),
        Raw::Integer(_) | Raw::Real(_) | Raw::Truth(_) | Raw::Other(_) => None,
    };
    Kind { allowed: allowed.into(), parse: Box::new(parse), show }
}
