//! `[keys]`: what seals, and the recipients' reference key. Embedded mode makes its own at the first start.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use curfew_domain::sealed::Keyring;

use super::error::{Faults, Origin};
use super::reader::{self, Reader};
use super::settings::Deployment;
use super::source::{self, Sources};

/// The embedded keys, in the data folder. Who loses it loses every sealed letter: it belongs into the backup, apart from it.
pub const KEYS_FILE: &str = "keys.toml";

/// Why the embedded keys can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The file can't be read or made.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It isn't what was written.
    #[error("{0}")]
    Content(Faults),
}

/// Reads `[keys]`.
pub fn read(reader: &mut Reader, deployment: Deployment) -> Option<Keyring> {
    let ids: Vec<String> = reader.given.entries.keys().filter(|p| p[0] == "keys").map(|p| p[1].clone()).collect();
    if ids.is_empty() {
        match deployment {
            Deployment::Fleet => reader.refuse(&["keys"], "is missing; a fleet doesn't start without [keys]. `curfew keys new` prints one"),
            Deployment::Embedded | Deployment::AsGiven => reader.note(&["keys"], format!("DATA/{KEYS_FILE}"), Origin::Default),
        }
        return None;
    }
    let faults_before = reader.faults.len();
    let mut keys = BTreeMap::new();
    for id in ids.iter().map(|id| id.strip_suffix("_file").unwrap_or(id)).filter(|id| *id != "current" && *id != "reference") {
        if let Some(key) = key(reader, id) {
            keys.insert(id.to_owned(), key);
        }
    }
    let reference = key(reader, "reference");
    let current = reader.optional(&["keys", "current"], &reader::text());
    let (Some(reference), Some(current)) = (reference, current) else {
        if reader.faults.len() == faults_before {
            reader.refuse(&["keys"], "needs current, reference and the key that current names; `curfew keys new` prints them");
        }
        return None;
    };
    let ids: Vec<String> = keys.keys().cloned().collect();
    match Keyring::new(keys, &current, reference) {
        Ok(keyring) => Some(keyring),
        Err(_) if reader.faults.len() > faults_before => None,
        Err(_) => {
            reader.refuse(
                &["keys", "current"],
                format!("allowed: one of the keys given ({}); an id is 1 to 32 letters, digits, _ and -", ids.join(", ")),
            );
            None
        }
    }
}

fn key(reader: &mut Reader, id: &str) -> Option<[u8; 32]> {
    let path = ["keys", id];
    let (secret, origin) = reader.secret(&path)?;
    let bytes = STANDARD.decode(secret.expose()).or_else(|_padded| STANDARD_NO_PAD.decode(secret.expose())).ok();
    let key = bytes.and_then(|b| <[u8; 32]>::try_from(b).ok());
    if key.is_none() {
        let says = "allowed: 32 bytes in base64; `curfew keys new` prints one".to_owned();
        reader.faults.push(super::Fault { origin, key: path.join("."), value: Some("********".into()), says });
    }
    key
}

/// A `[keys]` table of fresh random keys, for `keys new`.
pub fn new_keys_table() -> String {
    let fresh = || {
        let mut bits = [0_u8; 32];
        rand::fill(&mut bits);
        STANDARD.encode(bits)
    };
    format!("[keys]\ncurrent = \"k1\"\nk1 = \"{}\"\nreference = \"{}\"\n", fresh(), fresh())
}

/// The embedded keys of a data folder: read, or made at the first start (mode 0600, on the disk before this returns).
///
/// Of two processes that start at once, one makes them and both read the same.
///
/// # Errors
/// `KeysError`.
pub fn load_or_create_keys(folder: &Path) -> Result<Keyring, KeysError> {
    let path = folder.join(KEYS_FILE);
    let io = |error| KeysError::Io { path: path.clone(), error };
    if !path.try_exists().map_err(io)? {
        create(folder, &path).map_err(io)?;
    }
    let mut faults = Vec::new();
    let given = source::gather(&Sources { file: Some(path.clone()), ..Sources::default() }, &mut faults);
    let mut reader = Reader { given, faults, shown: Vec::new() };
    let keyring = read(&mut reader, Deployment::Fleet);
    match keyring {
        Some(keyring) if reader.faults.is_empty() => Ok(keyring),
        Some(_) | None => Err(KeysError::Content(Faults(reader.faults))),
    }
}

/// Writes beside and links into place: a crash leaves no half of a key, and a link never replaces what another process made.
fn create(folder: &Path, path: &Path) -> io::Result<()> {
    let beside = folder.join(format!("{KEYS_FILE}.{:016x}.new", rand::random::<u64>()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let header = "# Made at the first start. Without this file nothing that was sealed can be read: keep a copy, apart from the backups.\n";
    let written = file.write_all(header.as_bytes()).and_then(|()| file.write_all(new_keys_table().as_bytes())).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match fs::hard_link(&beside, path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    });
    fs::remove_file(&beside)?;
    linked?;
    File::open(folder)?.sync_all()
}
