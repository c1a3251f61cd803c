//! What stops a start: keys that aren't those of the book, a durability that the store doesn't reach.

use std::path::Path;
use std::process::{Command, Output};

/// `check --audit` opens the stores as `up` does, and ends.
fn opened(folder: &Path, config: &str) -> Output {
    std::fs::write(folder.join("curfew.toml"), config).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_curfew"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CURFEW_")) {
        command.env_remove(name);
    }
    command.current_dir(folder).args(["check", "--audit", "--config", "curfew.toml", "--data", "data"]).output().expect("it runs")
}

fn says(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A data folder restored without its keys began quietly with new ones: every letter in it stayed shut, and no suppression was found again.
#[test]
fn a_book_whose_keys_are_lost_is_not_begun_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(opened(folder.path(), "").status.code(), Some(0));
    let keys = folder.path().join("data/keys.toml");
    let kept = std::fs::read(&keys).expect("made at the first start");
    std::fs::remove_file(&keys).expect("removed");
    let lost = opened(folder.path(), "");
    assert_eq!(lost.status.code(), Some(2), "{}", says(&lost));
    assert!(says(&lost).contains("keys.toml: is missing") && !keys.exists(), "{}", says(&lost));
    let others = Command::new(env!("CARGO_BIN_EXE_curfew")).args(["keys", "new"]).output().expect("it runs").stdout;
    std::fs::write(&keys, others).expect("written");
    let wrong = opened(folder.path(), "");
    assert_eq!(wrong.status.code(), Some(2), "{}", says(&wrong));
    assert!(says(&wrong).contains("begun with another key") && says(&wrong).lines().count() == 1, "{}", says(&wrong));
    std::fs::write(&keys, kept).expect("written");
    assert_eq!(opened(folder.path(), "").status.code(), Some(0), "the keys of the first start are back");
}

#[test]
fn a_durability_that_sqlite_does_not_reach_stops_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = opened(folder.path(), "[ledger]\nrequire = \"replicated\"\n");
    assert_eq!(refused.status.code(), Some(2), "{}", says(&refused));
    assert!(says(&refused).contains("[ledger] require = \"replicated\"") && says(&refused).contains("allowed"), "{}", says(&refused));
    assert_eq!(opened(folder.path(), "[ledger]\nrequire = \"fsync\"\n").status.code(), Some(0));
}
