//! One function per promise, for every adapter of the review store.
//!
//! An adapter's test builds a [`Bench`] and calls [`all`], or each function by itself. Jobs and stories are the book's
//! (`curfew_book::conformance::given`).

mod actions;
mod dead_letters;
pub mod lives;
mod replays;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use curfew_book::conformance::given::{minutes, staged, story};
use curfew_book::{Book, Row};
use curfew_domain::job::Job;
use curfew_domain::{Moment, Record};
use uuid::Uuid;

pub use actions::{a_correction_is_a_new_revision_of_the_same_key, actions_are_audited_and_end_items, the_lost_and_the_unreadable_are_kept_once};
pub use dead_letters::{
    r1_a_dead_letter_is_recorded_once, r2_a_story_that_the_book_knows_better_changes_nothing, r6_evidence_resolves_an_item_in_doubt,
    r7_no_list_shows_a_person, what_ends_a_job_ends_its_item,
};
pub use replays::{
    a_replayed_job_that_dies_again_makes_a_new_item, a_sent_of_the_earlier_generation_withdraws_a_planned_replay, r3_a_replay_is_one_transaction,
    r3_of_two_replays_one_wins, r4_a_replay_has_an_operator_a_reason_and_a_deadline, r5_an_item_in_doubt_rests_and_needs_the_risk_accepted,
};

use crate::{Item, Replay, Review};

/// Builds what a promise is tried on.
#[async_trait]
pub trait Bench: Send + Sync {
    /// An empty review store, and the book beside it.
    async fn empty(&self) -> Pair;
}

/// A review store and its book.
#[derive(Clone)]
pub struct Pair {
    /// The book.
    pub book: Arc<dyn Book>,
    /// The review store.
    pub review: Arc<dyn Review>,
}

/// Every promise, one after the other.
pub async fn all(bench: &dyn Bench) {
    r1_a_dead_letter_is_recorded_once(bench).await;
    r2_a_story_that_the_book_knows_better_changes_nothing(bench).await;
    r3_a_replay_is_one_transaction(bench).await;
    r3_of_two_replays_one_wins(bench).await;
    r4_a_replay_has_an_operator_a_reason_and_a_deadline(bench).await;
    r5_an_item_in_doubt_rests_and_needs_the_risk_accepted(bench).await;
    r6_evidence_resolves_an_item_in_doubt(bench).await;
    r7_no_list_shows_a_person(bench).await;
    a_sent_of_the_earlier_generation_withdraws_a_planned_replay(bench).await;
    a_replayed_job_that_dies_again_makes_a_new_item(bench).await;
    what_ends_a_job_ends_its_item(bench).await;
    a_correction_is_a_new_revision_of_the_same_key(bench).await;
    actions_are_audited_and_end_items(bench).await;
    the_lost_and_the_unreadable_are_kept_once(bench).await;
}

impl Pair {
    /// Records a dead letter of a job that was staged; its open item.
    async fn dead(&self, job: &Job, record: Record) -> Item {
        staged(&*self.book, job).await;
        self.record(record).await;
        self.open_item(job).await.expect("an open item")
    }

    async fn record(&self, record: Record) -> curfew_book::Told {
        self.review.record(vec![story(record)], &owners(), minutes(63)).await.expect("the store answers").pop().expect("an answer for each")
    }

    async fn settle(&self, record: Record) -> curfew_book::Told {
        self.book.settle(vec![story(record)], minutes(64)).await.expect("the book answers").pop().expect("an answer for each")
    }

    async fn open_item(&self, job: &Job) -> Option<Item> {
        self.review.open_item_of(&job.key).await.expect("the store answers")
    }

    async fn item(&self, id: Uuid) -> Item {
        self.review.show(id).await.expect("the store answers").expect("the item is there")
    }

    async fn row(&self, job: &Job) -> Row {
        self.book.by_key(&job.key).await.expect("the book answers").expect("the row is there")
    }
}

fn owners() -> BTreeMap<String, String> {
    BTreeMap::from([("permanent_failure".to_owned(), "support".to_owned())])
}

/// A replay that nothing stands against, at minute 100.
fn again(item: Uuid) -> Replay {
    Replay {
        item,
        deadline_at: minutes(200),
        actor: "alice".to_owned(),
        reason: "the address is right".to_owned(),
        accept_duplicate_risk: false,
        dry_run: false,
        at: minutes(100),
    }
}

/// The same, with the risk of a duplicate accepted.
fn at_risk(item: Uuid, at: Moment) -> Replay {
    Replay { accept_duplicate_risk: true, at, ..again(item) }
}
