//! What the loop makes of schedules on a SQLite book: parts, helpers beside it, and a bad one that stops nobody.

use std::collections::BTreeMap;

use curfew_book::sql::SqlBook;
use curfew_book::{Book, ChangeRequest, Definition, Filter, PutSchedule};
use curfew_domain::recurrence::{CatchUp, Span, Timetable, WallClock, plan};
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::{JobId, Key, Shard};
use curfew_ledger::sql::{Options, SqlLedger};
use curfew_store::{OpenOptions, Sqlite};
use uuid::Uuid;

use super::*;

const NOW: Moment = Moment::from_millis(1_796_040_000_000); // 2026-11-30T12:00:00Z

struct Utc;

impl WallClock for Utc {
    fn span(&self, _at: Moment) -> Span {
        Span { offset_s: 0, until: None }
    }
}

/// Writes for all but those whose names say what is wrong with them.
struct Written;

struct Of(String);

impl Scribe for Written {
    fn plan(&self, row: &ScheduleRow, ask: &Ask) -> Result<Plan, String> {
        assert!(row.name != "panics", "as its name says");
        let rule = row.definition.timetable.read().map_err(|e| e.to_string())?;
        Ok(plan(&rule, &Utc, row.definition.catch_up, &row.progress, ask))
    }

    fn open<'a>(&'a self, row: &ScheduleRow) -> Result<Box<dyn Letters + 'a>, String> {
        if row.name == "shut" { Err("can't be opened".to_owned()) } else { Ok(Box::new(Of(row.name.clone()))) }
    }
}

impl Letters for Of {
    fn job(&self, n: u32, slot: &Slot, now: Moment) -> Result<Job, String> {
        let What::Make { release_at, deadline_at } = slot.what else { return Err("it is skipped".to_owned()) };
        // The book refuses a job of another tenant's schedule.
        let tenant = if self.0 == "foreign" { "other" } else { "acme" };
        let subject_ref = format!("R-{n}");
        Ok(Job {
            id: JobId(Uuid::new_v4()),
            key: Key::from_parts(tenant, &self.0, &subject_ref, &slot.name.slot).map_err(|(part, e)| format!("{part}: {e}"))?,
            tenant: tenant.to_owned(),
            purpose: self.0.clone(),
            subject_ref,
            business_date: slot.name.slot.clone(),
            shard: Shard::of_tenant(tenant, 4),
            recipient_ref: RecipientRef(format!("{n:032x}")),
            recipient_masked: "a…@e…".to_owned(),
            letter: Sealed::from_bytes(vec![7; 300]),
            content_revision: 1,
            fingerprints: BTreeMap::new(),
            release_at,
            deadline_at,
            local: None,
            policy: "default".to_owned(),
            transport: "default".to_owned(),
            labels: BTreeMap::new(),
            accepted_at: now,
            trace: None,
        })
    }
}

struct House {
    book: Arc<SqlBook>,
    ledger: Arc<SqlLedger>,
    _folder: tempfile::TempDir,
}

async fn house() -> House {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Sqlite::open(OpenOptions::new(folder.path())).await.expect("a store");
    let options = Options { clock: Arc::new(|| NOW), ..Options::default() };
    let ledger = Arc::new(SqlLedger::open(store.clone(), options).await.expect("a ledger"));
    House { book: Arc::new(SqlBook::open(store).await.expect("a book")), ledger, _folder: folder }
}

impl House {
    fn materialiser(&self) -> Materialiser {
        Materialiser::new(Arc::clone(&self.ledger) as _, Arc::clone(&self.book) as _, Arc::new(Written), Arc::default())
    }

    async fn put(&self, name: &str, cron: &str, recipients: u32) {
        let definition = Definition {
            purpose: name.to_owned(),
            timetable: Timetable { deadline_days: 1, ..Timetable::cron(cron, "UTC", "23:59") },
            catch_up: CatchUp::One,
            policy: None,
            transport: None,
            recipients,
        };
        let put = PutSchedule { definition, private: Sealed::from_bytes(vec![7; 100]), fingerprint: name.to_owned() };
        let request = ChangeRequest {
            tenant: "acme".to_owned(),
            name: name.to_owned(),
            expected: None,
            actor: "alice".to_owned(),
            reason: "a test".to_owned(),
            at: NOW,
            book_alone_from: NOW,
        };
        self.book.put_schedule(&request, put).await.expect("it is put");
    }

    async fn jobs(&self, purpose: &str) -> usize {
        let (mut count, mut cursor) = (0, None);
        loop {
            let page = self.book.list(&Filter { limit: 500, cursor, ..Filter::default() }).await.expect("a page");
            count += page.items.iter().filter(|view| view.row.job.purpose == purpose).count();
            cursor = page.next_cursor;
            if cursor.is_none() {
                return count;
            }
        }
    }
}

async fn to_the_end(materialiser: &Materialiser) {
    for _round in 0..100 {
        if !materialiser.step().await.expect("the stores answer") {
            return;
        }
    }
    panic!("it doesn't end");
}

#[tokio::test]
async fn a_day_of_slots_is_made_in_parts_whoever_makes_them() {
    let house = house().await;
    // 24 slots of 70 recipients: more than three rounds may hold.
    house.put("hourly", "30 */1 * * *", 70).await;
    house.put("daily", "0 9 * * *", 3).await;
    let (one, other) = (house.materialiser(), house.materialiser());
    tokio::join!(to_the_end(&one), to_the_end(&other));
    to_the_end(&one).await;
    assert_eq!((house.jobs("hourly").await, house.jobs("daily").await), (24 * 70, 3));
    assert!(!one.step().await.expect("the stores answer"), "nothing is due any more");
}

#[tokio::test]
async fn what_can_not_be_made_is_put_off_alone() {
    let house = house().await;
    for name in ["panics", "shut", "foreign", "sound"] {
        house.put(name, "0 9 * * *", 2).await;
    }
    to_the_end(&house.materialiser()).await;
    assert_eq!(house.jobs("sound").await, 2);
    for (name, says) in [("panics", "panicked"), ("shut", "can't be opened")] {
        let row = house.book.schedule("acme", name).await.expect("the book answers").expect("it is there");
        assert!(row.trouble.as_deref().is_some_and(|trouble| trouble.contains(says)), "{name}: {:?}", row.trouble);
        assert_eq!((house.jobs(name).await, row.next_scan), (0, Some(NOW.plus(PUT_OFF))));
    }
    assert_eq!(house.book.schedule("acme", "sound").await.expect("the book answers").expect("it is there").trouble, None);
}
