//! Records that this process can't read: a newer one's, which are somebody's, and broken ones, which are nobody's.

use std::time::Duration;

use curfew_domain::transition::Index;
use curfew_ledger::Ledger;
use curfew_testservers::redis::{Options, Redis};

use super::jobs::{RELEASE, due, ledger, moved};

/// Puts other bytes behind the front of every record; by the front scripts go.
async fn spoil(server: &Redis, bytes: &str) {
    let script = format!(
        "for _, k in ipairs(redis.call('KEYS', '*job:*')) do local s = redis.call('GET', k) redis.call('SET', k, s:sub(1, 15 + s:byte(14) * 256 + s:byte(15)) .. {bytes}) end return 'ok'"
    );
    server.ask(&["EVAL", &script, "0"]).await;
}

/// A scheduler that can't read them gives its shard to one that can.
#[tokio::test]
async fn readers_of_indexes_tell_once_where_they_met_what_a_newer_process_wrote() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let waits = due(&ledger, "acme/waits").await;
    moved(&ledger, &due(&ledger, "acme/queued").await, &RELEASE).await;
    let (shard, later) = (waits.shard, waits.release_at.plus(Duration::from_secs(7_200)));
    let met = || ledger.met_newer().into_iter().collect::<Vec<_>>();
    assert_eq!(ledger.lines(shard, later, 10, 10, &[]).await.expect("it answers").len(), 1);
    assert_eq!(met(), []);
    spoil(&server, r"'\129\166format\127'").await;
    assert_eq!(ledger.lines(shard, later, 10, 10, &[]).await.expect("it is left alone"), []);
    assert_eq!((met(), met()), (vec![shard], Vec::new()));
    assert_eq!(ledger.overdue(shard, Index::Watch, later, 10).await.expect("it is left alone"), []);
    assert_eq!(met(), [shard]);
}
