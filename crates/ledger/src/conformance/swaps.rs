//! L1, L2, L6, L8: who creates, who swaps, what guards refuse, what is on the disk.

use std::time::Duration;

use curfew_domain::sealed::RecipientRef;
use curfew_domain::transition::{Counter, Guard};
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Event, State};

use super::{Bench, CLAIM, RELEASE, SHARD, change, create_of, due_record, intent, key, letter, moved, now, record, stands};
use crate::{Created, Suppression, Swap, Swapped};

/// L1.
pub async fn l1_one_of_many_creates_a_key_and_the_others_get_what_stands_there(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let at = now(&*ledger).await;
    let create = create_of(&*ledger, record("acme/a", 1, at)).await;
    let racers = (0..64).map(|_| {
        let (ledger, create) = (bench.ledger(), create.clone());
        tokio::spawn(async move { ledger.create(vec![create]).await.expect("the ledger answers").pop().expect("one answer") })
    });
    let answers = futures::future::try_join_all(racers).await.expect("no racer panics");
    assert_eq!(answers.iter().filter(|answer| **answer == Created::Created).count(), 1);
    let others = Created::Exists(Box::new(create.change.record.clone()));
    assert_eq!(answers.iter().filter(|answer| **answer == others).count(), 63);
    let entry = ledger.get(&key("acme/a")).await.expect("the ledger answers").expect("a record stands there");
    assert_eq!((entry.record, entry.letter, entry.history), (create.change.record, Some(letter()), create.change.history.into_iter().collect()));
}

/// L1, for a batch: each answer is its own create's.
pub async fn l1_a_batch_is_answered_in_order(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let b = due_record(&*ledger, "acme/b").await;
    let mut creates = Vec::new();
    for name in ["acme/a", "acme/b", "acme/c", "acme/a"] {
        creates.push(create_of(&*ledger, record(name, 1, b.release_at)).await);
    }
    let a = creates[0].change.record.clone();
    let answers = ledger.create(creates).await.expect("the ledger answers");
    assert_eq!(answers, [Created::Created, Created::Exists(Box::new(b)), Created::Created, Created::Exists(Box::new(a))]);
}

/// L2.
pub async fn l2_of_many_claims_one_succeeds(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let before = due_record(&*ledger, "acme/a").await;
    let racers = (0..64_u128).map(|n| {
        let (ledger, before) = (bench.ledger(), before.clone());
        tokio::spawn(async move {
            let claim = Event::Claim { worker: curfew_domain::WorkerId(uuid::Uuid::from_u128(n)), lease: super::LEASE };
            let change = change(&*ledger, &before, &claim).await;
            let mine = change.record.clone();
            (mine, ledger.swap(Swap::of(&before, change)).await.expect("the ledger answers"))
        })
    });
    let answers = futures::future::try_join_all(racers).await.expect("no racer panics");
    let winners: Vec<_> = answers.iter().filter(|(_, answer)| *answer == Swapped::Swapped).map(|(mine, _)| mine.clone()).collect();
    let [winner] = winners.as_slice() else { panic!("{} claims succeeded", winners.len()) };
    assert_eq!(*winner, stands(&*ledger, "acme/a").await);
    let lost = Swapped::Conflict(Box::new(winner.clone()));
    assert_eq!(answers.iter().filter(|(_, answer)| *answer == lost).count(), 63, "and the losers see who won");
    assert_eq!(ledger.counts(SHARD, &[Counter::TenantInFlight("acme".into())]).await.expect("the ledger answers"), [1]);
}

/// L2.
pub async fn l2_a_repeated_swap_is_the_same_as_one(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let before = due_record(&*ledger, "acme/a").await;
    let cancel = Event::Verb(&NumberedVerb { number: 1, generation: 1, verb: Verb::Cancel });
    let swap = Swap::of(&before, change(&*ledger, &before, &cancel).await);
    for _ in 0..3 {
        assert_eq!(ledger.swap(swap.clone()).await.expect("the ledger answers"), Swapped::Swapped);
    }
    let both = ledger.swap_all(vec![swap.clone(), swap.clone()]).await.expect("the ledger answers");
    assert_eq!(both, [Swapped::Swapped, Swapped::Swapped]);
    let entry = ledger.get(&before.key).await.expect("the ledger answers").expect("a record stands there");
    assert_eq!((entry.record.version, entry.history.len()), (2, 2), "created, and cancelled once");
    let counters = [Counter::State(State::Scheduled), Counter::State(State::Cancelled)];
    assert_eq!(ledger.counts(SHARD, &counters).await.expect("the ledger answers"), [0, 1]);
}

/// L2.
pub async fn l2_a_swap_against_another_version_changes_nothing(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let first = due_record(&*ledger, "acme/a").await;
    let queued = moved(&*ledger, &first, &RELEASE).await;
    let late = Swap::of(&first, change(&*ledger, &first, &CLAIM).await);
    assert_eq!(ledger.swap(late.clone()).await.expect("the ledger answers"), Swapped::Conflict(Box::new(queued.clone())));
    let other_generation = Swap { generation: 2, version: queued.version, ..late };
    assert_eq!(ledger.swap(other_generation).await.expect("the ledger answers"), Swapped::Conflict(Box::new(queued.clone())));
    assert_eq!(stands(&*ledger, "acme/a").await, queued);
    let unknown = record("acme/b", 1, first.release_at);
    let nowhere = Swap::of(&unknown, change(&*ledger, &unknown, &CLAIM).await);
    assert_eq!(ledger.swap(nowhere).await.expect("the ledger answers"), Swapped::Missing);
    assert_eq!(ledger.get(&key("acme/b")).await.expect("the ledger answers"), None);
}

/// L2: swaps that meet in one group commit.
pub async fn l2_swaps_of_one_key_see_each_other_in_order(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let first = due_record(&*ledger, "acme/a").await;
    let release = Swap::of(&first, change(&*ledger, &first, &RELEASE).await);
    let queued = release.change.record.clone();
    let claim = Swap::of(&queued, change(&*ledger, &queued, &CLAIM).await);
    let claimed = claim.change.record.clone();
    let (a, b, c) = tokio::join!(ledger.swap(release), ledger.swap(claim.clone()), ledger.swap(Swap { version: 9, ..claim }));
    assert_eq!([a, b].map(|answer| answer.expect("the ledger answers")), [Swapped::Swapped, Swapped::Swapped]);
    let last = c.expect("the ledger answers");
    assert_eq!(last, Swapped::Swapped, "it finds its own bytes there, whatever version it names");
    assert_eq!(stands(&*ledger, "acme/a").await, claimed);
}

/// L6: a caller whose clock runs ahead or behind.
pub async fn l6_the_ledgers_own_clock_judges_the_window(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let at = now(&*ledger).await;
    let early = record("acme/early", 1, at.plus(Duration::from_secs(10)));
    assert_eq!(super::create(&*ledger, early.clone()).await, Created::Created);
    let ahead = curfew_domain::transition(&early, &CLAIM, early.release_at).expect("due by the caller's clock");
    let refused = ledger.swap(Swap::of(&early, ahead.clone())).await.expect("the ledger answers");
    assert_eq!(refused, Swapped::Refused(Guard::NotBefore(early.release_at)));
    bench.advance(Duration::from_secs(10)).await;
    let behind = curfew_domain::transition(&early, &CLAIM, early.release_at).expect("due");
    bench.advance(Duration::from_secs(3600)).await;
    let refused = ledger.swap(Swap::of(&early, behind)).await.expect("the ledger answers");
    assert_eq!(refused, Swapped::Refused(Guard::Before(early.deadline_at)), "at the deadline it is too late");
    assert_eq!(stands(&*ledger, "acme/early").await.version, 1);
}

/// L6.
pub async fn l6_a_suppressed_recipient_is_not_claimed(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let ours = due_record(&*ledger, "acme/a").await;
    let other = due_record(&*ledger, "other/a").await;
    let recipient_ref = RecipientRef(ours.recipient_ref.0.clone());
    let list = |tenant: Option<&str>| vec![Suppression { tenant: tenant.map(str::to_owned), recipient_ref: recipient_ref.clone() }];
    let claim = Swap::of(&ours, change(&*ledger, &ours, &CLAIM).await);
    for tenant in [Some("acme"), None] {
        ledger.set_suppressions(list(tenant)).await.expect("the ledger answers");
        let refused = ledger.swap(claim.clone()).await.expect("the ledger answers");
        assert_eq!(refused, Swapped::Refused(Guard::NotSuppressed(recipient_ref.clone())), "on the list of {tenant:?}");
    }
    bench.kill_and_reopen().await;
    let ledger = bench.ledger();
    assert_eq!(ledger.swap(claim.clone()).await.expect("the ledger answers"), Swapped::Refused(Guard::NotSuppressed(recipient_ref.clone())));
    ledger.set_suppressions(list(Some("acme"))).await.expect("the ledger answers");
    moved(&*ledger, &other, &CLAIM).await;
    ledger.set_suppressions(Vec::new()).await.expect("the ledger answers");
    assert_eq!(ledger.swap(claim).await.expect("the ledger answers"), Swapped::Swapped, "the list is replaced, not added to");
}

/// L6: the tenant's in-flight limit.
pub async fn l6_a_counter_is_never_taken_past_its_bound(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let in_flight = Counter::TenantInFlight("acme".into());
    let mut claims = Vec::new();
    for n in 0..20 {
        let before = due_record(&*ledger, &format!("acme/{n}")).await;
        let claim = change(&*ledger, &before, &CLAIM).await;
        claims.push(Swap::of(&before, claim).below(in_flight.clone(), 3));
    }
    let racers = claims.into_iter().map(|claim| {
        let ledger = bench.ledger();
        tokio::spawn(async move { ledger.swap(claim).await.expect("the ledger answers") })
    });
    let answers = futures::future::try_join_all(racers).await.expect("no racer panics");
    assert_eq!(answers.iter().filter(|answer| **answer == Swapped::Swapped).count(), 3);
    assert_eq!(answers.iter().filter(|answer| **answer == Swapped::Full).count(), 17);
    assert_eq!(ledger.counts(SHARD, &[in_flight]).await.expect("the ledger answers"), [3]);
}

/// L8.
pub async fn l8_an_intent_and_a_verb_are_there_after_a_kill(bench: &dyn Bench) {
    let ledger = bench.ledger();
    let claimed = moved(&*ledger, &due_record(&*ledger, "acme/a").await, &CLAIM).await;
    let waiting = due_record(&*ledger, "acme/b").await;
    let intended = change(&*ledger, &claimed, &intent()).await;
    let cancelled = change(&*ledger, &waiting, &Event::Verb(&NumberedVerb { number: 1, generation: 1, verb: Verb::Cancel })).await;
    let both = vec![Swap::of(&claimed, intended.clone()).on_disk(), Swap::of(&waiting, cancelled.clone()).on_disk()];
    assert_eq!(ledger.swap_all(both).await.expect("the ledger answers"), [Swapped::Swapped, Swapped::Swapped]);
    bench.kill_and_reopen().await;
    let ledger = bench.ledger();
    assert_eq!(stands(&*ledger, "acme/a").await, intended.record);
    assert_eq!(stands(&*ledger, "acme/b").await, cancelled.record);
}
