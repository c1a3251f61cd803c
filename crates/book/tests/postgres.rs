//! The book's promises on the PostgreSQL adapter, on a real server: a schema for each book.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use curfew_book::conformance::schedules::{self, ScheduleBench};
use curfew_book::conformance::{self, Bench, given};
use curfew_book::postgres::{MIGRATIONS, PostgresBook};
use curfew_book::{Accepted, Book, BookError, BookState, Planned, ScheduledBook, Told, WrittenBy};
use curfew_domain::job::Job;
use curfew_domain::{JobId, Key, Moment, State};
use curfew_store::{Postgres, PostgresOptions};
use curfew_testservers::postgres::{Options, Postgres as Server};
use futures::future::join_all;
use uuid::{NoContext, Timestamp, Uuid};

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::start(&Options::fast()));

struct Schemas;

async fn connect(url: &str) -> Postgres {
    Postgres::connect(url, PostgresOptions::default()).await.expect("the server answers")
}

async fn open(url: &str) -> PostgresBook {
    let store = connect(url).await;
    store.migrate(&MIGRATIONS).await.expect("it migrates");
    PostgresBook::open(store).await.expect("the book opens")
}

#[async_trait]
impl Bench for Schemas {
    async fn empty(&self) -> Arc<dyn Book> {
        Arc::new(open(&SERVER.schema()).await)
    }
}

#[async_trait]
impl ScheduleBench for Schemas {
    async fn scheduled(&self) -> Arc<dyn ScheduledBook> {
        Arc::new(open(&SERVER.schema()).await)
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
            conformance::schedules::$promise(&Schemas).await;
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
    conformance::stories_in_any_order_make_the_same_row(&Schemas, 1).await;
}

async fn tamper(book: &PostgresBook, sql: &'static str) {
    sqlx::raw_sql(sql).execute(book.store().pool()).await.expect("the server takes it");
}

async fn number(book: &PostgresBook, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(book.store().pool()).await.expect("it is counted")
}

/// S5, of schedules that can't be read.
#[tokio::test]
async fn a_schedule_that_cannot_be_read_stops_no_other() {
    let book = open(&SERVER.schema()).await;
    let spoil = async || tamper(&book, "UPDATE schedules SET definition = '\\xc1' WHERE name IN ('s2', 's3')").await;
    schedules::s5_one_that_cannot_be_read_stops_no_other(&book, spoil).await;
}

#[tokio::test]
async fn a_book_that_is_not_migrated_is_refused_by_name() {
    let store = connect(&SERVER.schema()).await;
    store.migrate(&MIGRATIONS[..2]).await.expect("it migrates");
    match PostgresBook::open(store).await {
        Err(BookError::Store(said)) => assert!(said.contains("book/0003_months") && !said.contains("0001"), "{said}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_audit_entry_that_was_changed_or_taken_out_is_found() {
    for (sql, found) in [("UPDATE audit SET reason = 'another' WHERE number = 3", 3), ("DELETE FROM audit WHERE number = 2", 2)] {
        let book = open(&SERVER.schema()).await;
        for _entry in 0..5 {
            book.audit(given::now(), "alice", "pause", "fleet", "maintenance", "{}").await.expect("the book answers");
        }
        tamper(&book, sql).await;
        assert_eq!(book.audit_verify().await.expect("the book answers"), Err(found));
    }
}

#[tokio::test]
async fn the_audit_trail_has_no_gap_however_many_write_it() {
    let book = open(&SERVER.schema()).await;
    let entries = (0..40).map(|_entry| book.audit(given::now(), "alice", "pause", "fleet", "maintenance", "{}"));
    for written in join_all(entries).await {
        written.expect("the book answers");
    }
    assert_eq!(book.audit_verify().await.expect("the book answers"), Ok(40));
}

#[tokio::test]
async fn a_row_that_the_door_never_logged_shows_in_the_days_difference() {
    let book = open(&SERVER.schema()).await;
    let (logged, unlogged) = (given::job("acme", 1), given::job("acme", 2));
    given::accepted(&book, &logged).await;
    given::accepted(&book, &unlogged).await;
    tamper(&book, "DELETE FROM door_log WHERE job = (SELECT max(id::text)::bytea FROM jobs); DELETE FROM jobs WHERE id = (SELECT min(id::text)::bytea FROM jobs)").await;
    let behind = book.day_differences(given::DATE, None, 10).await.expect("the book answers");
    assert_eq!(behind.iter().map(|(_, key, _)| key.clone()).collect::<Vec<_>>(), [None, Some(unlogged.key)]);
}

#[tokio::test]
async fn a_row_of_a_newer_format_is_left_alone_and_named_without_its_content() {
    let book = open(&SERVER.schema()).await;
    given::accepted(&book, &given::job("acme", 1)).await;
    tamper(&book, "UPDATE jobs SET facts = '\\x81a6666f726d617405'").await;
    match book.by_key(&given::job("acme", 1).key).await {
        Err(BookError::Unreadable(what)) => assert!(what.contains("newer"), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// A scheduler that can't read them gives its shard to one that can.
#[tokio::test]
async fn planning_tells_once_where_it_met_rows_of_a_newer_format() {
    let book = open(&SERVER.schema()).await;
    let job = given::job("acme", 1);
    given::accepted(&book, &job).await;
    given::accepted(&book, &given::job("acme", 2)).await;
    tamper(&book, "UPDATE jobs SET facts = '\\xc1' WHERE id = (SELECT id FROM jobs ORDER BY release_at, id LIMIT 1)").await;
    let met = async || {
        tamper(&book, "UPDATE jobs SET staging_until = 0").await;
        book.plan(&given::shards(), given::minutes(24 * 60), 10).await.expect("the book answers");
        book.met_newer().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(met().await, [], "what nobody can read is no reason");
    tamper(&book, "UPDATE jobs SET facts = '\\x81a6666f726d617405' WHERE id = (SELECT id FROM jobs ORDER BY release_at, id LIMIT 1)").await;
    assert_eq!(met().await, [job.shard]);
    assert!(book.met_newer().is_empty(), "it is told once");
}

/// One damaged row once kept every job of its batch from being staged, for as long as it stood first.
#[tokio::test]
async fn a_row_that_cannot_be_read_holds_up_no_other() {
    let book = open(&SERVER.schema()).await;
    for n in 1..=3 {
        given::accepted(&book, &given::job("acme", n)).await;
    }
    tamper(&book, "UPDATE jobs SET facts = '\\xc1' WHERE id = (SELECT id FROM jobs ORDER BY release_at, id LIMIT 1)").await;
    let until = given::minutes(24 * 60);
    assert_eq!(book.plan(&given::shards(), until, 2).await.expect("the book answers").len(), 1, "of the first two rows one can be read");
    assert_eq!(book.plan(&given::shards(), until, 2).await.expect("the book answers").len(), 2, "and then it stands in front no more");
    let jobs = [1, 2, 3].map(|n| given::job("acme", n));
    let recovered: &dyn Book = &book;
    let page = recovered.rows_of(jobs[0].shard, BookState::Planned, until, None, 1).await.expect("the book answers");
    assert_eq!(page.len(), 1, "a page is read past it");
    let rows = recovered.rows(&jobs.each_ref().map(|job| job.key.clone())).await.expect("the book answers");
    assert_eq!(rows.iter().flatten().count(), 2);
    // The auditor names it, and is kept from no other either.
    let named = async |state| {
        let left = recovered.unreadable_of(jobs[0].shard, state, until, 10).await.expect("the book answers");
        left.into_iter().map(|(key, by)| (Key::parse(&key).expect("a key"), by)).collect::<Vec<_>>()
    };
    let broken = named(BookState::Planned).await;
    assert!(matches!(broken.as_slice(), [(key, WrittenBy::Nobody)] if jobs.iter().any(|job| job.key == *key)), "{broken:?}");
    tamper(&book, "UPDATE jobs SET state = 1").await;
    assert_eq!(book.staged_after(None, 1).await.expect("the book answers").len(), 1, "a page is read past it");
    tamper(&book, "UPDATE jobs SET facts = '\\x81a6666f726d617405' WHERE facts = '\\xc1'").await;
    assert_eq!(named(BookState::Staged).await, [(broken[0].0.clone(), WrittenBy::Newer)]);
    assert_eq!(named(BookState::Planned).await, []);
    // A story that can't be read keeps its job from being settled, so it is named, too.
    tamper(&book, "INSERT INTO job_history (id, entries) SELECT id, '\\xc1' FROM jobs ON CONFLICT (id) DO UPDATE SET entries = EXCLUDED.entries")
        .await;
    assert_eq!(named(BookState::Staged).await.len(), 3);
}

fn keys(planned: &[Planned]) -> HashSet<String> {
    planned.iter().map(|p| p.row.job.key.as_str().to_owned()).collect()
}

#[tokio::test]
async fn schedulers_that_plan_at_once_read_different_rows() {
    let url = SERVER.schema();
    let books = join_all((0..3).map(|_scheduler| open(&url))).await;
    let jobs: Vec<Job> = (0..300).map(|n| given::job("acme", n)).collect();
    books[0].accept(jobs, &given::door()).await.expect("the book answers");
    let shards = given::shards();
    let plans = join_all(books.iter().map(|book| book.plan(&shards, given::minutes(600), 100))).await;
    let read: Vec<_> = plans.into_iter().map(|planned| keys(&planned.expect("the book answers"))).collect();
    assert_eq!(read.iter().map(HashSet::len).sum::<usize>(), read.iter().flatten().collect::<HashSet<_>>().len(), "no row twice");
    assert!(read.iter().any(|r| r.len() == 100));

    let mine = books[1].plan(&shards, given::minutes(600), 500).await.expect("the book answers");
    assert!(keys(&mine).is_superset(&read[1]), "one's own are given again");
    tamper(&books[0], "UPDATE jobs SET staging_until = staging_until + 3600000").await;
    let void = books[0].plan(&shards, given::minutes(600), 500).await.expect("the book answers");
    assert_eq!(void.len(), 300, "a clock that was set back keeps no row from being staged");
    tamper(&books[0], "UPDATE jobs SET staging_until = 0").await;
    let all = books[2].plan(&shards, given::minutes(600), 500).await.expect("the book answers");
    assert_eq!(all.len(), 300, "what a dead scheduler held is free after seconds");
    let marks: Vec<_> = all.iter().map(|p| given::mark(&p.row.job.key, 1)).collect();
    join_all(books.iter().map(|book| book.mark_staged(&marks))).await.into_iter().for_each(|marked| marked.expect("the book answers"));
    assert_eq!(books[0].day(given::DATE, None).await.expect("the book answers").staged, 300);
    assert_eq!(books.iter().map(|book| book.store().undone()).sum::<u64>(), 0, "marking in any order meets no deadlock");
}

#[tokio::test]
async fn settlers_of_overlapping_keys_never_deadlock() {
    let url = SERVER.schema();
    let book = open(&url).await;
    let jobs: Vec<Job> = (0..40).map(|n| given::job("acme", n)).collect();
    book.accept(jobs.clone(), &given::door()).await.expect("the book answers");
    let marks: Vec<_> = jobs.iter().map(|job| given::mark(&job.key, 1)).collect();
    book.mark_staged(&marks).await.expect("the book answers");
    let books = [book, open(&url).await];
    let settlers = (0..16_usize).map(|settler| {
        let (book, jobs) = (&books[settler % 2], &jobs);
        async move {
            for round in 0..6_usize {
                let step = [1, 3, 7, 9, 11, 13][(settler + round) % 6];
                let version = 2 + (settler * 6 + round) as u64;
                let batch = (0..25).map(|i| &jobs[(settler + i * step) % jobs.len()]);
                let state = if settler % 4 == 0 { State::DeadLetter } else { State::Cancelled };
                let told = book.settle(batch.map(|job| given::story(given::record(job, 1, version, state))).collect(), given::now()).await;
                assert_eq!(told.expect("the book answers").len(), 25);
            }
        }
    });
    join_all(settlers).await;
    assert_eq!(books.iter().map(|book| book.store().undone()).sum::<u64>(), 0, "rows are locked in the order of keys");
    let day = books[0].day(given::DATE, None).await.expect("the book answers");
    assert_eq!(day.cancelled + day.dead_letter, 40);
}

#[tokio::test]
async fn batches_that_share_keys_in_any_order_accept_each_once() {
    let url = SERVER.schema();
    let books = join_all((0..2).map(|_process| open(&url))).await;
    let door = given::door();
    let callers = (0..12_usize).map(|caller| {
        let mut batch: Vec<Job> = (0..100).map(|n| given::job("acme", n)).collect();
        batch.rotate_left(caller * 8);
        if caller % 2 == 0 {
            batch.reverse();
        }
        books[caller % 2].accept(batch, &door)
    });
    let answers: Vec<Accepted> = join_all(callers).await.into_iter().flat_map(|a| a.expect("the book answers")).collect();
    assert_eq!(answers.iter().filter(|a| matches!(a, Accepted::New(_))).count(), 100);
    assert_eq!(answers.iter().filter(|a| matches!(a, Accepted::Duplicate(_))).count(), 1100);
    assert_eq!(books.iter().map(|book| book.store().undone()).sum::<u64>(), 0, "keys are taken in their order");
}

/// K2 under kill -9: whatever was answered stands; what wasn't is a duplicate or new when it is repeated, and never half there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_is_there_after_the_server_was_killed() {
    let server = Arc::new(Server::start(&Options::default()));
    let book = open(&server.url()).await;
    let batch = |caller: u64, round: u64| -> Vec<Job> { (0..20).map(|n| given::job("acme", caller * 1_000_000 + round * 20 + n)).collect() };
    let (answered, mut count) = tokio::sync::mpsc::unbounded_channel();
    let callers: Vec<_> = (0..6)
        .map(|caller| {
            let (book, answered) = (book.clone(), answered.clone());
            tokio::spawn(async move {
                for round in 0.. {
                    match book.accept(batch(caller, round), &given::door()).await {
                        Ok(_answers) => answered.send((caller, round)).expect("somebody counts"),
                        Err(error) => {
                            assert!(matches!(error, BookError::Unavailable { .. }), "{error}");
                            return round;
                        }
                    }
                }
                unreachable!("it is killed")
            })
        })
        .collect();
    let mut kept = Vec::new();
    while kept.len() < 60 {
        kept.push(count.recv().await.expect("they accept"));
    }
    let killed = Arc::clone(&server);
    tokio::task::spawn_blocking(move || killed.kill9()).await.expect("it is killed");
    let broken: Vec<u64> = join_all(callers).await.into_iter().map(|round| round.expect("no caller panics")).collect();
    while let Ok(more) = count.try_recv() {
        kept.push(more);
    }
    let again = Arc::clone(&server);
    tokio::task::spawn_blocking(move || again.restart()).await.expect("it starts again");

    for (caller, round) in &kept {
        for answer in book.accept(batch(*caller, *round), &given::door()).await.expect("the book answers") {
            assert!(matches!(answer, Accepted::Duplicate(_)), "caller {caller}, round {round}: {answer:?}");
        }
    }
    for (caller, round) in broken.into_iter().enumerate() {
        let answers = book.accept(batch(caller as u64, round), &given::door()).await.expect("the book answers");
        let new = answers.iter().filter(|a| matches!(a, Accepted::New(_))).count();
        assert!(new == 0 || new == answers.len(), "a batch is there whole or not at all");
    }
    let keys = number(&book, "SELECT count(*) FROM job_keys").await;
    for table in ["SELECT count(*) FROM jobs", "SELECT count(*) FROM job_letters", "SELECT count(*) FROM door_log"] {
        assert_eq!(number(&book, table).await, keys, "{table}");
    }
}

fn job_of(at: &str, n: u64) -> Job {
    let at = Moment::parse(at).expect("well formed").as_millis().cast_unsigned();
    let id = JobId(Uuid::new_v7(Timestamp::from_unix(NoContext, at / 1000, u32::try_from(at % 1000).expect("below a thousand") * 1_000_000)));
    Job { id, ..given::job("acme", n) }
}

#[tokio::test]
async fn a_job_stands_in_the_month_of_its_id_and_in_the_rest_where_there_is_none() {
    let book = open(&SERVER.schema()).await;
    let at = |text| Moment::parse(text).expect("well formed");
    let early = job_of("2031-05-31T23:59:59.999Z", 1);
    given::accepted(&book, &early).await;
    assert_eq!(number(&book, "SELECT count(*) FROM jobs_rest").await, 1, "nothing is refused for want of a month");
    book.make_months(at("2031-04-10T00:00:00Z")).await.expect("the book answers");
    book.make_months(at("2031-04-10T00:00:00Z")).await.expect("repeating is free");
    for jobs in [job_of("2031-04-01T00:00:00.000Z", 2), job_of("2031-06-30T23:59:59.999Z", 3), job_of("2031-07-01T00:00:00.000Z", 4)] {
        given::accepted(&book, &jobs).await;
    }
    for (table, rows) in [
        ("SELECT count(*) FROM jobs_2031_04", 1),
        ("SELECT count(*) FROM jobs_2031_05", 1),
        ("SELECT count(*) FROM job_letters_2031_05", 1),
        ("SELECT count(*) FROM jobs_2031_06", 1),
        ("SELECT count(*) FROM jobs_rest", 1),
        ("SELECT count(*) FROM job_letters_rest", 1),
    ] {
        assert_eq!(number(&book, table).await, rows, "{table}");
    }
    let row = book.by_key(&early.key).await.expect("the book answers").expect("it moved");
    assert_eq!(row.job, early);
    assert!(matches!(book.accept(vec![early], &given::door()).await.expect("the book answers")[..], [Accepted::Duplicate(_)]));
    let ids: Vec<_> = book.list(&curfew_book::Filter { limit: 10, ..Default::default() }).await.expect("the book answers").items;
    assert!(ids.is_sorted_by(|a, b| a.row.job.id > b.row.job.id), "lists go over months, newest first");

    book.beat(1, at("2031-07-02T00:00:00Z")).await.expect("the book answers");
    assert_eq!(number(&book, "SELECT count(*) FROM jobs_2031_09").await, 0, "a beat makes the months ahead");
    assert_eq!(number(&book, "SELECT count(*) FROM jobs_rest").await, 0);
}

#[tokio::test]
async fn acceptance_goes_on_while_months_are_made() {
    let book = open(&SERVER.schema()).await;
    let at = Moment::parse("2032-01-10T00:00:00Z").expect("well formed");
    let accepts = async {
        for n in 0..30 {
            given::accepted(&book, &job_of("2032-02-10T00:00:00Z", n)).await;
        }
    };
    // It gives up rather than stand in the way of others: whoever makes them tries again.
    let made = async {
        let mut made = book.make_months(at).await;
        for _again in 0..10 {
            if !matches!(made, Err(BookError::Unavailable { .. })) {
                break;
            }
            made = book.make_months(at).await;
        }
        made
    };
    let (made, ()) = tokio::join!(made, accepts);
    made.expect("the book answers");
    assert_eq!(number(&book, "SELECT count(*) FROM jobs_2032_02").await, 30);
    let other = open(&SERVER.schema()).await;
    let both = join_all((0..4).map(|_process| other.make_months(at))).await;
    both.into_iter().for_each(|made| made.expect("of many one makes them"));
}

/// What a server that plans by old statistics, or with a generic plan, does to the statements of every tick.
#[tokio::test]
async fn the_statements_of_every_tick_walk_no_table() {
    let book = open(&SERVER.schema()).await;
    let jobs: Vec<Job> = (0..3_000).map(|n| given::job(&format!("tenant-{}", n % 7), n)).collect();
    for batch in jobs.chunks(500) {
        book.accept(batch.to_vec(), &given::door()).await.expect("the book answers");
    }
    book.make_months(Moment::parse("2026-07-10T00:00:00Z").expect("well formed")).await.expect("the book answers");
    for statistics in ["SELECT 1", "ANALYZE"] {
        tamper(&book, statistics).await;
        for (name, sql, arguments) in statements() {
            for generic in ["force_generic_plan", "force_custom_plan"] {
                let plan = explain(&book, &sql, arguments, generic).await;
                let walks: Vec<_> = plan.lines().filter(|line| line.contains("Seq Scan on job")).collect();
                assert_eq!(walks, [""; 0], "{name} ({generic}, {statistics}): {plan}");
            }
        }
    }
}

fn statements() -> Vec<(&'static str, String, &'static str)> {
    macro_rules! query {
        ($name:literal) => {
            include_str!(concat!("../src/postgres/queries/", $name, ".sql"))
        };
    }
    let select = |much: &str, which: &str| format!("{}{much}{which}", query!("columns"));
    vec![
        ("plan", query!("plan_claim").to_owned(), "1, ARRAY[0,1]::smallint[], 500, '\\x01', 5000"),
        ("next release", query!("next_release").to_owned(), ""),
        ("mark", query!("mark_staged").to_owned(), "ARRAY['acme/renewal/R-1/2026-12-01'], ARRAY[1]"),
        ("lock", query!("lock_keys").to_owned(), "ARRAY['acme/renewal/R-1/2026-12-01']"),
        ("read locked", select(query!("history"), query!("of_ids")), "ARRAY['\\x00'::bytea]"),
        ("read by key", select(query!("whole"), query!("of_keys")), "ARRAY['acme/renewal/R-1/2026-12-01']"),
        (
            "save",
            query!("save_rows").to_owned(),
            "ARRAY['\\x00'::bytea], ARRAY[1]::smallint[], ARRAY[1], ARRAY[1], ARRAY[0], ARRAY[1]::bigint[], ARRAY[true], ARRAY[0], ARRAY[0], \
             ARRAY[1]::bigint[], ARRAY[1]::bigint[], ARRAY['\\x00'::bytea]",
        ),
        ("staged after", select(query!("light"), query!("staged_after")), "'', 100"),
        ("ended otherwise", select(query!("light"), query!("list_ended")), "'\\xff', ARRAY[3]::smallint[], 51"),
        ("of a tenant", select(query!("light"), query!("list_of_tenant")), "'\\xff', ARRAY[3]::smallint[], 51, 'acme'"),
        ("of a recipient", select(query!("light"), query!("list_of_recipient")), "'\\xff', ARRAY[3]::smallint[], 51, 'ab', NULL"),
        ("open verbs", query!("open_verbs").to_owned(), "1, 100"),
    ]
}

/// A book of many months must not pay for each of them at each look-up.
#[tokio::test]
async fn a_look_up_reads_one_month_alone() {
    let book = open(&SERVER.schema()).await;
    book.make_months(Moment::parse("2026-08-10T00:00:00Z").expect("well formed")).await.expect("the book answers");
    let jobs: Vec<Job> = (0..400).map(|n| given::job("acme", n)).collect();
    book.accept(jobs.clone(), &given::door()).await.expect("the book answers");
    tamper(&book, "ANALYZE").await;
    let id = format!("ARRAY['\\x{}'::bytea]", jobs[7].id.0.simple());
    for (name, sql, _elsewhere) in statements() {
        let arguments = match name {
            "lock" | "read by key" => "ARRAY['acme/renewal/R-7/2026-12-01']",
            "read locked" => &id,
            "mark" => "ARRAY['acme/renewal/R-7/2026-12-01'], ARRAY[1]",
            _walks => continue,
        };
        let plan = explain_with("ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF", &book, &sql, arguments, "force_generic_plan").await;
        let read = |line: &&str| line.contains("Index Scan using jobs_") && line.contains("_pkey") && !line.contains("never executed");
        let months: HashSet<_> = plan.lines().filter(read).filter_map(|line| line.split(" on ").nth(1)?.split(' ').next()).collect();
        assert_eq!(months, HashSet::from(["jobs_2026_09"]), "{name}: {plan}");
    }
}

async fn explain(book: &PostgresBook, sql: &str, arguments: &str, plan: &str) -> String {
    explain_with("COSTS OFF", book, sql, arguments, plan).await
}

async fn explain_with(how: &str, book: &PostgresBook, sql: &str, arguments: &str, plan: &str) -> String {
    let mut conn = book.store().pool().acquire().await.expect("the pool has room");
    // A text of several statements is never prepared by the client: the names are this session's.
    let call = if arguments.is_empty() { String::new() } else { format!("({arguments})") };
    let prepare = format!("SET plan_cache_mode = {plan}; DEALLOCATE ALL; PREPARE asked AS {sql}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(prepare)).execute(&mut *conn).await.expect("it is prepared");
    let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(format!("EXPLAIN ({how}) EXECUTE asked{call}"))).fetch_all(&mut *conn).await;
    conn.close_on_drop();
    rows.expect("it is explained").iter().map(|row| sqlx::Row::get::<String, _>(row, 0)).collect::<Vec<_>>().join("\n")
}

/// PostgreSQL's text has no NUL; a mail server's words may.
#[tokio::test]
async fn words_with_a_nul_are_kept_all_the_same() {
    let book = open(&SERVER.schema()).await;
    let one = given::job("acme", 1);
    given::staged(&book, &one).await;
    let mut dead = given::record(&one, 1, 5, State::DeadLetter);
    dead.last.as_mut().expect("a dead letter has one").diagnostic = "550 \0 no".to_owned();
    assert_eq!(book.settle(vec![given::story(dead)], given::now()).await.expect("the book answers"), [Told::Written]);
    book.audit(given::now(), "al\0ice", "pause", "fleet", "why\0", "{}").await.expect("the book answers");
    let trail = book.audit_list(None, 1).await.expect("the book answers").items;
    assert_eq!((trail[0].actor.as_str(), book.audit_verify().await.expect("the book answers")), ("al\u{fffd}ice", Ok(1)));
}

#[tokio::test]
async fn repeating_a_settle_after_a_lost_answer_changes_nothing() {
    let book = open(&SERVER.schema()).await;
    let one = given::job("acme", 1);
    given::staged(&book, &one).await;
    let story = given::story(given::record(&one, 1, 5, State::Sent));
    let twice = join_all((0..8).map(|_settler| book.settle(vec![story.clone(), story.clone()], given::now()))).await;
    for told in twice {
        assert_eq!(told.expect("the book answers"), [Told::Written, Told::Written]);
    }
    let row = book.by_key(&one.key).await.expect("the book answers").expect("the row is there");
    assert_eq!((row.state, row.history.len()), (BookState::Sent, 5));
}
