//! The promises of book and review on the simulated store, under virtual time; and what it does under faults.
#![cfg(feature = "sim")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curfew_book::conformance::given::{accepted, ask, in_doubt, job, mark, minutes, now, record, shards, staged, story, token};
use curfew_book::sql::SqlBook;
use curfew_book::{Book, BookError, BookState, OpenedVerb, Told};
use curfew_domain::State;
use curfew_domain::verb::Verb;
use curfew_review::conformance::Pair;
use curfew_review::conformance::lives::{TookEffect, a_life, a_life_ends_the_same};
use curfew_review::sql::SqlReview;
use curfew_review::{ItemStatus, Replay, Review};
use curfew_store::{OpenOptions, Sqlite};
use curfew_testkit::sim::{Process, SimStore, SimStoreServer, StoreBugs, Weather, World};

/// Each pair on a server of its own.
struct Sim;

fn pair(store: Arc<SimStore>) -> Pair {
    Pair { book: Arc::clone(&store) as Arc<dyn Book>, review: store }
}

fn server(bugs: StoreBugs) -> Arc<SimStoreServer> {
    SimStoreServer::new(&World::new(7, false), bugs)
}

#[async_trait]
impl curfew_book::conformance::Bench for Sim {
    async fn empty(&self) -> Arc<dyn Book> {
        server(StoreBugs::default()).client(&Process::start("one"))
    }
}

#[async_trait]
impl curfew_review::conformance::Bench for Sim {
    async fn empty(&self) -> Pair {
        pair(server(StoreBugs::default()).client(&Process::start("one")))
    }
}

#[tokio::test(start_paused = true)]
async fn the_book_keeps_its_promises() {
    curfew_book::conformance::all(&Sim).await;
    for seed in [1, 2, 3] {
        curfew_book::conformance::stories_in_any_order_make_the_same_row(&Sim, seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn review_keeps_its_promises() {
    curfew_review::conformance::all(&Sim).await;
}

/// In real time, for a file's writer lives on threads.
#[tokio::test]
async fn random_lives_end_the_same_in_memory_and_on_a_file() {
    let mut took_effect = TookEffect::default();
    for seed in 100..125 {
        let folder = tempfile::tempdir().expect("a temporary folder is made");
        let store = Sqlite::open(OpenOptions::new(folder.path())).await.expect("the store opens");
        let book = Arc::new(SqlBook::open(store).await.expect("the book opens"));
        let review = SqlReview::open(Arc::clone(&book)).await.expect("review opens");
        let server = server(StoreBugs::default());
        server.service().weather().latency = (Duration::ZERO, Duration::ZERO);
        let simulated = pair(server.client(&Process::start("one")));
        a_life_ends_the_same(&Pair { book, review: Arc::new(review) }, &simulated, seed, &mut took_effect).await;
        assert_eq!(server.broken(), Vec::<String>::new(), "seed {seed}");
    }
    took_effect.check();
}

/// One seed's life under lost calls, lost answers, kills and fail-overs: what was broken, and what occurred.
async fn lived(seed: u64, bugs: StoreBugs) -> (Vec<String>, BTreeMap<String, u64>) {
    let world = World::new(seed, false);
    let server = SimStoreServer::new(&world, bugs);
    *server.service().weather() = Weather { lost_calls: 5.0, lost_answers: 10.0, ..Weather::default() };
    let simulated = pair(server.client(&Process::start("one")));
    let faults = || {
        if world.happens(4.0) {
            server.kill();
        }
        if world.happens(4.0) {
            server.roll_back(world.between(Duration::from_millis(1), Duration::from_secs(60)));
        }
    };
    a_life(&simulated, seed, faults).await;
    (server.broken(), world.counts())
}

#[tokio::test(start_paused = true)]
async fn no_life_breaks_a_rule_whatever_is_lost() {
    let mut counts = BTreeMap::<String, u64>::new();
    for seed in 0..400 {
        let (broken, occurred) = lived(seed, StoreBugs::default()).await;
        assert_eq!(broken, Vec::<String>::new(), "seed {seed}");
        for (what, count) in occurred {
            *counts.entry(what).or_default() += count;
        }
    }
    for what in ["answer lost: book", "book: it failed over", "book: told Older", "book: evidence Sent", "review: replayed over a doubt"] {
        assert!(counts.contains_key(what), "{what}: {counts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lives_in_which_items_are_upserted_break_rules() {
    let mut caught = 0;
    for seed in 0..100 {
        let (broken, _occurred) = lived(seed, StoreBugs { upserted_review_items: true }).await;
        caught += u32::from(!broken.is_empty());
    }
    assert!(caught > 10, "{caught} of 100");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_says_nothing_about_what_was_written() {
    let server = server(StoreBugs::default());
    let book = server.client(&Process::start("one"));
    server.service().weather().lost_answers = 100.0;
    let door = curfew_book::conformance::given::door();
    let lost = book.accept(vec![job("acme", 1)], &door).await;
    assert!(matches!(lost, Err(BookError::Unavailable { operation: "accept" })), "{lost:?}");
    assert_eq!((server.rows().len(), server.door_log().len()), (1, 1), "it was accepted");
    *server.service().weather() = Weather { lost_calls: 100.0, ..Weather::default() };
    assert!(matches!(book.accept(vec![job("acme", 2)], &door).await, Err(BookError::Unavailable { .. })));
    assert!(matches!(book.by_key(&job("acme", 1).key).await, Err(BookError::Unavailable { .. })));
    assert_eq!(server.rows().len(), 1, "and this one never came");
}

#[tokio::test(start_paused = true)]
async fn a_fail_over_takes_back_whole_commits_and_a_number_is_not_given_twice() {
    let server = server(StoreBugs::default());
    let book = server.client(&Process::start("one"));
    staged(&*book, &job("acme", 1)).await;
    let first = open(&book, 1).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = (server.rows(), server.verbs(), server.audit());
    staged(&*book, &job("acme", 2)).await;
    let second = open(&book, 2).await;
    assert_eq!(second, first + 1);
    assert_eq!(server.roll_back(Duration::from_secs(5)), 3, "an acceptance, a mark, a verb");
    assert_eq!((server.rows(), server.verbs(), server.audit()), before);
    assert_eq!(server.roll_back(Duration::from_secs(5)), 0, "they are lost once");
    staged(&*book, &job("acme", 3)).await;
    assert!(open(&book, 3).await > second, "the sequence goes on behind its gap");
    assert_eq!(server.broken(), Vec::<String>::new());
}

async fn open(book: &SimStore, n: u64) -> u64 {
    match book.open_verb(ask(&job("acme", n).key, Verb::Cancel)).await.expect("the book answers") {
        OpenedVerb::Open(verb, _row) => verb.number,
        OpenedVerb::Done(_) | OpenedVerb::Refused(_) | OpenedVerb::NotFound => panic!("it is the ledger's"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_server_forgets_only_what_did_not_wait_for_the_disk() {
    let server = server(StoreBugs::default());
    let book = server.client(&Process::start("one"));
    accepted(&*book, &job("acme", 1)).await;
    staged(&*book, &job("acme", 2)).await;
    assert_eq!(server.kill(), 1);
    assert_eq!(server.rows().iter().map(|row| row.state).collect::<Vec<_>>(), [BookState::Planned; 2], "the mark is lost, no acceptance is");
    book.mark_staged(&[mark(&job("acme", 2).key, 1)]).await.expect("the book answers");
    book.beat(1, now()).await.expect("the book answers");
    assert_eq!(server.kill(), 0, "a later commit takes the mark along to the disk");
    book.mark_staged(&[mark(&job("acme", 1).key, 1)]).await.expect("the book answers");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.kill(), 0, "or some time does");
}

#[tokio::test(start_paused = true)]
async fn two_schedulers_plan_different_rows_until_a_claim_is_over() {
    let server = server(StoreBugs::default());
    let (one, two) = (server.client(&Process::start("one")), server.client(&Process::start("two")));
    for n in 0..4 {
        accepted(&*one, &job("acme", n)).await;
    }
    let planned = async |book: &SimStore, limit| book.plan(&shards(), minutes(60), limit).await.expect("the book answers").len();
    assert_eq!((planned(&one, 3).await, planned(&two, 9).await, planned(&one, 9).await), (3, 1, 3));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(planned(&two, 9).await, 4);
}

#[tokio::test(start_paused = true)]
async fn the_clock_is_the_true_time_and_its_offset() {
    let server = server(StoreBugs::default());
    let book = server.client(&Process::start("one"));
    let first = book.clock().await.expect("the book answers").expect("it has one");
    server.set_clock_offset(-90_000);
    let second = book.clock().await.expect("the book answers").expect("it has one");
    assert!(first.since(second) > Duration::from_secs(89), "{first} {second}");
}

/// A dead letter recorded, then done with by a person, then told again by a second consumer that never heard the first one's answer.
async fn told_twice(bugs: StoreBugs, replayed: bool) -> (Told, Vec<ItemStatus>, Vec<String>) {
    let server = server(bugs);
    let store = server.client(&Process::start("one"));
    let (book, one) = (&*store, job("acme", 1));
    staged(book, &one).await;
    let dead = story(record(&one, 1, 5, State::DeadLetter));
    book.record(vec![dead.clone()], &Default::default(), minutes(63)).await.expect("the store answers");
    let item = server.items()[0].id;
    if replayed {
        let (actor, reason) = ("alice".to_owned(), "again".to_owned());
        let replay = Replay { item, deadline_at: minutes(200), actor, reason, accept_duplicate_risk: false, dry_run: false, at: minutes(100) };
        book.replay(replay).await.expect("nothing stands against it");
    } else {
        book.suppress(item, "alice", "no longer a customer", minutes(100)).await.expect("it is open");
    }
    assert_eq!(server.broken(), Vec::<String>::new());
    let told = book.record(vec![dead], &Default::default(), minutes(101)).await.expect("the store answers").remove(0);
    (told, server.items().iter().map(|item| item.status).collect(), server.broken())
}

#[tokio::test(start_paused = true)]
async fn an_upserted_item_takes_back_what_a_person_did_and_the_checker_sees_it() {
    let right = StoreBugs::default();
    assert_eq!(told_twice(right, true).await, (Told::Older, vec![ItemStatus::Replaying], vec![]));
    assert_eq!(told_twice(right, false).await, (Told::Written, vec![ItemStatus::Resolved], vec![]), "known at this very version");
    let planted = StoreBugs { upserted_review_items: true };
    for replayed in [true, false] {
        let (told, items, broken) = told_twice(planted, replayed).await;
        assert_eq!((told, items, broken.len()), (Told::Written, vec![ItemStatus::Open], if replayed { 1 } else { 2 }), "{broken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_the_same_ids_and_the_same_trace() {
    let lived = async || {
        let world = World::new(11, false);
        let server = SimStoreServer::new(&world, StoreBugs::default());
        let store = server.client(&Process::start("one"));
        let mut one = job("acme", 1);
        one.id = curfew_domain::JobId(world.uuid());
        staged(&*store, &one).await;
        store.record(vec![story(in_doubt(&one, 1, 5, token(1)))], &Default::default(), minutes(63)).await.expect("the store answers");
        (server.items()[0].id, world.trace())
    };
    assert_eq!(lived().await, lived().await);
}
