//! R1, R2, R6 and R7: what is recorded, what is known better, what evidence does, what lists show.

use curfew_book::conformance::given::{ask, in_doubt, job, minutes, receipt, record, staged, story, token};
use curfew_book::{BookState, Evidence, EvidenceSource, EvidenceTaken, Fate, OpenedVerb, Told};
use curfew_domain::outcome::Stage;
use curfew_domain::policy::AtDeadline;
use curfew_domain::verb::Verb;
use curfew_domain::{Key, Outcome, OutcomeClass, Reason, State, Token};

use super::{Bench, owners};
use crate::{ItemStatus, ReviewFilter};

/// A dead letter is recorded once per generation, with history and outcome; told again it changes the item that stands.
pub async fn r1_a_dead_letter_is_recorded_once(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let (one, two) = (job("acme", 1), job("acme", 2));
    let item = pair.dead(&one, record(&one, 1, 5, State::DeadLetter)).await;
    assert_eq!((item.job_id, item.key, item.tenant), (Some(one.id), Some(one.key.clone()), Some("acme".to_owned())));
    assert_eq!((item.generation, item.number, item.replay_of, item.in_doubt, item.status), (1, 1, None, false, ItemStatus::Open));
    assert_eq!((item.reason, item.owner.as_deref(), item.diagnostic.as_str()), (Reason::PermanentFailure, Some("support"), "550 5.1.1"));
    assert_eq!((item.attempts, item.release_at, item.deadline_at), (1, Some(minutes(60)), Some(minutes(120))));
    assert_eq!(item.history.len(), 5);
    let row = pair.row(&one).await;
    assert_eq!((row.state, row.reason, row.seen), (BookState::DeadLetter, Some(Reason::PermanentFailure), (1, 0, 5)));

    let both = vec![story(record(&one, 1, 5, State::DeadLetter)), story(record(&one, 1, 5, State::DeadLetter))];
    assert_eq!(pair.review.record(both, &owners(), minutes(70)).await.expect("the store answers"), [Told::Written, Told::Written]);
    assert_eq!(pair.item(item.id).await.created_at, minutes(63), "recorded once");

    let doubted = pair.dead(&two, in_doubt(&two, 1, 5, token(1))).await;
    assert!(doubted.in_doubt && doubted.lease_ended_at == Some(minutes(62)));
    assert_eq!(pair.record(record(&two, 1, 6, State::DeadLetter)).await, Told::Written);
    let again = pair.open_item(&two).await.expect("it stays open");
    assert_eq!(
        (again.id, again.in_doubt, again.reason, again.notes.len()),
        (doubted.id, false, Reason::PermanentFailure, 1),
        "its doubt ended before it was closed"
    );

    let three = job("acme", 3);
    let mut late = record(&three, 1, 5, State::DeadLetter);
    (late.reason, late.at_deadline) = (Some(Reason::BusinessDeadlineReached), AtDeadline::Escalate("night-shift".to_owned()));
    assert_eq!(pair.dead(&three, late).await.owner.as_deref(), Some("night-shift"));
    let all = pair.review.list(&ReviewFilter { limit: 50, ..ReviewFilter::default() }).await.expect("the store answers");
    assert_eq!(all.items.len(), 3);
}

/// A story that the book knows better changes nothing, and makes no item.
pub async fn r2_a_story_that_the_book_knows_better_changes_nothing(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let one = job("acme", 1);
    staged(&*pair.book, &one).await;
    pair.settle(record(&one, 1, 7, State::Sent)).await;
    let sent = pair.row(&one).await;
    for version in [6, 8] {
        assert_eq!(pair.record(in_doubt(&one, 1, version, token(1))).await, Told::Older, "version {version}");
    }
    assert_eq!((pair.row(&one).await, pair.open_item(&one).await), (sent, None));
    assert_eq!(pair.record(record(&job("acme", 2), 1, 5, State::DeadLetter)).await, Told::Unknown, "the book lost it: the record must stand");
}

/// Sent, cancelled or suppressed: the job's item doesn't stay open.
pub async fn what_ends_a_job_ends_its_item(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let jobs: Vec<_> = (0..3).map(|n| job("acme", n)).collect();
    let mut items = Vec::new();
    for one in &jobs {
        items.push(pair.dead(one, in_doubt(one, 1, 5, token(1))).await);
    }
    assert_eq!(pair.settle(record(&jobs[0], 1, 6, State::Sent)).await, Told::Written, "a late verdict in the ledger");
    for (one, verb) in [(&jobs[1], Verb::Cancel), (&jobs[2], Verb::Suppress)] {
        assert!(matches!(pair.book.open_verb(ask(&one.key, verb)).await, Ok(OpenedVerb::Done(_))));
    }
    for (one, item) in jobs.iter().zip(items) {
        let item = pair.item(item.id).await;
        assert_eq!((item.status, item.notes.len(), pair.open_item(one).await), (ItemStatus::Resolved, 1, None));
    }
}

fn evidence(key: &Key, token: Option<Token>, fate: Fate) -> Evidence {
    Evidence { key: key.clone(), generation: 1, token, fate, source: EvidenceSource::LateVerdict, at: minutes(65) }
}

fn refused() -> Fate {
    Fate::NotAccepted(Box::new(Outcome::new(OutcomeClass::Permanent, Stage::Dot, "dot-refused", "554 5.7.1")))
}

/// Evidence resolves an item in doubt by itself and the token stays on record; a refusal ends the doubt and leaves the item open.
pub async fn r6_evidence_resolves_an_item_in_doubt(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let jobs: Vec<_> = (0..4).map(|n| job("acme", n)).collect();
    let mut items = Vec::new();
    for one in &jobs {
        let mut dead = in_doubt(one, 1, 5, token(2));
        (dead.doubts, dead.window_doubts) = (vec![token(8)], vec![token(1)]);
        items.push(pair.dead(one, dead).await);
    }
    assert_eq!(pair.review.oldest_in_doubt().await.expect("the store answers"), Some(minutes(63)));
    let take = async |evidence| pair.book.evidence(evidence).await.expect("the book answers");

    assert_eq!(take(evidence(&jobs[0].key, Some(token(2)), Fate::Accepted(receipt()))).await, EvidenceTaken::Sent);
    let item = pair.item(items[0].id).await;
    assert_eq!((item.status, item.notes.len(), item.notes[0].1.as_str()), (ItemStatus::Resolved, 1, "worker"));
    assert!(pair.row(&jobs[0]).await.doubts.contains(&token(2)));

    assert_eq!(take(evidence(&jobs[1].key, Some(token(2)), refused())).await, EvidenceTaken::DoubtEnded);
    assert!(pair.item(items[1].id).await.in_doubt, "another handoff of the same generation comes to the front");
    assert_eq!(pair.row(&jobs[1]).await.doubt, Some(token(1)));
    assert_eq!(take(evidence(&jobs[1].key, None, refused())).await, EvidenceTaken::DoubtEnded);
    let item = pair.item(items[1].id).await;
    assert_eq!((item.status, item.in_doubt, item.notes.len()), (ItemStatus::Open, false, 2));

    assert_eq!(take(evidence(&jobs[1].key, Some(token(8)), refused())).await, EvidenceTaken::DoubtEnded, "an earlier generation's");
    assert_eq!(take(evidence(&jobs[1].key, Some(token(8)), refused())).await, EvidenceTaken::Known);

    let by_hand =
        pair.review.resolve(items[2].id, Some("250 ok 4F2Q"), "alice", "seen in the relay's log", minutes(66)).await.expect("it is in doubt");
    let row = pair.row(&jobs[2]).await;
    assert_eq!(
        (by_hand.status, row.state, row.receipt.map(|r| (r.code, r.text))),
        (ItemStatus::Resolved, BookState::Sent, Some((0, "250 ok 4F2Q".to_owned())))
    );
    assert!(pair.review.resolve(items[1].id, Some("250 ok"), "alice", "a guess", minutes(66)).await.is_err(), "nothing of it is in doubt any more");

    // An item that a person closed without a receipt stays open to the truth.
    pair.review.resolve(items[3].id, None, "alice", "the customer was called", minutes(66)).await.expect("it is open");
    assert_eq!(pair.row(&jobs[3]).await.state, BookState::DeadLetter);
    assert_eq!(take(evidence(&jobs[3].key, Some(token(1)), Fate::Accepted(receipt()))).await, EvidenceTaken::Sent);
    assert_eq!(pair.review.oldest_in_doubt().await.expect("the store answers"), None);
}

/// No list shows an address or a body: a reference and a masked form, and no letter.
pub async fn r7_no_list_shows_a_person(bench: &dyn Bench) {
    let pair = bench.empty().await;
    for n in 0..5 {
        let one = job(if n < 3 { "acme" } else { "other" }, n);
        pair.dead(&one, record(&one, 1, 5, State::DeadLetter)).await;
    }
    let filter = ReviewFilter { limit: 2, ..ReviewFilter::default() };
    let first = pair.review.list(&filter).await.expect("the store answers");
    let rest = pair.review.list(&ReviewFilter { cursor: first.next_cursor.clone(), limit: 50, ..filter.clone() }).await.expect("the store answers");
    assert_eq!((first.items.len(), rest.items.len(), rest.next_cursor), (2, 3, None));
    assert!(first.items[0].id > first.items[1].id || first.items[0].created_at >= first.items[1].created_at, "newest first");
    for item in first.items.iter().chain(&rest.items) {
        assert_eq!((item.recipient_masked.as_deref(), item.history.len()), (Some("a…@e…"), 0));
    }
    let count = async |filter: ReviewFilter| pair.review.list(&ReviewFilter { limit: 50, ..filter }).await.expect("the store answers").items.len();
    assert_eq!(count(ReviewFilter { tenant: Some("acme".to_owned()), ..ReviewFilter::default() }).await, 3);
    assert_eq!(count(ReviewFilter { status: Some(ItemStatus::Open), ..ReviewFilter::default() }).await, 5);
    assert_eq!(count(ReviewFilter { status: Some(ItemStatus::Resolved), ..ReviewFilter::default() }).await, 0);
    assert_eq!(count(ReviewFilter { reason: Some(Reason::WorkerLost), ..ReviewFilter::default() }).await, 0);
    assert_eq!(pair.review.open_by_reason().await.expect("the store answers"), [("permanent_failure".to_owned(), 5)].into());
    assert!(pair.review.list(&ReviewFilter { cursor: Some("page two".to_owned()), ..filter }).await.is_err());
}
