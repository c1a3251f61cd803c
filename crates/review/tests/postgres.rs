//! The promises of review on the PostgreSQL adapter, on a real server: a schema for each pair.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use curfew_book::conformance::given::{in_doubt, job, minutes, record, staged, story, token};
use curfew_book::postgres::PostgresBook;
use curfew_domain::State;
use curfew_review::conformance::{self, Bench, Pair};
use curfew_review::postgres::PostgresReview;
use curfew_review::{ItemStatus, Quarantined, Replay};
use curfew_store::{Postgres, PostgresOptions};
use curfew_testservers::postgres::{Options, Postgres as Server};
use futures::future::join_all;

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::start(&Options::fast()));

async fn open(url: &str) -> (Postgres, Pair) {
    let store = Postgres::connect(url, PostgresOptions::default()).await.expect("the server answers");
    store.migrate(&curfew_review::postgres::all_migrations()).await.expect("it migrates");
    let book = Arc::new(PostgresBook::open(store.clone()).await.expect("the book opens"));
    let review = PostgresReview::open(Arc::clone(&book)).await.expect("review opens");
    (store, Pair { book, review: Arc::new(review) })
}

struct Schemas;

#[async_trait]
impl Bench for Schemas {
    async fn empty(&self) -> Pair {
        open(&SERVER.schema()).await.1
    }
}

macro_rules! promises {
    ($($promise:ident),+ $(,)?) => {$(
        #[tokio::test]
        async fn $promise() {
            conformance::$promise(&Schemas).await;
        }
    )+};
}

promises!(
    r1_a_dead_letter_is_recorded_once,
    r2_a_story_that_the_book_knows_better_changes_nothing,
    r3_a_replay_is_one_transaction,
    r3_of_two_replays_one_wins,
    r4_a_replay_has_an_operator_a_reason_and_a_deadline,
    r5_an_item_in_doubt_rests_and_needs_the_risk_accepted,
    r6_evidence_resolves_an_item_in_doubt,
    r7_no_list_shows_a_person,
    a_sent_of_the_earlier_generation_withdraws_a_planned_replay,
    a_replayed_job_that_dies_again_makes_a_new_item,
    what_ends_a_job_ends_its_item,
    a_correction_is_a_new_revision_of_the_same_key,
    actions_are_audited_and_end_items,
    the_lost_and_the_unreadable_are_kept_once,
);

/// Operators on one side, late verdicts on the other, in separate processes: one order of locks, so nobody waits for each other.
#[tokio::test]
async fn operators_and_stories_meet_on_one_item_without_a_deadlock() {
    let url = SERVER.schema();
    let pairs = [open(&url).await, open(&url).await];
    for n in 0..12 {
        let one = job("acme", n);
        staged(&*pairs[0].1.book, &one).await;
        let dead = story(in_doubt(&one, 1, 5, token(1)));
        pairs[0].1.review.record(vec![dead.clone()], &Default::default(), minutes(63)).await.expect("the store answers");
        let item = pairs[0].1.review.open_item_of(&one.key).await.expect("the store answers").expect("an open item");
        let replay = Replay {
            item: item.id,
            deadline_at: minutes(200),
            actor: "alice".to_owned(),
            reason: "the address is right".to_owned(),
            accept_duplicate_risk: true,
            dry_run: false,
            at: minutes(100),
        };
        let sent = story(record(&one, 1, 6, State::Sent));
        let (a, b) = (&pairs[0].1, &pairs[1].1);
        let (replayed, told, _suppressed, _noted) = tokio::join!(
            a.review.replay(replay),
            b.book.settle(vec![sent], minutes(101)),
            b.review.suppress(item.id, "bob", "no longer a customer", minutes(101)),
            a.review.note(item.id, "called", "carol", minutes(101)),
        );
        told.expect("the book answers");
        let status = a.review.show(item.id).await.expect("the store answers").expect("it is there").status;
        assert!(matches!(status, ItemStatus::Withdrawn | ItemStatus::Resolved), "job {n}, replayed {replayed:?}: {status:?}");
    }
    assert_eq!(pairs.iter().map(|(store, _)| store.undone()).sum::<u64>(), 0);
    assert!(pairs[0].1.book.audit_verify().await.expect("the book answers").is_ok());
}

#[tokio::test]
async fn consumers_that_meet_one_unreadable_message_make_one_item() {
    let url = SERVER.schema();
    let pairs = [open(&url).await.1, open(&url).await.1];
    let message = Quarantined {
        reason: curfew_domain::Reason::MalformedMessage,
        key: None,
        body: None,
        fingerprint: "f1".to_owned(),
        diagnostic: "no wake-up of ours".to_owned(),
        at: minutes(70),
    };
    let kept = join_all((0..10).map(|n| pairs[n % 2].review.quarantine(message.clone()))).await;
    let ids: std::collections::HashSet<_> = kept.into_iter().map(|id| id.expect("the store answers")).collect();
    assert_eq!(ids.len(), 1);
}
