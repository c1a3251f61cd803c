//! What a server tells of itself, and what it keeps to.

use std::time::Duration;

use curfew_domain::limits::TOMBSTONE;
use curfew_domain::outcome::{Outcome, OutcomeClass, Receipt, Stage};
use curfew_domain::sealed::RecipientRef;
use curfew_domain::transition::{Counter, Guard, Index, Rules, Verdict};
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Event, State, Token};
use curfew_ledger::redis::{Level, RedisLedger};
use curfew_ledger::{Created, Ledger, LedgerError, Suppression, Swap, Swapped};
use curfew_testservers::redis::{Options, Redis, Resp};
use uuid::Uuid;

use super::jobs::{
    CLAIM, RELEASE, create_of, due, intent, is_unavailable, key, ledger, moved, opened, options, policy, record, shard, stands, swap_of,
};

#[tokio::test]
async fn the_level_of_durability_is_read_from_the_server() {
    let always = Redis::start(Options::default()).await;
    let found = ledger(&always.url()).await.durability().await.expect("the server answers");
    assert_eq!((found.level, found.refused, found.split_brain_safe), (Level::Fsync, None, true), "{:?}", found.reasons);

    let forgetful = Options { appendonly: false, maxmemory: 10_000_000, maxmemory_policy: "allkeys-lru", ..Options::default() };
    let forgetful = Redis::start(forgetful).await;
    let found = ledger(&forgetful.url()).await.durability().await.expect("the server answers");
    assert_eq!(found.level, Level::None);
    assert!(found.refused.is_some_and(|why| why.contains("noeviction")));
}

/// L6 on the clock of the node, with no hand on it.
#[tokio::test]
async fn without_a_clock_by_hand_the_nodes_own_clock_judges() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let now = ledger.now().await.expect("the ledger answers");
    let hour = Duration::from_secs(3600);
    let early = record("acme/early", 1, now.plus(hour));
    let late = record("acme/late", 1, now.minus(hour));
    let creates = vec![create_of(early.clone(), now), create_of(late.clone(), now), create_of(record("acme/stale", 1, now), now.minus(hour))];
    let answers = ledger.create(creates).await.expect("the ledger answers");
    assert_eq!(answers, [Created::Created, Created::Created, Created::StaleRead]);
    // By the caller's clock, which runs an hour ahead or behind, each is due.
    let ahead = Swap::of(&early, curfew_domain::transition(&early, &CLAIM, early.release_at).expect("due"));
    let behind = Swap::of(&late, curfew_domain::transition(&late, &CLAIM, late.release_at).expect("due"));
    let answers = ledger.swap_all(vec![ahead, behind]).await.expect("the ledger answers");
    assert_eq!(answers, [Swapped::Refused(Guard::NotBefore(early.release_at)), Swapped::Refused(Guard::Before(late.deadline_at))]);
}

#[tokio::test]
async fn a_tombstone_expires_by_itself_and_a_live_record_never() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let first = due(&ledger, "acme/a").await;
    due(&ledger, "acme/b").await;
    let cancelled = moved(&ledger, &first, &Event::Verb(&NumberedVerb { number: 1, generation: 1, verb: Verb::Cancel })).await;
    moved(&ledger, &cancelled, &Event::Closed).await;
    let ttl = |name: &str| format!("test:{{{}}}:job:{name}", shard(name));
    let Resp::Number(left) = server.ask(&["PTTL", &ttl("acme/a")]).await else { panic!("PTTL gives a number") };
    let whole = TOMBSTONE.as_millis() as i64;
    assert!(left <= whole && left > whole - 60_000, "{left}");
    assert_eq!(server.ask(&["PTTL", &ttl("acme/b")]).await, Resp::Number(-1));
    let letter = server.ask(&["EXISTS", &format!("test:{{{}}}:letter:acme/a", shard("acme/a"))]).await;
    assert_eq!(letter, Resp::Number(0), "the letter went when the job ended");
}

/// L4: a late acceptance of a recorded dead letter owes something again, and nothing of it expires.
#[tokio::test]
async fn a_tombstone_that_lives_again_does_not_expire() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let policy = policy();
    let rules = Rules { policy: &policy, jitter: 0.0, idempotency_window: None, attempt_max: Duration::from_secs(60) };
    let verdict = |verdict| Event::Verdict { token: Token(Uuid::from_u128(9)), verdict, rules };
    let claimed = moved(&ledger, &due(&ledger, "acme/a").await, &CLAIM).await;
    let handed = moved(&ledger, &claimed, &intent(9)).await;
    let unknown = Outcome::new(OutcomeClass::Ambiguous, Stage::Dot, "test", "no answer");
    let dead = moved(&ledger, &handed, &verdict(Verdict::Unknown(&unknown))).await;
    let recorded = moved(&ledger, &dead, &Event::Closed).await;
    let now = ledger.now().await.expect("the ledger answers");
    let receipt = Receipt { at: now, code: 250, text: "ok".into(), queue_id: None };
    let sent = moved(&ledger, &recorded, &verdict(Verdict::Accepted(&receipt))).await;
    assert_eq!((sent.state, sent.closed), (State::Sent, false));

    let long_after = now.plus(TOMBSTONE * 2);
    assert_eq!(ledger.expire(long_after, 100).await.expect("the ledger answers"), 0);
    for part in ["job", "history"] {
        assert_eq!(server.ask(&["PTTL", &format!("test:{{{}}}:{part}:acme/a", sent.shard)]).await, Resp::Number(-1), "{part}");
    }
    let settle = ledger.overdue(sent.shard, Index::Settle, long_after, 10).await.expect("the ledger answers");
    assert_eq!(settle.len(), 1, "the book must know");
    assert_eq!(ledger.recount(sent.shard).await.expect("the ledger answers"), 0);
}

/// Versions are compared as bytes: two of them that one Lua number stands for are not the same.
#[tokio::test]
async fn versions_beyond_2_to_the_53_are_told_apart() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let now = ledger.now().await.expect("the ledger answers");
    let version = (1_u64 << 53) + 1;
    ledger.create(vec![create_of(record("acme/a", version, now), now)]).await.expect("the ledger answers");
    let stands_there = stands(&ledger, "acme/a").await;
    assert_eq!(stands_there.version, version);
    let right = swap_of(&ledger, &stands_there, &RELEASE).await;
    for near in [version - 1, version + 2] {
        let wrong = Swap { version: near, ..right.clone() };
        assert_eq!(ledger.swap(wrong).await.expect("the ledger answers"), Swapped::Conflict(Box::new(stands_there.clone())));
    }
    ledger.postpone(vec![(key("acme/a"), version - 1, now)]).await.expect("the ledger answers");
    assert!(ledger.overdue(shard("acme/a"), Index::Watch, now, 10).await.expect("the ledger answers").is_empty());
    assert_eq!(ledger.swap(right).await.expect("the ledger answers"), Swapped::Swapped);
    assert_eq!(stands(&ledger, "acme/a").await.version, version + 1);
}

/// A server that is full, or misses a replica, refuses the first write of a script, so that nothing is ever half there.
#[tokio::test]
async fn a_server_that_takes_no_writes_writes_nothing_rather_than_half() {
    for (setting, refusing, usual) in [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")] {
        refused_whole(setting, refusing, usual).await;
    }
}

async fn refused_whole(setting: &str, refusing: &str, usual: &str) {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let waiting = due(&ledger, "acme/a").await;
    server.ask(&["CONFIG", "SET", setting, refusing]).await;
    let now = ledger.now().await.expect("the clock needs no memory");
    assert!(is_unavailable(&ledger.create(vec![create_of(record("acme/b", 1, now), now)]).await));
    let release = swap_of(&ledger, &waiting, &RELEASE).await;
    assert!(is_unavailable(&ledger.swap(release.clone()).await));
    server.ask(&["CONFIG", "SET", setting, usual]).await;
    assert_eq!(ledger.get(&key("acme/b")).await.expect("the ledger answers"), None);
    let walked = ledger.walk(shard("acme/a"), None, 10).await.expect("the ledger answers");
    assert!(matches!(walked.as_slice(), [(record, Some(_), Some(_))] if *record == waiting), "{walked:?}");
    assert_eq!(ledger.swap(release).await.expect("the ledger answers"), Swapped::Swapped);
    assert_eq!(ledger.recount(shard("acme/a")).await.expect("the ledger answers"), 0);
}

#[tokio::test]
async fn a_recount_mends_what_differs() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let waiting = due(&ledger, "acme/a").await;
    let (shard, second) = (waiting.shard, Counter::QueuedSecond(5));
    let counts = format!("test:{{{shard}}}:counts");
    server.ask(&["HSET", &counts, "s:scheduled", "9", "n:5", "3"]).await;
    server.ask(&["HDEL", &counts, &format!("d:{}", waiting.due().as_millis())]).await;
    server.ask(&["DEL", &format!("test:{{{shard}}}:due")]).await;
    assert_eq!(ledger.recount(shard).await.expect("the ledger answers"), 3);
    assert_eq!(ledger.recount(shard).await.expect("the ledger answers"), 0);
    assert_eq!(ledger.counts(shard, &[Counter::State(State::Scheduled), second]).await.expect("the ledger answers"), [1, 0]);
    assert_eq!(ledger.oldest_due(shard, waiting.due()).await.expect("the ledger answers"), Some(waiting.due()));
}

/// Lists longer than one command, in the shards of their tenants, replaced whole; nothing is written where nothing changed.
#[tokio::test]
async fn long_suppressions_stand_in_their_tenants_shards() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let mut list: Vec<Suppression> =
        (0..2_500).map(|n| Suppression { tenant: Some("acme".into()), recipient_ref: RecipientRef(format!("{n:032x}")) }).collect();
    list.push(Suppression { tenant: None, recipient_ref: RecipientRef("f".repeat(32)) });
    for _ in 0..2 {
        ledger.set_suppressions(list.clone()).await.expect("the ledger answers");
    }
    for n in 0..4 {
        let size = server.ask(&["SCARD", &format!("test:{{{n:02}}}:suppressed")]).await;
        assert_eq!(size, Resp::Number(if n == i64::from(shard("acme/a").0) { 2_501 } else { 1 }), "shard {n}");
        assert_eq!(server.ask(&["TTL", &format!("test:{{{n:02}}}:suppressed")]).await, Resp::Number(-1));
    }
    ledger.set_suppressions(Vec::new()).await.expect("the ledger answers");
    assert_eq!(server.ask(&["EXISTS", &format!("test:{{{}}}:suppressed", shard("acme/a"))]).await, Resp::Number(0));
}

#[tokio::test]
async fn a_ledger_that_is_set_up_wrongly_says_so() {
    let server = Redis::start(Options::default().with(&["--requirepass", "secret"])).await;
    let refused = opened(&server.url()).initialise().await;
    assert!(matches!(&refused, Err(LedgerError::Store(why)) if !why.contains("secret")), "{refused:?}");
    let with_password = format!("redis://:secret@{}/3", server.addr());
    opened(&with_password).initialise().await.expect("the password is right");
    for options in [
        curfew_ledger::redis::Options { shards: 0, ..options() },
        curfew_ledger::redis::Options { shards: 65, ..options() },
        curfew_ledger::redis::Options { prefix: "a{b}".to_owned(), ..options() },
    ] {
        assert!(matches!(RedisLedger::open(&server.url(), options), Err(LedgerError::Store(_))));
    }
}
