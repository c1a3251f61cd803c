//! What one job comes to, by what the server answers.

use std::time::Duration;

use curfew_domain::{OutcomeClass, Reason};
use curfew_testkit::MailServer;
use curfew_testkit::mail_server::scripts::{fail_first_rcpt, first_times_at, refuse_recipient};
use curfew_testkit::mail_server::{Action, Config, Stage};

use crate::house::{House, Plan, lane};

#[tokio::test]
async fn an_accepted_job_is_sent_once_on_its_first_attempt() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    house.until(&key, &["sent"]).await;
    let row = house.row(&key).await;
    assert_eq!((row.attempts, row.generation), (1, 1));
    assert!(row.receipt.is_some());
    assert_eq!(server.accepted_count(), 1);
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn a_451_once_is_retried_and_sent_on_the_second_attempt() {
    let server = MailServer::start(Config::scripted(fail_first_rcpt(1, "451 4.3.0 try again later"))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    house.until(&key, &["sent"]).await;
    assert_eq!(house.row(&key).await.attempts, 2);
    assert_eq!(server.accepted_count(), 1);
}

#[tokio::test]
async fn a_451_at_every_attempt_uses_up_the_budget() {
    let server = MailServer::start(Config::scripted(fail_first_rcpt(99, "451 4.3.0 try again later"))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    let item = house.item(&key, Reason::RetryBudgetExhausted).await;
    assert_eq!(item.attempts, 3);
    assert_eq!(server.accepted_count(), 0);
}

#[tokio::test]
async fn a_550_is_a_review_item_after_one_attempt() {
    let server = MailServer::start(Config::scripted(refuse_recipient("r1@acme.example", "550 5.1.1 No such user"))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let keys = house.submit(&[house.mail("acme", 1), house.mail("acme", 2)]).await;
    let item = house.item(&keys[0], Reason::PermanentFailure).await;
    assert_eq!((item.attempts, item.in_doubt, item.owner.as_deref()), (1, false, Some("crm")));
    assert!(item.diagnostic.contains("550"), "it explains itself: {}", item.diagnostic);
    house.until(&keys[1], &["sent"]).await;
    assert_eq!(server.accepted_count(), 1);
}

/// Incident 47: an error class that nobody had listed blocked the queue.
#[tokio::test]
async fn a_reply_that_no_row_knows_gets_the_class_of_its_first_digit_and_the_others_go_on() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Rcpt, 1, Action::reply("477 9.9.9 frobnication inhibited")))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let keys = house.submit(&[house.mail("acme", 1), house.mail("acme", 2), house.mail("acme", 3)]).await;
    house.until_all(&keys, "sent").await;
    let mut attempts = Vec::new();
    for key in &keys {
        attempts.push(house.row(key).await.attempts);
    }
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 1, 2]);
    assert_eq!(server.accepted_count(), 3);
}

#[tokio::test]
async fn a_refusal_after_the_end_marker_is_a_verdict_and_runs_again() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::reply("451 4.3.2 System not accepting messages")))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    house.until(&key, &["sent"]).await;
    let row = house.row(&key).await;
    assert_eq!(row.attempts, 2);
    assert_eq!(row.last.map(|last| last.class), Some(OutcomeClass::Transient));
    assert_eq!(server.accepted_count(), 1);
}

#[tokio::test]
async fn the_day_adds_up_after_every_kind_of_end() {
    let server = MailServer::start(Config::scripted(refuse_recipient("r1@acme.example", "550 5.1.1 No such user"))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let late = house.mail("acme", 4).released_in(Duration::from_secs(86_400));
    let keys = house.submit(&[house.mail("acme", 1), house.mail("acme", 2), house.mail("acme", 3), late]).await;
    house.item(&keys[0], Reason::PermanentFailure).await;
    house.until_all(&keys[1..3], "sent").await;
    let day = curfew_book::Book::day(&*house.book, "2026-12-01", None).await.expect("the book answers");
    assert_eq!((day.accepted, day.sent, day.dead_letter, day.planned, day.staged), (4, 2, 1, 1, 0));
}
