//! R3, R4 and R5: replays, and what becomes of them.

use curfew_book::conformance::given::{ask, in_doubt, job, mark, minutes, now, record, shards, staged, token};
use curfew_book::{BookError, BookState, OpenedVerb, Told};
use curfew_domain::State;
use curfew_domain::verb::Verb;
use futures::future::join;
use uuid::Uuid;

use super::{Bench, again, at_risk};
use crate::{ItemStatus, Replay};

/// A replay raises the generation, sets new times, closes the item and is audited; staging finds it.
pub async fn r3_a_replay_is_one_transaction(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let one = job("acme", 1);
    let item = pair.dead(&one, record(&one, 1, 5, State::DeadLetter)).await;
    let before = pair.row(&one).await;

    let dry = pair.review.replay(Replay { dry_run: true, ..again(item.id) }).await.expect("nothing stands against it");
    assert_eq!((dry.generation, dry.row.state), (2, BookState::DeadLetter));
    assert_eq!((pair.row(&one).await, pair.item(item.id).await), (before, item.clone()), "a dry run writes nothing");

    let replayed = pair.review.replay(again(item.id)).await.expect("nothing stands against it");
    let row = pair.row(&one).await;
    assert_eq!((replayed.generation, row.generation, row.seen, row.replays, row.attempts), (2, 2, (2, 0, 0), 1, 0));
    assert_eq!((row.state, row.job.release_at, row.job.deadline_at), (BookState::Planned, minutes(100), minutes(200)));
    assert_eq!((row.job.content_revision, row.history.len()), (1, 5), "the story of the earlier generation stays");
    assert_eq!(pair.item(item.id).await.status, ItemStatus::Replaying);
    let trail = pair.book.audit_list(None, 10).await.expect("the book answers").items;
    assert_eq!((trail[0].action.as_str(), trail[0].actor.as_str(), trail[0].object.clone()), ("replay", "alice", item.id.to_string()));
    assert_eq!(pair.book.plan(&shards(), minutes(100), 10).await.expect("the book answers").len(), 1);

    assert!(matches!(pair.review.replay(again(item.id)).await, Err(BookError::Conflict(_))), "no longer open");
    assert!(matches!(pair.review.replay(again(Uuid::from_u128(9))).await, Err(BookError::NotFound)));
    assert_eq!(pair.record(record(&one, 1, 6, State::DeadLetter)).await, Told::Older, "the earlier generation is over");
    assert_eq!(pair.row(&one).await.state, BookState::Planned);

    pair.book.mark_staged(&[mark(&one.key, 2)]).await.expect("the book answers");
    assert_eq!(pair.settle(record(&one, 2, 4, State::Sent)).await, Told::Written);
    assert_eq!((pair.row(&one).await.state, pair.item(item.id).await.status), (BookState::Sent, ItemStatus::Resolved));
}

/// Of two replays of one item one wins; a replay and the story that sends the job agree in any order.
pub async fn r3_of_two_replays_one_wins(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let one = job("acme", 1);
    let item = pair.dead(&one, record(&one, 1, 5, State::DeadLetter)).await;
    let (a, b) = join(pair.review.replay(again(item.id)), pair.review.replay(again(item.id))).await;
    assert_eq!([a.is_ok(), b.is_ok()].into_iter().filter(|ok| *ok).count(), 1);
    assert_eq!((pair.row(&one).await.generation, pair.row(&one).await.replays), (2, 1));

    for n in 2..8 {
        let one = job("acme", n);
        let item = pair.dead(&one, in_doubt(&one, 1, 5, token(1))).await;
        let replay = pair.review.replay(at_risk(item.id, minutes(100)));
        let late = pair.settle(record(&one, 1, 6, State::Sent));
        let (replayed, told) = if n % 2 == 0 {
            join(replay, late).await
        } else {
            let (told, replayed) = join(late, replay).await;
            (replayed, told)
        };
        assert_eq!((told, pair.row(&one).await.state), (Told::Written, BookState::Sent), "planned or not, the earlier acceptance counts");
        let status = if replayed.is_ok() { ItemStatus::Withdrawn } else { ItemStatus::Resolved };
        assert_eq!(pair.item(item.id).await.status, status);
    }

    let waiting = job("acme", 9);
    staged(&*pair.book, &waiting).await;
    assert!(matches!(pair.book.open_verb(ask(&waiting.key, Verb::Cancel)).await, Ok(OpenedVerb::Open(..))));
    pair.record(record(&waiting, 1, 5, State::DeadLetter)).await;
    let item = pair.open_item(&waiting).await.expect("an open item");
    assert!(matches!(pair.review.replay(again(item.id)).await, Err(BookError::Conflict(_))), "a verb is open");
}

/// Every replay has an operator, a reason and a deadline ahead.
pub async fn r4_a_replay_has_an_operator_a_reason_and_a_deadline(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let one = job("acme", 1);
    let item = pair.dead(&one, record(&one, 1, 5, State::DeadLetter)).await;
    let lacking = [
        ("actor", Replay { actor: String::new(), ..again(item.id) }),
        ("reason", Replay { reason: "  ".to_owned(), ..again(item.id) }),
        ("deadline_at", Replay { deadline_at: minutes(100), ..again(item.id) }),
    ];
    for (name, replay) in lacking {
        let refused = pair.review.replay(replay).await.expect_err(name);
        assert!(matches!(refused, BookError::Invalid { field, .. } if field == name), "{name}: {refused}");
    }
    assert_eq!((pair.row(&one).await.generation, pair.item(item.id).await.status), (1, ItemStatus::Open));
}

/// An item in doubt rests for 15 minutes after its lease, and needs the risk accepted; its tokens go along into the next generation.
pub async fn r5_an_item_in_doubt_rests_and_needs_the_risk_accepted(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let one = job("acme", 1);
    let mut dead = in_doubt(&one, 1, 5, token(2));
    (dead.doubts, dead.window_doubts) = (vec![token(8)], vec![token(1)]);
    let item = pair.dead(&one, dead).await;
    let risky = pair.review.replay(again(item.id)).await.expect_err("the risk is not accepted");
    assert!(matches!(risky, BookError::Invalid { field: "accept_duplicate_risk", .. }));
    assert!(matches!(pair.review.replay(at_risk(item.id, minutes(76))).await, Err(BookError::NotYet(_))), "its lease ended at minute 62");
    pair.review.replay(at_risk(item.id, minutes(77))).await.expect("rested, and the risk is accepted");
    let row = pair.row(&one).await;
    assert_eq!((row.doubt, row.window_doubts, row.doubts), (None, vec![], vec![token(8), token(1), token(2)]));

    let many = job("acme", 2);
    let mut dead = in_doubt(&many, 1, 5, token(100));
    dead.doubts = (0..8).map(token).collect();
    let item = pair.dead(&many, dead).await;
    assert!(matches!(pair.review.replay(at_risk(item.id, minutes(100))).await, Err(BookError::Conflict(_))), "a record carries eight");
}

/// `sent` of the earlier generation counts while the replay is planned: it is withdrawn. Once it is staged, the ledger decides.
pub async fn a_sent_of_the_earlier_generation_withdraws_a_planned_replay(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let (planned, staged) = (job("acme", 1), job("acme", 2));
    for one in [&planned, &staged] {
        let item = pair.dead(one, in_doubt(one, 1, 5, token(1))).await;
        pair.review.replay(at_risk(item.id, minutes(100))).await.expect("rested");
    }
    pair.book.mark_staged(&[mark(&staged.key, 2)]).await.expect("the book answers");
    assert_eq!(pair.settle(record(&planned, 1, 6, State::Sent)).await, Told::Written);
    let row = pair.row(&planned).await;
    assert_eq!((row.state, row.generation, row.seen), (BookState::Sent, 2, (2, 0, 0)), "the replayed generation never runs");
    assert_eq!(pair.book.plan(&shards(), minutes(600), 10).await.expect("the book answers"), []);
    assert_eq!(pair.settle(record(&planned, 1, 6, State::Sent)).await, Told::Older, "repeated, it still closes its record");
    assert_eq!(pair.settle(record(&staged, 1, 6, State::Sent)).await, Told::Older);
    assert_eq!(pair.row(&staged).await.state, BookState::Staged);
}

/// A replayed job that dies again makes a new item that names the one it answered.
pub async fn a_replayed_job_that_dies_again_makes_a_new_item(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let one = job("acme", 1);
    let first = pair.dead(&one, record(&one, 1, 5, State::DeadLetter)).await;
    pair.review.replay(again(first.id)).await.expect("nothing stands against it");
    pair.book.mark_staged(&[mark(&one.key, 2)]).await.expect("the book answers");
    assert_eq!(pair.record(record(&one, 2, 3, State::DeadLetter)).await, Told::Written);
    let second = pair.open_item(&one).await.expect("an open item");
    assert_eq!((second.generation, second.number, second.replay_of), (2, 2, Some(first.id)));
    assert_eq!(pair.item(first.id).await.status, ItemStatus::Resolved);
    assert_eq!(pair.row(&one).await.history.len(), 5 + 3, "history keeps all generations");

    let cancel = pair.book.open_verb(ask(&one.key, Verb::Cancel)).await.expect("the book answers");
    assert!(matches!(cancel, OpenedVerb::Done(row) if row.state == BookState::Cancelled));
    assert_eq!(pair.item(second.id).await.status, ItemStatus::Resolved);
    assert!(matches!(pair.review.replay(Replay { at: now(), ..again(second.id) }).await, Err(BookError::Conflict(_))));
}
