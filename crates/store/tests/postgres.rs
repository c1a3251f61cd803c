//! S8 to S10: the store on a real PostgreSQL.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use curfew_store::{Durability, DurabilityLevel, Migration, Postgres, PostgresOptions, Remedy, StoreError};
use curfew_testservers::postgres::{Options, Postgres as Server};
use futures::future::join_all;
use tokio::sync::Barrier;

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::start(&Options::fast()));

const NOTES: Migration = Migration { name: "test/0001_notes", sql: include_str!("notes_postgres.sql") };

async fn connect(url: &str, options: PostgresOptions) -> Postgres {
    Postgres::connect(url, options).await.expect("the server answers")
}

async fn count(store: &Postgres) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM notes").fetch_one(store.pool()).await.expect("it is counted")
}

async fn add(store: &Postgres, text: &'static str, durability: Durability) -> Result<(), StoreError> {
    store
        .write("add", durability, move |conn| {
            Box::pin(async move {
                let add = sqlx::query("INSERT INTO notes (text) VALUES ($1)").bind(text);
                add.execute(conn).await.map(drop).map_err(StoreError::asking("add"))
            })
        })
        .await
}

#[tokio::test]
async fn migrations_are_applied_once_by_one_process_at_a_time() {
    let url = SERVER.schema();
    let stores = join_all((0..6).map(|_process| connect(&url, PostgresOptions::default()))).await;
    assert_eq!(stores[0].pending(&[NOTES]).await.expect("it answers"), [NOTES.name]);
    let applied = join_all(stores.iter().map(|store| store.migrate(&[NOTES]))).await;
    let by: Vec<_> = applied.into_iter().map(|a| a.expect("it migrates")).filter(|a| !a.is_empty()).collect();
    assert_eq!(by, [[NOTES.name]]);
    assert_eq!(stores[0].pending(&[NOTES]).await.expect("it answers"), [""; 0]);
    let edited = Migration { sql: "SELECT 1", ..NOTES };
    assert!(matches!(stores[0].pending(&[edited]).await, Err(StoreError::Migrate { .. })));
    assert!(matches!(stores[0].migrate(&[edited]).await, Err(StoreError::Migrate { .. })));
    let wrong = Migration { name: "test/0002_wrong", sql: "CREATE TABLE half (); SELECT nothing" };
    assert!(matches!(stores[0].migrate(&[wrong]).await, Err(StoreError::Migrate { .. })));
    let half: Option<String> = sqlx::query_scalar("SELECT to_regclass('half')::text").fetch_one(stores[0].pool()).await.expect("it answers");
    assert_eq!(half, None, "a migration is applied whole or not at all");
}

/// A rehearsal's end: its schema goes whole, and no other can be meant.
#[tokio::test]
async fn a_schema_for_a_while_is_removed_whole_and_no_other_is_touched() {
    let fleets = connect(&SERVER.schema(), own()).await;
    fleets.migrate(&[NOTES]).await.expect("it migrates");
    assert!(matches!(fleets.drop_schema().await, Err(StoreError::Query { .. })), "no schema is named");
    let rehearsal = connect(&SERVER.url(), PostgresOptions { schema: Some("rehearsal_0a1b".to_owned()), ..own() }).await;
    rehearsal.create_schema().await.expect("it is made");
    assert!(rehearsal.create_schema().await.is_err(), "one that is there is nobody's to take");
    rehearsal.migrate(&[NOTES]).await.expect("it migrates");
    add(&rehearsal, "one", Durability::Disk).await.expect("it is added");
    for _repeated in 0..2 {
        rehearsal.drop_schema().await.expect("it is removed");
    }
    let schemas = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_namespace WHERE nspname = 'rehearsal_0a1b'");
    assert_eq!(schemas.fetch_one(fleets.pool()).await.expect("it is counted"), 0);
    assert_eq!(count(&fleets).await, 0, "the fleet's table is there");
}

#[tokio::test]
async fn a_schema_that_is_missing_is_made() {
    let options = PostgresOptions { schema: Some("The \"house\"".to_owned()), ..own() };
    let store = connect(&SERVER.url(), options).await;
    store.migrate(&[NOTES]).await.expect("it migrates");
    add(&store, "one", Durability::Disk).await.expect("it is added");
    assert_eq!(count(&store).await, 1);
}

fn own() -> PostgresOptions {
    PostgresOptions::default()
}

async fn notes(options: PostgresOptions) -> Postgres {
    let store = connect(&SERVER.schema(), options).await;
    store.migrate(&[NOTES]).await.expect("it migrates");
    store
}

#[tokio::test]
async fn a_transaction_is_written_whole_or_not_at_all() {
    let store = notes(own()).await;
    add(&store, "one", Durability::Disk).await.expect("it is added");
    add(&store, "two", Durability::Process).await.expect("it is added");
    let twice = store.write("add", Durability::Disk, |conn| {
        Box::pin(async move {
            for text in ["three", "one"] {
                let add = sqlx::query("INSERT INTO notes (text) VALUES ($1)").bind(text);
                add.execute(&mut *conn).await.map_err(StoreError::asking("add"))?;
            }
            Ok::<(), StoreError>(())
        })
    });
    let refused = twice.await.expect_err("the text is there");
    assert!(matches!(&refused, StoreError::Constraint { constraint, .. } if constraint == "notes_text_key"), "{refused}");
    assert_eq!(count(&store).await, 2);
}

#[tokio::test]
async fn what_the_server_undid_for_another_ones_sake_is_run_again() {
    let store = notes(own()).await;
    for text in ["a", "b"] {
        add(&store, text, Durability::Disk).await.expect("it is added");
    }
    // Two that lock the same two rows in opposite order, each with one in its hands: the server ends one of them.
    let both_hold_one = Arc::new(Barrier::new(2));
    let cross = |order: [&'static str; 2]| {
        let (store, both_hold_one, again) = (store.clone(), Arc::clone(&both_hold_one), Arc::new(AtomicBool::new(false)));
        async move {
            let crossed = store.write("cross", Durability::Disk, move |conn| {
                let (both_hold_one, again) = (Arc::clone(&both_hold_one), Arc::clone(&again));
                Box::pin(async move {
                    lock(conn, order[0]).await?;
                    if !again.swap(true, Ordering::Relaxed) {
                        both_hold_one.wait().await;
                    }
                    lock(conn, order[1]).await
                })
            });
            crossed.await.expect("it is run again");
        }
    };
    tokio::join!(cross(["a", "b"]), cross(["b", "a"]));
    assert_eq!(store.undone(), 1);
}

async fn lock(conn: &mut sqlx::PgConnection, text: &str) -> Result<(), StoreError> {
    let lock = sqlx::query("SELECT 1 FROM notes WHERE text = $1 FOR UPDATE").bind(text);
    lock.execute(conn).await.map(drop).map_err(StoreError::asking("cross"))
}

#[tokio::test]
async fn every_wait_has_a_bound() {
    let short = PostgresOptions { connections: 1, acquire_timeout: Duration::from_secs(3), answer_timeout: Duration::from_secs(1), ..own() };
    let store = notes(short).await;
    let slow = |seconds: &'static str| {
        store.write("dream", Durability::Disk, move |conn| {
            Box::pin(async move { sqlx::query(seconds).execute(conn).await.map(drop).map_err(StoreError::asking("dream")) })
        })
    };
    let late: StoreError = slow("SELECT pg_sleep(30)").await.expect_err("nobody waits that long");
    assert_eq!((late.clone(), late.remedy()), (StoreError::Lost { operation: "dream" }, Remedy::InDoubt));
    add(&store, "after", Durability::Disk).await.expect("the pool has room again");

    let strict = PostgresOptions { statement_timeout: Duration::from_millis(50), lock_timeout: Duration::from_millis(40), ..own() };
    let store = notes(strict).await;
    let long = store.all("dream", sqlx::query("SELECT pg_sleep(30)")).await.expect_err("the server gives up first");
    assert_eq!(long, StoreError::Busy { operation: "dream" });
    add(&store, "locked", Durability::Disk).await.expect("it is added");
    let mut holder = store.pool().begin().await.expect("the pool has room");
    sqlx::query("UPDATE notes SET text = 'held'").execute(&mut *holder).await.expect("it is there");
    let waits = store.write("wait", Durability::Disk, |conn| {
        Box::pin(async move { sqlx::query("DELETE FROM notes").execute(conn).await.map(drop).map_err(StoreError::asking("wait")) })
    });
    assert_eq!(waits.await, Err(StoreError::Busy { operation: "wait" }), "nobody waits for a row for ever");
}

/// A server whose standby is away answers a COMMIT whose wait is cancelled with success and a warning: no timeout of ours may cancel it.
#[tokio::test]
async fn a_commit_that_no_standby_has_is_never_answered_as_done() {
    let server = Server::start(&Options::default());
    let options = PostgresOptions { statement_timeout: Duration::from_millis(100), answer_timeout: Duration::from_millis(800), ..own() };
    let store = connect(&server.url(), options).await;
    store.migrate(&[NOTES]).await.expect("it migrates");
    server.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.run("SELECT pg_reload_conf()");
    let texts: Vec<&'static str> = (0..5_000).map(|n| &*format!("note {n}").leak()).collect();
    // The server takes its new settings a moment later; then no commit is answered any more.
    let mut in_doubt = 0;
    for text in texts {
        match add(&store, text, Durability::Disk).await {
            Ok(()) => in_doubt = 0,
            Err(error) => {
                assert_eq!(error.remedy(), Remedy::InDoubt, "{error}");
                in_doubt += 1;
            }
        }
        if in_doubt == 3 {
            break;
        }
    }
    assert_eq!(in_doubt, 3, "commits wait for the standby");
    let reached = store.durability().await.expect("it answers");
    assert_eq!(reached.level, DurabilityLevel::Replicated, "{}", reached.reason);
}

#[tokio::test]
async fn a_killed_server_is_in_doubt_and_found_again() {
    let server = Server::start(&Options::default());
    let store = connect(&server.url(), own()).await;
    store.migrate(&[NOTES]).await.expect("it migrates");
    add(&store, "before", Durability::Disk).await.expect("it is added");
    server.kill9();
    let lost = add(&store, "meanwhile", Durability::Disk).await.expect_err("nobody is there");
    assert_ne!(lost.remedy(), Remedy::Stop, "{lost}");
    server.restart();
    add(&store, "after", Durability::Disk).await.expect("found again");
    assert_eq!(count(&store).await, 2);
    let reached = store.durability().await.expect("it answers");
    assert_eq!(reached.level, DurabilityLevel::Fsync, "{}", reached.reason);
    server.stop();
    let refused = Postgres::connect(&server.url(), PostgresOptions { connect_timeout: Duration::from_millis(200), ..own() }).await;
    assert!(matches!(refused, Err(StoreError::Connect { .. })));
}

#[tokio::test]
async fn durability_is_what_the_server_is_set_to() {
    let store = connect(&SERVER.url(), own()).await;
    assert_eq!(store.durability().await.expect("it answers").level, DurabilityLevel::Process, "fsync is off");
    let url = format!("{}&options[synchronous_commit]=off", SERVER.url());
    assert_eq!(connect(&url, own()).await.durability().await.expect("it answers").level, DurabilityLevel::None);
}

#[tokio::test]
async fn no_error_shows_an_address_or_a_password() {
    let at_nobody =
        ["postgres://ann:secret@127.0.0.1:1/x", "postgres://ann:secret@[bad", "postgres://ann@127.0.0.1/x?passwort=secret", "mysql://secret"];
    for url in at_nobody {
        let refused = Postgres::connect(url, PostgresOptions { connect_timeout: Duration::from_millis(500), ..own() }).await;
        let told = format!("{:?}", refused.expect_err("nobody is there"));
        assert!(!told.contains("secret") && !told.contains("127.0.0.1"), "{told}");
    }
    let url = SERVER.url().replace("/postgres?", "/nowhere?");
    let told = Postgres::connect(&url, own()).await.expect_err("no such database").to_string();
    assert_eq!(told, "cannot connect: the server has no such database");
    let told = Postgres::connect(&SERVER.url().replace("disable", "require"), own()).await.expect_err("the server has no TLS").to_string();
    assert_eq!(told, "cannot connect: the server's TLS doesn't agree with sslmode or the root certificate");
    let store = notes(own()).await;
    let query = sqlx::query("SELECT $1::text::integer").bind("ann@example.org");
    let told = format!("{:?}", store.all("cast", query).await.expect_err("no number"));
    assert!(!told.contains("ann"), "{told}");
}
