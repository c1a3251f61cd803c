//! A Sentinel trio: the suite, and a failover in the middle of work.

use std::time::Duration;

use curfew_domain::Shard;
use curfew_ledger::redis::{Adopted, Level};
use curfew_ledger::{Created, Ledger, Recoverable, Swapped};
use curfew_testkit::eventually;
use curfew_testservers::redis::{Options, Resp, SentinelTrio};

use super::jobs::{CLAIM, SHARDS, adopt, create_of, due, is_other_server, key, ledger, record, stands, swap_of};
use super::suite::whole_suite;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_passes_through_sentinels() {
    let trio = SentinelTrio::start(Options::default()).await;
    let addrs: Vec<_> = trio.servers.iter().map(|server| server.addr()).collect();
    whole_suite(&trio.url(), &addrs).await;
}

/// After a failover every connection of before is refused by identity, and nothing is created twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failover_nothing_goes_through_until_the_shard_is_adopted() {
    let mut trio = SentinelTrio::start(Options::default().with(&["--min-replicas-to-write", "1", "--min-replicas-max-lag", "10"])).await;
    let ledger = ledger(&trio.url()).await;
    assert_eq!(ledger.durability().await.expect("it answers").level, Level::Replicated);
    let now = ledger.now().await.expect("it answers");
    let creates: Vec<_> = (0..200).map(|n| create_of(record(&format!("tenant-{}/{n}", n % 7), 1, now), now)).collect();
    let answers = ledger.create(creates.clone()).await.expect("it answers");
    assert!(answers.iter().all(|answer| *answer == Created::Created));
    let waiting = due(&ledger, "acme/a").await;
    let claim = swap_of(&ledger, &waiting, &CLAIM).await;
    assert_eq!(ledger.swap(claim.clone()).await.expect("it answers"), Swapped::Swapped);
    // Both replicas have it: this failover loses nothing, so that what is refused is refused by identity alone.
    let old = trio.primary().await;
    assert_eq!(trio.servers[old].ask(&["WAIT", "2", "5000"]).await, Resp::Number(2));

    trio.servers[old].kill9();
    let new = trio.failed_over(old).await;
    eventually(SOON, "a connection to the new primary", || async { is_other_server(&ledger.create(creates.clone()).await).then_some(()) }).await;
    assert!(is_other_server(&ledger.swap(claim.clone()).await));
    assert!(is_other_server(&ledger.get(&key("acme/a")).await));
    let server = &trio.servers[new];
    let mut all = 0;
    for shard in (0..SHARDS).map(Shard) {
        let Resp::Number(records) = server.ask(&["ZCARD", &format!("test:{{{shard}}}:all")]).await else { panic!("ZCARD gives a number") };
        all += records;
    }
    assert_eq!(all, 201, "nothing was written in between");

    for shard in (0..SHARDS).map(Shard) {
        assert_eq!(adopt(&ledger, shard, 1).await, Adopted::Adopted);
        ledger.recovered(shard, 1).await.expect("it answers");
        assert_eq!(ledger.recount(shard).await.expect("it answers"), 0);
    }
    // The staging of before is begun anew, and finds its records there; it and its claim belonged to the incarnation before.
    assert!(is_other_server(&ledger.create(creates.clone()).await));
    let mut creates = creates;
    creates.iter_mut().for_each(|create| create.change.record.incarnation = 1);
    let again = ledger.create(creates).await.expect("it answers");
    assert!(again.iter().all(|answer| matches!(answer, Created::Exists(_))), "{again:?}");
    assert!(is_other_server(&ledger.swap(claim).await));
    assert_eq!(stands(&ledger, "acme/a").await.version, 2);
}
