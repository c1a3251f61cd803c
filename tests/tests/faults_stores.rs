//! P1 and P2 while the book is away and while connections break: killed and stopped PostgreSQL, and links that are cut, half open or slow.
//!
//! A half-open link swallows what is said and refuses nothing: only the bounds on waiting notice it. `CURFEW_FAULT_JOBS=5000` is the long form.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use curfew_testkit::{Passage, TcpProxy};
use curfew_tests::fleet::{Servers, WHOLE};
use curfew_tests::flow::{SCHEDULERS, Scene};
use curfew_tests::jobs::job;
use curfew_tests::wait::let_pass;
use curfew_tests::{Fleet, until};

/// Waits until everything that was handed in is the ledger's, and mails flow.
fn staged(scene: &Scene) {
    until("everything is staged", || (scene.fleet.day()["planned"] == 0).then_some(()));
    scene.flows(5);
}

/// Waits until a process says that it misses something.
fn misses(fleet: &Fleet, name: &str, what: &str) {
    until(&format!("{name} misses the {what}"), || {
        let told = fleet.probes(name).try_get("/readyz").ok()?;
        (told.status == 503 && told.text.contains(what)).then_some(())
    });
}

/// Nothing is accepted at the door while the book is away, and what is handed in again is taken once.
fn refused(fleet: &Fleet, subject: &str) {
    let answer = fleet.post("/v1/jobs", &job(subject, &format!("{subject}@example.com")));
    assert_eq!(answer.status, 503, "{}", answer.text);
    assert!(answer.json["title"].is_string(), "a problem that explains itself: {}", answer.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgresql_is_killed_staged_work_goes_on_and_settles_wait() {
    let mut scene = Scene::begin().await;
    for n in 0..3 {
        scene.feed(3, Duration::from_secs(30));
        staged(&scene);
        scene.servers().postgres.kill9();
        scene.flows(20);
        refused(&scene.fleet, &format!("refused-{n}"));
        for name in ["scheduler-1", "scheduler-2", "deadletter", "api"] {
            misses(&scene.fleet, name, "book");
        }
        assert_eq!(scene.fleet.probes("worker-1").get("/readyz").status, 200, "a worker needs no book");
        scene.servers().postgres.restart();
        let begun = Instant::now();
        for (name, _) in WHOLE {
            scene.fleet.ready(name);
        }
        println!("kill {n}: everybody is ready {:?} after PostgreSQL is", begun.elapsed());
    }
    scene.ends();
    scene.judge();
    for n in 0..3 {
        scene.fleet.submit(&job(&format!("refused-{n}"), "again@example.com"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_away_for_twenty_seconds_costs_time_alone() {
    let mut scene = Scene::begin().await;
    scene.feed(2, scene.unhurried(Duration::from_secs(45)));
    staged(&scene);
    scene.servers().postgres.stop();
    let_pass(Duration::from_secs(20));
    scene.flows(10);
    refused(&scene.fleet, "refused");
    scene.servers().postgres.restart();
    until("the door is open again", || (scene.fleet.get("/readyz").status == 200).then_some(()));
    scene.feed(2, Duration::from_secs(5));
    scene.ends();
    scene.judge();
}

/// One server, as some processes reach it.
struct Link {
    to: fn(&Servers) -> SocketAddr,
    /// As readiness calls it.
    service: &'static str,
    /// Who goes through the proxy.
    of: &'static [&'static str],
    /// Who of them isn't ready without it.
    needed_by: &'static [&'static str],
}

/// Cuts it thrice, lets it die half-way with everybody on it, loses what stands while new connections are served, and slows it down. After
/// each, everything that was handed in ends by itself.
async fn breaks(link: Link) {
    let mut scene = Scene::prepare().await;
    let to = (link.to)(scene.servers());
    let proxy = TcpProxy::start(to).await.expect("it listens");
    let config = scene.fleet.config_with(&to.to_string(), &proxy.addr().to_string());
    for name in link.of {
        scene.fleet.configure(name, config.clone());
    }
    scene.fleet.run(&WHOLE);
    let mut begun = Instant::now();
    let mut told = |what: &str| {
        println!("{} {what}: everything ended after {:?}", link.service, begun.elapsed());
        begun = Instant::now();
    };

    scene.feed(6, Duration::from_secs(6));
    for _cut in 0..3 {
        scene.flows(10);
        proxy.cut();
    }
    scene.ends();
    told("cut");

    scene.feed(6, Duration::from_secs(10));
    // So slow that calls are under way when it dies.
    proxy.set(Passage::Delayed(Duration::from_millis(200)));
    scene.flows(10);
    proxy.set(Passage::HalfOpen);
    if !link.of.contains(&"api") {
        scene.feed(6, Duration::ZERO);
    }
    for name in link.needed_by {
        misses(&scene.fleet, name, link.service);
    }
    // What stood in the dark stays there: no real network lets later bytes through where earlier ones were lost.
    proxy.lose();
    proxy.set(Passage::Open);
    if link.of.contains(&"api") {
        scene.feed(6, Duration::ZERO);
    }
    scene.ends();
    told("half open");

    scene.feed(6, Duration::from_secs(6));
    scene.flows(10);
    proxy.lose();
    scene.feed(6, Duration::ZERO);
    scene.ends();
    told("lost");

    proxy.set(Passage::Delayed(Duration::from_millis(200)));
    scene.feed(6, Duration::from_secs(2));
    scene.ends();
    proxy.set(Passage::Open);
    told("slow");

    for (name, _) in WHOLE {
        scene.fleet.ready(name);
    }
    scene.judge();
}

const WORKERS: [&str; 3] = ["worker-1", "worker-2", "worker-3"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_of_workers_to_redis_may_break() {
    breaks(Link { to: |servers| servers.redis.addr(), service: "ledger", of: &WORKERS, needed_by: &WORKERS }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_of_schedulers_to_redis_may_break() {
    breaks(Link { to: |servers| servers.redis.addr(), service: "ledger", of: &SCHEDULERS, needed_by: &SCHEDULERS }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_to_postgresql_may_break() {
    const OF: [&str; 7] = ["scheduler-1", "scheduler-2", "deadletter", "api", "worker-1", "worker-2", "worker-3"];
    let to = |servers: &Servers| SocketAddr::from(([127, 0, 0, 1], servers.postgres.port()));
    breaks(Link { to, service: "book", of: &OF, needed_by: &["scheduler-1", "scheduler-2", "deadletter", "api"] }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_to_rabbitmq_may_break() {
    const OF: [&str; 6] = ["scheduler-1", "scheduler-2", "deadletter", "worker-1", "worker-2", "worker-3"];
    breaks(Link { to: |servers| servers.rabbit().addr(), service: "broker", of: &OF, needed_by: &OF }).await;
}
