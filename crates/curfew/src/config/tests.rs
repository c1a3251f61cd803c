//! K1 to K3: precedence, faults, secrets.

use std::path::PathBuf;
use std::time::Duration;

use curfew_domain::Reason;
use curfew_domain::policy::{AtDeadline, Backoff, Jitter};

use super::*;

fn sources(file: &str, variables: &[(&str, &str)]) -> (tempfile::TempDir, Sources) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("curfew.toml");
    std::fs::write(&path, file).expect("written");
    let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    (dir, Sources { file: Some(path), variables, ..Sources::default() })
}

fn load(file: &str, variables: &[(&str, &str)]) -> Config {
    let (_dir, sources) = sources(file, variables);
    Config::load(&sources, Deployment::Embedded).unwrap_or_else(|e| panic!("{e}"))
}

fn faults(file: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let (dir, sources) = sources(file, variables);
    let folder = format!("{}/", dir.path().display());
    let faults = Config::load(&sources, Deployment::Embedded).expect_err("has faults");
    faults.to_string().lines().map(|l| l.replace(&folder, "")).collect()
}

#[test]
fn without_a_word_the_defaults_are_the_contracts() {
    let config = Config::load(&Sources::default(), Deployment::Embedded).expect("defaults are right");
    assert_eq!(config.book, Book::Sqlite { file: PathBuf::from("curfew-data/curfew.db"), data: PathBuf::from("curfew-data") });
    assert_eq!((config.ledger.url.clone(), config.ledger.shards, config.ledger.max_live_bytes), (LedgerUrl::Sqlite, 16, 512 << 20));
    assert_eq!((config.http.listen.to_string(), config.metrics.listen.to_string()), ("127.0.0.1:7420".into(), "127.0.0.1:9464".into()));
    assert_eq!((config.scheduler.tick, config.scheduler.horizon), (Duration::from_millis(100), Duration::from_secs(32)));
    assert_eq!((config.worker.concurrency, config.worker.lease), (64, Duration::from_secs(60)));
    let policy = &config.policies["default"];
    assert_eq!(policy.backoff, Backoff::Delays(vec![Duration::from_secs(300), Duration::from_secs(600)]));
    assert_eq!((policy.jitter, &policy.at_deadline), (Jitter { lo_ms: 0, hi_ms: 30_000, percent: None }, &AtDeadline::Review));
    assert_eq!(config.transports["default"].kind, TransportKind::Capture);
    assert_eq!(config.review.owners[&Reason::RetryBudgetExhausted], "platform");
    assert!(config.keys.is_none() && config.operators.is_empty());
}

#[test]
fn flags_rule_over_variables_and_variables_over_the_file() {
    let (_dir, mut sources) = sources("[http]\nlisten = \"127.0.0.1:1\"\n[worker]\nconcurrency = 2\n[scheduler]\ntick = \"50ms\"\n", &[]);
    sources.variables = vec![("CURFEW_HTTP__LISTEN".into(), "127.0.0.1:2".into()), ("CURFEW_WORKER__CONCURRENCY".into(), "3".into())];
    sources.variables.push(("CURFEW_API".into(), "not a key".into()));
    sources.flags = vec![("--http", "http.listen", "127.0.0.1:3".into())];
    let config = Config::load(&sources, Deployment::Embedded).expect("right");
    assert_eq!((config.http.listen.port(), config.worker.concurrency, config.scheduler.tick.as_millis()), (3, 3, 50));
    let origin = |key| config.shown.iter().find(|s| s.key == key).map(|s| s.origin.to_string()).expect("shown");
    assert_eq!(origin("http.listen"), "flag --http");
    assert_eq!(origin("worker.concurrency"), "variable CURFEW_WORKER__CONCURRENCY");
    assert!(origin("scheduler.tick").ends_with("curfew.toml:6"), "{}", origin("scheduler.tick"));
    assert_eq!(origin("worker.lease"), "default");
}

#[test]
fn a_variable_reaches_names_that_variables_cant_spell() {
    let config =
        load("[transports.ses-eu]\nkind = \"smtp\"\n", &[("CURFEW_TRANSPORTS__SES_EU__RATE", "90/m"), ("CURFEW_POLICIES__QUICK__DELAYS", "1s,2s")]);
    assert_eq!(config.transports["ses-eu"].rate.map(|r| r.to_string()).as_deref(), Some("90/m"));
    assert_eq!(config.policies["quick"].retries(), 2);
}

#[test]
fn every_fault_is_one_line_with_file_key_value_and_what_is_allowed() {
    let found = faults(
        "[scheduler]\nhorizon = \"30s\"\n[worker]\nlease = \"5s\"\nconcurency = 8\n[ledger]\nshards = 65\n[transports.default]\nkind = \"pigeon\"\n\
         timeouts = { end = \"30s\" }\nhello = \"a b\"\n[review.owners]\nsad = \"x\"\n",
        &[("CURFEW_SCHEDULER__TICK", "soon"), ("CURFEW_NOTHING__AT_ALL", "1")],
    );
    let expected = [
        "curfew.toml:5: worker.concurency: unknown key; did you mean worker.concurrency?",
        "variable CURFEW_NOTHING__AT_ALL: nothing.at_all: unknown key",
        "curfew.toml:7: ledger.shards = 65: allowed: a whole number from 1 to 64",
        "variable CURFEW_SCHEDULER__TICK: scheduler.tick = \"soon\": allowed: a duration from 10ms to 5s, as a whole number with ms, s, m, h, d or y",
        "curfew.toml:2: scheduler.horizon = \"30s\": allowed: 1s, 2s, 4s, 8s, 16s, 32s or 64s",
        "curfew.toml:4: worker.lease = \"5s\": allowed: a duration from 10s to 15m, as a whole number with ms, s, m, h, d or y",
        "curfew.toml:9: transports.default.kind = \"pigeon\": allowed: \"smtp\", \"capture\"",
        "curfew.toml:11: transports.default.hello = \"a b\": allowed: a host name, or an address literal such as \"[192.0.2.1]\"",
        "curfew.toml:10: transports.default.timeouts.end = \"30s\": allowed: a duration from 1m to 1h, as a whole number with ms, s, m, h, d or y",
        "curfew.toml:13: review.owners.sad = \"x\": is no reason; allowed: the reasons of a dead letter, for instance permanent_failure",
    ];
    assert_eq!(found, expected);
}

/// Found by fuzzing: a quoted key with a line break made two lines of a fault, and an escape sequence reached the terminal.
#[test]
fn a_fault_is_one_line_whatever_a_quoted_key_holds() {
    assert_eq!(
        faults("\"a\\nb\" = 1\n[\"x\\u001b[31m\"]\ny = 1\n", &[]),
        ["curfew.toml:1: a\\nb: unknown key", "curfew.toml:2: x\\u{1b}[31m: unknown key"]
    );
}

/// Incident 6: a client that gave up after 30 s sent again what the server had accepted after 40.
#[test]
fn nobody_configures_a_short_wait_after_the_end_marker() {
    let found = faults("[transports.default.timeouts]\nend = \"59s\"\n", &[]);
    assert!(found[0].starts_with("curfew.toml:2: transports.default.timeouts.end = \"59s\": allowed: a duration from 1m"), "{found:?}");
    assert_eq!(found.len(), 1);
}

#[test]
fn a_file_that_is_no_toml_is_named_with_its_line() {
    let found = faults("[http]\nlisten = \n", &[]);
    assert!(found[0].starts_with("curfew.toml:2: is not TOML: "), "{found:?}");
    let missing = Sources { file: Some(PathBuf::from("/nonexistent/curfew.toml")), ..Sources::default() };
    let says = Config::load(&missing, Deployment::Embedded).expect_err("missing").to_string();
    assert!(says.starts_with("/nonexistent/curfew.toml: the configuration can't be read"), "{says}");
}

#[test]
fn secrets_are_shown_nowhere() {
    let hash = token_hash("curfew_x");
    let file = format!(
        "[keys]\ncurrent = \"k1\"\nk1 = \"{0}\"\nreference = \"{0}\"\n[operators.alice]\ntoken_hash = \"{hash}\"\n[transports.default]\nuser = \"u\"\n",
        "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    );
    let config = load(&file, &[("CURFEW_TRANSPORTS__DEFAULT__PASSWORD", "hunter2")]);
    let said = format!("{config:?}");
    for secret in ["hunter2", hash.as_str(), "MDEyMzQ1"] {
        assert!(!said.contains(secret), "{secret}");
    }
    assert!(config.operators["alice"].has_token("curfew_x") && !config.operators["alice"].has_token("curfew_y"));
    let wrong = faults("[operators.bob]\ntoken_hash = \"abc123\"\n[book]\nurl = \"postgres://u:sesame@h/db\"\n", &[]);
    assert!(!wrong.join(" ").contains("abc123") && !wrong.join(" ").contains("sesame"), "{wrong:?}");
}

#[test]
fn up_refuses_a_servers_url_and_another_file_than_its_data() {
    let found = faults("[ledger]\nurl = \"redis://127.0.0.1:6379/0\"\n", &[]);
    assert!(found[0].contains("names a server") && found[0].contains("curfew run"), "{found:?}");
    let (_dir, mut sources) = sources("[book]\nurl = \"sqlite:elsewhere/curfew.db\"\n", &[]);
    assert!(Config::load(&sources, Deployment::Embedded).is_ok(), "its folder is the data folder then");
    sources.data = Some(PathBuf::from("here"));
    assert!(Config::load(&sources, Deployment::Embedded).expect_err("two files").to_string().contains("another file than --data"));
    sources.data = Some(PathBuf::from("./elsewhere"));
    assert!(Config::load(&sources, Deployment::Embedded).is_ok());
}

#[test]
fn a_fleet_names_its_services_and_keys() {
    let says = Config::load(&Sources::default(), Deployment::Fleet).expect_err("nothing named").to_string();
    for key in ["book.url", "ledger.url", "broker.url", "keys"] {
        assert!(says.lines().any(|l| l.starts_with(&format!("{key}: is missing"))), "{says}");
    }
}

#[test]
fn the_api_is_not_opened_to_the_world_without_operators() {
    let found = faults("[http]\nlisten = \"0.0.0.0:7420\"\n", &[]);
    assert!(found[0].contains("loopback only"), "{found:?}");
    let hash = token_hash("t");
    load(&format!("[http]\nlisten = \"0.0.0.0:7420\"\n[operators.a]\ntoken_hash = \"{hash}\"\n"), &[]);
}

#[test]
fn a_policys_version_follows_its_values() {
    let version = |file: &str| load(file, &[]).policies["p"].version;
    let one = version("[policies.p]\ndelays = [\"1m\"]\n");
    assert_eq!(one, version("[policies.p]\ndelays = [\"60s\"]\n"));
    assert_ne!(one, version("[policies.p]\ndelays = [\"2m\"]\n"));
    let both = faults("[policies.p]\ndelays = [\"1m\"]\nbase = \"30s\"\n", &[]);
    assert!(both[0].contains("not both"), "{both:?}");
}

#[test]
fn embedded_keys_are_made_once_and_are_nobody_elses() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a folder");
    let first = load_or_create_keys(dir.path()).expect("made");
    let sealed = first.seal([1; 24], b"job", b"text");
    let again = load_or_create_keys(dir.path()).expect("read");
    assert!(again.open(b"job", &sealed).is_ok());
    let mode = std::fs::metadata(dir.path().join(KEYS_FILE)).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 1, "nothing left beside");
    std::fs::write(dir.path().join(KEYS_FILE), "[keys]\ncurrent = \"k1\"\n").expect("written");
    assert!(load_or_create_keys(dir.path()).is_err());
}

#[test]
fn a_secrets_file_is_read_and_its_line_feed_doesnt_count() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("password");
    std::fs::write(&path, "sesame\n").expect("written");
    let file = format!("[transports.default]\nuser = \"u\"\npassword_file = {path:?}\n");
    let config = load(&file, &[]);
    let TransportKind::Smtp(smtp) = &config.transports["default"].kind else { panic!("smtp is the kind of a table without one") };
    assert_eq!(smtp.password.as_ref().map(Secret::expose), Some("sesame"));
    let gone = faults("[transports.default]\nuser = \"u\"\npassword_file = \"/nonexistent\"\n", &[]);
    assert!(gone[0].contains("the file can't be read"), "{gone:?}");
}

#[test]
fn a_path_in_the_file_starts_at_the_files_folder() {
    let (dir, sources) = sources("[templates]\ndir = \"letters\"\n[transports.default]\nuser = \"u\"\npassword_file = \"secret\"\n", &[]);
    assert!(Config::load(&sources, Deployment::Embedded).is_err(), "neither is there yet");
    std::fs::create_dir(dir.path().join("letters")).expect("made");
    std::fs::write(dir.path().join("secret"), "sesame").expect("written");
    assert!(Config::load(&sources, Deployment::Embedded).is_ok());
}

#[test]
fn a_list_in_a_variable_is_written_with_commas_or_as_in_the_file() {
    for written in ["1s,2s", " 1s , 2s ", r#"["1s", "2s"]"#, "['1s','2s']"] {
        let config = load("", &[("CURFEW_POLICIES__DEFAULT__DELAYS", written)]);
        assert_eq!(config.policies["default"].backoff, Backoff::Delays(vec![Duration::from_secs(1), Duration::from_secs(2)]), "{written}");
    }
    assert_eq!(load("", &[("CURFEW_HTTP__LISTEN", "[::1]:7420")]).http.listen.to_string(), "[::1]:7420");
}
