//! K5: operators' verbs.

use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Key, Reason, State};

use super::Bench;
use super::given::{accepted, ask, in_doubt, job, minutes, now, record, staged, story, token};
use super::stories::row;
use crate::{Book, BookError, BookState, OpenedVerb, Row, Told, VerbEnd};

const MOVE: fn(u64) -> Verb = |at| Verb::Move { release_at: minutes(at), deadline_at: minutes(at + 60) };

pub(super) async fn opened(book: &dyn Book, key: &Key, verb: Verb) -> NumberedVerb {
    match book.open_verb(ask(key, verb)).await.expect("the book answers") {
        OpenedVerb::Open(verb, _row) => verb,
        OpenedVerb::Done(_) | OpenedVerb::Refused(_) | OpenedVerb::NotFound => panic!("the ledger's job opens a row"),
    }
}

async fn done(book: &dyn Book, key: &Key, verb: Verb) -> Row {
    match book.open_verb(ask(key, verb)).await.expect("the book answers") {
        OpenedVerb::Done(row) => *row,
        OpenedVerb::Open(..) | OpenedVerb::Refused(_) | OpenedVerb::NotFound => panic!("the book's job is changed in the book"),
    }
}

/// A verb is a row and an audit entry before it is a transition; numbers rise over all jobs.
pub async fn k5_a_verb_is_a_row_first(bench: &dyn Bench) {
    let book = bench.empty().await;
    let (one, two) = (job("acme", 1), job("acme", 2));
    staged(&*book, &one).await;
    staged(&*book, &two).await;
    assert_eq!(book.open_verb(ask(&job("acme", 3).key, Verb::Cancel)).await.expect("the book answers"), OpenedVerb::NotFound);
    let first = opened(&*book, &one.key, Verb::Cancel).await;
    let second = opened(&*book, &two.key, MOVE(30)).await;
    assert!(second.number > first.number);
    assert_eq!((first.generation, row(&*book, &one.key).await.open_verb), (1, Some(first.number)));

    let open = book.open_verbs(minutes(1), 10).await.expect("the book answers");
    assert_eq!(open.iter().map(|o| (&o.verb, &o.key)).collect::<Vec<_>>(), [(&first, &one.key), (&second, &two.key)]);
    assert_eq!(book.open_verbs(now(), 10).await.expect("the book answers"), [], "open for long enough only");
    let trail = book.audit_list(None, 10).await.expect("the book answers").items;
    assert_eq!(trail.iter().map(|e| e.action.as_str()).collect::<Vec<_>>(), ["move", "cancel"]);
    assert_eq!((trail[1].object.as_str(), trail[1].actor.as_str(), trail[1].reason.as_str()), (one.key.as_str(), "alice", "asked by the customer"));

    let mut nameless = ask(&one.key, Verb::Cancel);
    nameless.reason = " ".to_owned();
    assert!(matches!(book.open_verb(nameless).await, Err(BookError::Invalid { field: "reason", .. })));
    let backwards = Verb::Move { release_at: minutes(9), deadline_at: minutes(9) };
    assert!(matches!(book.open_verb(ask(&one.key, backwards)).await, Err(BookError::Invalid { field: "deadline_at", .. })));
    assert!(matches!(book.close_verb(999, VerbEnd::InTheBook, now()).await, Err(BookError::NotFound)));
}

/// A planned job far ahead and never staged is changed in the book alone; any other is the ledger's.
pub async fn k5_a_verb_far_ahead_is_the_books_alone(bench: &dyn Bench) {
    let book = bench.empty().await;
    let (far, near) = (job("acme", 1), {
        let mut near = job("acme", 2);
        near.release_at = minutes(10);
        near
    });
    accepted(&*book, &far).await;
    accepted(&*book, &near).await;
    let moved = done(&*book, &far.key, MOVE(300)).await;
    assert_eq!((moved.job.release_at, moved.job.deadline_at, moved.state), (minutes(300), minutes(360), BookState::Planned));
    assert_eq!(row(&*book, &far.key).await.job.release_at, minutes(300));
    assert_eq!(done(&*book, &far.key, Verb::Suppress).await.state, BookState::Suppressed);
    let ended = row(&*book, &far.key).await;
    assert_eq!((ended.reason, ended.history.len()), (Some(Reason::Operator), 1));
    assert_eq!(done(&*book, &far.key, Verb::Suppress).await.state, BookState::Suppressed, "suppressed already");
    assert_eq!(book.open_verb(ask(&far.key, MOVE(300))).await.expect("the book answers"), OpenedVerb::Refused(BookState::Suppressed));

    let verb = opened(&*book, &near.key, Verb::Cancel).await;
    let early = book.close_verb(verb.number, VerbEnd::InTheBook, now()).await;
    assert!(matches!(early, Err(BookError::NotYet(_))), "a planned job is staged first");
    assert_eq!(row(&*book, &near.key).await.open_verb, Some(verb.number), "and the verb stays open");
    assert_eq!(book.open_verbs(minutes(1), 10).await.expect("the book answers").len(), 1, "what the book did alone is closed");
}

/// Who swapped closes a verb's row as applied, even over a refusal; settle does so too, even where it changes nothing else.
pub async fn k5_a_verb_is_closed_by_whoever_swapped_it(bench: &dyn Bench) {
    let book = bench.empty().await;
    let one = job("acme", 1);
    staged(&*book, &one).await;
    let moving = opened(&*book, &one.key, MOVE(90)).await;
    let mut moved = record(&one, 1, 4, State::Scheduled);
    (moved.release_at, moved.deadline_at, moved.verbs) = (minutes(90), minutes(150), vec![moving.number]);
    assert!(!book.close_verb(moving.number, VerbEnd::Refused(State::Handoff), now()).await.expect("the book answers"));
    assert!(book.close_verb(moving.number, VerbEnd::Applied(Box::new(moved.clone())), now()).await.expect("the book answers"));
    assert!(book.close_verb(moving.number, VerbEnd::Refused(State::Handoff), now()).await.expect("the book answers"), "it stands applied");
    let stands = row(&*book, &one.key).await;
    assert_eq!((stands.job.release_at, stands.seen, stands.state, stands.open_verb), (minutes(90), (1, 0, 4), BookState::Staged, None));

    // An ended record found with the verb applied: its version belongs to the story that settles it.
    let again = opened(&*book, &one.key, MOVE(95)).await;
    let mut sent = record(&one, 1, 8, State::Sent);
    (sent.release_at, sent.deadline_at, sent.verbs) = (minutes(95), minutes(155), vec![moving.number, again.number]);
    assert!(book.close_verb(again.number, VerbEnd::Applied(Box::new(sent.clone())), now()).await.expect("the book answers"));
    assert_eq!((row(&*book, &one.key).await.state, row(&*book, &one.key).await.seen), (BookState::Staged, (1, 0, 4)));
    assert_eq!(book.settle(vec![story(sent)], now()).await.expect("the book answers"), [Told::Written]);
    assert_eq!(row(&*book, &one.key).await.state, BookState::Sent);

    let two = job("acme", 2);
    staged(&*book, &two).await;
    let cancel = opened(&*book, &two.key, Verb::Cancel).await;
    let mut cancelled = record(&two, 1, 3, State::Cancelled);
    cancelled.verbs = vec![cancel.number];
    book.settle(vec![story(record(&two, 1, 9, State::Sent))], now()).await.expect("the book answers");
    assert_eq!(book.settle(vec![story(cancelled.clone())], now()).await.expect("the book answers"), [Told::Older]);
    assert_eq!(row(&*book, &two.key).await.open_verb, None, "closed, though nothing else changed");
    assert!(book.close_verb(cancel.number, VerbEnd::Applied(Box::new(cancelled)), now()).await.expect("the book answers"));
    assert_eq!(row(&*book, &two.key).await.state, BookState::Sent);
}

/// The book owns a recorded dead letter: cancel and suppress end it there, a move is refused.
pub async fn k5_a_dead_letter_takes_verbs_in_the_book(bench: &dyn Bench) {
    let book = bench.empty().await;
    let jobs: Vec<_> = (1..4).map(|n| job("acme", n)).collect();
    for one in &jobs {
        staged(&*book, one).await;
    }
    let waiting = opened(&*book, &jobs[2].key, Verb::Cancel).await;
    let dead = |one| story(in_doubt(one, 1, 5, token(1)));
    book.settle(jobs.iter().map(dead).collect(), now()).await.expect("the book answers");
    assert_eq!(book.open_verb(ask(&jobs[0].key, MOVE(90))).await.expect("the book answers"), OpenedVerb::Refused(BookState::DeadLetter));
    assert_eq!(done(&*book, &jobs[0].key, Verb::Cancel).await.state, BookState::Cancelled);
    assert_eq!(done(&*book, &jobs[1].key, Verb::Suppress).await.state, BookState::Suppressed);
    assert!(book.close_verb(waiting.number, VerbEnd::InTheBook, now()).await.expect("the book answers"), "it found the record recorded");
    assert_eq!(row(&*book, &jobs[2].key).await.state, BookState::Cancelled);
    assert_eq!(book.settle(vec![story(record(&jobs[2], 1, 6, State::DeadLetter))], now()).await.expect("the book answers"), [Told::Older]);
    assert_eq!(book.settle(vec![story(record(&jobs[2], 1, 7, State::Sent))], now()).await.expect("the book answers"), [Told::Written]);
    assert_eq!(row(&*book, &jobs[2].key).await.state, BookState::Sent, "cancelled yields to sent");
}
