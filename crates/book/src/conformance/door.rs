//! K1 and K2: the door.

use curfew_domain::Reason;
use futures::future::join_all;

use super::Bench;
use super::given::{DATE, accepted, door, job, minutes, now, shards};
use crate::{Accepted, BookState, SuppressionRow};

/// A key is accepted once; the same content is a duplicate, other content a conflict that names the fields.
pub async fn k1_a_key_is_accepted_once(bench: &dyn Bench) {
    let book = bench.empty().await;
    let first = job("acme", 1);
    accepted(&*book, &first).await;

    let again = job("acme", 1);
    let mut other = job("acme", 1);
    other.fingerprints.insert("to".to_owned(), "another".to_owned());
    other.fingerprints.insert("attachments".to_owned(), "one".to_owned());
    let answers = book.accept(vec![again, other], &door()).await.expect("the book answers");
    match &answers[0] {
        Accepted::Duplicate(row) => assert_eq!(row.job, first, "a duplicate is answered with the job as it stands"),
        Accepted::New(_) | Accepted::Conflict(..) => panic!("the same content is a duplicate"),
    }
    assert_eq!(answers[1], Accepted::Conflict(first.id, vec!["attachments".to_owned(), "to".to_owned()]));

    let stands = book.by_key(&first.key).await.expect("the book answers").expect("the row is there");
    assert_eq!((stands.state, stands.generation, stands.seen, stands.job), (BookState::Planned, 1, (1, 0, 0), first.clone()));
    assert_eq!(book.day(DATE, None).await.expect("the book answers").accepted, 1, "the door logs what it accepts, not what it refuses");
    assert_eq!(book.by_id(first.id).await.expect("the book answers").map(|r| r.job), Some(first));
}

/// Of sixteen callers with one key at once, one is told `New`.
pub async fn k1_of_many_callers_one_is_new(bench: &dyn Bench) {
    let book = bench.empty().await;
    let door = door();
    let callers = (0..16).map(|_caller| book.accept(vec![job("acme", 1)], &door));
    let answers = join_all(callers).await;
    let new = answers.into_iter().flat_map(|a| a.expect("the book answers")).filter(|a| matches!(a, Accepted::New(_))).count();
    assert_eq!(new, 1);
    assert_eq!(book.day(DATE, None).await.expect("the book answers").accepted, 1);
}

/// A recipient on a suppressions list (of the tenant, or of all) is accepted and settled as suppressed at once.
pub async fn k1_a_suppressed_recipient_ends_at_the_door(bench: &dyn Bench) {
    let book = bench.empty().await;
    let listed = |tenant: Option<&str>, n| SuppressionRow {
        tenant: tenant.map(str::to_owned),
        recipient_ref: job("acme", n).recipient_ref,
        recipient_masked: "a…@e…".to_owned(),
        reason: "bounced".to_owned(),
        actor: "alice".to_owned(),
        since: now(),
    };
    assert!(book.suppress_recipient(listed(Some("acme"), 1)).await.expect("the book answers"));
    assert!(!book.suppress_recipient(listed(Some("acme"), 1)).await.expect("the book answers"), "it is there already");
    assert!(book.suppress_recipient(listed(None, 2)).await.expect("the book answers"));

    let jobs = vec![job("acme", 1), job("acme", 2), job("other", 1), job("acme", 3)];
    let answers = book.accept(jobs.clone(), &door()).await.expect("the book answers");
    let (ended, planned) = (Accepted::New(BookState::Suppressed), Accepted::New(BookState::Planned));
    assert_eq!(answers, [ended.clone(), ended, planned.clone(), planned]);
    let row = book.by_key(&jobs[0].key).await.expect("the book answers").expect("the row is there");
    assert_eq!((row.state, row.reason, row.history.len()), (BookState::Suppressed, Some(Reason::SuppressionList), 1));
    assert_eq!(book.plan(&shards(), minutes(600), 10).await.expect("the book answers").len(), 2, "what ended at the door is never staged");

    assert!(book.unsuppress_recipient(Some("acme"), &jobs[0].recipient_ref, "alice", "confirmed", now()).await.expect("the book answers"));
    assert!(!book.unsuppress_recipient(Some("acme"), &jobs[0].recipient_ref, "alice", "confirmed", now()).await.expect("the book answers"));
    assert_eq!(book.suppressions().await.expect("the book answers"), [listed(None, 2)]);
    assert_eq!(book.audit_list(None, 10).await.expect("the book answers").items.len(), 3, "each change of a list is audited");
}

/// A batch is accepted row by row: duplicates and conflicts inside it and with the book lose no other row.
pub async fn k2_a_batch_is_accepted_row_by_row(bench: &dyn Bench) {
    let book = bench.empty().await;
    accepted(&*book, &job("acme", 5)).await;
    let mut batch: Vec<_> = (0..300).map(|n| job("acme", n)).collect();
    batch.push(job("acme", 17));
    let mut other = job("acme", 18);
    other.fingerprints.clear();
    batch.push(other);

    let answers = book.accept(batch.clone(), &door()).await.expect("the book answers");
    assert_eq!(answers.iter().filter(|a| matches!(a, Accepted::New(BookState::Planned))).count(), 299);
    assert!(matches!(answers[5], Accepted::Duplicate(_)), "known to the book");
    assert!(matches!(&answers[300], Accepted::Duplicate(row) if row.job == batch[17]), "known from the same batch");
    assert_eq!(answers[301], Accepted::Conflict(batch[18].id, vec!["template".to_owned(), "to".to_owned()]));
    assert_eq!(book.day(DATE, Some("acme")).await.expect("the book answers").accepted, 300);

    let repeated = book.accept(batch[..300].to_vec(), &door()).await.expect("the book answers");
    assert!(repeated.iter().all(|a| matches!(a, Accepted::Duplicate(_))), "repeating after a lost answer is safe");
    assert!(book.accept((0..501).map(|n| job("acme", n)).collect(), &door()).await.is_err(), "at most 500 at once");
}
