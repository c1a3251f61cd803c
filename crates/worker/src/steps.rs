//! One delivery's life, from the broker's hand back into it.

use std::sync::Arc;
use std::time::Duration;

use curfew_book::EvidenceTaken;
use curfew_broker::Delivery;
use curfew_courier::Reported;
use curfew_domain::form::FormError;
use curfew_domain::limits::EARLY_WAIT_MAX;
use curfew_domain::outcome::{Outcome, Stage};
use curfew_domain::record::WaitingFor;
use curfew_domain::sealed::Sealed;
use curfew_domain::transition::{Counter, Event, Guard, Refusal, transition};
use curfew_domain::wake_up::WakeUp;
use curfew_domain::{Key, Moment, OutcomeClass, Record, State, Token};
use curfew_ledger::{Entry, LedgerError, Swap, Swapped};
use curfew_telemetry::metrics::{self, ResolvedBy, WakeUpResult, Where};
use curfew_transport::HandOffProgress;
use tokio::time::Instant;

use crate::attempt::{self, Ended, Progress, Seen};
use crate::gate::{self, Cooling, Gate};
use crate::heard;
use crate::lane::{Consequence, Lane};
use crate::lease::Leased;
use crate::pause::Point;
use crate::run::{ClaimOf, Slot, Worker};
use crate::tell;
use crate::turns::InLine;
use crate::verdicts::{Known, insist};
use crate::watch;

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

/// A tenant at its limit, where too many of its jobs wait here already, looks again after this.
const FULL_AGAIN: Duration = Duration::from_secs(1);
/// The longest that a delivery waits here for a place in flight; a quarter of a claim grace where that is shorter, for whatever waits longer than a
/// claim grace is published again.
const TURN_MAX: Duration = Duration::from_secs(5);
/// How far our clock may be ahead of the ledger's: a round trip.
const CLOCKS_APART: Duration = Duration::from_millis(10);
/// Between two tries of a claim whose answer was lost.
const CLAIM_AGAIN: Duration = Duration::from_millis(250);
/// How many jobs a second look again once their recipients' domain has cooled down.
const DOMAIN_JOBS_PER_S: f64 = 20.0;
/// A struck job rests this long.
const STRIKE_REST: Duration = Duration::from_secs(5);

/// Between two tries while the ledger is away.
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// Versions that are met between a read and the claim: a wake-up published again while its job waited for a slot.
const CLAIM_TRIES: u32 = 4;

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
    while !worker.give_back.is_cancelled() {
        match in_turn(worker, &wake, progress).await {
            Ok(answer) => return answer,
            // Its timer has it: once the shard works again, whoever finds it overdue publishes anew.
            Err(LedgerError::Recovering | LedgerError::Halted | LedgerError::OtherServer) => return dropped(WakeUpResult::Recovering),
            // A newer process's record: its timer finds a newer process. One that nobody can read is for the dead-letter consumer.
            Err(LedgerError::Unreadable(FormError::Newer(_))) => return dropped(WakeUpResult::Stale),
            Err(LedgerError::Unreadable(_)) => return Answer::Reject,
            Err(error) => {
                tracing::warn!(key = %wake.key, error_class = "ledger", "a delivery waits for the ledger: {error}");
                tokio::select! {
                    biased;
                    () = worker.give_back.cancelled() => {}
                    () = tokio::time::sleep(TRY_AGAIN) => {}
                }
            }
        }
    }
    Answer::None
}

/// What a look came to.
enum Looked {
    Answered(Answer),
    /// Its tenant has all the jobs in flight that it may have.
    TenantFull(Box<Record>),
}

/// Claims and runs; behind those of its tenant that wait for a place in flight.
async fn in_turn(worker: &Arc<Worker>, wake: &WakeUp, progress: &Progress) -> Result<Answer, LedgerError> {
    let tenant = wake.key.tenant();
    let max = worker.settings.tenants.limits(tenant).max_in_flight.unwrap_or(u64::MAX);
    let _in_hand = worker.turns.in_hand(wake.shard);
    let join = || worker.turns.join(tenant, wake.shard, max, worker.settings.prefetch());
    let mut in_line = if worker.turns.has_line(tenant) { join() } else { None };
    let mut may_join = in_line.is_none();
    let until = Instant::now() + TURN_MAX.min(worker.settings.claim_grace / 4);
    loop {
        if let Some(place) = &mut in_line {
            let is_first = tokio::select! {
                biased;
                () = worker.give_back.cancelled() => return Ok(Answer::None),
                is_first = place.be_first(until) => is_first,
            };
            if !is_first {
                in_line = None; // looks once, past those in front
            }
        }
        let full = match look(worker, wake, progress, &mut in_line).await? {
            Looked::Answered(answer) => return Ok(answer),
            Looked::TenantFull(record) => record,
        };
        in_line = match in_line.take() {
            None if may_join => join(),
            Some(place) if Instant::now() < until => {
                tokio::select! {
                    biased;
                    () = worker.give_back.cancelled() => return Ok(Answer::None),
                    () = place.freed() => {}
                }
                Some(place)
            }
            Some(_) | None => None,
        };
        may_join = false;
        if in_line.is_none() {
            return limit(worker, &full, WaitingFor::TenantInFlight, worker.clock.now().plus(FULL_AGAIN)).await;
        }
    }
}

/// One look at the job: claimed and run, or what else becomes of it. Its place in line is left with the claim.
async fn look(worker: &Arc<Worker>, wake: &WakeUp, progress: &Progress, in_line: &mut Option<InLine<'_>>) -> Result<Looked, LedgerError> {
    let Some(entry) = worker.ports.ledger.get(&wake.key).await? else { return Ok(Looked::Answered(Answer::Reject)) };
    let Entry { record, letter, .. } = entry;
    if record.generation != wake.generation {
        return Ok(Looked::Answered(dropped(WakeUpResult::Stale)));
    }
    if !waits(&record) {
        metrics::duplicate_suppressed(Where::Claim);
        return Ok(Looked::Answered(dropped(WakeUpResult::Duplicate)));
    }
    let now = worker.clock.now();
    if record.due().since(now) >= EARLY_WAIT_MAX {
        return Ok(Looked::Answered(dropped(WakeUpResult::Early)));
    }
    if now >= record.stops_at() {
        return Ok(Looked::Answered(dropped(WakeUpResult::Stale)));
    }
    let Some(lane) = worker.ports.lanes.get(&record.transport).cloned() else {
        tracing::error!(key = %record.key, error_class = "transport", "the transport {} isn't configured; its jobs wait", record.transport);
        return limit(worker, &record, WaitingFor::Circuit, now.plus(Duration::from_secs(30))).await.map(Looked::Answered);
    };
    wait_until(worker, record.due()).await;
    // Looked at before slots and permits are taken for nothing; the claim's swap decides.
    if is_full(worker, &record).await? {
        return Ok(Looked::TenantFull(Box::new(record)));
    }
    let _seat = match worker.slot(&lane, record.shard).await {
        Slot::Taken(seat) => seat,
        // Spread, so that a crowd doesn't come back as one and again stand in front of the others.
        Slot::Crowded => {
            let again = FULL_AGAIN + FULL_AGAIN.mul_f64(worker.ports.machine.fraction() * 4.0);
            return limit(worker, &record, WaitingFor::TransportRate, worker.clock.now().plus(again)).await.map(Looked::Answered);
        }
        Slot::Draining => return Ok(Looked::Answered(Answer::None)),
    };
    match gate::ask(worker, &lane, &record, worker.clock.now()).await? {
        Gate::Limited(by, until) => limit(worker, &record, by, until).await.map(Looked::Answered),
        Gate::Open(cooling) => {
            let _entered = Entered(&lane);
            claimed(worker, &lane, record, letter, &cooling, progress, in_line).await
        }
    }
}

async fn is_full(worker: &Worker, record: &Record) -> Result<bool, LedgerError> {
    let Some(max) = worker.settings.tenants.limits(record.tenant()).max_in_flight else { return Ok(false) };
    let flying = worker.ports.ledger.counts(record.shard, &[Counter::TenantInFlight(record.tenant().to_owned())]).await?;
    Ok(flying.first().is_some_and(|flying| *flying >= max))
}

fn waits(record: &Record) -> bool {
    matches!(record.state, State::Queued | State::Scheduled)
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
    let left = due.since(worker.clock.surely());
    if !left.is_zero() {
        tokio::time::sleep(left.min(EARLY_WAIT_MAX)).await;
    }
}

/// Claims and runs. The wake-up may be faster than the swap to `queued` that follows its confirm: whoever comes second looks again.
/// What a claim came to.
enum Claim {
    Ours(Box<Record>, Instant, ClaimOf),
    Answered(Answer),
    TenantFull(Box<Record>),
}

/// Claims the job in whatever version it waits now.
async fn claim(worker: &Arc<Worker>, mut record: Record) -> Result<Claim, LedgerError> {
    let limit_in_flight = worker.settings.tenants.limits(record.tenant()).max_in_flight;
    let answered = |as_what| Ok(Claim::Answered(dropped(as_what)));
    for _ in 0..CLAIM_TRIES {
        let Some(claim_of) = worker.claim_of(&record) else { return answered(WakeUpResult::Duplicate) };
        heard::ensure(worker, record.shard, record.incarnation).await?;
        let asked = Instant::now();
        let change = match transition(&record, &Event::Claim { worker: worker.id, lease: worker.settings.lease }, worker.clock.now()) {
            Ok(change) => change,
            Err(Refusal::NotDue(at)) => {
                drop(claim_of);
                wait_until(worker, at).await;
                continue;
            }
            Err(_refused) => return answered(WakeUpResult::Stale),
        };
        let next = change.record.clone();
        let mut swap = Swap::of(&record, change);
        if let Some(max) = limit_in_flight {
            swap = swap.below(Counter::TenantInFlight(record.tenant().to_owned()), max);
        }
        match swap_until_answered(worker, swap, asked).await? {
            Swapped::Swapped => return Ok(Claim::Ours(Box::new(next), asked, claim_of)),
            Swapped::Conflict(standing) if standing.generation == record.generation && waits(&standing) => record = *standing,
            Swapped::Conflict(_) | Swapped::Missing => {
                metrics::duplicate_suppressed(Where::Claim);
                return answered(WakeUpResult::Duplicate);
            }
            Swapped::Refused(Guard::NotSuppressed(_)) => return suppressed(worker, &record).await.map(Claim::Answered),
            // Our clock was ahead by some milliseconds.
            Swapped::Refused(Guard::NotBefore(_)) => tokio::time::sleep(CLOCKS_APART).await,
            Swapped::Refused(Guard::Before(_)) => return answered(WakeUpResult::Stale),
            Swapped::Full => return Ok(Claim::TenantFull(Box::new(record))),
        }
    }
    answered(WakeUpResult::Early)
}

/// A claim whose answer was lost is asked again in the same bytes: found there, it is ours. Not for longer than a third of its lease.
async fn swap_until_answered(worker: &Worker, swap: Swap, asked: Instant) -> Result<Swapped, LedgerError> {
    loop {
        match worker.ports.ledger.swap(swap.clone()).await {
            Err(LedgerError::Unavailable { .. }) if asked.elapsed() < worker.settings.lease / 3 && !worker.kill.is_cancelled() => {
                tokio::time::sleep(CLAIM_AGAIN).await;
            }
            answer => return answer,
        }
    }
}

async fn claimed(
    worker: &Arc<Worker>,
    lane: &Arc<Lane>,
    record: Record,
    letter: Option<Sealed>,
    cooling: &Cooling,
    progress: &Progress,
    in_line: &mut Option<InLine<'_>>,
) -> Result<Looked, LedgerError> {
    let (record, asked, _claim_of) = match claim(worker, record).await? {
        Claim::Ours(record, asked, claim_of) => (*record, asked, claim_of),
        Claim::Answered(answer) => return Ok(Looked::Answered(answer)),
        Claim::TenantFull(record) => return Ok(Looked::TenantFull(record)),
    };
    *in_line = None;
    let _in_flight = InFlight { worker, tenant: record.tenant().to_owned() };
    metrics::wake_up(WakeUpResult::Claimed);
    progress.set(Seen::Claimed(Box::new(record.clone())));
    let mut leased = Leased::new(
        record,
        Arc::clone(&worker.ports.ledger),
        worker.id,
        worker.settings.lease,
        lane.transport.attempt_max(),
        asked,
        worker.clock.now(),
    );
    tell::claimed(&leased.record);
    let Some(letter) = letter else {
        let outcome = Outcome::new(OutcomeClass::Permanent, Stage::Artifact, "letter-missing", "the ledger holds no letter for it");
        return Ok(Looked::Answered(before(worker, lane, &mut leased, outcome, Vec::new()).await));
    };
    let ended = attempt::run(worker, lane, &mut leased, &letter, cooling, progress).await;
    Ok(Looked::Answered(finish(worker, lane, &mut leased, ended).await))
}

/// Tells those that wait when it ends.
struct InFlight<'a> {
    worker: &'a Worker,
    tenant: String,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.worker.turns.freed(&self.tenant);
    }
}

/// Carries out what an attempt came to.
async fn finish(worker: &Arc<Worker>, lane: &Arc<Lane>, leased: &mut Leased, ended: Ended) -> Answer {
    match ended {
        Ended::Before(outcome, pins) => before(worker, lane, leased, outcome, pins).await,
        Ended::Fenced => dropped(WakeUpResult::Stale),
        Ended::Returned => Answer::Ack,
        Ended::GivenBack => given_back(worker, leased, None).await,
        Ended::Cooling(until) => given_back(worker, leased, Some(until)).await,
        Ended::Handed(token, known) => handed(worker, lane, leased, token, &known).await,
    }
}

/// A give-back, of a drain at once, of a domain that cools down `until` then: an unanswered one is tried again until a drain's time is over.
async fn given_back(worker: &Worker, leased: &mut Leased, cools_until: Option<Moment>) -> Answer {
    let until = cools_until.map(|until| worker.spacing.after("domains", until, DOMAIN_JOBS_PER_S, worker.clock.now()));
    while !worker.kill.is_cancelled() {
        let now = worker.clock.now();
        let event = Event::GiveBack { worker: worker.id, waits_for: until.map(|_| WaitingFor::CoolDown), until: until.unwrap_or(now) };
        match leased.swap_own(&event, now).await {
            Ok(_given_back_or_moved_on) => return Answer::Ack,
            Err(LedgerError::OtherServer | LedgerError::Recovering) => return dropped(WakeUpResult::Recovering),
            Err(_unanswered) => tokio::time::sleep(TRY_AGAIN).await,
        }
    }
    Answer::None
}

/// A handoff with its verdict. The lane knows at once what it says of the transport; the stores hear the verdict first and the hold after it,
/// for nobody renews the lease any more.
async fn handed(worker: &Arc<Worker>, lane: &Arc<Lane>, leased: &Leased, token: Token, known: &Known) -> Answer {
    let record = &leased.record;
    worker.ports.pauses.at(Point::AfterVerdict, &record.key).await;
    let outcome = outcome_of(known);
    let consequence = judged(worker, lane, leased, &outcome);
    let reported = insist(worker, record, token, known).await;
    worker.ports.pauses.at(Point::AfterReport, &record.key).await;
    watch::carry_out(worker, lane, consequence, &outcome, leased.domain.as_deref()).await;
    match reported {
        Some(Reported::Written(after)) => {
            // More than one version on: its lease had ended, and the doubt that this left is resolved now.
            if after.state == State::Sent && after.version > record.version + 1 {
                metrics::in_doubt_resolved(ResolvedBy::LateVerdict);
            }
            tell::attempted(leased, record, &after, known, worker.clock.now());
            if after.state == State::DeadLetter { Answer::Reject } else { Answer::Ack }
        }
        Some(Reported::Evidence(taken)) => {
            if matches!(taken, EvidenceTaken::Sent | EvidenceTaken::DoubtEnded) {
                metrics::in_doubt_resolved(ResolvedBy::LateVerdict);
            }
            metrics::duplicate_suppressed(Where::Evidence);
            Answer::Ack
        }
        Some(Reported::Known | Reported::Later) => {
            metrics::duplicate_suppressed(Where::Evidence);
            Answer::Ack
        }
        None => Answer::None,
    }
}

/// An attempt that ended before its intent.
async fn before(worker: &Arc<Worker>, lane: &Arc<Lane>, leased: &mut Leased, outcome: Outcome, pins: Vec<String>) -> Answer {
    let consequence = judged(worker, lane, leased, &outcome);
    let answer = write_before(worker, leased, &outcome, pins).await;
    watch::carry_out(worker, lane, consequence, &outcome, leased.domain.as_deref()).await;
    answer
}

async fn write_before(worker: &Worker, leased: &mut Leased, outcome: &Outcome, pins: Vec<String>) -> Answer {
    let jitter = worker.ports.machine.fraction();
    loop {
        let was = leased.record.clone();
        let rules = worker.ports.rulebook.rules(&was, jitter);
        let event = Event::Prepared { worker: worker.id, outcome, rules, pins: pins.clone() };
        match leased.swap_own(&event, worker.clock.now()).await {
            Ok(Some(after)) => {
                tell::attempted(leased, &was, &after, &Known::NotAccepted(outcome.clone()), worker.clock.now());
                return if after.state == State::DeadLetter { Answer::Reject } else { Answer::Ack };
            }
            Ok(None) => return dropped(WakeUpResult::Stale),
            // The claim is of before its shard was lost: recovery gives it back.
            Err(LedgerError::OtherServer | LedgerError::Recovering) => return dropped(WakeUpResult::Recovering),
            Err(error) => {
                tracing::warn!(key = %was.key, error_class = "ledger", "an outcome waits to be written: {error}");
                tokio::select! {
                    biased;
                    () = worker.kill.cancelled() => return Answer::None,
                    () = tokio::time::sleep(TRY_AGAIN) => {}
                }
            }
        }
    }
}

/// A swap of a job that waits, in whatever version it waits now: a wake-up may be here before the scheduler's own swap to `queued`, and a
/// give-back that lost against that one would leave the job queued with no wake-up left.
async fn swap_waiting(worker: &Worker, record: &Record, event: &Event<'_>) -> Result<(), LedgerError> {
    let mut record = record.clone();
    for _ in 0..CLAIM_TRIES {
        let Ok(change) = transition(&record, event, worker.clock.now()) else { return Ok(()) };
        match worker.ports.ledger.swap(Swap::of(&record, change)).await? {
            Swapped::Conflict(standing) if standing.generation == record.generation && waits(&standing) => record = *standing,
            Swapped::Swapped | Swapped::Conflict(_) | Swapped::Missing | Swapped::Refused(_) | Swapped::Full => return Ok(()),
        }
    }
    Ok(())
}

/// A limit gives the job back in one swap.
async fn limit(worker: &Worker, record: &Record, by: WaitingFor, until: Moment) -> Result<Answer, LedgerError> {
    swap_waiting(worker, record, &Event::Limited { by, until }).await?;
    Ok(dropped(WakeUpResult::Limited))
}

async fn suppressed(worker: &Worker, record: &Record) -> Result<Answer, LedgerError> {
    swap_waiting(worker, record, &Event::RecipientSuppressed).await?;
    tracing::info!(job_id = %record.id, key = %record.key, to = "suppressed", reason = "suppression_list", "the recipient stands on the suppressions list");
    Ok(Answer::Ack)
}

/// Counts an outcome and tells its lane; what that asks of the transport's holds.
fn judged(worker: &Worker, lane: &Lane, leased: &Leased, outcome: &Outcome) -> Consequence {
    let record = &leased.record;
    metrics::attempt(outcome.class, &lane.settings.name);
    metrics::attempt_number(record.attempts);
    worker.meter.one(Instant::now());
    if outcome.class == OutcomeClass::Throttled {
        metrics::throttled(&lane.settings.name);
    }
    let now = worker.clock.now();
    tell::tidings(lane, outcome, now);
    lane.outcome(record.id, outcome, leased.domain.as_deref(), now)
}

pub(crate) fn outcome_of(known: &Known) -> Outcome {
    match known {
        Known::Accepted(receipt) => {
            Outcome { receipt: Some(receipt.clone()), ..Outcome::new(OutcomeClass::Accepted, Stage::Dot, "accepted", String::new()) }
        }
        Known::NotAccepted(outcome) | Known::Unknown(outcome) => outcome.clone(),
    }
}

fn dropped(as_what: WakeUpResult) -> Answer {
    metrics::wake_up(as_what);
    Answer::Ack
}

/// A delivery's task panicked: before the intent the job is given back; after it the verdict is reported where one is known, else the
/// handoff is in doubt, unless its stage proves that no byte of the end marker left.
pub(crate) async fn panicked(worker: &Arc<Worker>, delivery: &Delivery, progress: &Progress) -> Answer {
    tracing::error!("a delivery panicked");
    match progress.get() {
        Seen::Handoff(record, token, stage) => {
            let known = worker.verdicts.of(token).unwrap_or_else(|| by_stage(&stage));
            match insist(worker, &record, token, &known).await {
                Some(Reported::Written(after)) if after.state == State::DeadLetter => Answer::Reject,
                Some(_reported) => Answer::Ack,
                None => Answer::None,
            }
        }
        Seen::Claimed(record) => strike(worker, &record.key, record.generation, Struck::InHand).await,
        Seen::Unclaimed => match WakeUp::decode(&delivery.body) {
            Ok(wake) => strike(worker, &wake.key, wake.generation, Struck::Waiting).await,
            Err(_malformed) => Answer::Reject,
        },
    }
}

fn by_stage(stage: &HandOffProgress) -> Known {
    let what = "the worker broke during the handoff";
    if stage.proves_not_handed_off() {
        Known::NotAccepted(Outcome::new(OutcomeClass::Transient, Stage::Content, "worker-panicked", what))
    } else {
        Known::Unknown(Outcome::new(OutcomeClass::Ambiguous, Stage::Dot, "worker-panicked", what))
    }
}

/// Which record a broken delivery may strike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Struck {
    /// It broke after its claim, which this worker holds in whatever version its renewals made.
    InHand,
    /// It broke before: what another delivery claimed meanwhile is not its own.
    Waiting,
}

async fn strike(worker: &Worker, key: &Key, generation: u32, struck: Struck) -> Answer {
    for _ in 0..CLAIM_TRIES {
        let record = match worker.ports.ledger.records(std::slice::from_ref(key)).await.map(|mut found| found.pop().flatten()) {
            Ok(Some(record)) if record.generation == generation => record,
            Ok(None) => return Answer::Reject,
            Ok(Some(_)) | Err(_) => return Answer::Ack,
        };
        let own = match struck {
            Struck::InHand => record.state == State::Claimed && record.worker == Some(worker.id),
            Struck::Waiting => waits(&record),
        };
        let now = worker.clock.now();
        let Some(change) = transition(&record, &Event::Strike { until: now.plus(STRIKE_REST) }, now).ok().filter(|_| own) else {
            return Answer::Ack;
        };
        let ended = change.record.state == State::DeadLetter;
        match worker.ports.ledger.swap(Swap::of(&record, change)).await {
            Ok(Swapped::Swapped) if ended => return Answer::Reject,
            Ok(Swapped::Conflict(_)) => {}
            Ok(Swapped::Swapped | Swapped::Missing | Swapped::Refused(_) | Swapped::Full) | Err(_) => return Answer::Ack,
        }
    }
    Answer::Ack
}
