//! What is explored: the set of every run, the long set, and a bug for each clause with a small world that shows it.

use crate::config::{Config, Plant, Said};

/// Released at once, ended a tick later.
const SOON: Config = Config { release: 0, deadline: 1, end: 1, ..Config::BASE };
const ALONE: Config = Config { workers: 1, attempts: 1, ..SOON };
/// A replay needs a tick more.
const REPLAY: Config = Config { end: 2, replay: true, acts: 1, generations: 2, ..ALONE };
const LOST: Config = Config { rollback: true, ..ALONE };

/// How far a world of the long set is explored, where it isn't whole before: as far as memory and patience go.
pub const BOUND: usize = 6_000_000;

/// What an attempt can end with before its intent.
const EVERY_OUTCOME: &[Said] = &[Said::Transient, Said::Throttled, Said::Permanent, Said::Listed, Said::Configuration, Said::ArtifactMissing];

/// What each run explores, whole.
pub const EVERY_RUN: &[Config] = &[
    Config { name: "two of each", schedulers: 2, consumers: 2, attempts: 1, ..SOON },
    Config { name: "a release ahead", ..Config::BASE },
    Config { name: "messages that get lost", messages: true, ..SOON },
    Config { name: "replay", end: 1, before: &[Said::Permanent], ..REPLAY },
    Config { name: "correct, then replay", correct: true, acts: 2, workers: 0, ..REPLAY },
    Config { name: "cancel", cancel: true, acts: 1, end: 0, before: &[], ..ALONE },
    Config { name: "suppress", suppress: true, acts: 1, workers: 0, ..ALONE },
    Config { name: "two verbs, nobody works", cancel: true, moves: true, acts: 2, workers: 0, ..ALONE },
    Config { name: "the book alone", far: true, cancel: true, moves: true, acts: 1, release: 1, deadline: 2, end: 2, workers: 0, ..ALONE },
    Config { name: "give-backs, renewals, limits", frees: 1, attempts: 1, ..SOON },
    Config { name: "poison", frees: 3, ..ALONE },
    Config { name: "every outcome", before: EVERY_OUTCOME, attempts: 2, end: 2, deadline: 2, ..ALONE },
    Config { name: "a recipient is listed", listing: true, ..ALONE },
    Config { name: "the policy suppresses", suppress_at_deadline: true, ..ALONE },
    Config { name: "a provider that knows keys", window: true, attempts: 2, deadline: 2, end: 2, before: &[Said::Transient], ..ALONE },
    Config { name: "two jobs, one in flight", jobs: 2, in_flight: Some(1), end: 0, before: &[], ..ALONE },
    Config { name: "lost tail", end: 0, before: &[], ..LOST },
    Config { name: "lost tail, a release ahead", release: 1, deadline: 2, end: 2, workers: 0, ..LOST },
    Config { name: "lost tail, a move", moves: true, acts: 1, workers: 0, crashes: false, ..LOST },
    Config { name: "lost tail, replay", replay: true, acts: 1, generations: 2, end: 2, workers: 0, ..LOST },
];

/// What the long set explores besides; the largest as far as their bound, where ends aren't looked for (I3).
pub const LONG: &[Config] = &[
    Config { name: "long: two of each", schedulers: 2, consumers: 2, ..Config::BASE },
    Config { name: "long: replay, alone", ..REPLAY },
    Config { name: "long: cancel, alone", cancel: true, acts: 1, ..ALONE },
    Config { name: "long: suppress", suppress: true, acts: 1, schedulers: 2, ..ALONE },
    Config { name: "long: lost tail, alone", ..LOST },
    Config { name: "long: two jobs at their limit", jobs: 2, in_flight: Some(1), end: 0, frees: 1, before: &[Said::Permanent], ..ALONE },
    Config { name: "long: three attempts", attempts: 3, schedulers: 2, ..Config::BASE },
    Config { name: "long: messages", messages: true, schedulers: 2, ..Config::BASE },
    Config { name: "long: replay", workers: 2, attempts: 2, end: 1, before: &[Said::Transient], ..REPLAY },
    Config { name: "long: three generations", generations: 3, acts: 2, end: 1, before: &[Said::Permanent], ..REPLAY },
    Config { name: "long: two jobs, one in flight", jobs: 2, in_flight: Some(1), before: &[], ..ALONE },
    Config { name: "long: correct, then replay", correct: true, acts: 2, ..REPLAY },
    Config { name: "long: move", moves: true, acts: 1, end: 3, ..ALONE },
    Config { name: "long: the book alone", far: true, cancel: true, moves: true, acts: 1, release: 1, deadline: 2, end: 2, ..ALONE },
    Config { name: "long: cancel", cancel: true, acts: 1, workers: 2, end: 0, ..SOON },
    Config { name: "long: two verbs", cancel: true, moves: true, acts: 2, before: &[], ..ALONE },
    Config { name: "long: cancel and replay", cancel: true, acts: 2, end: 1, before: &[Said::Permanent], ..REPLAY },
    Config { name: "long: give-backs, renewals, limits", frees: 2, ..Config::BASE },
    Config { name: "long: a provider that knows keys", window: true, attempts: 3, deadline: 3, end: 3, ..SOON },
    Config { name: "long: two jobs", jobs: 2, in_flight: Some(1), workers: 2, before: &[], end: 0, ..ALONE },
    Config { name: "long: two jobs, cancel", jobs: 2, in_flight: Some(1), cancel: true, acts: 1, end: 0, before: &[], ..ALONE },
    Config { name: "long: lost tail", workers: 2, end: 0, ..LOST },
    Config { name: "long: lost tail, a release ahead", release: 1, deadline: 2, end: 2, before: &[], ..LOST },
    Config { name: "long: lost tail, cancel", cancel: true, acts: 1, end: 0, before: &[], ..LOST },
    Config { name: "long: lost tail, move", moves: true, acts: 1, end: 2, before: &[], ..LOST },
    Config { name: "long: lost tail, replay", replay: true, acts: 1, generations: 2, before: &[], end: 1, crashes: false, ..LOST },
];

/// A bug, the world that shows it, and what it breaks.
macro_rules! planted {
    ($($name:ident: $plant:ident, $config:expr, $breaks:literal;)+) => {
        $(#[test]
        fn $name() {
            crate::caught(Plant::$plant, $config, $breaks);
        })+
    };
}

const TWO_MOVES: Config = Config { moves: true, acts: 2, end: 3, workers: 0, ..ALONE };
const REPLAYED_BY_TWO: Config = Config { consumers: 2, before: &[Said::Permanent], ..REPLAY };

planted! {
    no_intent: NoIntent, SOON, "I1";
    no_last_look: NoLastLook, SOON, "I2 late";
    a_look_that_forgets_the_lease: LookForgetsLease, REPLAY, "O4";
    no_deadline_check: NoDeadlineCheck, SOON, "I2 late";
    resend_on_lease_expiry: ResendOnLeaseExpiry, SOON, "I1";
    no_version_check: NoVersionCheck, SOON, "O2";
    create_without_read_at: NoReadAt, SOON, "I1";
    a_create_over_what_is_not_recorded: OverUnrecorded, Config { schedulers: 2, end: 1, before: &[], ..REPLAY }, "I6";
    a_lower_generation_is_accepted: LowerGeneration, Config { correct: true, acts: 2, schedulers: 2, before: &[Said::Permanent], ..REPLAY }, "O1";
    a_mark_is_not_guarded: MarkUnguarded, SOON, "O1";
    a_story_is_not_guarded: StoryUnguarded, REPLAYED_BY_TWO, "I4";
    review_items_are_upserted: UpsertedItems, Config { before: &[Said::Permanent], ..REPLAY }, "R1";
    an_older_story_closes_nothing: OlderStaysOpen, Config { end: 1, before: &[Said::Permanent], ..REPLAY }, "I3";
    no_deadline_timer: NoTimer, SOON, "I3";
    no_lease_timer: NoLeaseTimer, SOON, "I3";
    applied_verbs_are_forgotten: VerbsForgotten, TWO_MOVES, "I5";
    a_late_refusal_revives: RefusalRevives, Config { attempts: 2, ..REPLAY }, "O4";
    a_lost_reply_is_read_as_a_refusal: LossIsRefusal, SOON, "I1";
    a_verb_is_answered_early: AnsweredEarly, Config { cancel: true, acts: 1, ..ALONE }, "I5";
    no_counter: NoCounter, Config { jobs: 2, in_flight: Some(1), attempts: 1, ..SOON }, "O3";
    no_barrier_at_a_rollback: NoBarrier, Config { workers: 2, ..LOST }, "O2";
    recovery_forgets_leases: RecoveryForgetsLeases, Config { replay: true, acts: 1, generations: 2, end: 2, ..LOST }, "O4";
    recovery_forgets_doubts: RecoveryForgetsDoubts, Config { workers: 2, ..LOST }, "O2";
    recovery_forgets_the_book: RecoveryForgetsTheBook, Config { cancel: true, acts: 1, consumers: 0, end: 0, before: &[], ..LOST }, "I";
    an_errand_outlives_a_recovery: OldErrandsGoOn, Config { workers: 2, ..LOST }, "O2";
}
