//! One function per promise, for every adapter of the book.
//!
//! An adapter's test builds a [`Bench`] and calls [`all`], or each function by itself. A function asserts; it returns when its
//! promise held. Read `given.rs` for the jobs and records they use.

mod door;
mod figures;
pub mod given;
mod races;
mod recovery;
mod registry;
pub mod schedules;
mod stories;
mod verbs;

use std::sync::Arc;

use async_trait::async_trait;

pub use door::{
    k1_a_key_is_accepted_once, k1_a_suppressed_recipient_ends_at_the_door, k1_of_many_callers_one_is_new, k2_a_batch_is_accepted_row_by_row,
};
pub use figures::{
    k6_a_days_figures_are_counted_each_on_its_own, k7_the_audit_trail_is_a_chain, lists_go_page_by_page, small_tables_keep_what_they_are_given,
    the_clock_is_its_own_or_nobodys,
};
pub use races::{cancel_and_settle_agree_in_either_order, stories_in_any_order_make_the_same_row};
pub use recovery::{a_shards_rows_and_verbs_are_found, an_errand_of_an_earlier_incarnation_changes_nothing};
pub use registry::{
    r1_who_enrolled_is_found_for_48_h, r2_a_heartbeat_never_moves_back, r3_a_drain_reaches_all_that_run, r4_an_incarnation_is_raised_once,
    r5_a_report_counts_for_its_incarnation,
};
pub use stories::{
    evidence_is_weighed_where_no_record_stands, k3_an_older_story_changes_nothing, k3_sent_is_final,
    k4_an_earlier_sent_changes_nothing_once_the_newer_one_runs, planning_reads_what_is_due,
};
pub use verbs::{
    k5_a_dead_letter_takes_verbs_in_the_book, k5_a_verb_far_ahead_is_the_books_alone, k5_a_verb_is_a_row_first,
    k5_a_verb_is_closed_by_whoever_swapped_it,
};

use crate::Book;

/// Builds what a promise is tried on.
#[async_trait]
pub trait Bench: Send + Sync {
    /// An empty book of its own.
    async fn empty(&self) -> Arc<dyn Book>;
}

/// Every promise, one after the other.
pub async fn all(bench: &dyn Bench) {
    k1_a_key_is_accepted_once(bench).await;
    k1_of_many_callers_one_is_new(bench).await;
    k1_a_suppressed_recipient_ends_at_the_door(bench).await;
    k2_a_batch_is_accepted_row_by_row(bench).await;
    planning_reads_what_is_due(bench).await;
    k3_an_older_story_changes_nothing(bench).await;
    k3_sent_is_final(bench).await;
    k4_an_earlier_sent_changes_nothing_once_the_newer_one_runs(bench).await;
    evidence_is_weighed_where_no_record_stands(bench).await;
    k5_a_verb_is_a_row_first(bench).await;
    k5_a_verb_far_ahead_is_the_books_alone(bench).await;
    k5_a_verb_is_closed_by_whoever_swapped_it(bench).await;
    k5_a_dead_letter_takes_verbs_in_the_book(bench).await;
    k6_a_days_figures_are_counted_each_on_its_own(bench).await;
    k7_the_audit_trail_is_a_chain(bench).await;
    lists_go_page_by_page(bench).await;
    small_tables_keep_what_they_are_given(bench).await;
    r1_who_enrolled_is_found_for_48_h(bench).await;
    r2_a_heartbeat_never_moves_back(bench).await;
    r3_a_drain_reaches_all_that_run(bench).await;
    r4_an_incarnation_is_raised_once(bench).await;
    r5_a_report_counts_for_its_incarnation(bench).await;
    an_errand_of_an_earlier_incarnation_changes_nothing(bench).await;
    a_shards_rows_and_verbs_are_found(bench).await;
    cancel_and_settle_agree_in_either_order(bench).await;
    stories_in_any_order_make_the_same_row(bench, 7).await;
}
