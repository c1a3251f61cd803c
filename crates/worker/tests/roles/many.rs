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
