//! L3, L4, L5: timers, expiry, and what a create finds.

use std::time::Duration;

use curfew_domain::limits::{HISTORY_ENTRIES_MAX, TOMBSTONE};
use curfew_domain::transition::Index;
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Event, Moment, State};

use super::{
    Bench, CLAIM, GRACE, LEASE, RELEASE, SHARD, change, create, create_of, due_record, give_back, key, letter, moved, now, record,
    recorded_dead_letter, stands,
};
use crate::{Created, Ledger, Swap, Swapped, TimerEntry};

const LONG_AFTER: Moment = Moment::from_millis(i64::MAX / 2);

/// All timers of a shard, whatever their index.
async fn timers(ledger: &dyn Ledger) -> Vec<(Index, TimerEntry)> {
    let mut all = Vec::new();
    for index in Index::ALL {
        let found = ledger.overdue(SHARD, *index, LONG_AFTER, 100).await.expect("the ledger answers");
        all.extend(found.into_iter().map(|entry| (*index, entry)));
    }
    all
}

async fn in_line(ledger: &dyn Ledger) -> Vec<String> {
    let found = ledger.lines(SHARD, LONG_AFTER, 100, 100, &[]).await.expect("the ledger answers");
    found.into_iter().map(|entry| entry.record.key.as_str().to_owned()).collect()
}

/// L3, along a job's life.
pub async fn l3_a_record_that_owes_something_has_exactly_one_timer(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let scheduled = due_record(&*ledger, "acme/a").await;
    let start = scheduled.release_at;
    let expect = |index, at: Moment, postponed| {
        move |found: Vec<(Index, TimerEntry)>| {
            let found: Vec<_> = found.into_iter().map(|(index, entry)| (index, entry.at, entry.postponed)).collect();
            assert_eq!(found, [(index, at, postponed)]);
        }
    };
    expect(Index::Watch, scheduled.deadline_at, 0)(timers(&*ledger).await);
    assert_eq!(in_line(&*ledger).await, ["acme/a"]);

    let queued = moved(&*ledger, &scheduled, &RELEASE).await;
    expect(Index::Watch, start.plus(GRACE), 0)(timers(&*ledger).await);
    assert!(in_line(&*ledger).await.is_empty());

    let claimed = moved(&*ledger, &queued, &CLAIM).await;
    expect(Index::Watch, start.plus(LEASE), 0)(timers(&*ledger).await);

    let back = moved(&*ledger, &claimed, &give_back(start.plus(GRACE))).await;
    expect(Index::Watch, back.deadline_at, 0)(timers(&*ledger).await);
    assert_eq!(in_line(&*ledger).await, ["acme/a"]);

    let cancelled = moved(&*ledger, &back, &Event::Verb(&NumberedVerb { number: 1, generation: 1, verb: Verb::Cancel })).await;
    expect(Index::Settle, start, 0)(timers(&*ledger).await);
    assert!(in_line(&*ledger).await.is_empty());

    moved(&*ledger, &cancelled, &Event::Closed).await;
    assert!(timers(&*ledger).await.is_empty());
    let walked = ledger.walk(SHARD, None, 10).await.expect("the ledger answers");
    assert!(matches!(walked.as_slice(), [(_, None, None)]), "{walked:?}");
}

/// L3: the longest overdue first, and what isn't due not at all.
pub async fn l3_overdue_timers_come_in_order_and_move_on_for_their_version_alone(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let at = now(&*ledger).await;
    for (name, seconds) in [("acme/late", 60), ("acme/first", 10), ("acme/second", 30)] {
        let release = at.plus(Duration::from_secs(seconds));
        assert_eq!(create(&*ledger, record(name, 1, release)).await, Created::Created);
    }
    let deadline = |seconds: u64| at.plus(Duration::from_secs(3600 + seconds));
    let found = ledger.overdue(SHARD, Index::Watch, deadline(30), 10).await.expect("the ledger answers");
    let names: Vec<_> = found.iter().map(|entry| entry.record.key.as_str()).collect();
    assert_eq!(names, ["acme/first", "acme/second"]);
    assert_eq!(ledger.overdue(SHARD, Index::Watch, deadline(30), 1).await.expect("the ledger answers").len(), 1);

    let moves = vec![(key("acme/first"), 1, deadline(100)), (key("acme/second"), 9, deadline(100)), (key("acme/nowhere"), 1, deadline(100))];
    ledger.postpone(moves).await.expect("the ledger answers");
    let found = ledger.overdue(SHARD, Index::Watch, deadline(100), 10).await.expect("the ledger answers");
    let found: Vec<_> = found.iter().map(|entry| (entry.record.key.as_str(), entry.at, entry.postponed)).collect();
    assert_eq!(found, [("acme/second", deadline(30), 0), ("acme/late", deadline(60), 0), ("acme/first", deadline(100), 1)]);
    let first = stands(&*ledger, "acme/first").await;
    moved(&*ledger, &first, &RELEASE).await;
    assert!(timers(&*ledger).await.iter().all(|(_, entry)| entry.postponed == 0), "a transition begins anew");
}

/// L3: the auditor's repair.
pub async fn l3_a_lost_timer_is_put_back(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let scheduled = due_record(&*ledger, "acme/a").await;
    assert!(!ledger.restore_timer(&scheduled.key).await.expect("the ledger answers"), "nothing is missing");
    bench.lose_timer(&scheduled.key).await;
    assert!(timers(&*ledger).await.is_empty() && in_line(&*ledger).await.is_empty());
    assert!(ledger.restore_timer(&scheduled.key).await.expect("the ledger answers"));
    let found: Vec<_> = timers(&*ledger).await.into_iter().map(|(index, entry)| (index, entry.at)).collect();
    assert_eq!((found, in_line(&*ledger).await), (vec![(Index::Watch, scheduled.deadline_at)], vec!["acme/a".to_owned()]));
    assert!(!ledger.restore_timer(&key("acme/nowhere")).await.expect("the ledger answers"));
}

/// L4.
pub async fn l4_tombstones_expire_after_their_time_and_live_records_never(bench: &dyn Bench) {
    let ledger = bench.ledger();
    due_record(&*ledger, "acme/live").await;
    let tombstone = recorded_dead_letter(bench, "acme/dead").await;
    bench.advance(TOMBSTONE - Duration::from_millis(1)).await;
    assert_eq!(ledger.expire(now(&*ledger).await, 100).await.expect("the ledger answers"), 0);
    assert_eq!(stands(&*ledger, "acme/dead").await, tombstone);
    bench.advance(Duration::from_secs(365 * 24 * 3600)).await;
    assert_eq!(ledger.expire(now(&*ledger).await, 100).await.expect("the ledger answers"), 1);
    assert_eq!(ledger.get(&tombstone.key).await.expect("the ledger answers"), None);
    assert_eq!(stands(&*ledger, "acme/live").await.version, 1);
    assert_eq!(ledger.histories(&[tombstone.key]).await.expect("the ledger answers"), [Vec::new()]);
}

/// L5, by what stands there.
pub async fn l5_a_create_writes_over_a_recorded_dead_letter_of_an_earlier_generation_alone(bench: &dyn Bench) {
    let ledger = bench.ledger();
    recorded_dead_letter(bench, "acme/recorded").await;
    let at = now(&*ledger).await;
    let live = due_record(&*ledger, "acme/live").await;
    let dead = due_record(&*ledger, "acme/dead").await;
    let cancelled = due_record(&*ledger, "acme/cancelled").await;
    let cancelled = moved(&*ledger, &cancelled, &Event::Verb(&NumberedVerb { number: 1, generation: 1, verb: Verb::Cancel })).await;
    let cancelled = moved(&*ledger, &cancelled, &Event::Closed).await;
    bench.advance(Duration::from_secs(3600)).await;
    let dead = moved(&*ledger, &dead, &Event::DeadlineReached).await;

    let answer = |name: &'static str, generation| {
        let ledger = bench.ledger();
        async move { create(&*ledger, record(name, generation, at)).await }
    };
    assert_eq!(answer("acme/live", 1).await, Created::Exists(Box::new(live.clone())));
    assert_eq!(answer("acme/live", 2).await, Created::EarlierUnclosed(Box::new(live)));
    assert_eq!(answer("acme/dead", 2).await, Created::EarlierUnclosed(Box::new(dead)), "not recorded yet");
    assert_eq!(answer("acme/cancelled", 2).await, Created::EarlierUnclosed(Box::new(cancelled)));
    assert_eq!(answer("acme/recorded", 2).await, Created::Created);
    assert_eq!(answer("acme/recorded", 1).await, Created::HigherGeneration);
    let entry = ledger.get(&key("acme/recorded")).await.expect("the ledger answers").expect("a record stands there");
    assert_eq!((entry.record.generation, entry.record.state, entry.letter), (2, State::Scheduled, Some(letter())));
    assert_eq!(entry.history.len(), 1, "a replay's story begins anew");
    assert_eq!(ledger.expire(LONG_AFTER, 100).await.expect("the ledger answers"), 1, "the cancelled one; the replay is live");
    assert_eq!(ledger.recount(SHARD).await.expect("the ledger answers"), 0);
}

/// L5, by the age of the read.
pub async fn l5_a_create_after_a_stale_read_is_refused(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let at = now(&*ledger).await;
    let mut creates = Vec::new();
    for name in ["acme/a", "acme/b"] {
        creates.push(create_of(&*ledger, record(name, 1, at)).await);
    }
    let late = creates.pop().expect("two");
    bench.advance(Duration::from_secs(60)).await;
    assert_eq!(ledger.create(creates).await.expect("the ledger answers"), [Created::Created], "60 s are not older than 60 s");
    bench.advance(Duration::from_millis(1)).await;
    assert_eq!(ledger.create(vec![late]).await.expect("the ledger answers"), [Created::StaleRead]);
    assert_eq!(ledger.get(&key("acme/b")).await.expect("the ledger answers"), None);
}

/// A letter stays until the job ends; a story until the book has it.
pub async fn letter_and_history_stand_beside_the_record_as_long_as_they_are_needed(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let scheduled = due_record(&*ledger, "acme/a").await;
    let claimed = moved(&*ledger, &scheduled, &CLAIM).await;
    let back = moved(&*ledger, &claimed, &give_back(scheduled.release_at)).await;
    let entry = ledger.get(&back.key).await.expect("the ledger answers").expect("a record stands there");
    assert_eq!(entry.letter, Some(letter()));
    let cancel = Event::Verb(&NumberedVerb { number: 1, generation: 1, verb: Verb::Cancel });
    let last = change(&*ledger, &back, &cancel).await;
    assert_eq!(ledger.swap(Swap::of(&back, last.clone())).await.expect("the ledger answers"), Swapped::Swapped);
    let ended = ledger.get(&back.key).await.expect("the ledger answers").expect("a record stands there");
    assert_eq!(ended.letter, None);
    assert_eq!(ended.history.last(), last.history.as_ref());
    assert_eq!(ended.history[..entry.history.len()], entry.history);
    assert_eq!(ledger.histories(&[key("acme/b"), back.key.clone()]).await.expect("the ledger answers"), [Vec::new(), ended.history]);
    moved(&*ledger, &ended.record, &Event::Closed).await;
    let tombstone = ledger.get(&back.key).await.expect("the ledger answers").expect("a record stands there");
    assert_eq!((tombstone.letter, tombstone.history), (None, Vec::new()));
}

/// A story keeps its ends and its bound, however often a job is moved.
pub async fn a_long_history_is_folded(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let mut record = due_record(&*ledger, "acme/a").await;
    let verb = Verb::Move { release_at: record.release_at, deadline_at: record.deadline_at };
    for number in 1..=HISTORY_ENTRIES_MAX as u64 * 3 {
        record = moved(&*ledger, &record, &Event::Verb(&NumberedVerb { number, generation: 1, verb: verb.clone() })).await;
    }
    let history = ledger.get(&record.key).await.expect("the ledger answers").expect("a record stands there").history;
    assert_eq!(history.len(), HISTORY_ENTRIES_MAX);
    assert_eq!((history[0].from, history[0].detail.as_str()), (None, "staged"));
    let folded: Vec<_> = history.iter().filter_map(|entry| entry.detail.strip_prefix("folded ")).map(|n| n.parse::<usize>()).collect();
    assert_eq!(folded, [Ok(HISTORY_ENTRIES_MAX * 3 + 1 - (HISTORY_ENTRIES_MAX - 1))], "every entry is counted");
}
