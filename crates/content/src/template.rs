//! Versioned templates: a folder per version, compiled once, fixed while the process runs.
//!
//! ```text
//! templates/
//!   renewal@1/            the name is letters, digits, `_` and `-`; the version a number from 1
//!     template.toml       description, list_unsubscribe, and [params]: every parameter that may be given
//!     subject.txt         one line
//!     text.txt            this, or html.html, or both
//!     html.html           values are escaped; in the other files they stand as they are
//!     footer.txt          any further .txt or .html file, for {% include "footer.txt" %}
//! ```
//!
//! ```toml
//! description = "The reminder before a plan renews."
//! list_unsubscribe = "https://example.com/reminders/off?r={{ token }}"    # values are percent-encoded here
//! [params]
//! plan = {}                                    # required
//! greeting = { default = "Dear customer" }     # may be left out
//! ```
//!
//! A file may use declared parameters only, and no file outside its folder; both are checked at load. A version is meant never to
//! change: its SHA-256 is recorded, and a version that reads otherwise at the next start is warned about. Read `template/load.rs` next.

mod load;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use minijinja::{Environment, ErrorKind, Value};

use crate::error::{ContentError, TemplateError};
use crate::limits::{CONTENT_BYTES_MAX, RENDER_STEPS_MAX};

pub(crate) const SUBJECT: &str = "subject.txt";
pub(crate) const TEXT: &str = "text.txt";
pub(crate) const HTML: &str = "html.html";
/// The name under which the List-Unsubscribe template is compiled; no file can have it.
pub(crate) const UNSUBSCRIBE: &str = "list_unsubscribe";

/// All templates of one folder.
#[derive(Debug, Default)]
pub struct Templates {
    versions: BTreeMap<String, Version>,
}

/// Something a person should look at, though the process goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// `name@version`.
    pub template: String,
    /// What is odd.
    pub message: String,
}

/// One version of one template.
#[derive(Debug)]
pub(crate) struct Version {
    /// What `template.toml` declares.
    pub(crate) params: BTreeMap<String, Param>,
    /// The parameters that the subject uses by name.
    pub(crate) in_subject: BTreeSet<String>,
    description: String,
    sha256: String,
    environment: Environment<'static>,
}

/// A declared parameter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Param {
    /// Stands in where none is given; `None`: the parameter is required.
    pub(crate) default: Option<serde_json::Value>,
}

impl Templates {
    /// Loads every version under `dir`. `known` holds the hashes that an earlier start recorded (see [`Templates::hashes`]).
    ///
    /// # Errors
    /// The first folder or file that is no template.
    pub fn load(dir: &Path, known: &BTreeMap<String, String>) -> Result<(Self, Vec<Warning>), TemplateError> {
        let versions = load::all(dir)?;
        let changed = |name: &String, v: &Version| known.get(name).is_some_and(|old| *old != v.sha256);
        let warnings = versions
            .iter()
            .filter(|(name, v)| changed(name, v))
            .map(|(name, _)| Warning {
                template: name.clone(),
                message: "its files changed since an earlier start; letters already accepted keep what they said. A new text wants a new version"
                    .into(),
            })
            .collect();
        Ok((Self { versions }, warnings))
    }

    /// The SHA-256 of each version's files, by `name@version`, for the next start to compare with.
    pub fn hashes(&self) -> BTreeMap<String, String> {
        self.versions.iter().map(|(name, v)| (name.clone(), v.sha256.clone())).collect()
    }

    /// Names and descriptions, in order.
    pub fn list(&self) -> impl Iterator<Item = (&str, &str)> {
        self.versions.iter().map(|(name, v)| (name.as_str(), v.description.as_str()))
    }

    /// One version.
    ///
    /// # Errors
    /// An unknown name; the answer says which versions of that name there are.
    pub(crate) fn get(&self, template: &str) -> Result<&Version, ContentError> {
        self.versions.get(template).ok_or_else(|| {
            let name = template.split('@').next().unwrap_or_default();
            let there: Vec<&str> = self.versions.keys().filter(|k| k.split('@').next() == Some(name)).map(String::as_str).collect();
            let hint = if there.is_empty() { String::new() } else { format!("; there is {}", there.join(", ")) };
            ContentError::new("content.template", format!("unknown template{hint}"))
        })
    }
}

impl Version {
    /// Whether the version has this file.
    pub(crate) fn has(&self, file: &str) -> bool {
        self.environment.get_template(file).is_ok()
    }

    /// Renders one file; at most `CONTENT_BYTES_MAX` bytes.
    pub(crate) fn render(&self, file: &str, field: &str, params: &Value) -> Result<String, ContentError> {
        let template = self.environment.get_template(file).expect("asked for after `has`");
        let mut out = Bounded(Vec::new());
        // The engine's own words may quote a value, so only the kind and the place are told.
        template.render_captured_to(params.clone(), &mut out).map_err(|e| {
            let place = format!("{}, line {}", e.name().unwrap_or(file), e.line().unwrap_or(1));
            let reason = match e.kind() {
                ErrorKind::UndefinedError => format!("the template uses a part of a parameter that was not given ({place})"),
                ErrorKind::WriteFailure => format!("the letter is larger than {CONTENT_BYTES_MAX} bytes ({place})"),
                ErrorKind::OutOfFuel => format!("the template takes more than {RENDER_STEPS_MAX} steps ({place})"),
                other => format!("the template can't be filled with these parameters: {other} ({place})"),
            };
            ContentError::new(if e.kind() == ErrorKind::UndefinedError { "content.params" } else { field }, reason)
        })?;
        String::from_utf8(out.0).map_err(|_invalid| ContentError::new(field, "the template gave bytes that are no text"))
    }
}

/// Takes bytes up to a letter's limit.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > CONTENT_BYTES_MAX {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
