//! One task owns the publishing channel: requests in, a window of unconfirmed messages out, every confirm awaited.
//!
//! One owner, because the client takes a confirm's number and the frames' place under two locks: two tasks could swap them, and a nack would
//! land on the wrong job. A returned message is known by its id alone: the client hangs it on whichever confirm comes next.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use curfew_domain::limits::WAKE_UP_BYTES_MAX;
use curfew_domain::rung::{RUNG_MAX, Rung};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use lapin::message::BasicReturnMessage;
use lapin::{Channel, Confirmation};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::calls::{self, Outgoing};
use super::supervisor::Shared;
use crate::{BrokerError, Published};

/// Unconfirmed at most. One at a time costs three quarters of the throughput; above some hundreds nothing is gained.
const WINDOW: usize = 512;
/// Requests that wait for the owner.
pub(super) const REQUESTS_MAX: usize = 64;

/// Messages of one shard, and whom to answer.
pub(super) struct Request {
    pub routing_key: String,
    pub messages: Vec<(Rung, Vec<u8>)>,
    pub reply: oneshot::Sender<Result<Vec<Published>, BrokerError>>,
}

/// What became of one message on the wire.
enum Outcome {
    Answered(Published, Option<String>),
    /// Written, and nothing more is known.
    Silence,
    /// Its confirm didn't come in time: the channel keeps it for ever, so the channel has to go.
    Late,
}

type Sending = BoxFuture<'static, (u64, Outcome)>;

/// A request under way. Its messages have the numbers from its own on.
struct Batch {
    answers: Vec<Option<Published>>,
    /// Answers that are still open.
    open: usize,
    /// Whether anything of it was written.
    written: bool,
    reply: oneshot::Sender<Result<Vec<Published>, BrokerError>>,
}

struct Waiting {
    number: u64,
    exchange: Arc<str>,
    routing_key: Arc<str>,
    body: Vec<u8>,
}

/// The owner's task.
pub(super) struct Owner {
    shared: Arc<Shared>,
    channel: Channel,
    blocked: watch::Receiver<Option<String>>,
    /// Names this channel's messages; a number follows.
    session: String,
    exchanges: Vec<Arc<str>>,
    next_number: u64,
    batches: BTreeMap<u64, Batch>,
    waiting: VecDeque<Waiting>,
    sending: FuturesUnordered<Sending>,
    /// Batches whose last answer came.
    answered: Vec<u64>,
    /// Why nothing more is written.
    over: Option<String>,
}

impl Owner {
    pub(super) fn new(shared: Arc<Shared>, channel: Channel, blocked: watch::Receiver<Option<String>>) -> Self {
        let names = &shared.settings.names;
        let exchanges = std::iter::once(Rung::Now).chain((0..=RUNG_MAX).map(Rung::Delay)).map(|rung| names.exchange_of(rung).into()).collect();
        Self {
            channel,
            blocked,
            session: uuid::Uuid::new_v4().simple().to_string(),
            exchanges,
            next_number: 0,
            batches: BTreeMap::new(),
            waiting: VecDeque::new(),
            sending: FuturesUnordered::new(),
            answered: Vec::new(),
            over: None,
            shared,
        }
    }

    /// Serves requests until the channel can't go on, and tells why. Every request it took is answered.
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Request>) -> String {
        loop {
            self.write();
            self.reply();
            let is_blocked = self.blocked.borrow().is_some();
            if self.sending.is_empty()
                && !is_blocked
                && let Some(why) = self.over.take()
            {
                requests.close();
                while let Ok(request) = requests.try_recv() {
                    let _gone = request.reply.send(Err(BrokerError::Unreachable(why.clone())));
                }
                return why;
            }
            tokio::select! {
                Some((number, outcome)) = self.sending.next(), if !self.sending.is_empty() => {
                    self.settle(number, outcome);
                    self.settle_ready();
                }
                request = requests.recv(), if self.over.is_none() && self.waiting.is_empty() => match request {
                    Some(request) => self.take(request),
                    None => self.over = Some("closed".to_owned()),
                },
                changed = self.blocked.changed() => if changed.is_err() {
                    self.over = Some("closed".to_owned());
                },
            }
        }
    }

    fn take(&mut self, request: Request) {
        let number = self.next_number;
        self.next_number += request.messages.len() as u64;
        let routing_key: Arc<str> = request.routing_key.into();
        let mut batch = Batch { answers: Vec::new(), open: 0, written: false, reply: request.reply };
        for (number, (rung, body)) in (number..).zip(request.messages) {
            match self.exchange_of(rung).filter(|_| body.len() <= WAKE_UP_BYTES_MAX) {
                Some(exchange) => {
                    batch.answers.push(None);
                    batch.open += 1;
                    self.waiting.push_back(Waiting { number, exchange, routing_key: Arc::clone(&routing_key), body });
                }
                None => {
                    tracing::error!(error_class = "broker", "a message of {} bytes on {rung:?} is none of ours", body.len());
                    batch.answers.push(Some(Published::Refused));
                }
            }
        }
        if batch.open == 0 {
            batch.written = true;
            self.answered.push(number);
        }
        self.batches.insert(number, batch);
    }

    fn exchange_of(&self, rung: Rung) -> Option<Arc<str>> {
        let place = match rung {
            Rung::Now => 0,
            Rung::Delay(n) => usize::from(n) + 1,
        };
        self.exchanges.get(place).map(Arc::clone)
    }

    /// Writes what the window takes; what can't be written is answered so.
    fn write(&mut self) {
        while self.sending.len() < WINDOW && self.over.is_none() && self.blocked.borrow().is_none() {
            let Some(next) = self.waiting.pop_front() else { return };
            let number = next.number;
            let mut sending = send(self.channel.clone(), self.message(next), number, Instant::now() + self.shared.settings.times.confirm);
            // The first poll writes the frames: so they are written in this order, by this task.
            let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
            match Pin::new(&mut sending).poll(&mut nobody) {
                // Failed before it was written.
                Poll::Ready((number, Outcome::Silence)) => {
                    self.over = Some("the channel is closed".to_owned());
                    self.answer(number, Published::Refused);
                }
                Poll::Ready((number, outcome)) => {
                    self.batch(number).1.written = true;
                    self.settle(number, outcome);
                }
                Poll::Pending => {
                    self.batch(number).1.written = true;
                    self.sending.push(sending);
                }
            }
        }
        if self.over.is_some() || self.blocked.borrow().is_some() {
            while let Some(next) = self.waiting.pop_front() {
                self.answer(next.number, Published::Refused);
            }
        }
    }

    fn message(&self, waiting: Waiting) -> Outgoing {
        Outgoing {
            exchange: (*waiting.exchange).into(),
            routing_key: (*waiting.routing_key).into(),
            message_id: format!("{}.{}", self.session, waiting.number),
            body: waiting.body,
        }
    }

    fn settle(&mut self, number: u64, outcome: Outcome) {
        match outcome {
            Outcome::Answered(published, returned) => {
                if let Some(id) = returned {
                    self.returned(&id);
                }
                self.answer(number, published);
            }
            Outcome::Silence => {
                self.over.get_or_insert_with(|| "the channel was lost".to_owned());
                self.answer(number, Published::Unanswered);
            }
            Outcome::Late => {
                self.over.get_or_insert_with(|| "a confirm didn't come in time".to_owned());
                self.answer(number, Published::Unanswered);
            }
        }
    }

    /// Everything that is known already, before a batch is answered: a confirm that carries a return is completed before the returned message's.
    fn settle_ready(&mut self) {
        while let Some(Some((number, outcome))) = self.sending.next().now_or_never() {
            self.settle(number, outcome);
        }
    }

    /// No queue wanted it: it isn't published, whatever its confirm says.
    fn returned(&mut self, id: &str) {
        tracing::warn!(error_class = "broker", "a wake-up was unroutable: its rung's queue is gone");
        self.shared.repair.notify_one();
        let number = id.strip_prefix(self.session.as_str()).and_then(|rest| rest.strip_prefix('.')).and_then(|number| number.parse::<u64>().ok());
        let Some(number) = number else { return };
        if let Some((first, batch)) = self.batches.range_mut(..=number).next_back()
            && let Some(answer) = batch.answers.get_mut((number - first) as usize)
        {
            // Its confirm is still to come, or came an instant ago: `open` counts confirms alone.
            *answer = Some(Published::Refused);
        }
    }

    fn answer(&mut self, number: u64, published: Published) {
        let (first, batch) = self.batch(number);
        batch.answers[(number - first) as usize].get_or_insert(published);
        batch.open -= 1;
        if batch.open == 0 {
            self.answered.push(first);
        }
    }

    fn batch(&mut self, number: u64) -> (u64, &mut Batch) {
        let (first, batch) = self.batches.range_mut(..=number).next_back().expect("a batch stays until all its messages are answered");
        (*first, batch)
    }

    fn reply(&mut self) {
        for first in std::mem::take(&mut self.answered) {
            let Some(batch) = self.batches.remove(&first) else { continue };
            let answer = match (&*self.blocked.borrow(), batch.written) {
                (_, true) => Ok(batch.answers.into_iter().map(|answer| answer.unwrap_or(Published::Unanswered)).collect()),
                (Some(why), false) => Err(BrokerError::Blocked(why.clone())),
                (None, false) => Err(BrokerError::Unreachable(self.over.clone().unwrap_or_else(|| "blocked for a moment".to_owned()))),
            };
            // Whoever asked may have gone.
            let _gone = batch.reply.send(answer);
        }
    }
}

fn send(channel: Channel, message: Outgoing, number: u64, deadline: Instant) -> Sending {
    Box::pin(async move {
        let outcome = match timeout_at(deadline, calls::publish(channel, message)).await {
            Ok(Ok(Confirmation::Ack(returned))) => Outcome::Answered(Published::Confirmed, returned.and_then(id_of)),
            Ok(Ok(Confirmation::Nack(returned))) => Outcome::Answered(Published::Refused, returned.and_then(id_of)),
            // Confirms were asked for, so this can't be; nothing is known then.
            Ok(Ok(Confirmation::NotRequested)) | Ok(Err(_)) => Outcome::Silence,
            Err(_late) => Outcome::Late,
        };
        (number, outcome)
    })
}

fn id_of(returned: BasicReturnMessage) -> Option<String> {
    returned.delivery.properties.message_id().as_ref().map(|id| id.as_str().to_owned())
}
