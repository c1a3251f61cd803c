//! The other human work, and quarantine.

use curfew_book::conformance::given::{in_doubt, job, minutes, record, staged, token};
use curfew_book::{BookError, BookState};
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::{Reason, State};
use uuid::Uuid;

use super::{Bench, again};
use crate::{Correction, ItemStatus, Quarantined};

/// A correction is a new content revision of the same key; pins are forgotten where artifacts changed, the recipient follows.
pub async fn a_correction_is_a_new_revision_of_the_same_key(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let one = job("acme", 1);
    let item = pair.dead(&one, record(&one, 1, 5, State::DeadLetter)).await;
    let correction = Correction {
        item: item.id,
        letter: Sealed::from_bytes(vec![9; 30]),
        recipient: None,
        forget_pins: false,
        actor: "alice".to_owned(),
        reason: "a typo".to_owned(),
        at: minutes(70),
    };
    pair.review.correct(correction.clone()).await.expect("it is open");
    let row = pair.row(&one).await;
    assert_eq!((row.job.content_revision, row.job.letter, row.pins.len()), (2, Sealed::from_bytes(vec![9; 30]), 1));
    assert_eq!((row.job.recipient_ref, row.state), (one.recipient_ref.clone(), BookState::DeadLetter));

    let other = (RecipientRef("ff".repeat(16)), "b…@e…".to_owned());
    let corrected =
        pair.review.correct(Correction { recipient: Some(other.clone()), forget_pins: true, ..correction.clone() }).await.expect("it is open");
    let row = pair.row(&one).await;
    assert_eq!((row.job.content_revision, row.pins.len(), row.job.key), (3, 0, one.key.clone()));
    assert_eq!((Some(row.job.recipient_ref), Some(row.job.recipient_masked)), (corrected.recipient_ref, corrected.recipient_masked));
    assert_eq!(corrected.notes.len(), 2);

    let replayed = pair.review.replay(again(item.id)).await.expect("nothing stands against it");
    assert_eq!(replayed.row.job.content_revision, 3, "the replay freezes the revision");
    assert!(matches!(pair.review.correct(correction).await, Err(BookError::Conflict(_))));
    assert_eq!(pair.row(&one).await.job.content_revision, 3);
}

/// Suppress, escalate, assign, note and resolve: each is audited, and what ends an item ends it once.
pub async fn actions_are_audited_and_end_items(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let (one, two) = (job("acme", 1), job("acme", 2));
    let first = pair.dead(&one, in_doubt(&one, 1, 5, token(1))).await;
    let second = pair.dead(&two, record(&two, 1, 5, State::DeadLetter)).await;
    let (actor, at) = ("alice", minutes(70));

    let escalated = pair.review.escalate(first.id, "night-shift", minutes(80), actor, "nobody answers", at).await.expect("it is open");
    assert_eq!((escalated.owner.as_deref(), escalated.due_at), (Some("night-shift"), Some(minutes(80))));
    let assigned = pair.review.assign(first.id, "bob", actor, at).await.expect("it is there");
    assert_eq!((assigned.owner.as_deref(), assigned.due_at), (Some("bob"), Some(minutes(80))));
    let noted = pair.review.note(first.id, "called the customer", actor, at).await.expect("it is there");
    assert_eq!(noted.notes.last(), Some(&(at, actor.to_owned(), "called the customer".to_owned())));

    let suppressed = pair.review.suppress(first.id, actor, "no longer a customer", at).await.expect("it is open");
    assert_eq!(
        (suppressed.status, pair.row(&one).await.state, pair.row(&one).await.reason),
        (ItemStatus::Resolved, BookState::Suppressed, Some(Reason::Operator))
    );
    assert!(matches!(pair.review.suppress(first.id, actor, "again", at).await, Err(BookError::Conflict(_))));
    assert!(matches!(pair.review.suppress(second.id, actor, " ", at).await, Err(BookError::Invalid { field: "reason", .. })));

    let resolved = pair.review.resolve(second.id, None, actor, "sent by post", at).await.expect("it is open");
    assert_eq!((resolved.status, pair.row(&two).await.state), (ItemStatus::Resolved, BookState::DeadLetter));
    assert!(matches!(pair.review.resolve(second.id, None, actor, "again", at).await, Err(BookError::Conflict(_))));
    assert!(matches!(pair.review.note(Uuid::from_u128(9), "x", actor, at).await, Err(BookError::NotFound)));
    let trail = pair.book.audit_list(None, 10).await.expect("the book answers").items;
    assert_eq!(trail.iter().map(|e| e.action.as_str()).collect::<Vec<_>>(), ["resolve", "suppress", "assign", "escalate"]);
    assert_eq!(pair.book.audit_verify().await.expect("the book answers"), Ok(4));
}

/// What can't be read is kept once; a job whose record is lost becomes a dead letter in doubt.
pub async fn the_lost_and_the_unreadable_are_kept_once(bench: &dyn Bench) {
    let pair = bench.empty().await;
    let unreadable = Quarantined {
        reason: Reason::MalformedMessage,
        key: None,
        body: Some(Sealed::from_bytes(vec![1; 64])),
        fingerprint: "f1".to_owned(),
        diagnostic: "no wake-up of ours".to_owned(),
        at: minutes(70),
    };
    let id = pair.review.quarantine(unreadable.clone()).await.expect("the store answers");
    assert_eq!(pair.review.quarantine(unreadable.clone()).await.expect("the store answers"), id);
    let item = pair.item(id).await;
    assert_eq!((item.reason, item.job_id, item.status, item.in_doubt), (Reason::MalformedMessage, None, ItemStatus::Open, false));
    assert!(matches!(pair.review.replay(again(id)).await, Err(BookError::Conflict(_))), "it names no job");
    assert_eq!(pair.review.resolve(id, None, "alice", "a stray", minutes(71)).await.expect("it is open").status, ItemStatus::Resolved);

    let (lost, known) = (job("acme", 1), job("acme", 2));
    staged(&*pair.book, &lost).await;
    let missing =
        Quarantined { reason: Reason::LedgerRecordMissing, key: Some(lost.key.clone()), body: None, fingerprint: "f2".to_owned(), ..unreadable };
    let id = pair.review.quarantine(missing.clone()).await.expect("the store answers");
    assert_eq!(pair.review.quarantine(missing.clone()).await.expect("the store answers"), id);
    let item = pair.item(id).await;
    assert_eq!((item.job_id, item.in_doubt, item.reason, item.number), (Some(lost.id), true, Reason::LedgerRecordMissing, 1));
    assert_eq!(pair.row(&lost).await.state, BookState::DeadLetter);
    assert!(matches!(pair.review.replay(again(id)).await, Err(BookError::Invalid { field: "accept_duplicate_risk", .. })));

    staged(&*pair.book, &known).await;
    pair.settle(record(&known, 1, 5, State::Sent)).await;
    pair.review.quarantine(Quarantined { key: Some(known.key.clone()), fingerprint: "f3".to_owned(), ..missing }).await.expect("the store answers");
    assert_eq!(pair.row(&known).await.state, BookState::Sent, "what the book knows as ended stays so");
}
