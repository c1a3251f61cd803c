//! The soft leases by which schedulers share the shards.

use std::time::Duration;

use curfew_domain::{Shard, WorkerId};
use curfew_ledger::Ledger;
use curfew_testservers::redis::{Options, Redis, Resp};
use uuid::Uuid;

use super::jobs::{ledger, opened};

const FIRST: WorkerId = WorkerId(Uuid::from_u128(1));
const SECOND: WorkerId = WorkerId(Uuid::from_u128(2));
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn one_leads_a_shard_until_its_lease_is_over() {
    let server = Redis::start(Options::default()).await;
    let (ours, theirs) = (ledger(&server.url()).await, opened(&server.url()));
    assert!(ours.lead(Shard(1), FIRST, LONG).await.expect("the ledger answers"));
    assert!(!theirs.lead(Shard(1), SECOND, LONG).await.expect("the ledger answers"), "another has it");
    assert!(theirs.lead(Shard(2), SECOND, LONG).await.expect("the ledger answers"), "each shard is led by itself");
    assert!(ours.lead(Shard(1), FIRST, LONG).await.expect("the ledger answers"), "asking again renews it");

    // Renewed for a moment, and not again: it is anybody's as soon as that is over.
    assert!(ours.lead(Shard(1), FIRST, Duration::from_millis(1)).await.expect("the ledger answers"));
    curfew_testkit::eventually(Duration::from_secs(30), "the lease is over", || async {
        theirs.lead(Shard(1), SECOND, LONG).await.expect("the ledger answers").then_some(())
    })
    .await;
    assert!(!ours.lead(Shard(1), FIRST, LONG).await.expect("the ledger answers"));
}

/// A server that forgot its scripts, as each does when it starts.
#[tokio::test]
async fn a_lease_is_taken_on_a_server_that_forgot_the_scripts() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    assert_eq!(server.ask(&["SCRIPT", "FLUSH"]).await, Resp::Text("OK".into()));
    assert!(ledger.lead(Shard(0), FIRST, LONG).await.expect("the ledger answers"));
    assert_eq!(ledger.permits("smtp", 10.0, 1).await.expect("the ledger answers").0, 1);
}
