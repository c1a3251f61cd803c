//! The deployment files, without a container: what a machine can hold of them before anything starts.
//!
//! Promises
//! - D1  Every configuration in them is one that the binary takes, with the secrets that `make-secrets` makes.
//! - D2  Every command names roles that exist, and every process is given more time to end than a drain takes.
//! - D3  Nothing is reachable but what is said to be, nobody runs as root, and no secret is in the tree.
//! - D4  The stores are started as the promises need them.
//!
//! Not promised: that the stack runs. The files are read as lines and bracketed lists, for no YAML reader is among the dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use curfew_tests::process::binary;
use tempfile::TempDir;
use toml::{Table, Value};

/// What a supervisor grants beyond a drain and its open requests: acks, farewells, a busy machine.
const HANG_UP: Duration = Duration::from_secs(10);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every file under a folder of the tree, with its path from the root; what git ignores is left out.
fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).expect("the folder is there") {
        let entry = entry.expect("a folder can be read");
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true if path.starts_with("deploy/compose/secrets") => {}
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

fn said(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout)
}

/// What `make-secrets` makes, by name, in a folder that goes with the test.
fn secrets() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let secrets = folder.path().join("secrets");
    let ran = make_secrets(&secrets);
    assert!(ran.status.success(), "{}", said(&ran));
    (folder, secrets)
}

fn make_secrets(into: &Path) -> Output {
    let script = root().join("deploy/compose/make-secrets");
    Command::new("bash").arg(script).arg(binary()).env("CURFEW_SECRETS", into).output().expect("bash runs")
}

/// Lists in brackets that follow a word, one line each: `command: ["run", "worker"]`.
fn lists(text: &str, word: &str) -> Vec<Vec<String>> {
    let after = text.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix(word));
    after.filter_map(|list| serde_json::from_str(list.trim()).ok()).collect()
}

/// Values that follow a word, comments left out.
fn values<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let after = text.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix(word));
    after.map(|value| value.split(" #").next().unwrap_or_default().trim()).collect()
}

/// The part of `docker-compose.yml` that is a service's own.
fn service(compose: &str, name: &str) -> String {
    let lines = compose.lines().skip_while(|line| *line != format!("  {name}:")).skip(1);
    lines.take_while(|line| line.is_empty() || line.starts_with("    ")).map(|line| format!("{line}\n")).collect()
}

/// The keys of a configuration that name a file, as variables, each with the file's name.
fn file_keys(table: &Table, above: &str, found: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let variable = format!("{above}__{}", key.to_ascii_uppercase());
        match value {
            Value::Table(inner) => file_keys(inner, &variable, found),
            Value::String(path) if key.ends_with("_file") => {
                found.push((variable.replacen("__", "", 1), path.rsplit('/').next().unwrap_or_default().to_owned()));
            }
            Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) => {}
        }
    }
}

/// The name under which `make-secrets` has what Kubernetes and systemd call otherwise.
fn made_as(name: &str) -> String {
    if ["k1", "reference"].contains(&name) { format!("curfew_{name}") } else { name.to_owned() }
}

fn show(configuration: &str, variables: &BTreeMap<String, PathBuf>) -> Output {
    let mut command = Command::new(binary());
    command.args(["config", "show", "--json", "--config"]).arg(root().join(configuration)).env_clear();
    command.envs(variables.iter().map(|(key, file)| (format!("CURFEW_{key}"), file))).output().expect("the binary runs")
}

/// The files that a configuration takes its secrets from: its own `_file` keys, and those that the systemd unit gives as variables.
fn secret_files(configuration: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    file_keys(&read(configuration).parse().expect("a configuration is TOML"), "", &mut found);
    if configuration.starts_with("deploy/systemd/") {
        let unit = read("deploy/systemd/curfew-run@.service");
        let given = values(&unit, "Environment=CURFEW_").into_iter().filter_map(|pair| pair.split_once("=%d/"));
        found.extend(given.map(|(key, file)| (key.to_owned(), file.to_owned())));
    }
    found
}

#[test]
fn every_configuration_is_one_that_the_binary_takes() {
    let (_folder, secrets) = secrets();
    let configurations: Vec<String> = files("deploy").into_iter().filter(|path| path.ends_with("/curfew.toml")).collect();
    assert!(configurations.len() >= 4, "{configurations:?}");
    for configuration in configurations {
        let named = secret_files(&configuration);
        let fleet = !configuration.starts_with("deploy/examples/");
        assert_eq!(named.len(), if fleet { 6 } else { 0 }, "{configuration}: {named:?}");
        let variables = named.into_iter().map(|(key, name)| (key, secrets.join(made_as(&name)))).collect();
        let ran = show(&configuration, &variables);
        assert!(ran.status.success(), "{configuration}: {}", said(&ran));
        for secret in ["postgres_password", "curfew_k1", "curfew_reference", "ops_token_hash"] {
            let secret = fs::read_to_string(secrets.join(secret)).expect("it was made");
            assert!(!said(&ran).contains(secret.trim()), "{configuration}: a secret is shown");
        }
    }
}

#[test]
fn the_secrets_that_are_made_are_those_that_are_mounted_and_are_never_made_twice() {
    let (_folder, secrets) = secrets();
    let made: BTreeSet<String> =
        fs::read_dir(&secrets).expect("they were made").map(|e| e.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    let compose = read("docker-compose.yml");
    let declared = compose.lines().filter_map(|line| line.split_once("{ file: ./deploy/compose/secrets/"));
    let mut mounted: BTreeSet<String> = declared.map(|(_, file)| file.trim_end_matches(" }").to_owned()).collect();
    mounted.insert("ops_token".to_owned()); // the operator's own: no container needs it
    assert_eq!(made, mounted);
    for (_, name) in secret_files("deploy/compose/curfew.toml") {
        assert!(mounted.contains(&name), "{name} is not mounted");
    }
    let kustomization = read("deploy/kubernetes/kustomization.yaml");
    for (_, name) in secret_files("deploy/kubernetes/curfew.toml") {
        assert!(kustomization.contains(&format!("--from-file={name}")), "{name} is not among those to make");
    }
    let key = fs::read(secrets.join("curfew_k1")).expect("it was made");
    let again = make_secrets(&secrets);
    assert_eq!(again.status.code(), Some(1), "{}", said(&again));
    assert_eq!(fs::read(secrets.join("curfew_k1")).expect("it is there still"), key);
}

#[test]
fn every_command_names_roles_that_exist() {
    let mut commands: Vec<Vec<String>> = lists(&read("docker-compose.yml"), "command:");
    commands.retain(|command| command.first().is_some_and(|word| word == "run"));
    assert_eq!(commands.len(), 4, "{commands:?}");
    for role in ["scheduler", "worker", "deadletter", "api"] {
        let args = lists(&read(&format!("deploy/kubernetes/{role}.yaml")), "args:");
        assert_eq!(args.len(), 1, "{role}");
        assert_eq!(args[0][1], role);
        commands.extend(args);
        for (unit, instance) in [("curfew-run@", role), ("curfew", "")] {
            let unit = read(&format!("deploy/systemd/{unit}.service"));
            let line = values(&unit, "ExecStart=/usr/local/bin/curfew ").concat().replace("%i", instance);
            commands.push(line.split(' ').map(str::to_owned).collect());
        }
    }
    for command in commands {
        let nowhere = command.iter().map(|word| if word.ends_with(".toml") { "/nowhere/curfew.toml" } else { word });
        let ran = Command::new(binary()).args(nowhere).env_clear().output().expect("the binary runs");
        // It understood the command: what it misses is the configuration.
        assert!(ran.status.code() == Some(2) && said(&ran).contains("the configuration can't be read"), "{command:?}: {}", said(&ran));
    }
}

#[test]
fn a_drain_ends_before_a_supervisor_loses_patience() {
    let up = read("crates/curfew/src/up.rs");
    let constant = |name: &str| {
        let value = values(&up, &format!("const {name}: Duration = Duration::from_secs(")).concat();
        Duration::from_secs(value.trim_end_matches(");").parse().unwrap_or_else(|e| panic!("{name} = {value}: {e}")))
    };
    let needed = constant("DRAIN") + constant("HTTP_DRAIN") + HANG_UP;
    let compose = read("docker-compose.yml");
    let shared: String = compose.lines().take_while(|line| *line != "services:").map(|line| format!("{line}\n")).collect();
    let mut granted = vec![("docker-compose.yml".to_owned(), values(&shared, "stop_grace_period:").concat())];
    for role in ["scheduler", "worker", "deadletter", "api"] {
        let path = format!("deploy/kubernetes/{role}.yaml");
        granted.push((path.clone(), values(&read(&path), "terminationGracePeriodSeconds:").concat()));
        assert!(!service(&compose, role).contains("stop_grace_period"), "{role} has the shared one");
    }
    for path in ["deploy/systemd/curfew.service", "deploy/systemd/curfew-run@.service"] {
        granted.push((path.to_owned(), values(&read(path), "TimeoutStopSec=").concat()));
    }
    for (path, seconds) in granted {
        let seconds = seconds.trim_end_matches('s').parse().unwrap_or_else(|e| panic!("{path}: {seconds}: {e}"));
        assert!(Duration::from_secs(seconds) >= needed, "{path} grants {seconds} s, a drain and its end take {needed:?}");
    }
    assert!(read("deploy/Dockerfile").contains("\nSTOPSIGNAL SIGTERM\n"));
}

#[test]
fn the_compose_file_publishes_the_api_and_prometheus_on_loopback_and_can_be_scaled() {
    let compose = read("docker-compose.yml");
    let ports: Vec<String> = lists(&compose, "ports:").concat();
    assert_eq!(ports, ["127.0.0.1:7420:7420", "127.0.0.1:9090:9090"]);
    for word in ["container_name:", "network_mode:", "privileged:"] {
        assert_eq!(values(&compose, word), [""; 0], "{word}");
    }
    assert_eq!(values(&service(&compose, "worker"), "scale:"), ["3"]);
    for name in ["postgres", "redis", "rabbitmq", "mail", "prometheus"] {
        let own = service(&compose, name);
        for word in ["image:", "command:", "healthcheck:", "volumes:"] {
            assert!(own.contains(word), "{name} has no {word}");
        }
    }
    let mounted = compose.lines().filter_map(|line| line.trim().strip_prefix("- ./")?.split(':').next());
    let missing: Vec<&str> = mounted.filter(|path| !root().join(path).exists()).collect();
    assert_eq!(missing, [""; 0], "mounted, and not in the tree");
}

#[test]
fn the_stores_keep_what_they_answered() {
    let redis = read("deploy/redis/redis.conf");
    for line in ["appendonly yes", "appendfsync always", "maxmemory-policy noeviction", "no-appendfsync-on-rewrite no"] {
        assert!(redis.lines().any(|l| l == line), "{line}");
    }
    let compose = read("docker-compose.yml");
    assert!(service(&compose, "redis").contains("./deploy/redis/redis.conf:/etc/redis/redis.conf:ro"));
    let postgres = read("deploy/compose/start-postgres");
    for setting in ["fsync=on", "synchronous_commit=on", "full_page_writes=on"] {
        assert!(postgres.contains(setting), "{setting}");
    }
    let consumer_timeout = values(&read("deploy/rabbitmq/rabbitmq.conf"), "consumer_timeout = ").concat();
    // The longest attempt with the default timeouts, and one lease (deploy/rabbitmq/README.md).
    assert!(consumer_timeout.parse::<u64>().expect("milliseconds") >= 36 * 60_000, "{consumer_timeout}");
}

#[test]
fn the_kubernetes_files_are_whole_and_nobody_runs_as_root() {
    let kustomization = read("deploy/kubernetes/kustomization.yaml");
    for path in files("deploy/kubernetes") {
        let name = path.rsplit('/').next().expect("a path has a name");
        let named = kustomization.contains(&format!("  - {name}\n")) || kustomization.contains(&format!("files: [{name}]"));
        assert!(named || name == "kustomization.yaml", "{name} is not in kustomization.yaml");
        assert!(!read(&path).contains("\nkind: Secret\n"), "{name} has a Secret");
    }
    let (budgets, policies) = (read("deploy/kubernetes/disruption-budgets.yaml"), read("deploy/kubernetes/network-policies.yaml"));
    assert!(policies.contains("policyTypes: [Ingress, Egress]"), "what isn't named is denied");
    for role in ["scheduler", "worker", "deadletter", "api"] {
        let deployment = read(&format!("deploy/kubernetes/{role}.yaml"));
        for line in [
            "runAsNonRoot: true",
            "readOnlyRootFilesystem: true",
            "allowPrivilegeEscalation: false",
            "automountServiceAccountToken: false",
            "capabilities: { drop: [ALL] }",
            "path: /healthz",
            "path: /readyz",
        ] {
            assert!(deployment.contains(line), "{role}: {line}");
        }
        assert!(budgets.contains(&format!("  name: curfew-{role}\n")), "{role} has no disruption budget");
    }
    let user = values(&read("deploy/Dockerfile"), "USER ").concat();
    assert_eq!(user, "10001:10001");
    assert!(read("deploy/kubernetes/worker.yaml").contains("runAsUser: 10001"));
    let autoscaler = read("deploy/kubernetes/worker-autoscaler.yaml");
    let metric = autoscaler.lines().find_map(|line| line.trim().strip_prefix("metric: { name: ")).expect("it has a metric");
    let catalogue = read("crates/telemetry/src/metrics/catalogue.rs");
    assert!(catalogue.contains(&format!("{:?}", metric.trim_end_matches(" }"))), "{metric} is not in the catalogue");
}

#[test]
fn no_secret_is_in_the_tree() {
    for path in files("deploy").into_iter().chain(["docker-compose.yml".to_owned(), ".dockerignore".to_owned()]) {
        let bytes = fs::read(root().join(&path)).expect("a file of the tree");
        let text = String::from_utf8_lossy(&bytes);
        for line in text.lines() {
            assert!(!looks_secret(line), "{path}: {}…", line.chars().take(40).collect::<String>());
        }
    }
    assert!(read(".gitignore").lines().any(|line| line == "deploy/compose/secrets*/"));
    // What isn't let in by name stays out of the image, secrets and data folders first.
    let ignored = read(".dockerignore");
    assert_eq!(ignored.lines().find(|line| !line.starts_with('#')), Some("*"));
    assert!(!ignored.lines().any(|line| line.starts_with("!deploy")));
}

/// An operator's token, a sealing key in base64, or a URL that holds a password.
fn looks_secret(line: &str) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let words = || line.split(|c: char| !(is_base64(c) || c == '_' || c == '-'));
    let token = words().any(|w| w.strip_prefix("curfew_").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit())));
    let key = line.split(|c| !is_base64(c)).any(|w| w.len() == 44 && w.ends_with('='));
    let password = line.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', ' ', '"']).next().unwrap_or_default();
        authority.split_once('@').and_then(|(user, _)| user.split_once(':')).is_some_and(|(_, password)| !password.starts_with(['$', '…']))
    });
    token || key || password
}

#[test]
fn what_is_secret_is_recognised() {
    let token = format!("curfew_{}", "0123456789abcdef".repeat(4));
    let key = format!("{}=", "A".repeat(43));
    for secret in [token, format!("k1 = \"{key}\""), "url = \"amqp://guest:guest@127.0.0.1:5672/\"".to_owned()] {
        assert!(looks_secret(&secret), "{secret}");
    }
    for plain in ["url = \"postgres://curfew@db.example.com/curfew\"", "postgres://curfew:$postgres@postgres:5432/curfew", "curfew_review_open"] {
        assert!(!looks_secret(plain), "{plain}");
    }
}
