//! Records that this process can't read: a newer one's, which are somebody's, and broken ones, which are nobody's.

use std::time::Duration;

use curfew_domain::form::FormError;
use curfew_domain::transition::Index;
use curfew_ledger::{Created, Ledger, LedgerError, Recoverable};
use curfew_testservers::redis::{Options, Redis};

use super::jobs::{RELEASE, adopt, create_of, due, ledger, moved, record, shard};

/// Puts other bytes behind the front of every record; by the front scripts go.
async fn spoil(server: &Redis, bytes: &str) {
    spoil_all_of(server, "", bytes).await;
}

/// Of the records alone whose key goes on so.
async fn spoil_all_of(server: &Redis, keys: &str, bytes: &str) {
    let script = format!(
        "for _, k in ipairs(redis.call('KEYS', '*job:{keys}*')) do local s = redis.call('GET', k) redis.call('SET', k, s:sub(1, 15 + s:byte(14) * 256 + s:byte(15)) .. {bytes}) end return 'ok'"
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

/// A thousand damaged records in a row ended the recovery of their shard with an error, again and again.
#[tokio::test]
async fn however_many_cannot_be_read_the_walks_go_on_to_the_end() {
    const BROKEN: usize = 1_250;
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let now = ledger.now().await.expect("it answers");
    let creates = (0..BROKEN).map(|n| create_of(record(&format!("acme/broken-{n:04}"), 1, now), now)).collect();
    assert!(ledger.create(creates).await.expect("it answers").iter().all(|answer| *answer == Created::Created));
    spoil_all_of(&server, "acme/broken", "'spoilt'").await;
    due(&ledger, "acme/a").await;
    due(&ledger, "acme/z").await;
    let shard = shard("acme/z");

    let (mut read, mut left, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = ledger.walk_past(shard, after.as_ref(), 500).await.expect("it answers");
        read.extend(page.records.into_iter().map(|(record, ..)| record.key.to_string()));
        left.extend(page.unreadable);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((read.len(), left.len()), (2, BROKEN));
    assert!(left.iter().all(|(key, error)| key.as_str().contains("broken") && *error == FormError::Malformed));

    adopt(&ledger, shard, 1).await;
    let (mut survive, mut after) = (Vec::new(), None);
    loop {
        let page = match ledger.walk_survivors(shard, after.as_ref(), 200).await {
            // The first call meets the new incarnation.
            Err(LedgerError::OtherServer) => continue,
            page => page.expect("it goes on"),
        };
        let Some(last) = page.last() else { break };
        after = Some(last.record.key.clone());
        survive.extend(page.iter().map(|one| one.record.key.to_string()));
    }
    assert_eq!(survive, ["acme/a", "acme/z"]);
}

/// One member of an index that was no key ended each walk of its shard with an error.
#[tokio::test]
async fn what_is_no_key_is_counted_once_without_saying_it_and_stops_no_walk() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    due(&ledger, "acme/a").await;
    due(&ledger, "acme/m").await;
    let shard = shard("acme/a");
    let strange = ["!", "acme/b c@example.test", "acme/c c", "zz zz", "zzz zz"];
    for member in strange {
        server.ask(&["ZADD", &format!("test:{{{shard}}}:all"), "0", member]).await;
        server.ask(&["SET", &format!("test:{{{shard}}}:job:{member}"), "cut"]).await;
    }
    for limit in [1, 2, 3, 100] {
        let (mut read, mut left, mut after) = (Vec::new(), Vec::new(), None);
        loop {
            let page = ledger.walk_past(shard, after.as_ref(), limit).await.expect("it answers");
            read.extend(page.records.into_iter().map(|(record, ..)| record.key.to_string()));
            left.extend(page.unreadable.into_iter().map(|(key, _)| key.to_string()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(read, ["acme/a", "acme/m"], "by {limit}");
        assert_eq!(left.len(), strange.len(), "by {limit}: {left:?}");
        assert!(left.iter().all(|key| key.starts_with("no-key/")), "{left:?}");
    }

    adopt(&ledger, shard, 1).await;
    let survive = loop {
        match ledger.walk_survivors(shard, None, 10).await {
            // The first call meets the new incarnation.
            Err(LedgerError::OtherServer) => {}
            page => break page.expect("it goes on"),
        }
    };
    let keys: Vec<&str> = survive.iter().map(|one| one.record.key.as_str()).collect();
    assert_eq!(keys, ["acme/a", "acme/m"]);
    let last = survive.last().map(|one| one.record.key.clone());
    assert_eq!(ledger.walk_survivors(shard, last.as_ref(), 10).await.expect("it goes on"), []);
}
