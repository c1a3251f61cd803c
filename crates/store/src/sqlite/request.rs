//! One request: code to run inside the group's transaction, and a caller who waits for its answer.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::BoxFuture;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::StoreError;

/// What must have happened before the caller is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Survives the death of the process, not of the machine: a lost claim costs a lease.
    Process,
    /// Survives a power failure: acceptance, intent, operators' verbs.
    Disk,
}

/// How a request that fails is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomicity {
    /// A savepoint around it: any number of statements.
    Savepoint,
    /// It runs one statement that writes, which the engine undoes by itself. If it runs more, the first of them stay.
    SingleStatement,
}

/// What became of the group.
pub(super) enum Fate {
    Committed,
    /// Told to every request that had not failed by itself.
    Lost(StoreError),
}

/// The group can't go on: everything in it is rolled back, for this reason.
pub(super) struct Abandon(pub(super) StoreError);

pub(super) trait Request: Send {
    fn durability(&self) -> Durability;

    /// Runs once, inside the group's transaction; keeps its outcome for `answer`.
    fn run<'c>(&'c mut self, conn: &'c mut SqliteConnection) -> BoxFuture<'c, Result<(), Abandon>>;

    /// Tells the caller, after the end of the transaction.
    fn answer(self: Box<Self>, fate: &Fate);
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

pub(super) struct One<T, F> {
    work: Option<F>,
    durability: Durability,
    atomicity: Atomicity,
    outcome: Option<Result<T, StoreError>>,
    reply: Reply<T>,
    _room: OwnedSemaphorePermit,
}

impl<T, F> One<T, F> {
    pub(super) fn new(work: F, durability: Durability, atomicity: Atomicity, reply: Reply<T>, room: OwnedSemaphorePermit) -> Self {
        Self { work: Some(work), durability, atomicity, outcome: None, reply, _room: room }
    }
}

impl<T, F> Request for One<T, F>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send + 'static,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn run<'c>(&'c mut self, conn: &'c mut SqliteConnection) -> BoxFuture<'c, Result<(), Abandon>> {
        Box::pin(async move {
            let work = self.work.take().expect("the writer runs a request once");
            let attempt = attempt(conn, self.atomicity, work).await;
            self.outcome = Some(attempt.outcome);
            attempt.group
        })
    }

    fn answer(self: Box<Self>, fate: &Fate) {
        // A caller that went away has dropped its end; its request counts all the same.
        let _ = self.reply.send(told(self.outcome, fate));
    }
}

/// A request that failed by itself hears its own error; any other shares the fate of its group.
pub(super) fn told<T>(outcome: Option<Result<T, StoreError>>, fate: &Fate) -> Result<T, StoreError> {
    match (outcome, fate) {
        (Some(Err(own)), Fate::Committed | Fate::Lost(_)) => Err(own),
        (Some(Ok(_)) | None, Fate::Lost(error)) => Err(error.clone()),
        (Some(Ok(value)), Fate::Committed) => Ok(value),
        (None, Fate::Committed) => Err(StoreError::Unanswered),
    }
}

pub(super) struct Attempt<T> {
    pub(super) outcome: Result<T, StoreError>,
    pub(super) group: Result<(), Abandon>,
}

impl<T> Attempt<T> {
    fn kept(outcome: Result<T, StoreError>) -> Self {
        Self { outcome, group: Ok(()) }
    }

    fn abandon(error: StoreError) -> Self {
        Self { outcome: Err(error.clone()), group: Err(Abandon(error)) }
    }
}

/// Runs `work` so that its failure, even a panic, undoes it alone (S3); where that isn't possible, the group is abandoned.
pub(super) async fn attempt<T, F>(conn: &mut SqliteConnection, atomicity: Atomicity, work: F) -> Attempt<T>
where
    T: Send,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send,
{
    match atomicity {
        Atomicity::SingleStatement => match caught(conn, work).await {
            Err(error) if error.ends_transaction() || error == StoreError::Panicked => Attempt::abandon(error),
            outcome => Attempt::kept(outcome),
        },
        Atomicity::Savepoint => in_savepoint(conn, work).await,
    }
}

async fn in_savepoint<T, F>(conn: &mut SqliteConnection, work: F) -> Attempt<T>
where
    T: Send,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send,
{
    let mut savepoint = match conn.begin().await {
        Ok(savepoint) => savepoint,
        Err(error) => return Attempt::abandon(StoreError::during("savepoint")(error)),
    };
    let outcome = caught(&mut savepoint, work).await;
    // The savepoint is missing where the engine rolled back everything and `work` swallowed the error: hence the abandons.
    match outcome {
        Ok(value) => match savepoint.commit().await {
            Ok(()) => Attempt::kept(Ok(value)),
            Err(error) => Attempt::abandon(StoreError::during("release a savepoint")(error)),
        },
        Err(error) if error.ends_transaction() => Attempt::abandon(error),
        Err(error) => match savepoint.rollback().await {
            Ok(()) => Attempt::kept(Err(error)),
            Err(lost) => Attempt { outcome: Err(error), group: Err(Abandon(StoreError::during("roll back to a savepoint")(lost))) },
        },
    }
}

async fn caught<T, F>(conn: &mut SqliteConnection, work: F) -> Result<T, StoreError>
where
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send,
{
    // Unwind safe: what a panic leaves half done is rolled back, and the values of the request are dropped with it.
    AssertUnwindSafe(async move { work(conn).await }).catch_unwind().await.unwrap_or(Err(StoreError::Panicked))
}
