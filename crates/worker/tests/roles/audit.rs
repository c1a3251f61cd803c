//! The auditor: what it mends, and what it leaves to people.

use std::time::Duration;

use curfew_book::Book;
use curfew_domain::transition::{Event, transition};
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Key, Reason};
use curfew_ledger::{Swap, Swapped};
use curfew_review::{Review, ReviewFilter};
use curfew_scheduler::Audited;
use curfew_store::Migration;
use curfew_testkit::MailServer;
use curfew_testkit::mail_server::Config;

use crate::house::{House, Plan, lane};

async fn house() -> House {
    let server = MailServer::start(Config::default()).await;
    House::new(Plan::new(vec![lane("smtp", &server, 1)])).await
}

async fn audit(house: &House) -> Audited {
    let (ports, settings) = house.scheduler_parts();
    curfew_scheduler::audit(&ports, &settings).await.expect("the stores answer")
}

async fn swap(house: &House, key: &Key, event: &Event<'_>) {
    let record = house.record(key).await.expect("it stands");
    let change = transition(&record, event, house.now()).expect("it is possible");
    assert_eq!(house.ledger.swap(Swap::of(&record, change)).await.expect("the ledger answers"), Swapped::Swapped);
}

#[tokio::test]
async fn a_staged_job_without_a_record_is_staged_again_where_its_release_is_ahead() {
    let house = house().await;
    let key = house.submit_one(&house.mail("acme", 1).released_in(Duration::from_secs(300))).await;
    house.book.mark_staged(&[curfew_book::conformance::given::mark(&key, 1)]).await.expect("the book answers");
    let audited = audit(&house).await;
    assert_eq!((audited.rows, audited.repairs, audited.findings.len()), (1, 1, 0));
    assert_eq!(house.shown(&key).await, "scheduled");
    assert_eq!(audit(&house).await.repairs, 0, "there is nothing left to mend");
}

#[tokio::test]
async fn a_staged_job_without_a_record_whose_release_has_passed_is_one_review_item() {
    let house = house().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    house.book.mark_staged(&[curfew_book::conformance::given::mark(&key, 1)]).await.expect("the book answers");
    house.advance(Duration::from_secs(1));
    assert_eq!(audit(&house).await.findings.len(), 1);
    audit(&house).await;
    let filter = ReviewFilter { reason: Some(Reason::LedgerRecordMissing), limit: 10, ..ReviewFilter::default() };
    assert_eq!(house.review.list(&filter).await.expect("review answers").items.len(), 1);
    assert!(house.record(&key).await.is_none(), "nobody guesses that it may be sent");
}

#[tokio::test]
async fn a_story_that_the_book_lost_is_told_again() {
    let house = house().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    let scheduler = house.scheduler();
    house.until(&key, &["queued"]).await;
    scheduler.finish().await;
    swap(&house, &key, &Event::Verb(&NumberedVerb { number: 7, generation: 1, verb: Verb::Cancel })).await;
    swap(&house, &key, &Event::Closed).await;
    assert_eq!(house.row(&key).await.state.word(), "staged");
    assert_eq!(audit(&house).await.repairs, 1);
    assert_eq!(house.row(&key).await.state.word(), "cancelled");
    assert_eq!(audit(&house).await.repairs, 0);
}

/// One story that couldn't be read kept every other of its page from being told.
#[tokio::test]
async fn a_story_that_cannot_be_read_keeps_no_other_from_being_told() {
    let house = house().await;
    let scheduler = house.scheduler();
    let mut keys = Vec::new();
    for n in 1..=3 {
        let key = house.submit_one(&house.mail("acme", n)).await;
        house.until(&key, &["queued"]).await;
        keys.push(key);
    }
    scheduler.finish().await;
    for (number, key) in (7..).zip(&keys) {
        swap(&house, key, &Event::Verb(&NumberedVerb { number, generation: 1, verb: Verb::Cancel })).await;
        swap(&house, key, &Event::Closed).await;
    }
    keys.sort();
    let spoil = "INSERT OR REPLACE INTO job_history (n, entries) SELECT n, x'c1' FROM jobs ORDER BY key LIMIT 1";
    house.book.store().migrate(&[Migration { name: "test/spoil_the_first_story", sql: spoil }]).await.expect("the store takes it");
    let audited = audit(&house).await;
    let named: Vec<&str> = audited.findings.iter().map(|finding| finding.key.as_str()).collect();
    assert_eq!((audited.repairs, named), (2, vec![keys[0].as_str()]));
    for key in &keys[1..] {
        assert_eq!(house.row(key).await.state.word(), "cancelled");
    }
}
