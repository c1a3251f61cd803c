//! The promises of review on the SQLite adapter, on real files.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use curfew_book::sql::SqlBook;
use curfew_review::conformance::{self, Bench, Pair};
use curfew_review::sql::SqlReview;
use curfew_store::{OpenOptions, Sqlite};

/// Each pair in a folder of its own, gone with the bench.
#[derive(Default)]
struct Files(Mutex<Vec<tempfile::TempDir>>);

#[async_trait]
impl Bench for Files {
    async fn empty(&self) -> Pair {
        let folder = tempfile::tempdir().expect("a temporary folder is made");
        let store = Sqlite::open(OpenOptions::new(folder.path())).await.expect("the store opens");
        self.0.lock().expect("no bench panics here").push(folder);
        let book = Arc::new(SqlBook::open(store).await.expect("the book opens"));
        let review = SqlReview::open(Arc::clone(&book)).await.expect("review opens");
        Pair { book, review: Arc::new(review) }
    }
}

macro_rules! promises {
    ($($promise:ident),+ $(,)?) => {$(
        #[tokio::test]
        async fn $promise() {
            conformance::$promise(&Files::default()).await;
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
