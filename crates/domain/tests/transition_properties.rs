//! What holds after any sequence of events, whoever sends them and however late: the promises of DESIGN 1 and 3.2, as far as one record can keep them.

mod records;

use std::collections::BTreeSet;
use std::time::Duration;

use curfew_domain::form::{decode, encode};
use curfew_domain::limits::{
    DOUBTS_MAX, IDEMPOTENCY_MARGIN, RECORD_BYTES_LONGEST, RECORD_BYTES_MAX, RECORD_DIAGNOSTIC_BYTES_MAX, RECORD_PINS_MAX, VERBS_KEPT,
};
use curfew_domain::outcome::{Outcome, Receipt, Stage};
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::record::{LastOutcome, WaitingFor};
use curfew_domain::sealed::RecipientRef;
use curfew_domain::transition::{Change, Counter, Event, Guard, Index, Letter, Rules, Verdict, counters, created, transition};
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Key, Moment, OutcomeClass, Reason, Record, Refusal, State, Token, WorkerId};
use proptest::prelude::*;
use records::at;
use uuid::Uuid;

const RETRIES: u32 = 3;
const ATTEMPT_MAX: Duration = Duration::from_secs(120);
const LEASE: Duration = Duration::from_secs(60);

/// What somebody tries, after some time; `a` and `b` choose among workers, tokens, moments and verdicts.
#[derive(Clone, Copy, Debug)]
struct Try {
    kind: u8,
    a: u8,
    b: u8,
    passed_ms: u32,
}

fn tries() -> impl Strategy<Value = Vec<Try>> {
    let passed = prop_oneof![4 => 0u32..2_000, 3 => 0u32..70_000, 1 => 0u32..600_000];
    let one = (0u8..24, any::<u8>(), any::<u8>(), passed).prop_map(|(kind, a, b, passed_ms)| Try { kind, a, b, passed_ms });
    prop::collection::vec(one, 1..120)
}

/// One record and everything that its promises speak of.
struct Life {
    record: Record,
    now: Moment,
    window: Option<Duration>,
    policy: Policy,
    /// Tokens drawn; the number is the next one's.
    drawn: u128,
    /// Tokens of intents that nobody has said anything certain about.
    unsettled: BTreeSet<Token>,
    verbs: u64,
}

impl Life {
    fn new(at_deadline: AtDeadline, window: Option<Duration>, now: Moment) -> Self {
        let policy = Policy {
            name: "default".into(),
            version: 2,
            backoff: Backoff::Delays(vec![Duration::from_secs(30); RETRIES as usize]),
            max_attempts: None,
            jitter: Jitter { lo_ms: 0, hi_ms: 5_000, percent: None },
            at_deadline: at_deadline.clone(),
        };
        let record = Record { at_deadline, ..records::record() };
        let change = created(record.clone(), now);
        assert_eq!(change.record.waiting_for, (now < record.release_at).then_some(WaitingFor::Release));
        well_formed(&change);
        Self { record: change.record, now, window, policy, drawn: 0, unsettled: BTreeSet::new(), verbs: 0 }
    }

    fn step(&mut self, one: Try) {
        self.now = self.now.plus(Duration::from_millis(one.passed_ms.into()));
        let worker = WorkerId(Uuid::from_u128(1 + u128::from(one.a % 2)));
        let policy = self.policy.clone();
        let rules = Rules { policy: &policy, jitter: f64::from(one.b) / 255.0, idempotency_window: self.window, attempt_max: ATTEMPT_MAX };
        let until = self.now.plus(Duration::from_millis(u64::from(one.b) * 100));
        let outcome = outcome(one.b);
        match one.kind {
            0..=2 => self.try_event(&Event::Release { claim_grace: LEASE }),
            3..=6 => self.try_event(&Event::Claim { worker, lease: LEASE }),
            7 => self.try_event(&Event::Limited { by: WaitingFor::TenantRate, until }),
            8 => self.try_event(&Event::Renew { worker, lease: LEASE }),
            9..=12 => self.intend(worker),
            13 => self.try_event(&Event::Prepared { worker, outcome: &outcome, rules, pins: Vec::new() }),
            14 => self.try_event(&Event::GiveBack { worker, waits_for: None, until }),
            15..=18 => self.report(one, &outcome, rules),
            19 => self.try_event(&Event::LeaseOver { rules }),
            20 => self.try_event(&Event::DeadlineReached),
            21 if one.a < 64 => self.try_event(&Event::Strike { until }),
            22 if one.a < 64 => self.ask(one),
            22 if one.a > 250 => self.try_event(&Event::RecipientSuppressed),
            _close => self.try_event(&Event::Closed),
        }
    }

    /// The latest token, or any other ever drawn.
    fn report(&mut self, one: Try, outcome: &Outcome, rules: Rules<'_>) {
        let number = if one.a < 128 { self.drawn } else { 1 + u128::from(one.a) % (self.drawn + 1) };
        let token = Token(Uuid::from_u128(100 + number));
        let receipt = Receipt { at: self.now, code: 250, text: "ok".into(), queue_id: None };
        let verdict = match one.b % 8 {
            0 => Verdict::Accepted(&receipt),
            1..=3 => Verdict::Unknown(outcome),
            _refused => Verdict::NotAccepted(outcome),
        };
        let certain = matches!(verdict, Verdict::NotAccepted(o) if !matches!(o.class, OutcomeClass::Accepted | OutcomeClass::Ambiguous));
        let before = self.record.version;
        self.try_event_settling(&Event::Verdict { token, verdict, rules }, certain.then_some(token));
        assert!(!matches!(verdict, Verdict::Accepted(_)) || self.record.version == before || self.record.state == State::Sent);
    }

    fn intend(&mut self, worker: WorkerId) {
        let token = Token(Uuid::from_u128(101 + self.drawn));
        let before = self.record.clone();
        self.try_event(&Event::Intent { worker, token, lease: LEASE, pins: Vec::new() });
        if self.record.version == before.version {
            return;
        }
        assert!(self.now >= before.release_at && self.now < before.deadline_at, "a handoff outside its time");
        assert!(before.lease_until.is_some_and(|until| self.now < until) && before.worker == Some(worker), "a handoff without a live lease");
        if before.in_doubt() {
            let begun = before.first_handoff_at.expect("a doubt has a first handoff");
            let end = begun.plus(self.window.expect("a doubt runs again only in a window"));
            assert!(self.now.plus(ATTEMPT_MAX) < end.minus(IDEMPOTENCY_MARGIN), "a repeat that may outlive the provider's memory");
        }
        assert_eq!(before.state, State::Claimed);
        self.drawn += 1;
        self.unsettled.insert(token);
    }

    fn ask(&mut self, one: Try) {
        self.verbs += u64::from(one.b % 2);
        let later = self.now.plus(Duration::from_secs(u64::from(one.b)));
        let verb = match one.b % 16 {
            0 => Verb::Cancel,
            1 => Verb::Suppress,
            _move => Verb::Move { release_at: later, deadline_at: later.plus(Duration::from_secs(900)) },
        };
        let verb = NumberedVerb { number: self.verbs, generation: 1, verb };
        let known = self.record.verbs.contains(&verb.number);
        let before = self.record.version;
        self.try_event(&Event::Verb(&verb));
        assert!(!known || self.record.version == before, "a verb acts once");
    }

    fn try_event(&mut self, event: &Event<'_>) {
        self.try_event_settling(event, None);
    }

    fn try_event_settling(&mut self, event: &Event<'_>, settles: Option<Token>) {
        let Ok(change) = transition(&self.record, event, self.now) else { return };
        let (before, after) = (&self.record, &change.record);
        well_formed(&change);
        assert_eq!((after.version, after.generation, &after.key), (before.version + 1, before.generation, &before.key));
        if before.state.is_terminal() {
            assert!(
                after.state == before.state || (before.state, after.state) == (State::DeadLetter, State::Sent),
                "{} left for {}",
                before.state,
                after.state
            );
        }
        assert!(
            before.state != State::Handoff || !matches!(after.state, State::Cancelled | State::Queued | State::Claimed),
            "out of handoff to {}",
            after.state
        );
        if after.state == State::Claimed && before.state != State::Claimed {
            assert!(self.now >= before.due() && change.guards.contains(&Guard::NotBefore(before.due())), "a claim before its time");
        }
        if (before.state, after.state) == (State::Claimed, State::Handoff) {
            let stop = before.stops_at().min(before.lease_until.expect("a claim has a lease"));
            assert_eq!(change.guards, [Guard::NotBefore(before.release_at), Guard::Before(stop)]);
        }
        assert!(after.attempts <= RETRIES + 1, "{} attempts", after.attempts);
        if let Some(token) = settles {
            self.unsettled.remove(&token);
        }
        self.record = change.record;
    }

    /// Until something is accepted, every handoff that nobody settled stands on the record, and a dead letter with one says so.
    fn keeps_its_doubts(&self) {
        let record = &self.record;
        if record.state == State::Sent {
            return;
        }
        let mut kept: BTreeSet<Token> = record.open_tokens().into_iter().collect();
        kept.extend(record.token);
        assert_eq!(kept, self.unsettled, "in {}", record.state);
        assert!(kept.len() <= DOUBTS_MAX + 1);
        if !kept.is_empty() && record.state == State::DeadLetter {
            assert!(record.in_doubt() && record.lease_until.is_some() && record.reason == Some(Reason::ReconciliationRequired));
        }
        let hidden = record.state == State::Suppressed && record.reason != Some(Reason::Operator);
        assert!(kept.is_empty() || !hidden, "automation suppressed a doubt out of sight");
    }
}

fn outcome(choice: u8) -> Outcome {
    let class = match choice % 16 {
        0 => OutcomeClass::Permanent,
        1 => OutcomeClass::Suppressed,
        2 | 3 => OutcomeClass::Configuration,
        4 | 5 => OutcomeClass::Throttled,
        6 | 7 => OutcomeClass::Ambiguous,
        _often => OutcomeClass::Transient,
    };
    Outcome::new(class, Stage::Rcpt, "a-rule", "451 4.7.1 some words of a server that likes to talk ".repeat(10))
}

/// What is true of every change, whatever it came from.
fn well_formed(change: &Change) {
    let record = &change.record;
    assert_eq!(change.timer.is_some(), record.is_live(), "live records have a timer, tombstones none");
    assert_eq!(change.expires_at.is_some(), !record.is_live(), "tombstones expire, live records don't");
    assert_eq!(change.line, (record.state == State::Scheduled).then(|| record.due()));
    assert_eq!(change.letter == Letter::Delete, record.state.is_terminal());
    if let Some(timer) = change.timer {
        let index = match record.state {
            State::Scheduled | State::Queued | State::Claimed | State::Handoff => Index::Watch,
            State::DeadLetter => Index::Review,
            State::Sent | State::Cancelled | State::Suppressed => Index::Settle,
        };
        assert_eq!(timer.index, index);
        assert!(
            !matches!(record.state, State::Scheduled | State::Queued | State::Claimed) || timer.at <= record.deadline_at,
            "nobody looks at the deadline"
        );
    }
    let states = counters(record).into_iter().filter(|c| matches!(c, Counter::State(_))).count();
    assert_eq!(states, usize::from(record.is_live()), "a live record counts in one state");
    let in_flight = counters(record).iter().filter(|c| matches!(c, Counter::TenantInFlight(_))).count();
    assert_eq!(in_flight, usize::from(matches!(record.state, State::Claimed | State::Handoff)));
    assert_eq!(record.worker.is_some(), in_flight == 1, "a worker is named exactly while it holds a lease");
    let bytes = encode(record);
    assert!(bytes.len() <= RECORD_BYTES_MAX, "{} bytes", bytes.len());
    assert_eq!(decode::<Record>(&bytes).as_ref(), Ok(record));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_life_of_a_record_keeps_the_promises(tries in tries(), window_s in prop::option::of(60u64..3_000), early_s in 0u64..120, suppress: bool) {
        let at_deadline = if suppress { AtDeadline::Suppress } else { AtDeadline::Review };
        let mut life = Life::new(at_deadline, window_s.map(Duration::from_secs), at("08:30:00").minus(Duration::from_secs(early_s)));
        for one in tries {
            life.step(one);
            life.keeps_its_doubts();
        }
    }
}

fn longest() -> Record {
    let part = "x".repeat(64);
    let tokens = |from: u128, n: usize| (0..n as u128).map(|i| Token(Uuid::from_u128(u128::MAX - from - i))).collect::<Vec<_>>();
    let far = Moment::from_millis(i64::MAX);
    Record {
        generation: u32::MAX,
        version: u64::MAX - 1,
        incarnation: u32::MAX,
        state: State::DeadLetter,
        key: Key::parse(&"k".repeat(256)).expect("a key"),
        release_at: far,
        deadline_at: far,
        next_attempt_at: far,
        attempts: u32::MAX,
        purpose: part.clone(),
        business_date: "2026-12-01T0630Z".into(),
        recipient_ref: RecipientRef("f".repeat(32)),
        transport: part.clone(),
        policy: part.clone(),
        policy_version: u32::MAX,
        at_deadline: AtDeadline::Escalate(part),
        content_revision: u32::MAX,
        lease_until: Some(far),
        token: tokens(1, 1).pop(),
        window_doubts: tokens(10, DOUBTS_MAX / 2),
        window_until: Some(far),
        doubts: tokens(100, DOUBTS_MAX / 2),
        first_handoff_at: Some(far),
        last: Some(LastOutcome {
            at: far,
            class: OutcomeClass::Configuration,
            stage: Stage::Greeting,
            rule: "r".repeat(40),
            diagnostic: "d".repeat(RECORD_DIAGNOSTIC_BYTES_MAX),
        }),
        reason: Some(Reason::ReconciliationRequired),
        configuration_met: u32::MAX,
        strikes: u32::MAX,
        verbs: (0..VERBS_KEPT as u64).map(|n| u64::MAX - 100 + n).collect(),
        pins: vec!["0f".repeat(32); RECORD_PINS_MAX],
        ..records::record()
    }
}

#[test]
fn a_long_record_keeps_to_its_kilobyte() {
    let name = "n".repeat(32);
    let mut long = longest();
    long.key = Key::parse(&"k".repeat(112)).expect("a key");
    (long.purpose, long.transport, long.policy) = (name.clone(), name.clone(), name);
    long.at_deadline = AtDeadline::Suppress;
    long.window_doubts.clear();
    long.doubts.truncate(1);
    long.pins.truncate(1);
    let before = encode(&long).len();
    let change = transition(&long, &Event::Closed, at("09:00:00")).expect("a dead letter is closed");
    let bytes = encode(&change.record).len();
    assert!(before > RECORD_BYTES_MAX && bytes <= RECORD_BYTES_MAX, "{before} bytes, cut to {bytes}");
    assert!(bytes + 9 >= RECORD_BYTES_MAX, "cut further than it must be: {bytes} bytes");
}

#[test]
fn a_record_that_is_not_measured_fits() {
    let mut record = longest();
    (record.purpose, record.transport, record.policy) = ("p".into(), "t".into(), "p".into());
    record.key = Key::parse("acme/x").expect("a key");
    record.window_doubts.clear();
    record.doubts.clear();
    record.pins.clear();
    record.verbs.clear();
    for diagnostic in 0..=RECORD_DIAGNOSTIC_BYTES_MAX + 100 {
        record.last.as_mut().expect("an outcome").diagnostic = "d".repeat(diagnostic);
        let mut fitted = record.clone();
        fitted.fit();
        assert!(encode(&fitted).len() <= RECORD_BYTES_MAX, "with a diagnostic of {diagnostic} bytes");
    }
}

#[test]
fn the_longest_record_has_a_bound_too() {
    let longest = longest();
    let change = transition(&longest, &Event::Closed, at("09:00:00")).expect("a dead letter is closed");
    let bytes = encode(&change.record).len();
    assert!(bytes <= RECORD_BYTES_LONGEST, "{} bytes, cut to {bytes}", encode(&longest).len());
    assert_eq!(change.record.verbs.last(), longest.verbs.last(), "the highest verb fences");
    assert_eq!((change.record.open_tokens(), &change.record.pins), (longest.open_tokens(), &longest.pins), "no doubt and no pin is cut");
}

#[test]
fn a_record_that_fits_is_not_cut() {
    let record = Record {
        state: State::DeadLetter,
        last: Some(LastOutcome {
            at: at("08:40:00"),
            class: OutcomeClass::Transient,
            stage: Stage::Rcpt,
            rule: "a-rule".into(),
            diagnostic: "d".repeat(200),
        }),
        verbs: vec![1, 2, 3],
        ..records::record()
    };
    let change = transition(&record, &Event::Closed, at("09:00:00")).expect("a dead letter is closed");
    assert_eq!((change.record.last, change.record.verbs), (record.last, record.verbs));
}

#[test]
fn a_move_holds_a_doubt_to_the_providers_window() {
    let mut record = records::record();
    record.token = Some(Token(Uuid::from_u128(1)));
    record.first_handoff_at = Some(at("08:31:00"));
    record.window_until = Some(at("08:50:00"));
    let verb = NumberedVerb { number: 1, generation: 1, verb: Verb::Move { release_at: at("10:00:00"), deadline_at: at("11:00:00") } };
    let moved = transition(&record, &Event::Verb(&verb), at("08:40:00")).expect("a waiting job moves");
    assert_eq!(moved.timer.map(|t| t.at), Some(at("08:50:00")), "a person gets it when the window ends, not at the new deadline");
    let claim = Event::Claim { worker: WorkerId(Uuid::from_u128(1)), lease: LEASE };
    assert_eq!(transition(&moved.record, &claim, at("10:00:00")).err(), Some(Refusal::TooLate));
}

/// First handoff at 08:31, an attempt of at most 2 min, the retry at 08:45: the window must hold until 08:47, and a minute more.
#[test]
fn a_repeat_begins_only_if_the_whole_of_it_ends_a_minute_before_the_window() {
    let policy = Policy {
        name: "default".into(),
        version: 1,
        backoff: Backoff::Delays(vec![Duration::from_secs(300)]),
        max_attempts: None,
        jitter: Jitter::default(),
        at_deadline: AtDeadline::Review,
    };
    let token = Token(Uuid::from_u128(1));
    let handoff = Record { state: State::Handoff, attempts: 1, token: Some(token), first_handoff_at: Some(at("08:31:00")), ..records::record() };
    let unknown = Outcome::new(OutcomeClass::Ambiguous, Stage::Dot, "a-rule", "lost");
    let after = |window: Duration| {
        let rules = Rules { policy: &policy, jitter: 0.0, idempotency_window: Some(window), attempt_max: ATTEMPT_MAX };
        let event = Event::Verdict { token, verdict: Verdict::Unknown(&unknown), rules };
        transition(&handoff, &event, at("08:40:00")).expect("its owner's verdict").record
    };
    assert_eq!(after(Duration::from_secs(17 * 60)).state, State::DeadLetter);
    let repeat = after(Duration::from_millis(17 * 60_000 + 1));
    assert_eq!((repeat.state, repeat.due(), repeat.stops_at()), (State::Scheduled, at("08:45:00"), at("08:45:00").plus(Duration::from_millis(1))));
}

#[test]
fn a_limit_never_brings_a_retry_forward() {
    let record = Record { next_attempt_at: at("08:45:00"), attempts: 1, reason: Some(Reason::TransientFailure), ..records::record() };
    let held =
        transition(&record, &Event::Limited { by: WaitingFor::TenantRate, until: at("08:41:00") }, at("08:40:00")).expect("a waiting job is held");
    assert_eq!((held.line, held.record.waiting_for), (Some(at("08:45:00")), Some(WaitingFor::TenantRate)));
}

#[test]
fn a_strike_never_brings_a_retry_forward() {
    let record = Record { next_attempt_at: at("08:45:00"), attempts: 1, reason: Some(Reason::TransientFailure), ..records::record() };
    let struck = transition(&record, &Event::Strike { until: at("08:41:00") }, at("08:40:00")).expect("a waiting job is struck");
    assert_eq!(struck.line, Some(at("08:45:00")));
}
