//! Never late, never early: deadlines and releases.

use std::time::{Duration, UNIX_EPOCH};

use curfew_domain::policy::AtDeadline;
use curfew_domain::{Moment, Reason};
use curfew_testkit::mail_server::scripts::{always_at, fail_first_rcpt, first_times_at};
use curfew_testkit::mail_server::{Action, Config, Stage};
use curfew_testkit::{MailServer, eventually};
use curfew_worker::pause::Point;

use crate::faults::Stops;
use crate::house::{House, PATIENCE, Plan, lane};

const TWO_HOURS: Duration = Duration::from_secs(7_200);

#[tokio::test]
async fn a_deadline_ends_a_waiting_job_though_no_worker_lives() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 1)])).await;
    let _roles = (house.scheduler(), house.deadletter());
    let key = house.submit_one(&house.mail("acme", 1)).await;
    house.until(&key, &["queued"]).await;
    house.advance(TWO_HOURS);
    assert_eq!(house.item(&key, Reason::BusinessDeadlineReached).await.attempts, 0);
}

#[tokio::test]
async fn a_job_whose_deadline_passed_in_the_book_is_ended_by_the_ledger() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 1)])).await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    house.advance(TWO_HOURS);
    let _roles = house.all().await;
    house.item(&key, Reason::BusinessDeadlineReached).await;
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_policy_may_make_a_deadline_a_suppression() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan { at_deadline: AtDeadline::Suppress, ..Plan::new(vec![lane("smtp", &server, 1)]) }).await;
    let _roles = (house.scheduler(), house.deadletter());
    let key = house.submit_one(&house.mail("acme", 1)).await;
    house.until(&key, &["queued"]).await;
    house.advance(TWO_HOURS);
    house.until(&key, &["suppressed"]).await;
}

#[tokio::test]
async fn a_deadline_that_comes_while_a_job_is_claimed_refuses_its_intent() {
    let server = MailServer::start(Config::default()).await;
    let stops = Stops::at(Point::BeforeIntent);
    let house = House::new(Plan { pauses: stops.clone(), ..Plan::new(vec![lane("smtp", &server, 1)]) }).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    stops.reached().await;
    house.advance(TWO_HOURS);
    house.item(&key, Reason::BusinessDeadlineReached).await;
    stops.let_go();
    let other = house.submit_one(&house.mail("acme", 2)).await;
    house.until(&other, &["sent"]).await;
    assert_eq!(server.accepted_count(), 1);
}

#[tokio::test]
async fn a_last_look_after_the_deadline_leaves_no_end_marker() {
    let server = MailServer::start(Config::default()).await;
    let stops = Stops::at(Point::AfterIntent);
    let house = House::new(Plan { pauses: stops.clone(), lease: Duration::from_secs(900), ..Plan::new(vec![lane("smtp", &server, 1)]) }).await;
    let _roles = house.all().await;
    let mut mail = house.mail("acme", 1);
    mail.deadline_at = mail.release_at.plus(Duration::from_secs(600));
    let key = house.submit_one(&mail).await;
    stops.reached().await;
    house.advance(Duration::from_secs(601));
    let worker_knows = house.now();
    eventually(PATIENCE, "the worker's clock follows", || async { (_roles.1.role.ledger_now() >= worker_knows).then_some(()) }).await;
    stops.let_go();
    let item = house.item(&key, Reason::BusinessDeadlineReached).await;
    assert!(!item.in_doubt, "proven not handed off");
    assert_eq!(server.accepted_count(), 0);
    assert_eq!(server.cut_off(), 1);
}

#[tokio::test]
async fn a_retry_that_would_not_begin_before_the_deadline_ends_the_job() {
    let server = MailServer::start(Config::scripted(fail_first_rcpt(9, "451 4.3.0 later"))).await;
    let house = House::new(Plan { delays: vec![TWO_HOURS], ..Plan::new(vec![lane("smtp", &server, 1)]) }).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    assert_eq!(house.item(&key, Reason::BusinessDeadlineReached).await.attempts, 1);
}

#[tokio::test]
async fn nothing_is_sent_before_its_release() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 4)])).await;
    let _roles = house.all().await;
    let mails: Vec<_> = (1..=12).map(|n| house.mail("acme", n).released_in(Duration::from_millis(u64::from(n) * 200))).collect();
    let keys = house.submit(&mails).await;
    house.until_all(&keys, "sent").await;
    for accepted in server.accepted() {
        let to = &accepted.recipients[0].address;
        let mail = mails.iter().find(|mail| mail.to() == *to).expect("one of ours");
        let at = accepted.at.duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        let at = Moment::from_millis(i64::try_from(at).expect("small"));
        assert!(at >= mail.release_at, "{} ms early", mail.release_at.since(at).as_millis());
    }
    assert_eq!(server.accepted_count(), 12);
}

#[tokio::test]
async fn a_silent_server_holds_no_worker_past_a_jobs_deadline() {
    let server = MailServer::start(Config::scripted(always_at(Stage::Rcpt, Action::Silence))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 1)])).await;
    let _roles = house.all().await;
    let mut mail = house.mail("acme", 1);
    mail.deadline_at = mail.release_at.plus(Duration::from_secs(2));
    let key = house.submit_one(&mail).await;
    house.item(&key, Reason::BusinessDeadlineReached).await;
    server.set_script(first_times_at(Stage::Rcpt, 0, Action::Default));
    let other = house.submit_one(&house.mail("acme", 2)).await;
    house.until(&other, &["sent"]).await;
}
