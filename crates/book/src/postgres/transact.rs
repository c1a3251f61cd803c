//! One transaction in the store, and what a failure in it means to the caller.

use std::sync::Arc;

use curfew_store::{Durability, Postgres, StoreError};
use futures::future::BoxFuture;
use sqlx::PgConnection;

use super::{Halt, book_error};
use crate::BookError;

/// Runs `work` over `input` in a transaction; on `Err` nothing of it is written. It may be run again, so it changes no input.
///
/// # Errors
/// What `work` halted with, or the store's own failure.
pub async fn write<I, T, W>(store: &Postgres, durability: Durability, operation: &'static str, input: I, work: W) -> Result<T, BookError>
where
    I: Send + Sync + 'static,
    T: Send,
    W: for<'c> Fn(&'c mut PgConnection, &'c I) -> BoxFuture<'c, Result<T, Halt>> + Send + Sync + Copy + 'static,
{
    let input = Arc::new(input);
    let answer = store.write(operation, durability, move |conn| {
        let input = Arc::clone(&input);
        Box::pin(async move { work(conn, &input).await })
    });
    answer.await.map_err(|halt| match halt {
        Halt::Store(error) => book_error(operation, &error),
        Halt::Book(error) => error,
    })
}

/// Names the operation of a failure outside a transaction.
pub fn unread(operation: &'static str) -> impl Fn(StoreError) -> BookError + Copy {
    move |error| book_error(operation, &error)
}
