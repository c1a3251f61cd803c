//! Every kind of event, as chance makes it, through the domain's own `transition`.

use std::time::Duration;

use curfew_domain::outcome::{Outcome, OutcomeClass, Receipt, Stage};
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::record::WaitingFor;
use curfew_domain::transition::{Assertion, BookStory, Change, Event, Rules, Verdict};
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Moment, Reason, Record, Refusal, State, Token, WorkerId, transition};
use curfew_testkit::sim::World;
use uuid::Uuid;

/// The events, in the order of the domain's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Release,
    Claim,
    Limited,
    Renew,
    Intent,
    Prepared,
    Verdict,
    GiveBack,
    LeaseOver,
    DeadlineReached,
    Strike,
    Verb,
    RecipientSuppressed,
    Closed,
    Asserted,
    RolledBack,
    BookWins,
    MovedInBook,
    SentInGeneration,
    ClaimDropped,
}

impl Kind {
    pub const ALL: [Kind; 20] = [
        Kind::Release,
        Kind::Claim,
        Kind::Limited,
        Kind::Renew,
        Kind::Intent,
        Kind::Prepared,
        Kind::Verdict,
        Kind::GiveBack,
        Kind::LeaseOver,
        Kind::DeadlineReached,
        Kind::Strike,
        Kind::Verb,
        Kind::RecipientSuppressed,
        Kind::Closed,
        Kind::Asserted,
        Kind::RolledBack,
        Kind::BookWins,
        Kind::MovedInBook,
        Kind::SentInGeneration,
        Kind::ClaimDropped,
    ];

    /// The kind of an event: a new one doesn't compile until it has a story here.
    fn of(event: &Event<'_>) -> Self {
        match event {
            Event::Release { .. } => Kind::Release,
            Event::Claim { .. } => Kind::Claim,
            Event::Limited { .. } => Kind::Limited,
            Event::Renew { .. } => Kind::Renew,
            Event::Intent { .. } => Kind::Intent,
            Event::Prepared { .. } => Kind::Prepared,
            Event::Verdict { .. } => Kind::Verdict,
            Event::GiveBack { .. } => Kind::GiveBack,
            Event::LeaseOver { .. } => Kind::LeaseOver,
            Event::DeadlineReached => Kind::DeadlineReached,
            Event::Strike { .. } => Kind::Strike,
            Event::Verb(_) => Kind::Verb,
            Event::RecipientSuppressed => Kind::RecipientSuppressed,
            Event::Closed => Kind::Closed,
            Event::Asserted { .. } => Kind::Asserted,
            Event::RolledBack { .. } => Kind::RolledBack,
            Event::BookWins(_) => Kind::BookWins,
            Event::MovedInBook { .. } => Kind::MovedInBook,
            Event::SentInGeneration(_) => Kind::SentInGeneration,
            Event::ClaimDropped => Kind::ClaimDropped,
        }
    }

    /// In percent, how readily chance takes it: what ends a job wherever it stands comes seldom, or no job would come far.
    fn readiness(self) -> f64 {
        match self {
            Kind::DeadlineReached | Kind::Closed | Kind::SentInGeneration => 50.0,
            Kind::Verb | Kind::Asserted | Kind::Strike | Kind::MovedInBook => 25.0,
            Kind::RecipientSuppressed | Kind::RolledBack | Kind::BookWins | Kind::ClaimDropped => 8.0,
            Kind::Release | Kind::Claim | Kind::Limited | Kind::Renew | Kind::Intent => 100.0,
            Kind::Prepared | Kind::Verdict | Kind::GiveBack | Kind::LeaseOver => 100.0,
        }
    }
}

/// A change that chance makes of a record at a moment, and of what kind; `refused` hears of the others that it tried.
pub fn change(world: &World, record: &Record, now: Moment, number: u64, mut refused: impl FnMut(&Refusal)) -> Option<(Kind, Change)> {
    (0..40).find_map(|_| {
        // Mostly what moves a job on from where it is.
        let fits = world.happens(60.0);
        let kind = *world.one_of(if fits { onward(record) } else { &Kind::ALL })?;
        if !fits && !world.happens(kind.readiness()) {
            return None;
        }
        made(world, kind, record, now, number).inspect_err(&mut refused).ok().map(|change| (kind, change))
    })
}

/// What the roles would do with it.
fn onward(record: &Record) -> &'static [Kind] {
    match record.state {
        State::Scheduled => &[Kind::Release, Kind::Claim, Kind::Claim, Kind::Limited],
        State::Queued => &[Kind::Claim, Kind::Claim, Kind::Claim, Kind::Limited, Kind::Release],
        State::Claimed => &[Kind::Intent, Kind::Intent, Kind::Intent, Kind::Prepared, Kind::GiveBack, Kind::Renew, Kind::ClaimDropped],
        State::Handoff => &[Kind::Verdict, Kind::Verdict, Kind::Renew, Kind::LeaseOver, Kind::Asserted],
        State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => &[Kind::Closed, Kind::Verdict, Kind::Verb],
    }
}

/// What an event of a kind may carry, drawn afresh.
struct Parts {
    policy: Policy,
    outcome: Outcome,
    receipt: Receipt,
    held: Record,
    verb: NumberedVerb,
    story: BookStory,
    token: Token,
    worker: WorkerId,
    lease: Duration,
    until: Moment,
    window: Option<Duration>,
}

fn made(world: &World, kind: Kind, record: &Record, now: Moment, number: u64) -> Result<Change, Refusal> {
    let parts = Parts::drawn(world, record, now, number);
    let event = parts.event(world, kind, record);
    assert_eq!(Kind::of(&event), kind);
    transition(record, &event, now)
}

impl Parts {
    fn drawn(world: &World, record: &Record, now: Moment, number: u64) -> Self {
        let classes: Vec<OutcomeClass> = OutcomeClass::ALL.iter().copied().filter(|class| *class != OutcomeClass::Accepted).collect();
        let class = *world.one_of(&classes).expect("there are some");
        let mut outcome = Outcome::new(class, Stage::Connect, "test", "4".repeat(world.below(300) as usize));
        outcome.retry_after = world.happens(20.0).then(|| world.between(Duration::ZERO, Duration::from_secs(300)));
        let tokens = record.open_tokens();
        let fresh = Token(world.uuid());
        let known = record.token.or_else(|| world.one_of(&tokens).copied()).unwrap_or(fresh);
        let token = if world.happens(85.0) { known } else { fresh };
        let queue_id = world.happens(50.0).then(|| "4XyZ".to_owned());
        let receipt = Receipt { at: now, code: 250, text: "ok".into(), queue_id };
        let own = record.worker.unwrap_or(WorkerId(Uuid::from_u128(7)));
        let soon = world.between(Duration::ZERO, Duration::from_secs(90));
        let held = {
            let mut held = record.clone();
            (held.version, held.state, held.token) = (record.version + 3, State::Handoff, Some(fresh));
            (held.worker, held.lease_until) = (Some(own), Some(now.plus(soon)));
            held
        };
        Self {
            policy: policy(world),
            outcome,
            receipt: receipt.clone(),
            held,
            verb: verb(world, record, now, number),
            story: story(world, record, receipt, token),
            token,
            worker: if world.happens(90.0) { own } else { WorkerId(world.uuid()) },
            lease: world.between(Duration::from_secs(10), Duration::from_secs(120)),
            until: now.plus(soon),
            window: world.happens(40.0).then_some(Duration::from_secs(3_600)),
        }
    }

    fn event<'a>(&'a self, world: &World, kind: Kind, record: &Record) -> Event<'a> {
        let rules = Rules { policy: &self.policy, jitter: world.fraction(), idempotency_window: self.window, attempt_max: Duration::from_secs(60) };
        let (worker, token, lease, until) = (self.worker, self.token, self.lease, self.until);
        let waits_for = world.one_of(WaitingFor::ALL).copied();
        match kind {
            Kind::Release => Event::Release { claim_grace: Duration::from_secs(30) },
            Kind::Claim => Event::Claim { worker, lease },
            Kind::Limited => Event::Limited { by: waits_for.unwrap_or(WaitingFor::Pause), until },
            Kind::Renew => Event::Renew { worker, lease },
            Kind::Intent => Event::Intent { worker, token: Token(world.uuid()), lease, pins: pins(world) },
            Kind::Prepared => Event::Prepared { worker, outcome: &self.outcome, rules, pins: pins(world) },
            Kind::Verdict => Event::Verdict { token, verdict: self.verdict(world), rules },
            Kind::GiveBack => Event::GiveBack { worker, waits_for: waits_for.filter(|_| world.happens(50.0)), until },
            Kind::LeaseOver => Event::LeaseOver { rules },
            Kind::DeadlineReached => Event::DeadlineReached,
            Kind::Strike => Event::Strike { until },
            Kind::Verb => Event::Verb(&self.verb),
            Kind::RecipientSuppressed => Event::RecipientSuppressed,
            Kind::Closed => Event::Closed,
            Kind::Asserted => Event::Asserted { generation: record.generation, token, assertion: self.assertion(world) },
            Kind::RolledBack => Event::RolledBack { until: world.happens(50.0).then_some(until) },
            Kind::BookWins => Event::BookWins(&self.story),
            Kind::MovedInBook => Event::MovedInBook { release_at: until, deadline_at: until.plus(Duration::from_secs(600)) },
            Kind::SentInGeneration => Event::SentInGeneration(record.generation + 1),
            Kind::ClaimDropped => Event::ClaimDropped,
        }
    }

    fn verdict(&self, world: &World) -> Verdict<'_> {
        match world.below(3) {
            0 => Verdict::Accepted(&self.receipt),
            1 => Verdict::NotAccepted(&self.outcome),
            _two => Verdict::Unknown(&self.outcome),
        }
    }

    fn assertion(&self, world: &World) -> Assertion<'_> {
        match world.below(3) {
            0 => Assertion::Receipt(&self.receipt),
            1 => Assertion::Handoff(&self.held),
            _two => Assertion::Unknown,
        }
    }
}

fn policy(world: &World) -> Policy {
    let delays = [1, 30, 300].map(Duration::from_secs);
    let backoff = match world.happens(50.0) {
        true => Backoff::Delays(delays.to_vec()),
        false => Backoff::Exponential { base: Duration::from_secs(1), factor: 2.0, cap: Duration::from_secs(600) },
    };
    let (name, jitter) = ("default".to_owned(), Jitter { lo_ms: 0, hi_ms: 2_000, percent: None });
    Policy { name, version: 1, backoff, max_attempts: Some(6), jitter, at_deadline: AtDeadline::Review }
}

fn verb(world: &World, record: &Record, now: Moment, number: u64) -> NumberedVerb {
    let release_at = now.plus(world.between(Duration::ZERO, Duration::from_secs(300)));
    let moved = Verb::Move { release_at, deadline_at: release_at.plus(world.between(Duration::from_secs(1), Duration::from_secs(7_200))) };
    let verb = match world.below(10) {
        0 => Verb::Cancel,
        1 => Verb::Suppress,
        _mostly => moved,
    };
    NumberedVerb { number: if world.happens(70.0) { number } else { 1 + world.below(number) }, generation: record.generation, verb }
}

fn story(world: &World, record: &Record, receipt: Receipt, token: Token) -> BookStory {
    let (state, reason) = match world.below(3) {
        0 => (State::Sent, Reason::Accepted),
        1 => (State::Cancelled, Reason::Operator),
        _two => (State::DeadLetter, Reason::LedgerRolledBack),
    };
    let generation = record.generation + world.below(2) as u32;
    let (receipt, token) = ((state == State::Sent).then_some(receipt), (state == State::DeadLetter).then_some(token));
    BookStory { generation, state, reason: Some(reason), receipt, token, window_doubts: Vec::new(), doubts: record.doubts.clone() }
}

fn pins(world: &World) -> Vec<String> {
    if world.happens(20.0) { vec!["ab".repeat(32)] } else { Vec::new() }
}
