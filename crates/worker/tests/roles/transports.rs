//! What outcomes say about a transport: throttles, wrong set-ups, dead relays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use curfew_book::Book;
use curfew_domain::record::WaitingFor;
use curfew_testkit::mail_server::Event;
use curfew_testkit::mail_server::scripts::{self, always_at};
use curfew_testkit::mail_server::{Action, Config, Mechanism as Offered, Stage};
use curfew_testkit::{MailServer, eventually};
use curfew_transport::smtp::{Login, Mechanism, Secret};

use crate::house::{House, PATIENCE, Plan, lane, lane_with};

/// So many MAILs are let through in an interval, which the test begins anew.
fn budget(left: &Arc<AtomicU32>) -> impl Fn(&Event<'_>) -> Action + Send + Sync + 'static {
    let left = Arc::clone(left);
    move |event: &Event<'_>| {
        let spent = event.stage == Stage::Mail && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_err();
        if spent { Action::reply("450 4.2.1 Too many messages, slow down") } else { Action::Default }
    }
}

/// Incident 42: 450 "too many requests" was marked as an error and never tried again.
#[tokio::test]
async fn under_a_limit_of_the_provider_all_are_sent_and_none_is_dead_lettered() {
    let left = Arc::new(AtomicU32::new(12));
    let server = MailServer::start(Config::scripted(budget(&left))).await;
    let minutes = |n: u64| Duration::from_secs(n * 60);
    let plan = Plan { delays: vec![minutes(5), minutes(10)], lease: minutes(15), ..Plan::new(vec![lane("smtp", &server, 6)]) };
    let house = House::new(plan).await;
    let _roles = house.all().await;
    let mut mails: Vec<_> = (1..=70).map(|n| house.mail("acme", n)).collect();
    mails.iter_mut().for_each(|mail| mail.deadline_at = mail.release_at.plus(minutes(600)));
    let keys = house.submit(&mails).await;
    eventually(PATIENCE * 6, "all are sent", || async {
        let rows = house.book.holds().await.expect("the book answers");
        let cools = rows.iter().filter(|row| row.by == WaitingFor::CoolDown.word()).filter_map(|row| row.until).max();
        let live = house.ledger.live_by_state().await.expect("the ledger answers");
        let busy: u64 = live.iter().filter(|(state, _)| !matches!(state.word(), "scheduled")).map(|(_, n)| n).sum();
        if let Some(until) = cools.filter(|until| *until > house.now()) {
            house.advance(until.since(house.now()) + Duration::from_millis(1));
            left.store(12, Ordering::SeqCst);
        } else if busy == 0 {
            house.advance(minutes(1));
        }
        (server.accepted_count() == 70).then_some(())
    })
    .await;
    house.until_all(&keys, "sent").await;
    assert!(server.accepted_per_job().values().all(|times| *times == 1));
    let day = house.book.day("2026-12-01", None).await.expect("the book answers");
    assert_eq!((day.sent, day.dead_letter), (70, 0));
    // Only attempts that met a throttle count, and a throttle is met by those under way, never by all that wait.
    let mut attempts = 0;
    for key in &keys {
        attempts += house.row(key).await.attempts;
    }
    assert!(attempts < 70 + 70, "{attempts} attempts for 70 mails");
}

#[tokio::test]
async fn a_wrong_password_opens_the_circuit_at_once_and_costs_nobody_an_attempt() {
    let mut config = Config::scripted(always_at(Stage::Auth, Action::reply("535 5.7.8 Authentication credentials invalid")));
    config.extensions.auth = vec![Offered::Plain];
    let server = MailServer::start(config).await;
    let login = Login { mechanism: Mechanism::Plain, user: "curfew".into(), password: Secret::new("wrong") };
    let house = House::new(Plan::new(vec![lane_with("smtp", &server, 1, None, |config| config.auth = Some(login))])).await;
    let _roles = house.all().await;
    let keys = house.submit(&(1..=8).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    house.until_held("smtp", "circuit").await;
    house.until_all(&keys, "scheduled").await;
    assert_eq!(server.times_reached(Stage::Auth), 1, "one job met it");
    for key in &keys {
        let record = house.record(key).await.expect("it lives");
        assert_eq!((record.attempts, record.token), (0, None));
    }
    server.set_script(scripts::obedient());
    house.resume("smtp", "circuit").await;
    // What waited under the circuit looks again after its 30 s.
    house.advance(Duration::from_secs(31));
    house.until_all(&keys, "sent").await;
    assert_eq!(server.accepted_count(), 8);
}

/// Incident 55: a sender that its login doesn't own; every job was tried for ever.
#[tokio::test]
async fn three_jobs_whose_sender_is_refused_open_the_circuit_and_resume_sends_all() {
    let server =
        MailServer::start(Config::scripted(always_at(Stage::Mail, Action::reply("553 5.7.1 Sender address rejected: not owned by user")))).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 1)])).await;
    let _roles = house.all().await;
    let keys = house.submit(&(1..=9).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    house.until_held("smtp", "circuit").await;
    house.until_all(&keys, "scheduled").await;
    assert_eq!(server.times_reached(Stage::Mail), 3);
    server.set_script(scripts::obedient());
    house.resume("smtp", "circuit").await;
    house.advance(Duration::from_secs(31));
    house.until_all(&keys, "sent").await;
    for key in &keys {
        assert_eq!(house.row(key).await.attempts, 1, "what the set-up cost isn't counted");
    }
    assert_eq!(server.accepted_count(), 9);
}

/// A worker that died left its transport held for ever.
#[tokio::test]
async fn a_circuit_whose_worker_is_gone_is_watched_by_the_next_one() {
    let server =
        MailServer::start(Config::scripted(always_at(Stage::Mail, Action::reply("553 5.7.1 Sender address rejected: not owned by user")))).await;
    let plan = || vec![lane("smtp", &server, 1)];
    let house = House::new(Plan::new(plan())).await;
    let (_scheduler, worker, _deadletter) = house.all().await;
    let keys = house.submit(&(1..=4).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    house.until_held("smtp", "circuit").await;
    drop(worker);
    server.set_script(scripts::obedient());
    let house = house.with_lanes(plan());
    let _worker = house.worker().await;
    eventually(PATIENCE, "the new worker knows that it is open", || async { house.lane("smtp").circuit_is_open().then_some(()) }).await;
    house.resume("smtp", "circuit").await;
    house.advance(Duration::from_secs(31));
    house.until_all(&keys, "sent").await;
}

/// Incident 57: dial timeouts of one relay filled the internal queue.
#[tokio::test]
async fn a_dead_relay_holds_up_its_own_jobs_alone() {
    let dead = MailServer::start(Config::scripted(always_at(Stage::Greeting, Action::Silence))).await;
    let healthy = MailServer::start(Config::default()).await;
    let house = House::new(Plan { concurrency: 8, ..Plan::new(vec![lane("dead", &dead, 20), lane("smtp", &healthy, 20)]) }).await;
    let _roles = house.all().await;
    let stuck = house.submit(&(1..=60).map(|n| house.mail("acme", n).over("dead")).collect::<Vec<_>>()).await;
    dead.held_connections(Stage::Greeting, 6).await;
    let flowing = house.submit(&(101..=160).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    house.until_all(&flowing, "sent").await;
    assert_eq!(healthy.accepted_count(), 60);
    assert_eq!(dead.accepted_count(), 0);
    assert!(["scheduled", "queued", "claimed"].contains(&house.shown(&stuck[0]).await.as_str()));
}
