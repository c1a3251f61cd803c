//! Handoffs in doubt, late verdicts and replays.

use std::time::Duration;

use curfew_book::BookError;
use curfew_domain::{Key, Reason};
use curfew_review::{ItemStatus, Replay, Review};
use curfew_testkit::mail_server::scripts::{by_recipient, first_times_at, refuse_recipient};
use curfew_testkit::mail_server::{Action, Config, Stage, scripts};
use curfew_testkit::{MailServer, eventually};
use curfew_worker::pause::Point;

use crate::faults::Stops;
use crate::house::{House, PATIENCE, Plan, lane};

const HOUR: Duration = Duration::from_secs(3_600);

fn replay(house: &House, item: uuid::Uuid, accept_duplicate_risk: bool) -> Replay {
    let at = house.now();
    let (actor, reason) = ("alice".to_owned(), "the customer asks".to_owned());
    Replay { item, deadline_at: at.plus(HOUR), actor, reason, accept_duplicate_risk, dry_run: false, at }
}

#[tokio::test]
async fn a_lost_reply_after_the_end_marker_is_in_doubt_and_never_sent_again() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenReset))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let keys = house.submit(&[house.mail("acme", 1)]).await;
    let item = house.item(&keys[0], Reason::ReconciliationRequired).await;
    assert!(item.in_doubt);
    assert_eq!(item.attempts, 1);
    // Whatever passes through the fleet meanwhile, and however much time: nobody sends it again.
    house.advance(HOUR);
    let others = house.submit(&(2..30).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    house.until_all(&others, "sent").await;
    assert_eq!(server.accepted_count(), 29);
    assert!(server.accepted_per_job().values().all(|times| *times == 1));
}

#[tokio::test]
async fn a_reply_that_comes_after_the_lease_settles_the_job_and_its_review_item() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenHold))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    server.held(Stage::Dot).await;
    house.advance(Duration::from_secs(11));
    let item = house.item(&key, Reason::ReconciliationRequired).await;
    assert!(item.in_doubt);
    server.release();
    house.until(&key, &["sent"]).await;
    let item = house.review.show(item.id).await.expect("review answers").expect("it stays on record");
    assert_eq!(item.status, ItemStatus::Resolved);
    assert_eq!(server.accepted_count(), 1);
}

#[tokio::test]
async fn a_proof_that_nothing_was_handed_over_ends_the_doubt_and_the_dead_letter_stays() {
    let server = MailServer::start(Config::default()).await;
    let stops = Stops::at(Point::LastLook);
    let house = House::new(Plan { pauses: stops.clone(), ..Plan::new(vec![lane("smtp", &server, 2)]) }).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    stops.reached().await;
    house.advance(Duration::from_secs(11));
    let item = house.item(&key, Reason::ReconciliationRequired).await;
    assert!(item.in_doubt);
    // A last look that gives no answer is a stop: the late verdict says so.
    let ended = eventually(PATIENCE, "its doubt ends", || async {
        let item = house.review.show(item.id).await.expect("review answers").expect("it stays on record");
        (!item.in_doubt).then_some(item)
    })
    .await;
    assert_eq!((ended.status, server.accepted_count()), (ItemStatus::Open, 0));
    stops.let_go();
    house.review.replay(replay(&house, item.id, false)).await.expect("no doubt, no risk, no rest");
    house.until(&key, &["sent"]).await;
    assert_eq!(server.accepted_count(), 1);
}

#[tokio::test]
async fn a_replayed_dead_letter_is_sent_in_its_second_generation() {
    let server = MailServer::start(Config::scripted(refuse_recipient("r1@acme.example", "550 5.1.1 No such user"))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    let item = house.item(&key, Reason::PermanentFailure).await;
    server.set_script(scripts::obedient());
    house.review.replay(replay(&house, item.id, false)).await.expect("it may be replayed");
    house.until(&key, &["sent"]).await;
    let row = house.row(&key).await;
    assert_eq!((row.generation, row.attempts, row.replays), (2, 1, 1));
    assert_eq!(server.accepted_count(), 1);
    assert!(house.review.replay(replay(&house, item.id, true)).await.is_err(), "an item is replayed once");
}

#[tokio::test]
async fn a_doubt_is_replayed_only_after_fifteen_minutes_and_with_the_risk_accepted() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::Reset))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    let item = house.item(&key, Reason::ReconciliationRequired).await;
    assert!(matches!(house.review.replay(replay(&house, item.id, false)).await, Err(BookError::Invalid { field: "accept_duplicate_risk", .. })));
    assert!(matches!(house.review.replay(replay(&house, item.id, true)).await, Err(BookError::NotYet(_))));
    house.advance(Duration::from_secs(16 * 60));
    house.review.replay(replay(&house, item.id, true)).await.expect("it may be replayed now");
    house.until(&key, &["sent"]).await;
    assert_eq!(house.row(&key).await.generation, 2);
    assert_eq!(server.accepted_count(), 1);
}

/// A replay planned while the first handoff's reply is still held: its late acceptance withdraws the replay before it is sent.
#[tokio::test]
async fn a_late_acceptance_ends_a_replay_that_has_not_begun() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenHold))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 1)])).await;
    let (scheduler, _worker, _deadletter) = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    server.held(Stage::Dot).await;
    house.advance(Duration::from_secs(11));
    let item = house.item(&key, Reason::ReconciliationRequired).await;
    house.advance(Duration::from_secs(20 * 60));
    scheduler.finish().await;
    house.review.replay(replay(&house, item.id, true)).await.expect("it may be replayed");
    server.release();
    server.accepted_at_least(1).await;
    // The one connection is held by the first handoff, so the replay can't have begun; staged or not, the late verdict ends it.
    let _scheduler = house.scheduler();
    house.until(&key, &["sent"]).await;
    assert_eq!(server.accepted_count(), 1);
}

/// Incident 10: a relay that always closes after the dot turned a night's mail into doubts.
#[tokio::test]
async fn a_relay_that_always_closes_after_the_dot_opens_the_circuit_after_five() {
    let server = MailServer::start(Config::scripted(scripts::always_at(Stage::Dot, Action::CloseQuietly))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 1)])).await;
    let _roles = house.all().await;
    let keys = house.submit(&(1..=12).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    house.until_held("smtp", "circuit").await;
    eventually(PATIENCE, "five dead letters, the others waiting", || async {
        let states = states(&house, &keys).await;
        (states.0 == 5 && states.1 == 7).then_some(())
    })
    .await;
    assert_eq!(server.times_reached(Stage::Dot), 5);
    server.set_script(scripts::obedient());
    house.resume("smtp", "circuit").await;
    eventually(PATIENCE, "the others are sent", || async { (server.accepted_count() == 7).then_some(()) }).await;
}

/// Dead letters, and jobs that wait.
async fn states(house: &House, keys: &[Key]) -> (usize, usize) {
    let (mut dead, mut waiting) = (0, 0);
    for key in keys {
        match house.shown(key).await.as_str() {
            "dead_letter" => dead += 1,
            "scheduled" => waiting += 1,
            _under_way => {}
        }
    }
    (dead, waiting)
}

/// Incident 11: a server took certain messages and never acknowledged them.
#[tokio::test]
async fn where_the_reply_is_missing_for_some_only_those_are_in_doubt() {
    let hidden = ["r3@acme.example", "r6@acme.example"].map(|to| (to.to_owned(), Action::AcceptThenClose)).into();
    let server = MailServer::start(Config::scripted(by_recipient(Stage::Dot, hidden))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let keys = house.submit(&(1..=20).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    for (n, key) in (1..).zip(&keys) {
        if n == 3 || n == 6 {
            assert!(house.item(key, Reason::ReconciliationRequired).await.in_doubt);
        } else {
            house.until(key, &["sent"]).await;
        }
    }
    assert_eq!(server.accepted_count(), 20);
}
