//! The rollback barrier: incarnations, and what a shard that recovers takes and refuses (DESIGN 8).

use std::time::Duration;

use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};
use curfew_domain::transition::{Index, Rules, Verdict};
use curfew_domain::{Event, State, Token};
use curfew_ledger::redis::Adopted;
use curfew_ledger::{Created, Ledger, LedgerError, Swapped};
use curfew_testservers::redis::{Options, Redis};
use uuid::Uuid;

use super::jobs::{CLAIM, RELEASE, WORKER, create_of, due, intent, is_other_server, ledger, moved, opened, policy, record, stands, swap_of};

fn is_recovering<T>(answer: &Result<T, LedgerError>) -> bool {
    matches!(answer, Err(LedgerError::Recovering))
}

#[tokio::test]
async fn a_first_start_is_said_once_and_keeps_what_stands() {
    let server = Redis::start(Options::default()).await;
    let ledger = opened(&server.url());
    let shard = super::jobs::shard("acme/a");
    assert_eq!(ledger.meta(shard).await.expect("it answers"), None);
    ledger.initialise().await.expect("it answers");
    let meta = ledger.meta(shard).await.expect("it answers").expect("it is written");
    assert_eq!((meta.incarnation, meta.recovering, meta.of_this_server), (0, false, true));
    due(&ledger, "acme/a").await;
    ledger.adopt(shard, 3).await.expect("it answers");
    ledger.initialise().await.expect("it answers");
    assert_eq!(ledger.meta(shard).await.expect("it answers").map(|meta| meta.incarnation), Some(3));
    server.ask(&["DEL", &format!("test:{{{shard}}}:meta")]).await;
    assert!(matches!(ledger.initialise().await, Err(LedgerError::Store(_))), "records that nobody owns are not taken over");
}

#[tokio::test]
async fn a_shard_that_recovers_refuses_claims_and_intents_and_takes_reports() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let waiting = due(&ledger, "acme/waiting").await;
    moved(&ledger, &due(&ledger, "acme/claimed").await, &CLAIM).await;
    let handed = moved(&ledger, &due(&ledger, "acme/handed").await, &CLAIM).await;
    moved(&ledger, &handed, &intent(9)).await;
    let shard = waiting.shard;
    assert_eq!(opened(&server.url()).adopt(shard, 1).await.expect("it answers"), Adopted::Adopted);

    // The first call meets the new incarnation; from then on this process is in it.
    assert!(is_other_server(&ledger.get(&waiting.key).await));
    let (waiting, claimed, handed) =
        (stands(&ledger, "acme/waiting").await, stands(&ledger, "acme/claimed").await, stands(&ledger, "acme/handed").await);
    assert_eq!((waiting.incarnation, handed.state), (1, State::Handoff));
    for (record, event) in [(&waiting, RELEASE), (&waiting, CLAIM), (&claimed, intent(10))] {
        assert!(is_recovering(&ledger.swap(swap_of(&ledger, record, &event).await).await));
    }
    let now = ledger.now().await.expect("it answers");
    assert!(is_recovering(&ledger.create(vec![create_of(record("acme/new", 1, now), now)]).await));
    assert!(is_recovering(&ledger.overdue(shard, Index::Watch, now, 10).await));
    assert!(is_recovering(&ledger.lines(shard, now, 10, 10, &[]).await));
    let agenda = ledger.agenda(&[shard, curfew_domain::Shard((shard.0 + 1) % 4)], now).await.expect("the other shard answers");
    assert!(!agenda[0].lines && !agenda[0].watch);

    // Reports: a renewal, a give-back, a verdict.
    let renewed = moved(&ledger, &handed, &Event::Renew { worker: WORKER, lease: Duration::from_secs(90) }).await;
    let back = moved(&ledger, &claimed, &Event::GiveBack { worker: WORKER, waits_for: None, until: now }).await;
    assert_eq!(back.state, State::Scheduled);
    let policy = policy();
    let refused = Outcome::new(OutcomeClass::Permanent, Stage::Dot, "test", "550");
    let rules = Rules { policy: &policy, jitter: 0.0, idempotency_window: None, attempt_max: Duration::from_secs(60) };
    let verdict = Event::Verdict { token: Token(Uuid::from_u128(9)), verdict: Verdict::NotAccepted(&refused), rules };
    assert_eq!(moved(&ledger, &renewed, &verdict).await.state, State::DeadLetter);

    // Recovery's own hands may do all.
    let hands = ledger.recovery();
    assert_eq!(hands.create(vec![create_of(record("acme/new", 1, now), now)]).await.expect("it answers"), [Created::Created]);
    ledger.recovered(shard, 1).await.expect("it answers");
    moved(&ledger, &waiting, &CLAIM).await;
}

/// DESIGN 8: an errand belongs to the incarnation in which it began.
#[tokio::test]
async fn an_errand_of_an_earlier_incarnation_is_begun_anew() {
    let server = Redis::start(Options::default()).await;
    let (ledger, other) = (ledger(&server.url()).await, opened(&server.url()));
    let waiting = due(&ledger, "acme/a").await;
    let claim = swap_of(&ledger, &waiting, &CLAIM).await;
    let shard = waiting.shard;
    other.adopt(shard, 1).await.expect("it answers");
    other.recovered(shard, 1).await.expect("it answers");
    for _ in 0..2 {
        assert!(is_other_server(&ledger.swap(claim.clone()).await), "however often it is tried");
    }
    let again = stands(&ledger, "acme/a").await;
    assert_eq!((again.incarnation, again.version), (1, 1));
    assert_eq!(ledger.swap(swap_of(&ledger, &again, &CLAIM).await).await.expect("it answers"), Swapped::Swapped);

    assert_eq!(other.adopt(shard, 0).await.expect("it answers"), Adopted::Later, "who is behind changes nothing");
    assert!(is_other_server(&other.recovered(shard, 0).await));
    assert_eq!(other.meta(shard).await.expect("it answers").map(|meta| (meta.incarnation, meta.recovering)), Some((1, false)));
}

/// Recovery reads how far the surviving store had come: nothing may write that before it has.
#[tokio::test]
async fn a_heartbeat_is_not_written_past_the_barrier() {
    let mut server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    ledger.beat(5).await.expect("it answers");
    server.kill9();
    server.restart().await;
    let process = opened(&server.url());
    process.beat(6).await.expect("shards that wait for their recovery are passed over");
    assert_eq!(process.last_beat().await.expect("it answers").map(|beat| beat.count), Some(5));
}
