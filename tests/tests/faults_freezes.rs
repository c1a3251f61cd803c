//! P1 and P2 under `kill -9` and SIGSTOP: of each process of a fleet, of all at once, and between two steps that must not be torn apart.
//!
//! Moments are announced by `--pause-at`; the process is frozen there by SIGSTOP and goes on from there at SIGCONT. The only time that passes by
//! itself is that of leases and of the 60 s after which a create refuses what was read. `CURFEW_FAULT_JOBS=5000` is the long form.

use std::time::{Duration, Instant};

use curfew_testkit::MailServer;
use curfew_tests::fleet::{Servers, WHOLE};
use curfew_tests::flow::{self, Flow};
use curfew_tests::jobs::{job, key};
use curfew_tests::wait::let_pass;
use curfew_tests::{Fleet, until};
use tokio::sync::Mutex;

/// The shortest that there is.
const LEASE: Duration = Duration::from_secs(10);

/// One at a time: they share servers and two cores.
static TURN: Mutex<()> = Mutex::const_new(());

/// Waits until the server has accepted so many more.
fn flows(server: &MailServer, more: u64) {
    let before = server.accepted_count();
    until(&format!("{more} more accepted mails"), || (server.accepted_count() >= before + more).then_some(()));
}

fn accepted(server: &MailServer, fleet: &Fleet, subject: &str) -> u32 {
    let id = fleet.job(&key(subject))["id"].as_str().expect("a job has an id").to_owned();
    server.accepted_per_job().get(&id).copied().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_process_and_all_at_once_may_be_killed() {
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = flow::mail_server().await;
    let mut fleet = Fleet::start(flow::settings(&server), &WHOLE);
    let mut flow = Flow::new();
    for name in ["worker-1", "scheduler-1", "scheduler-2", "deadletter", "api"] {
        flow.feed(&fleet, 6, Duration::from_secs(3));
        flows(&server, 20);
        fleet.kill9(name);
        fleet.spawn(name);
        flows(&server, 20);
        fleet.ready(name);
    }
    flow.feed(&fleet, 6, Duration::from_secs(3));
    flows(&server, 20);
    for (name, _) in WHOLE {
        fleet.kill9(name);
    }
    for (name, _) in WHOLE {
        fleet.spawn(name);
    }
    for (name, _) in WHOLE {
        fleet.ready(name);
    }
    flow.ends(&fleet);
    flow.judge(&fleet, &server);
}

/// Two jobs of one worker: of one the end marker isn't written yet, of the other the provider has answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_frozen_past_its_leases_sends_nothing_more_and_its_late_verdict_counts() {
    let (_servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = flow::mail_server().await;
    let mut fleet = Fleet::prepare(flow::settings(&server));
    fleet.arguments("worker-1", &["--pause-at", "last-look=unsent", "--pause-at", "after-verdict=answered"]);
    fleet.run(&WHOLE.map(|(name, role)| (name, role)).into_iter().filter(|(name, _)| !matches!(*name, "worker-2" | "worker-3")).collect::<Vec<_>>());
    let mut flow = Flow::new();
    for subject in ["unsent", "answered"] {
        fleet.submit(&job(subject, &format!("{subject}@example.com")));
        flow.also(1);
    }
    assert_eq!(fleet.paused("worker-1", "last-look"), key("unsent"));
    assert_eq!(fleet.paused("worker-1", "after-verdict"), key("answered"));
    fleet.stop("worker-1");
    let frozen = Instant::now();
    fleet.run(&[("worker-2", "worker"), ("worker-3", "worker")]);
    flow.feed(&fleet, 2, Duration::from_secs(5));
    for subject in ["unsent", "answered"] {
        let doubt = fleet.job_in(&key(subject), "dead_letter");
        assert_eq!((doubt["reason"].as_str(), doubt["in_doubt"].as_bool()), (Some("reconciliation_required"), Some(true)), "{doubt:#}");
        assert_eq!(fleet.item_of(&key(subject))["status"], "open");
    }
    assert!(frozen.elapsed() > LEASE / 2, "its lease had to end first: {:?}", frozen.elapsed());

    fleet.cont("worker-1");
    let sent = fleet.job_in(&key("answered"), "sent");
    assert_eq!((sent["receipt"]["code"].as_u64(), sent["in_doubt"].as_bool()), (Some(250), Some(false)), "{sent:#}");
    until("the resolved item", || (fleet.item_of(&key("answered"))["status"] == "resolved").then_some(()));
    let sure = until("the end of the doubt", || Some(fleet.job(&key("unsent"))).filter(|job| job["in_doubt"] == false));
    assert_eq!(sure["state"], "dead_letter", "{sure:#}");
    assert_eq!((accepted(&server, &fleet, "unsent"), server.cut_off()), (0, 1), "the end marker was never written");
    flow.feed(&fleet, 2, Duration::from_secs(2));
    flow.ends(&fleet);
    flow.judge(&fleet, &server);
}

/// Freezes a scheduler that has read a row and not staged it, and a dead-letter consumer that has read a record and not written its item.
/// Others do their work meanwhile, and an operator replays the dead letter and cancels a job that was read with the other. With `forgotten` the record of the job is gone from the ledger when
/// the scheduler goes on, as after its 48 h: only the age of what it read keeps it from beginning the job anew.
async fn frozen_between_reading_and_writing(frozen: Duration, forgotten: bool) {
    let (servers, _turn) = (Servers::shared(), TURN.lock().await);
    let server = flow::mail_server().await;
    let mut fleet = Fleet::prepare(flow::settings(&server));
    fleet.arguments("deadletter", &["--pause-at", "before-record=1-once"]);
    fleet.arguments("scheduler-1", &["--pause-at", "before-staging=2-read"]);
    fleet.run(&[("scheduler-1", "scheduler"), ("worker-1", "worker"), ("deadletter", "deadletter"), ("api", "api")]);
    let mut flow = Flow::new();
    let submit = |fleet: &Fleet, flow: &mut Flow, subject: &str| {
        fleet.submit(&job(subject, &format!("{subject}@example.com")));
        flow.also(1);
    };
    submit(&fleet, &mut flow, "1-once");
    assert_eq!(fleet.paused("deadletter", "before-record"), key("1-once"));
    fleet.stop("deadletter");
    fleet.import(&["2-read", "2-cancelled"].map(|subject| job(subject, &format!("{subject}@example.com"))));
    flow.also(2);
    assert_eq!(fleet.paused("scheduler-1", "before-staging"), key("2-read"));
    fleet.stop("scheduler-1");
    let begun = Instant::now();
    fleet.cli(&["jobs", "cancel", &key("2-cancelled"), "--reason", "no longer wanted"]).expect(0);

    fleet.run(&[("scheduler-2", "scheduler"), ("deadletter-2", "deadletter")]);
    let item = fleet.item_of(&key("1-once"))["id"].as_str().expect("an item has an id").to_owned();
    fleet.cli(&["review", "replay", &item, "--deadline", "+1h", "--reason", "the mailbox is there now"]).expect(0);
    assert_eq!(fleet.job_in(&key("1-once"), "sent")["generation"], 2);
    fleet.job_in(&key("2-read"), "sent");
    flow.feed(&fleet, 2, Duration::from_secs(5));
    flow.ends(&fleet);
    let_pass(frozen.saturating_sub(begun.elapsed()));
    if forgotten {
        let database = fleet.vhost().trim_start_matches("fleet-").to_owned();
        let forget = "redis.call('select', ARGV[1]); return redis.call('del', unpack(redis.call('keys', '*' .. ARGV[2] .. '*')))";
        let deleted = servers.redis.ask(&["EVAL", forget, "0", &database, &key("2-read")]).await;
        assert!(deleted.text().parse::<u64>().is_ok_and(|keys| keys > 0), "{deleted:?}");
    }

    // From here on the frozen ones are alone: what is done now is done by them, after what they had in hand.
    fleet.kill9("scheduler-2");
    fleet.kill9("deadletter-2");
    fleet.cont("scheduler-1");
    fleet.cont("deadletter");
    flow.feed(&fleet, 2, Duration::from_secs(2));
    submit(&fleet, &mut flow, "3-gone");
    fleet.item_of(&key("3-gone"));
    flow.ends(&fleet);
    assert_eq!(fleet.all_items("").iter().filter(|item| item["key"] == key("1-once")).count(), 1, "the replayed dead letter isn't told again");
    for (subject, state, times) in [("1-once", "sent", 1), ("2-read", "sent", 1), ("2-cancelled", "cancelled", 0)] {
        assert_eq!((fleet.job(&key(subject))["state"].as_str(), accepted(&server, &fleet, subject)), (Some(state), times), "{subject}");
    }
    flow.judge(&fleet, &server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_freezes_between_reading_and_writing_finds_it_done() {
    frozen_between_reading_and_writing(Duration::from_secs(10), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_frozen_for_over_a_minute_begins_no_job_anew() {
    frozen_between_reading_and_writing(Duration::from_secs(65), true).await;
}
