//! What is wrong with a configuration: one line a fault, naming file, key, value and what is allowed.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A line of the file.
    File {
        /// The file.
        path: PathBuf,
        /// From 1; 0 is the file as a whole.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line: 0 } => write!(f, "{}", path.display()),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(f, "variable {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Where it stands.
    pub origin: Origin,
    /// The key, dotted; empty where the file itself can't be read.
    pub key: String,
    /// The value as given, masked where it is a secret; `None` where it is missing.
    pub value: Option<String>,
    /// What is wrong, or what is allowed.
    pub says: String,
}

impl fmt::Display for Fault {
    /// One line, whatever a quoted key holds: a control in it is shown as TOML writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Default => {}
            place => write!(f, "{place}: ")?,
        }
        let key = on_one_line(&self.key);
        match &self.value {
            _ if key.is_empty() => {}
            Some(value) => write!(f, "{key} = {}: ", on_one_line(value))?,
            None => write!(f, "{key}: ")?,
        }
        f.write_str(&on_one_line(&self.says))
    }
}

fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

/// Every fault of a configuration; nothing was connected to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.0.iter().enumerate() {
            write!(f, "{}{fault}", if n == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
