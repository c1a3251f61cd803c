//! The soft leases by which schedulers share the shards.

use std::time::Duration;

use curfew_domain::{Shard, WorkerId};
use curfew_ledger::Ledger;
use curfew_ledger::lead::{Standing, Wish};
use curfew_ledger::redis::RedisLedger;
use curfew_testservers::redis::{Options, Redis, Resp};
use uuid::Uuid;

use super::jobs::{ledger, opened};

const FIRST: WorkerId = WorkerId(Uuid::from_u128(1));
const SECOND: WorkerId = WorkerId(Uuid::from_u128(2));
const LONG: Duration = Duration::from_secs(600);

async fn leads(ledger: &RedisLedger, who: WorkerId, lease: Duration) -> (Standing, u32) {
    let lead = ledger.lead(Shard(1), who, lease, Wish::Lead).await.expect("the ledger answers");
    (lead.standing, lead.seekers)
}

#[tokio::test]
async fn one_leads_a_shard_until_its_lease_is_over() {
    let server = Redis::start(Options::default()).await;
    let (ours, theirs) = (ledger(&server.url()).await, opened(&server.url()));
    assert_eq!(leads(&ours, FIRST, LONG).await, (Standing::Ours, 1));
    assert_eq!(leads(&theirs, SECOND, LONG).await, (Standing::Anothers, 2));

    // Renewed for a moment, and not again: it is anybody's as soon as that is over, and who is silent is counted no more.
    assert_eq!(leads(&ours, FIRST, Duration::from_millis(1)).await.0, Standing::Ours);
    curfew_testkit::eventually(Duration::from_secs(30), "the lease is over", || async {
        (leads(&theirs, SECOND, LONG).await == (Standing::Ours, 1)).then_some(())
    })
    .await;
    assert_eq!(leads(&ours, FIRST, LONG).await, (Standing::Anothers, 2));
}

/// A server that forgot its scripts, as each does when it starts.
#[tokio::test]
async fn a_lease_is_taken_on_a_server_that_forgot_the_scripts() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    assert_eq!(server.ask(&["SCRIPT", "FLUSH"]).await, Resp::Text("OK".into()));
    assert_eq!(leads(&ledger, FIRST, LONG).await, (Standing::Ours, 1));
    assert_eq!(ledger.permits("smtp", 10.0, 1).await.expect("the ledger answers").0, 1);
}
