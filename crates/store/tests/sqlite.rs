//! The promises of the SQLite store, on real files.

use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curfew_store::{Atomicity, Durability, LEDGER_MERGED_MAX, Migration, OpenOptions, Queue, Remedy, Sqlite, StoreError};
use futures::poll;
use sqlx::{Row, SqliteConnection};
use tokio::sync::oneshot;

const NOTES: Migration = Migration { name: "test/0001_notes", sql: include_str!("notes.sql") };
const MORE: Migration = Migration { name: "test/0002_more", sql: "CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT;" };
const WRONG: Migration = Migration { name: "test/0003_wrong", sql: "CREATE TABLE half (id INTEGER) STRICT; CREATE TABLE more (id INTEGER) STRICT;" };

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder is made")
}

async fn open(folder: &Path) -> Sqlite {
    let store = Sqlite::open(OpenOptions::new(folder)).await.expect("the store opens");
    store.migrate(&[NOTES]).await.expect("the table is created");
    store
}

async fn insert(conn: &mut SqliteConnection, text: &str) -> Result<(), StoreError> {
    let query = sqlx::query("INSERT INTO notes (text) VALUES (?1)").bind(text.to_owned());
    query.execute(conn).await.map(drop).map_err(StoreError::during("insert a note"))
}

fn write(store: &Sqlite, queue: Queue, durability: Durability, text: &'static str) -> Answer<()> {
    let store = store.clone();
    Box::pin(async move { store.write(queue, durability, move |conn| Box::pin(insert(conn, text))).await })
}

async fn notes(store: &Sqlite) -> Vec<String> {
    sqlx::query_scalar("SELECT text FROM notes ORDER BY id").fetch_all(store.read()).await.expect("notes are read")
}

/// A request that holds the writer until it is told to go on.
struct Gate {
    answer: Answer<()>,
    begun: oneshot::Receiver<()>,
    open: oneshot::Sender<()>,
}

impl Gate {
    fn new(store: &Sqlite) -> Self {
        let (begin, begun) = oneshot::channel();
        let (open, opened) = oneshot::channel();
        let store = store.clone();
        let answer = Box::pin(async move {
            store
                .write(Queue::Ledger, Durability::Process, move |_| {
                    Box::pin(async move {
                        begin.send(()).expect("the test waits");
                        opened.await.map_err(|_| StoreError::Panicked)
                    })
                })
                .await
        });
        Self { answer, begun, open }
    }

    /// Returns when the writer stands in it: what is submitted from now on waits for the next round.
    async fn hold(store: &Sqlite) -> Self {
        let mut gate = Self::new(store);
        submitted(&mut gate.answer).await;
        (&mut gate.begun).await.expect("the gate is reached");
        gate
    }

    async fn release(self) {
        self.open.send(()).expect("the gate stands");
        self.answer.await.expect("the gate commits");
    }
}

/// Polls once: the request is queued.
async fn submitted<T>(answer: &mut Answer<T>) {
    assert!(poll!(answer).is_pending(), "no answer before the round");
}

#[tokio::test]
async fn a_second_process_is_refused_while_the_folder_is_locked_and_let_in_after() {
    let folder = temporary();
    let first = open(folder.path()).await;
    let refused = Sqlite::open(OpenOptions::new(folder.path())).await.expect_err("the folder is taken");
    assert_eq!(refused, StoreError::Locked { path: folder.path().join("curfew.lock") });
    assert_eq!(refused.remedy(), Remedy::Stop);

    first.close().await.expect("the store accepts it");
    let second = open(folder.path()).await;
    drop(second);
    let third = async {
        loop {
            match Sqlite::open(OpenOptions::new(folder.path())).await {
                Err(StoreError::Locked { .. }) => tokio::task::yield_now().await,
                other => break other,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), third).await.expect("a dropped store lets go").expect("the store accepts it");
}

#[tokio::test]
async fn folder_and_files_are_for_their_owner_alone() {
    let parent = temporary();
    let folder = parent.path().join("a/data");
    let store = open(&folder).await;
    write(&store, Queue::Ledger, Durability::Process, "x").await.expect("the store accepts it");
    let mode = |path: &Path| std::fs::metadata(path).expect("the folder can be used").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in ["curfew.lock", "curfew.db", "curfew.db-wal", "curfew.db-shm"] {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn callers_are_answered_after_the_commit_of_their_group() {
    let folder = temporary();
    let store = open(folder.path()).await;
    let first = Gate::hold(&store).await;
    let mut early = write(&store, Queue::Ledger, Durability::Process, "early");
    submitted(&mut early).await;
    let mut second = Gate::new(&store);
    submitted(&mut second.answer).await;
    first.release().await;
    (&mut second.begun).await.expect("the gate is reached");

    // "early" has run, in the same transaction as the second gate.
    assert!(poll!(&mut early).is_pending());
    assert_eq!(notes(&store).await, [""; 0]);
    second.release().await;
    early.await.expect("the store accepts it");
    assert_eq!(notes(&store).await, ["early"]);
}

#[tokio::test]
async fn a_request_that_fails_undoes_itself_alone() {
    let folder = temporary();
    let store = open(folder.path()).await;
    let gate = Gate::hold(&store).await;
    let fails = |how: fn() -> Result<(), StoreError>| -> Answer<()> {
        let store = store.clone();
        Box::pin(async move {
            store
                .write(Queue::Ledger, Durability::Process, move |conn| {
                    Box::pin(async move {
                        insert(conn, "undone").await?;
                        how()
                    })
                })
                .await
        })
    };
    let mut answers = [
        write(&store, Queue::Ledger, Durability::Process, "before"),
        fails(|| Err(StoreError::Constraint { operation: "test", constraint: "of the test".to_owned() })),
        fails(|| panic!("a request of the test panics")),
        write(&store, Queue::Ledger, Durability::Process, "before"),
        write(&store, Queue::Ledger, Durability::Process, "after"),
    ];
    for answer in &mut answers {
        submitted(answer).await;
    }
    gate.release().await;
    let [before, constraint, panics, unique, after] = futures::future::join_all(answers).await.try_into().expect("five answers");
    assert_eq!((before, after), (Ok(()), Ok(())));
    assert!(matches!(constraint, Err(StoreError::Constraint { .. })), "{constraint:?}");
    assert_eq!(panics, Err(StoreError::Panicked));
    let unique = unique.expect_err("the text is there already");
    assert_eq!(unique, StoreError::Constraint { operation: "insert a note", constraint: "UNIQUE constraint failed: notes.text".to_owned() });
    assert_eq!(notes(&store).await, ["before", "after"]);
}

#[tokio::test]
async fn a_full_disk_rolls_back_the_group_and_the_store_goes_on() {
    let folder = temporary();
    let store = open(folder.path()).await;
    let gate = Gate::hold(&store).await;
    let mut lost = write(&store, Queue::Ledger, Durability::Disk, "lost");
    submitted(&mut lost).await;
    let full = store.write(Queue::Ledger, Durability::Process, |conn| {
        Box::pin(async move {
            // A limit of the connection that stands for the disk's end.
            sqlx::raw_sql("PRAGMA max_page_count=10").execute(&mut *conn).await.map_err(StoreError::during("limit"))?;
            let fill = sqlx::query("INSERT INTO notes (text) VALUES (hex(randomblob(100000)))");
            fill.execute(conn).await.map(drop).map_err(StoreError::during("fill"))
        })
    });
    let opened = async {
        tokio::task::yield_now().await;
        gate.release().await;
    };
    let (full, ()) = tokio::join!(full, opened);
    assert_eq!(full, Err(StoreError::Full { operation: "fill" }));
    let lost = lost.await.expect_err("its group is lost");
    assert_eq!(lost, StoreError::Abandoned { because: Box::new(StoreError::Full { operation: "fill" }) });
    assert_eq!(lost.remedy(), Remedy::Retry);

    write(&store, Queue::Ledger, Durability::Disk, "again").await.expect("the store accepts it");
    assert_eq!(notes(&store).await, ["again"]);
}

#[tokio::test]
async fn a_transaction_that_a_request_ended_leaves_its_group_in_doubt_and_the_store_goes_on() {
    let folder = temporary();
    let store = open(folder.path()).await;
    let ends = store.write_with(Queue::Ledger, Durability::Process, Atomicity::SingleStatement, |conn| {
        Box::pin(async move { sqlx::raw_sql("ROLLBACK").execute(conn).await.map(drop).map_err(StoreError::during("end")) })
    });
    assert_eq!(ends.await.expect_err("nothing can be committed").remedy(), Remedy::InDoubt);
    write(&store, Queue::Ledger, Durability::Process, "again").await.expect("the store accepts it");
    assert_eq!(notes(&store).await, ["again"]);
}

#[tokio::test]
async fn a_store_that_cannot_reach_its_file_stops_and_keeps_the_folder_until_it_is_closed() {
    let folder = temporary();
    let store = open(folder.path()).await;
    std::fs::rename(folder.path().join("curfew.db"), folder.path().join("away.db")).expect("the folder can be used");
    // An abandoned group makes the writer open a new connection, and there is no file to open.
    let lost = store.write_with(Queue::Ledger, Durability::Process, Atomicity::SingleStatement, |_| panic!("a request of the test panics"));
    let lost: Result<(), _> = lost.await;
    assert_eq!(lost, Err(StoreError::Panicked));
    let refused = write(&store, Queue::Ledger, Durability::Process, "late").await.expect_err("the store has stopped");
    assert!(matches!(refused, StoreError::Io { operation: "reconnect", .. }), "{refused:?}");
    assert_eq!(store.stopped().await, refused, "whoever waits for it is told");
    assert_eq!(refused.remedy(), Remedy::Stop);
    assert!(matches!(Sqlite::open(OpenOptions::new(folder.path())).await, Err(StoreError::Locked { .. })));
    assert_eq!(store.close().await, Err(refused));
    Sqlite::open(OpenOptions::new(folder.path())).await.expect("the folder is free");
}

#[tokio::test]
async fn ledger_requests_run_before_bulk_and_a_round_takes_one_bulk_request() {
    let folder = temporary();
    let store = open(folder.path()).await;
    let gate = Gate::hold(&store).await;
    let mut answers = [
        write(&store, Queue::Bulk, Durability::Process, "bulk 1"),
        write(&store, Queue::Bulk, Durability::Process, "bulk 2"),
        write(&store, Queue::Ledger, Durability::Process, "ledger 1"),
        write(&store, Queue::Ledger, Durability::Process, "ledger 2"),
    ];
    for answer in &mut answers {
        submitted(answer).await;
    }
    gate.release().await;
    let [bulk_1, mut bulk_2, ledger_1, ledger_2] = answers;
    ledger_1.await.expect("the store accepts it");
    assert!(poll!(&mut bulk_2).is_pending(), "the second bulk request is in the next round");
    futures::future::try_join3(bulk_1, bulk_2, ledger_2).await.expect("the store accepts it");
    assert_eq!(notes(&store).await, ["ledger 1", "ledger 2", "bulk 1", "bulk 2"]);
}

fn level(store: &Sqlite, durability: Durability) -> Answer<i64> {
    let store = store.clone();
    Box::pin(async move {
        store
            .write(Queue::Ledger, durability, |conn| {
                Box::pin(async move {
                    // raw_sql: the pragma answers with what it was when it was prepared.
                    let row = sqlx::raw_sql("PRAGMA synchronous").fetch_one(conn).await.map_err(StoreError::during("level"))?;
                    Ok(row.get(0))
                })
            })
            .await
    })
}

#[tokio::test]
async fn one_disk_request_makes_its_whole_group_wait_for_the_disk() {
    const NORMAL: i64 = 1;
    const FULL: i64 = 2;
    let folder = temporary();
    let store = open(folder.path()).await;
    for _ in 0..3 {
        assert_eq!(level(&store, Durability::Process).await, Ok(NORMAL));
        assert_eq!(level(&store, Durability::Disk).await, Ok(FULL));
    }
    let gate = Gate::hold(&store).await;
    let mut answers = [level(&store, Durability::Process), level(&store, Durability::Disk)];
    for answer in &mut answers {
        submitted(answer).await;
    }
    gate.release().await;
    assert_eq!(futures::future::join_all(answers).await, [Ok(FULL), Ok(FULL)]);
}

#[tokio::test]
async fn a_merger_writes_what_waits_in_one_call_and_in_order() {
    let folder = temporary();
    let store = open(folder.path()).await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let merger = store.merger(Queue::Ledger, Atomicity::Savepoint, move |_, items: Vec<usize>| {
        let seen = Arc::clone(&seen);
        Box::pin(async move {
            seen.lock().expect("no test panics in between").push(items.len());
            if items == [7] {
                return Err(StoreError::Constraint { operation: "merge", constraint: "no seven".to_owned() });
            }
            Ok(items.iter().enumerate().map(|(place, item)| (place, *item)).collect())
        })
    });
    let gate = Gate::hold(&store).await;
    let count = LEDGER_MERGED_MAX + 3;
    let mut answers: Vec<Answer<(usize, usize)>> = Vec::new();
    for item in 0..count {
        let merger = merger.clone();
        let mut answer: Answer<_> = Box::pin(async move { merger.submit(item, Durability::Process).await });
        submitted(&mut answer).await;
        answers.push(answer);
    }
    gate.release().await;
    let outs = futures::future::try_join_all(answers).await.expect("the store accepts it");
    for (item, out) in outs.into_iter().enumerate() {
        assert_eq!(out, (item % LEDGER_MERGED_MAX, item));
    }
    assert_eq!(*calls.lock().expect("no test panics in between"), [LEDGER_MERGED_MAX, 3]);
    assert!(matches!(merger.submit(7, Durability::Disk).await, Err(StoreError::Constraint { .. })));
    assert_eq!(merger.submit(8, Durability::Disk).await, Ok((0, 8)));
}

#[tokio::test]
async fn a_merger_that_forgets_an_item_commits_none() {
    let folder = temporary();
    let store = open(folder.path()).await;
    let merger = store.merger(Queue::Bulk, Atomicity::Savepoint, |conn, items: Vec<&'static str>| {
        Box::pin(async move {
            insert(conn, items[0]).await?;
            Ok(Vec::<()>::new())
        })
    });
    assert_eq!(merger.submit("forgotten", Durability::Process).await, Err(StoreError::Panicked));
    assert_eq!(notes(&store).await, [""; 0]);
}

#[tokio::test]
async fn a_request_whose_caller_is_gone_commits_all_the_same() {
    let folder = temporary();
    let store = open(folder.path()).await;
    let gate = Gate::hold(&store).await;
    let mut gone = write(&store, Queue::Ledger, Durability::Process, "gone");
    submitted(&mut gone).await;
    drop(gone);
    gate.release().await;
    write(&store, Queue::Ledger, Durability::Process, "next").await.expect("the store accepts it");
    assert_eq!(notes(&store).await, ["gone", "next"]);
}

#[tokio::test]
async fn closing_finishes_what_is_queued_and_refuses_what_comes() {
    let folder = temporary();
    let store = open(folder.path()).await;
    let gate = Gate::hold(&store).await;
    let mut queued = write(&store, Queue::Bulk, Durability::Disk, "queued");
    submitted(&mut queued).await;
    let closing = store.clone();
    let mut closed: Answer<()> = Box::pin(async move { closing.close().await });
    submitted(&mut closed).await;
    assert_eq!(write(&store, Queue::Ledger, Durability::Disk, "late").await, Err(StoreError::Closed));
    gate.release().await;
    queued.await.expect("the store accepts it");
    closed.await.expect("the store accepts it");
    store.close().await.expect("the store accepts it");
    assert!(!folder.path().join("curfew.db-wal").exists(), "the log is copied and gone");

    let store = open(folder.path()).await;
    assert_eq!(notes(&store).await, ["queued"]);
}

#[test]
fn a_writer_whose_runtime_ends_leaves_no_caller_waiting() {
    let folder = temporary();
    let first = tokio::runtime::Runtime::new().expect("a runtime starts");
    let store = first.block_on(open(folder.path()));
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let merger = store.merger(Queue::Ledger, Atomicity::Savepoint, |_, items: Vec<u8>| Box::pin(async move { Ok(items) }));
    second.block_on(async {
        let _gate = Gate::hold(&store).await;
        let mut boxed = write(&store, Queue::Bulk, Durability::Disk, "left");
        submitted(&mut boxed).await;
        let items = merger.clone();
        let mut merged: Answer<u8> = Box::pin(async move { items.submit(1, Durability::Disk).await });
        submitted(&mut merged).await;
        first.shutdown_background();
        assert_eq!(boxed.await, Err(StoreError::Unanswered));
        assert_eq!(merged.await, Err(StoreError::Unanswered));
        assert_eq!(write(&store, Queue::Ledger, Durability::Disk, "late").await, Err(StoreError::Closed));
        assert_eq!(store.close().await, Err(StoreError::Unanswered));
    });
}

#[tokio::test]
async fn a_migration_is_applied_once_whole_and_as_released() {
    let folder = temporary();
    let store = Sqlite::open(OpenOptions::new(folder.path())).await.expect("the store accepts it");
    assert_eq!(store.pending(&[NOTES, MORE]).await.expect("the store accepts it"), [NOTES.name, MORE.name]);
    assert_eq!(store.migrate(&[NOTES]).await.expect("the store accepts it"), [NOTES.name]);
    assert_eq!(store.pending(&[NOTES, MORE]).await.expect("the store accepts it"), [MORE.name]);
    assert_eq!(store.migrate(&[NOTES, MORE]).await.expect("the store accepts it"), [MORE.name]);
    assert_eq!(store.migrate(&[NOTES, MORE]).await.expect("the store accepts it"), [""; 0]);

    let edited = Migration { sql: "CREATE TABLE other (id INTEGER) STRICT;", ..MORE };
    assert!(matches!(store.migrate(&[edited]).await, Err(StoreError::Migrate { .. })));
    assert!(matches!(store.pending(&[edited]).await, Err(StoreError::Migrate { .. })));

    let failed = store.migrate(&[WRONG]).await.expect_err("its second table is there already");
    assert!(failed.to_string().contains("table more already exists"), "{failed}");
    let half: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").fetch_one(store.read()).await.expect("the store accepts it");
    assert_eq!(half, 0, "a migration that fails leaves nothing");
    assert_eq!(store.pending(&[WRONG]).await.expect("the store accepts it"), [WRONG.name]);
}

#[tokio::test]
async fn a_backup_opens_and_holds_the_rows_and_never_overwrites() {
    let folder = temporary();
    let store = open(&folder.path().join("data")).await;
    write(&store, Queue::Ledger, Durability::Process, "kept").await.expect("the store accepts it");
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).expect("the folder can be used");
    let file = copy.join("curfew.db");
    store.backup(&file).await.expect("the store accepts it");
    assert_eq!(store.backup(&file).await, Err(StoreError::Exists { path: file.clone() }));
    assert_eq!(std::fs::metadata(&file).expect("the folder can be used").permissions().mode() & 0o777, 0o600);
    let names: Vec<_> =
        std::fs::read_dir(&copy).expect("the folder can be used").map(|entry| entry.expect("the folder can be used").file_name()).collect();
    assert_eq!(names, ["curfew.db"]);

    let restored = Sqlite::open(OpenOptions::new(&copy)).await.expect("the store accepts it");
    assert_eq!(restored.pending(&[NOTES]).await.expect("the store accepts it"), [""; 0]);
    assert_eq!(notes(&restored).await, ["kept"]);
}

#[tokio::test]
async fn readers_cannot_write() {
    let folder = temporary();
    let store = open(folder.path()).await;
    assert!(sqlx::query("INSERT INTO notes (text) VALUES ('x')").execute(store.read()).await.is_err());
}
