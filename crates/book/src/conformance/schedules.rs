//! S1 to S6: schedules, their slots and their jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::job::Job;
use curfew_domain::recurrence::{Ask, Change, Phase, Skip, Slot, SlotName, Span, Timetable, WallClock, What, plan};
use curfew_domain::sealed::Sealed;
use curfew_domain::verb::Verb;
use curfew_domain::{JobId, Key, Moment, Reason, State};
use futures::future::join_all;
use uuid::{NoContext, Timestamp, Uuid};

use super::given::{ask, door, job, mark, minutes, now, record, shards, story};
use super::stories::row;
use crate::{
    Batch, BookError, BookState, ChangeRequest, Changed, Definition, Materialised, PutSchedule, Run, ScheduleRow, ScheduledBook, SlotJobs, SlotState,
};

/// Builds what a promise about schedules is tried on.
#[async_trait]
pub trait ScheduleBench: Send + Sync {
    /// An empty book of its own.
    async fn scheduled(&self) -> Arc<dyn ScheduledBook>;
}

const TENANT: &str = "acme";
const NAME: &str = "daily";
/// One day and a half from 08:00 on: 09:00 of this day and of the next.
const AHEAD: Duration = Duration::from_secs(36 * 3600);
const DATES: [&str; 2] = ["2026-12-01", "2026-12-02"];

struct Utc;

impl WallClock for Utc {
    fn span(&self, _at: Moment) -> Span {
        Span { offset_s: 0, until: None }
    }
}

/// Daily at a cron expression's times, until 17:00, for so many recipients.
pub fn daily(cron: &str, recipients: u32) -> PutSchedule {
    let timetable = Timetable::cron(cron, "UTC", "17:00");
    PutSchedule {
        definition: Definition {
            purpose: "daily".to_owned(),
            timetable,
            catch_up: curfew_domain::recurrence::CatchUp::Each,
            policy: None,
            transport: None,
            recipients,
        },
        private: Sealed::from_bytes(vec![7; 300]),
        fingerprint: format!("{recipients} recipients"),
    }
}

/// A request of `alice` at some minutes after now; jobs released 12 min later than that are the book's alone.
pub fn request(expected: Option<u64>, at: u64) -> ChangeRequest {
    ChangeRequest {
        tenant: TENANT.to_owned(),
        name: NAME.to_owned(),
        expected,
        actor: "alice".to_owned(),
        reason: "the customer asked".to_owned(),
        at: minutes(at),
        book_alone_from: minutes(at + 12),
    }
}

async fn made(book: &dyn ScheduledBook, put: PutSchedule) {
    match book.put_schedule(&request(None, 0), put).await.expect("the book answers") {
        Changed::Done { row, .. } => assert_eq!((row.revision, row.progress.phase), (1, Phase::Active)),
        other => panic!("{other:?}"),
    }
}

async fn stands(book: &dyn ScheduledBook) -> ScheduleRow {
    book.schedule(TENANT, NAME).await.expect("the book answers").expect("it is there")
}

/// Recipient `n`'s job of a slot. Each call draws another id, as each scheduler does.
fn job_of(slot: &Slot, n: u64) -> Job {
    let What::Make { release_at, deadline_at } = slot.what else { panic!("it is skipped") };
    let key = Key::from_parts(TENANT, "daily", &format!("R-{n}"), &slot.name.slot).expect("well formed");
    let id = Timestamp::from_unix(NoContext, now().as_millis().unsigned_abs() / 1_000, 0);
    let business_date = slot.name.slot.clone();
    Job { id: JobId(Uuid::new_v7(id)), key, purpose: "daily".to_owned(), business_date, release_at, deadline_at, ..job(TENANT, n) }
}

/// The next part of the schedule as it stands, with at most so many jobs.
fn batch(row: &ScheduleRow, at: Moment, slots_max: usize, jobs_max: usize) -> Batch {
    let rule = row.definition.timetable.read().expect("a rule");
    let ask = Ask { now: at, horizon: AHEAD, slots_max };
    let planned = plan(&rule, &Utc, row.definition.catch_up, &row.progress, &ask);
    let (mut slots, mut room) = (Vec::new(), jobs_max);
    for slot in planned.slots {
        if matches!(slot.what, What::Skip(_)) {
            slots.push(SlotJobs { slot, jobs: Vec::new(), gone_through: 0 });
            continue;
        }
        if slots.last().is_some_and(|last: &SlotJobs| last.gone_through < row.definition.recipients && matches!(last.slot.what, What::Make { .. })) {
            slots.push(SlotJobs { slot, jobs: Vec::new(), gone_through: 0 });
            continue;
        }
        let begun = row.open.as_ref().filter(|(name, _)| *name == slot.name.slot).map_or(0, |(_, made)| *made);
        let part = u32::try_from(room).expect("few").min(row.definition.recipients - begun);
        let jobs: Vec<Job> = (begun..begun + part).map(|n| job_of(&slot, n.into())).collect();
        room -= jobs.len();
        slots.push(SlotJobs { slot, jobs, gone_through: begun + part });
    }
    let (tenant, name) = (row.tenant.clone(), row.name.clone());
    Batch { tenant, name, revision: row.revision, from: row.progress.cursor, slots, cursor: planned.cursor, next_scan: planned.next_scan }
}

/// Scans the schedule until nothing is left in reach.
async fn scanned(book: &dyn ScheduledBook, at: Moment) -> u32 {
    let mut all = 0;
    for _part in 0..1_000 {
        let row = stands(book).await;
        if row.next_scan.is_none_or(|next| next > at) {
            return all;
        }
        match book.materialise(vec![batch(&row, at, 4, 100)], &door()).await.expect("the book answers")[..] {
            [Materialised::Done { made, .. }] => all += made,
            ref other => panic!("{other:?}"),
        }
    }
    panic!("it doesn't end");
}

async fn board(book: &dyn ScheduledBook, date: &str) -> Vec<Run> {
    book.runs(TENANT, NAME, date, minutes(0)).await.expect("the book answers")
}

fn key(n: u64, slot: &str) -> Key {
    Key::from_parts(TENANT, "daily", &format!("R-{n}"), slot).expect("well formed")
}

/// Of two changes of one revision one is made, and the other is told which stands; what changes nothing raises none.
pub async fn s1_of_two_edits_one_wins(bench: &dyn ScheduleBench) {
    let book = bench.scheduled().await;
    assert_eq!(book.put_schedule(&request(Some(1), 0), daily("0 9 * * *", 2)).await.expect("the book answers"), Changed::Lost(None));
    assert_eq!(book.turn_schedule(&request(None, 0), Change::Pause).await.expect("the book answers"), Changed::Lost(None));
    let first = join_all((0..6).map(|n| book.put_schedule_of(n))).await;
    assert_eq!(first.iter().filter(|c| matches!(c, Changed::Done { .. })).count(), 1);
    assert_eq!(first.iter().filter(|c| **c == Changed::Lost(Some(1))).count(), 5, "{first:?}");

    let edits = ["0 10 * * *", "0 11 * * *", "0 12 * * *", "0 13 * * *"];
    let requests = edits.map(|_| request(Some(1), 1));
    let answers = join_all(edits.iter().zip(&requests).map(|(cron, request)| book.put_schedule(request, daily(cron, 2)))).await;
    let answers: Vec<Changed> = answers.into_iter().map(|a| a.expect("the book answers")).collect();
    let won = answers.iter().position(|a| matches!(a, Changed::Done { .. })).expect("one wins");
    assert!(answers.iter().enumerate().all(|(n, a)| n == won || *a == Changed::Lost(Some(2))), "{answers:?}");
    let row = stands(&*book).await;
    assert_eq!((row.revision, &row.definition), (2, &daily(edits[won], 2).definition));

    for repeated in [Some(1), Some(2), None] {
        let again = book.put_schedule(&request(repeated, 2), daily(edits[won], 2)).await.expect("the book answers");
        assert_eq!(again, Changed::Same(Box::new(row.clone())), "repeating after a lost answer is safe");
    }
    assert_eq!(book.turn_schedule(&request(Some(1), 3), Change::Pause).await.expect("the book answers"), Changed::Lost(Some(2)));
    assert_eq!(book.turn_schedule(&request(None, 3), Change::Resume).await.expect("the book answers"), Changed::Same(Box::new(row)));
    let paused = book.turn_schedule(&request(Some(2), 3), Change::Pause).await.expect("the book answers");
    assert!(matches!(paused, Changed::Done { .. }));
    assert_eq!(stands(&*book).await.revision, 3);
    let nameless = ChangeRequest { name: "a b".to_owned(), ..request(None, 0) };
    assert!(matches!(book.put_schedule(&nameless, daily("0 9 * * *", 1)).await, Err(BookError::Invalid { field: "name", .. })));
    let trail = book.audit_list(None, 10).await.expect("the book answers").items;
    assert_eq!(trail.iter().map(|e| e.action.as_str()).collect::<Vec<_>>(), ["pause_schedule", "edit_schedule", "make_schedule"]);
    assert!(trail.iter().all(|e| e.object == "acme/daily" && e.actor == "alice"));
}

/// A helper of `s1`: six people make one schedule at once, each another.
#[async_trait]
trait PutOf {
    async fn put_schedule_of(&self, n: u32) -> Changed;
}

#[async_trait]
impl PutOf for dyn ScheduledBook {
    async fn put_schedule_of(&self, n: u32) -> Changed {
        self.put_schedule(&request(None, 0), daily(&format!("{n} 9 * * *"), 2)).await.expect("the book answers")
    }
}

/// Whoever materialises, at once, twice or with other bounds: each job is there once, and each slot.
pub async fn s2_a_slot_is_made_once(bench: &dyn ScheduleBench) {
    let book = bench.scheduled().await;
    made(&*book, daily("0 9,15 * * *", 7)).await;
    let row = stands(&*book).await;
    let door = door();
    let callers = (0..8_usize).map(|n| book.materialise(vec![batch(&row, now(), 1 + n % 4, 3 + 10 * (n % 3))], &door));
    let answers = join_all(callers).await;
    let count = |answer: Result<Vec<Materialised>, BookError>| match answer.expect("the book answers")[..] {
        [Materialised::Done { made, .. }] => made,
        ref other => panic!("{other:?}"),
    };
    let at_once: u32 = answers.into_iter().map(count).sum();
    let later = scanned(&*book, now()).await;
    assert_eq!(at_once + later, 4 * 7, "four slots of seven");
    assert_eq!(scanned(&*book, now()).await, 0);
    for date in DATES {
        let runs = board(&*book, date).await;
        assert_eq!(runs.iter().map(|r| r.slot.clone()).collect::<Vec<_>>(), [format!("{date}T0900"), format!("{date}T1500")]);
        assert!(runs.iter().all(|r| (r.state, r.expected, r.planned) == (SlotState::Made, 7, 7)), "{runs:?}");
        assert_eq!(book.day(date, None).await.expect("the book answers").accepted, 14, "each went through the door once");
    }
    // A crash between a part and the next: the slot stays open, and goes on where it was.
    let book = bench.scheduled().await;
    made(&*book, daily("0 9 * * *", 7)).await;
    let part = batch(&stands(&*book).await, now(), 4, 3);
    book.materialise(vec![part.clone()], &door).await.expect("the book answers");
    let row = stands(&*book).await;
    assert_eq!((row.open.clone(), row.progress.cursor < minutes(60)), (Some((DATES[0].to_owned(), 3)), true));
    assert_eq!(board(&*book, DATES[0]).await[0].state, SlotState::Open);
    let repeated = book.materialise(vec![part], &door).await.expect("the book answers");
    assert_eq!(repeated, [Materialised::Done { made: 0, taken: 3, stood: 0 }]);
    assert_eq!(scanned(&*book, now()).await, 11);
}

/// One date has one job whatever the forms of its slots; what somebody makes is not skipped over.
pub async fn s2_a_date_has_no_second_job(bench: &dyn ScheduleBench) {
    let book = bench.scheduled().await;
    made(&*book, daily("0 9 * * *", 2)).await;
    let row = stands(&*book).await;
    let mut part = batch(&row, now(), 1, 1);
    book.materialise(vec![part.clone()], &door()).await.expect("the book answers");
    let slot = |what| Slot { what, ..part.slots[0].slot.clone() };
    let skipped = SlotJobs { slot: slot(What::Skip(Skip::CatchUp)), jobs: Vec::new(), gone_through: 0 };
    let skip = Batch { slots: vec![skipped], cursor: minutes(600), ..part.clone() };
    book.materialise(vec![skip], &door()).await.expect("the book answers");
    assert!(stands(&*book).await.progress.cursor < minutes(60), "the scan doesn't pass a slot that is being made");
    scanned(&*book, now()).await;

    let name = SlotName { date: part.slots[0].slot.name.date, slot: format!("{}T1500", DATES[0]) };
    let second = Slot { name, at: minutes(420), what: What::Make { release_at: minutes(420), deadline_at: minutes(500) } };
    part.slots = vec![SlotJobs { jobs: vec![job_of(&second, 0)], slot: second, gone_through: 2 }];
    assert_eq!(book.materialise(vec![part], &door()).await.expect("the book answers"), [Materialised::Done { made: 0, taken: 0, stood: 1 }]);
    assert_eq!(board(&*book, DATES[0]).await.len(), 1);
}

/// A batch of an older revision, or one that leaves a gap, writes nothing; each of a call stands by itself.
pub async fn s3_an_outdated_batch_writes_nothing(bench: &dyn ScheduleBench) {
    let book = bench.scheduled().await;
    made(&*book, daily("0 9 * * *", 2)).await;
    let older = batch(&stands(&*book).await, now(), 4, 100);
    let edited = book.put_schedule(&request(Some(1), 0), daily("0 10 * * *", 2)).await.expect("the book answers");
    assert!(matches!(edited, Changed::Done { withdrawn: 0, left: 0, .. }));
    let newer = batch(&stands(&*book).await, now(), 4, 100);
    let gap = Batch { from: newer.from.plus(Duration::from_secs(1)), ..newer.clone() };
    let nobodys = Batch { name: "another".to_owned(), ..newer.clone() };
    let answers = book.materialise(vec![older, gap, nobodys, newer.clone(), newer], &door()).await.expect("the book answers");
    let (done, outdated) = (Materialised::Done { made: 4, taken: 0, stood: 0 }, Materialised::Outdated);
    assert_eq!(answers, [outdated, outdated, outdated, done, outdated], "and one of a schedule in a call");
    let runs = board(&*book, DATES[0]).await;
    assert_eq!(runs.iter().map(|r| r.window.expect("it has one").0).collect::<Vec<_>>(), [minutes(120)]);
    let many = SlotJobs { slot: batch(&stands(&*book).await, minutes(1_440), 1, 1).slots[0].slot.clone(), jobs: Vec::new(), gone_through: 0 };
    let jobs = (0..501).map(|n| job_of(&many.slot, n)).collect();
    let many = Batch { slots: vec![SlotJobs { jobs, ..many }], ..batch(&stands(&*book).await, now(), 1, 1) };
    assert!(matches!(book.materialise(vec![many], &door()).await, Err(BookError::Invalid { field: "jobs", .. })));
}

/// An edit replaces what is the book's alone, under the same keys, and leaves what is staged, near, ended or asked for.
pub async fn s4_an_edit_replaces_what_is_not_yet_staged(bench: &dyn ScheduleBench) {
    let book = bench.scheduled().await;
    made(&*book, daily("0 9 * * *", 3)).await;
    assert_eq!(scanned(&*book, now()).await, 6);
    let before = row_of(&*book, &key(0, DATES[1])).await;
    // Today's first job is staged: an edit leaves its slot whole. Tomorrow's third was cancelled by an operator, and stays so.
    book.mark_staged(&[mark(&key(0, DATES[0]), 1)]).await.expect("the book answers");
    book.open_verb(ask(&key(2, DATES[1]), Verb::Cancel)).await.expect("the book answers");
    let edited = book.put_schedule(&request(Some(1), 1), daily("0 10 * * *", 3)).await.expect("the book answers");
    let Changed::Done { withdrawn, left, row: stands_now } = edited else { panic!("{edited:?}") };
    assert_eq!((withdrawn, left), (2, 3), "tomorrow's two are taken back, today's three run");
    assert_eq!((stands_now.progress.cursor, stands_now.next_scan), (minutes(1), Some(minutes(1))));
    let board_now = board(&*book, DATES[1]).await;
    assert_eq!((board_now[0].state, board_now[0].why.as_deref()), (SlotState::Cancelled, Some("edit_schedule")));
    let old = book.by_id(before.job.id).await.expect("the book answers").expect("it is there");
    assert_eq!((old.state, old.reason, old.history.len()), (BookState::Cancelled, Some(Reason::Operator), 1));

    assert_eq!(scanned(&*book, minutes(1)).await, 2, "the slot gets its jobs again, but for the one that was cancelled by hand");
    let after = row_of(&*book, &key(0, DATES[1])).await;
    assert_eq!((after.job.release_at, after.state), (minutes(26 * 60), BookState::Planned));
    assert_ne!(after.job.id, before.job.id);
    assert_eq!(row_of(&*book, &key(2, DATES[1])).await.state, BookState::Cancelled);
    let today = board(&*book, DATES[0]).await;
    assert_eq!((today[0].state, today[0].planned, today[0].staged), (SlotState::Made, 2, 1));
    assert_eq!(today[0].window.expect("it has one").0, minutes(60), "what was made stands as it was made");
    let day = book.day(DATES[1], None).await.expect("the book answers");
    assert_eq!((day.accepted, day.planned, day.cancelled), (5, 2, 3), "each job is counted, and the sum holds");
    let planned = book.plan(&shards(), minutes(3_000), 100).await.expect("the book answers");
    assert_eq!(planned.len(), 4, "a job that was taken back is never staged");
}

/// Pausing takes back what it can of every slot; resuming makes no past slot; what stands is not made again.
pub async fn s4_a_pause_takes_back_and_a_resume_does_not_backfill(bench: &dyn ScheduleBench) {
    let book = bench.scheduled().await;
    made(&*book, daily("0 9 * * *", 3)).await;
    scanned(&*book, now()).await;
    book.mark_staged(&[mark(&key(0, DATES[0]), 1)]).await.expect("the book answers");
    let paused = book.turn_schedule(&request(Some(1), 10), Change::Pause).await.expect("the book answers");
    assert!(matches!(paused, Changed::Done { withdrawn: 5, left: 1, .. }), "{paused:?}");
    assert_eq!(scanned(&*book, minutes(10)).await, 0);
    assert_eq!(book.plan(&shards(), minutes(3_000), 100).await.expect("the book answers").len(), 0, "nothing goes out while it is paused");
    // Tomorrow's 09:00 passes, and it is resumed at 10:00.
    assert_eq!(scanned(&*book, minutes(25 * 60 + 30)).await, 0);
    let tomorrow = board(&*book, DATES[1]).await;
    assert_eq!((tomorrow[0].state, tomorrow[0].why.as_deref()), (SlotState::Skipped, Some("pause")));
    let resumed = book.turn_schedule(&request(Some(2), 26 * 60), Change::Resume).await.expect("the book answers");
    assert!(matches!(resumed, Changed::Done { withdrawn: 0, left: 1, .. }), "{resumed:?}");
    assert_eq!(scanned(&*book, minutes(26 * 60)).await, 3, "the day after");
    assert_eq!(board(&*book, DATES[1]).await[0].state, SlotState::Skipped);

    let deleted = book.turn_schedule(&request(None, 26 * 60 + 1), Change::Delete).await.expect("the book answers");
    assert!(matches!(deleted, Changed::Done { withdrawn: 3, left: 1, .. }), "{deleted:?}");
    assert!(book.schedules(None, None, 10).await.expect("the book answers").items.is_empty());
    assert!(book.due_schedules(minutes(100_000), 10).await.expect("the book answers").is_empty());
    assert_eq!(book.turn_schedule(&request(None, 26 * 60 + 1), Change::Resume).await.expect("the book answers"), Changed::Lost(None));
    let again = book.put_schedule(&request(None, 26 * 60 + 2), daily("0 12 * * *", 3)).await.expect("the book answers");
    assert!(matches!(again, Changed::Done { ref row, .. } if row.revision == 5), "{again:?}");
    assert_eq!(scanned(&*book, minutes(26 * 60 + 2)).await, 3, "what was taken back is free; the slot of this day stands as it was skipped");
}

/// A verb that is open on a job keeps an edit from its slot: the ledger may be deciding about it.
pub async fn s4_a_job_with_an_open_verb_is_left(bench: &dyn ScheduleBench) {
    let book = bench.scheduled().await;
    made(&*book, daily("0 9 * * *", 2)).await;
    scanned(&*book, now()).await;
    let near = crate::VerbRequest { book_alone_from: minutes(3_000), ..ask(&key(0, DATES[1]), Verb::Cancel) };
    assert!(matches!(book.open_verb(near).await.expect("the book answers"), crate::OpenedVerb::Open(..)));
    let edited = book.put_schedule(&request(Some(1), 1), daily("30 9 * * *", 2)).await.expect("the book answers");
    assert!(matches!(edited, Changed::Done { withdrawn: 2, left: 2, .. }), "{edited:?}");
    assert_eq!(row_of(&*book, &key(1, DATES[1])).await.state, BookState::Planned, "its slot is left whole");
}

/// Who is due is given in order and with bounds; one that is put off stands in front of no other.
pub async fn s5_a_schedule_in_trouble_stops_no_other(bench: &dyn ScheduleBench) {
    let book = bench.scheduled().await;
    for n in 0..5_u64 {
        let request = ChangeRequest { name: format!("s{n}"), ..request(None, n) };
        assert!(matches!(book.put_schedule(&request, daily("0 9 * * *", 1)).await, Ok(Changed::Done { .. })));
    }
    let due = async |at, limit| -> Vec<String> {
        let due = book.due_schedules(at, limit).await.expect("the book answers");
        assert!(due.iter().all(|d| d.row.as_ref().is_ok_and(|row| row.name == d.name && row.revision == d.revision)));
        due.into_iter().map(|d| d.name).collect()
    };
    assert_eq!(due(minutes(2), 10).await, ["s0", "s1", "s2"]);
    assert_eq!(due(minutes(9), 2).await, ["s0", "s1"]);
    book.put_off(TENANT, "s0", 9, minutes(60), "another revision's").await.expect("the book answers");
    book.put_off(TENANT, "s1", 1, minutes(60), "the zone is unknown").await.expect("the book answers");
    assert_eq!(due(minutes(9), 2).await, ["s0", "s2"]);
    let troubled = book.schedule(TENANT, "s1").await.expect("the book answers").expect("it is there");
    assert_eq!((troubled.trouble.as_deref(), troubled.next_scan), (Some("the zone is unknown"), Some(minutes(60))));
    let part = batch(&troubled, minutes(60), 4, 10);
    book.materialise(vec![part], &door()).await.expect("the book answers");
    assert_eq!(book.schedule(TENANT, "s1").await.expect("the book answers").and_then(|row| row.trouble), None, "a scan that went well ends it");

    let first = book.schedules(Some(TENANT), None, 3).await.expect("the book answers");
    let rest = book.schedules(None, first.next_cursor.as_deref(), 3).await.expect("the book answers");
    let names = |items: &[ScheduleRow]| items.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
    assert_eq!((names(&first.items), names(&rest.items)), (vec!["s0".into(), "s1".into(), "s2".into()], vec!["s3".to_owned(), "s4".to_owned()]));
    assert_eq!(rest.next_cursor, None);
    assert!(book.schedules(Some("other"), None, 3).await.expect("the book answers").items.is_empty());
    assert!(matches!(book.schedules(None, Some("x"), 3).await, Err(BookError::Invalid { field: "cursor", .. })));
}

/// What can't be read is named to its scheduler and left out of lists; the others are scanned and listed, also behind a page of nothing else.
/// `spoil` makes the definitions of `s2` and `s3` unreadable.
pub async fn s5_one_that_cannot_be_read_stops_no_other(book: &dyn ScheduledBook, spoil: impl AsyncFnOnce()) {
    for n in 0..5_u64 {
        let request = ChangeRequest { name: format!("s{n}"), ..request(None, 0) };
        book.put_schedule(&request, daily("0 9 * * *", 1)).await.expect("the book answers");
    }
    spoil().await;
    let due = book.due_schedules(now(), 10).await.expect("the book answers");
    let readable: BTreeMap<_, _> = due.iter().map(|d| (d.name.as_str(), d.row.is_ok())).collect();
    assert_eq!(readable, BTreeMap::from([("s0", true), ("s1", true), ("s2", false), ("s3", false), ("s4", true)]));
    for spoilt in due.iter().filter(|d| d.row.is_err()) {
        book.put_off(TENANT, &spoilt.name, spoilt.revision, minutes(60), "can't be read").await.expect("the book answers");
    }
    let due: BTreeSet<_> = book.due_schedules(now(), 10).await.expect("the book answers").into_iter().map(|d| d.name).collect();
    assert_eq!(due, ["s0", "s1", "s4"].map(str::to_owned).into());

    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let page = book.schedules(Some(TENANT), cursor.as_deref(), 2).await.expect("one that can't be read fails no list");
        pages.push(page.items.into_iter().map(|row| row.name).collect::<Vec<_>>());
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec!["s0", "s1"], vec![], vec!["s4"]]);
}

/// A day's board: each slot as what it came to.
pub async fn s6_a_board_shows_what_became_of_each_slot(bench: &dyn ScheduleBench) {
    let book = bench.scheduled().await;
    made(&*book, daily("0 9 * * *", 5)).await;
    scanned(&*book, now()).await;
    let jobs: Vec<Job> = join_all((0..5).map(|n| row_of_key(&*book, n))).await;
    let marks: Vec<_> = jobs[..4].iter().map(|job| mark(&job.key, 1)).collect();
    book.mark_staged(&marks).await.expect("the book answers");
    let ends = [State::Sent, State::Cancelled, State::Suppressed];
    let stories = jobs.iter().zip(ends).map(|(job, end)| story(record(job, 1, 5, end)));
    book.settle(stories.collect(), minutes(61)).await.expect("the book answers");
    let runs = book.runs(TENANT, NAME, DATES[0], minutes(62)).await.expect("the book answers");
    let Run { slot, at, window, state, expected, planned, staged, sent, dead_letter, cancelled, suppressed, late, in_review, why } = &runs[0];
    assert_eq!((slot.as_str(), *at, *window, *state), (DATES[0], minutes(60), Some((minutes(60), minutes(540))), SlotState::Made));
    assert_eq!((expected, planned, staged, sent, dead_letter, cancelled, suppressed), (&5, &1, &1, &1, &0, &1, &1));
    assert_eq!((late, in_review, why), (&2, &0, &None), "two should be out by now");
    assert_eq!(board(&*book, "2026-12-24").await, []);
    assert!(matches!(book.runs(TENANT, "another", DATES[0], now()).await, Err(BookError::NotFound)));
}

async fn row_of(book: &dyn ScheduledBook, key: &Key) -> crate::Row {
    row(book, key).await
}

async fn row_of_key(book: &dyn ScheduledBook, n: u64) -> Job {
    row(book, &key(n, DATES[0])).await.job
}
