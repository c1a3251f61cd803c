//! Section 9 of the design: what a run writes holds neither an address nor a name nor a body, in any encoding.
//!
//! Searched: logs, metrics, the database and its write-ahead log, every answer of the HTTP API and of the command line but a preview, refusals
//! and the console's pages. That the search finds what is there, a planted address proves. `privacy_fleet.rs` searches the fleet's servers.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use curfew_testkit::{Config, MailServer};
use curfew_tests::canaries::{Desk, PEOPLE, indiscreet, letter, needles};
use curfew_tests::jobs::key;
use curfew_tests::leaks::Needles;
use curfew_tests::{Curfew, Settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_run_writes_holds_an_address_a_name_or_a_body() {
    let server = MailServer::start(Config::scripted(indiscreet)).await;
    let mut curfew = Curfew::start(Settings::smtp(server.addr()).text("metrics.listen", "127.0.0.1:0"));
    let mut desk = Desk::new(&curfew, None);
    desk.submit();
    desk.ended();
    desk.operate();
    let first = curfew.log();
    curfew.kill9();
    let needles = needles();
    let mut found = needles.in_folder(curfew.folder());
    curfew.restart();
    desk.turn_to(&curfew);
    desk.operate();
    curfew.terminate();
    found.extend(needles.in_folder(curfew.folder()));
    assert!(!first.is_empty() && curfew.data().join("curfew.db").is_file(), "there is something to search");
    assert!(found.is_empty(), "in files: {found:#?}");
    let found = desk.leaks(&needles);
    assert!(found.is_empty(), "in answers: {found:#?}");
    plant(&curfew, &needles);
}

/// The same search finds an address that is there.
fn plant(curfew: &Curfew, needles: &Needles) {
    for (n, before) in ["", "a", "ab"].iter().enumerate() {
        let planted = curfew.data().join(format!("planted-{n}"));
        fs::write(&planted, STANDARD.encode(format!("{before}{} and more", PEOPLE[1].1))).expect("a file can be written");
        let found = needles.in_folder(curfew.folder());
        assert!(found.iter().any(|(file, found)| *file == planted && found.text == PEOPLE[1].1), "{found:?}");
        fs::remove_file(planted).expect("a file can be removed");
    }
}

#[test]
fn a_preview_shows_the_content_and_the_trail_says_who_looked() {
    // A transport that nobody listens on: the job is set aside by its deadline.
    let settings = Settings::smtp(([127, 0, 0, 1], 9).into()).set("policies.default.delays", "[]");
    let curfew = Curfew::start(settings);
    let (_, address, name) = PEOPLE[0];
    curfew.submit(&letter("R-1", address, name));
    curfew.job_in(&key("R-1"), "dead_letter");
    let item = curfew.item_of(&key("R-1"));
    let id = item["id"].as_str().unwrap_or_default();
    let shown = curfew.cli(&["review", "preview", id]).expect(0).stdout;
    assert!(shown.contains("Body-Secretive"), "{shown}");
    let trail = curfew.cli(&["audit", "list", "--json", "--limit", "0"]).expect(0).lines();
    assert!(trail.iter().any(|entry| entry["action"] == "preview" && entry["actor"] == "local"), "{trail:#?}");
}
