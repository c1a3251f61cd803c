//! The contract's surface, in short: exit codes, statuses, and what each says of itself. Deeper cases stand beside the parts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curfew_testkit::mail_server::scripts::{first_of, first_times_at, refuse_recipient};
use curfew_testkit::{Action, Config, MailServer, Stage};
use curfew_tests::http::part;
use curfew_tests::jobs::{in_time, job, key};
use curfew_tests::{Curfew, Settings, process, until};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

const HOUR: Duration = Duration::from_secs(3600);

fn later(subject: &str) -> Value {
    let mut later = job(subject, "later@example.com");
    later["release_at"] = in_time(3 * HOUR).into();
    later["deadline_at"] = in_time(4 * HOUR).into();
    later
}

fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("no id in {value:#}")).to_owned()
}

fn fields(answer: &Value) -> Vec<&str> {
    answer["errors"].as_array().map(|all| all.iter().filter_map(|e| e["field"].as_str()).collect()).unwrap_or_default()
}

#[test]
fn a_submitted_job_reads_as_the_contract_says() {
    let curfew = Curfew::start(Settings::capture());
    let accepted = curfew.submit(&later("R-1"));
    let names = "key id tenant purpose subject_ref business_date state release_at deadline_at next_attempt_at waiting_for attempts replays generation \
        last_outcome last_attempt_at reason diagnostic in_doubt content_revision transport policy recipient_ref recipient_masked receipt explanation \
        labels history";
    for job in [&accepted, &curfew.job(&key("R-1")), &curfew.all_jobs("")[0]] {
        for name in names.split_whitespace() {
            assert!(job.get(name).is_some(), "{name} is missing in {job:#}");
        }
    }
    assert_eq!((accepted["state"].as_str(), accepted["waiting_for"].as_str()), (Some("planned"), Some("release")), "{accepted:#}");
    let by_id = curfew.job(&id_of(&accepted));
    assert_eq!(by_id["key"], key("R-1"));
    let explained = curfew.cli(&["jobs", "explain", &key("R-1"), "--json"]).expect(0).json();
    assert!(explained["explanation"].as_str().unwrap_or_default().len() > 20, "{explained}");
    curfew.submit(&job("R-2", "now@example.com"));
    let sent = curfew.job_in(&key("R-2"), "sent");
    assert!(sent["receipt"]["at"].is_string() && sent["history"].as_array().is_some_and(|h| !h.is_empty()), "{sent:#}");
    let mails = std::fs::read_dir(curfew.data().join("mail")).expect("the captures are there");
    assert_eq!(mails.filter(|m| m.as_ref().is_ok_and(|m| m.path().extension().is_some_and(|e| e == "eml"))).count(), 1);
}

#[test]
fn the_same_job_is_a_duplicate_and_another_content_a_conflict_that_names_its_fields() {
    let curfew = Curfew::start(Settings::capture());
    let one = later("R-1");
    let first = curfew.submit(&one);
    let again = curfew.post("/v1/jobs", &one).expect(200);
    assert_eq!(again["id"], first["id"]);
    let mut other = one.clone();
    other["content"]["text"] = "Other figures.\n".into();
    other["to"]["address"] = "other@example.com".into();
    let conflict = curfew.post("/v1/jobs", &other).expect(409);
    assert!(fields(&conflict).iter().any(|f| f.starts_with("content")) && fields(&conflict).contains(&"to.address"), "{conflict:#}");
    let line = format!("{other}\n");
    let summary = curfew.cli_with(&["submit", "-"], line.as_bytes()).expect(1).json();
    assert_eq!((&summary["rejected"], &summary["errors"][0]["field"]), (&1.into(), &"key".into()), "{summary}");
}

#[test]
fn a_dry_run_writes_nothing_and_a_refusal_names_its_fields() {
    let curfew = Curfew::start(Settings::capture());
    let shown = curfew.post("/v1/jobs?dry_run=1", &later("R-1")).expect(200);
    assert_eq!(shown["key"], key("R-1"));
    assert_eq!(curfew.get(&format!("/v1/jobs/{}", part(&key("R-1")))).status, 404);
    let mut unknown = later("R-1");
    unknown["colour"] = "red".into();
    assert_eq!(fields(&curfew.post("/v1/jobs", &unknown).expect(422)), ["colour"]);
    let mut wrong = later("R-1");
    wrong["policy"] = "none-such".into();
    wrong["deadline_at"] = in_time(HOUR).into();
    wrong["to"]["address"] = "nobody".into();
    let refused = curfew.post("/v1/jobs", &wrong).expect(422);
    for field in ["policy", "deadline_at", "to.address"] {
        assert!(fields(&refused).contains(&field), "{field} isn't named: {refused:#}");
    }
    assert_eq!(curfew.day()["accepted"], 0);
}

#[test]
fn exit_codes_tell_what_happened() {
    let curfew = Curfew::start(Settings::capture());
    process::run(&["--help"], b"").expect(0);
    process::run(&["submit"], b"").expect(2);
    process::run(&["none-such"], b"").expect(2);
    let nobody = "http://127.0.0.1:9";
    process::run(&["--api", nobody, "fleet", "status"], b"").expect(69);
    curfew.cli(&["submit", "none-such.csv"]).expect(2);
    curfew.cli_with(&["submit", "-", "--format", "csv"], b"tenant,colour\nacme,red\n").expect(2);
    curfew.cli_with(&["submit", "-"], b"").expect(0);
    curfew.cli_with(&["submit", "-"], format!("{}\nno json\n", later("R-1")).as_bytes()).expect(1);
    curfew.cli(&["jobs", "show", &key("R-1")]).expect(0);
    curfew.cli(&["jobs", "show", &key("R-2")]).expect(1);
    curfew.cli(&["jobs", "cancel", &key("R-1")]).expect(2);
    curfew.cli(&["jobs", "cancel", &key("R-1"), "--reason", "a test"]).expect(0);
    curfew.cli(&["jobs", "move", &key("R-1"), "--release", "+5h", "--reason", "a test"]).expect(1);
    curfew.cli(&["review", "show", "00000000-0000-7000-8000-000000000000"]).expect(1);
    let bad = curfew.folder().join("bad.toml");
    std::fs::write(&bad, "[worker]\nconcurency = 3\n").expect("a file can be written");
    let refused = process::run(&["up", "--config", &bad.display().to_string()], b"").expect(2);
    for named in ["bad.toml", "worker.concurency", "worker.concurrency"] {
        assert!(refused.stderr.contains(named), "{named} isn't named: {}", refused.stderr);
    }
}

#[test]
fn verbs_move_cancel_and_suppress_a_job_and_the_trail_keeps_them() {
    let curfew = Curfew::start(Settings::capture());
    for subject in ["moved", "cancelled", "suppressed"] {
        curfew.submit(&later(subject));
    }
    curfew.cli(&["jobs", "cancel", &key("cancelled"), "--reason", "no longer wanted"]).expect(0);
    curfew.cli(&["jobs", "suppress", &key("suppressed"), "--reason", "asked us to"]).expect(0);
    curfew.cli(&["jobs", "move", &key("moved"), "--release", "+0s", "--reason", "ready early"]).expect(0);
    curfew.job_in(&key("moved"), "sent");
    assert_eq!(curfew.job_in(&key("cancelled"), "cancelled")["reason"], "operator");
    assert_eq!(curfew.job_in(&key("suppressed"), "suppressed")["reason"], "operator");
    let trail = curfew.cli(&["audit", "list", "--json"]).expect(0).lines();
    for action in ["cancel", "suppress", "move"] {
        assert!(trail.iter().any(|e| e["action"] == action && e["actor"] == "local"), "{action} isn't in {trail:#?}");
    }
    curfew.cli(&["audit", "verify"]).expect(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrected_item_is_replayed_and_resolves() {
    let server = MailServer::start(Config::scripted(refuse_recipient("gone@example.com", "550 5.1.1 No such user here"))).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    curfew.submit(&job("R-1", "gone@example.com"));
    let dead = curfew.job_in(&key("R-1"), "dead_letter");
    assert_eq!(dead["reason"], "permanent_failure", "{dead:#}");
    let item = id_of(&curfew.item_of(&key("R-1")));
    let names = "id job_id key tenant recipient_ref recipient_masked release_at deadline_at attempts last_outcome last_attempt_at reason diagnostic \
        owner due_at status number replay_of notes history";
    let shown = curfew.cli(&["review", "show", &item, "--json"]).expect(0).json();
    for name in names.split_whitespace() {
        assert!(shown.get(name).is_some(), "{name} is missing in {shown:#}");
    }
    curfew.cli(&["review", "correct", &item, "--to", "found@example.com", "--reason", "a new address"]).expect(0);
    curfew.cli(&["review", "replay", &item, "--deadline", "+1h", "--reason", "corrected", "--dry-run"]).expect(0);
    assert_eq!(curfew.job(&key("R-1"))["state"], "dead_letter", "a dry run changes nothing");
    curfew.cli(&["review", "replay", &item, "--deadline", "+1h", "--reason", "corrected"]).expect(0);
    let sent = curfew.job_in(&key("R-1"), "sent");
    assert_eq!((sent["generation"].as_u64(), sent["replays"].as_u64(), sent["content_revision"].as_u64()), (Some(2), Some(1), Some(2)), "{sent:#}");
    until("the resolved item", || (curfew.item_of(&key("R-1"))["status"] == "resolved").then_some(()));
    assert_eq!(server.accepted()[0].recipients[0].address, "found@example.com");
    curfew.cli(&["review", "replay", &item, "--deadline", "+1h", "--reason", "again"]).expect(1);
    assert_eq!(server.accepted_count(), 1);
}

fn signed(secret: &str, body: &str, at: u64) -> String {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret.as_bytes()).expect("HMAC takes any key");
    mac.update(format!("{at}.{body}").as_bytes());
    format!("t={at},v1={}", hex::encode(mac.finalize().into_bytes()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doubt_waits_for_a_person_or_for_a_signed_event() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenReset))).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()).text("transports.default.events_secret", "a secret of the provider"));
    let id = id_of(&curfew.submit(&job("R-1", "doubt@example.com")));
    let doubt = curfew.job_in(&id, "dead_letter");
    assert_eq!((doubt["reason"].as_str(), doubt["in_doubt"].as_bool()), (Some("reconciliation_required"), Some(true)), "{doubt:#}");
    let item = id_of(&curfew.item_of(&key("R-1")));
    curfew.cli(&["review", "replay", &item, "--deadline", "+1h", "--reason", "impatient"]).expect(1);
    curfew.cli(&["review", "replay", &item, "--deadline", "+1h", "--reason", "impatient", "--accept-duplicate-risk"]).expect(75);

    let body = json!({"events": [{"type": "accepted", "job_id": id, "at": in_time(Duration::ZERO), "detail": "250 queued"}, {"type": "accepted", "job_id": "none"}]}).to_string();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
    let send = |signature: &str| {
        curfew.http().post_bytes("/v1/provider-events/default", "application/json", &[("curfew-signature", signature)], body.as_bytes())
    };
    assert_eq!(send(&signed("another secret", &body, now)).status, 401);
    assert_eq!(send(&signed("a secret of the provider", &body, now - 3600)).status, 401);
    assert_eq!(curfew.job(&id)["state"], "dead_letter", "nothing changed");
    let taken = send(&signed("a secret of the provider", &body, now)).expect(200);
    assert_eq!((&taken["applied"], &taken["unknown"]), (&1.into(), &1.into()), "{taken}");
    curfew.job_in(&id, "sent");
    until("the resolved item", || (curfew.item_of(&key("R-1"))["status"] == "resolved").then_some(()));
    assert_eq!(server.accepted_count(), 1);
    curfew.cli(&["day", "2026-12-01"]).expect(0);
}

#[test]
fn an_operator_has_a_token_and_stands_in_the_trail() {
    let made = process::run(&["operators", "new", "alice", "--roles", "view,submit,review,fleet,privacy", "--json"], b"").expect(0).json();
    let token = made["token"].as_str().unwrap_or_else(|| panic!("no token in {made}"));
    let hash = made["token_hash"].as_str().map(str::to_owned).unwrap_or_else(|| hash_in(&made));
    let settings =
        Settings::capture().text("operators.alice.token_hash", &hash).set("operators.alice.roles", r#"["view", "submit", "review", "fleet"]"#);
    let curfew = Curfew::start(settings);
    assert_eq!(curfew.get("/v1/jobs").status, 401);
    assert_eq!(curfew.http().with_token("wrong").get("/v1/jobs").status, 401);
    let alice = curfew.http().with_token(token);
    alice.post("/v1/jobs", &later("R-1")).expect(201);
    curfew.cli(&["jobs", "cancel", &key("R-1"), "--reason", "a test"]).expect(1);
    curfew.cli_as(token, &["jobs", "cancel", &key("R-1"), "--reason", "a test"]).expect(0);
    let trail = alice.get("/v1/audit").expect(200);
    assert!(trail["items"].as_array().is_some_and(|all| all.iter().any(|e| e["action"] == "cancel" && e["actor"] == "alice")), "{trail:#}");
}

/// The hash in the configuration's lines that the verb prints.
fn hash_in(made: &Value) -> String {
    let text = made.to_string().replace("\\\"", "\"");
    let rest = text.split_once("token_hash = \"").unwrap_or_else(|| panic!("no token_hash in {text}")).1;
    rest.split('"').next().unwrap_or_default().to_owned()
}

#[test]
fn without_operators_only_this_machine_asks_and_under_its_own_name() {
    let curfew = Curfew::start(Settings::capture());
    assert_eq!(curfew.http().status_under_host("/v1/jobs", "127.0.0.1"), 200);
    assert_eq!(curfew.http().status_under_host("/v1/jobs", "rebound.example"), 403);
    let foreign = curfew.http().post_bytes("/v1/fleet/pause", "application/json", &[("origin", "http://stranger.example")], b"{\"reason\":\"x\"}");
    assert_eq!(foreign.status, 403, "{}", foreign.text);
    let wide = Curfew::prepare(Settings::capture().text("http.listen", "0.0.0.0:0"));
    std::fs::write(wide.folder().join("c.toml"), "[http]\nlisten = \"0.0.0.0:0\"\n").expect("a file can be written");
    process::run(&["up", "--config", &wide.folder().join("c.toml").display().to_string(), "--data", &wide.data().display().to_string()], b"")
        .expect(2);
}

#[test]
fn http_answers_problems_pages_probes_and_its_own_description() {
    let curfew = Curfew::start(Settings::capture());
    for n in 0..5 {
        curfew.submit(&later(&format!("R-{n}")));
    }
    let page = curfew.get("/v1/jobs?limit=2").expect(200);
    assert_eq!(page["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(page["items"][0]["key"], key("R-4"), "newest first");
    assert_eq!(curfew.all_jobs("").len(), 5);
    assert_eq!(curfew.cli(&["jobs", "list", "--json", "--limit", "3"]).expect(0).lines().len(), 3);
    assert_eq!(curfew.cli(&["jobs", "list", "--json", "--limit", "0"]).expect(0).lines().len(), 5);
    let missing = curfew.get("/v1/jobs/none").expect(404);
    assert_eq!(missing["status"], 404);
    assert!(missing["title"].is_string() && missing["type"].is_string(), "{missing}");
    assert_eq!(curfew.get("/v1/jobs?limit=501").status, 422);
    for path in ["/healthz", "/readyz", "/metrics", "/"] {
        assert_eq!(curfew.get(path).status, 200, "{path}");
    }
    let described = curfew.get("/openapi.json").expect(200);
    assert!(described["openapi"].as_str().is_some_and(|v| v.starts_with("3.1")), "{}", described["openapi"]);
    assert!(described["paths"]["/v1/jobs/{job}"].is_object() || described["paths"]["/v1/jobs/{id}"].is_object());
    let metrics = curfew.get("/metrics").text;
    for name in ["curfew_jobs_accepted_total", "curfew_scheduler_last_tick_timestamp_seconds", "curfew_durability_level"] {
        assert!(metrics.contains(name), "{name} is missing in {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_holds_and_a_suppression_ends_what_it_names() {
    let server = MailServer::start(Config::scripted(first_of(Vec::new()))).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    curfew.cli(&["suppressions", "add", "stop@example.com", "--reason", "asked us to"]).expect(0);
    assert_eq!(curfew.submit(&job("stopped", "stop@EXAMPLE.com"))["state"], "suppressed");
    curfew.cli(&["suppressions", "remove", "stop@example.com", "--reason", "asked us again"]).expect(0);
    curfew.cli(&["fleet", "pause", "--transport", "default", "--reason", "a test"]).expect(0);
    curfew.submit(&job("R-1", "r-1@example.com"));
    until("a job that waits for the pause", || (curfew.job(&key("R-1"))["waiting_for"] == "pause").then_some(()));
    let explained = curfew.cli(&["jobs", "explain", &key("R-1"), "--json"]).expect(0).json();
    assert!(explained["explanation"].as_str().unwrap_or_default().to_lowercase().contains("pause"), "{explained}");
    assert_eq!(server.accepted_count(), 0);
    curfew.cli(&["fleet", "resume", "--transport", "default", "--reason", "a test"]).expect(0);
    curfew.job_in(&key("R-1"), "sent");
    curfew.submit(&job("again", "stop@example.com"));
    curfew.job_in(&key("again"), "sent");
}

#[test]
fn local_verbs_need_no_server() {
    let mut curfew = Curfew::start(
        Settings::capture().text("transports.default.kind", "capture").text("transports.default.events_secret", "never-shown-anywhere"),
    );
    curfew.submit(&later("R-1"));
    let (config, data) = (curfew.folder().join("curfew.toml").display().to_string(), curfew.data().display().to_string());
    let copy = curfew.folder().join("copy.db").display().to_string();
    process::run(&["backup", &copy, "--config", &config, "--data", &data], b"").expect(0);
    assert!(std::path::Path::new(&copy).is_file(), "a backup is made while it runs");
    curfew.terminate();
    let shown = process::run(&["config", "show", "--config", &config], b"").expect(0);
    assert!(!shown.stdout.contains("never-shown-anywhere"), "{}", shown.stdout);
    assert!(shown.stdout.contains("events_secret"), "{}", shown.stdout);
    process::run(&["check", "--config", &config, "--data", &data], b"").expect(0);
    process::run(&["book", "migrate", "--check", "--config", &config, "--data", &data], b"").expect(0);
    let keys = process::run(&["keys", "new"], b"").expect(0).stdout;
    assert!(keys.contains("[keys]") && keys.contains("reference"), "{keys}");
    assert_ne!(keys, process::run(&["keys", "new"], b"").expect(0).stdout);
}

/// The rows of a file of `tests/cases`, each as an object of its columns.
fn cases(file: &str) -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(file);
    let mut reader = csv::Reader::from_path(path).expect("the cases can be read");
    let headers = reader.headers().expect("the cases have a header").clone();
    let row = |record: csv::StringRecord| headers.iter().zip(&record).map(|(name, cell)| (name.to_owned(), Value::from(cell))).collect();
    reader.records().map(|record| Value::Object(row(record.expect("a case can be read")))).collect()
}

/// One answer a case, in order.
fn tried(verb: &str, cases: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = cases.iter().map(Value::to_string).collect();
    let answers = process::run(&["try", verb], lines.join("\n").as_bytes()).expect(0).lines();
    assert_eq!(answers.len(), cases.len());
    answers
}

#[test]
fn try_reply_reads_every_case_as_it_should() {
    for file in ["smtp_cases.csv", "smtp_more.csv", "smtp_nonfailures.csv"] {
        let cases = cases(file);
        for (case, answer) in cases.iter().zip(tried("reply", &cases)) {
            let expected = if file == "smtp_nonfailures.csv" { &case["expected_handling"] } else { &case["expected_class"] };
            assert_eq!(&answer["class"], expected, "{case} is answered with {answer}");
            assert!(answer.get("reason").is_some() && answer["rule"].is_string(), "{answer}");
        }
    }
}

#[test]
fn try_address_and_try_decision_answer_every_case_as_they_should() {
    let addresses: Vec<Value> = cases("addresses.csv").into_iter().filter(|case| case["encoding"] == "raw").collect();
    for (case, answer) in addresses.iter().zip(tried("address", &addresses)) {
        assert_eq!(answer["accepted"], case["expect"] == "accept", "{case} is answered with {answer}");
    }
    let decisions = cases("policy_cases.csv");
    for (case, answer) in decisions.iter().zip(tried("decision", &decisions)) {
        assert_eq!((&answer["action"], &answer["reason"]), (&case["expected_action"], &case["expected_reason"]), "{case} is answered with {answer}");
    }
}

#[test]
fn try_answers_each_line_once_whatever_it_holds() {
    let lines = "{\"address\":\"ada@example.com\"}\nnot json\n[]\n{}\n{\"address\":\"\"}\n{\"address\":\"bob@example.com\",\"colour\":1}\n";
    let answers = process::run(&["try", "address"], lines.as_bytes()).expect(1).lines();
    assert_eq!(answers.len(), 6);
    assert_eq!((&answers[0]["accepted"], &answers[5]["accepted"]), (&true.into(), &true.into()));
    assert!(answers[1]["error"].is_string() && answers[2]["error"].is_string());
}

/// Nobody has to believe a figure: each is what was measured, and the answer is their arithmetic.
#[test]
fn capacity_is_the_arithmetic_of_what_was_measured() {
    let curfew = Curfew::start(Settings::capture());
    let jobs: Vec<_> = (0..12).map(|n| job(&format!("R-{n}"), "ada@example.com")).collect();
    curfew.import(&jobs);
    curfew.all_ended(12, Duration::from_secs(30));
    assert_eq!(curfew.cli(&["capacity", "--headroom", "95%"]).code, Some(2));
    assert_eq!(curfew.get("/v1/capacity?date=tomorrow").status, 422);
    let none = curfew.cli(&["capacity", "--date", "2199-01-01", "--json"]).expect(0).json();
    assert_eq!((&none["busiest_minute"], &none["jobs"], &none["attempts"]), (&Value::Null, &0.into(), &0.into()), "{none}");
    // A whole window of ten seconds, and the heartbeat after it.
    let date = jobs[0]["business_date"].as_str().expect("a date");
    let measured = until("a drain is measured", || {
        let found = curfew.cli(&["capacity", "--date", date, "--headroom", "50%", "--json"]).expect(0).json();
        found["drain_per_worker"].as_f64().map(|drain| (drain, found))
    });
    let (drain, found) = measured;
    assert!((0.1..=1.2).contains(&drain), "{found}");
    assert_eq!(
        (&found["jobs"], &found["counted"], &found["workers"], &found["multiplier"]),
        (&12.into(), &12.into(), &1.into(), &1.0.into()),
        "{found}"
    );
    assert_eq!(found["workers_needed"].as_u64(), Some((12.0 / (60.0 * drain * 0.5)).ceil() as u64), "{found}");
    assert!(curfew.cli(&["capacity", "--date", date]).expect(0).stdout.contains("12 x 1.0000 = 12"));
}
