//! What follows from an outcome, as one table; and what holds for every policy and every moment.

use std::time::Duration;

use curfew_domain::decide::{Decision, Latest, Provider, Question, decide};
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::{Moment, OutcomeClass, Reason};
use proptest::prelude::*;

/// "met" counts the configuration outcomes; "deadline": `ahead` of the next time, `near` (ahead of now, not of the next time), or `past`.
/// "digit": a `soft` reading of a 5yz, on its third try.
const TABLE: &str = "
    outcome       | delays left | deadline | provider | met   | digit | decision
    accepted      | any         | any      | any      | any   | any   | complete: accepted
    permanent     | any         | any      | any      | any   | any   | dead_letter: permanent_failure
    suppressed    | any         | any      | any      | any   | any   | dead_letter: recipient_suppressed
    configuration | any         | any      | any      | three | any   | dead_letter: configuration
    configuration | any         | past     | any      | fewer | any   | dead_letter: business_deadline_reached
    configuration | any         | ahead    | any      | fewer | any   | retry: configuration
    configuration | any         | near     | any      | fewer | any   | retry: configuration
    ambiguous     | any         | any      | forgets  | any   | any   | dead_letter: reconciliation_required
    ambiguous     | none        | any      | knows    | any   | any   | dead_letter: reconciliation_required
    ambiguous     | some        | near     | knows    | any   | any   | dead_letter: reconciliation_required
    ambiguous     | some        | past     | knows    | any   | any   | dead_letter: reconciliation_required
    ambiguous     | some        | ahead    | knows    | any   | soft  | dead_letter: reconciliation_required
    ambiguous     | some        | ahead    | knows    | any   | plain | retry: transient_failure
    transient     | none        | any      | any      | any   | any   | dead_letter: retry_budget_exhausted
    transient     | some        | any      | any      | any   | soft  | dead_letter: retry_budget_exhausted
    transient     | some        | near     | any      | any   | plain | dead_letter: business_deadline_reached
    transient     | some        | past     | any      | any   | plain | dead_letter: business_deadline_reached
    transient     | some        | ahead    | any      | any   | plain | retry: transient_failure
    throttled     | none        | any      | any      | any   | any   | dead_letter: retry_budget_exhausted
    throttled     | some        | any      | any      | any   | soft  | dead_letter: retry_budget_exhausted
    throttled     | some        | near     | any      | any   | plain | dead_letter: business_deadline_reached
    throttled     | some        | past     | any      | any   | plain | dead_letter: business_deadline_reached
    throttled     | some        | ahead    | any      | any   | plain | retry: throttled
";

const COLUMNS: [&[&str]; 6] = [
    &["accepted", "transient", "throttled", "permanent", "suppressed", "ambiguous", "configuration"],
    &["some", "none"],
    &["ahead", "near", "past"],
    &["knows", "forgets"],
    &["three", "fewer"],
    &["soft", "plain"],
];

fn policy(backoff: Backoff, max_attempts: Option<u32>, jitter: Jitter) -> Policy {
    Policy { name: "table".into(), version: 1, backoff, max_attempts, jitter, at_deadline: AtDeadline::Review }
}

fn found(case: &[&str]) -> String {
    let minute = Duration::from_secs(60);
    let retries = if case[1] == "some" { 3 } else { 2 };
    let policy = policy(Backoff::Delays(vec![5 * minute; retries]), None, Jitter::default());
    let now = Moment::from_millis(1_800_000_000_000);
    let deadline = match case[2] {
        "ahead" => now.plus(6 * minute),
        "near" => now.plus(5 * minute),
        _past => now,
    };
    let decision = decide(&Question {
        attempts_before: 2,
        class: OutcomeClass::from_word(case[0]).expect("a class"),
        softened: case[5] == "soft",
        retry_after: None,
        provider: if case[3] == "knows" { Provider::KnowsKeys } else { Provider::ForgetsKeys },
        configuration_met: if case[4] == "three" { 3 } else { 2 },
        now,
        release_at: now.minus(minute),
        deadline_at: Some(deadline),
        policy: &policy,
        jitter: 0.5,
    });
    format!("{}: {}", decision.action(), decision.reason())
}

/// Runs every combination once; fails on a row that lies, a case with no row, or one with two.
#[test]
fn decide_table() {
    let rows: Vec<Vec<&str>> = TABLE.trim().lines().skip(1).map(|line| line.split('|').map(str::trim).collect()).collect();
    let mut used = vec![0; rows.len()];
    let cases = COLUMNS.iter().fold(vec![Vec::new()], |cases: Vec<Vec<&str>>, column| {
        cases.iter().flat_map(|case| column.iter().map(move |cell| [case.as_slice(), &[cell]].concat())).collect()
    });
    assert_eq!(OutcomeClass::ALL.len(), COLUMNS[0].len());
    for case in &cases {
        let fits = |row: &Vec<&str>| row.iter().zip(case).all(|(cell, value)| *cell == "any" || cell == value);
        let fitting: Vec<usize> = (0..rows.len()).filter(|at| fits(&rows[*at])).collect();
        assert_eq!(fitting.len(), 1, "{case:?} has {} rows", fitting.len());
        used[fitting[0]] += 1;
        assert_eq!(found(case), rows[fitting[0]][6], "{case:?}");
    }
    assert!(used.iter().all(|n| *n > 0), "a row fits no case: {used:?}");
}

#[test]
fn a_class_that_says_nothing_about_the_job_uses_no_delay() {
    let policy = policy(Backoff::Delays(Vec::new()), Some(0), Jitter::default());
    let now = Moment::from_millis(0);
    let question = Question {
        attempts_before: u32::MAX,
        class: OutcomeClass::Configuration,
        softened: false,
        retry_after: None,
        provider: Provider::ForgetsKeys,
        configuration_met: 1,
        now,
        release_at: now,
        deadline_at: None,
        policy: &policy,
        jitter: f64::NAN,
    };
    assert_eq!(decide(&question), Decision::AwaitSetUp);
}

/// A greylisting server was asked again after the policy's first minute, and refused again: its five minutes counted for throttles alone.
#[test]
fn a_greylisted_job_waits_five_minutes_unless_that_alone_costs_its_deadline() {
    let (minute, five) = (Duration::from_secs(60), Duration::from_secs(300));
    let policy = policy(Backoff::Delays(vec![minute]), None, Jitter::default());
    let now = Moment::from_millis(1_000_000);
    let next = |class, deadline: Duration| {
        let decided = decide(&Question {
            attempts_before: 0,
            class,
            softened: false,
            retry_after: Some(five),
            provider: Provider::ForgetsKeys,
            configuration_met: 0,
            now,
            release_at: now,
            deadline_at: Some(now.plus(deadline)),
            policy: &policy,
            jitter: 0.0,
        });
        match decided {
            Decision::Retry(retry) => Ok(retry.at.since(now)),
            other => Err(other.reason()),
        }
    };
    assert_eq!(next(OutcomeClass::Transient, minute * 30), Ok(five));
    assert_eq!(next(OutcomeClass::Transient, minute * 4), Ok(minute), "it may have been remembered sooner");
    assert_eq!(next(OutcomeClass::Transient, minute), Err(Reason::BusinessDeadlineReached));
    assert_eq!(next(OutcomeClass::Throttled, minute * 4), Err(Reason::BusinessDeadlineReached), "a throttle's word is kept");
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0u64..4000).prop_map(Duration::from_secs),
        (0u64..5_000_000).prop_map(Duration::from_millis),
        any::<u64>().prop_map(Duration::from_secs),
        Just(Duration::MAX)
    ]
}

fn numbers() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..4.0f64, Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-1.0), Just(0.0), Just(0.5), any::<f64>()]
}

fn policies() -> impl Strategy<Value = Policy> {
    let backoff = prop_oneof![
        proptest::collection::vec(durations(), 0..6).prop_map(Backoff::Delays),
        (durations(), numbers(), durations()).prop_map(|(base, factor, cap)| Backoff::Exponential { base, factor, cap })
    ];
    let spread = prop_oneof![-100_000i64..100_000, any::<i64>()];
    let jitter = (spread.clone(), spread, proptest::option::of(any::<u32>())).prop_map(|(lo_ms, hi_ms, percent)| Jitter { lo_ms, hi_ms, percent });
    (backoff, proptest::option::of(any::<u32>()), jitter).prop_map(|(b, m, j)| policy(b, m, j))
}

fn moments() -> impl Strategy<Value = Moment> {
    prop_oneof![1_800_000_000_000i64..1_800_010_000_000, any::<i64>()].prop_map(Moment::from_millis)
}

proptest! {
    #[test]
    fn no_retry_is_early_late_or_before_its_hint(
        policy in policies(), now in moments(), release in moments(), deadline in proptest::option::of(moments()),
        attempts in prop_oneof![0u32..8, any::<u32>()], hint in proptest::option::of(durations()), jitter in numbers(), other in 0.0..=1.0f64,
        class in prop_oneof![Just(OutcomeClass::Transient), Just(OutcomeClass::Throttled), Just(OutcomeClass::Ambiguous)], softened in any::<bool>(),
    ) {
        let mut question = Question {
            attempts_before: attempts, class, softened, retry_after: hint, provider: Provider::KnowsKeys, configuration_met: 0,
            now, release_at: release, deadline_at: deadline, policy: &policy, jitter,
        };
        let first = decide(&question);
        question.jitter = other;
        let second = decide(&question);
        let (Decision::Retry(retry), Decision::Retry(again)) = (&first, &second) else {
            prop_assert_eq!(first.reason(), second.reason(), "jitter takes no part in what is decided");
            return Ok(());
        };
        for at in [retry.at, again.at, retry.earliest] {
            prop_assert!(at >= now && at >= release);
            prop_assert!(class != OutcomeClass::Throttled || at >= now.plus(hint.unwrap_or_default()));
            prop_assert!(deadline.is_none_or(|d| at < d));
            prop_assert!(at >= retry.earliest && at <= retry.latest.moment());
        }
        prop_assert_eq!((retry.earliest, retry.latest), (again.earliest, again.latest));
        prop_assert!(matches!(retry.latest, Latest::Inclusive(_)) || Some(retry.latest.moment()) == deadline);
    }

    #[test]
    fn a_larger_jitter_is_never_an_earlier_retry(policy in policies(), now in moments(), low in 0.0..=1.0f64, high in 0.0..=1.0f64) {
        let at = |jitter: f64| match decide(&Question {
            attempts_before: 0, class: OutcomeClass::Transient, softened: false, retry_after: None, provider: Provider::ForgetsKeys, configuration_met: 0,
            now, release_at: now, deadline_at: Some(now.plus(Duration::from_secs(3600))), policy: &policy, jitter,
        }) {
            Decision::Retry(retry) => Some(retry.at),
            Decision::Complete | Decision::AwaitSetUp | Decision::DeadLetter(_) => None,
        };
        prop_assert!(at(low.min(high)) <= at(low.max(high)));
    }

    #[test]
    fn exponential_waits_never_shrink_and_never_pass_their_cap(base in durations(), factor in 1.0..10.0f64, cap in durations(), n in 0u32..2000) {
        let policy = policy(Backoff::Exponential { base, factor, cap }, None, Jitter::default());
        prop_assert!(policy.delay(n) <= cap);
        prop_assert!(policy.delay(n) <= policy.delay(n + 1));
    }
}
