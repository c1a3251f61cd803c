//! Where values come from: flags before variables before the file. Each keeps its origin.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::{Fault, Origin};
use super::schema;

/// A key's path.
pub type KeyPath = Vec<String>;

/// A value as it was given, before anybody judged it.
#[derive(Clone, PartialEq, Debug)]
pub enum Raw {
    /// A string; every variable and flag is one.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Real(f64),
    /// True or false.
    Truth(bool),
    /// A list of strings.
    List(Vec<String>),
    /// Something that no key takes, as TOML names it.
    Other(String),
}

/// A value and where it came from.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The value.
    pub raw: Raw,
    /// Where it came from.
    pub origin: Origin,
}

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file, where one is named.
    pub file: Option<PathBuf>,
    /// The environment; only `CURFEW_TABLE__KEY` counts.
    pub variables: Vec<(String, String)>,
    /// Flags: the flag's name, the key it sets, the value.
    pub flags: Vec<(&'static str, &'static str, String)>,
    /// `--data`.
    pub data: Option<PathBuf>,
}

impl Sources {
    /// This process's environment and a file.
    pub fn of_process(file: Option<PathBuf>) -> Self {
        let variables = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect();
        Self { file, variables, ..Self::default() }
    }
}

/// Everything that was given, merged.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// By path.
    pub entries: BTreeMap<KeyPath, Entry>,
    /// Tables that were named, even where nothing stands in them.
    pub tables: BTreeSet<KeyPath>,
}

/// Reads and merges; unknown keys are faults.
pub fn gather(sources: &Sources, faults: &mut Vec<Fault>) -> Given {
    let mut given = Given::default();
    if let Some(path) = &sources.file {
        read_file(path, &mut given, faults);
    }
    for (name, value) in &sources.variables {
        let Some(rest) = name.strip_prefix("CURFEW_").filter(|rest| rest.contains("__")) else { continue };
        let path = given.named_as_in_file(rest.split("__").map(str::to_ascii_lowercase).collect());
        given.put(path, Entry { raw: of_variable(value), origin: Origin::Variable(name.clone()) }, faults);
    }
    for (flag, key, value) in &sources.flags {
        let path = key.split('.').map(str::to_owned).collect();
        given.put(path, Entry { raw: Raw::Text(value.clone()), origin: Origin::Flag(flag) }, faults);
    }
    given
}

/// A variable is a text; a list may also be written as in the file. (`[::1]:7420` is none.)
fn of_variable(value: &str) -> Raw {
    let list = value.trim().starts_with('[').then(|| format!("list = {}", value.trim()));
    let parsed = list.as_deref().and_then(|text| DeTable::parse(text).ok());
    let list = parsed.as_ref().and_then(|table| table.get_ref().get("list")).map(|found| raw(found.get_ref()));
    list.unwrap_or_else(|| Raw::Text(value.to_owned()))
}

impl Given {
    fn put(&mut self, path: KeyPath, entry: Entry, faults: &mut Vec<Fault>) {
        if schema::known(&path).is_none() {
            faults.push(unknown(&path, &entry));
            return;
        }
        for depth in 1..path.len() {
            self.tables.insert(path[..depth].to_vec());
        }
        self.entries.insert(path, entry);
    }

    /// A variable can't spell every name: where the file has one that differs in case or punctuation alone, it is meant.
    fn named_as_in_file(&self, mut path: KeyPath) -> KeyPath {
        for n in schema::stars(&path) {
            let plain = |s: &str| s.to_ascii_lowercase().replace(['-', '.', ':'], "_");
            let of_file = self.tables.iter().chain(self.entries.keys()).find(|p| p.len() > n && p[..n] == path[..n] && plain(&p[n]) == path[n]);
            if let Some(of_file) = of_file {
                path[n] = of_file[n].clone();
            }
        }
        path
    }

    /// The names that stand under a table, in order.
    pub fn names(&self, table: &str) -> BTreeSet<String> {
        let under = |p: &&KeyPath| p.len() > 1 && p[0] == table;
        self.tables.iter().chain(self.entries.keys()).filter(under).map(|p| p[1].clone()).collect()
    }
}

fn unknown(path: &[String], entry: &Entry) -> Fault {
    let says = match schema::nearest(path) {
        _ if schema::is_table(path) => "is a table, not a value".to_owned(),
        Some(nearest) => format!("unknown key; did you mean {nearest}?"),
        None => "unknown key".to_owned(),
    };
    Fault { origin: entry.origin.clone(), key: path.join("."), value: None, says }
}

fn read_file(path: &Path, given: &mut Given, faults: &mut Vec<Fault>) {
    let mut fault = |line: usize, says: String| {
        let origin = Origin::File { path: path.to_owned(), line };
        faults.push(Fault { origin, key: String::new(), value: None, says });
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) => return fault(0, format!("the configuration can't be read: {e}")),
    };
    match DeTable::parse(&text) {
        Ok(table) => walk(&Walk { path, text: &text }, &mut Vec::new(), table.get_ref(), given, faults),
        Err(e) => fault(e.span().map_or(1, |span| line_of(&text, span.start)), format!("is not TOML: {}", e.message().replace('\n', "; "))),
    }
}

struct Walk<'a> {
    path: &'a Path,
    text: &'a str,
}

fn walk(file: &Walk<'_>, at: &mut KeyPath, table: &DeTable<'_>, given: &mut Given, faults: &mut Vec<Fault>) {
    for (key, value) in table {
        at.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) => {
                let origin = Origin::File { path: file.path.to_owned(), line: line_of(file.text, key.span().start) };
                if schema::is_table(at) {
                    given.tables.insert(at.clone());
                    walk(file, at, inner, given, faults);
                } else {
                    faults.push(unknown(at, &Entry { raw: Raw::Other("table".into()), origin }));
                }
            }
            other => {
                let origin = Origin::File { path: file.path.to_owned(), line: line_of(file.text, value.span().start) };
                given.put(at.clone(), Entry { raw: raw(other), origin }, faults);
            }
        }
        at.pop();
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    let other = || Raw::Other(value.type_str().to_owned());
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).map_or_else(|_over| other(), Raw::Integer),
        DeValue::Float(n) => n.as_str().parse().map_or_else(|_odd| other(), Raw::Real),
        DeValue::Boolean(b) => Raw::Truth(*b),
        DeValue::Array(items) => {
            let texts: Option<Vec<String>> = items.iter().map(|i| i.get_ref().as_str().map(str::to_owned)).collect();
            texts.map_or_else(other, Raw::List)
        }
        DeValue::Datetime(_) | DeValue::Table(_) => other(),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}
