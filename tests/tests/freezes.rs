//! P1 and P3 under SIGSTOP: a process that wakes up past its lease hands nothing over, and what it learnt meanwhile still counts.
//!
//! The mail server says where it is. The only time that passes by itself is the lease's, for that is what the tests are about.

use std::time::Duration;

use curfew_testkit::mail_server::scripts::{always_at, first_times_at};
use curfew_testkit::{Action, Config, MailServer, Stage};
use curfew_tests::jobs::{in_time, job, key};
use curfew_tests::wait::let_pass;
use curfew_tests::{Curfew, Settings, until};
use serde_json::json;

/// The shortest that there is.
const LEASE: Duration = Duration::from_secs(10);

/// More than the kernel takes for a sender (`tcp_wmem`) and this server's small receive buffer, so that the client stands in the middle of it.
fn long_report() -> Vec<u8> {
    let limits = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").expect("Linux says how much it buffers");
    let most: usize = limits.split_whitespace().last().and_then(|most| most.parse().ok()).expect("the last of three numbers");
    vec![b'x'; most + 2 * 1024 * 1024]
}

fn settings(server: &MailServer) -> Settings {
    Settings::smtp(server.addr()).text("worker.lease", "10s")
}

/// Freezes a process whose content the server has stopped reading, past its lease and for as long as the deadline is away, and lets both go on.
async fn frozen_in_the_content(deadline: Duration, frozen: Duration) {
    let config = Config { receive_buffer_bytes: Some(4096), ..Config::scripted(always_at(Stage::Content, Action::StopReading { after: 2000 })) };
    let server = MailServer::start(config).await;
    let mut curfew = Curfew::prepare(settings(&server).set("artifacts.roots", r#"["file:reports/"]"#));
    std::fs::create_dir(curfew.folder().join("reports")).expect("a folder can be made");
    std::fs::write(curfew.folder().join("reports/long.bin"), long_report()).expect("a report can be written");
    curfew.restart();
    let mut one = job("frozen", "frozen@example.com");
    one["attachments"] = json!([{"uri": "file:reports/long.bin", "name": "long.bin"}]);
    one["deadline_at"] = in_time(deadline).into();
    curfew.submit(&one);

    server.held(Stage::Content).await;
    curfew.job_in(&key("frozen"), "handoff");
    curfew.stop();
    let_pass(frozen);
    server.release();
    curfew.cont();

    curfew.job_in(&key("frozen"), "dead_letter");
    curfew.item_of(&key("frozen"));
    // The connection is destroyed before the end marker; that is proof, and ends the doubt.
    until("an end of the content", || (server.cut_off() + server.accepted_count() > 0).then_some(()));
    assert_eq!((server.accepted_count(), server.cut_off()), (0, 1));
    assert_eq!(server.times_reached(Stage::Dot), 0, "no byte of the end marker left");
    let sure = until("the end of the doubt", || Some(curfew.job(&key("frozen"))).filter(|job| job["in_doubt"] == false));
    assert_eq!(sure["state"], "dead_letter");
    assert_eq!(server.times_reached(Stage::Mail), 1, "automation never tries it again");
    curfew.cli(&["day", "2026-12-01"]).expect(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_content_frozen_past_lease_and_deadline_is_never_ended() {
    let deadline = LEASE + Duration::from_secs(3);
    frozen_in_the_content(deadline, deadline + Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_content_frozen_past_its_lease_alone_is_never_ended_either() {
    frozen_in_the_content(Duration::from_secs(3600), LEASE + Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_that_comes_after_the_lease_settles_the_job_and_its_review_item() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenHold))).await;
    let curfew = Curfew::start(settings(&server));
    curfew.submit(&job("late", "late@example.com"));

    server.held(Stage::Dot).await;
    curfew.stop();
    let_pass(LEASE + Duration::from_secs(2));
    curfew.cont();
    let doubt = curfew.job_in(&key("late"), "dead_letter");
    assert_eq!((doubt["reason"].as_str(), doubt["in_doubt"].as_bool()), (Some("reconciliation_required"), Some(true)), "{doubt:#}");
    assert_eq!(curfew.item_of(&key("late"))["status"], "open");

    server.release();
    let sent = curfew.job_in(&key("late"), "sent");
    assert_eq!(sent["receipt"]["code"], 250, "{sent:#}");
    assert_eq!(sent["in_doubt"], false, "{sent:#}");
    until("the resolved item", || (curfew.item_of(&key("late"))["status"] == "resolved").then_some(()));
    assert_eq!(server.accepted_count(), 1);
    let day = curfew.cli(&["day", "2026-12-01", "--json"]).expect(0).json();
    assert_eq!(day["sent"], 1, "{day}");
}
