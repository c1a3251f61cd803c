//! K6 and K7, lists and the small tables.

use curfew_domain::State;

use super::Bench;
use super::given::{DATE, accepted, door, job, minutes, now, record, staged, story};
use crate::{BookError, BookState, Day, Filter, HoldRow, Load};

/// Accepted is counted in the door's log, the others in rows.
pub async fn k6_a_days_figures_are_counted_each_on_its_own(bench: &dyn Bench) {
    let book = bench.empty().await;
    let states = [State::Sent, State::DeadLetter, State::Cancelled, State::Suppressed];
    for (n, state) in states.into_iter().enumerate() {
        let one = job("acme", n as u64);
        staged(&*book, &one).await;
        book.settle(vec![story(record(&one, 1, 3, state))], now()).await.expect("the book answers");
    }
    staged(&*book, &job("acme", 10)).await;
    accepted(&*book, &job("acme", 11)).await;
    accepted(&*book, &job("other", 12)).await;
    let mut slotted = job("acme", 13);
    slotted.business_date = format!("{DATE}T0900");
    slotted.key = curfew_domain::Key::from_parts("acme", "renewal", "R-13", &slotted.business_date).expect("well formed");
    accepted(&*book, &slotted).await;
    let day = Day { accepted: 7, sent: 1, dead_letter: 1, cancelled: 1, suppressed: 1, planned: 2, staged: 1 };
    assert_eq!(book.day(DATE, Some("acme")).await.expect("the book answers"), day);
    assert_eq!(book.day(DATE, None).await.expect("the book answers"), Day { accepted: 8, planned: 3, ..day });
    assert_eq!(book.day("2026-12-02", None).await.expect("the book answers"), Day::default());
    let minute = |n: u64| job("acme", n).release_at.as_millis() / 60_000;
    let jobs = [0, 1, 10, 11, 12, 13].map(minute);
    let most = jobs.map(|minute| (jobs.iter().filter(|other| **other == minute).count() as u64, -minute)).into_iter().max().expect("six");
    let load = book.load(DATE, 10).await.expect("the book answers");
    assert_eq!(load.busiest, Some((curfew_domain::Moment::from_millis(-most.1 * 60_000), most.0)), "those that are never released aren't counted");
    let took = [0, 1].map(|n| record(&job("acme", n), 1, 3, if n == 0 { State::Sent } else { State::DeadLetter }).attempts);
    assert_eq!(
        load.by_attempts.iter().map(|(attempts, jobs)| u64::from(*attempts) * jobs).sum::<u64>(),
        took.iter().map(|n| u64::from(*n)).sum::<u64>()
    );
    assert_eq!(book.load("2026-12-02", 0).await.expect("the book answers"), Load::default());
    let behind = book.day_differences(DATE, None, 10).await.expect("the book answers");
    assert_eq!(behind, [(job("acme", 10).id, Some(job("acme", 10).key), Some(BookState::Staged))].map(|(_id, key, state)| (behind[0].0, key, state)));
    assert_eq!(book.day_staged(DATE, None, None, 10).await.expect("the book answers"), [job("acme", 10).key]);
    assert_eq!(book.day_staged(DATE, None, Some(&job("acme", 10).key), 10).await.expect("the book answers"), []);
}

/// The trail is numbered without gaps, listed newest first, and its chain is whole.
pub async fn k7_the_audit_trail_is_a_chain(bench: &dyn Bench) {
    let book = bench.empty().await;
    assert_eq!(book.audit_verify().await.expect("the book answers"), Ok(0));
    for n in 0..7 {
        book.audit(minutes(n), "alice", "pause", "transport/relay", "maintenance", "{}").await.expect("the book answers");
    }
    assert_eq!(book.audit_verify().await.expect("the book answers"), Ok(7));
    let first = book.audit_list(None, 4).await.expect("the book answers");
    assert_eq!(first.items.iter().map(|e| e.number).collect::<Vec<_>>(), [7, 6, 5, 4]);
    let rest = book.audit_list(first.next_cursor.as_deref(), 4).await.expect("the book answers");
    assert_eq!((rest.items.iter().map(|e| e.number).collect::<Vec<_>>(), rest.next_cursor), (vec![3, 2, 1], None));
}

/// Lists go newest first, page by page, and never twice over a row; no list holds a letter or a history.
pub async fn lists_go_page_by_page(bench: &dyn Bench) {
    let book = bench.empty().await;
    let jobs: Vec<_> = (0..25).map(|n| job(if n % 2 == 0 { "acme" } else { "other" }, n)).collect();
    book.accept(jobs.clone(), &door()).await.expect("the book answers");
    book.settle(vec![story(record(&jobs[4], 1, 3, State::DeadLetter))], now()).await.expect("the book answers");
    let mut filter = Filter { limit: 10, ..Filter::default() };
    let mut seen = Vec::new();
    loop {
        let page = book.list(&filter).await.expect("the book answers");
        assert!(page.items.iter().all(|v| v.row.job.letter.as_bytes().is_empty() && v.row.history.is_empty()));
        seen.extend(page.items.into_iter().map(|v| v.row.job.id));
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, jobs.iter().rev().map(|j| j.id).collect::<Vec<_>>());

    let count = async |filter: Filter| book.list(&Filter { limit: 100, ..filter }).await.expect("the book answers").items.len();
    assert_eq!(count(Filter { tenant: Some("acme".to_owned()), ..Filter::default() }).await, 13);
    assert_eq!(count(Filter { states: vec![BookState::DeadLetter], ..Filter::default() }).await, 1);
    assert_eq!(count(Filter { states: vec![BookState::Planned], tenant: Some("acme".to_owned()), ..Filter::default() }).await, 12);
    assert_eq!(count(Filter { recipient_ref: Some(jobs[3].recipient_ref.clone()), ..Filter::default() }).await, 1);
    assert_eq!(count(Filter { recipient_ref: Some(jobs[3].recipient_ref.clone()), tenant: Some("acme".to_owned()), ..Filter::default() }).await, 0);
    let foreign = Filter { cursor: Some("page 2".to_owned()), limit: 10, ..Filter::default() };
    assert!(matches!(book.list(&foreign).await, Err(BookError::Invalid { field: "cursor", .. })));
    let rows = book.rows(&[jobs[1].key.clone(), job("acme", 99).key, jobs[0].key.clone()]).await.expect("the book answers");
    assert_eq!(rows.iter().map(|r| r.as_ref().map(|v| v.row.job.id)).collect::<Vec<_>>(), [Some(jobs[1].id), None, Some(jobs[0].id)]);
}

/// Holds, constants and the beat.
pub async fn small_tables_keep_what_they_are_given(bench: &dyn Bench) {
    let book = bench.empty().await;
    let hold = |by: &str, actor: &str| HoldRow {
        kind: "transport".to_owned(),
        name: "relay".to_owned(),
        by: by.to_owned(),
        until: Some(minutes(5)),
        reason: "421".to_owned(),
        actor: actor.to_owned(),
        since: now(),
    };
    book.hold(hold("cool_down", "curfew")).await.expect("the book answers");
    book.hold(hold("pause", "alice")).await.expect("the book answers");
    book.hold(hold("pause", "alice")).await.expect("the book answers");
    assert_eq!(book.holds().await.expect("the book answers"), [hold("cool_down", "curfew"), hold("pause", "alice")]);
    assert!(book.lift("transport", "relay", "cool_down", "curfew", "over", now()).await.expect("the book answers"));
    assert!(!book.lift("transport", "relay", "cool_down", "curfew", "over", now()).await.expect("the book answers"));
    assert_eq!(book.audit_list(None, 10).await.expect("the book answers").items.len(), 2, "what Curfew does by itself is no entry");

    let given = |v: &str| vec![("shards".to_owned(), v.to_owned())];
    assert_eq!(book.constants(&given("8")).await.expect("the book answers"), given("8"));
    assert_eq!(book.constants(&given("16")).await.expect("the book answers"), given("8"), "the first start's stand");
    assert_eq!(book.last_beat().await.expect("the book answers"), None);
    book.beat(3, now()).await.expect("the book answers");
    book.beat(4, minutes(1)).await.expect("the book answers");
    assert_eq!(book.last_beat().await.expect("the book answers"), Some((4, minutes(1))));
}

/// The book's clock is told now, not as it was when something began; a book without one of its own says so.
pub async fn the_clock_is_its_own_or_nobodys(bench: &dyn Bench) {
    let book = bench.empty().await;
    let Some(first) = book.clock().await.expect("the book answers") else { return };
    let ours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is past 1970");
    assert!(first.as_millis().abs_diff(i64::try_from(ours.as_millis()).expect("a moment")) < 60_000, "{first}: this machine's");
    assert!(book.clock().await.expect("the book answers").is_some_and(|second| second >= first));
}
