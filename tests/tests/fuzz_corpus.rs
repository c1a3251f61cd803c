//! What was fuzzed stays held: each committed input of `fuzz/corpus/` goes through the function that the fuzzer calls, on stable.
//!
//! `tests/run fuzz` looks for more.

#[path = "../fuzz/src/lib.rs"]
mod fuzzed;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A corpus is read by people and by every run of the tests.
const FILES_MAX: usize = 60;
const BYTES_MAX: u64 = 100 * 1024;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8")).collect()
}

#[test]
fn every_input_of_the_corpora_keeps_its_promises() {
    for (target, hold) in fuzzed::TARGETS {
        let folder = fuzz().join("corpus").join(target);
        for name in names(&folder) {
            let bytes = fs::read(folder.join(&name)).expect("an input can be read");
            let held = std::panic::catch_unwind(|| hold(&bytes));
            assert!(held.is_ok(), "{target}: {name}");
        }
    }
}

#[test]
fn every_target_has_its_seeds_and_its_place() {
    let targets: BTreeSet<String> = fuzzed::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz().join("corpus")), targets);
    assert_eq!(names(&fuzz().join("fuzz_targets")), targets.iter().map(|name| format!("{name}.rs")).collect());
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("a manifest");
    for target in &targets {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target} isn't built");
    }
}

#[test]
fn a_corpus_stays_small() {
    for (target, _) in fuzzed::TARGETS {
        let folder = fuzz().join("corpus").join(target);
        let files = names(&folder);
        let bytes: u64 = files.iter().map(|name| fs::metadata(folder.join(name)).expect("an input").len()).sum();
        assert!((1..=FILES_MAX).contains(&files.len()) && bytes <= BYTES_MAX, "{target}: {} files, {bytes} bytes", files.len());
    }
}
