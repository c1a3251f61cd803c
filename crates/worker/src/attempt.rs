//! One attempt on a claimed job: pack, prepare, intent, last look, handoff, verdict.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::limits::LAST_LOOK_MARGIN;
use curfew_domain::outcome::{Outcome, Stage};
use curfew_domain::sealed::Sealed;
use curfew_domain::simulation::{Bug, planted};
use curfew_domain::transition::{Event, Refusal, transition};
use curfew_domain::{Key, Moment, OutcomeClass, Record, Shard, State, Token};
use curfew_ledger::{Ledger, LedgerError, Swap, Swapped};
use curfew_telemetry::metrics;
use curfew_transport::{Bounds, HandOff, HandOffProgress, LastLook, Look, Prepared};
use tokio::time::Instant;

use crate::clock::LedgerClock;
use crate::gate::Cooling;
use crate::heard;
use crate::lane::Lane;
use crate::lease::{Driven, GoodUntil, Leased, OnLoss};
use crate::parcel::{Packed, pack};
use crate::pause::{Pauses, Point};
use crate::run::Worker;
use crate::verdicts::Known;

/// How an attempt ended, for the delivery that it belongs to.
pub(crate) enum Ended {
    /// Nothing was handed over; this is what the record must be told.
    Before(Outcome, Vec<String>),
    /// A token's verdict.
    Handed(Token, Known),
    /// The lease was lost, or the intent refused: the ledger's timer or an operator has it.
    Fenced,
    /// A drain, or a halted shard, asks for the job back before its intent.
    GivenBack,
    /// It was given back already.
    Returned,
    /// The recipient's domain cools down until then.
    Cooling(Moment),
}

/// What is known of a delivery from outside, for the one that finds it panicked.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<Seen>>);

#[derive(Clone, Default)]
pub(crate) enum Seen {
    /// Nothing is claimed.
    #[default]
    Unclaimed,
    /// Claimed in this version.
    Claimed(Box<Record>),
    /// In handoff under this token, until its verdict is written.
    Handoff(Box<Record>, Token, HandOffProgress),
}

impl Progress {
    pub(crate) fn set(&self, seen: Seen) {
        *self.0.lock().expect("no holder panics") = seen;
    }

    pub(crate) fn get(&self) -> Seen {
        self.0.lock().expect("no holder panics").clone()
    }
}

/// Runs the attempt. The job is claimed in `leased`.
pub(crate) async fn run(worker: &Worker, lane: &Lane, leased: &mut Leased, letter: &Sealed, cooling: &Cooling, progress: &Progress) -> Ended {
    let ports = &worker.ports;
    ports.pauses.at(Point::AfterClaim, &leased.record.key).await;
    let record = leased.record.clone();
    let deadline =
        if planted(Bug::NoDeadlineCheck) { Instant::now() + Duration::from_secs(86_400) } else { worker.clock.instant_of(record.stops_at()) };
    let mut domain = None;
    let step = async {
        let packed = pack(&record, letter, &lane.settings, &ports.keyring, &ports.artifacts).await?;
        domain = packed.domain(&ports.keyring);
        if let Some(until) = domain.as_deref().and_then(|domain| cooling.until(domain)) {
            return Ok(Ready::Cooling(until));
        }
        let prepared = lane.transport.prepare(&packed.parcel, &Bounds { deadline }).await.map_err(|outcome| (outcome, packed.pins.clone()))?;
        Ok::<Ready, Failed>(Ready::Prepared(packed, prepared))
    };
    let ready = tokio::select! {
        biased;
        driven = leased.drive(|| worker.clock.now(), OnLoss::Drop, step) => driven,
        () = worker.give_back.cancelled() => return Ended::GivenBack,
    };
    leased.domain = domain;
    let (packed, prepared) = match ready {
        Driven::Done(Ok(Ready::Prepared(packed, prepared))) => (packed, prepared),
        Driven::Done(Ok(Ready::Cooling(until))) => return Ended::Cooling(until),
        Driven::Done(Err(Failed { outcome, pins })) => return Ended::Before(outcome, pins),
        Driven::Lost => return Ended::Fenced,
    };
    ports.pauses.at(Point::BeforeIntent, &record.key).await;
    let token = Token(ports.machine.uuid());
    let written = if planted(Bug::NoIntent) { Intent::Written } else { intent(worker, leased, token, &packed.pins).await };
    match written {
        Intent::Written => {}
        Intent::Fenced => {
            prepared.abandon().await;
            not_handed_off(worker, &record, token);
            return Ended::Fenced;
        }
        Intent::Halted => {
            prepared.abandon().await;
            not_handed_off(worker, &record, token);
            return Ended::GivenBack;
        }
        Intent::Unanswered => {
            prepared.abandon().await;
            // Known from now on, whatever stands: a report must not call it a handoff that nobody can tell of.
            not_handed_off(worker, &record, token);
            return unanswered(worker, leased, token).await;
        }
    }
    leased.intent = Some(worker.clock.now());
    progress.set(Seen::Handoff(Box::new(leased.record.clone()), token, prepared.stage()));
    ports.pauses.at(Point::AfterIntent, &record.key).await;
    let known = hand_off(worker, leased, prepared).await;
    Ended::Handed(token, known)
}

enum Ready {
    Prepared(Packed, Box<dyn Prepared>),
    Cooling(Moment),
}

struct Failed {
    outcome: Outcome,
    pins: Vec<String>,
}

impl From<Outcome> for Failed {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, pins: Vec::new() }
    }
}

impl From<(Outcome, Vec<String>)> for Failed {
    fn from((outcome, pins): (Outcome, Vec<String>)) -> Self {
        Self { outcome, pins }
    }
}

enum Intent {
    Written,
    /// Nothing may be handed over, and nothing stands under the token.
    Fenced,
    /// The same, and the claim stands: the shard is halted, and takes it back.
    Halted,
    /// It may stand.
    Unanswered,
}

/// Writes the intent, on the disk before it is answered.
async fn intent(worker: &Worker, leased: &mut Leased, token: Token, pins: &[String]) -> Intent {
    for _ in 0..INTENT_TRIES {
        match heard::ensure(worker, leased.record.shard, leased.record.incarnation).await {
            Ok(()) => {}
            Err(LedgerError::OtherServer | LedgerError::Recovering) => return Intent::Fenced,
            Err(LedgerError::Halted) => return Intent::Halted,
            Err(_unheard) => return Intent::Unanswered,
        }
        let asked = Instant::now();
        let event = Event::Intent { worker: worker.id, token, lease: worker.settings.lease, pins: pins.to_vec() };
        let change = match transition(&leased.record, &event, worker.clock.now()) {
            Ok(change) => change,
            Err(refusal) => {
                refused(&leased.record, refusal);
                return Intent::Fenced;
            }
        };
        let next = change.record.clone();
        // From before it is sent: a shard that recovers is told of it, whether it was written or not.
        if !worker.held.begin(&next, token, asked + worker.settings.lease, &leased.good_until) {
            return Intent::Fenced;
        }
        match worker.ports.ledger.swap(Swap::of(&leased.record, change).on_disk()).await {
            Ok(Swapped::Swapped) => {
                leased.moved_to(next, asked);
                return Intent::Written;
            }
            Ok(Swapped::Conflict(standing)) if standing.state == State::Handoff && standing.token == Some(token) => {
                leased.moved_to(*standing, asked);
                return Intent::Written;
            }
            Ok(Swapped::Conflict(standing)) if leased.is_our_lost_reply(&standing) => leased.record = *standing,
            Ok(Swapped::Conflict(_) | Swapped::Missing | Swapped::Refused(_) | Swapped::Full) => return Intent::Fenced,
            // Refused for certain: the claim is of an earlier incarnation, or of before its shard was lost.
            Err(LedgerError::OtherServer | LedgerError::Recovering) => return Intent::Fenced,
            Err(LedgerError::Halted) => return Intent::Halted,
            Err(_unanswered) => return Intent::Unanswered,
        }
    }
    Intent::Fenced
}

/// Nothing was handed over under the token. A report may have asserted it meanwhile: that is taken back like any other verdict.
fn not_handed_off(worker: &Worker, record: &Record, token: Token) {
    if worker.ports.ledger.recoverable().is_some() {
        worker.verdicts.keep(&record.key, record.generation, token, &Known::NotAccepted(nothing_handed_over()));
    }
    worker.held.end(token);
}

fn nothing_handed_over() -> Outcome {
    Outcome::new(OutcomeClass::Transient, Stage::Content, "intent-unanswered", "the ledger didn't answer the intent; nothing was handed over")
}

/// The intent may stand, and nothing was handed over under it: that is a verdict, once the ledger answers again. Where it doesn't stand the
/// job is given back at once: an intent that is still on its way then finds another version.
async fn unanswered(worker: &Worker, leased: &mut Leased, token: Token) -> Ended {
    loop {
        let now = worker.clock.now();
        let found = worker.ports.ledger.records(std::slice::from_ref(&leased.record.key)).await.map(|mut found| found.pop().flatten());
        let standing_in = found.as_ref().ok().and_then(Option::as_ref).map_or(0, |standing| standing.incarnation);
        let fenced = match found {
            Ok(Some(standing)) if standing.token == Some(token) => {
                return Ended::Handed(token, Known::NotAccepted(nothing_handed_over()));
            }
            Ok(Some(standing)) if standing.version == leased.record.version && standing.generation == leased.record.generation => {
                leased.swap_own(&Event::GiveBack { worker: worker.id, waits_for: None, until: now }, now).await
            }
            Ok(Some(standing)) if leased.is_our_lost_reply(&standing) => {
                leased.record = standing;
                continue;
            }
            Ok(_somebody_elses) => return Ended::Fenced,
            Err(unanswered) => Err(unanswered),
        };
        match fenced {
            Ok(Some(_given_back)) => return Ended::Returned,
            Ok(None) => {}
            // The claim is of an earlier incarnation: nobody can use it any more.
            Err(LedgerError::OtherServer) if leased.record.incarnation < standing_in => return Ended::Fenced,
            Err(_unanswered) if worker.kill.is_cancelled() => return Ended::Fenced,
            Err(_unanswered) => tokio::time::sleep(INTENT_AGAIN).await,
        }
    }
}

const INTENT_TRIES: u32 = 4;
const INTENT_AGAIN: Duration = Duration::from_millis(250);

fn refused(record: &Record, refusal: Refusal) {
    tracing::warn!(job_id = %record.id, key = %record.key, "the intent is refused: {refusal}");
}

/// Hands over under a renewed lease; a lost lease doesn't end it, for its verdict is wanted all the same. Nothing is sent then: the last
/// look sees the lease.
async fn hand_off(worker: &Worker, leased: &mut Leased, prepared: Box<dyn Prepared>) -> Known {
    let mut look = WorkersLook {
        ledger: &*worker.ports.ledger,
        shard: leased.record.shard,
        clock: &worker.clock,
        deadline_at: leased.record.stops_at(),
        good_until: Arc::clone(&leased.good_until),
        pauses: &*worker.ports.pauses,
        key: leased.record.key.clone(),
    };
    let began = Instant::now();
    let handed = leased.drive(|| worker.clock.now(), OnLoss::GoOn, async move { prepared.hand_off(&mut look).await }).await;
    metrics::handoff(began.elapsed());
    match handed {
        Driven::Done(HandOff::Accepted(acceptance)) => Known::Accepted(acceptance.receipt(worker.clock.now())),
        Driven::Done(HandOff::NotAccepted(outcome)) => Known::NotAccepted(outcome),
        Driven::Done(HandOff::Unknown(outcome)) if planted(Bug::TimeoutTakenAsFailure) => {
            Known::NotAccepted(Outcome::new(OutcomeClass::Transient, Stage::Dot, outcome.rule, outcome.diagnostic))
        }
        Driven::Done(HandOff::Unknown(outcome)) => Known::Unknown(outcome),
        Driven::Lost => Known::Unknown(Outcome::new(OutcomeClass::Ambiguous, Stage::Dot, "handoff-dropped", "the handoff was dropped")),
    }
}

/// The last look: deadline not reached by the ledger's time, that clock not distrusted, lease good for 5 s more by our own clock.
struct WorkersLook<'a> {
    ledger: &'a dyn Ledger,
    shard: Shard,
    clock: &'a LedgerClock,
    deadline_at: Moment,
    good_until: Arc<GoodUntil>,
    pauses: &'a dyn Pauses,
    key: Key,
}

#[async_trait]
impl LastLook for WorkersLook<'_> {
    async fn look(&mut self) -> Look {
        self.pauses.at(Point::LastLook, &self.key).await;
        if planted(Bug::NoLastLook) {
            return Look::Go;
        }
        let in_time = self.clock.now() < self.deadline_at || planted(Bug::NoDeadlineCheck);
        let leased = Instant::now() + LAST_LOOK_MARGIN <= self.good_until.get();
        if in_time && leased && !self.ledger.is_halted(self.shard) { Look::Go } else { Look::Stop }
    }
}
