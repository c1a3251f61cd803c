//! The book's promises on the SQLite adapter, on real files.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use curfew_book::conformance::schedules::{self, ScheduleBench};
use curfew_book::conformance::{self, Bench, given};
use curfew_book::sql::SqlBook;
use curfew_book::{Book, BookError, BookState, ScheduledBook, WrittenBy};
use curfew_domain::Key;
use curfew_store::{Durability, OpenOptions, Queue, Sqlite, StoreError};

/// Each book in a folder of its own, gone with the bench.
#[derive(Default)]
struct Files(Mutex<Vec<tempfile::TempDir>>);

async fn open(folder: &Path) -> SqlBook {
    let store = Sqlite::open(OpenOptions::new(folder)).await.expect("the store opens");
    SqlBook::open(store).await.expect("the book opens")
}

#[async_trait]
impl Bench for Files {
    async fn empty(&self) -> Arc<dyn Book> {
        let folder = tempfile::tempdir().expect("a temporary folder is made");
        let book = open(folder.path()).await;
        self.0.lock().expect("no bench panics here").push(folder);
        Arc::new(book)
    }
}

#[async_trait]
impl ScheduleBench for Files {
    async fn scheduled(&self) -> Arc<dyn ScheduledBook> {
        let folder = tempfile::tempdir().expect("a temporary folder is made");
        let book = open(folder.path()).await;
        self.0.lock().expect("no bench panics here").push(folder);
        Arc::new(book)
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
    k1_a_key_is_accepted_once,
    k1_of_many_callers_one_is_new,
    k1_a_suppressed_recipient_ends_at_the_door,
    k2_a_batch_is_accepted_row_by_row,
    planning_reads_what_is_due,
    k3_an_older_story_changes_nothing,
    k3_sent_is_final,
    k4_an_earlier_sent_changes_nothing_once_the_newer_one_runs,
    evidence_is_weighed_where_no_record_stands,
    k5_a_verb_is_a_row_first,
    k5_a_verb_far_ahead_is_the_books_alone,
    k5_a_verb_is_closed_by_whoever_swapped_it,
    k5_a_dead_letter_takes_verbs_in_the_book,
    k6_a_days_figures_are_counted_each_on_its_own,
    k7_the_audit_trail_is_a_chain,
    lists_go_page_by_page,
    the_clock_is_its_own_or_nobodys,
    small_tables_keep_what_they_are_given,
    r1_who_enrolled_is_found_for_48_h,
    r2_a_heartbeat_never_moves_back,
    r3_a_drain_reaches_all_that_run,
    r4_an_incarnation_is_raised_once,
    r5_a_report_counts_for_its_incarnation,
    an_errand_of_an_earlier_incarnation_changes_nothing,
    a_shards_rows_and_verbs_are_found,
    cancel_and_settle_agree_in_either_order,
);

macro_rules! schedule_promises {
    ($($promise:ident),+ $(,)?) => {$(
        #[tokio::test]
        async fn $promise() {
            conformance::schedules::$promise(&Files::default()).await;
        }
    )+};
}

schedule_promises!(
    s1_of_two_edits_one_wins,
    s2_a_slot_is_made_once,
    s2_a_date_has_no_second_job,
    s3_an_outdated_batch_writes_nothing,
    s4_an_edit_replaces_what_is_not_yet_staged,
    s4_a_pause_takes_back_and_a_resume_does_not_backfill,
    s4_a_job_with_an_open_verb_is_left,
    s5_a_schedule_in_trouble_stops_no_other,
    s6_a_board_shows_what_became_of_each_slot,
);

#[tokio::test]
async fn stories_in_any_order_make_the_same_row() {
    for seed in [1, 2, 3] {
        conformance::stories_in_any_order_make_the_same_row(&Files::default(), seed).await;
    }
}

#[tokio::test]
async fn what_was_accepted_is_there_after_the_store_is_opened_again() {
    let folder = tempfile::tempdir().expect("a temporary folder is made");
    let first = open(folder.path()).await;
    given::staged(&first, &given::job("acme", 1)).await;
    let before = first.by_key(&given::job("acme", 1).key).await.expect("the book answers");
    first.store().close().await.expect("the store closes");
    let second = open(folder.path()).await;
    assert_eq!(second.by_key(&given::job("acme", 1).key).await.expect("the book answers"), before);
}

async fn tamper(book: &SqlBook, sql: &'static str) {
    let tampering = book.store().write(Queue::Ledger, Durability::Process, move |conn| {
        Box::pin(async move { sqlx::raw_sql(sql).execute(conn).await.map(drop).map_err(StoreError::during("tamper")) })
    });
    tampering.await.expect("the store takes it");
}

#[tokio::test]
async fn an_audit_entry_that_was_changed_or_taken_out_is_found() {
    for (sql, found) in [("UPDATE audit SET reason = 'another' WHERE number = 3", 3), ("DELETE FROM audit WHERE number = 2", 2)] {
        let folder = tempfile::tempdir().expect("a temporary folder is made");
        let book = open(folder.path()).await;
        for _entry in 0..5 {
            book.audit(given::now(), "alice", "pause", "fleet", "maintenance", "{}").await.expect("the book answers");
        }
        tamper(&book, sql).await;
        assert_eq!(book.audit_verify().await.expect("the book answers"), Err(found));
    }
}

#[tokio::test]
async fn a_row_that_the_door_never_logged_shows_in_the_days_difference() {
    let folder = tempfile::tempdir().expect("a temporary folder is made");
    let book = open(folder.path()).await;
    let (logged, unlogged) = (given::job("acme", 1), given::job("acme", 2));
    given::accepted(&book, &logged).await;
    given::accepted(&book, &unlogged).await;
    tamper(&book, "DELETE FROM door_log WHERE job = (SELECT max(id) FROM jobs); DELETE FROM jobs WHERE n = 1").await;
    let behind = book.day_differences(given::DATE, None, 10).await.expect("the book answers");
    assert_eq!(behind.iter().map(|(_, key, _)| key.clone()).collect::<Vec<_>>(), [None, Some(unlogged.key)]);
}

#[tokio::test]
async fn a_row_of_a_newer_format_is_left_alone_and_named_without_its_content() {
    let folder = tempfile::tempdir().expect("a temporary folder is made");
    let book = open(folder.path()).await;
    given::accepted(&book, &given::job("acme", 1)).await;
    tamper(&book, "UPDATE jobs SET facts = x'81a6666f726d617405'").await;
    match book.by_key(&given::job("acme", 1).key).await {
        Err(BookError::Unreadable(what)) => assert!(what.contains("newer"), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// One damaged row once kept every job of its batch from being staged, for as long as it stood first.
#[tokio::test]
async fn a_row_that_cannot_be_read_holds_up_no_other() {
    let folder = tempfile::tempdir().expect("a temporary folder is made");
    let book = open(folder.path()).await;
    for n in 1..=3 {
        given::accepted(&book, &given::job("acme", n)).await;
    }
    tamper(&book, "UPDATE jobs SET facts = x'c1' WHERE n = (SELECT n FROM jobs ORDER BY release_at, n LIMIT 1)").await;
    let planned = book.plan(&given::shards(), given::minutes(24 * 60), 2).await.expect("the book answers");
    assert_eq!(planned.len(), 2, "it stands in front of no others");
    let jobs = [1, 2, 3].map(|n| given::job("acme", n));
    let recovered: &dyn Book = &book;
    let page = recovered.rows_of(jobs[0].shard, BookState::Planned, given::minutes(24 * 60), None, 1).await.expect("the book answers");
    assert_eq!(page.len(), 1, "a page is read past it");
    let rows = recovered.rows(&jobs.each_ref().map(|job| job.key.clone())).await.expect("the book answers");
    assert_eq!(rows.iter().flatten().count(), 2);
    let until = given::minutes(24 * 60);
    // The auditor names it, and is kept from no other either.
    let named = async |state| {
        let left = recovered.unreadable_of(jobs[0].shard, state, until, 10).await.expect("the book answers");
        left.into_iter().map(|(key, by)| (Key::parse(&key).expect("a key"), by)).collect::<Vec<_>>()
    };
    let broken = named(BookState::Planned).await;
    assert!(matches!(broken.as_slice(), [(key, WrittenBy::Nobody)] if jobs.iter().any(|job| job.key == *key)), "{broken:?}");
    tamper(&book, "UPDATE jobs SET state = 1").await;
    assert_eq!(book.staged_after(None, 1).await.expect("the book answers").len(), 1, "a page is read past it");
    tamper(&book, "UPDATE jobs SET facts = x'81a6666f726d617405' WHERE facts = x'c1'").await;
    assert_eq!(named(BookState::Staged).await, [(broken[0].0.clone(), WrittenBy::Newer)]);
    assert_eq!(named(BookState::Planned).await, []);
    // A story that can't be read keeps its job from being settled, so it is named, too.
    tamper(&book, "INSERT OR REPLACE INTO job_history (n, entries) SELECT n, x'c1' FROM jobs").await;
    assert_eq!(named(BookState::Staged).await.len(), 3);
}

/// S5, of schedules that can't be read.
#[tokio::test]
async fn a_schedule_that_cannot_be_read_stops_no_other() {
    let folder = tempfile::tempdir().expect("a temporary folder is made");
    let book = open(folder.path()).await;
    let spoil = async || tamper(&book, "UPDATE schedules SET definition = x'c1' WHERE name IN ('s2', 's3')").await;
    schedules::s5_one_that_cannot_be_read_stops_no_other(&book, spoil).await;
}

/// With 100,000 jobs far ahead a walk over them would cost tens of milliseconds at each tick.
#[tokio::test]
async fn planning_marking_and_saving_walk_no_table() {
    let folder = tempfile::tempdir().expect("a temporary folder is made");
    let book = open(folder.path()).await;
    let select = |much: &str, which: &str| format!("{}{much}{which}", include_str!("../src/sql/queries/columns.sql"));
    let save = format!(
        "{}(?,?,?,?,?,?,?,?,?,?,?,?),(?,?,?,?,?,?,?,?,?,?,?,?){}",
        include_str!("../src/sql/queries/save_rows.sql"),
        include_str!("../src/sql/queries/save_rows_end.sql")
    );
    let whole = include_str!("../src/sql/queries/whole.sql");
    for (sql, by) in [
        (include_str!("../src/sql/queries/next_release.sql").to_owned(), "j USING COVERING INDEX jobs_planned"),
        (include_str!("../src/sql/queries/mark_staged.sql").to_owned(), "SEARCH jobs USING INTEGER PRIMARY KEY"),
        (save, "SEARCH jobs USING INTEGER PRIMARY KEY"),
        (select(whole, include_str!("../src/sql/queries/planned.sql")), "j USING INDEX jobs_planned"),
        (select(whole, include_str!("../src/sql/queries/of_keys.sql")), "SEARCH j USING INTEGER PRIMARY KEY"),
        (select(whole, include_str!("../src/sql/queries/staged_after.sql")), "SEARCH j USING INDEX jobs_staged"),
        (select(whole, include_str!("../src/sql/queries/list_ended.sql")), "SEARCH j USING INDEX jobs_ended_otherwise"),
        (select(whole, include_str!("../src/sql/queries/list_of_tenant.sql")), "SEARCH j USING INDEX jobs_by_tenant"),
        (select(whole, include_str!("../src/sql/queries/list_of_recipient.sql")), "SEARCH j USING INDEX jobs_by_recipient"),
        (include_str!("../src/sql/queries/day.sql").to_owned(), "USING COVERING INDEX jobs_by_day"),
        (include_str!("../src/sql/queries/open_verbs.sql").to_owned(), "USING INDEX verbs_open"),
    ] {
        let explain = sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
        let plan: Vec<(i64, i64, i64, String)> = explain.fetch_all(book.store().read()).await.expect("it is explained");
        assert!(plan.iter().any(|step| step.3.contains(by)), "{by}: {plan:?}");
        assert!(!plan.iter().any(|step| step.3.trim() == "SCAN j" || step.3.trim() == "SCAN jobs"), "{by}: {plan:?}");
    }
}
