//! What stands around the records: holds, permits, the heartbeats.

use std::time::Duration;

use curfew_domain::WorkerId;
use curfew_domain::record::WaitingFor;
use uuid::Uuid;

use super::{Bench, SHARD, WORKER, now};
use crate::{Beat, HEARD_KEPT, Hold, Holds};

/// A hold stands until it is lifted or its time is over, also over a death.
pub async fn a_hold_stands_until_it_is_lifted_or_over(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let until = now(&*ledger).await.plus(Duration::from_secs(30));
    let transport = Hold::Transport("smtp".into());
    for (hold, waits, until) in [
        (transport.clone(), WaitingFor::CoolDown, Some(until)),
        (Hold::Tenant("acme".into()), WaitingFor::Pause, None),
        (Hold::Shard(3), WaitingFor::Recovery, None),
        (Hold::Domain("example.com".into()), WaitingFor::CoolDown, Some(until)),
        (Hold::Fleet, WaitingFor::Pause, None),
    ] {
        ledger.set_hold(hold, Some((waits, until))).await.expect("the ledger answers");
    }
    ledger.set_hold(transport.clone(), Some((WaitingFor::Circuit, Some(until)))).await.expect("the ledger answers");
    ledger.set_hold(Hold::Fleet, None).await.expect("the ledger answers");
    bench.kill_and_reopen().await;
    let ledger = bench.ledger();
    let paused = (Hold::Tenant("acme".into()), (WaitingFor::Pause, None));
    let domain = Hold::Domain("example.com".into());
    let recovering = (Hold::Shard(3), (WaitingFor::Recovery, None));
    let all = Holds::from([
        (transport, (WaitingFor::Circuit, Some(until))),
        (domain, (WaitingFor::CoolDown, Some(until))),
        paused.clone(),
        recovering.clone(),
    ]);
    assert_eq!(ledger.holds().await.expect("the ledger answers"), all);
    bench.advance(Duration::from_secs(30)).await;
    assert_eq!(ledger.holds().await.expect("the ledger answers"), Holds::from([paused, recovering]));
}

/// A transport's rate, shared by all who ask.
pub async fn permits_keep_to_their_rate(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let (first, _) = ledger.permits("smtp", 8.0, 1).await.expect("the ledger answers");
    let (second, _) = ledger.permits("smtp", 8.0, 6).await.expect("the ledger answers");
    assert_eq!((first, second), (1, 1), "a quarter of a second's worth");
    let (none, again) = ledger.permits("smtp", 8.0, 6).await.expect("the ledger answers");
    assert_eq!(none, 0);
    let wait = again.since(now(&*ledger).await);
    assert!(wait > Duration::ZERO && wait <= Duration::from_millis(125), "{wait:?}");
    bench.advance(wait).await;
    assert_eq!(ledger.permits("smtp", 8.0, 6).await.expect("the ledger answers").0, 1, "it comes when it was promised");
    bench.advance(Duration::from_secs(60)).await;
    assert_eq!(ledger.permits("smtp", 8.0, 60).await.expect("the ledger answers").0, 2, "idle time doesn't pile up");
}

/// The heartbeat that this store keeps of the other.
pub async fn the_last_heartbeat_is_kept(bench: &dyn Bench) {
    let ledger = bench.ledger();
    assert_eq!(ledger.last_beat().await.expect("the ledger answers"), None);
    for count in [1, 2] {
        ledger.beat(count).await.expect("the ledger answers");
    }
    let at = now(&*ledger).await;
    bench.kill_and_reopen().await;
    assert_eq!(bench.ledger().last_beat().await.expect("the ledger answers"), Some(Beat { count: 2, at }));
}

/// Which workers a shard heard lately, also over a death. A ledger that can't lose its latest part needs no such list.
pub async fn workers_are_heard_and_forgotten_after_an_hour(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let Some(recoverable) = ledger.recoverable() else { return };
    let another = WorkerId(Uuid::from_u128(8));
    let began = now(&*ledger).await;
    for who in [WORKER, another] {
        let answers = recoverable.hear(who, &[SHARD]).await;
        assert!(matches!(answers.as_slice(), [Ok(0)]), "{answers:?}");
    }
    bench.advance(Duration::from_secs(10)).await;
    let again = now(&*ledger).await;
    assert!(recoverable.hear(WORKER, &[SHARD]).await.iter().all(Result::is_ok));
    let heard = recoverable.heard(SHARD, began).await.expect("the ledger answers");
    assert_eq!(heard.into_iter().collect::<Vec<_>>(), [(WORKER, again), (another, began)]);
    let lately = recoverable.heard(SHARD, again).await.expect("the ledger answers");
    assert_eq!(lately.into_keys().collect::<Vec<_>>(), [WORKER], "since then");
    bench.kill_and_reopen().await;
    let ledger = bench.ledger();
    let recoverable = ledger.recoverable().expect("it is the same kind");
    assert_eq!(recoverable.heard(SHARD, began).await.expect("the ledger answers").len(), 2);
    bench.advance(HEARD_KEPT).await;
    assert!(recoverable.hear(WORKER, &[SHARD]).await.iter().all(Result::is_ok));
    assert_eq!(recoverable.heard(SHARD, began).await.expect("the ledger answers").into_keys().collect::<Vec<_>>(), [WORKER]);
}
