//! RabbitMQ's faults while jobs flow through seven processes: whatever it loses, holds back or does too early, each job is accepted at most once,
//! none is lost, none early, and consumption goes on without a human. The mail server lives in the test, and its log is the count.
//!
//! `CURFEW_FAULT_JOBS` (600; 5,000 is the long form) jobs flow in each test; an outage takes `CURFEW_FAULT_OUTAGE_S` (15; 120 is the long form).

use std::time::{Duration, Instant};

use curfew_domain::Moment;
use curfew_testkit::mail_server::Event;
use curfew_testkit::tcp_proxy::{Passage, TcpProxy};
use curfew_testkit::{Action, Stage};
use curfew_tests::fleet::WHOLE;
use curfew_tests::flow::{self, SCHEDULERS, Scene};
use curfew_tests::jobs::{in_time, job, key, now};
use curfew_tests::process::{self, Ran};
use curfew_tests::wait::{let_pass, until_within};
use curfew_tests::{Fleet, until};
use serde_json::Value;

/// How long a fault lasts that has a length, in seconds; 120 is the long form.
const OUTAGE_VARIABLE: &str = "CURFEW_FAULT_OUTAGE_S";
const OUTAGE_S: u64 = 15;
/// Jobs are due one after the other for so long, so that a fault meets all their states.
const SPREAD: Duration = Duration::from_secs(8);
/// What three workers may hold of four shards' queues beside what they claimed: their prefetch of 4.
const IN_HANDS: f64 = 3.0 * 4.0 * 4.0;

fn outage() -> Duration {
    let seconds = std::env::var(OUTAGE_VARIABLE).map_or(OUTAGE_S, |text| text.parse().expect("CURFEW_FAULT_OUTAGE_S is a whole number"));
    Duration::from_secs(seconds)
}

/// Deletes every queue whose name begins so, at once.
fn delete_queues(fleet: &Fleet, prefix: &str) {
    let delete = format!(
        "[catch rabbit_amqqueue:delete(Q, false, false, <<\"test\">>) || Q <- rabbit_amqqueue:list(<<\"{}\">>), \
         binary:match(element(4, amqqueue:get_name(Q)), <<\"{prefix}\">>) =/= nomatch], ok.",
        fleet.vhost()
    );
    fleet.servers.rabbit().ctl(&["eval", &delete]);
}

/// Jobs that are queued and not due for some time yet: their wake-ups stand on a rung.
fn on_rungs(fleet: &Fleet) -> usize {
    let soon = now().plus(Duration::from_secs(2));
    let ahead = |job: &Value| job["release_at"].as_str().and_then(Moment::parse).is_some_and(|due| due > soon);
    fleet.all_jobs("&state=queued").iter().filter(|job| ahead(job)).count()
}

fn check(fleet: &Fleet) -> Ran {
    process::run(&["check", "--config", &fleet.config().display().to_string()], b"")
}

/// A scheduler that leads a shard says that the broker takes nothing.
fn named_as_blocked(fleet: &Fleet) {
    let told = until("a scheduler that is told of the alarm", || {
        SCHEDULERS.iter().map(|name| fleet.probes(name).get("/readyz")).find(|answer| answer.status == 503)
    });
    assert!(told.text.contains("broker: it takes nothing"), "{}", told.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_broker_costs_time_alone() {
    let mut scene = Scene::begin().await;
    scene.feed(1, SPREAD);
    scene.flowed(50);
    scene.servers().rabbit().stop();
    scene.servers().rabbit().start_again();
    scene.ends_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purged_queues_are_filled_again_from_the_ledger() {
    let mut scene = Scene::begin().await;
    scene.feed(1, SPREAD);
    for mails in [20, 150] {
        scene.flowed(mails);
        scene.fleet.purge();
    }
    scene.ends_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_broker_is_away_jobs_are_taken_and_afterwards_they_flow_again() {
    let mut scene = Scene::begin().await;
    scene.feed(2, outage() / 2);
    scene.flowed(20);
    scene.servers().rabbit().stop();
    let since = Instant::now();
    for name in ["scheduler-1", "worker-1", "deadletter"] {
        let told = until(&format!("{name} names the broker"), || Some(scene.fleet.probes(name).get("/readyz")).filter(|answer| answer.status == 503));
        assert!(told.text.contains("broker"), "{name}: {}", told.text);
    }
    assert_eq!(scene.fleet.get("/readyz").status, 200, "the API needs no broker");
    scene.feed(2, outage());
    let_pass(outage().saturating_sub(since.elapsed()));
    scene.servers().rabbit().start_again();
    scene.ends_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_the_memory_alarm_nothing_is_released_and_afterwards_it_goes_on_by_itself() {
    let mut scene = Scene::begin().await;
    scene.feed(2, SPREAD);
    scene.flowed(50);
    scene.servers().rabbit().raise_memory_alarm();
    let first_under_alarm = scene.flow.fed();
    // A connection hears of the alarm when it publishes.
    scene.feed(2, Duration::ZERO);
    named_as_blocked(&scene.fleet);
    let checked = check(&scene.fleet).expect(1);
    assert!(checked.stdout.contains("blocked by an alarm"), "{}", checked.stdout);
    let_pass(outage() / 3);
    let under_alarm = |subject: &str| subject.split('-').next().and_then(|n| n.parse().ok()).is_some_and(|n: u64| n >= first_under_alarm);
    for accepted in scene.server.accepted() {
        let (to, _) = accepted.recipients[0].address.split_once('@').expect("an address");
        assert!(!under_alarm(to), "{to} was released while the broker took nothing");
    }
    scene.servers().rabbit().clear_memory_alarm();
    scene.ends_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_ready_queues_are_declared_anew_and_what_they_held_is_healed_into_silence() {
    let mut scene = Scene::begin().await;
    scene.feed(1, SPREAD);
    for mails in [20, 150] {
        scene.flowed(mails);
        delete_queues(&scene.fleet, "curfew.v1.ready.");
    }
    until("what no queue wanted is told", || SCHEDULERS.iter().find_map(|name| scene.fleet.metric(name, "curfew_stray_messages")));
    scene.ends_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_rungs_are_declared_anew_and_what_stood_on_them_arrives_late_but_arrives() {
    let mut scene = Scene::begin().await;
    scene.feed(1, scene.unhurried(SPREAD * 4));
    for _ in 0..2 {
        until("jobs on rungs", || (on_rungs(&scene.fleet) >= 10).then_some(()));
        delete_queues(&scene.fleet, "curfew.v1.delay.");
    }
    until("a job that is healed", || (scene.republished() > 0.0).then_some(()));
    scene.ends_well();
}

/// A policy that somebody set for all queues shortens every delay to a third of a second, and drops what waits longer in a ready queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wildcard_policy_that_shortens_a_ttl_is_named_and_no_job_is_early() {
    let mut scene = Scene::prepare().await;
    scene.servers().rabbit().ctl(&["set_policy", "-p", scene.fleet.vhost(), "tidy", ".*", r#"{"message-ttl":300}"#]);
    scene.fleet.run(&WHOLE);
    let checked = check(&scene.fleet).expect(1);
    let line = checked.stdout.lines().find(|line| line.starts_with("FAIL  broker's delays")).unwrap_or_else(|| panic!("{}", checked.stdout));
    assert!(line.contains("a policy shortens their TTL") && line.contains("rung 1"), "{line}");
    until("a scheduler names it", || SCHEDULERS.iter().any(|name| scene.fleet.log(name).contains("a policy shortens its TTL")).then_some(()));

    scene.feed(1, scene.unhurried(SPREAD * 2));
    scene.ends();
    scene.judge();
    let accepted = scene.server.accepted();
    for job in scene.fleet.all_jobs("") {
        let Some(mail) = accepted.iter().find(|mail| mail.job.as_deref() == job["id"].as_str()) else { continue };
        let at = mail.at.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
        let due = Moment::parse(job["release_at"].as_str().expect("a moment")).expect("a moment").as_millis();
        assert!(i128::try_from(at).expect("small") >= i128::from(due), "early: {job:#}");
    }
    let early: f64 = WHOLE.iter().filter_map(|(name, _)| scene.fleet.metric(name, "curfew_wakeups_total{result=\"early\"}")).sum();
    println!("{early} wake-ups came early, {} were published again", scene.republished());
    assert!(early > 0.0, "the workers count them");
    scene.servers().rabbit().ctl(&["clear_policy", "-p", scene.fleet.vhost(), "tidy"]);
}

/// Confirms that are swallowed on the way, of publishes that arrive; then publishes that are swallowed too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_whose_confirm_never_comes_counts_as_published() {
    let mut scene = Scene::prepare().await;
    let addr = scene.servers().rabbit().addr();
    let proxy = TcpProxy::start(addr).await.expect("a proxy can listen");
    let behind = scene.fleet.config_with(&addr.to_string(), &proxy.addr().to_string());
    SCHEDULERS.iter().for_each(|name| scene.fleet.configure(name, behind.clone()));
    scene.fleet.run(&WHOLE);
    for (passage, arrives) in [(Passage::Unanswered, true), (Passage::HalfOpen, false)] {
        scene.feed(4, SPREAD);
        scene.flows(20);
        let late = |fleet: &Fleet| SCHEDULERS.iter().map(|name| fleet.log(name).matches("a confirm didn't come in time").count()).sum::<usize>();
        let before = late(&scene.fleet);
        proxy.set(passage);
        let sent = scene.server.accepted_count();
        scene.feed(4, Duration::from_secs(2));
        until("a confirm that is missed", || (late(&scene.fleet) > before).then_some(()));
        if arrives {
            assert!(scene.server.accepted_count() > sent, "what was published is worked on, though nobody heard of it");
        }
        proxy.set(Passage::Open);
    }
    scene.ends_well();
}

/// While a relay hangs, everything waits in its queue for longer than its claim grace. Copies would only make the queue longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_is_not_multiplied_while_a_relay_hangs() {
    let mut scene = Scene::begin().await;
    scene.feed(2, Duration::ZERO);
    scene.flowed(20);
    // What is past that stage keeps its fate.
    scene.server.set_script(|event: &Event<'_>| if event.stage == Stage::Mail { Action::Silence } else { flow::fate(event) });
    let before = scene.republished();
    scene.feed(2, Duration::ZERO);
    // Ten claim graces.
    let_pass(Duration::from_secs(20));
    let repeated = scene.republished() - before;
    println!("{repeated} wake-ups published again while the relay hung");
    assert!(repeated <= IN_HANDS, "{repeated}: more than could be in hands while the queues looked empty");
    scene.server.set_script(flow::fate);
    scene.server.release();
    scene.ends_well();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_role_opens_the_connections_that_it_needs() {
    let mut scene = Scene::prepare().await;
    let roles = [("scheduler-1", "scheduler"), ("worker-1", "worker"), ("deadletter", "deadletter"), ("api", "api")];
    scene.fleet.run(&roles);
    let fleet = &scene.fleet;
    let mut planned = job("planned", "planned@example.com");
    planned["release_at"] = in_time(Duration::from_secs(1)).into();
    fleet.submit(&planned);
    fleet.job_in(&key("planned"), "sent");
    let listed = until_within(Duration::from_secs(30), "the connections", || {
        let listed = scene.servers().rabbit().ctl(&["list_connections", "vhost", "client_properties"]);
        let own: Vec<String> = listed.lines().filter(|line| line.starts_with(fleet.vhost())).map(str::to_owned).collect();
        (own.len() == 4).then_some(own)
    });
    let of = |purpose: &str| listed.iter().filter(|line| line.contains(&format!("curfew {purpose}"))).count();
    // The scheduler publishes and asks, worker and dead-letter consumer consume, the API needs no broker.
    assert_eq!((of("publish"), of("consume")), (1, 3), "{listed:#?}");
    scene.fleet.drains(&roles);
}
