//! An operator's verbs, in every state that a job can be met in.

use std::time::Duration;

use curfew_courier::VerbOutcome;
use curfew_domain::verb::Verb;
use curfew_domain::{Key, Moment};
use curfew_testkit::MailServer;
use curfew_testkit::mail_server::Config;
use curfew_worker::pause::Point;

use crate::faults::Stops;
use crate::house::{House, Plan, Running, lane};

/// Where a job stands when the verb comes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum At {
    Planned,
    Scheduled,
    Queued,
    Claimed,
}

const ALL: [At; 4] = [At::Planned, At::Scheduled, At::Queued, At::Claimed];

struct Scene {
    house: House,
    server: MailServer,
    stops: std::sync::Arc<Stops>,
    key: Key,
    _scheduler: Running<curfew_scheduler::Scheduler>,
    _deadletter: Running<curfew_deadletter::DeadLetter>,
    worker: Option<Running<curfew_worker::Worker>>,
}

async fn scene(at: At, point: Point) -> Scene {
    let server = MailServer::start(Config::default()).await;
    let stops = Stops::at(point);
    let house = House::new(Plan { pauses: stops.clone(), ..Plan::new(vec![lane("smtp", &server, 2)]) }).await;
    let ahead = match at {
        At::Planned => Duration::from_secs(86_400),
        At::Scheduled => Duration::from_secs(300),
        At::Queued | At::Claimed => Duration::ZERO,
    };
    let (_scheduler, _deadletter) = (house.scheduler(), house.deadletter());
    let key = house.submit_one(&house.mail("acme", 1).released_in(ahead)).await;
    let mut worker = None;
    match at {
        At::Planned => {}
        At::Scheduled => house.until(&key, &["scheduled"]).await,
        At::Queued => house.until(&key, &["queued"]).await,
        At::Claimed => {
            worker = Some(house.worker().await);
            stops.reached().await;
        }
    }
    Scene { house, server, stops, key, _scheduler, _deadletter, worker }
}

/// Another job goes through afterwards, so whatever was under way has had its chance.
async fn and_then_another(scene: &mut Scene) {
    scene.stops.let_go();
    if scene.worker.is_none() {
        scene.worker = Some(scene.house.worker().await);
    }
    let other = scene.house.submit_one(&scene.house.mail("acme", 2)).await;
    scene.house.until(&other, &["sent"]).await;
}

#[tokio::test]
async fn a_cancelled_job_is_never_sent_wherever_it_stood() {
    for at in ALL {
        let mut scene = scene(at, Point::BeforeIntent).await;
        let outcome = scene.house.verb(&scene.key, Verb::Cancel).await;
        assert!(matches!(outcome, VerbOutcome::Applied(_)), "{at:?}: {outcome:?}");
        assert_eq!(scene.house.row(&scene.key).await.state.word(), "cancelled", "{at:?}: the caller is told when it stands");
        and_then_another(&mut scene).await;
        assert_eq!(scene.server.accepted_count(), 1, "{at:?}");
        assert!(matches!(scene.house.verb(&scene.key, Verb::Cancel).await, VerbOutcome::Applied(_)), "{at:?}: asked again it is done");
    }
}

#[tokio::test]
async fn a_suppressed_job_is_never_sent_wherever_it_stood() {
    for at in ALL {
        let mut scene = scene(at, Point::BeforeIntent).await;
        let outcome = scene.house.verb(&scene.key, Verb::Suppress).await;
        assert!(matches!(outcome, VerbOutcome::Applied(_)), "{at:?}: {outcome:?}");
        and_then_another(&mut scene).await;
        scene.house.until(&scene.key, &["suppressed"]).await;
        assert_eq!(scene.server.accepted_count(), 1, "{at:?}");
    }
}

#[tokio::test]
async fn a_moved_job_runs_at_its_new_time_wherever_it_stood() {
    for at in ALL {
        let mut scene = scene(at, Point::BeforeIntent).await;
        let later: Moment = scene.house.now().plus(Duration::from_secs(5_400));
        let outcome = scene.house.verb(&scene.key, Verb::Move { release_at: later, deadline_at: later.plus(Duration::from_secs(600)) }).await;
        assert!(matches!(outcome, VerbOutcome::Applied(_)), "{at:?}: {outcome:?}");
        let row = scene.house.row(&scene.key).await;
        assert_eq!((row.job.release_at, row.generation), (later, 1), "{at:?}");
        and_then_another(&mut scene).await;
        assert_eq!(scene.server.accepted_count(), 1, "{at:?}: not before its new release");
        scene.house.advance(Duration::from_secs(5_401));
        scene.house.until(&scene.key, &["sent"]).await;
        assert_eq!(scene.house.row(&scene.key).await.attempts, 1, "{at:?}");
        assert_eq!(scene.server.accepted_count(), 2, "{at:?}");
    }
}

#[tokio::test]
async fn every_verb_is_refused_in_handoff_and_after_the_end() {
    let scene = scene(At::Claimed, Point::AfterIntent).await;
    let later = scene.house.now().plus(Duration::from_secs(600));
    let verbs = || [Verb::Cancel, Verb::Suppress, Verb::Move { release_at: later, deadline_at: later.plus(Duration::from_secs(600)) }];
    for verb in verbs() {
        assert_eq!(scene.house.verb(&scene.key, verb).await, VerbOutcome::Refused("handoff"));
    }
    scene.stops.let_go();
    scene.house.until(&scene.key, &["sent"]).await;
    for verb in verbs() {
        assert_eq!(scene.house.verb(&scene.key, verb).await, VerbOutcome::Refused("sent"));
    }
    assert_eq!(scene.server.accepted_count(), 1);
}

#[tokio::test]
async fn a_verb_whose_caller_died_is_finished_by_a_scheduler() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 1)])).await;
    let scheduler = house.scheduler();
    let key = house.submit_one(&house.mail("acme", 1)).await;
    house.until(&key, &["queued"]).await;
    let request = curfew_book::VerbRequest {
        key: key.clone(),
        verb: Verb::Cancel,
        actor: "alice".to_owned(),
        reason: "asked by the customer".to_owned(),
        at: house.now(),
        book_alone_from: house.now().plus(Duration::from_secs(720)),
    };
    let opened = curfew_book::Book::open_verb(&*house.book, request).await.expect("the book answers");
    assert!(matches!(opened, curfew_book::OpenedVerb::Open(..)));
    house.advance(Duration::from_secs(6));
    house.until(&key, &["cancelled"]).await;
    scheduler.finish().await;
}
