//! Recovery of a ledger that is more than one Redis (DESIGN 8): Sentinels promote a replica that lacks the tail; a node of a Cluster comes back
//! without its own. Every process lives, so nothing of it is in doubt, and nobody mends it by hand.
//!
//! P1: the mail server's own count. P2: each job ends, and the day adds up. `recovery.rs` does the same to one Redis.

use std::time::{Duration, Instant};

use curfew_domain::Shard;
use curfew_tests::flow::Scene;
use curfew_tests::until;
use curfew_testservers::redis::{Cluster, Options, Resp, SentinelTrio};

const COUNT: usize = 300;
const SHARDS: u8 = 4;
/// What is handed in while the tail grows is due long after it is lost: by then it is staged again.
const LONG_AFTER: Duration = Duration::from_secs(60);
/// Accepted after the moment to which the ledger goes back.
const TAIL: u64 = 40;

/// Waits until everything that was handed in is the ledger's.
fn staged(scene: &Scene) {
    until("everything is staged", || (scene.fleet.day()["planned"] == 0).then_some(()));
}

/// Replication is cut, mails go on, and the primary is killed: what it alone knew is lost. It comes back, and nobody asks it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_loses_the_tail_sends_nothing_twice_and_loses_nothing() {
    let mut trio = SentinelTrio::start(Options::default()).await;
    let mut scene = Scene::begin_on(&trio.url(), COUNT).await;
    scene.feed(2, Duration::from_secs(20));
    staged(&scene);
    scene.flows(20);

    let old = trio.primary().await;
    trio.cut_replication().await;
    scene.flow.feed_later(&scene.fleet, 2, LONG_AFTER, Duration::ZERO);
    staged(&scene);
    scene.flows(TAIL);
    let had = trio.offset(old).await;
    trio.servers[old].kill9();
    let begun = Instant::now();
    let new = trio.failed_over(old).await;
    println!("the new primary lacks {} bytes of {had}", had - trio.offset(new).await);
    trio.mend_replication(old).await;
    trio.servers[old].restart().await;
    scene.flows(TAIL);
    println!("mails flow {:.1} s after the kill", begun.elapsed().as_secs_f64());
    scene.all_are_sent();
}

/// A tenant whose shard is on this node of the Cluster.
async fn tenant_on(cluster: &Cluster, node: usize) -> String {
    for n in 0.. {
        let tenant = format!("tenant-{n}");
        if node_of(cluster, &Shard::of_tenant(&tenant, SHARDS).to_string()).await == node {
            return tenant;
        }
    }
    unreachable!("every node has tenants")
}

async fn node_of(cluster: &Cluster, key: &str) -> usize {
    let Resp::Number(slot) = cluster.nodes[0].ask(&["CLUSTER", "KEYSLOT", key]).await else { panic!("a slot is a number") };
    cluster.node_of(u16::try_from(slot).expect("a slot is below 16,384"))
}

/// One of three nodes is killed and comes back as it was some mails ago. The others' tenants wait for nothing meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_node_that_comes_back_without_its_tail_sends_nothing_twice_and_holds_up_no_other() {
    // Without this a Cluster that misses one node stops as a whole.
    let mut cluster = Cluster::start(Options::default().with(&["--cluster-require-full-coverage", "no"])).await;
    // The rates and the holds of the whole fleet have slots of their own: whoever misses those sends nothing.
    let fleets = [node_of(&cluster, "{permits:transport/default}").await, node_of(&cluster, "{holds}").await];
    let node = (0..3).find(|node| !fleets.contains(node)).expect("two slots are on two nodes at most");
    let tenants = vec![tenant_on(&cluster, node).await, tenant_on(&cluster, fleets[0]).await];
    let mut scene = Scene::begin_on(&cluster.url(), COUNT).await;
    scene.flow.tenants(tenants);
    scene.feed(2, Duration::from_secs(20));
    staged(&scene);
    scene.flows(20);

    let snapshot = cluster.nodes[node].snapshot();
    scene.flow.feed_later(&scene.fleet, 2, LONG_AFTER, Duration::ZERO);
    staged(&scene);
    scene.flows(TAIL);
    cluster.nodes[node].kill9();
    let begun = Instant::now();
    // More than three workers may have had in hand.
    scene.flows(20);
    println!("the other node's mails flow {:.1} s after the kill", begun.elapsed().as_secs_f64());
    cluster.nodes[node].put_back(&snapshot);
    cluster.nodes[node].restart().await;
    scene.all_are_sent();
}
