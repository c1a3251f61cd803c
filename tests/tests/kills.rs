//! P1 and P2 under `kill -9`: wherever a job was when its process died, it is accepted at most once, and it is never lost.
//!
//! The mail server lives in this test and survives every kill, so its log is the count. Before each restart the killed process's files say
//! where its jobs were; the run prints that table and fails where a state was never a victim.
//!
//! `CURFEW_KILLS=200 CURFEW_KILL_JOBS=2000` is the long form.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_testkit::mail_server::Event;
use curfew_testkit::{Action, Config, MailServer, Stage};
use curfew_tests::autopsy::{VICTIMS, victims};
use curfew_tests::jobs::{in_time, is_terminal, job};
use curfew_tests::judge::none_twice;
use curfew_tests::{Curfew, Settings, until};
use serde_json::{Value, json};

/// Few, so that a table of one run shows jobs of every shard.
const SHARDS: u8 = 4;
/// More kills where a state wasn't met yet.
const EXTRA_KILLS_MAX: usize = 10;
/// In each wave: the fates of its jobs, over and over.
const FATES: [&str; 10] = ["ok", "late", "ok", "lost", "ok", "gone", "busy", "ok", "planned", "ok"];

/// When a kill comes.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// As soon as the import is answered.
    Accepted,
    /// A delivery has come to a point of `--pause-at`; of jobs whose key contains the text.
    Point(&'static str, &'static str),
    /// Mails flow.
    Flow,
}

const MOMENTS: [Moment; 10] = [
    Moment::Accepted,
    Moment::Point("after-claim", ""),
    Moment::Flow,
    Moment::Point("before-intent", ""),
    Moment::Point("after-intent", ""),
    Moment::Point("last-look", ""),
    Moment::Point("after-verdict", ""),
    Moment::Point("after-report", "ok"),
    Moment::Point("after-report", "lost"),
    Moment::Flow,
];

/// What the server does is written in the address: a transient failure, a lost reply, a refusal, a refused content.
fn fate(event: &Event<'_>) -> Action {
    let fate = event.recipient.and_then(|r| r.split_once('-')).map_or("", |(fate, _)| fate);
    match (fate, event.stage) {
        ("late", Stage::Rcpt) if event.attempt <= 2 => Action::reply("451 4.3.0 Mailbox busy, try again later"),
        ("gone", Stage::Rcpt) => Action::reply("550 5.1.1 No such user here"),
        ("busy", Stage::Dot) if event.attempt == 1 => Action::reply("451 4.3.2 System not accepting messages now"),
        ("lost", Stage::Dot) => Action::AcceptThenReset,
        _ => Action::Default,
    }
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a whole number")))
}

fn settings(server: &MailServer) -> Settings {
    Settings::smtp(server.addr()).set("ledger.shards", &SHARDS.to_string()).set("worker.concurrency", "4").text("worker.lease", "10s").patient()
}

fn wave(number: usize, size: usize) -> Vec<Value> {
    let one = |n: usize| {
        let fate = FATES[n % FATES.len()];
        let subject = format!("{fate}-{number:03}-{n:03}");
        let mut job = job(&subject, &format!("{subject}@example.com"));
        job["policy"] = "patient".into();
        job["deadline_at"] = in_time(Duration::from_secs(6 * 3600)).into();
        if fate == "planned" {
            job["release_at"] = in_time(Duration::from_secs(2 * 3600)).into();
        }
        job
    };
    (0..size).map(one).collect()
}

/// Brings a Curfew to the moment, with new jobs, and kills it there.
fn kill_at(curfew: &mut Curfew, server: &MailServer, moment: Moment, jobs: &[Value]) {
    // A slow tick keeps what has ended from being told to the book at once.
    let tick = if matches!(moment, Moment::Point("after-report", _)) { "5s" } else { "100ms" };
    curfew.configure(|settings| settings.text("scheduler.tick", tick));
    let pause = match moment {
        Moment::Point(point, key) => vec!["--pause-at".to_owned(), format!("{point}={key}")],
        Moment::Accepted | Moment::Flow => Vec::new(),
    };
    curfew.restart_with(&pause);
    let before = server.accepted_count();
    let summary = curfew.import(jobs);
    assert_eq!(summary["accepted"], jobs.len(), "{summary}");
    match moment {
        Moment::Accepted => {}
        Moment::Point(point, _) => drop(curfew.paused(point)),
        Moment::Flow => until("mails that flow", || (server.accepted_count() > before + 1).then_some(())),
    }
    curfew.kill9();
}

type Table = Vec<(String, BTreeMap<&'static str, u64>)>;

fn print(table: &Table) {
    println!("{:<24}{}", "killed", VICTIMS.map(|name| format!("{name:>26}")).join(""));
    for (moment, victims) in table {
        println!("{moment:<24}{}", VICTIMS.map(|name| format!("{:>26}", victims[name])).join(""));
    }
}

fn unmet(table: &Table) -> Vec<&'static str> {
    VICTIMS.into_iter().filter(|name| table.iter().all(|(_, victims)| victims[name] == 0)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_state_a_kill_meets_no_job_is_sent_twice_or_lost() {
    let kills = number("CURFEW_KILLS", MOMENTS.len());
    let wave_size = number("CURFEW_KILL_JOBS", 300).div_ceil(kills).max(FATES.len());
    let server = MailServer::start(Config::scripted(fate)).await;
    let mut curfew = Curfew::prepare(settings(&server));
    let mut table = Table::new();
    let mut submitted = 0;
    while table.len() < kills || (!unmet(&table).is_empty() && table.len() < kills + EXTRA_KILLS_MAX) {
        let moment = MOMENTS[table.len() % MOMENTS.len()];
        let jobs = wave(table.len(), wave_size);
        submitted += jobs.len();
        kill_at(&mut curfew, &server, moment, &jobs);
        let name = match moment {
            Moment::Accepted => "accepted".to_owned(),
            Moment::Point(point, key) => format!("{point} {key}"),
            Moment::Flow => "flow".to_owned(),
        };
        table.push((name, victims(&curfew.data(), SHARDS).await));
    }
    print(&table);
    assert!(unmet(&table).is_empty(), "never a victim: {:?}", unmet(&table));

    curfew.configure(|settings| settings.text("scheduler.tick", "100ms"));
    curfew.restart();
    for planned in curfew.all_jobs("&state=planned") {
        let body = json!({"release_at": in_time(Duration::ZERO), "reason": "the test's end"});
        curfew.post(&format!("/v1/jobs/{}/move", planned["id"].as_str().unwrap_or_default()), &body).expect(200);
    }
    let day = curfew.all_ended(submitted as u64, Duration::from_secs(180));
    println!("{submitted} jobs, {} kills, {} accepted by the server: {day}", table.len(), server.accepted_count());
    judge(&curfew, &server, submitted);
}

/// The server's log against what Curfew says.
fn judge(curfew: &Curfew, server: &MailServer, submitted: usize) {
    none_twice(server);
    let accepted = server.accepted_per_job();
    let jobs = curfew.all_jobs("");
    assert_eq!(jobs.len(), submitted, "every job that was accepted at the door is there");
    let items = curfew.all_items("");
    for job in &jobs {
        let text = |name: &str| job[name].as_str().unwrap_or_default();
        let times = accepted.get(text("id")).copied().unwrap_or_default();
        assert!(is_terminal(text("state")), "{job:#}");
        match text("state") {
            "sent" => assert_eq!(times, 1, "sent, and the server knows nothing of it: {job:#}"),
            _ => {
                let own: Vec<_> = items.iter().filter(|item| item["job_id"] == job["id"]).collect();
                assert_eq!(own.len(), 1, "a review record that explains itself: {job:#}");
                assert_eq!(own[0]["reason"], job["reason"], "{job:#}");
            }
        }
        // Where Curfew knows that nothing was handed over, the server agrees.
        if times > 0 && text("state") != "sent" {
            assert!(job["in_doubt"].as_bool().unwrap_or_default(), "accepted, and Curfew is sure that it wasn't: {job:#}");
        }
        match text("subject_ref").split_once('-').map(|(fate, _)| fate) {
            Some("gone") => assert_eq!((text("reason"), times), ("permanent_failure", 0), "{job:#}"),
            Some("planned" | "late" | "ok" | "busy") => {
                assert!(matches!(text("reason"), "accepted" | "reconciliation_required"), "{job:#}");
            }
            Some("lost") => assert_eq!(text("state"), "dead_letter", "{job:#}"),
            Some(_) | None => panic!("{job:#}"),
        }
    }
    assert!(server.violations().is_empty(), "{:?}", server.violations());
    let day = curfew.cli(&["day", "2026-12-01", "--json"]).expect(0).json();
    assert_eq!(day["difference"], 0, "{day}");
}

/// A broker in the process dies with it: after a kill a thousand queued jobs once crawled out at ten a second, each after its claim grace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_every_queued_job_is_released_anew_and_none_waits_for_its_claim_grace() {
    const COUNT: usize = 1000;
    let server = MailServer::start(Config::sink()).await;
    let mut curfew = Curfew::prepare(settings(&server).text("scheduler.claim_grace", "20m"));
    curfew.restart_with(&["--pause-at".into(), "after-claim=ok".into()]);
    let jobs: Vec<Value> = (0..COUNT).map(|n| job(&format!("ok-{n:04}"), &format!("ok-{n:04}@example.com"))).collect();
    assert_eq!(curfew.import(&jobs)["accepted"], COUNT);
    until("queued jobs", || curfew.get("/v1/fleet").json["jobs"]["queued"].as_u64().filter(|queued| *queued >= 900));
    curfew.kill9();
    curfew.restart();
    let day = curfew.all_ended(COUNT as u64, Duration::from_secs(120));
    assert_eq!((&day["sent"], &day["difference"]), (&COUNT.into(), &0.into()), "{day}");
    assert_eq!(server.accepted_count(), COUNT as u64);
}
