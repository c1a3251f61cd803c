//! Two adapters, one book: random lives, told to SQLite and to PostgreSQL, end in the same rows, items and figures.

use std::sync::Arc;

use curfew_book::postgres::PostgresBook;
use curfew_book::sql::SqlBook;
use curfew_review::conformance::Pair;
use curfew_review::conformance::lives::{TookEffect, a_life_ends_the_same};
use curfew_review::postgres::PostgresReview;
use curfew_review::sql::SqlReview;
use curfew_store::{OpenOptions, Postgres, PostgresOptions, Sqlite};
use curfew_testservers::postgres::{Options, Postgres as Server};

const LIVES: u64 = 25;

async fn sqlite(folder: &std::path::Path) -> Pair {
    let store = Sqlite::open(OpenOptions::new(folder)).await.expect("the store opens");
    let book = Arc::new(SqlBook::open(store).await.expect("the book opens"));
    let review = SqlReview::open(Arc::clone(&book)).await.expect("review opens");
    Pair { book, review: Arc::new(review) }
}

async fn postgres(server: &Server) -> Pair {
    let store = Postgres::connect(&server.schema(), PostgresOptions::default()).await.expect("the server answers");
    store.migrate(&curfew_review::postgres::all_migrations()).await.expect("it migrates");
    let book = Arc::new(PostgresBook::open(store).await.expect("the book opens"));
    let review = PostgresReview::open(Arc::clone(&book)).await.expect("review opens");
    Pair { book, review: Arc::new(review) }
}

#[tokio::test]
async fn random_lives_end_the_same_in_both_stores() {
    let server = Server::start(&Options::fast());
    let mut took_effect = TookEffect::default();
    for seed in 0..LIVES {
        let folder = tempfile::tempdir().expect("a temporary folder is made");
        let (a, b) = (sqlite(folder.path()).await, postgres(&server).await);
        a_life_ends_the_same(&a, &b, seed, &mut took_effect).await;
    }
    took_effect.check();
}
