//! A rehearsal's end.

use curfew_ledger::LedgerError;
use curfew_ledger::redis::{Options as LedgerOptions, RedisLedger};
use curfew_testservers::redis::{Cluster, Options, Resp};

use super::jobs::{due, ledger, options, stands};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_under_a_prefix_is_removed_from_each_node_and_nothing_else() {
    let cluster = Cluster::start(Options::default()).await;
    let fleets = ledger(&cluster.url()).await;
    let kept = due(&fleets, "acme/kept").await;
    let rehearsal = LedgerOptions { prefix: "test:rehearsal:0a1b".to_owned(), ..options() };
    let rehearsal = RedisLedger::open(&cluster.url(), rehearsal).expect("well formed");
    rehearsal.initialise().await.expect("the servers answer");
    for tenant in ["acme", "globex", "initech", "umbrella"] {
        due(&rehearsal, &format!("{tenant}/a")).await;
    }
    assert!(rehearsal.remove().await.expect("the servers answer") > 12);
    assert_eq!(rehearsal.remove().await.expect("the servers answer"), 0);
    for node in &cluster.nodes {
        let Resp::List(left) = node.ask(&["KEYS", "test:rehearsal:*"]).await else { panic!("KEYS gives a list") };
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(stands(&fleets, "acme/kept").await, kept);

    for prefix in ["curfew", "test*", "te?t"] {
        let refused =
            RedisLedger::open(&cluster.url(), LedgerOptions { prefix: prefix.to_owned(), ..options() }).expect("well formed").remove().await;
        assert!(matches!(refused, Err(LedgerError::Store(_))), "{prefix}: {refused:?}");
    }
}
