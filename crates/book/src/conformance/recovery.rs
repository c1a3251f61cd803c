//! What recovery rests on: errands of an earlier incarnation change nothing, and a shard's rows and verbs are found.

use curfew_domain::verb::Verb;
use curfew_domain::{Shard, State};

use super::Bench;
use super::given::{accepted, ask, job, mark, minutes, now, record, staged, story};
use super::stories::row;
use crate::{BookError, BookState, Mark, OpenedVerb, Told, VerbEnd};

const fn other_incarnation<T>(answer: &Result<T, BookError>) -> bool {
    matches!(answer, Err(BookError::OtherIncarnation))
}

/// An errand that began before its shard's incarnation was raised changes nothing, and is answered so that it is begun anew.
pub async fn an_errand_of_an_earlier_incarnation_changes_nothing(bench: &dyn Bench) {
    let book = bench.empty().await;
    let (one, two, planned) = (job("acme", 1), job("acme", 2), job("acme", 3));
    for staged_one in [&one, &two] {
        staged(&*book, staged_one).await;
    }
    accepted(&*book, &planned).await;
    let mut near = ask(&two.key, Verb::Cancel);
    near.book_alone_from = minutes(100);
    let Ok(OpenedVerb::Open(verb, _)) = book.open_verb(near).await else { panic!("it is the ledger's") };
    assert_eq!(book.raise(one.shard, 0).await.expect("the book answers"), 1);
    let before = (row(&*book, &one.key).await, row(&*book, &two.key).await, row(&*book, &planned.key).await);

    assert!(other_incarnation(&book.mark_staged(&[mark(&planned.key, 1)]).await));
    assert!(other_incarnation(&book.settle(vec![story(record(&one, 1, 7, State::Sent))], now()).await));
    let cancelled = record(&two, 1, 5, State::Cancelled);
    assert!(other_incarnation(&book.close_verb(verb.number, VerbEnd::Applied(Box::new(cancelled.clone())), now()).await));
    assert!(other_incarnation(&book.take_back(&mark(&one.key, 1), now()).await));
    assert_eq!((row(&*book, &one.key).await, row(&*book, &two.key).await, row(&*book, &planned.key).await), before);

    let in_it = |mut record: curfew_domain::Record| {
        record.incarnation = 1;
        record
    };
    book.mark_staged(&[Mark { incarnation: 1, ..mark(&planned.key, 1) }]).await.expect("the book answers");
    let told = book.settle(vec![story(in_it(record(&one, 1, 7, State::Sent)))], now()).await;
    assert_eq!(told.expect("the book answers"), [Told::Written]);
    assert!(book.close_verb(verb.number, VerbEnd::Applied(Box::new(in_it(cancelled))), now()).await.expect("the book answers"));
    assert_eq!(row(&*book, &planned.key).await.state, BookState::Staged);
    // Other shards go on.
    let other = job("other", 1);
    assert_ne!(other.shard, one.shard);
    staged(&*book, &other).await;
}

/// A shard's rows by key, planned or staged; their verbs, open or applied; a staged row is taken back into its next generation.
pub async fn a_shards_rows_and_verbs_are_found(bench: &dyn Bench) {
    let book = bench.empty().await;
    let shard = job("acme", 1).shard;
    for n in [1, 2, 3] {
        staged(&*book, &job("acme", n)).await;
    }
    for n in [4, 5] {
        accepted(&*book, &job("acme", n)).await;
    }
    staged(&*book, &job("other", 1)).await;
    let found = async |state, until, after: Option<&curfew_domain::Key>| {
        let rows = book.rows_of(shard, state, until, after, 2).await.expect("the book answers");
        rows.into_iter().map(|view| view.row.job.key).collect::<Vec<_>>()
    };
    assert_eq!(found(BookState::Staged, minutes(60), None).await, [job("acme", 1).key, job("acme", 2).key]);
    assert_eq!(found(BookState::Staged, minutes(60), Some(&job("acme", 2).key)).await, [job("acme", 3).key]);
    assert_eq!(found(BookState::Planned, minutes(60), None).await, [job("acme", 4).key, job("acme", 5).key]);
    assert!(found(BookState::Planned, minutes(59), None).await.is_empty(), "not due");
    assert!(book.rows_of(Shard(60), BookState::Staged, minutes(60), None, 9).await.expect("the book answers").is_empty());

    let (open, refused) = (job("acme", 1).key, job("acme", 2).key);
    let mut verbs = Vec::new();
    for key in [&open, &refused] {
        let Ok(OpenedVerb::Open(verb, _)) = book.open_verb(ask(key, Verb::Cancel)).await else { panic!("it is the ledger's") };
        verbs.push(verb);
    }
    book.close_verb(verbs[1].number, VerbEnd::Refused(State::Handoff), now()).await.expect("the book answers");
    let seen = book.verbs_of(&[open.clone(), refused]).await.expect("the book answers");
    let [(key, seen)] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!((key, &seen.verb, seen.actor.as_str(), seen.applied), (&open, &verbs[0], "alice", false));

    let back = mark(&job("acme", 3).key, 1);
    assert!(book.take_back(&back, now()).await.expect("the book answers"));
    assert!(!book.take_back(&back, now()).await.expect("the book answers"), "repeating is free");
    let row = row(&*book, &back.key).await;
    assert_eq!((row.state, row.generation, row.seen), (BookState::Planned, 2, (2, 0, 0)));
    assert!(row.history.iter().any(|entry| entry.detail.starts_with("recovery")), "{:?}", row.history);
}
