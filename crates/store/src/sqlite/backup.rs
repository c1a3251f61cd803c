//! An online copy of the database, whole or not there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::folder::{cannot_open, create_new, sync_folder_of};
use crate::StoreError;

/// `VACUUM INTO` reads one snapshot on a connection of its own, so the writer goes on. It accepts an empty file, which is how
/// the copy gets its mode before it gets its content.
pub(super) async fn write(connect: &SqliteConnectOptions, to: &Path) -> Result<(), StoreError> {
    if to.symlink_metadata().is_ok() {
        return Err(StoreError::Exists { path: to.to_owned() });
    }
    let partial = partial_of(to);
    let Some(target) = partial.to_str() else {
        return Err(StoreError::Open { path: to.to_owned(), reason: "the name is not UTF-8".to_owned() });
    };
    create_new(&partial)?;
    let done = match vacuum_into(connect, target).await {
        Ok(()) => in_blocking(partial.clone(), to.to_owned()).await,
        Err(error) => Err(error),
    };
    if done.is_err() {
        // The first error is the one to tell; a partial file that stays is named by the next try.
        let _ = fs::remove_file(&partial);
    }
    done
}

async fn vacuum_into(connect: &SqliteConnectOptions, target: &str) -> Result<(), StoreError> {
    let failed = StoreError::during("backup");
    let mut conn = connect.connect().await.map_err(failed)?;
    let copied = sqlx::query("VACUUM INTO ?1").bind(target).execute(&mut conn).await;
    let closed = conn.close().await;
    copied.map_err(failed)?;
    closed.map_err(failed)
}

async fn in_blocking(partial: PathBuf, to: PathBuf) -> Result<(), StoreError> {
    tokio::task::spawn_blocking(move || publish(&partial, &to)).await.unwrap_or(Err(StoreError::Panicked))
}

/// Syncs the copy and gives it its name. A hard link, because a rename would replace a file that came up meanwhile; where the
/// file system has none, rename.
fn publish(partial: &Path, to: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| cannot_open(to, &error);
    File::open(partial).and_then(|file| file.sync_all()).map_err(failed)?;
    match fs::hard_link(partial, to) {
        Ok(()) => fs::remove_file(partial).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(StoreError::Exists { path: to.to_owned() }),
        Err(_) => fs::rename(partial, to).map_err(failed)?,
    }
    sync_folder_of(to).map_err(failed)
}

fn partial_of(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}
