//! The rollback barrier: incarnations, and what a shard that recovers takes and refuses (DESIGN 8).

use std::time::Duration;

use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};
use curfew_domain::transition::{Index, Rules, Verdict};
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Event, State, Token};
use curfew_ledger::redis::{Adopted, RedisLedger};
use curfew_ledger::{Created, Ledger, LedgerError, Recoverable, Swapped};
use curfew_testservers::redis::{Options, Redis};
use uuid::Uuid;

use super::jobs::{CLAIM, RELEASE, WORKER, adopt, create_of, due, intent, is_other_server, ledger, moved, opened, policy, record, stands, swap_of};

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
    adopt(&ledger, shard, 3).await;
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
    assert_eq!(adopt(&opened(&server.url()), shard, 1).await, Adopted::Adopted);

    // The first call meets the new incarnation; from then on this process is in it.
    assert!(is_other_server(&ledger.get(&waiting.key).await));
    let (waiting, claimed, handed) =
        (stands(&ledger, "acme/waiting").await, stands(&ledger, "acme/claimed").await, stands(&ledger, "acme/handed").await);
    assert_eq!((waiting.incarnation, handed.state), (1, State::Handoff));
    for (record, event) in [(&waiting, RELEASE), (&waiting, CLAIM), (&claimed, intent(10))] {
        assert!(is_recovering(&ledger.swap(swap_of(&ledger, record, &event).await).await));
    }
    let now = ledger.now().await.expect("it answers");
    let mut new = record("acme/new", 1, now);
    assert!(is_other_server(&ledger.create(vec![create_of(new.clone(), now)]).await), "staging that began before");
    new.incarnation = 1;
    assert!(is_recovering(&ledger.create(vec![create_of(new.clone(), now)]).await));
    assert!(is_recovering(&ledger.overdue(shard, Index::Watch, now, 10).await));
    assert!(is_recovering(&ledger.lines(shard, now, 10, 10, &[]).await));
    let agenda = ledger.agenda(&[shard, curfew_domain::Shard((shard.0 + 1) % 4)], now).await.expect("the other shard answers");
    assert!(!agenda[0].lines && !agenda[0].watch);

    // Reports: a renewal, a verdict. A claim or a verb is no report.
    let renewed = moved(&ledger, &handed, &Event::Renew { worker: WORKER, lease: Duration::from_secs(90) }).await;
    let cancel = NumberedVerb { number: 1, generation: 1, verb: Verb::Cancel };
    for (record, event) in [
        (&claimed, Event::GiveBack { worker: WORKER, waits_for: None, until: now }),
        (&waiting, Event::Verb(&cancel)),
        (&claimed, Event::Verb(&cancel)),
    ] {
        assert!(is_recovering(&ledger.swap(swap_of(&ledger, record, &event).await).await));
    }
    let policy = policy();
    let refused = Outcome::new(OutcomeClass::Permanent, Stage::Dot, "test", "550");
    let rules = Rules { policy: &policy, jitter: 0.0, idempotency_window: None, attempt_max: Duration::from_secs(60) };
    let verdict = Event::Verdict { token: Token(Uuid::from_u128(9)), verdict: Verdict::NotAccepted(&refused), rules };
    assert_eq!(moved(&ledger, &renewed, &verdict).await.state, State::DeadLetter);

    // Recovery's own hands may do all.
    let hands = ledger.recovery();
    assert_eq!(hands.create(vec![create_of(new, now)]).await.expect("it answers"), [Created::Created]);
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
    adopt(&other, shard, 1).await;
    other.recovered(shard, 1).await.expect("it answers");
    for _ in 0..2 {
        assert!(is_other_server(&ledger.swap(claim.clone()).await), "however often it is tried");
    }
    let again = stands(&ledger, "acme/a").await;
    assert_eq!((again.incarnation, again.version), (1, 1));
    assert_eq!(ledger.swap(swap_of(&ledger, &again, &CLAIM).await).await.expect("it answers"), Swapped::Swapped);

    assert_eq!(adopt(&other, shard, 0).await, Adopted::Later, "who is behind changes nothing");
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

/// Whom another server heard isn't known on this one: only its recovery reads what survived of that.
#[tokio::test]
async fn no_worker_is_heard_past_the_barrier_nor_while_a_shard_recovers() {
    let mut server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let shard = due(&ledger, "acme/a").await.shard;
    let before = ledger.time_of(shard).await.expect("it answers");
    assert!(matches!(ledger.hear(WORKER, &ledger.all_shards()).await.as_slice(), [Ok(0), Ok(0), Ok(0), Ok(0)]));
    server.kill9();
    server.restart().await;
    let (process, another) = (opened(&server.url()), curfew_domain::WorkerId(Uuid::from_u128(99)));
    assert!(is_other_server(&process.hear(another, &[shard]).await.remove(0)));
    adopt(&process, shard, 1).await;
    assert!(is_recovering(&process.hear(another, &[shard]).await.remove(0)));
    let heard = process.heard(shard, before).await.expect("it answers");
    assert_eq!(heard.into_keys().collect::<Vec<_>>(), [WORKER]);
    let hands = process.in_recovery();
    let of_recovery = hands.recoverable().expect("it is Redis");
    assert!(matches!(of_recovery.hear(WORKER, &[shard]).await.as_slice(), [Ok(1)]), "the recovery lets it hear of whoever may go on");
    process.recovered(shard, 1).await.expect("it answers");
    assert!(matches!(process.hear(another, &[shard]).await.as_slice(), [Ok(1)]));
}

/// Errands of an incarnation may live: what is adopted already stays as it is, and another server never takes the same one.
#[tokio::test]
async fn an_incarnation_is_adopted_once_and_on_one_server() {
    let mut server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let shard = due(&ledger, "acme/a").await.shard;
    let meta = async |ledger: &RedisLedger| ledger.meta(shard).await.expect("it answers").expect("it is written");
    assert_eq!(adopt(&ledger, shard, 1).await, Adopted::Adopted);
    let since = meta(&ledger).await.since;
    assert!(since > curfew_domain::Moment::from_millis(0));
    ledger.recovered(shard, 1).await.expect("it answers");
    assert_eq!(adopt(&ledger, shard, 1).await, Adopted::Adopted);
    assert_eq!((meta(&ledger).await.recovering, meta(&ledger).await.since), (false, since), "its recovery is over");
    server.kill9();
    server.restart().await;
    let again = opened(&server.url());
    assert_eq!(adopt(&again, shard, 1).await, Adopted::Later);
    let long_ago = again.time_of(shard).await.expect("it answers").minus(Duration::from_secs(6));
    assert_eq!(again.adopt(shard, 2, long_ago).await.expect("it answers"), Adopted::Stale);
    assert_eq!(adopt(&again, shard, 2).await, Adopted::Adopted);
    assert!(meta(&again).await.recovering);
}

/// Recovery sees what survived and in which incarnation it was written, and puts a later generation over it.
#[tokio::test]
async fn survivors_tell_when_they_were_written_and_give_way_to_recovery() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let (first, second) = (due(&ledger, "acme/a").await, due(&ledger, "acme/b").await);
    let shard = first.shard;
    adopt(&ledger, shard, 1).await;
    let hands = ledger.in_recovery();
    let now = ledger.now().await.expect("it answers");
    let second = stands(&ledger, second.key.as_str()).await;
    let dropped =
        curfew_domain::transition(&second, &Event::MovedInBook { release_at: now, deadline_at: second.deadline_at }, now).expect("it waits");
    assert_eq!(hands.swap(curfew_ledger::Swap::of(&second, dropped)).await.expect("it answers"), Swapped::Swapped);
    let all = ledger.walk_survivors(shard, None, 10).await.expect("it answers");
    let seen: Vec<_> = all.iter().map(|one| (one.record.key.as_str(), one.written_in, one.record.incarnation)).collect();
    assert_eq!(seen, [("acme/a", 0, 1), ("acme/b", 1, 1)]);
    let asked = [first.key.clone(), super::jobs::key("acme/gone")];
    assert!(is_recovering(&ledger.survivors(&asked).await), "what is missing may come back: nobody else takes it for lost");
    let recovery = hands.recoverable().expect("it is Redis");
    let found = recovery.survivors(&asked).await.expect("it answers");
    assert!(matches!(found.as_slice(), [Some(one), None] if one.written_in == 0));

    let mut raised = record("acme/a", 2, now);
    (raised.generation, raised.incarnation) = (2, 1);
    let create = create_of(raised.clone(), now);
    let refused = recovery.supplant(create.clone(), Some((1, first.version + 1))).await.expect("it answers");
    assert!(matches!(refused, Created::EarlierUnclosed(_)), "another version than the one that was seen");
    assert_eq!(recovery.supplant(create, Some((1, first.version))).await.expect("it answers"), Created::Created);
    assert_eq!(stands(&ledger, "acme/a").await.generation, 2);
    ledger.recovered(shard, 1).await.expect("it answers");
    assert_eq!(ledger.recount(shard).await.expect("it answers"), 0);
}
