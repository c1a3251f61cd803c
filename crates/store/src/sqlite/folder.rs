//! The data folder: made private, locked by one process, its files readable by their owner alone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::StoreError;

const LOCK_FILE: &str = "curfew.lock";

/// The lock on the folder, for as long as this value lives.
///
/// It belongs to the open file, not to the name: a process that is killed lets go of it, and the file may stay.
pub(super) struct FolderLock {
    _file: File,
}

/// Creates the folder if it is missing and locks it (S1).
pub(super) fn lock(folder: &Path) -> Result<FolderLock, StoreError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| cannot_open(folder, &error))?;
    let path = folder.join(LOCK_FILE);
    let file = private().create(true).open(&path).map_err(|error| cannot_open(&path, &error))?;
    match fs4::FileExt::try_lock(&file) {
        Ok(()) => Ok(FolderLock { _file: file }),
        Err(fs4::TryLockError::WouldBlock) => Err(StoreError::Locked { path }),
        Err(fs4::TryLockError::Error(error)) => Err(cannot_open(&path, &error)),
    }
}

/// Creates an empty database file before the engine would, because the engine gives its log and index files the mode of this
/// one, and syncs the folder that now names it.
pub(super) fn create_database_file(file: &Path) -> Result<(), StoreError> {
    match private().create_new(true).open(file) {
        Ok(_) => sync_folder_of(file).map_err(|error| cannot_open(file, &error)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(cannot_open(file, &error)),
    }
}

/// Creates a file that must not exist, with mode 0600.
pub(super) fn create_new(file: &Path) -> Result<(), StoreError> {
    match private().create_new(true).open(file) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(StoreError::Exists { path: file.to_owned() }),
        Err(error) => Err(cannot_open(file, &error)),
    }
}

/// Makes the names in a file's folder durable: a synced file whose name is lost is lost.
pub(super) fn sync_folder_of(file: &Path) -> io::Result<()> {
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    };
    File::open(folder)?.sync_all()
}

pub(super) fn cannot_open(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Open { path: path.to_owned(), reason: error.to_string() }
}

fn private() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}
