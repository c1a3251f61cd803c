//! L7, counters, and what the auditor walks over.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::transition::{Counter, Event};
use curfew_domain::{Moment, Shard, State};

use super::{Bench, CLAIM, RELEASE, SHARD, create_of, due_record, give_back, intent, key, moved, now, record, recorded_dead_letter};
use crate::{Created, Ledger};

async fn create_many(ledger: &dyn Ledger, jobs: &[(&str, Moment)]) {
    let mut creates = Vec::new();
    for (name, at) in jobs {
        creates.push(create_of(ledger, record(name, 1, *at)).await);
    }
    let answers = ledger.create(creates).await.expect("the ledger answers");
    assert!(answers.iter().all(|answer| *answer == Created::Created));
}

async fn served(ledger: &dyn Ledger, now: Moment, per_tenant: usize, limit: usize, skip: &[&str]) -> Vec<String> {
    let skip: Vec<_> = skip.iter().map(|tenant| (*tenant).to_owned()).collect();
    let found = ledger.lines(SHARD, now, per_tenant, limit, &skip).await.expect("the ledger answers");
    found.into_iter().map(|entry| entry.record.key.as_str().to_owned()).collect()
}

/// L7.
pub async fn l7_lines_are_served_round_robin_over_tenants(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let at = now(&*ledger).await;
    let after = |seconds| at.plus(Duration::from_secs(seconds));
    let jobs = [("big/1", 0), ("big/2", 1), ("big/3", 2), ("big/4", 3), ("mid/1", 5), ("mid/2", 6), ("small/1", 9), ("idle/1", 500)];
    let jobs: Vec<_> = jobs.iter().map(|(name, seconds)| (*name, after(*seconds))).collect();
    create_many(&*ledger, &jobs).await;
    let now = after(10);
    let all = ["big/1", "mid/1", "small/1", "big/2", "mid/2", "big/3", "big/4"];
    assert_eq!(served(&*ledger, now, 10, 100, &[]).await, all, "everybody's first, then everybody's second; what isn't due stays");
    assert_eq!(served(&*ledger, now, 10, 4, &[]).await, all[..4]);
    assert_eq!(served(&*ledger, now, 1, 100, &[]).await, all[..3]);
    assert_eq!(served(&*ledger, now, 10, 100, &["big", "nobody"]).await, ["mid/1", "small/1", "mid/2"]);
    assert!(ledger.lines(Shard(2), now, 10, 100, &[]).await.expect("the ledger answers").is_empty(), "another shard's lines are its own");

    ledger.move_in_line(vec![(key("big/1"), 1, after(60)), (key("mid/1"), 9, after(60))]).await.expect("the ledger answers");
    assert_eq!(served(&*ledger, now, 1, 100, &[]).await, ["big/2", "mid/1", "small/1"], "moved on, for its version alone");
}

/// L7: a job is met its rung before it is due.
pub async fn l7_a_job_stands_in_line_by_the_moment_of_its_release(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let at = now(&*ledger).await;
    let after = |millis| at.plus(Duration::from_millis(millis));
    create_many(&*ledger, &[("acme/far", after(600_000)), ("acme/near", after(5_500)), ("acme/soon", after(400)), ("acme/due", at)]).await;
    let found = ledger.lines(SHARD, after(600_000), 10, 10, &[]).await.expect("the ledger answers");
    let mut found: Vec<_> = found.iter().map(|entry| (entry.record.key.as_str(), entry.line_at)).collect();
    found.sort();
    // A far one by its horizon, whatever power of two that is.
    let far = found.iter().find(|(name, _)| *name == "acme/far").expect("it is there").1;
    assert!(after(600_000).since(far).as_secs().is_power_of_two() && after(600_000).since(far).subsec_millis() == 0);
    assert_eq!(found, [("acme/due", at), ("acme/far", far), ("acme/near", after(1_500)), ("acme/soon", at)]);
    let waiting = ledger.lines(SHARD, at, 10, 10, &[]).await.expect("the ledger answers");
    assert_eq!(waiting.len(), 2);
}

/// The agenda names what is due, and may name more.
pub async fn the_agenda_misses_nothing_that_is_due(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let record = due_record(&*ledger, "acme/a").await;
    let at = now(&*ledger).await;
    let agenda = ledger.agenda(&[Shard(0), SHARD], at).await.expect("the ledger answers");
    assert_eq!(agenda.iter().map(|agenda| agenda.shard).collect::<Vec<_>>(), [Shard(0), SHARD]);
    assert!(agenda[1].lines);
    let agenda = ledger.agenda(&[SHARD], record.deadline_at).await.expect("the ledger answers");
    assert!(agenda[0].watch);
    bench.advance(Duration::from_secs(3600)).await;
    moved(&*ledger, &record, &curfew_domain::Event::DeadlineReached).await;
    let agenda = ledger.agenda(&[SHARD], record.deadline_at).await.expect("the ledger answers");
    assert!(agenda[0].review);
}

/// Every counter follows its records, also over a death.
pub async fn counters_follow_the_records(bench: &dyn Bench) {
    let ledger = bench.ledger();
    recorded_dead_letter(bench, "acme/tombstone").await;
    let a = due_record(&*ledger, "acme/a").await;
    let b = due_record(&*ledger, "acme/b").await;
    let second = Counter::QueuedSecond(a.release_at.as_millis().div_euclid(1000));
    let all = [
        Counter::State(State::Scheduled),
        Counter::State(State::Queued),
        Counter::State(State::Claimed),
        Counter::TenantQueued("acme".into()),
        Counter::TenantInFlight("acme".into()),
        second,
    ];
    let counts = |ledger: std::sync::Arc<dyn Ledger>| {
        let all = all.clone();
        async move { ledger.counts(SHARD, &all).await.expect("the ledger answers") }
    };
    assert_eq!(counts(bench.ledger()).await, [2, 0, 0, 0, 0, 0]);
    let queued = moved(&*ledger, &a, &RELEASE).await;
    assert_eq!(counts(bench.ledger()).await, [1, 1, 0, 1, 0, 1]);
    moved(&*ledger, &b, &CLAIM).await;
    assert_eq!(counts(bench.ledger()).await, [0, 1, 1, 1, 1, 1]);
    let by_state = BTreeMap::from([(State::Queued, 1), (State::Claimed, 1)]);
    let live = |all: BTreeMap<State, u64>| all.into_iter().filter(|(_, count)| *count > 0).collect::<BTreeMap<_, _>>();
    assert_eq!(live(ledger.live_by_state().await.expect("the ledger answers")), by_state);
    assert_eq!(ledger.counts(Shard(2), &all).await.expect("the ledger answers"), [0; 6]);
    assert_eq!(ledger.recount(SHARD).await.expect("the ledger answers"), 0, "there is nothing to mend");

    bench.kill_and_reopen().await;
    let ledger = bench.ledger();
    assert_eq!(counts(bench.ledger()).await, [0, 1, 1, 1, 1, 1]);
    assert_eq!(live(ledger.live_by_state().await.expect("the ledger answers")), by_state);
    moved(&*ledger, &queued, &CLAIM).await;
    assert_eq!(counts(bench.ledger()).await, [0, 0, 2, 0, 2, 0]);
    assert_eq!(ledger.recount(SHARD).await.expect("the ledger answers"), 0);
}

/// The oldest job's age: what is due and not claimed.
pub async fn the_oldest_due_is_the_one_nobody_claimed(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let at = now(&*ledger).await;
    create_many(&*ledger, &[("acme/a", at), ("other/b", at.plus(Duration::from_millis(1_500))), ("acme/c", at.plus(Duration::from_secs(60)))]).await;
    let oldest = |now| {
        let ledger = bench.ledger();
        async move { ledger.oldest_due(SHARD, now).await.expect("the ledger answers") }
    };
    assert_eq!(oldest(at).await, Some(at));
    let a = moved(&*ledger, &super::stands(&*ledger, "acme/a").await, &RELEASE).await;
    assert_eq!(oldest(at).await, Some(at), "queued, but nobody's");
    let a = moved(&*ledger, &a, &CLAIM).await;
    assert_eq!(oldest(at).await, None);
    assert_eq!(oldest(at.plus(Duration::from_secs(9))).await, Some(at.plus(Duration::from_millis(1_500))));
    moved(&*ledger, &a, &give_back(at.plus(Duration::from_millis(700)))).await;
    assert_eq!(oldest(at.plus(Duration::from_secs(9))).await, Some(at.plus(Duration::from_millis(700))));
    assert_eq!(ledger.oldest_due(Shard(2), at.plus(Duration::from_secs(9))).await.expect("the ledger answers"), None);
}

/// The auditor's walk, page by page.
pub async fn a_walk_meets_every_record_once(bench: &dyn Bench) {
    let ledger = bench.ledger();
    recorded_dead_letter(bench, "acme/0").await;
    let at = now(&*ledger).await;
    create_many(&*ledger, &[("acme/3", at), ("acme/1", at), ("other/2", at)]).await;
    let mut met = Vec::new();
    let mut after = None;
    loop {
        let page = ledger.walk(SHARD, after.as_ref(), 2).await.expect("the ledger answers");
        let Some((last, _, _)) = page.last() else { break };
        after = Some(last.key.clone());
        met.extend(page.into_iter().map(|(record, timer, line)| (record.key.as_str().to_owned(), timer.is_some(), line.is_some())));
    }
    let name = |name: &str, live| (name.to_owned(), live, live);
    assert_eq!(met, [name("acme/0", false), name("acme/1", true), name("acme/3", true), name("other/2", true)]);
}

/// Every live record counts by the moment at which it stops, at least to 5 s, wherever its timer stands.
pub async fn deadlines_are_counted_whatever_the_state(bench: &dyn Bench) {
    let ledger = bench.ledger();
    // Deadlines are an hour after the release: all fall into the same five seconds.
    let scheduled = due_record(&*ledger, "acme/a").await;
    let queued = moved(&*ledger, &due_record(&*ledger, "acme/b").await, &RELEASE).await;
    let claimed = moved(&*ledger, &due_record(&*ledger, "acme/c").await, &CLAIM).await;
    let in_handoff = moved(&*ledger, &moved(&*ledger, &due_record(&*ledger, "acme/d").await, &CLAIM).await, &intent()).await;
    let seconds = |seconds| Duration::from_secs(seconds);
    let deadline = scheduled.deadline_at;
    let around = [deadline.minus(seconds(10)), deadline.plus(seconds(10)), deadline.plus(seconds(600))];
    assert_eq!(ledger.deadlines(scheduled.shard, &around).await.expect("the ledger answers"), [0, 4, 4]);
    bench.advance(seconds(3600)).await;
    for record in [&scheduled, &queued, &claimed] {
        moved(&*ledger, record, &Event::DeadlineReached).await;
    }
    assert_eq!(ledger.deadlines(in_handoff.shard, &around).await.expect("the ledger answers"), [0, 1, 1], "what ended is not at risk");
    assert_eq!(ledger.deadlines(Shard(2), &around).await.expect("the ledger answers"), [0, 0, 0], "each shard is counted by itself");
}
