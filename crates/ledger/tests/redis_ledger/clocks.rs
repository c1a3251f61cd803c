//! The nodes' clocks: sampled beside the work; a shard whose clock is distrusted is to this process as one that recovers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curfew_domain::transition::Index;
use curfew_domain::{Moment, Shard};
use curfew_ledger::redis::{ClockKnown, Options, RedisLedger};
use curfew_ledger::{Created, Ledger, LedgerError, Recoverable, Swapped};
use curfew_testkit::eventually;
use curfew_testservers::redis::{Cluster, Redis};

use super::jobs::{CLAIM, RELEASE, SHARDS, create_of, due, intent, ledger, moved, record, shard, stands, swap_of};

const PATIENCE: Duration = Duration::from_secs(30);

/// A ledger whose node's clock is ahead of the system's by what the test says.
async fn skewed(url: &str) -> (RedisLedger, Arc<AtomicI64>) {
    let ahead = Arc::new(AtomicI64::new(0));
    let clock = {
        let ahead = Arc::clone(&ahead);
        Arc::new(move || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970");
            Moment::from_millis(since.as_millis() as i64 + ahead.load(Ordering::Relaxed))
        })
    };
    let options = Options { shards: SHARDS, clock: Some(clock), clock_known: ClockKnown::BySamples, ..Options::default() };
    let ledger = RedisLedger::open(url, options).expect("well formed");
    ledger.initialise().await.expect("the server answers");
    (ledger, ahead)
}

fn is_halted<T>(answer: &Result<T, LedgerError>) -> bool {
    matches!(answer, Err(LedgerError::Halted))
}

async fn times_asked(server: &Redis) -> u64 {
    let stats = server.ask(&["INFO", "commandstats"]).await.text();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_time:calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

#[tokio::test]
async fn the_time_costs_no_round_trip_on_the_way() {
    let server = Redis::start(curfew_testservers::redis::Options::default()).await;
    let ledger = ledger(&server.url()).await;
    ledger.now().await.expect("the server answers");
    let before = times_asked(&server).await;
    let began = std::time::Instant::now();
    for _ in 0..10_000 {
        ledger.now().await.expect("the samples answer");
    }
    let rounds = u64::try_from(began.elapsed().as_millis() / 500).expect("a while") + 1;
    let asked = times_asked(&server).await - before;
    assert!(asked <= rounds, "{asked} questions in {:?}", began.elapsed());
}

#[tokio::test]
async fn now_is_never_later_than_the_servers_clock_and_hardly_earlier() {
    let server = Redis::start(curfew_testservers::redis::Options::default()).await;
    let ledger = ledger(&server.url()).await;
    for _ in 0..200 {
        let before = server_time(&server).await;
        let reading = ledger.reading().await.expect("the server answers");
        let after = server_time(&server).await;
        assert!(reading.earliest <= after && reading.latest >= before, "{before} {reading:?} {after}");
    }
}

async fn server_time(server: &Redis) -> Moment {
    let parts = server.ask(&["TIME"]).await.list();
    let part = |n: usize| parts[n].text().parse::<i64>().expect("a number");
    Moment::from_millis(part(0) * 1000 + part(1) / 1000)
}

#[tokio::test]
async fn who_asks_for_the_time_hears_that_the_server_is_gone() {
    let mut server = Redis::start(curfew_testservers::redis::Options::default()).await;
    let ledger = ledger(&server.url()).await;
    ledger.now().await.expect("the server answers");
    server.kill9();
    eventually(PATIENCE, "an error", || async { matches!(ledger.now().await, Err(LedgerError::Unavailable { .. })).then_some(()) }).await;
    server.restart().await;
    eventually(PATIENCE, "the time", || async { ledger.now().await.ok() }).await;
}

#[tokio::test]
async fn after_a_jump_nothing_is_staged_released_claimed_intended_nor_found_overdue_until_the_witness_agrees() {
    let server = Redis::start(curfew_testservers::redis::Options::default()).await;
    let (ledger, ahead) = skewed(&server.url()).await;
    let waiting = due(&ledger, "acme/waiting").await;
    let claimed = moved(&ledger, &due(&ledger, "acme/claimed").await, &CLAIM).await;
    let of_acme = shard("acme/waiting");
    let before = ledger.now().await.expect("the samples answer");

    ahead.store(600_000, Ordering::Relaxed);
    eventually(PATIENCE, "the jump is seen", || async {
        ledger.now().await.expect("the server answers");
        ledger.is_halted(of_acme).then_some(())
    })
    .await;
    for (record, event) in [(&waiting, RELEASE), (&waiting, CLAIM), (&claimed, intent(9))] {
        assert!(is_halted(&ledger.swap(swap_of(&ledger, record, &event).await).await));
    }
    let now = ledger.now().await.expect("the samples answer");
    assert!(now.since(before) < Duration::from_secs(300), "the old clock goes on");
    assert!(is_halted(&ledger.create(vec![create_of(record("acme/new", 1, now), now)]).await));
    for index in Index::ALL {
        assert!(is_halted(&ledger.overdue(of_acme, *index, now.plus(Duration::from_secs(7200)), 10).await));
    }
    assert!(is_halted(&ledger.lines(of_acme, now, 10, 10, &[]).await));
    // What is in hand goes on: its lease is renewed, and it can be given back.
    let renewed = moved(&ledger, &claimed, &curfew_domain::Event::Renew { worker: super::jobs::WORKER, lease: Duration::from_secs(60) }).await;
    assert_eq!(renewed.version, claimed.version + 1);
    assert_eq!(stands(&ledger, "acme/waiting").await, waiting);

    let clocks = ledger.node_clocks().await.expect("the server answers");
    assert_eq!((clocks.len(), clocks[0].jumps, clocks[0].shards.len()), (1, 1, usize::from(SHARDS)));
    ledger.halt(BTreeSet::new(), &[]);
    assert!(ledger.is_halted(of_acme), "a word on a clock as it was before says nothing of the jump");
    assert!((590_000..610_000).contains(&clocks[0].ahead_ms), "{clocks:?}");

    // The clock is set right, and the witness says so: everything goes on.
    ahead.store(0, Ordering::Relaxed);
    let seen = eventually(PATIENCE, "the way back is seen", || async {
        let clocks = ledger.node_clocks().await.expect("the server answers");
        (clocks[0].jumps == 2).then_some(clocks)
    })
    .await;
    ledger.halt(BTreeSet::from_iter(clocks[0].shards.iter().copied()), &seen);
    assert!(is_halted(&ledger.swap(swap_of(&ledger, &waiting, &CLAIM).await).await), "not before the witness says so");
    ledger.halt(BTreeSet::new(), &seen);
    assert_eq!(ledger.swap(swap_of(&ledger, &waiting, &CLAIM).await).await.expect("the server answers"), Swapped::Swapped);
    let now = ledger.now().await.expect("the samples answer");
    let created = ledger.create(vec![create_of(record("acme/new", 1, now), now)]).await.expect("the server answers");
    assert_eq!(created, [Created::Created]);
}

#[tokio::test]
async fn each_node_of_a_cluster_has_its_own_clock_and_its_own_shards() {
    let cluster = Cluster::start(curfew_testservers::redis::Options::default()).await;
    let ledger = RedisLedger::open(&cluster.url(), Options { prefix: "clocks".into(), ..Options::default() }).expect("well formed");
    ledger.initialise().await.expect("the cluster answers");
    let clocks = ledger.node_clocks().await.expect("the cluster answers");
    assert_eq!(clocks.len(), 3);
    let shards: BTreeSet<Shard> = clocks.iter().flat_map(|clock| clock.shards.iter().copied()).collect();
    assert_eq!(shards, (0..16).map(Shard).collect());
    // One that is distrusted holds up its own shards alone.
    ledger.halt(clocks[0].shards.iter().copied().collect(), &clocks);
    for clock in &clocks {
        for shard in &clock.shards {
            assert_eq!(ledger.is_halted(*shard), clock.name == clocks[0].name);
        }
    }
    let now = ledger.now().await.expect("the others answer");
    assert!(is_halted(&ledger.overdue(clocks[0].shards[0], Index::Watch, now, 1).await));
    assert_eq!(ledger.overdue(clocks[1].shards[0], Index::Watch, now, 1).await.expect("it answers"), []);
}

#[tokio::test]
async fn what_the_servers_hold_is_measured() {
    let server = Redis::start(curfew_testservers::redis::Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let before = ledger.live_bytes().await.expect("the server answers");
    server.ask(&["SET", "somebody-elses", &"x".repeat(5_000_000)]).await;
    let more = ledger.live_bytes().await.expect("the server answers") - before;
    // The server may still hold what it read the command into, once more as large.
    assert!((5_000_000..12_000_000).contains(&more), "{more}");
}

#[tokio::test]
async fn a_node_that_is_away_keeps_its_halt_and_holds_up_nothing_of_the_others() {
    // Without this a Cluster that misses one node stops as a whole.
    let options = curfew_testservers::redis::Options::default().with(&["--cluster-require-full-coverage", "no"]);
    let mut cluster = Cluster::start(options).await;
    let ledger = ledger(&cluster.url()).await;
    ledger.beat(1).await.expect("the cluster answers");
    let clocks = ledger.node_clocks().await.expect("the cluster answers");
    assert!(clocks.iter().all(|clock| clock.answered), "{clocks:?}");
    let victim = cluster.nodes.iter().position(|node| clocks[0].name.ends_with(&format!(":{}", node.addr().port()))).expect("it is one of them");
    let theirs = clocks[0].shards.clone();
    ledger.halt(theirs.iter().copied().collect(), &clocks);
    cluster.nodes[victim].kill9();
    let seen = eventually(PATIENCE, "the others' clocks", || async {
        let seen = ledger.node_clocks().await.ok()?;
        seen.iter().any(|clock| clock.answered).then_some(seen)
    })
    .await;
    let of_victim = seen.iter().find(|clock| clock.name == clocks[0].name).expect("it still serves its shards");
    assert_eq!((of_victim.answered, &of_victim.shards), (false, &theirs));
    assert!(theirs.iter().all(|shard| ledger.is_halted(*shard)));
    let others: Vec<Shard> = (0..SHARDS).map(Shard).filter(|shard| !theirs.contains(shard)).collect();
    eventually(PATIENCE, "the others' heartbeats", || async {
        assert!(ledger.beat(2).await.is_err(), "it is told that one has none");
        for shard in &others {
            if ledger.last_beat_of(*shard).await.ok()??.count != 2 {
                return None;
            }
        }
        Some(())
    })
    .await;
    let last = eventually(PATIENCE, "the last heartbeat", || async { ledger.last_beat().await.ok().flatten() }).await;
    assert_eq!(last.count, 2, "of those that answer");
    assert!(ledger.live_bytes().await.is_ok());
    assert_eq!(ledger.unled(&(0..SHARDS).map(Shard).collect::<Vec<_>>()).await.expect("the others answer"), others);
}
