//! Soft leases: by them schedulers share the shards.

use std::time::Duration;

use curfew_domain::{Shard, WorkerId};
use uuid::Uuid;

use super::{Bench, SHARD};
use crate::Ledger;
use crate::lead::{Lead, Standing, Wish};

const FIRST: WorkerId = WorkerId(Uuid::from_u128(1));
const SECOND: WorkerId = WorkerId(Uuid::from_u128(2));
const LONG: Duration = Duration::from_secs(600);

async fn wish(ledger: &dyn Ledger, shard: Shard, who: WorkerId, wish: Wish) -> (Standing, u32) {
    let Lead { standing, seekers } = ledger.lead(shard, who, LONG, wish).await.expect("the ledger answers");
    (standing, seekers)
}

/// The first who wants a shard has it, and keeps it while it asks again.
pub async fn one_leads_a_shard(bench: &dyn Bench) {
    let ledger = bench.ledger();
    assert_eq!(wish(&*ledger, SHARD, FIRST, Wish::Ask).await, (Standing::Free, 1));
    assert_eq!(wish(&*ledger, SHARD, FIRST, Wish::Lead).await, (Standing::Ours, 1));
    assert_eq!(wish(&*ledger, SHARD, SECOND, Wish::Lead).await, (Standing::Anothers, 2));
    assert_eq!(wish(&*ledger, SHARD, FIRST, Wish::Lead).await, (Standing::Ours, 2), "asking again renews it");
    assert_eq!(wish(&*ledger, Shard(2), SECOND, Wish::Lead).await, (Standing::Ours, 1), "each shard is led by itself");
    assert_eq!(ledger.unled(&[SHARD, Shard(2), Shard(0)]).await.expect("the ledger answers"), [Shard(0)]);
}

/// What is handed back is anybody's at once; a shard of another can't be given away.
pub async fn what_is_handed_back_is_free_at_once(bench: &dyn Bench) {
    let ledger = bench.ledger();
    assert_eq!(wish(&*ledger, SHARD, FIRST, Wish::Lead).await, (Standing::Ours, 1));
    for harmless in [Wish::HandBack, Wish::Leave] {
        assert_eq!(wish(&*ledger, SHARD, SECOND, harmless).await.0, Standing::Anothers);
    }
    assert_eq!(wish(&*ledger, SHARD, FIRST, Wish::HandBack).await, (Standing::Free, 1), "it goes on seeking");
    assert_eq!(wish(&*ledger, SHARD, SECOND, Wish::Lead).await, (Standing::Ours, 2));
    assert_eq!(wish(&*ledger, SHARD, SECOND, Wish::Leave).await, (Standing::Free, 1), "who left is counted no more");
    assert_eq!(wish(&*ledger, SHARD, FIRST, Wish::Lead).await, (Standing::Ours, 1));
}
