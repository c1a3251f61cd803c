//! How fast the PostgreSQL book accepts, plans and settles, on this machine:
//! `cargo run --release -p curfew-book --example accept_postgres [URL]`; without a URL on a private server with fsync on.
//!
//! Accepting: batches of 500 jobs with 600-byte letters, on the disk before each answer. Settling: batches of 100 stories, likewise.

use std::sync::Arc;
use std::time::Instant;

use curfew_book::conformance::given::{door, job, mark, minutes, record, shards, story};
use curfew_book::postgres::{MIGRATIONS, PostgresBook};
use curfew_book::{Accepted, Book, Told};
use curfew_domain::State;
use curfew_domain::job::Job;
use curfew_store::{Postgres, PostgresOptions};
use curfew_testservers::postgres::{Options, Postgres as Server};
use tokio::task::JoinSet;

const JOBS: u64 = 60_000;
const BATCH: usize = 500;
const SETTLED_AT_ONCE: usize = 100;

#[tokio::main]
async fn main() {
    let given = std::env::args().nth(1);
    let server = given.is_none().then(|| Server::start(&Options::default()));
    let url = given.unwrap_or_else(|| server.as_ref().expect("one or the other").url());
    let store = Postgres::connect(&url, PostgresOptions::default()).await.expect("the server answers");
    store.migrate(&MIGRATIONS).await.expect("it migrates");
    let reached = store.durability().await.expect("the server answers");
    println!("durability: {} ({})", reached.level.word(), reached.reason);
    let book = Arc::new(PostgresBook::open(store).await.expect("the book opens"));
    let jobs: Arc<Vec<Job>> = Arc::new((0..JOBS).map(|n| job(&format!("tenant-{}", n % 50), n)).collect());
    // One caller takes the first third, four share the rest.
    let third = jobs.len() / 3;
    accept(&book, &jobs, 0..third, 1).await;
    accept(&book, &jobs, third..jobs.len(), 4).await;

    let (begun, mut planned) = (Instant::now(), 0);
    loop {
        let rows = book.plan(&shards(), minutes(60), 500).await.expect("the book answers");
        if rows.is_empty() {
            break;
        }
        planned += rows.len();
        let marks: Vec<_> = rows.into_iter().map(|p| mark(&p.row.job.key, p.row.generation)).collect();
        book.mark_staged(&marks).await.expect("the book answers");
    }
    report("planned and marked, one scheduler", planned, begun);

    settle(&book, &jobs, 0..third, 1).await;
    settle(&book, &jobs, third..jobs.len(), 4).await;
    let begun = Instant::now();
    let repeated = book.accept(jobs[..BATCH].to_vec(), &door()).await.expect("the book answers");
    assert!(repeated.iter().all(|a| matches!(a, Accepted::Duplicate(_))));
    println!("{BATCH} duplicates answered in {:?}", begun.elapsed());
    println!("transactions run again: {}", book.store().undone());
    book.store().close().await;
}

async fn accept(book: &Arc<PostgresBook>, jobs: &Arc<Vec<Job>>, which: std::ops::Range<usize>, callers: usize) {
    let (begun, count) = (Instant::now(), which.len());
    shared(which, BATCH, callers, |range| {
        let (book, jobs) = (Arc::clone(book), Arc::clone(jobs));
        async move {
            let answers = book.accept(jobs[range].to_vec(), &door()).await.expect("the book answers");
            assert!(answers.iter().all(|a| matches!(a, Accepted::New(_))));
        }
    })
    .await;
    report(&format!("accepted, {callers} at once"), count, begun);
}

async fn settle(book: &Arc<PostgresBook>, jobs: &Arc<Vec<Job>>, which: std::ops::Range<usize>, callers: usize) {
    let (begun, count) = (Instant::now(), which.len());
    shared(which, SETTLED_AT_ONCE, callers, |range| {
        let (book, jobs) = (Arc::clone(book), Arc::clone(jobs));
        async move {
            let stories = jobs[range].iter().map(|job| story(record(job, 1, 5, State::Sent))).collect();
            let told = book.settle(stories, minutes(61)).await.expect("the book answers");
            assert!(told.iter().all(|t| *t == Told::Written));
        }
    })
    .await;
    report(&format!("settled, {callers} at once"), count, begun);
}

/// Callers share a range, batch by batch.
async fn shared<F: Future<Output = ()> + Send + 'static>(
    which: std::ops::Range<usize>,
    batch: usize,
    callers: usize,
    work: impl Fn(std::ops::Range<usize>) -> F,
) {
    let mut running = JoinSet::new();
    for begin in which.clone().step_by(batch) {
        if running.len() == callers {
            running.join_next().await.expect("one runs").expect("no caller panics");
        }
        running.spawn(work(begin..(begin + batch).min(which.end)));
    }
    while let Some(done) = running.join_next().await {
        done.expect("no caller panics");
    }
}

fn report(what: &str, count: usize, begun: Instant) {
    println!("{what}: {:.0}/s", count as f64 / begun.elapsed().as_secs_f64());
}
