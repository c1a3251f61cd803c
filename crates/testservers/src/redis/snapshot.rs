//! A copy of a server's log of writes, of one moment: put back in its place, the server has lost whatever came after.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::Redis;

/// Where Redis keeps its log of writes.
const APPENDED: &str = "appendonlydir";

/// What a server held.
pub struct Snapshot(TempDir);

impl Redis {
    /// Its log of writes as it stands; the server is frozen while it is copied.
    ///
    /// # Panics
    /// Where it keeps none.
    pub fn snapshot(&self) -> Snapshot {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        self.signal("STOP");
        copy(&self.folder().join(APPENDED), &folder.path().join(APPENDED));
        self.signal("CONT");
        Snapshot(folder)
    }

    /// In place of what it has; it must be down.
    ///
    /// # Panics
    /// Where it kept no log.
    pub fn put_back(&self, snapshot: &Snapshot) {
        let log = self.folder().join(APPENDED);
        fs::remove_dir_all(&log).expect("it kept a log");
        copy(&snapshot.0.path().join(APPENDED), &log);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("nothing is there");
    for file in fs::read_dir(from).expect("the folder can be read").map(|file| file.expect("a file")) {
        fs::copy(file.path(), to.join(file.file_name())).expect("it can be copied");
    }
}

#[cfg(test)]
mod tests {
    use crate::redis::{Options, Redis, Resp};

    #[tokio::test]
    async fn what_came_after_a_snapshot_is_lost_with_it() {
        let mut server = Redis::start(Options::default()).await;
        server.ask(&["SET", "a", "1"]).await;
        let snapshot = server.snapshot();
        server.ask(&["SET", "a", "2"]).await;
        server.kill9();
        server.put_back(&snapshot);
        server.restart().await;
        assert_eq!(server.ask(&["GET", "a"]).await, Resp::Bulk(Some(b"1".to_vec())));
    }
}
