//! Attachments by reference: absent, present at last, changed, corrected.

use std::time::Duration;

use curfew_domain::Reason;
use curfew_domain::job::Attachment;
use curfew_review::{Correction, Replay, Review};
use curfew_testkit::mail_server::Config;
use curfew_testkit::{MailServer, eventually};

use crate::house::{House, Mail, PATIENCE, Plan, lane};

fn with_report(mail: Mail, sha256: Option<&str>) -> Mail {
    let uri = format!("file:reports/R-{}.pdf", mail.n);
    Mail { attachments: vec![Attachment { uri, name: "report.pdf".to_owned(), sha256: sha256.map(str::to_owned) }], ..mail }
}

fn write(house: &House, name: &str, bytes: &str) {
    std::fs::write(house.folder.path().join("reports").join(name), bytes).expect("a file is written");
}

#[tokio::test]
async fn a_report_that_comes_late_is_sent_on_the_next_attempt() {
    let server = MailServer::start(Config::default()).await;
    let plan = Plan { delays: vec![Duration::from_millis(100); 200], ..Plan::new(vec![lane("smtp", &server, 1)]) };
    let house = House::new(plan).await;
    let _roles = house.all().await;
    let key = house.submit_one(&with_report(house.mail("acme", 1), None)).await;
    eventually(PATIENCE, "a first attempt misses it", || async { (house.record(&key).await?.last?.rule == "artifact-missing").then_some(()) }).await;
    assert_eq!(server.connections(), 0, "read before any connection");
    write(&house, "R-1.pdf", "%PDF good");
    house.until(&key, &["sent"]).await;
    assert!(house.row(&key).await.attempts >= 2);
    assert_eq!(house.row(&key).await.pins.len(), 1, "the first reading fixes it");
}

#[tokio::test]
async fn a_report_that_never_comes_says_so() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 1)])).await;
    let _roles = house.all().await;
    let key = house.submit_one(&with_report(house.mail("acme", 1), None)).await;
    house.item(&key, Reason::ArtifactMissing).await;
}

#[tokio::test]
async fn a_changed_report_is_a_mismatch_and_a_corrected_job_sends_the_good_one() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 1)])).await;
    let _roles = house.all().await;
    write(&house, "R-1.pdf", "%PDF another one");
    let mail = with_report(house.mail("acme", 1), Some(&"ab".repeat(32)));
    let key = house.submit_one(&mail).await;
    let item = house.item(&key, Reason::ArtifactMismatch).await;
    assert_eq!((item.attempts, server.connections()), (1, 0));
    write(&house, "R-1.pdf", "%PDF the good one");
    let corrected = with_report(mail, None);
    let correction = Correction {
        item: item.id,
        letter: house.seal(item.job_id.expect("a job's item"), &corrected.letter()),
        recipient: None,
        forget_pins: true,
        actor: "alice".to_owned(),
        reason: "rendered anew".to_owned(),
        at: house.now(),
    };
    house.review.correct(correction).await.expect("an open item is corrected");
    let at = house.now();
    let (actor, reason) = ("alice".to_owned(), "rendered anew".to_owned());
    let replay =
        Replay { item: item.id, deadline_at: at.plus(Duration::from_secs(600)), actor, reason, accept_duplicate_risk: false, dry_run: false, at };
    house.review.replay(replay).await.expect("it may be replayed");
    house.until(&key, &["sent"]).await;
    let row = house.row(&key).await;
    assert_eq!((row.generation, row.job.content_revision), (2, 2));
    assert_eq!(server.accepted_count(), 1);
    let content = String::from_utf8_lossy(&server.accepted()[0].content).into_owned();
    assert!(content.contains("JVBERiB0aGUgZ29vZCBvbmU=") || content.contains("%PDF the good one"), "the good one is attached");
}
