//! A merger: small writes of many callers become one statement.
//!
//! The client library sends every statement to the connection's own thread, some 10 to 20 µs each. A merger pays that once a
//! round instead of once a caller: its code gets all the items that wait and writes them with one statement over
//! `json_each(?)` or a VALUES list.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::BoxFuture;
use sqlx::SqliteConnection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::Inner;
use super::queue::{Queue, Queues, Source, Unit};
use super::request::{Abandon, Atomicity, Durability, Fate, Reply, Request, attempt, told};
use crate::StoreError;

type Work<Item, Out> = dyn for<'c> Fn(&'c mut SqliteConnection, Vec<Item>) -> BoxFuture<'c, Result<Vec<Out>, StoreError>> + Send + Sync;

/// The handle through which callers submit items. Clones share the order; each keeps the store open.
pub struct Merger<Item, Out> {
    shared: Arc<Shared<Item, Out>>,
    store: Arc<Inner>,
}

impl<Item, Out> Clone for Merger<Item, Out> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), store: Arc::clone(&self.store) }
    }
}

struct Shared<Item, Out> {
    queue: Queue,
    atomicity: Atomicity,
    work: Box<Work<Item, Out>>,
    buffer: Mutex<Buffer<Item, Out>>,
}

struct Buffer<Item, Out> {
    waiting: VecDeque<Waiting<Item, Out>>,
    /// Our mark stands in the queue, or the writer is just taking it.
    marked: bool,
}

struct Waiting<Item, Out> {
    item: Item,
    caller: Caller<Out>,
}

struct Caller<Out> {
    durability: Durability,
    reply: Reply<Out>,
    _room: OwnedSemaphorePermit,
}

impl<Item: Send + 'static, Out: Send + 'static> Merger<Item, Out> {
    pub(super) fn new(store: Arc<Inner>, queue: Queue, atomicity: Atomicity, work: Box<Work<Item, Out>>) -> Self {
        let buffer = Mutex::new(Buffer { waiting: VecDeque::new(), marked: false });
        Self { shared: Arc::new(Shared { queue, atomicity, work, buffer }), store }
    }

    /// Hands over one item and answers after the COMMIT that holds it.
    ///
    /// Items run in the order of their submission (S6). The whole call of a round is as durable as its most demanding item. A
    /// caller that is dropped while it waits for room leaves nothing behind; dropped later, its item is written all the same.
    ///
    /// # Errors
    /// As for [`Sqlite::write`](super::Sqlite::write); an error of the merger's code is the answer to each of its items.
    pub async fn submit(&self, item: Item, durability: Durability) -> Result<Out, StoreError> {
        let queues = &self.store.queues;
        let room = queues.room(self.shared.queue).await?;
        let (reply, answer) = oneshot::channel();
        self.queue(queues, Waiting { item, caller: Caller { durability, reply, _room: room } })?;
        answer.await.unwrap_or(Err(StoreError::Unanswered))
    }

    fn queue(&self, queues: &Queues, waiting: Waiting<Item, Out>) -> Result<(), StoreError> {
        let mut buffer = self.shared.lock();
        if !buffer.marked {
            // Refused here, the item was never queued. While the mark stands the writer is bound to come for it.
            queues.push(self.shared.queue, Unit::Merged(Arc::clone(&self.shared) as Arc<dyn Source>))?;
            buffer.marked = true;
        }
        buffer.waiting.push_back(waiting);
        Ok(())
    }
}

impl<Item, Out> Shared<Item, Out> {
    fn lock(&self) -> MutexGuard<'_, Buffer<Item, Out>> {
        self.buffer.lock().expect("no code panics while it holds the items")
    }
}

impl<Item: Send + 'static, Out: Send + 'static> Source for Shared<Item, Out> {
    fn take(self: Arc<Self>, queues: &Queues) -> Option<Box<dyn Request>> {
        let taken: Vec<Waiting<Item, Out>> = {
            let mut buffer = self.lock();
            let count = buffer.waiting.len().min(self.queue.merged_max());
            let taken = buffer.waiting.drain(..count).collect();
            buffer.marked = !buffer.waiting.is_empty();
            if buffer.marked {
                queues.push_rest(self.queue, Arc::clone(&self) as Arc<dyn Source>);
            }
            taken
        };
        let (items, callers): (Vec<_>, Vec<_>) = taken.into_iter().map(|waiting| (waiting.item, waiting.caller)).unzip();
        (!items.is_empty()).then(|| Box::new(Merged { shared: self, items, callers, outcome: None }) as Box<dyn Request>)
    }
}

/// The items of one round.
struct Merged<Item, Out> {
    shared: Arc<Shared<Item, Out>>,
    items: Vec<Item>,
    callers: Vec<Caller<Out>>,
    outcome: Option<Result<Vec<Out>, StoreError>>,
}

impl<Item: Send + 'static, Out: Send + 'static> Request for Merged<Item, Out> {
    fn durability(&self) -> Durability {
        self.callers.iter().map(|caller| caller.durability).max().unwrap_or(Durability::Process)
    }

    fn run<'c>(&'c mut self, conn: &'c mut SqliteConnection) -> BoxFuture<'c, Result<(), Abandon>> {
        Box::pin(async move {
            let shared = Arc::clone(&self.shared);
            let items = std::mem::take(&mut self.items);
            let expected = items.len();
            let attempt = attempt(conn, shared.atomicity, |conn| {
                let work = (shared.work)(conn, items);
                Box::pin(async move {
                    let outs = work.await?;
                    // Nobody could say whose answer is missing: our own mistake, handled like any other panic.
                    assert_eq!(outs.len(), expected, "a merger answers each item once");
                    Ok(outs)
                })
            })
            .await;
            self.outcome = Some(attempt.outcome);
            attempt.group
        })
    }

    fn answer(self: Box<Self>, fate: &Fate) {
        // A caller that went away has dropped its end; its item counts all the same.
        match told(self.outcome, fate) {
            Ok(outs) => self.callers.into_iter().zip(outs).for_each(|(caller, out)| {
                let _ = caller.reply.send(Ok(out));
            }),
            Err(error) => self.callers.into_iter().for_each(|caller| {
                let _ = caller.reply.send(Err(error.clone()));
            }),
        }
    }
}
