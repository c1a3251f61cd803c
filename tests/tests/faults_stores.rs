//! P1 and P2 while the book is away and while connections break: killed and stopped PostgreSQL, and links that are cut, half open or slow.
//!
//! A half-open link swallows what is said and refuses nothing: only the bounds on waiting notice it. `CURFEW_FAULT_JOBS=5000` is the long form.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use curfew_testkit::{MailServer, Passage, TcpProxy};
use curfew_tests::fleet::{Servers, WHOLE};
use curfew_tests::flow::{self, Flow};
use curfew_tests::jobs::job;
use curfew_tests::wait::let_pass;
use curfew_tests::{Fleet, until};
use tokio::sync::Mutex;

/// One at a time: they share servers, which some of them kill, and two cores.
static TURN: Mutex<()> = Mutex::const_new(());

/// Waits until the server has accepted so many more.
fn flows(server: &MailServer, more: u64) {
    let before = server.accepted_count();
    until(&format!("{more} more accepted mails"), || (server.accepted_count() >= before + more).then_some(()));
}

/// Waits until everything that was handed in is the ledger's, and mails flow.
fn staged(fleet: &Fleet, server: &MailServer) {
    until("everything is staged", || (fleet.day()["planned"] == 0).then_some(()));
    flows(server, 5);
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
    let (servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = flow::mail_server().await;
    let mut fleet = Fleet::start(flow::settings(&server), &WHOLE);
    let mut flow = Flow::new();
    for n in 0..3 {
        flow.feed(&fleet, 3, Duration::from_secs(30));
        staged(&fleet, &server);
        servers.postgres.kill9();
        flows(&server, 20);
        refused(&fleet, &format!("refused-{n}"));
        for name in ["scheduler-1", "scheduler-2", "deadletter", "api"] {
            misses(&fleet, name, "book");
        }
        assert_eq!(fleet.probes("worker-1").get("/readyz").status, 200, "a worker needs no book");
        servers.postgres.restart();
        let begun = Instant::now();
        for (name, _) in WHOLE {
            fleet.ready(name);
        }
        println!("kill {n}: everybody is ready {:?} after PostgreSQL is", begun.elapsed());
    }
    flow.ends(&fleet);
    flow.judge(&fleet, &server);
    for n in 0..3 {
        fleet.submit(&job(&format!("refused-{n}"), "again@example.com"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_away_for_twenty_seconds_costs_time_alone() {
    let (servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = flow::mail_server().await;
    let fleet = Fleet::start(flow::settings(&server), &WHOLE);
    let mut flow = Flow::new();
    flow.feed(&fleet, 2, Duration::from_secs(45));
    staged(&fleet, &server);
    servers.postgres.stop();
    let_pass(Duration::from_secs(20));
    flows(&server, 10);
    refused(&fleet, "refused");
    servers.postgres.restart();
    until("the door is open again", || (fleet.get("/readyz").status == 200).then_some(()));
    flow.feed(&fleet, 2, Duration::from_secs(5));
    flow.ends(&fleet);
    flow.judge(&fleet, &server);
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
    let (servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = flow::mail_server().await;
    let mut fleet = Fleet::prepare(flow::settings(&server));
    let to = (link.to)(&servers);
    let proxy = TcpProxy::start(to).await.expect("it listens");
    let config = fleet.config_with(&to.to_string(), &proxy.addr().to_string());
    for name in link.of {
        fleet.configure(name, config.clone());
    }
    fleet.run(&WHOLE);
    let mut flow = Flow::new();
    let mut begun = Instant::now();
    let mut told = |what: &str| {
        println!("{} {what}: everything ended after {:?}", link.service, begun.elapsed());
        begun = Instant::now();
    };

    flow.feed(&fleet, 6, Duration::from_secs(6));
    for _cut in 0..3 {
        flows(&server, 10);
        proxy.cut();
    }
    flow.ends(&fleet);
    told("cut");

    flow.feed(&fleet, 6, Duration::from_secs(10));
    // So slow that calls are under way when it dies.
    proxy.set(Passage::Delayed(Duration::from_millis(200)));
    flows(&server, 10);
    proxy.set(Passage::HalfOpen);
    if !link.of.contains(&"api") {
        flow.feed(&fleet, 6, Duration::ZERO);
    }
    for name in link.needed_by {
        misses(&fleet, name, link.service);
    }
    // What stood in the dark stays there: no real network lets later bytes through where earlier ones were lost.
    proxy.lose();
    proxy.set(Passage::Open);
    if link.of.contains(&"api") {
        flow.feed(&fleet, 6, Duration::ZERO);
    }
    flow.ends(&fleet);
    told("half open");

    flow.feed(&fleet, 6, Duration::from_secs(6));
    flows(&server, 10);
    proxy.lose();
    flow.feed(&fleet, 6, Duration::ZERO);
    flow.ends(&fleet);
    told("lost");

    proxy.set(Passage::Delayed(Duration::from_millis(200)));
    flow.feed(&fleet, 6, Duration::from_secs(2));
    flow.ends(&fleet);
    proxy.set(Passage::Open);
    told("slow");

    for (name, _) in WHOLE {
        fleet.ready(name);
    }
    flow.judge(&fleet, &server);
}

const WORKERS: [&str; 3] = ["worker-1", "worker-2", "worker-3"];
const SCHEDULERS: [&str; 2] = ["scheduler-1", "scheduler-2"];

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
