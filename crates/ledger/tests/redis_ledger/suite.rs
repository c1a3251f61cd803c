//! The suite on a single server, where each death is a SIGKILL of the server under `appendfsync always`.

use curfew_ledger::conformance;

use super::bench::RedisBench;

/// Every promise, for `$run`.
macro_rules! promises {
    ($run:ident) => {
        $run!(
            l1_one_of_many_creates_a_key_and_the_others_get_what_stands_there,
            l1_a_batch_is_answered_in_order,
            l2_of_many_claims_one_succeeds,
            l2_a_repeated_swap_is_the_same_as_one,
            l2_a_swap_against_another_version_changes_nothing,
            l2_swaps_of_one_key_see_each_other_in_order,
            l3_a_record_that_owes_something_has_exactly_one_timer,
            l3_overdue_timers_come_in_order_and_move_on_for_their_version_alone,
            l3_a_lost_timer_is_put_back,
            l4_tombstones_expire_after_their_time_and_live_records_never,
            l5_a_create_writes_over_a_recorded_dead_letter_of_an_earlier_generation_alone,
            l5_a_create_after_a_stale_read_is_refused,
            l6_the_ledgers_own_clock_judges_the_window,
            l6_a_suppressed_recipient_is_not_claimed,
            l6_a_counter_is_never_taken_past_its_bound,
            l7_lines_are_served_round_robin_over_tenants,
            l7_a_job_stands_in_line_by_the_moment_of_its_release,
            l8_an_intent_and_a_verb_are_there_after_a_kill,
            the_agenda_misses_nothing_that_is_due,
            letter_and_history_stand_beside_the_record_as_long_as_they_are_needed,
            a_long_history_is_folded,
            counters_follow_the_records,
            the_oldest_due_is_the_one_nobody_claimed,
            a_walk_meets_every_record_once,
            a_hold_stands_until_it_is_lifted_or_over,
            permits_keep_to_their_rate,
            one_leads_a_shard,
            what_is_handed_back_is_free_at_once,
            deadlines_are_counted_whatever_the_state,
            the_last_heartbeat_is_kept,
            workers_are_heard_and_forgotten_after_an_hour,
        );
    };
}

macro_rules! each_on_its_own_server {
    ($($promise:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $promise() {
            conformance::$promise(&RedisBench::own().await).await;
        })+
    };
}

promises!(each_on_its_own_server);

/// Every promise in turn on servers that all share; a death there is the process's alone.
macro_rules! all_on_shared_servers {
    ($($promise:ident),+ $(,)?) => {
        /// Runs the whole suite.
        pub async fn whole_suite(url: &str, addrs: &[std::net::SocketAddr]) {
            $(
                println!("{}", stringify!($promise));
                conformance::$promise(&RedisBench::on(url.to_owned(), addrs.to_vec()).await).await;
            )+
        }
    };
}

promises!(all_on_shared_servers);
