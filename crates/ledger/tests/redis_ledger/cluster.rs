//! A Cluster of three: the suite, a node that dies, a slot that moves.

use std::time::Duration;

use curfew_domain::Shard;
use curfew_ledger::redis::Adopted;
use curfew_ledger::{Ledger, Recoverable};
use curfew_testkit::eventually;
use curfew_testservers::redis::{Cluster, Options, Resp};

use super::jobs::{CLAIM, SHARDS, adopt, due, is_other_server, ledger, moved, stands, swap_of};
use super::suite::whole_suite;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_passes_on_a_cluster() {
    let cluster = Cluster::start(Options::default()).await;
    let addrs: Vec<_> = cluster.nodes.iter().map(|node| node.addr()).collect();
    whole_suite(&cluster.url(), &addrs).await;
}

async fn slot_of(cluster: &Cluster, shard: Shard) -> u16 {
    let Resp::Number(slot) = cluster.nodes[0].ask(&["CLUSTER", "KEYSLOT", &shard.to_string()]).await else { panic!("a slot is a number") };
    slot as u16
}

/// A tenant for each shard.
fn tenant_of(shard: Shard) -> String {
    (0..).map(|n| format!("tenant-{n}")).find(|tenant| Shard::of_tenant(tenant, SHARDS) == shard).expect("every shard has tenants")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_holds_up_its_own_shards_alone() {
    // Without this a Cluster that misses one node stops as a whole.
    let mut cluster = Cluster::start(Options::default().with(&["--cluster-require-full-coverage", "no"])).await;
    let ledger = ledger(&cluster.url()).await;
    let victim = cluster.node_of(slot_of(&cluster, Shard(0)).await);
    let mut there = Vec::new();
    for shard in (0..SHARDS).map(Shard) {
        let waiting = due(&ledger, &format!("{}/a", tenant_of(shard))).await;
        there.push((cluster.node_of(slot_of(&cluster, shard).await) == victim, waiting));
    }
    assert!(there.iter().any(|(dead, _)| !dead), "the shards are on more than one node");
    cluster.nodes[victim].kill9();
    for (_, waiting) in there.iter().filter(|(dead, _)| !dead) {
        moved_at_last(&ledger, waiting).await;
    }
    cluster.nodes[victim].restart().await;
    cluster.is_well().await;
    for (_, waiting) in there.iter().filter(|(dead, _)| *dead) {
        eventually(SOON, "the node's new run", || async { is_other_server(&ledger.get(&waiting.key).await).then_some(()) }).await;
        assert_eq!(adopt(&ledger, waiting.shard, 1).await, Adopted::Adopted);
        ledger.recovered(waiting.shard, 1).await.expect("it answers");
        let there = stands(&ledger, waiting.key.as_str()).await;
        moved(&ledger, &there, &CLAIM).await;
    }
}

/// The connection to a living node may be asked for anew, while the Cluster is asked who serves what.
async fn moved_at_last(ledger: &curfew_ledger::redis::RedisLedger, waiting: &curfew_domain::Record) {
    let now = waiting.release_at;
    let change = curfew_domain::transition(waiting, &CLAIM, now).expect("due");
    let swap = curfew_ledger::Swap::of(waiting, change);
    let swapped = eventually(SOON, "a claim on a living node", || async { ledger.swap(swap.clone()).await.ok() }).await;
    assert_eq!(swapped, curfew_ledger::Swapped::Swapped);
}

/// MOVED means another server: it is asked for its name, and the shard waits until it is adopted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moved_is_identified_anew() {
    let cluster = Cluster::start(Options::default()).await;
    let ledger = ledger(&cluster.url()).await;
    let shard = Shard(2);
    let waiting = due(&ledger, &format!("{}/a", tenant_of(shard))).await;
    let slot = slot_of(&cluster, shard).await;
    let (from, to) = (&cluster.nodes[cluster.node_of(slot)], &cluster.nodes[(cluster.node_of(slot) + 1) % 3]);
    let slot = slot.to_string();
    let (from_id, to_id) = (from.ask(&["CLUSTER", "MYID"]).await.text(), to.ask(&["CLUSTER", "MYID"]).await.text());
    to.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await;
    from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await;
    let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]).await.list().iter().map(Resp::text).collect();
    let port = to.addr().port().to_string();
    let migrate: Vec<&str> = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    assert_eq!(from.ask(&migrate).await, Resp::Text("OK".into()));
    for node in [to, from] {
        node.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
    }

    eventually(SOON, "the slot's new node", || async { is_other_server(&ledger.get(&waiting.key).await).then_some(()) }).await;
    assert_eq!(adopt(&ledger, shard, 1).await, Adopted::Adopted);
    ledger.recovered(shard, 1).await.expect("it answers");
    let there = stands(&ledger, waiting.key.as_str()).await;
    assert_eq!(ledger.swap(swap_of(&ledger, &there, &CLAIM).await).await.expect("it answers"), curfew_ledger::Swapped::Swapped);
}
