//! Limits give a job back and use no attempt: suppressions, jobs in flight, rates, pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use curfew_book::{Book, HoldRow, SuppressionRow};
use curfew_courier::{TenantLimits, Tenants};
use curfew_testkit::mail_server::Event;
use curfew_testkit::mail_server::{Action, Config, Stage};
use curfew_testkit::{MailServer, eventually};

use crate::house::{House, PATIENCE, Plan, lane, lane_with};

#[tokio::test]
async fn a_recipient_on_the_suppressions_list_is_met_at_the_claim() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let (_scheduler, _deadletter) = (house.scheduler(), house.deadletter());
    let keys = house.submit(&[house.mail("acme", 1), house.mail("acme", 2)]).await;
    for key in &keys {
        house.until(key, &["queued"]).await;
    }
    let recipient_ref = house.row(&keys[0]).await.job.recipient_ref;
    let row = SuppressionRow {
        tenant: None,
        recipient_ref: recipient_ref.clone(),
        recipient_masked: "r…@a…".to_owned(),
        reason: "asked".to_owned(),
        actor: "alice".to_owned(),
        since: house.now(),
    };
    assert!(house.book.suppress_recipient(row).await.expect("the book answers"));
    let all = vec![curfew_ledger::Suppression { tenant: None, recipient_ref }];
    house.ledger.set_suppressions(all).await.expect("the ledger answers");
    let _worker = house.worker().await;
    house.until(&keys[0], &["suppressed"]).await;
    house.until(&keys[1], &["sent"]).await;
    assert_eq!(house.row(&keys[0]).await.attempts, 0);
    assert_eq!(server.accepted_count(), 1);
}

/// Counts transactions under way at the server, and the most of them at once.
#[derive(Default)]
struct Counted {
    now: AtomicUsize,
    most: AtomicUsize,
}

fn counting(counted: &Arc<Counted>) -> impl Fn(&Event<'_>) -> Action + Send + Sync + 'static {
    let counted = Arc::clone(counted);
    move |event: &Event<'_>| {
        match event.stage {
            Stage::Mail => {
                let now = counted.now.fetch_add(1, Ordering::SeqCst) + 1;
                counted.most.fetch_max(now, Ordering::SeqCst);
            }
            Stage::Dot => {
                counted.now.fetch_sub(1, Ordering::SeqCst);
            }
            _elsewhere => {}
        }
        Action::Default
    }
}

#[tokio::test]
async fn a_tenant_never_has_more_jobs_in_flight_than_its_limit_and_holds_up_nobody() {
    let counted = Arc::new(Counted::default());
    let server = MailServer::start(Config::scripted(counting(&counted))).await;
    let limits = TenantLimits { max_in_flight: Some(3), ..TenantLimits::default() };
    let worker_tenants = Tenants::from([("small".to_owned(), limits)]);
    let house = House::new(Plan { worker_tenants, ..Plan::new(vec![lane("smtp", &server, 16)]) }).await;
    let _roles = (house.scheduler(), house.worker().await, house.worker().await, house.deadletter());
    let keys = house.submit(&(1..=40).map(|n| house.mail("small", n)).collect::<Vec<_>>()).await;
    house.until_all(&keys, "sent").await;
    assert!(counted.most.load(Ordering::SeqCst) <= 3, "at most three at once: {}", counted.most.load(Ordering::SeqCst));
    for key in &keys {
        assert_eq!(house.row(key).await.attempts, 1, "a limit uses no attempt");
    }
    assert_eq!(server.accepted_count(), 40);
}

/// A hundred tenants stand at a limit of nothing in front of one that may run.
#[tokio::test]
async fn tenants_at_their_limit_stand_in_front_of_nobody() {
    let server = MailServer::start(Config::default()).await;
    let none = TenantLimits { max_in_flight: Some(0), ..TenantLimits::default() };
    let worker_tenants = (0..100).map(|n| (format!("full{n}"), none)).collect();
    let house = House::new(Plan { worker_tenants, concurrency: 4, ..Plan::new(vec![lane("smtp", &server, 4)]) }).await;
    let _roles = house.all().await;
    let mut mails: Vec<_> = (0..100).flat_map(|t| (0..3).map(move |n| (t, n))).map(|(t, n)| house.mail(&format!("full{t}"), n)).collect();
    mails.push(house.mail("zebra", 1));
    let keys = house.submit(&mails).await;
    house.until(keys.last().expect("one"), &["sent"]).await;
    assert_eq!(server.accepted_count(), 1);
}

#[tokio::test]
async fn a_transports_rate_is_observed_and_uses_no_attempt() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane_with("smtp", &server, 8, Some(20.0), |_| {})])).await;
    let _roles = house.all().await;
    let keys = house.submit(&(1..=70).map(|n| house.mail("acme", n)).collect::<Vec<_>>()).await;
    house.until_all(&keys, "sent").await;
    let accepted = server.accepted();
    assert_eq!(accepted.len(), 70);
    // A quarter of a second's worth at once, a second's worth in that second, and what the ways add.
    for (earlier, later) in accepted.iter().zip(accepted.iter().skip(32)) {
        let apart = later.at.duration_since(earlier.at).expect("in order");
        assert!(apart >= Duration::from_millis(950), "32 mails in {apart:?}");
    }
    for key in &keys {
        let record = house.record(key).await.expect("a tombstone");
        assert_eq!(record.attempts, 1);
        assert!(record.version < 20, "looked at {} times: a crowd comes back for one permit", record.version);
    }
}

#[tokio::test]
async fn a_tenants_rate_holds_up_that_tenant_alone() {
    let server = MailServer::start(Config::default()).await;
    let limits = TenantLimits { rate_per_s: Some(2.0), ..TenantLimits::default() };
    let worker_tenants = Tenants::from([("slow".to_owned(), limits)]);
    let house = House::new(Plan { worker_tenants, ..Plan::new(vec![lane("smtp", &server, 4)]) }).await;
    let _roles = house.all().await;
    let slow = house.submit(&(1..=10).map(|n| house.mail("slow", n)).collect::<Vec<_>>()).await;
    let fast = house.submit(&(1..=20).map(|n| house.mail("fast", n)).collect::<Vec<_>>()).await;
    house.until_all(&fast, "sent").await;
    let slow_by_then = server.accepted().iter().filter(|mail| mail.recipients[0].address.ends_with("@slow.example")).count();
    assert!(slow_by_then < 10, "the slow tenant was still at it");
    house.until_all(&slow, "sent").await;
}

#[tokio::test]
async fn a_paused_transport_sends_nothing_until_it_is_resumed_and_uses_no_attempt() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let row = HoldRow {
        kind: "transport".to_owned(),
        name: "smtp".to_owned(),
        by: "pause".to_owned(),
        until: None,
        reason: "maintenance".to_owned(),
        actor: "alice".to_owned(),
        since: house.now(),
    };
    house.book.hold(row).await.expect("the book answers");
    curfew_courier::copy_holds(&*house.ledger, &*house.book).await.expect("copied");
    let _roles = house.all().await;
    let keys = house.submit(&[house.mail("acme", 1), house.mail("acme", 2)]).await;
    house.until_all(&keys, "scheduled").await;
    house.resume("smtp", "pause").await;
    house.advance(Duration::from_secs(11));
    house.until_all(&keys, "sent").await;
    assert_eq!(house.row(&keys[0]).await.attempts, 1);
}

#[tokio::test]
async fn a_job_over_a_transport_that_is_not_configured_waits_for_its_deadline() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _roles = house.all().await;
    let lost = house.submit_one(&house.mail("acme", 1).over("gone")).await;
    let other = house.submit_one(&house.mail("acme", 2)).await;
    house.until(&other, &["sent"]).await;
    eventually(PATIENCE, "it waits", || async {
        let record = house.record(&lost).await?;
        (record.waiting_for == Some(curfew_domain::record::WaitingFor::Circuit)).then_some(())
    })
    .await;
    house.advance(Duration::from_secs(7_200));
    house.item(&lost, curfew_domain::Reason::BusinessDeadlineReached).await;
}

/// A cool-down written last hid the pause, and stayed in the book for ever.
#[tokio::test]
async fn a_cool_down_hides_no_pause_and_leaves_the_book_when_it_is_over() {
    let server = MailServer::start(Config::default()).await;
    let house = House::new(Plan::new(vec![lane("smtp", &server, 2)])).await;
    let _scheduler = house.scheduler();
    let row = |by: &str, until| HoldRow {
        kind: "transport".to_owned(),
        name: "smtp".to_owned(),
        by: by.to_owned(),
        until,
        reason: String::new(),
        actor: "alice".to_owned(),
        since: house.now(),
    };
    house.book.hold(row("pause", None)).await.expect("the book answers");
    house.book.hold(row("cool_down", Some(house.now().plus(Duration::from_secs(10))))).await.expect("the book answers");
    let place = curfew_ledger::Hold::Transport("smtp".to_owned());
    let by = || async { house.ledger.holds().await.expect("the ledger answers").get(&place).map(|(by, _)| by.word()) };
    eventually(PATIENCE, "the pause is copied", || async { (by().await == Some("pause")).then_some(()) }).await;
    house.advance(Duration::from_secs(80));
    eventually(PATIENCE, "the cool-down is gone", || async {
        let rows = house.book.holds().await.expect("the book answers");
        (rows.len() == 1 && rows[0].by == "pause").then_some(())
    })
    .await;
    assert_eq!(by().await, Some("pause"));
}
