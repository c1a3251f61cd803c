//! A server whose clock a test sets, with Debian's libfaketime before the C library: what `gettimeofday` says is read from a file at each call.
//!
//! Monotonic time goes on as it is, as it does where an administrator sets a clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In the server's folder: by how many seconds it is ahead, as libfaketime reads it.
const FILE: &str = "clock";
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// Lets a server that is about to start go by the file.
///
/// # Panics
/// Where libfaketime is missing, with what to install.
pub(super) fn by_hand(command: &mut Command, folder: &Path) {
    if !folder.join(FILE).exists() {
        set(folder, 0);
    }
    // libfaketime asks for memory while it looks for the real calls, and jemalloc asks for the time when it is first asked for memory: each waits
    // for the other. The C library's allocator, right behind, asks for nothing.
    command.env("LD_PRELOAD", format!("{}:libc.so.6", library().display()));
    command.env("FAKETIME_TIMESTAMP_FILE", folder.join(FILE)).env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

/// Sets it, ahead or behind. Renamed into place, for it is read all the time.
pub(super) fn set(folder: &Path, ahead_s: i64) {
    let written = folder.join("clock.new");
    fs::write(&written, format!("{ahead_s:+}\n")).expect("the folder is ours");
    fs::rename(written, folder.join(FILE)).expect("the folder is ours");
}

/// Takes away the names of what libfaketime shares with a server's children, once the server runs: who is killed takes nothing away.
pub(super) fn leave_nothing(pid: u32) {
    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        let _gone_already = fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

fn library() -> PathBuf {
    // Of each architecture a folder.
    let folders = fs::read_dir("/usr/lib").expect("there are libraries").filter_map(Result::ok);
    let found = folders.map(|folder| folder.path().join(LIBRARY)).find(|library| library.is_file());
    found.expect("libfaketime is there; tests/run installs it (Debian: faketime)")
}
