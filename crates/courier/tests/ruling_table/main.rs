//! What recovery rules on one job, as text: whatever the book has, whatever survived of it, whoever has reported.
//!
//! `table::check` builds every combination of a table's values, and each has exactly one row. Of the columns: `record` is what survived, with
//! `+` where it is closed; `written` says whether it was written `before` this recovery or by its reports, `now`; `worker` whether one that could
//! have had the job is missing; `release` is the book's, `next` the record's next time: `due` by T1, after which nothing was claimed, or `ahead`.
//! `seen` compares what the book saw of the record's generation with the record. An answer is the ruling; `closing` names what it closes first.

#[path = "../../../domain/tests/table/mod.rs"]
mod table;
mod verbs;

use std::time::Duration;

use curfew_book::conformance::given;
use curfew_book::{BookState, Row, VerbSeen};
use curfew_courier::recover::{Facts, Ruling, rule};
use curfew_domain::transition::BookStory;
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Moment, Reason, Record, State, Token};
use curfew_ledger::Survivor;
use table::{Case, Column};
use uuid::Uuid;

/// The incarnation that recovers; the one before it was lost.
const NOW: u32 = 2;
const BEFORE: u32 = 1;
/// The generation in force where a row is a replay.
const REPLAY: u32 = 2;
const MINUTE: Duration = Duration::from_secs(60);
const CARRIED: Token = Token(Uuid::from_u128(1));
const OPEN: Token = Token(Uuid::from_u128(2));
const IN_DOUBT: Token = Token(Uuid::from_u128(3));
const STEPPED_OVER: Token = Token(Uuid::from_u128(4));

const RECORDS: Column<'_> = (
    "record",
    &[
        "scheduled",
        "queued",
        "claimed",
        "handoff",
        "sent",
        "dead_letter",
        "cancelled",
        "suppressed",
        "sent+",
        "dead_letter+",
        "cancelled+",
        "suppressed+",
    ],
);
const WRITTEN: Column<'_> = ("written", &["before", "now"]);
const WORKER: Column<'_> = ("worker", &["reported", "missing"]);
const RELEASE: Column<'_> = ("release", &["due", "ahead"]);
const NEXT: Column<'_> = ("next", &["due", "ahead"]);
const GROUPS: &[Column<'_>] = &[
    ("waiting", &["scheduled", "queued"]),
    ("ended", &["sent", "dead_letter", "cancelled", "suppressed", "sent+", "dead_letter+", "cancelled+", "suppressed+"]),
    ("unsent+", &["dead_letter+", "cancelled+", "suppressed+"]),
];

/// T1: nothing was claimed after it.
fn until() -> Moment {
    given::minutes(90)
}

fn time(word: &str) -> Moment {
    match word {
        "due" => until(),
        _ahead => until().plus(Duration::from_millis(1)),
    }
}

/// In a generation and an incarnation, in the state of a word.
fn survivor(word: &str, generation: u32, written: &str) -> Survivor {
    let state = State::from_word(word.trim_end_matches('+')).expect("a state");
    let mut record: Record = given::record(&given::job("acme", 1), generation, 5, state);
    record.closed = word.ends_with('+');
    record.doubts = vec![CARRIED, OPEN];
    Survivor { record, written_in: if written == "now" { NOW } else { BEFORE } }
}

fn row(word: &str, generation: u32) -> Row {
    Row {
        job: given::job("acme", 1),
        state: BookState::from_word(word).expect("a state"),
        generation,
        seen: (generation, BEFORE, 1),
        ever_staged: true,
        replays: generation - 1,
        attempts: 1,
        last: None,
        reason: Some(Reason::PermanentFailure),
        receipt: None,
        doubt: Some(IN_DOUBT),
        window_doubts: vec![STEPPED_OVER],
        doubts: vec![CARRIED],
        pins: Vec::new(),
        open_verb: None,
        history: Vec::new(),
    }
}

fn moved_to(release_at: Moment, generation: u32) -> VerbSeen {
    let verb = Verb::Move { release_at, deadline_at: release_at.plus(30 * MINUTE) };
    VerbSeen { verb: NumberedVerb { number: 9, generation, verb }, actor: "ada".to_owned(), applied: true }
}

/// Rules, says it, and holds what is true of every ruling.
fn say(case: &Case<'_>, row: Option<&Row>, survivor: Option<&Survivor>, verbs: &[VerbSeen]) -> String {
    let lost_worker = case.is("worker", "missing");
    let facts = Facts { survivor, row, verbs, incarnation: NOW, lost_worker, until: until() };
    match rule(facts) {
        Ruling::Stands => "stands".to_owned(),
        Ruling::Doubt => "in doubt".to_owned(),
        Ruling::Missing => "written in doubt".to_owned(),
        Ruling::ClaimDropped => "claim dropped".to_owned(),
        Ruling::SentIn(generation) => format!("sent in {generation}"),
        Ruling::Moved(release_at, deadline_at) => {
            let row = row.expect("times come from a row");
            assert_eq!((release_at, deadline_at), (row.job.release_at, row.job.deadline_at));
            "moved".to_owned()
        }
        Ruling::TakeBack(None) => "planned again".to_owned(),
        Ruling::TakeBack(Some(story)) => format!("planned again, closing {}", closing(&story)),
        Ruling::BookWins(story) if row.is_some_and(|row| row.state == BookState::Planned) => format!("closing {}", closing(&story)),
        Ruling::BookWins(story) => {
            holds_to(&story, row.expect("a story comes from a row"));
            "the book wins".to_owned()
        }
    }
}

/// The earlier generation is closed as a recorded dead letter whose open tokens are carried, each once.
fn closing(story: &BookStory) -> u32 {
    assert_eq!((story.state, &story.receipt, story.token, story.window_doubts.as_slice()), (State::DeadLetter, &None, None, [].as_slice()));
    assert_eq!(story.doubts, [CARRIED, OPEN]);
    assert!(story.reason.is_some());
    story.generation
}

/// The row's own end, and tokens in doubt where a dead letter has some.
fn holds_to(story: &BookStory, row: &Row) {
    assert_eq!((story.state.word(), story.generation), (row.state.word(), row.generation));
    assert_eq!((story.reason, &story.receipt, &story.doubts), (row.reason, &row.receipt, &row.doubts));
    let in_doubt = if story.state == State::DeadLetter { (Some(IN_DOUBT), vec![STEPPED_OVER]) } else { (None, Vec::new()) };
    assert_eq!((story.token, story.window_doubts.clone()), in_doubt);
}

#[test]
fn a_record_that_the_book_does_not_know_goes_on_unless_it_may_have_been_claimed() {
    table::check(
        &[RECORDS, WRITTEN, WORKER, NEXT],
        GROUPS,
        |case| {
            let mut survivor = survivor(case.get("record"), 1, case.get("written"));
            survivor.record.next_attempt_at = time(case.get("next"));
            say(case, None, Some(&survivor), &[])
        },
        "
        record  | written | worker   | next  | answer
        ended   | any     | any      | any   | stands
        handoff | now     | any      | any   | stands
        handoff | before  | reported | any   | stands
        handoff | before  | missing  | any   | in doubt
        claimed | any     | reported | any   | claim dropped
        claimed | any     | missing  | any   | in doubt
        waiting | any     | reported | any   | stands
        waiting | any     | missing  | ahead | stands
        waiting | any     | missing  | due   | in doubt
        ",
    );
}

/// What may have been claimed is in doubt although nothing of it is left: a planned row's mark may be behind its create.
#[test]
fn a_row_without_a_record() {
    table::check(
        &[("book", &["planned", "staged", "sent", "dead_letter", "cancelled", "suppressed"]), WORKER, RELEASE],
        GROUPS,
        |case| {
            let mut row = row(case.get("book"), 1);
            row.job.release_at = time(case.get("release"));
            say(case, Some(&row), None, &[])
        },
        "
        book                                     | worker   | release | answer
        sent, dead_letter, cancelled, suppressed | any      | any     | stands
        planned                                  | reported | any     | stands
        planned                                  | missing  | ahead   | stands
        planned                                  | missing  | due     | written in doubt
        staged                                   | any      | ahead   | planned again
        staged                                   | any      | due     | written in doubt
        ",
    );
}

/// Of a replay only the generation before survived.
#[test]
fn a_row_whose_record_is_of_the_generation_before() {
    table::check(
        &[("book", &["planned", "staged"]), RECORDS, WRITTEN, WORKER, RELEASE],
        GROUPS,
        |case| {
            let mut row = row(case.get("book"), REPLAY);
            row.job.release_at = time(case.get("release"));
            say(case, Some(&row), Some(&survivor(case.get("record"), 1, case.get("written"))), &[])
        },
        "
        book    | record                                      | written | worker   | release | answer
        staged  | sent, sent+                                 | any     | any      | any     | sent in 2
        staged  | not sent, sent+                             | any     | any      | due     | written in doubt
        staged  | unsent+                                     | any     | any      | ahead   | planned again
        staged  | not sent, unsent+, sent+                    | any     | any      | ahead   | planned again, closing 1
        planned | sent, sent+                                 | any     | any      | any     | stands
        planned | unsent+                                     | now     | any      | any     | stands
        planned | unsent+                                     | before  | reported | any     | stands
        planned | unsent+                                     | before  | missing  | ahead   | stands
        planned | unsent+                                     | before  | missing  | due     | written in doubt
        planned | handoff, dead_letter, cancelled, suppressed | now     | any      | any     | stands
        planned | handoff, dead_letter, cancelled, suppressed | before  | reported | any     | closing 1
        planned | handoff, dead_letter, cancelled, suppressed | before  | missing  | ahead   | closing 1
        planned | handoff, dead_letter, cancelled, suppressed | before  | missing  | due     | written in doubt
        planned | waiting, claimed                            | any     | reported | any     | closing 1
        planned | waiting, claimed                            | any     | missing  | ahead   | closing 1
        planned | waiting, claimed                            | any     | missing  | due     | written in doubt
        ",
    );
}

/// A record in the row's generation; `next` may be due by a move that the record lacks, or seem so by one of another generation.
#[test]
fn a_record_that_the_ledger_owns() {
    table::check(
        &[
            ("book", &["planned", "staged"]),
            RECORDS,
            WRITTEN,
            WORKER,
            RELEASE,
            ("next", &["due", "due by a move", "ahead", "ahead, another's move"]),
            ("seen", &["later", "same", "earlier"]),
        ],
        &[GROUPS, &[("by T1", &["due", "due by a move"]), ("after T1", &["ahead", "ahead, another's move"])]].concat(),
        |case| {
            let (mut row, mut survivor) = (row(case.get("book"), 1), survivor(case.get("record"), 1, case.get("written")));
            row.job.release_at = time(case.get("release"));
            row.seen = seen(case, &survivor);
            survivor.record.next_attempt_at = time(case.get("next"));
            let verbs = match case.get("next") {
                "due by a move" => vec![moved_to(time("due"), 1)],
                "ahead, another's move" => vec![moved_to(time("due"), 2)],
                _unmoved => Vec::new(),
            };
            say(case, Some(&row), Some(&survivor), &verbs)
        },
        "
        book    | record  | written | worker   | release | next     | seen      | answer
        any     | ended   | any     | any      | any     | any      | any       | stands
        any     | handoff | now     | any      | any     | any      | any       | stands
        any     | handoff | before  | reported | any     | any      | any       | stands
        any     | handoff | before  | missing  | any     | any      | any       | in doubt
        planned | claimed | any     | reported | any     | any      | any       | claim dropped
        planned | claimed | any     | missing  | any     | any      | any       | in doubt
        planned | waiting | any     | reported | any     | any      | any       | stands
        planned | waiting | any     | missing  | any     | by T1    | any       | in doubt
        planned | waiting | any     | missing  | any     | after T1 | any       | stands
        staged  | claimed | any     | reported | any     | any      | later     | moved
        staged  | claimed | any     | reported | any     | any      | not later | claim dropped
        staged  | claimed | any     | missing  | ahead   | any      | later     | moved
        staged  | claimed | any     | missing  | ahead   | any      | not later | in doubt
        staged  | claimed | any     | missing  | due     | any      | any       | in doubt
        staged  | waiting | any     | reported | any     | any      | later     | moved
        staged  | waiting | any     | reported | any     | any      | not later | stands
        staged  | waiting | any     | missing  | ahead   | any      | later     | moved
        staged  | waiting | any     | missing  | ahead   | by T1    | not later | in doubt
        staged  | waiting | any     | missing  | ahead   | after T1 | not later | stands
        staged  | waiting | any     | missing  | due     | by T1    | any       | in doubt
        staged  | waiting | any     | missing  | due     | after T1 | any       | stands
        ",
    );
}

/// What the book saw of the row's generation, against the record.
fn seen(case: &Case<'_>, survivor: &Survivor) -> (u32, u32, u64) {
    let version = match case.get("seen") {
        "later" => survivor.record.version + 1,
        "same" => survivor.record.version,
        _earlier => survivor.record.version - 1,
    };
    (survivor.record.generation, survivor.written_in, version)
}

/// The book has the job's end; `agrees` says whether the record ended so too.
#[test]
fn a_row_that_has_ended() {
    table::check(
        &[
            ("book", &["sent", "dead_letter", "cancelled", "suppressed"]),
            ("record", &["scheduled", "queued", "claimed", "handoff", "agrees", "agrees+", "differs", "differs+"]),
            WRITTEN,
            WORKER,
            NEXT,
            ("seen", &["a later generation", "later", "same", "earlier"]),
        ],
        &[
            ("waiting", &["scheduled", "queued"]),
            ("ended", &["agrees", "agrees+", "differs", "differs+"]),
            ("newer", &["a later generation", "later"]),
        ],
        |case| {
            let end = case.get("book");
            let other = if end == "sent" { "dead_letter" } else { "sent" };
            let record = case.get("record").replace("agrees", end).replace("differs", other);
            let mut survivor = survivor(&record, 1, case.get("written"));
            survivor.record.next_attempt_at = time(case.get("next"));
            let row = match case.get("seen") {
                "a later generation" => row(end, REPLAY),
                _same => Row { seen: seen(case, &survivor), ..row(end, 1) },
            };
            say(case, Some(&row), Some(&survivor), &[])
        },
        "
        book | record                     | written | worker   | next  | seen    | answer
        any  | handoff, ended             | now     | any      | any   | any     | stands
        any  | handoff, ended             | before  | any      | any   | newer   | the book wins
        any  | handoff, differs, differs+ | before  | any      | any   | same    | the book wins
        any  | agrees, agrees+            | before  | any      | any   | same    | stands
        any  | waiting, claimed           | any     | any      | any   | newer   | the book wins
        any  | waiting, claimed           | any     | any      | any   | same    | the book wins
        any  | ended                      | before  | any      | any   | earlier | stands
        any  | handoff                    | before  | reported | any   | earlier | stands
        any  | handoff                    | before  | missing  | any   | earlier | in doubt
        any  | claimed                    | any     | reported | any   | earlier | claim dropped
        any  | claimed                    | any     | missing  | any   | earlier | in doubt
        any  | waiting                    | any     | reported | any   | earlier | stands
        any  | waiting                    | any     | missing  | ahead | earlier | stands
        any  | waiting                    | any     | missing  | due   | earlier | in doubt
        ",
    );
}
