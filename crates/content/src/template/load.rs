//! Reading a folder of templates: everything is checked before the first letter is rendered.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use minijinja::{AutoEscape, Environment, Error, Output, State, UndefinedBehavior, Value, escape_formatter};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{HTML, Param, SUBJECT, TEXT, UNSUBSCRIBE, Version};
use crate::error::TemplateError;
use crate::limits::{INCLUDE_DEPTH_MAX, RENDER_STEPS_MAX, TEMPLATE_FILE_BYTES_MAX, TEMPLATE_FILES_MAX, TEMPLATES_MAX};

const MANIFEST: &str = "template.toml";

/// `template.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    #[serde(default)]
    description: String,
    list_unsubscribe: Option<String>,
    #[serde(default)]
    params: BTreeMap<String, Declared>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    default: Option<serde_json::Value>,
    #[serde(default, rename = "description")]
    _description: String,
}

/// Every version under `dir`, by `name@version`.
pub(super) fn all(dir: &Path) -> Result<BTreeMap<String, Version>, TemplateError> {
    let mut versions = BTreeMap::new();
    for (name, path) in entries(dir, TEMPLATES_MAX)? {
        if !path.is_dir() || name.starts_with('.') {
            continue;
        }
        if !well_named(&name) {
            return Err(broken(&path, "a template's folder is named name@version, for instance renewal@1"));
        }
        let version = one(&path)?;
        versions.insert(name, version);
    }
    Ok(versions)
}

fn one(dir: &Path) -> Result<Version, TemplateError> {
    let files = read_files(dir)?;
    let manifest_path = dir.join(MANIFEST);
    let manifest = files.get(MANIFEST).ok_or_else(|| broken(&manifest_path, "is missing"))?;
    let manifest: Manifest = toml::from_str(manifest).map_err(|e| broken(&manifest_path, e.message()))?;
    for name in manifest.params.keys() {
        if !identifier(name) {
            return Err(broken(&manifest_path, &format!("params.{name}: a parameter's name is lower-case letters, digits and _")));
        }
    }
    if !files.contains_key(SUBJECT) {
        return Err(broken(dir, "subject.txt is missing"));
    }
    if !files.contains_key(TEXT) && !files.contains_key(HTML) {
        return Err(broken(dir, "text.txt or html.html is missing"));
    }
    let mut environment = environment();
    let sources = files.iter().filter(|(name, _)| *name != MANIFEST).map(|(name, source)| (name.clone(), source.clone()));
    for (name, source) in sources.chain(manifest.list_unsubscribe.clone().map(|source| (UNSUBSCRIBE.to_owned(), source))) {
        let path = dir.join(&name);
        environment.add_template_owned(name, source).map_err(|e| broken(&path, &e.to_string()))?;
    }
    let params: BTreeMap<String, Param> = manifest.params.into_iter().map(|(name, p)| (name, Param { default: p.default })).collect();
    let in_subject = check_names(dir, &environment, &params)?;
    Ok(Version { params, in_subject, description: manifest.description, sha256: hash(&files), environment })
}

/// Every name that a file uses must be declared, so that a slip of the pen is found at the start and not in a mail. Gives the subject's.
fn check_names(dir: &Path, environment: &Environment<'static>, params: &BTreeMap<String, Param>) -> Result<BTreeSet<String>, TemplateError> {
    let mut in_subject = BTreeSet::new();
    let globals: BTreeSet<String> = environment.globals().map(|(name, _)| name.to_owned()).collect();
    for (file, template) in environment.templates() {
        let used: BTreeSet<String> = template.undeclared_variables(false).into_iter().filter(|name| !globals.contains(name)).collect();
        if let Some(name) = used.iter().find(|name| !params.contains_key(*name)) {
            return Err(broken(&dir.join(file), &format!("uses `{name}`, which template.toml does not declare under [params]")));
        }
        if file == SUBJECT {
            in_subject = used;
        }
    }
    Ok(in_subject)
}

/// No loader, so no file outside the folder; strict, so no empty string for something missing.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(RENDER_STEPS_MAX));
    environment.set_recursion_limit(INCLUDE_DEPTH_MAX);
    environment.set_debug(false);
    environment.set_auto_escape_callback(|name| match name {
        UNSUBSCRIBE => AutoEscape::Custom("uri".into()),
        html if html.ends_with(".html") => AutoEscape::Html,
        _text => AutoEscape::None,
    });
    environment.set_formatter(|out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value| match state.auto_escape() {
        AutoEscape::Custom(_uri) => Ok(out.write_str(&percent_encode(&value.to_string()))?),
        AutoEscape::Html if value.is_undefined() => Err(Error::from(minijinja::ErrorKind::UndefinedError)),
        _engines_own => escape_formatter(out, state, value),
    });
    environment
}

/// RFC 3986: everything but the unreserved characters.
fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, b| {
        if b.is_ascii_alphanumeric() || b"-._~".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
        out
    })
}

fn read_files(dir: &Path) -> Result<BTreeMap<String, String>, TemplateError> {
    let mut files = BTreeMap::new();
    for (name, path) in entries(dir, TEMPLATE_FILES_MAX)? {
        if name.starts_with('.') || name.ends_with('~') {
            continue;
        }
        if !path.is_file() || (name != MANIFEST && !name.ends_with(".txt") && !name.ends_with(".html")) {
            return Err(broken(&path, "a version holds template.toml, .txt and .html files, and no folders"));
        }
        let mut source = String::new();
        let read = fs::File::open(&path).and_then(|f| f.take(TEMPLATE_FILE_BYTES_MAX + 1).read_to_string(&mut source));
        read.map_err(|source| TemplateError::Read { path: path.clone(), source })?;
        if source.len() as u64 > TEMPLATE_FILE_BYTES_MAX {
            return Err(broken(&path, &format!("is larger than {TEMPLATE_FILE_BYTES_MAX} bytes")));
        }
        files.insert(name, source);
    }
    Ok(files)
}

fn entries(dir: &Path, max: usize) -> Result<BTreeMap<String, PathBuf>, TemplateError> {
    let failed = |source| TemplateError::Read { path: dir.to_owned(), source };
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|_name| broken(&entry.path(), "its name is not UTF-8"))?;
        found.insert(name, entry.path());
        if found.len() > max {
            return Err(broken(dir, &format!("holds more than {max} entries")));
        }
    }
    Ok(found)
}

fn well_named(folder: &str) -> bool {
    folder.split_once('@').is_some_and(|(name, version)| {
        !name.is_empty()
            && folder.len() <= 100
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            && version.parse::<u32>().is_ok_and(|n| n >= 1 && n.to_string() == version)
    })
}

fn identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Lengths stand in the hash, so that no bytes can move from one file to the next unseen.
fn hash(files: &BTreeMap<String, String>) -> String {
    let mut sha = Sha256::new();
    for (name, source) in files {
        sha.update(format!("{} {name} {}\n", name.len(), source.len()));
        sha.update(source);
    }
    hex::encode(sha.finalize())
}

fn broken(path: &Path, reason: &str) -> TemplateError {
    TemplateError::Broken { path: path.to_owned(), reason: reason.to_owned() }
}
