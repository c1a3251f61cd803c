//! One transaction in the store, and what a failure in it means to the caller.

use std::sync::{Arc, Mutex};

use curfew_store::{Durability, Queue, Remedy, Sqlite, StoreError, Undoable};
use futures::future::BoxFuture;
use sqlx::SqliteConnection;

use crate::BookError;

/// Why a transaction is rolled back.
#[derive(Debug)]
pub enum Halt {
    /// The store failed.
    Store(StoreError),
    /// The book says no.
    Book(BookError),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Halt::Store(error)
    }
}

impl From<BookError> for Halt {
    fn from(error: BookError) -> Self {
        Halt::Book(error)
    }
}

impl Undoable for Halt {
    fn of_the_store(&self) -> Option<&StoreError> {
        match self {
            Halt::Store(error) => Some(error),
            Halt::Book(_) => None,
        }
    }
}

/// Runs `work` on the writer; on `Err` nothing of it is written.
///
/// # Errors
/// What `work` halted with, or the store's own failure.
pub async fn write<T, F>(store: &Sqlite, queue: Queue, durability: Durability, operation: &'static str, work: F) -> Result<T, BookError>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, Halt>> + Send + 'static,
{
    let said: Arc<Mutex<Option<BookError>>> = Arc::default();
    let slot = Arc::clone(&said);
    let answer = store
        .write(queue, durability, move |conn| {
            Box::pin(async move {
                match work(conn).await {
                    Ok(value) => Ok(value),
                    Err(Halt::Store(error)) => Err(error),
                    Err(Halt::Book(error)) => {
                        *slot.lock().expect("nobody panics while holding the slot") = Some(error);
                        // Any error that is the request's own rolls back its savepoint alone; the slot says which it was.
                        Err(StoreError::Constraint { operation, constraint: "the book refused".to_owned() })
                    }
                }
            })
        })
        .await;
    answer.map_err(|error| {
        let refused = said.lock().expect("nobody panics while holding the slot").take();
        // A group that was lost as a whole leaves nothing known, whatever the request had said.
        refused.filter(|_| matches!(error, StoreError::Constraint { .. })).unwrap_or_else(|| book_error(operation, &error))
    })
}

/// The store's failure, as the book's caller needs it.
pub fn book_error(operation: &'static str, error: &StoreError) -> BookError {
    match error.remedy() {
        Remedy::Retry | Remedy::InDoubt => BookError::Unavailable { operation },
        Remedy::Stop => BookError::Store(error.to_string()),
    }
}

/// Names a foreign error's operation outside the writer.
pub fn unread(operation: &'static str) -> impl Fn(sqlx::Error) -> BookError + Copy {
    move |error| book_error(operation, &StoreError::during(operation)(error))
}
