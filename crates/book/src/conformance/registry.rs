//! R1 to R5: processes, their heartbeats, incarnations and reports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use curfew_domain::{Moment, Shard, WorkerId};
use futures::future::join_all;
use uuid::Uuid;

use super::Bench;
use super::given::{minutes, now};
use crate::{Drain, Enrolment, Orders, REMEMBERED, SILENT_AFTER, Standing};

fn id(n: u128) -> WorkerId {
    WorkerId(Uuid::from_u128(n))
}

fn process(n: u128, at: Moment) -> Enrolment {
    let roles = ["scheduler", "worker"].map(str::to_owned).to_vec();
    Enrolment { id: id(n), roles, name: format!("host-{n}:77"), version: "1.2.3".to_owned(), reads_format: 7, at }
}

const KNOWN: Orders = Orders { drain: false, unknown: false };

/// A process is found as it enrolled itself, for as long as recovery may ask for it.
pub async fn r1_who_enrolled_is_found_for_48_h(bench: &dyn Bench) {
    let book = bench.empty().await;
    for n in [2, 1, 1] {
        book.enrol(&process(n, minutes(n as u64))).await.expect("the book answers");
    }
    book.leave(id(1), minutes(5)).await.expect("the book answers");
    book.enrol(&process(1, minutes(9))).await.expect("the book answers");
    let found = book.enrolled(now()).await.expect("the book answers");
    assert_eq!(found.iter().map(|p| p.enrolment.clone()).collect::<Vec<_>>(), [process(1, minutes(1)), process(2, minutes(2))]);
    let standing: Vec<_> = found.iter().map(|p| p.standing(minutes(2).plus(SILENT_AFTER))).collect();
    assert_eq!(standing, [Standing::Stopped(minutes(5)), Standing::Running], "a repeated enrolment doesn't bring back what has left");
    assert_eq!(found[1].standing(minutes(3)), Standing::Silent(minutes(2)));
    assert_eq!(book.enrolled(minutes(3)).await.expect("the book answers").len(), 1, "a clean stop is heard of as a heartbeat is");

    let second = Duration::from_secs(1);
    book.enrol(&process(3, minutes(2).plus(REMEMBERED))).await.expect("the book answers");
    assert_eq!(book.enrolled(now()).await.expect("the book answers").len(), 3, "48 h are not over");
    book.enrol(&process(4, minutes(5).plus(REMEMBERED).plus(second))).await.expect("the book answers");
    let left: Vec<_> = book.enrolled(now()).await.expect("the book answers").into_iter().map(|p| p.enrolment.id).collect();
    assert_eq!(left, [id(3), id(4)]);
}

/// Heartbeats move forward alone, and tell a process that nobody knows it.
pub async fn r2_a_heartbeat_never_moves_back(bench: &dyn Bench) {
    let book = bench.empty().await;
    let unknown = Orders { drain: false, unknown: true };
    assert_eq!(book.alive(id(1), now()).await.expect("the book answers"), unknown);
    book.measured(id(1), Drain { best: 9, latest: 9 }).await.expect("nobody is known, nothing is kept");
    assert_eq!(book.orders(id(1)).await.expect("the book answers"), unknown);
    book.leave(id(1), now()).await.expect("leaving what one never entered is free");
    book.enrol(&process(1, now())).await.expect("the book answers");
    for at in [minutes(3), minutes(1), minutes(2)] {
        assert_eq!(book.alive(id(1), at).await.expect("the book answers"), KNOWN);
    }
    let found = book.enrolled(now()).await.expect("the book answers").remove(0);
    assert_eq!((found.beat_at, found.drain), (minutes(3), None));
    for drain in [Drain { best: 80, latest: 80 }, Drain { best: 80, latest: 3 }] {
        book.measured(id(1), drain).await.expect("the book answers");
        assert_eq!(book.enrolled(now()).await.expect("the book answers")[0].drain, Some(drain));
    }
    book.leave(id(1), minutes(2)).await.expect("the book answers");
    book.leave(id(1), minutes(8)).await.expect("the book answers");
    let left = &book.enrolled(now()).await.expect("the book answers")[0];
    assert_eq!((left.beat_at, left.stopped_at), (minutes(3), Some(minutes(2))), "it stops once");
}

/// A drain reaches whoever hasn't stopped, and stays asked.
pub async fn r3_a_drain_reaches_all_that_run(bench: &dyn Bench) {
    let book = bench.empty().await;
    assert_eq!(book.ask_to_drain(now()).await.expect("the book answers"), 0);
    for n in 1..=4 {
        book.enrol(&process(n, now())).await.expect("the book answers");
    }
    for n in 1..=3 {
        book.alive(id(n), minutes(5)).await.expect("the book answers");
    }
    book.leave(id(3), minutes(5)).await.expect("the book answers");
    assert_eq!(book.orders(id(1)).await.expect("the book answers"), KNOWN);
    assert_eq!(book.ask_to_drain(minutes(5)).await.expect("the book answers"), 2, "one is silent, one has stopped");
    assert_eq!(book.ask_to_drain(minutes(6)).await.expect("the book answers"), 0, "nobody beat for a minute, but all stay asked");
    let drain = Orders { drain: true, unknown: false };
    for n in [1, 2, 4] {
        assert_eq!(book.orders(id(n)).await.expect("the book answers"), drain);
        assert_eq!(book.alive(id(n), minutes(6)).await.expect("the book answers"), drain);
    }
    assert_eq!(book.orders(id(3)).await.expect("the book answers"), KNOWN);
    book.enrol(&process(5, minutes(7))).await.expect("the book answers");
    assert_eq!(book.alive(id(5), minutes(7)).await.expect("the book answers"), KNOWN, "who starts after the drain works");
    let asked: Vec<_> = book.enrolled(now()).await.expect("the book answers").into_iter().map(|p| p.drain_asked_at).collect();
    assert_eq!(asked, [Some(minutes(5)), Some(minutes(5)), None, Some(minutes(5)), None]);
}

/// An incarnation is raised once from each number, however many try.
pub async fn r4_an_incarnation_is_raised_once(bench: &dyn Bench) {
    let book = bench.empty().await;
    assert_eq!(book.incarnations().await.expect("the book answers"), BTreeMap::new());
    let raised = join_all((0..8).map(|_recovery| book.raise(Shard(3), 0))).await;
    assert!(raised.iter().all(|r| matches!(r, Ok(1))), "{raised:?}");
    assert_eq!(book.raise(Shard(3), 0).await.expect("the book answers"), 1);
    assert_eq!(book.raise(Shard(3), 1).await.expect("the book answers"), 2);
    assert_eq!(book.raise(Shard(63), 0).await.expect("the book answers"), 1);
    assert_eq!(book.raise(Shard(5), 4).await.expect("the book answers"), 0, "from another number nothing is raised");
    assert_eq!(book.incarnations().await.expect("the book answers"), BTreeMap::from([(Shard(3), 2), (Shard(63), 1)]));
}

/// Reports are each worker's, shard's and incarnation's own.
pub async fn r5_a_report_counts_for_its_incarnation(bench: &dyn Bench) {
    let book = bench.empty().await;
    book.raise(Shard(1), 0).await.expect("the book answers");
    for n in [1, 2, 2] {
        book.reported(id(n), Shard(1), 1).await.expect("the book answers");
    }
    book.reported(id(3), Shard(2), 1).await.expect("the book answers");
    assert_eq!(book.reports(Shard(1), 1).await.expect("the book answers"), BTreeSet::from([id(1), id(2)]));
    assert_eq!(book.reports(Shard(1), 2).await.expect("the book answers"), BTreeSet::new());
    book.raise(Shard(1), 0).await.expect("the book answers");
    assert_eq!(book.reports(Shard(1), 1).await.expect("the book answers").len(), 2, "a repeated raise forgets nothing");
    book.raise(Shard(1), 1).await.expect("the book answers");
    assert_eq!(book.reports(Shard(1), 1).await.expect("the book answers"), BTreeSet::new());
    assert_eq!(book.reports(Shard(2), 1).await.expect("the book answers"), BTreeSet::from([id(3)]));
}
