//! Several of each role side by side, and drains.

use curfew_domain::{Reason, State};
use curfew_testkit::mail_server::Event;
use curfew_testkit::mail_server::scripts::fail_first_rcpt;
use curfew_testkit::mail_server::{Action, Config, Stage};
use curfew_testkit::{MailServer, eventually};

use crate::house::{House, PATIENCE, Plan, lane};

#[tokio::test]
async fn two_of_each_role_send_each_job_once() {
    let server = MailServer::start(Config::scripted(fail_first_rcpt(1, "451 4.3.0 try again later"))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 8)])).await;
    let _first = house.all().await;
    let _second = house.all().await;
    let mails: Vec<_> = (1..=75).flat_map(|n| [house.mail("acme", n), house.mail("zenith", n)]).collect();
    let keys = house.submit(&mails).await;
    house.until_all(&keys, "sent").await;
    assert_eq!(server.accepted_count(), 150);
    assert!(server.accepted_per_job().values().all(|times| *times == 1));
    for key in &keys {
        assert_eq!(house.row(key).await.attempts, 2);
    }
}

#[tokio::test]
async fn a_drain_finishes_what_is_in_handoff_and_gives_the_rest_back() {
    let script = |event: &Event<'_>| match (event.stage, event.recipient) {
        (Stage::Rcpt, Some("r1@acme.example")) => Action::Silence,
        (Stage::Dot, Some("r2@acme.example")) => Action::AcceptThenHold,
        _elsewhere => Action::Default,
    };
    let server = MailServer::start(Config::scripted(script)).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let (scheduler, worker, _deadletter) = house.all().await;
    let first = house.submit(&[house.mail("acme", 1), house.mail("acme", 2)]).await;
    server.held(Stage::Rcpt).await;
    server.held(Stage::Dot).await;
    // A third waits for a connection, unclaimed.
    let third = house.submit_one(&house.mail("acme", 3)).await;
    house.until(&third, &["queued"]).await;
    scheduler.finish().await;
    worker.stop.cancel();
    eventually(PATIENCE, "what isn't in handoff is given back", || async {
        (house.record(&first[0]).await?.state == State::Scheduled).then_some(())
    })
    .await;
    let record = house.record(&first[0]).await.expect("it lives");
    assert_eq!((record.attempts, record.reason), (0, Some(Reason::GivenBack)));
    server.release();
    worker.finish().await;
    let record = house.record(&first[1]).await.expect("it stands");
    assert_eq!((record.state, record.attempts), (State::Sent, 1));
    let record = house.record(&third).await.expect("it lives");
    assert_eq!((record.attempts, record.worker), (0, None), "it was never claimed");
    assert_eq!(server.accepted_count(), 1);
    // The next process finishes it all.
    server.set_script(curfew_testkit::mail_server::scripts::obedient());
    let house = house.with_lanes(vec![lane("smtp", &server, 2)]);
    let _roles = house.all().await;
    house.until_all(&first, "sent").await;
    house.until(&third, &["sent"]).await;
    assert_eq!(server.accepted_count(), 3);
}

/// A record whose job the book lost: closed, nobody would ever know of it again.
#[tokio::test]
async fn a_job_that_the_book_does_not_know_keeps_its_record_and_stops_nobody() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let elsewhere = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let lost = elsewhere.submit_one(&elsewhere.mail("acme", 1)).await;
    let row = elsewhere.row(&lost).await;
    let change = curfew_courier::first_version(&row, &house.rulebook, 0, house.now());
    let create = curfew_ledger::Create { change, letter: row.job.letter.clone(), read_at: house.now() };
    house.ledger.create(vec![create]).await.expect("the ledger answers");
    let _roles = house.all().await;
    let keys = house.submit(&(2..=9).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    house.until_all(&keys, "sent").await;
    eventually(PATIENCE, "it is sent, and stays", || async {
        let record = house.record(&lost).await?;
        (record.state == State::Sent && record.is_live()).then_some(())
    })
    .await;
}

/// Rows that the ledger refuses (it knows a higher generation) stand first in the plan, more of them than a round reads.
#[tokio::test]
async fn rows_that_cannot_be_staged_stand_in_front_of_nobody() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let stuck: Vec<_> = (1..=510).map(|n| house.mail("acme", n)).collect();
    let (first, second) = stuck.split_at(300);
    let keys: Vec<_> = [house.submit(first).await, house.submit(second).await].concat();
    let mut creates = Vec::new();
    for key in &keys {
        let mut row = house.row(key).await;
        row.generation = 2;
        row.job.release_at = house.now().plus(std::time::Duration::from_secs(3_000));
        let change = curfew_courier::first_version(&row, &house.rulebook, 0, house.now());
        creates.push(curfew_ledger::Create { change, letter: row.job.letter.clone(), read_at: house.now() });
    }
    house.ledger.create(creates).await.expect("the ledger answers");
    let behind = house.submit_one(&house.mail("acme", 999)).await;
    let _roles = house.all().await;
    house.until(&behind, &["sent"]).await;
    assert_eq!(server.accepted_count(), 1);
}
