//! One delivery's life, from the broker's hand back into it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use curfew_broker::Delivery;
use curfew_courier::Reported;
use curfew_domain::form::FormError;
use curfew_domain::limits::EARLY_WAIT_MAX;
use curfew_domain::outcome::{Outcome, Stage};
use curfew_domain::record::WaitingFor;
use curfew_domain::sealed::Sealed;
use curfew_domain::transition::{Change, Counter, Event, Guard, transition};
use curfew_domain::wake_up::WakeUp;
use curfew_domain::{Moment, OutcomeClass, Reason, Record, State};
use curfew_ledger::{Entry, LedgerError, Swap, Swapped};
use curfew_telemetry::metrics::{self, WakeUpResult, Where};
use curfew_transport::HandOffStage;

use crate::attempt::{self, Ended, Progress, Seen};
use crate::gate::{self, Gate};
use crate::lane::{Consequence, Lane};
use crate::lease::Leased;
use crate::pause::Point;
use crate::run::Worker;
use crate::verdicts::{Known, insist};

/// What the broker is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Done with it.
    Ack,
    /// To the dead-letter queue.
    Reject,
    /// Nothing: it comes again once this consumer is gone.
    None,
}

/// A tenant at its limit looks again after this.
const FULL_AGAIN: Duration = Duration::from_secs(1);
/// A struck job rests this long.
const STRIKE_REST: Duration = Duration::from_secs(5);

/// Handles one delivery.
pub(crate) async fn handle(worker: &Arc<Worker>, delivery: &Delivery, progress: &Progress) -> Answer {
    let wake = match WakeUp::decode(&delivery.body) {
        Ok(wake) => wake,
        Err(FormError::Newer(_)) => return dropped(WakeUpResult::Stale),
        Err(_malformed) => {
            metrics::wake_up(WakeUpResult::Undecodable);
            return Answer::Reject;
        }
    };
    loop {
        match claim_and_run(worker, &wake, progress).await {
            Ok(answer) => return answer,
            Err(LedgerError::Recovering) => return dropped(WakeUpResult::Recovering),
            Err(error) => {
                tracing::warn!(key = %wake.key, error_class = "ledger", "a delivery waits for the ledger: {error}");
                tokio::select! {
                    () = worker.give_back.cancelled() => return Answer::None,
                    () = tokio::time::sleep(Duration::from_millis(500)) => {}
                }
            }
        }
    }
}

async fn claim_and_run(worker: &Arc<Worker>, wake: &WakeUp, progress: &Progress) -> Result<Answer, LedgerError> {
    let Some(entry) = worker.ports.ledger.get(&wake.key).await? else { return Ok(Answer::Reject) };
    let Entry { record, letter, .. } = entry;
    if record.generation != wake.generation {
        return Ok(dropped(WakeUpResult::Stale));
    }
    if !matches!(record.state, State::Queued | State::Scheduled) {
        metrics::duplicate_suppressed(Where::Claim);
        return Ok(dropped(WakeUpResult::Duplicate));
    }
    let now = worker.clock.now();
    if record.due().since(now) >= EARLY_WAIT_MAX {
        return Ok(dropped(WakeUpResult::Early));
    }
    if now >= record.deadline_at {
        return Ok(dropped(WakeUpResult::Stale));
    }
    let Some(lane) = worker.ports.lanes.get(&record.transport).cloned() else {
        return limit(worker, &record, WaitingFor::Circuit, now.plus(Duration::from_secs(30))).await;
    };
    let Some(_slot) = worker.slot(&lane, record.shard).await else {
        return limit(worker, &record, WaitingFor::TransportRate, now.plus(FULL_AGAIN)).await;
    };
    wait_until(worker, record.due()).await;
    match gate::ask(&worker.ports, &worker.settings, &lane, &record, worker.clock.now()).await? {
        Gate::Limited(by, until) => limit(worker, &record, by, until).await,
        Gate::Open => {
            let _entered = Entered(&lane);
            claimed(worker, &lane, record, letter, progress).await
        }
    }
}

/// Leaves the lane however the attempt ends.
struct Entered<'a>(&'a Lane);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A wake-up that is early by less than a second is claimed at its moment.
async fn wait_until(worker: &Worker, due: Moment) {
    let left = due.since(worker.clock.now());
    if !left.is_zero() {
        tokio::time::sleep(left.min(EARLY_WAIT_MAX)).await;
    }
}

/// Claims and runs. The wake-up may be faster than the swap to `queued` that follows its confirm: whoever comes second looks again.
async fn claimed(
    worker: &Arc<Worker>,
    lane: &Arc<Lane>,
    mut record: Record,
    letter: Option<Sealed>,
    progress: &Progress,
) -> Result<Answer, LedgerError> {
    for _ in 0..CLAIM_TRIES {
        match claim(worker, lane, &record, letter.as_ref(), progress).await? {
            Claim::Answered(answer) => return Ok(answer),
            Claim::Moved(standing) => record = *standing,
        }
    }
    metrics::duplicate_suppressed(Where::Claim);
    Ok(dropped(WakeUpResult::Duplicate))
}

enum Claim {
    Answered(Answer),
    /// Released meanwhile: still to be claimed.
    Moved(Box<Record>),
}

/// A release comes between at most once; more tries are for limits that gave it back at the same moment.
const CLAIM_TRIES: u32 = 4;

async fn claim(worker: &Arc<Worker>, lane: &Arc<Lane>, record: &Record, letter: Option<&Sealed>, progress: &Progress) -> Result<Claim, LedgerError> {
    let answered = |answer| Ok(Claim::Answered(answer));
    let asked = Instant::now();
    let Ok(change) = transition(record, &Event::Claim { worker: worker.id, lease: worker.settings.lease }, worker.clock.now()) else {
        return answered(dropped(WakeUpResult::Early));
    };
    let next = change.record.clone();
    let mut swap = Swap::of(record, change);
    if let Some(max) = worker.settings.limits(record.tenant()).max_in_flight {
        swap = swap.below(Counter::TenantInFlight(record.tenant().to_owned()), max);
    }
    match worker.ports.ledger.swap(swap).await? {
        Swapped::Swapped => {}
        Swapped::Conflict(standing) if standing.generation == record.generation && matches!(standing.state, State::Scheduled | State::Queued) => {
            return Ok(Claim::Moved(standing));
        }
        Swapped::Conflict(_) | Swapped::Missing => {
            metrics::duplicate_suppressed(Where::Claim);
            return answered(dropped(WakeUpResult::Duplicate));
        }
        Swapped::Refused(Guard::NotSuppressed(_)) => return suppressed(worker, record).await.map(Claim::Answered),
        Swapped::Refused(Guard::NotBefore(_)) => return answered(dropped(WakeUpResult::Early)),
        Swapped::Refused(Guard::Before(_)) => return answered(dropped(WakeUpResult::Stale)),
        Swapped::Full => return limit(worker, record, WaitingFor::TenantInFlight, worker.clock.now().plus(FULL_AGAIN)).await.map(Claim::Answered),
    }
    metrics::wake_up(WakeUpResult::Claimed);
    progress.set(Seen::Claimed(Box::new(next.clone())));
    let mut leased = Leased::new(next, Arc::clone(&worker.ports.ledger), worker.id, worker.settings.lease, lane.transport.attempt_max(), asked);
    let Some(letter) = letter else {
        let outcome = Outcome::new(OutcomeClass::Permanent, Stage::Artifact, "letter-missing", "the ledger holds no letter for it");
        return before(worker, lane, &leased, outcome, Vec::new()).await.map(Claim::Answered);
    };
    let ended = attempt::run(worker, lane, &mut leased, letter, progress).await;
    finish(worker, lane, &leased, ended, progress).await.map(Claim::Answered)
}

/// Carries out what an attempt came to.
async fn finish(worker: &Arc<Worker>, lane: &Arc<Lane>, leased: &Leased, ended: Ended, progress: &Progress) -> Result<Answer, LedgerError> {
    match ended {
        Ended::Before(outcome, pins) => before(worker, lane, leased, outcome, pins).await,
        Ended::Fenced => Ok(dropped(WakeUpResult::Stale)),
        Ended::GivenBack => {
            let now = worker.clock.now();
            let event = Event::GiveBack { worker: worker.id, waits_for: None, until: now };
            swap_event(worker, &leased.record, &event, now).await?;
            Ok(Answer::Ack)
        }
        Ended::Handed(token, known) => {
            let record = &leased.record;
            worker.ports.pauses.at(Point::AfterVerdict, &record.key).await;
            worker.verdicts.keep(&record.key, record.generation, token, &known);
            consequences(worker, lane, record, &outcome_of(&known)).await;
            progress.set(Seen::Reported);
            let reported = insist(&worker.ports, &record.key, record.generation, token, &known, &worker.kill).await;
            worker.ports.pauses.at(Point::AfterReport, &record.key).await;
            Ok(match reported {
                Some(Reported::Written(after)) => {
                    tell(record, &after, &known);
                    if after.state == State::DeadLetter { Answer::Reject } else { Answer::Ack }
                }
                Some(Reported::Evidence(_) | Reported::Known | Reported::Later) => {
                    metrics::duplicate_suppressed(Where::Evidence);
                    Answer::Ack
                }
                None => Answer::None,
            })
        }
    }
}

/// An attempt that ended before its intent.
async fn before(worker: &Arc<Worker>, lane: &Arc<Lane>, leased: &Leased, outcome: Outcome, pins: Vec<String>) -> Result<Answer, LedgerError> {
    consequences(worker, lane, &leased.record, &outcome).await;
    loop {
        let now = worker.clock.now();
        let rules = worker.ports.rulebook.rules(&leased.record, rand::random());
        let event = Event::Prepared { worker: worker.id, outcome: &outcome, rules, pins: pins.clone() };
        match swap_event(worker, &leased.record, &event, now).await {
            Ok(Some(after)) => {
                tell(&leased.record, &after, &Known::NotAccepted(outcome));
                return Ok(if after.state == State::DeadLetter { Answer::Reject } else { Answer::Ack });
            }
            Ok(None) => return Ok(dropped(WakeUpResult::Stale)),
            Err(error) => {
                tracing::warn!(key = %leased.record.key, error_class = "ledger", "an outcome waits to be written: {error}");
                tokio::select! {
                    () = worker.kill.cancelled() => return Ok(Answer::None),
                    () = tokio::time::sleep(Duration::from_millis(500)) => {}
                }
            }
        }
    }
}

/// A swap of one's own record; `None` where somebody was faster.
async fn swap_event(worker: &Worker, record: &Record, event: &Event<'_>, now: Moment) -> Result<Option<Record>, LedgerError> {
    let Ok(change) = transition(record, event, now) else { return Ok(None) };
    swap_change(worker, record, change).await
}

async fn swap_change(worker: &Worker, record: &Record, change: Change) -> Result<Option<Record>, LedgerError> {
    let next = change.record.clone();
    let swapped = worker.ports.ledger.swap(Swap::of(record, change)).await?;
    Ok(matches!(swapped, Swapped::Swapped).then_some(next))
}

/// A limit gives the job back in one swap.
async fn limit(worker: &Worker, record: &Record, by: WaitingFor, until: Moment) -> Result<Answer, LedgerError> {
    let now = worker.clock.now();
    swap_event(worker, record, &Event::Limited { by, until }, now).await?;
    Ok(dropped(WakeUpResult::Limited))
}

async fn suppressed(worker: &Worker, record: &Record) -> Result<Answer, LedgerError> {
    swap_event(worker, record, &Event::RecipientSuppressed, worker.clock.now()).await?;
    tracing::info!(job_id = %record.id, key = %record.key, to = "suppressed", reason = "suppression_list", "the recipient stands on the suppressions list");
    Ok(Answer::Ack)
}

/// What an outcome asks of its transport's holds.
async fn consequences(worker: &Arc<Worker>, lane: &Arc<Lane>, record: &Record, outcome: &Outcome) {
    metrics::attempt(outcome.class, &lane.settings.name);
    metrics::attempt_number(record.attempts);
    if outcome.class == OutcomeClass::Throttled {
        metrics::throttled(&lane.settings.name);
    }
    match lane.outcome(record.id, outcome, Instant::now()) {
        Consequence::None => {}
        Consequence::CoolDown(wait) => worker.cool_down(lane, wait, outcome.rule).await,
        Consequence::Opened(wait) => worker.circuit_opened(lane, wait, outcome).await,
        Consequence::Closed => worker.circuit_closed(lane).await,
    }
}

fn outcome_of(known: &Known) -> Outcome {
    match known {
        Known::Accepted(receipt) => {
            Outcome { receipt: Some(receipt.clone()), ..Outcome::new(OutcomeClass::Accepted, Stage::Dot, "accepted", String::new()) }
        }
        Known::NotAccepted(outcome) | Known::Unknown(outcome) => outcome.clone(),
    }
}

/// One line for each final outcome, one for each retry at a lower level; never an address.
fn tell(before: &Record, after: &Record, known: &Known) {
    let outcome = outcome_of(known);
    match after.state {
        State::Sent => {
            metrics::release_lateness(after.receipt.as_ref().map(|r| r.at.since(before.due())).unwrap_or_default());
            tracing::info!(job_id = %after.id, key = %after.key, shard = %after.shard, generation = after.generation, attempt = after.attempts, to = "sent", "sent");
        }
        State::DeadLetter | State::Suppressed | State::Cancelled => {
            let reason = after.reason.unwrap_or(Reason::PermanentFailure);
            metrics::dead_letter(reason);
            tracing::info!(job_id = %after.id, key = %after.key, shard = %after.shard, generation = after.generation, attempt = before.attempts, to = %after.state, reason = %reason, outcome = %outcome.class, "stopped: {}", outcome.rule);
        }
        State::Scheduled | State::Queued | State::Claimed | State::Handoff => {
            metrics::retry(after.reason.unwrap_or(Reason::TransientFailure));
            tracing::debug!(job_id = %after.id, key = %after.key, attempt = before.attempts, outcome = %outcome.class, "runs again: {}", outcome.rule);
        }
    }
}

fn dropped(as_what: WakeUpResult) -> Answer {
    metrics::wake_up(as_what);
    Answer::Ack
}

/// A delivery's task panicked: before the intent the job is given back, after it the handoff is in doubt, unless its stage proves
/// that no byte of the end marker left.
pub(crate) async fn panicked(worker: &Arc<Worker>, delivery: &Delivery, progress: &Progress) -> Answer {
    tracing::error!("a delivery panicked");
    match progress.get() {
        Seen::Handoff(record, token, stage) => {
            let proven = matches!(stage.get(), HandOffStage::ContentNotBegun | HandOffStage::Content);
            let class = if proven { OutcomeClass::Transient } else { OutcomeClass::Ambiguous };
            let outcome =
                Outcome::new(class, if proven { Stage::Content } else { Stage::Dot }, "worker-panicked", "the worker broke during the handoff");
            let known = if proven { Known::NotAccepted(outcome) } else { Known::Unknown(outcome) };
            insist(&worker.ports, &record.key, record.generation, token, &known, &worker.kill).await;
            Answer::Ack
        }
        Seen::Claimed(record) => strike(worker, &record).await,
        Seen::Unclaimed => match WakeUp::decode(&delivery.body) {
            Ok(wake) => match worker.ports.ledger.records(std::slice::from_ref(&wake.key)).await.map(|mut r| r.pop().flatten()) {
                Ok(Some(record)) => strike(worker, &record).await,
                Ok(None) | Err(_) => Answer::Reject,
            },
            Err(_malformed) => Answer::Reject,
        },
        Seen::Reported => Answer::Ack,
    }
}

async fn strike(worker: &Worker, record: &Record) -> Answer {
    let now = worker.clock.now();
    match swap_event(worker, record, &Event::Strike { until: now.plus(STRIKE_REST) }, now).await {
        Ok(Some(after)) if after.state == State::DeadLetter => Answer::Reject,
        Ok(_) | Err(_) => Answer::Ack,
    }
}
