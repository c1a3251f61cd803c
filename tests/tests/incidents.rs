//! Incidents that people reported about other systems, replayed on the whole binary. Each test's first line says what they saw.

use std::time::Duration;

use curfew_testkit::mail_server::scripts::{first_times_at, refuse_recipient};
use curfew_testkit::mail_server::{Event, Extensions};
use curfew_testkit::{Action, Config, MailServer, Stage};
use curfew_tests::jobs::{in_time, job, key, ndjson};
use curfew_tests::{Curfew, Settings, process, until};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(120);

fn many(name: &str, count: usize) -> Vec<Value> {
    (0..count).map(|n| job(&format!("{name}-{n:04}"), &format!("{name}-{n:04}@example.com"))).collect()
}

fn id(job: &Value) -> String {
    job["id"].as_str().expect("a job has an id").to_owned()
}

/// Incident 6 (mastodon#23727): "an accidental 5 s read timeout gave up to seven copies".
#[test]
fn a_timeout_that_makes_doubt_out_of_accepted_mail_is_refused_at_the_start() {
    let settings = Settings::smtp(([127, 0, 0, 1], 9).into()).text("transports.default.timeouts.end", "5s");
    let mut curfew = Curfew::prepare(settings);
    curfew.spawn(&[]);
    assert_eq!(curfew.ended().code(), Some(2), "{}", curfew.log());
    let log = curfew.log();
    assert!(log.contains("timeouts.end") && log.contains("5s") && log.contains("curfew.toml"), "file, key and value are named: {log}");
}

/// Incident 7 (discourse#25763): "a read timeout was retried", later "a log check before the retry". A job that is found with its intent
/// written isn't sent, whatever was or wasn't handed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_found_with_its_intent_written_is_set_aside() {
    let server = MailServer::start(Config::default()).await;
    let mut curfew = Curfew::prepare(Settings::smtp(server.addr()));
    curfew.restart_with(&["--pause-at".into(), "after-intent=test".into()]);
    curfew.submit(&job("R-1", "r-1@example.com"));
    assert_eq!(curfew.paused("after-intent"), key("R-1"));
    curfew.kill9();
    curfew.restart();
    let doubt = curfew.job_in(&key("R-1"), "dead_letter");
    assert_eq!((doubt["reason"].as_str(), doubt["in_doubt"].as_bool()), (Some("reconciliation_required"), Some(true)), "{doubt:#}");
    assert_eq!(curfew.item_of(&key("R-1"))["status"], "open");
    // Later jobs pass it by, and it stays where it is.
    curfew.submit(&job("R-2", "r-2@example.com"));
    curfew.job_in(&key("R-2"), "sent");
    assert_eq!((server.accepted_count(), server.times_reached(Stage::Mail)), (1, 2));
}

/// Incident 12 (lago-api#2126): "a retry on read timeout was added for invoices". No policy retries a result that is unknown.
#[test]
fn no_policy_retries_an_unknown_result() {
    let event = json!({"stage": "dot", "text": "<event: timed out waiting for the reply>"});
    let read = process::run(&["try", "reply"], format!("{event}\n").as_bytes()).expect(0);
    assert_eq!(read.lines()[0]["class"], "ambiguous");
    let question = |backoff: &str, params: &str| {
        json!({"attempt": 0, "outcome": "ambiguous", "provider_idempotent": false, "backoff": backoff, "backoff_params": params, "jitter_lo_s": 0,
            "jitter_hi_s": 0, "now": "2027-01-05T13:30:05Z", "release_at": "2027-01-05T13:30:00Z", "deadline_at": "2027-01-06T14:00:00Z", "max_attempts": 9})
    };
    let asked = [question("fixed", "300;600"), question("exponential", "base=30;cap=900;factor=2")].map(|q| q.to_string()).join("\n");
    let answers = process::run(&["try", "decision"], asked.as_bytes()).expect(0).lines();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert_eq!((answer["action"].as_str(), answer["reason"].as_str()), (Some("dead_letter"), Some("reconciliation_required")), "{answer}");
    }
}

/// Incident 13 (corefx#35738): "sending with an empty body never finished".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_body_is_refused_or_sent_and_never_hangs() {
    let server = MailServer::start(Config::default()).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    let mut empty = job("R-1", "r-1@example.com");
    empty["content"]["text"] = "".into();
    let answer = curfew.post("/v1/jobs", &empty);
    match answer.status {
        201 => drop(curfew.job_in(&key("R-1"), "sent")),
        422 => assert!(answer.text.contains("content"), "{}", answer.text),
        other => panic!("{other}: {}", answer.text),
    }
    let mut line = job("R-2", "r-2@example.com");
    line["content"]["text"] = ".\n".into();
    curfew.submit(&line);
    curfew.job_in(&key("R-2"), "sent");
}

/// Incident 16 (odoo#154498): "a concurrent update after the send left it outgoing". While a handoff is under way every verb is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_edits_a_job_while_it_is_handed_over() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenHold))).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    let id = id(&curfew.submit(&job("R-1", "r-1@example.com")));
    server.held(Stage::Dot).await;
    curfew.job_in(&id, "handoff");
    for (verb, body) in [
        ("cancel", json!({"reason": "a test"})),
        ("suppress", json!({"reason": "a test"})),
        ("move", json!({"release_at": in_time(Duration::from_secs(60)), "reason": "a test"})),
    ] {
        let refused = curfew.post(&format!("/v1/jobs/{id}/{verb}"), &body);
        assert_eq!(refused.status, 409, "{verb}: {}", refused.text);
    }
    curfew.cli(&["jobs", "cancel", &key("R-1"), "--reason", "a test"]).expect(1);
    server.release();
    curfew.job_in(&id, "sent");
    assert_eq!(server.accepted_count(), 1);
    assert_eq!(curfew.post(&format!("/v1/jobs/{id}/cancel"), &json!({"reason": "too late"})).status, 409);
}

/// Incident 17 (zulip#20943): "one transaction for a batch, and a crash repeated all of it".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_in_the_middle_of_a_batch_repeats_none_of_it() {
    const COUNT: usize = 40;
    // The twelfth reply never comes, so that the kill finds the batch in its middle.
    let held = |event: &Event<'_>| {
        if event.stage == Stage::Dot && event.recipient == Some("batch-0011@example.com") { Action::Silence } else { Action::Default }
    };
    let server = MailServer::start(Config::scripted(held)).await;
    let mut curfew = Curfew::start(Settings::smtp(server.addr()).set("worker.concurrency", "1"));
    assert_eq!(curfew.import(&many("batch", COUNT))["accepted"], COUNT);
    server.held(Stage::Dot).await;
    curfew.kill9();
    let before = server.accepted_count();
    assert!(before < COUNT as u64);
    curfew.restart();
    let day = curfew.all_ended(COUNT as u64, LONG);
    assert_eq!((day["sent"].as_u64(), day["dead_letter"].as_u64(), day["difference"].as_u64()), (Some(COUNT as u64 - 1), Some(1), Some(0)), "{day}");
    assert_eq!(server.accepted_count(), COUNT as u64 - 1, "{before} before the crash");
    assert!(server.accepted_per_job().values().all(|times| *times == 1));
}

/// Incident 21 (nextcloud/activity#459): "rows stayed, and a mail went out every 30 minutes". Here the book's row is still as it was when the
/// process dies, and the ledger alone knows that the mail was accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accepted_job_leaves_the_queue_though_the_book_could_not_be_told() {
    let server = MailServer::start(Config::default()).await;
    let mut curfew = Curfew::prepare(Settings::smtp(server.addr()).text("scheduler.tick", "5s"));
    curfew.restart_with(&["--pause-at".into(), "after-report=test".into()]);
    curfew.submit(&job("R-1", "r-1@example.com"));
    curfew.paused("after-report");
    curfew.kill9();
    for _ in 0..3 {
        curfew.restart();
        let sent = curfew.job_in(&key("R-1"), "sent");
        assert_eq!(sent["attempts"], 1, "{sent:#}");
        curfew.kill9();
    }
    curfew.configure(|settings| settings.text("scheduler.tick", "100ms"));
    curfew.restart();
    let day = curfew.all_ended(1, LONG);
    assert_eq!((&day["sent"], &day["difference"]), (&1.into(), &0.into()), "{day}");
    assert_eq!((server.accepted_count(), server.connections()), (1, 1));
}

/// Incident 40 (listmonk#3022): "the checkpoint moved at the fetch, the restart skipped thousands and marked the campaign finished".
/// `kills.rs` holds the same for every state and with faults.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sent_and_in_review_are_all_that_was_accepted_however_often_it_dies() {
    const COUNT: usize = 120;
    let server = MailServer::start(Config::default()).await;
    let mut curfew = Curfew::start(Settings::smtp(server.addr()).text("transports.default.rate", "60/s").set("worker.concurrency", "4"));
    assert_eq!(curfew.import(&many("letter", COUNT))["accepted"], COUNT);
    curfew.kill9();
    for kill in 1..=3 {
        curfew.restart();
        let target = kill * 20;
        until("more mails", || (server.accepted_count() >= target).then_some(()));
        curfew.kill9();
    }
    curfew.restart();
    let day = curfew.all_ended(COUNT as u64, LONG);
    assert_eq!(day["difference"], 0, "{day}");
    let items = curfew.all_items("").len() as u64;
    assert_eq!(day["sent"].as_u64().unwrap_or_default() + items, COUNT as u64, "{day}, {items} review items");
    assert!(server.accepted_per_job().values().all(|times| *times == 1));
}

/// Incident 44 (sentry#123898): "some users are simply missing, and the provider has no attempt". The day's figures account for everyone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_accounts_for_every_job_that_was_accepted() {
    let server = MailServer::start(Config::scripted(refuse_recipient("gone@example.com", "550 5.1.1 No such user here"))).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    let later = |subject: &str, hours: u64| {
        let mut later = job(subject, "later@example.com");
        later["release_at"] = in_time(Duration::from_secs(hours * 3600)).into();
        later["deadline_at"] = in_time(Duration::from_secs(hours * 3600 + 60)).into();
        later
    };
    let mut soon = later("live", 0);
    soon["release_at"] = in_time(Duration::from_secs(300)).into();
    soon["deadline_at"] = in_time(Duration::from_secs(600)).into();
    curfew.submit(&job("sent", "sent@example.com"));
    curfew.submit(&job("dead", "gone@example.com"));
    curfew.submit(&later("planned", 3));
    curfew.submit(&later("cancelled", 3));
    curfew.submit(&later("suppressed", 3));
    curfew.submit(&soon);
    for verb in ["cancel", "suppress"] {
        let ended = if verb == "cancel" { "cancelled" } else { "suppressed" };
        curfew.cli(&["jobs", verb, &key(ended), "--reason", "a test"]).expect(0);
    }
    let want = json!({"accepted": 6, "sent": 1, "dead_letter": 1, "cancelled": 1, "suppressed": 1, "planned": 1, "live": 1, "difference": 0});
    let mut last = Value::Null;
    until("the day's figures", || {
        last = curfew.day();
        want.as_object().is_some_and(|want| want.iter().all(|(name, figure)| last[name] == *figure)).then_some(())
    });
    curfew.cli(&["day", "2026-12-01"]).expect(0);
    curfew.cli(&["day", "2026-12-02"]).expect(0);
}

/// Incident 45 (digests#38): "the queue was only saved at the end of the run".
#[test]
fn a_crash_while_jobs_come_in_and_the_file_again_make_exactly_the_file() {
    const COUNT: usize = 10_000;
    let mut curfew = Curfew::start(Settings::capture());
    let mut jobs = many("plan", COUNT);
    for job in &mut jobs {
        job["release_at"] = in_time(Duration::from_secs(2 * 3600)).into();
        job["deadline_at"] = in_time(Duration::from_secs(3 * 3600)).into();
    }
    let file = curfew.folder().join("plan.ndjson");
    std::fs::write(&file, ndjson(&jobs)).expect("a file can be written");
    let file = file.display().to_string();
    let accepted = |curfew: &Curfew| curfew.day()["accepted"].as_u64().unwrap_or_default();

    let api = curfew.http().base().to_owned();
    std::thread::scope(|scope| {
        let submitting = scope.spawn(|| process::run(&["--api", &api, "submit", &file], b""));
        until("the first of the file", || (accepted(&curfew) > 0).then_some(()));
        curfew.signal("KILL");
        let cut = submitting.join().expect("submitting doesn't panic");
        assert_eq!(cut.code, Some(69), "who hands in learns that nobody answers: {cut:?}");
    });
    curfew.ended();
    curfew.restart();
    let kept = accepted(&curfew);
    assert!(0 < kept && kept < COUNT as u64, "{kept} of {COUNT}: the kill came in the middle");
    let again = curfew.cli(&["submit", &file]).expect(0).json();
    assert_eq!((again["duplicates"].as_u64(), again["accepted"].as_u64()), (Some(kept), Some(COUNT as u64 - kept)), "{again}");
    let day = curfew.day();
    assert_eq!((&day["accepted"], &day["difference"]), (&COUNT.into(), &0.into()), "{day}");
}

/// Incident 48 (nextcloud/activity#199): "one malformed address, and nobody gets mail, or all get it again".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_without_a_domain_stops_nobody_else() {
    let server = MailServer::start(Config::default()).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    let mut jobs = many("group", 9);
    jobs.insert(4, job("group-bad", "john.doe"));
    let summary = curfew.import(&jobs);
    assert_eq!((&summary["accepted"], &summary["rejected"]), (&9.into(), &1.into()), "{summary}");
    assert_eq!((&summary["errors"][0]["line"], &summary["errors"][0]["field"]), (&5.into(), &"to.address".into()), "{summary}");
    curfew.all_ended(9, LONG);
    assert_eq!(curfew.import(&jobs)["duplicates"], 9, "handing in again sends nothing again");
    assert_eq!(server.accepted_count(), 9);
    assert!(server.accepted_per_recipient().values().all(|times| *times == 1));
}

/// Incident 51 (nextcloud/activity#538): "55x at RCPT repeated every 15 minutes without end".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_recipient_is_tried_once() {
    let server = MailServer::start(Config::scripted(refuse_recipient("gone@example.com", "550 5.1.1 No such user here"))).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    curfew.submit(&job("R-1", "gone@example.com"));
    let dead = curfew.job_in(&key("R-1"), "dead_letter");
    assert_eq!((dead["reason"].as_str(), dead["attempts"].as_u64()), (Some("permanent_failure"), Some(1)), "{dead:#}");
    let item = curfew.item_of(&key("R-1"));
    assert_eq!((item["status"].as_str(), item["owner"].as_str()), (Some("open"), Some("support")), "{item:#}");
    assert_eq!(server.times_reached(Stage::Rcpt), 1);
}

/// Incident 52 (mox#375): "missing SMTPUTF8 was retried after 4, 8 and 16 hours". It can't get better by waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_the_relay_cannot_carry_goes_to_review_at_once() {
    let config = Config { extensions: Extensions { smtp_utf8: false, ..Extensions::default() }, ..Config::default() };
    let server = MailServer::start(config).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    curfew.submit(&job("R-1", "müller@example.com"));
    curfew.submit(&job("R-2", "mueller@bücher.example"));
    let dead = curfew.job_in(&key("R-1"), "dead_letter");
    assert_eq!(dead["attempts"], 1, "{dead:#}");
    let item = curfew.item_of(&key("R-1"));
    assert!(item["diagnostic"].as_str().unwrap_or_default().contains("SMTPUTF8"), "the missing capability is named: {item:#}");
    curfew.job_in(&key("R-2"), "sent");
    assert_eq!(server.accepted()[0].recipients[0].address, "mueller@xn--bcher-kva.example");
}

/// Incident 69 (upyo#38, MailKit#309, async-smtp#72): "one refused recipient aborts all".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_recipient_a_transaction() {
    let server = MailServer::start(Config::scripted(refuse_recipient("one-0003@example.com", "550 5.1.1 No such user here"))).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    assert_eq!(curfew.import(&many("one", 8))["accepted"], 8);
    let day = curfew.all_ended(8, LONG);
    assert_eq!((&day["sent"], &day["dead_letter"]), (&7.into(), &1.into()), "{day}");
    assert!(server.accepted().iter().all(|mail| mail.recipients.len() == 1));
    assert_eq!(server.times_reached(Stage::Mail), server.times_reached(Stage::Rcpt));
    assert!(server.violations().is_empty(), "{:?}", server.violations());
}
