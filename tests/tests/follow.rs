//! One job, followed in three ways, each by itself: `jobs show`, the logs, the traces. Each tells release, claims, attempts, decisions and the end.

use std::collections::BTreeSet;

use curfew_testkit::mail_server::scripts::first_times_at;
use curfew_testkit::{Action, Config, MailServer, Stage};
use curfew_tests::collector::{Collector, Span};
use curfew_tests::jobs::{job, key};
use curfew_tests::{Curfew, Settings, until};
use serde_json::Value;

const ASKED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const SECRET: &str = "Bearer of-a-collector";

/// A job that is refused once and accepted then.
async fn followed(collector: &Collector, change: impl FnOnce(Settings) -> Settings) -> (Curfew, MailServer) {
    let server =
        MailServer::start(Config::scripted(first_times_at(Stage::Rcpt, 1, Action::reply("451 4.3.0 Temporary local problem, ada@example.com"))))
            .await;
    let settings = Settings::smtp(server.addr()).text("traces.endpoint", &collector.endpoint()).text("traces.authorization", SECRET);
    let mut curfew = Curfew::prepare(change(settings));
    curfew.variable("CURFEW_LOG", "curfew=debug,curfew_worker=debug,curfew_scheduler=debug,info");
    curfew.restart();
    (curfew, server)
}

fn submit(curfew: &Curfew, subject: &str, headers: &[(&str, &str)]) {
    let body = job(subject, "ada@example.com").to_string();
    let answer = curfew.http().post_bytes("/v1/jobs", "application/json", headers, body.as_bytes());
    assert_eq!(answer.status, 201, "{}", answer.text);
    curfew.job_in(&key(subject), "sent");
}

fn of<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// All spans of the job, once its delivery is among them.
fn spans_of(collector: &Collector, subject: &str) -> Vec<Span> {
    let of_it = |span: &Span| span.says("curfew.key") == key(subject);
    until("the delivery's span", || {
        let spans: Vec<_> = collector.spans().into_iter().filter(of_it).collect();
        (!of(&spans, "delivery").is_empty() && of(&spans, "attempt").len() == 2).then_some(spans)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_told_by_its_show_by_its_logs_and_by_its_trace_alone() {
    let collector = Collector::start();
    let (curfew, _server) = followed(&collector, |settings| settings).await;
    submit(&curfew, "R-1", &[("traceparent", ASKED)]);

    let shown = curfew.job(&key("R-1"));
    let history: Vec<_> =
        shown["history"].as_array().expect("a history").iter().map(|entry| (entry["to"].as_str(), entry["attempt"].as_u64())).collect();
    assert_eq!(history, [(Some("scheduled"), None), (Some("scheduled"), Some(1)), (Some("sent"), Some(2))], "{shown:#}");
    assert_eq!((&shown["attempts"], &shown["receipt"]["code"]), (&2.into(), &250.into()));

    let told: Vec<(String, String, u64)> = curfew
        .log()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["key"] == key("R-1"))
        .map(|line| {
            let said = line["msg"].as_str().unwrap_or_default().split([' ', ':']).next().unwrap_or_default().to_owned();
            (said, line["to"].as_str().unwrap_or_default().to_owned(), line["attempt"].as_u64().unwrap_or_default())
        })
        .collect();
    for step in [("released", "queued", 0), ("claimed", "claimed", 1), ("runs", "scheduled", 1), ("claimed", "claimed", 2), ("sent", "sent", 2)] {
        assert!(told.iter().any(|(said, to, attempt)| (said.as_str(), to.as_str(), *attempt) == step), "{step:?} is not among {told:?}");
    }

    let spans = spans_of(&collector, "R-1");
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    let [delivery] = of(&spans, "delivery")[..] else { panic!("one delivery: {spans:#?}") };
    assert_eq!((delivery.parent.as_str(), delivery.says("curfew.state"), delivery.says("curfew.attempts")), (PARENT, "sent", "2"));
    assert_eq!(delivery.events.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["scheduled", "scheduled", "sent"]);
    let releases = of(&spans, "release");
    assert_eq!(releases.len(), 2, "one for each attempt: {spans:#?}");
    let attempts = of(&spans, "attempt");
    let decisions: Vec<_> = attempts.iter().map(|a| (a.says("curfew.attempt"), a.says("curfew.outcome"), a.says("curfew.decision"))).collect();
    assert_eq!(decisions, [("1", "transient", "scheduled"), ("2", "accepted", "sent")]);
    assert!(!attempts[0].says("curfew.next_attempt_at").is_empty() && attempts[0].events.is_empty(), "{:#?}", attempts[0]);
    assert_eq!(attempts[1].events.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["intent"]);
    assert!(attempts.iter().chain(&releases).all(|span| span.parent == delivery.id));
    assert!(attempts[0].times.1 <= attempts[1].times.0 && delivery.times.0 <= attempts[0].times.0, "{spans:#?}");
    assert_eq!(of(&spans, "accept")[0].parent, PARENT);
    let ids: BTreeSet<_> = spans.iter().map(|span| &span.id).collect();
    assert_eq!(ids.len(), spans.len());
    let all = format!("{spans:?}");
    assert!(!all.contains("ada@") && !all.contains("sender.example"), "{all}");
    assert!(collector.authorizations().iter().all(|given| given.as_deref() == Some(SECRET)));
    assert!(!curfew.log().contains("of-a-collector"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_is_sent_as_its_asker_wishes_and_else_by_the_sample() {
    let collector = Collector::start();
    let (curfew, _server) = followed(&collector, |settings| settings.text("traces.sample", "0%")).await;
    submit(&curfew, "R-1", &[]);
    submit(&curfew, "R-2", &[("traceparent", &ASKED.replace("-01", "-00"))]);
    submit(&curfew, "R-3", &[("traceparent", "00-of-no-01")]);
    submit(&curfew, "R-4", &[("traceparent", ASKED)]);
    let spans = until("the one that was asked for", || Some(collector.spans()).filter(|spans| !of(spans, "delivery").is_empty()));
    let keys: BTreeSet<_> = spans.iter().map(|span| span.says("curfew.key").to_owned()).collect();
    assert_eq!(keys, BTreeSet::from([key("R-4")]));
}

/// A job that nobody asked for in a trace has one of its own: its id.
#[tokio::test(flavor = "multi_thread")]
async fn without_an_asker_the_jobs_id_is_the_traces() {
    let collector = Collector::start();
    let (mut curfew, _server) = followed(&collector, |settings| settings).await;
    submit(&curfew, "R-1", &[]);
    let id = curfew.job(&key("R-1"))["id"].as_str().expect("an id").replace('-', "");
    curfew.all_ended(1, std::time::Duration::from_secs(30));
    // What still waits leaves with the process.
    assert_eq!(curfew.terminate(), Some(0));
    let spans = spans_of(&collector, "R-1");
    assert!(spans.iter().all(|span| span.trace == id), "{id}: {spans:#?}");
    assert!(of(&spans, "delivery")[0].parent.is_empty() && of(&spans, "accept").is_empty());
}

/// Spans are dropped, never waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_holds_up_nothing() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let server = MailServer::start(Config::default()).await;
    let silent = format!("http://{}/v1/traces", nobody.local_addr().expect("it has one"));
    let mut curfew = Curfew::start(Settings::smtp(server.addr()).text("traces.endpoint", &silent));
    let jobs: Vec<_> = (0..200).map(|n| job(&format!("R-{n}"), "ada@example.com")).collect();
    curfew.import(&jobs);
    curfew.all_ended(200, std::time::Duration::from_secs(60));
    assert_eq!(server.accepted_count(), 200);
    assert_eq!(curfew.terminate(), Some(0));
}
