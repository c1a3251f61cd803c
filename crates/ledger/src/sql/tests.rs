//! The suite over SQLite, and what is this adapter's own.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use curfew_domain::limits::LEASE_MAX;
use curfew_store::OpenOptions;
use tempfile::TempDir;

use super::*;
use crate::conformance::{self, Bench};

struct Fresh {
    clock: Arc<AtomicI64>,
    open: Mutex<Open>,
}

struct Open {
    folder: TempDir,
    ledger: Arc<SqlLedger>,
}

fn clock(clock: &Arc<AtomicI64>) -> Options {
    let clock = Arc::clone(clock);
    Options { clock: Arc::new(move || Moment::from_millis(clock.load(Ordering::Relaxed))), ..Options::default() }
}

async fn open(folder: &Path, options: Options) -> Arc<SqlLedger> {
    let store = Sqlite::open(OpenOptions::new(folder)).await.expect("the folder is free");
    Arc::new(SqlLedger::open(store, options).await.expect("the tables are ours"))
}

impl Fresh {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let at = Arc::new(AtomicI64::new(1_796_112_000_000));
        let ledger = open(folder.path(), clock(&at)).await;
        Self { clock: at, open: Mutex::new(Open { folder, ledger }) }
    }

    fn sql(&self) -> Arc<SqlLedger> {
        Arc::clone(&self.open.lock().expect("no test panics in between").ledger)
    }
}

#[async_trait]
impl Bench for Fresh {
    fn ledger(&self) -> Arc<dyn Ledger> {
        self.sql()
    }

    async fn advance(&self, by: Duration) {
        self.clock.fetch_add(i64::try_from(by.as_millis()).expect("a test's time"), Ordering::Relaxed);
    }

    /// The files as they lie there at this moment, with the log that nobody copied: what a kill leaves.
    async fn kill_and_reopen(&self) {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        {
            let open = self.open.lock().expect("no test panics in between");
            for file in ["curfew.db", "curfew.db-wal"] {
                std::fs::copy(open.folder.path().join(file), folder.path().join(file)).expect("the files are there");
            }
        }
        let ledger = open(folder.path(), clock(&self.clock)).await;
        *self.open.lock().expect("no test panics in between") = Open { folder, ledger };
    }

    async fn lose_timer(&self, key: &Key) {
        let key = key.clone();
        let lose = "UPDATE ledger_records SET index_kind = NULL, timer_at = NULL, line_at = NULL WHERE key = ?1";
        write(&self.sql().store, move || sqlx::query(lose).bind(key.as_str().to_owned())).await;
    }
}

async fn write<Q>(store: &Sqlite, query: Q)
where
    Q: FnOnce() -> sqlx::query::Query<'static, sqlx::Sqlite, sqlx::sqlite::SqliteArguments> + Send + 'static,
{
    let written = store.write(Queue::Ledger, Durability::Process, move |conn| {
        Box::pin(async move { query().execute(conn).await.map(drop).map_err(StoreError::during("test")) })
    });
    written.await.expect("the store accepts it");
}

macro_rules! conforms {
    ($($promise:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $promise() {
            conformance::$promise(&Fresh::new().await).await;
        })+
    };
}

conforms!(
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

/// L8: the answer waits for the disk where one swap of the call asks for it (the store's S4 does the rest).
#[tokio::test]
async fn a_call_is_as_durable_as_its_most_demanding_swap() {
    let bench = Fresh::new().await;
    let record = conformance::due_record(&*bench.ledger(), "acme/a").await;
    let change = conformance::change(&*bench.ledger(), &record, &conformance::CLAIM).await;
    let swap = Swap::of(&record, change);
    assert_eq!(durability(&[swap.clone(), swap.clone()]), Durability::Process);
    assert_eq!(durability(&[swap.clone(), swap.on_disk()]), Durability::Disk);
}

#[tokio::test]
async fn a_take_over_ends_every_lease_and_makes_every_queued_job_overdue() {
    let bench = Fresh::new().await;
    let ledger = bench.ledger();
    let mut before = BTreeMap::new();
    for name in ["acme/scheduled", "acme/queued", "acme/claimed", "acme/handoff"] {
        before.insert(name, conformance::due_record(&*ledger, name).await);
    }
    conformance::moved(&*ledger, &before["acme/queued"], &conformance::RELEASE).await;
    conformance::moved(&*ledger, &before["acme/claimed"], &conformance::CLAIM).await;
    let claimed = conformance::moved(&*ledger, &before["acme/handoff"], &conformance::CLAIM).await;
    let handoff = conformance::moved(&*ledger, &claimed, &conformance::intent()).await;
    bench.kill_and_reopen().await;

    let ledger = bench.sql();
    let now = ledger.now().await.expect("the clock runs");
    assert!(ledger.leases_die_with_process());
    for ended in [2, 0] {
        assert_eq!(ledger.take_over(now).await.expect("the store accepts it"), ended);
    }
    let shard = before["acme/queued"].shard;
    let overdue = ledger.overdue(shard, Index::Watch, now, 10).await.expect("the store answers");
    let mut names: Vec<_> = overdue.iter().map(|entry| entry.record.key.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["acme/claimed", "acme/handoff", "acme/queued"]);
    let doubted = overdue.into_iter().find(|entry| entry.record.key == handoff.key).expect("it is overdue").record;
    assert_eq!((doubted.lease_until, doubted.token, doubted.version), (Some(now), handoff.token, handoff.version + 1));
    assert!(handoff.lease_until > Some(now) && handoff.lease_until <= Some(now.plus(LEASE_MAX)));
    assert_eq!(ledger.recount(shard).await.expect("the store answers"), 0);
}

/// Killed while its wake-up was on a rung, a job due in 20 s got one at the start, which was dropped as too early; the next came a claim
/// grace behind its moment, and a short deadline had passed by then.
#[tokio::test]
async fn a_take_over_looks_at_a_queued_job_that_is_not_due_when_it_is() {
    let bench = Fresh::new().await;
    let ledger = bench.ledger();
    let due = ledger.now().await.expect("the clock runs").plus(Duration::from_secs(20));
    let create = conformance::create_of(&*ledger, conformance::record("acme/ahead", 1, due)).await;
    let record = create.change.record.clone();
    assert_eq!(ledger.create(vec![create]).await.expect("the store answers"), [Created::Created]);
    conformance::moved(&*ledger, &record, &conformance::RELEASE).await;
    bench.kill_and_reopen().await;

    let ledger = bench.sql();
    let now = ledger.now().await.expect("the clock runs");
    ledger.take_over(now).await.expect("the store accepts it");
    let overdue = async |at| ledger.overdue(record.shard, Index::Watch, at, 10).await.expect("the store answers").len();
    assert_eq!((overdue(due.minus(Duration::from_millis(1))).await, overdue(due).await), (0, 1));
}

/// L5: a clock that is set back doesn't make an old read young.
#[tokio::test]
async fn a_create_after_a_read_that_lies_ahead_is_refused() {
    let bench = Fresh::new().await;
    let ledger = bench.sql();
    let now = ledger.now().await.expect("the clock runs");
    let create = conformance::create_of(&*ledger, conformance::record("acme/a", 1, now)).await;
    bench.clock.fetch_sub(60_001, Ordering::Relaxed);
    assert_eq!(ledger.create(vec![create]).await.expect("the store answers"), [Created::StaleRead]);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_the_counters_right() {
    let bench = Fresh::new().await;
    let ledger = bench.sql();
    let record = conformance::due_record(&*ledger, "acme/a").await;
    let swap = Swap::of(&record, conformance::change(&*ledger, &record, &conformance::RELEASE).await);
    let mut gone: std::pin::Pin<Box<dyn Future<Output = _> + Send>> = Box::pin({
        let ledger = Arc::clone(&ledger);
        async move { ledger.swap(swap).await }
    });
    // Polled once it is queued; dropped, its answer is lost.
    assert!(futures::poll!(&mut gone).is_pending());
    drop(gone);
    conformance::due_record(&*ledger, "acme/b").await;
    let counters = [Counter::State(State::Scheduled), Counter::State(State::Queued)];
    assert_eq!(ledger.counts(record.shard, &counters).await.expect("in memory"), [1, 1]);
    assert_eq!(ledger.recount(record.shard).await.expect("the store answers"), 0);
}

#[tokio::test]
async fn a_recount_mends_what_differs() {
    let bench = Fresh::new().await;
    let ledger = bench.sql();
    let record = conformance::due_record(&*ledger, "acme/a").await;
    write(&ledger.store, || sqlx::query("UPDATE ledger_records SET state = 'claimed'")).await;
    assert_eq!(ledger.recount(record.shard).await.expect("the store answers"), 3, "scheduled, claimed, and the tenant's in flight");
    assert_eq!(ledger.recount(record.shard).await.expect("the store answers"), 0);
    assert_eq!(ledger.counts(record.shard, &[Counter::TenantInFlight("acme".into())]).await.expect("in memory"), [1]);
}

#[tokio::test]
async fn every_reader_of_an_index_uses_it() {
    let bench = Fresh::new().await;
    let ledger = bench.sql();
    for (sql, wanted) in [
        (include_str!("queries/overdue.sql"), "ledger_timers (shard=? AND index_kind=?"),
        (include_str!("queries/lines.sql"), "ledger_lines (shard=? AND tenant=? AND line_at"),
        (include_str!("queries/lines.sql"), "ledger_lines (shard=? AND tenant>?)"),
        (include_str!("queries/agenda.sql"), "ledger_lines (shard=? AND tenant=? AND line_at"),
        (include_str!("queries/expire.sql"), "ledger_expiry (expires_at"),
        (include_str!("queries/update_records.sql"), "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"),
        (include_str!("queries/read_rows.sql"), "(key=?)"),
        (include_str!("queries/walk.sql"), "(key>?)"),
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
        let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain).fetch_all(ledger.store.read()).await.expect("the statement is well formed");
        let plan: Vec<_> = plan.into_iter().map(|(_, _, _, step)| step).collect();
        assert!(plan.iter().any(|step| step.contains(wanted)), "{wanted} is not in {plan:#?}");
        // Under its name, or under the letters that the queries give it.
        let whole_table = |step: &String| {
            ["ledger_records", "r", "l"].iter().any(|name| *step == format!("SCAN {name}") || step.starts_with(&format!("SCAN {name} ")))
        };
        assert!(!plan.iter().any(whole_table), "{plan:#?}");
    }
}

#[tokio::test]
async fn a_call_of_any_size_is_answered_in_order() {
    let bench = Fresh::new().await;
    let ledger = bench.sql();
    let record = conformance::due_record(&*ledger, "acme/a").await;
    let now = ledger.now().await.expect("the clock runs");
    let mut creates = Vec::new();
    for n in 0..2 * OPERATIONS_MAX + 1 {
        let mut record = record.clone();
        record.key = Key::parse(&format!("acme/{n}")).expect("a key");
        // Every hundredth is so long that a handful of them fills a round.
        let letter_bytes = if n % 100 == 0 { OPERATIONS_BYTES_MAX / 3 } else { 100 };
        let letter = curfew_domain::sealed::Sealed::from_bytes(vec![1; letter_bytes]);
        creates.push(Create { change: curfew_domain::transition::created(record, now), letter, read_at: now });
    }
    creates.push(creates[7].clone());
    let answers = ledger.create(creates).await.expect("the store accepts it");
    let (last, others) = answers.split_last().expect("as many as asked");
    assert_eq!(others.len(), 2 * OPERATIONS_MAX + 1);
    assert!(others.iter().all(|answer| *answer == Created::Created));
    assert!(matches!(last, Created::Exists(found) if found.key.as_str() == "acme/7"));
    assert_eq!(ledger.recount(record.shard).await.expect("the store answers"), 0);
}
