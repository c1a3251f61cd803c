//! A rolling upgrade, forward and back: processes of this release and of the next one, whose format is one higher, share a fleet.
//!
//! No job is lost and none is sent twice, a writer stays on the older format until every registered process reads the new one, and what the
//! new one left behind waits untouched until a process that reads it is back. The mail server's log is the count.

use std::collections::BTreeSet;
use std::time::Duration;

use curfew_testkit::mail_server::Event;
use curfew_testkit::{Action, Config, MailServer, Stage};
use curfew_tests::jobs::{in_time, job, now};
use curfew_tests::process::next_binary;
use curfew_tests::{Fleet, Settings, until};
use serde_json::Value;

type Names = [(&'static str, &'static str); 4];

const OLD: Names = [("old-scheduler", "scheduler"), ("old-worker", "worker"), ("old-deadletter", "deadletter"), ("old-api", "api")];
const NEXT: Names = [("next-scheduler", "scheduler"), ("next-worker", "worker"), ("next-deadletter", "deadletter"), ("next-api", "api")];
/// Over and over: three of four are accepted in the end.
const FATES: [&str; 4] = ["ok", "late", "ok", "gone"];
/// For the end of what a step began, two loaded cores and a lease included.
const END: Duration = Duration::from_secs(100);
/// What a process says of a form that it can't read.
const UNREAD: [&str; 2] = ["newer than this process reads", "no form that Curfew writes"];

/// What the server does is written in the address.
fn fate(event: &Event<'_>) -> Action {
    let fate = event.recipient.and_then(|r| r.split_once('@')?.0.split_once('-')).map_or("", |(_, fate)| fate);
    match (fate, event.stage) {
        ("late", Stage::Rcpt) if event.attempt == 1 => Action::reply("451 4.3.0 Mailbox busy, try again later"),
        ("gone", Stage::Rcpt) => Action::reply("550 5.1.1 No such user here"),
        _ => Action::Default,
    }
}

/// One fleet on its way from one release to the next, and back.
struct Upgrade {
    fleet: Fleet,
    server: MailServer,
    /// Jobs imported so far, whose numbers go on.
    count: usize,
}

impl Upgrade {
    async fn begin() -> Self {
        let server = MailServer::start(Config::scripted(fate)).await;
        let settings = Settings::smtp(server.addr()).set("ledger.shards", "4").text("worker.lease", "10s").text("scheduler.claim_grace", "2s");
        let mut fleet = Fleet::start(settings, &OLD);
        NEXT.iter().for_each(|(name, _)| fleet.program(name, next_binary()));
        Self { fleet, server, count: 0 }
    }

    fn import(&mut self, count: usize, release: Duration) {
        let one = |n: usize| {
            let subject = format!("{n:04}-{}", FATES[n % FATES.len()]);
            let mut job = job(&subject, &format!("{subject}@example.com"));
            job["release_at"] = in_time(release).into();
            job
        };
        let jobs: Vec<Value> = (self.count..self.count + count).map(one).collect();
        assert_eq!(self.fleet.import(&jobs)["accepted"], count);
        self.count += count;
    }

    /// SIGTERM for all of them; each ends with nothing in hand.
    fn stop(&mut self, names: &Names) {
        names.iter().for_each(|(name, _)| self.fleet.terminate(name));
        for (name, _) in names {
            assert!(self.fleet.ended(name).success(), "{name}: {}", self.fleet.log(name));
        }
    }

    fn start_again(&mut self, names: &Names) {
        names.iter().for_each(|(name, _)| self.fleet.spawn(name));
        names.iter().for_each(|(name, _)| self.fleet.ready(name));
    }

    /// Every job that was imported has ended, each in its way, and none was sent twice.
    fn all_ended(&self) {
        let day = self.fleet.all_ended(self.count as u64, END);
        let accepted = self.server.accepted_per_job();
        assert!(accepted.values().all(|times| *times == 1), "accepted twice: {accepted:?}");
        let sent = accepts(self.count);
        let figures = ["sent", "dead_letter", "difference"].map(|name| day[name].as_u64().expect("a figure"));
        assert_eq!((figures, accepted.len()), ([sent as u64, (self.count - sent) as u64, 0], sent), "{day}");
    }

    /// The format in which the API that was started last writes.
    fn written(&self) -> u64 {
        self.fleet.get("/v1/fleet").json["writes_format"].as_u64().expect("a format")
    }

    /// The formats in which facts of jobs stand in the book: the number follows the map's head and the name `format`.
    fn in_the_book(&self) -> BTreeSet<String> {
        let config = std::fs::read_to_string(self.fleet.config()).expect("the configuration can be read");
        let schema = config.split_once("search_path]=").and_then(|(_, rest)| rest.split_once('"')).expect("a schema of its own").0;
        let found = self.fleet.servers.postgres.run(&format!("SELECT DISTINCT get_byte(facts, 8) FROM {schema}.jobs"));
        found.lines().map(str::to_owned).collect()
    }

    fn assert_all_was_read(&self, names: &Names) {
        for (name, _) in names {
            let log = self.fleet.log(name);
            let unread: Vec<&str> = log.lines().filter(|line| UNREAD.iter().any(|words| line.contains(words))).collect();
            assert!(unread.is_empty(), "{name}: {unread:#?}");
        }
    }

    fn side_by_side(&mut self) {
        self.import(120, Duration::ZERO);
        until("mails that flow", || (self.server.accepted_count() > 20).then_some(()));
        self.fleet.run(&NEXT);
        assert_eq!(self.written(), 1, "an old process is registered");
        self.import(160, Duration::ZERO);
        self.all_ended();
        for worker in ["old-worker", "next-worker"] {
            assert!(self.fleet.log(worker).contains(r#""msg":"sent""#), "{worker} sent some");
        }
        assert_eq!(self.in_the_book(), BTreeSet::from(["1".to_owned()]));
        self.assert_all_was_read(&OLD);
        self.assert_all_was_read(&NEXT);
    }

    fn all_new(&mut self) {
        self.stop(&OLD);
        for (name, _) in NEXT {
            until(&format!("{name} writes the new format"), || self.fleet.log(name).contains("writes format 2").then_some(()));
        }
        assert_eq!(self.written(), 2);
        self.import(120, Duration::ZERO);
        self.all_ended();
        assert_eq!(self.in_the_book(), BTreeSet::from(["1".to_owned(), "2".to_owned()]));
        self.assert_all_was_read(&NEXT);
    }

    /// What the new format left, staged and planned, is nothing to an old fleet, which works around it; new processes finish it.
    fn back_over_what_is_left(&mut self) {
        let (late, release) = (40, Duration::from_secs(20));
        let due = now().plus(release);
        self.import(late, release);
        until("late jobs in the ledger", || (self.fleet.get("/v1/fleet").json["jobs"]["scheduled"] == late).then_some(()));
        self.fleet.terminate("next-scheduler");
        assert!(self.fleet.ended("next-scheduler").success());
        let planned = 20;
        self.import(planned, Duration::ZERO);
        let [_, rest @ ..] = NEXT;
        rest.iter().for_each(|(name, _)| self.fleet.terminate(name));
        rest.iter().for_each(|(name, _)| assert!(self.fleet.ended(name).success(), "{name}"));

        self.start_again(&OLD);
        assert_eq!(self.written(), 1);
        let left = accepts(self.count);
        let before = self.server.accepted_count();
        self.import(80, Duration::ZERO);
        let done = before + (accepts(self.count) - left) as u64;
        until("what is old is sent", || (self.server.accepted_count() >= done).then_some(()));
        until("the moment of the late ones is over", || (now() > due.plus(Duration::from_secs(3))).then_some(()));
        assert_eq!(self.server.accepted_count(), done, "what is new is left alone");

        // An old scheduler leaves a shard where it meets what it can't read, as soon as another seeks it.
        self.start_again(&NEXT);
        self.all_ended();
        assert!(self.fleet.log("old-scheduler").contains("it is left to the others"), "it gave way");
        self.stop(&OLD);
        until("who has left counts no more", || (self.written() == 2).then_some(()));
    }

    fn all_old(&mut self) {
        self.stop(&NEXT);
        self.start_again(&OLD);
        self.import(60, Duration::ZERO);
        self.all_ended();
    }
}

/// How many of the first `count` jobs the server accepts in the end.
fn accepts(count: usize) -> usize {
    (0..count).filter(|n| FATES[n % FATES.len()] != "gone").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_and_the_way_back_lose_no_job_and_send_none_twice() {
    let mut upgrade = Upgrade::begin().await;
    upgrade.side_by_side();
    upgrade.all_new();
    upgrade.back_over_what_is_left();
    upgrade.all_old();
}
