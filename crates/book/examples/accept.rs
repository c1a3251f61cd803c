//! How fast the SQLite book accepts and settles, on this machine: `cargo run --release -p curfew-book --example accept`.
//!
//! Accepting: batches of 500 jobs with 600-byte letters, on the disk before each answer. Settling: batches of 100 stories.

use std::time::Instant;

use curfew_book::conformance::given::{door, job, mark, minutes, record, story};
use curfew_book::sql::SqlBook;
use curfew_book::{Accepted, Book, Told};
use curfew_domain::State;
use curfew_store::{OpenOptions, Sqlite};

const JOBS: u64 = 50_000;
const BATCH: usize = 500;
const SETTLED_AT_ONCE: usize = 100;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder is made");
    let store = Sqlite::open(OpenOptions::new(folder.path())).await.expect("the store opens");
    let book = SqlBook::open(store).await.expect("the book opens");
    let jobs: Vec<_> = (0..JOBS).map(|n| job(&format!("tenant-{}", n % 50), n)).collect();

    let begun = Instant::now();
    for batch in jobs.chunks(BATCH) {
        let answers = book.accept(batch.to_vec(), &door()).await.expect("the book answers");
        assert!(answers.iter().all(|a| matches!(a, Accepted::New(_))));
    }
    report("accepted", begun);

    let marks: Vec<_> = jobs.iter().map(|job| mark(&job.key, 1)).collect();
    let begun = Instant::now();
    for batch in marks.chunks(BATCH) {
        book.mark_staged(batch).await.expect("the book answers");
    }
    report("marked staged", begun);

    let stories: Vec<_> = jobs.iter().map(|job| story(record(job, 1, 5, State::Sent))).collect();
    let begun = Instant::now();
    for batch in stories.chunks(SETTLED_AT_ONCE) {
        let told = book.settle(batch.to_vec(), minutes(61)).await.expect("the book answers");
        assert!(told.iter().all(|t| *t == Told::Written));
    }
    report("settled", begun);

    let begun = Instant::now();
    let repeated = book.accept(jobs[..BATCH].to_vec(), &door()).await.expect("the book answers");
    assert!(repeated.iter().all(|a| matches!(a, Accepted::Duplicate(_))));
    println!("{BATCH} duplicates answered in {:?}", begun.elapsed());
    book.store().close().await.expect("the store closes");
}

fn report(what: &str, begun: Instant) {
    println!("{what}: {:.0}/s", JOBS as f64 / begun.elapsed().as_secs_f64());
}
