//! P3, P4 and P5 on the whole binary: never late, never early, never a mystery.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curfew_domain::Moment;
use curfew_testkit::mail_server::scripts::fail_first_rcpt;
use curfew_testkit::{Config, MailServer};
use curfew_tests::jobs::{in_time, job, key, now};
use curfew_tests::{Curfew, Settings, until};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(3);

fn moment(text: &Value) -> Moment {
    text.as_str().and_then(Moment::parse).unwrap_or_else(|| panic!("{text} is no time"))
}

fn at(time: SystemTime) -> Moment {
    let since = time.duration_since(UNIX_EPOCH).expect("it is after 1970");
    Moment::from_millis(i64::try_from(since.as_millis()).expect("it is before the year 292277026596"))
}

fn with_deadline(subject: &str) -> Value {
    let mut job = job(subject, &format!("{subject}@example.com"));
    job["deadline_at"] = in_time(DEADLINE).into();
    job
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_handoff_begins_before_its_release() {
    let server = MailServer::start(Config::default()).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    // On both sides of a rung of the delay exchanges, of a second, and of a tick.
    let jobs: Vec<Value> = [900, 1_000, 1_049, 1_500, 2_000, 2_101, 3_999, 4_100]
        .into_iter()
        .map(|ms| {
            let mut job = job(&format!("after-{ms}"), &format!("after-{ms}@example.com"));
            job["release_at"] = in_time(Duration::from_millis(ms)).into();
            job
        })
        .collect();
    assert_eq!(curfew.import(&jobs)["accepted"], jobs.len());
    curfew.all_ended(jobs.len() as u64, Duration::from_secs(60));
    for mail in server.accepted() {
        let job = curfew.job(mail.job.as_deref().unwrap_or_default());
        let (released, accepted) = (moment(&job["release_at"]), at(mail.at));
        assert!(accepted >= released, "accepted at {}: {job:#}", accepted.rfc3339());
        assert_eq!(job["state"], "sent");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_what_a_pause_holds_and_it_is_never_sent() {
    let server = MailServer::start(Config::default()).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()));
    curfew.cli(&["fleet", "pause", "--reason", "a test"]).expect(0);
    curfew.submit(&with_deadline("paused"));
    let dead = curfew.job_in(&key("paused"), "dead_letter");
    assert_eq!((dead["reason"].as_str(), dead["attempts"].as_u64()), (Some("business_deadline_reached"), Some(0)), "{dead:#}");
    curfew.cli(&["fleet", "resume", "--reason", "a test"]).expect(0);
    curfew.submit(&job("next", "next@example.com"));
    curfew.job_in(&key("next"), "sent");
    assert_eq!(server.accepted_count(), 1);
    curfew.item_of(&key("paused"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_comes_back_after_the_deadline_sends_nothing_late() {
    let server = MailServer::start(Config::default()).await;
    let mut curfew = Curfew::prepare(Settings::smtp(server.addr()));
    curfew.restart_with(&["--pause-at".into(), "before-intent=late".into()]);
    curfew.submit(&with_deadline("late"));
    let mut planned = with_deadline("late-planned");
    planned["release_at"] = in_time(DEADLINE / 2).into();
    curfew.submit(&planned);
    curfew.paused("before-intent");
    curfew.kill9();
    let deadline = now().plus(DEADLINE);
    until("the deadline", || (now() > deadline).then_some(()));
    curfew.restart();
    for subject in ["late", "late-planned"] {
        let dead = curfew.job_in(&key(subject), "dead_letter");
        assert_eq!(dead["reason"], "business_deadline_reached", "{dead:#}");
        assert_eq!(dead["in_doubt"], false, "{dead:#}");
        curfew.item_of(&key(subject));
    }
    assert_eq!(server.accepted_count(), 0);
    curfew.cli(&["day", "2026-12-01"]).expect(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_past_the_deadline_is_not_waited_for() {
    let server = MailServer::start(Config::scripted(fail_first_rcpt(9, "451 4.3.0 Mailbox busy, try again later"))).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()).set("policies.default.delays", r#"["1h"]"#));
    let mut job = job("hopeless", "hopeless@example.com");
    job["deadline_at"] = in_time(Duration::from_secs(1800)).into();
    curfew.submit(&job);
    let dead = curfew.job_in(&key("hopeless"), "dead_letter");
    assert_eq!((dead["reason"].as_str(), dead["attempts"].as_u64()), (Some("business_deadline_reached"), Some(1)), "{dead:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_says_why_it_runs_again_and_a_planned_one_what_it_waits_for() {
    let server = MailServer::start(Config::scripted(fail_first_rcpt(1, "451 4.7.1 Greylisted, please come back"))).await;
    let curfew = Curfew::start(Settings::smtp(server.addr()).set("policies.default.delays", r#"["5m", "10m"]"#));
    curfew.submit(&job("again", "again@example.com"));
    let again = until("the retry", || Some(curfew.job(&key("again"))).filter(|job| job["attempts"] == 1 && job["waiting_for"] == "retry"));
    let said = again["explanation"].as_str().unwrap_or_default();
    for part in ["451 4.7.1", "attempt 2 of 3", "stops at"] {
        assert!(said.contains(part), "{part} is missing in: {said}");
    }
    assert!(moment(&again["next_attempt_at"]) > now(), "{again:#}");
    let mut later = job("later", "later@example.com");
    later["release_at"] = in_time(Duration::from_secs(1800)).into();
    curfew.submit(&later);
    let explained = curfew.cli(&["jobs", "explain", &key("later")]).expect(0).stdout;
    assert!(explained.len() > 20, "{explained}");
}
